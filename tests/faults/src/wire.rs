//! The JSON of lists and watch events, as far as a watcher looks into it. Pure.

use std::borrow::Cow;

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::{
    history::{Event, Item, Kind},
    object::{NAMESPACE_PREFIX, digest, key_id},
};

/// One line of a watch stream.
#[derive(Debug)]
pub(crate) enum Line {
    /// A change of an object of the harness; the sequence number is that of the body.
    Change(Event, u64),
    /// A change of somebody else's object.
    Foreign(u64),
    /// A bookmark; `true` when it ends the initial events.
    Bookmark(u64, bool),
    /// An error: code and message.
    Error(u16, String),
}

/// A list.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Its `resourceVersion`.
    pub(crate) revision: u64,
    /// The objects of the harness in it.
    pub(crate) items: Vec<Item>,
}

#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: RawObject<'a>,
}

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(borrow)]
    metadata: RawMeta<'a>,
    #[serde(borrow)]
    items: Vec<RawObject<'a>>,
}

#[derive(Deserialize)]
struct RawObject<'a> {
    #[serde(default, borrow)]
    metadata: RawMeta<'a>,
    #[serde(default, borrow)]
    data: RawData<'a>,
    #[serde(default)]
    code: u16,
    #[serde(default, borrow)]
    message: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawMeta<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    labels: RawLabels<'a>,
    #[serde(borrow)]
    annotations: RawAnnotations<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawLabels<'a> {
    #[serde(borrow)]
    tier: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawAnnotations<'a> {
    #[serde(rename = "k8s.io/initial-events-end", borrow)]
    end: Option<Cow<'a, str>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawData<'a> {
    #[serde(borrow)]
    seq: Cow<'a, str>,
    #[serde(borrow)]
    payload: Cow<'a, str>,
}

/// Reads one line of a watch.
pub(crate) fn line(bytes: &[u8]) -> Result<Line> {
    let raw: RawLine<'_> = serde_json::from_slice(bytes).with_context(|| format!("a watch line: {}", start_of(bytes)))?;
    let kind = match &*raw.kind {
        "ERROR" => return Ok(Line::Error(raw.object.code, raw.object.message.into_owned())),
        "BOOKMARK" => return Ok(Line::Bookmark(raw.object.metadata.revision()?, raw.object.metadata.annotations.end.is_some())),
        "ADDED" => Kind::Added,
        "MODIFIED" => Kind::Modified,
        "DELETED" => Kind::Deleted,
        other => anyhow::bail!("an event of type {other:?}"),
    };
    let Some(Item { key, revision, digest }) = raw.object.item()? else { return Ok(Line::Foreign(raw.object.metadata.revision()?)) };
    Ok(Line::Change(Event { kind, key, revision, digest }, raw.object.data.seq.parse().unwrap_or(0)))
}

/// Reads a list.
pub(crate) fn list(bytes: &[u8]) -> Result<Listing> {
    let raw: RawList<'_> = serde_json::from_slice(bytes).with_context(|| format!("a list: {}", start_of(bytes)))?;
    let items = raw.items.iter().filter_map(|o| o.item().transpose()).collect::<Result<_>>()?;
    Ok(Listing { revision: raw.metadata.revision()?, items })
}

/// The floor that a 410 names: `too old resource version: N (F)`.
#[must_use]
pub(crate) fn floor(message: &str) -> Option<u64> {
    message.strip_prefix("too old resource version: ")?.split_once('(')?.1.strip_suffix(')')?.parse().ok()
}

impl RawObject<'_> {
    /// `None` when it is not the harness's.
    fn item(&self) -> Result<Option<Item>> {
        let meta = &self.metadata;
        if !meta.namespace.starts_with(NAMESPACE_PREFIX) {
            return Ok(None);
        }
        let digest = digest(&meta.labels.tier, &self.data.seq, &self.data.payload);
        Ok(Some(Item { key: key_id(&meta.namespace, &meta.name), revision: meta.revision()?, digest }))
    }
}

impl RawMeta<'_> {
    fn revision(&self) -> Result<u64> {
        self.resource_version.parse().with_context(|| format!("resourceVersion {:?} of {:?}", self.resource_version, self.name))
    }
}

fn start_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{Draft, Resource};

    #[test]
    fn a_change_a_bookmark_and_an_error_are_read() {
        let draft = Draft { namespace: "faults-1".into(), name: "x".into(), tier: 2, seq: 9, payload_bytes: 4 };
        let stored = String::from_utf8(draft.stored(Resource::ConfigMaps)).expect("ASCII");
        let object = stored.trim_end().replace(r#""creationTimestamp""#, r#""resourceVersion":"12","creationTimestamp""#);
        let read = line(format!(r#"{{"type":"MODIFIED","object":{object}}}"#).as_bytes()).expect("well formed");
        let event = Event { kind: Kind::Modified, key: draft.id(), revision: 12, digest: draft.digest() };
        assert!(matches!(read, Line::Change(e, 9) if e == event), "{read:?}");

        let end = br#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert!(matches!(line(end), Ok(Line::Bookmark(7, true))));

        let gone = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 3 (9)","reason":"Expired","code":410}}"#;
        let Ok(Line::Error(410, message)) = line(gone) else { panic!("an error line") };
        assert_eq!(floor(&message), Some(9));
    }

    #[test]
    fn foreign_objects_and_broken_lines_are_told_apart() {
        let foreign =
            br#"{"type":"ADDED","object":{"metadata":{"name":"x","namespace":"kube-system","resourceVersion":"5"},"data":{"a":"b"}}}"#;
        assert!(matches!(line(foreign), Ok(Line::Foreign(5))));
        assert!(line(br#"{"type":"ADDED","object":{"metadata":{"name":"x"}}}"#).is_err());
        assert!(line(b"{").is_err());
        assert!(line(br#"{"type":"NEW","object":{}}"#).is_err());
    }
}
