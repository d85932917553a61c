//! Around the items of a list: what it says about itself, before them or after them. Knows no item.

use super::{Form, Style, columns_into, revision_member_into};
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

impl Form {
    /// Appends what stands before the first item of a list. Items are joined by `,`.
    pub fn list_open_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        if matches!(self.style, Style::Custom) {
            out.extend_from_slice(&self.head);
        } else {
            out.extend_from_slice(b"{\"kind\":");
            out.extend_from_slice(&self.list_kind);
            // The head from `,"apiVersion":` on: the same for an object and its list.
            let at = memchr::memmem::find(&self.head, b",\"apiVersion\":").unwrap_or(0);
            out.extend_from_slice(&self.head[at..]);
            out.extend_from_slice(b"\"metadata\":{");
            revision_member_into(meta.revision, out);
            if let Some(token) = &meta.continue_token {
                out.push(b',');
                continue_into(token, out);
            }
            if let Some(remaining) = meta.remaining {
                out.push(b',');
                remaining_into(remaining, out);
            }
            // Lists of custom resources, and of metadata alone, are shards without saying so, as the real server makes them.
            if let (Some(shard), Style::BuiltIn | Style::Converted(_)) = (&meta.shard, &self.style) {
                out.extend_from_slice(b",\"shardInfo\":{\"selector\":");
                encode::string_into(shard, out);
                out.push(b'}');
            }
            out.extend_from_slice(b"},");
        }
        if let Style::Table(rows) = &self.style {
            columns_into(Some(rows.columns()), out);
            return out.extend_from_slice(b"\"rows\":[");
        }
        out.extend_from_slice(b"\"items\":[");
    }

    /// Appends what stands after the last item of a list, without a newline (kube-apiserver ends it with one).
    pub fn list_close_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        out.push(b']');
        if matches!(self.style, Style::Custom) {
            out.extend_from_slice(b",\"kind\":");
            out.extend_from_slice(&self.list_kind);
            out.extend_from_slice(b",\"metadata\":{");
            continue_into(meta.continue_token.as_deref().unwrap_or(""), out);
            out.push(b',');
            if let Some(remaining) = meta.remaining {
                remaining_into(remaining, out);
                out.push(b',');
            }
            revision_member_into(meta.revision, out);
            out.push(b'}');
        }
        out.push(b'}');
    }

    /// Appends a list without items. Of metadata alone, and in the default Table, they are `null`, as kube-apiserver makes them: its empty page is
    /// a nil slice.
    pub fn empty_list_into(&self, meta: &ListMeta, out: &mut Vec<u8>) {
        self.list_open_into(meta, out);
        self.list_close_into(meta, out);
        let is_nil = match &self.style {
            Style::Partial(_) => true,
            Style::Table(rows) => rows.are_nil_when_empty(),
            Style::BuiltIn | Style::Custom | Style::Converted(_) => false,
        };
        if is_nil {
            out.truncate(out.len() - "[]}".len());
            out.extend_from_slice(b"null}");
        }
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
    use crate::MetaVersion;
    use model::Storage;

    #[test]
    fn an_empty_custom_page_with_more_to_come() {
        let form = Form::custom("ex.io/v1", "Widget", "WidgetList");
        let meta =
            ListMeta { revision: Revision(9), continue_token: Some("abc".to_owned()), remaining: Some(12), shard: Some("s".to_owned()) };
        let mut out = Vec::new();
        form.list_open_into(&meta, &mut out);
        form.list_close_into(&meta, &mut out);
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
        let text = |form: &Form| {
            let mut out = Vec::new();
            form.list_open_into(&meta, &mut out);
            String::from_utf8(out).expect("UTF-8")
        };
        let info = r#""shardInfo":{"selector":"shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"}"#;
        assert_eq!(
            text(&Form::built_in("v1", "ConfigMap", "ConfigMapList", "")),
            format!(
                r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"267","continue":"eyJ2","remainingItemCount":5,{info}}},"items":["#
            )
        );
        assert!(text(&Form::built_in("events.k8s.io/v1", "Event", "EventList", "")).contains(info));
        let storage = Storage::test_config_maps();
        for form in [Form::metadata_only(MetaVersion::V1, &storage), Form::custom("ex.io/v1", "Widget", "WidgetList")] {
            assert!(!text(&form).contains("shardInfo"));
        }
    }
}
