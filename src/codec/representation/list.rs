//! What a list says about itself, before its items or after them.

use super::revision_into;
use crate::encode;
use model::Revision;

/// What a list says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMeta {
    /// `resourceVersion` of the list.
    pub revision: Revision,
    /// `continue`, when there are more pages. Written as it is: base64url has nothing to escape.
    pub continue_token: Option<String>,
    /// `remainingItemCount`, when known.
    pub remaining: Option<u64>,
    /// `shardInfo.selector`, of a built-in resource's list that is a shard.
    pub shard: Option<String>,
}

impl ListMeta {
    /// Appends the member `metadata` in the order of the Go struct. `shard`: lists of custom resources, and of metadata alone, are shards without saying so,
    /// as the real server makes them.
    pub(super) fn struct_order_into(&self, shard: Option<&str>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"metadata\":{");
        revision_into(self.revision, out);
        if let Some(token) = &self.continue_token {
            out.push(b',');
            continue_into(token, out);
        }
        if let Some(remaining) = self.remaining {
            out.push(b',');
            remaining_into(remaining, out);
        }
        if let Some(shard) = shard {
            out.extend_from_slice(b",\"shardInfo\":{\"selector\":");
            encode::string_into(shard, out);
            out.push(b'}');
        }
        out.push(b'}');
    }

    /// Appends the same sorted. A custom resource's list always has a token.
    pub(super) fn sorted_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"metadata\":{");
        continue_into(self.continue_token.as_deref().unwrap_or(""), out);
        out.push(b',');
        if let Some(remaining) = self.remaining {
            remaining_into(remaining, out);
            out.push(b',');
        }
        revision_into(self.revision, out);
        out.push(b'}');
    }
}

fn continue_into(token: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"continue\":\"");
    out.extend_from_slice(token.as_bytes());
    out.push(b'"');
}

fn remaining_into(remaining: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"remainingItemCount\":");
    encode::revision_into(remaining, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Encoder, MetaVersion};
    use model::Storage;

    #[test]
    fn an_empty_custom_page_with_more_to_come() {
        let encoder = Encoder::custom("ex.io/v1", "Widget", "WidgetList");
        let meta =
            ListMeta { revision: Revision(9), continue_token: Some("abc".to_owned()), remaining: Some(12), shard: Some("s".to_owned()) };
        let mut out = Vec::new();
        encoder.list_prologue_into(&meta, &mut out);
        encoder.list_epilogue_into(&meta, &mut out);
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            r#"{"apiVersion":"ex.io/v1","items":[],"kind":"WidgetList","metadata":{"continue":"abc","remainingItemCount":12,"resourceVersion":"9"}}"#
        );
    }

    /// Recorded from kube-apiserver 1.36.3 with `ShardedListAndWatch=true`.
    #[test]
    fn only_lists_of_built_ins_say_that_they_are_shards() {
        let selector = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')".to_owned();
        let meta = ListMeta { revision: Revision(267), continue_token: Some("eyJ2".to_owned()), remaining: Some(5), shard: Some(selector) };
        let text = |encoder: &Encoder| {
            let mut out = Vec::new();
            encoder.list_prologue_into(&meta, &mut out);
            String::from_utf8(out).expect("UTF-8")
        };
        let info = r#""shardInfo":{"selector":"shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"}"#;
        assert_eq!(
            text(&Encoder::built_in("v1", "ConfigMap", "ConfigMapList", "")),
            format!(
                r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"267","continue":"eyJ2","remainingItemCount":5,{info}}},"items":["#
            )
        );
        assert!(text(&Encoder::built_in("events.k8s.io/v1", "Event", "EventList", "")).contains(info));
        let storage = Storage::test_config_maps();
        for encoder in [Encoder::metadata_only(MetaVersion::V1, &storage), Encoder::custom("ex.io/v1", "Widget", "WidgetList")] {
            assert!(!text(&encoder).contains("shardInfo"));
        }
    }
}
