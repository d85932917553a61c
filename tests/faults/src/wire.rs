//! Lists and watch events, as far as a watcher looks into them: their JSON here, their protobuf in a module. Pure.

pub(crate) mod protobuf;

use std::borrow::Cow;

use anyhow::{Context, Result};
use serde::{Deserialize, de::IgnoredAny};

use crate::{
    history::{Event, Item, Kind},
    object::{KeyId, NAMESPACE_PREFIX, Resource, digest, key_id},
};

/// In what a client wants its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// JSON, a line for each event.
    #[default]
    Json,
    /// Kubernetes' protobuf, with a length before each event.
    Protobuf,
}

impl Encoding {
    /// What an `Accept` header says.
    #[must_use]
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Reads one event of a watch of this resource.
    pub(crate) fn line(self, bytes: &[u8], resource: Resource) -> Result<Line> {
        match self {
            Self::Json => line(bytes),
            Self::Protobuf => protobuf::line(bytes, resource),
        }
    }

    /// Reads a list.
    pub(crate) fn list(self, bytes: &[u8], resource: Resource) -> Result<Listing> {
        match self {
            Self::Json => list(bytes),
            Self::Protobuf => protobuf::list(bytes, resource),
        }
    }
}

/// What a body says besides what is digested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Body {
    /// The sequence number.
    pub(crate) seq: u64,
    /// Whether the fields are there that the newer of two releases has.
    pub(crate) is_whole: bool,
}

/// One event of a watch stream.
#[derive(Debug)]
pub(crate) enum Line {
    /// A change of an object of the harness, and what its body says.
    Change(Event, Body),
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
    /// Those in which fields are not there that the newer of two releases has, with their revisions.
    pub(crate) lesser: Vec<(KeyId, u64)>,
}

/// What is read of an object, whatever its encoding.
struct Object<'a> {
    namespace: &'a str,
    name: &'a str,
    revision: &'a str,
    tier: &'a str,
    seq: &'a str,
    payload: &'a str,
    is_whole: bool,
}

impl Object<'_> {
    /// `None` when it is not the harness's.
    fn item(&self) -> Result<Option<(Item, Body)>> {
        if !self.namespace.starts_with(NAMESPACE_PREFIX) {
            return Ok(None);
        }
        let item =
            Item { key: key_id(self.namespace, self.name), revision: self.revision()?, digest: digest(self.tier, self.seq, self.payload) };
        Ok(Some((item, Body { seq: self.seq.parse().unwrap_or(0), is_whole: self.is_whole })))
    }

    fn revision(&self) -> Result<u64> {
        revision(self.revision, self.name)
    }

    fn changed(&self, kind: Kind) -> Result<Line> {
        let Some((Item { key, revision, digest }, body)) = self.item()? else { return Ok(Line::Foreign(self.revision()?)) };
        Ok(Line::Change(Event { kind, key, revision, digest }, body))
    }
}

impl Listing {
    fn of<'a>(revision: u64, objects: impl Iterator<Item = Result<Object<'a>>>) -> Result<Self> {
        let mut listing = Self { revision, items: Vec::new(), lesser: Vec::new() };
        for object in objects {
            if let Some((item, body)) = object?.item()? {
                listing.items.push(item);
                if !body.is_whole {
                    listing.lesser.push((item.key, item.revision));
                }
            }
        }
        Ok(listing)
    }
}

fn revision(text: &str, name: &str) -> Result<u64> {
    text.parse().with_context(|| format!("resourceVersion {text:?} of {name:?}"))
}

/// What an event of this type is; none of a bookmark or an error.
fn kind_of(name: &str) -> Result<Kind> {
    Ok(match name {
        "ADDED" => Kind::Added,
        "MODIFIED" => Kind::Modified,
        "DELETED" => Kind::Deleted,
        other => anyhow::bail!("an event of type {other:?}"),
    })
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
    spec: RawSpec,
    #[serde(default)]
    status: RawStatus,
    #[serde(default)]
    code: u16,
    #[serde(default, borrow)]
    message: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec {
    update_strategy: Option<RawStrategy>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawStrategy {
    rolling_update: RawRollingUpdate,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawRollingUpdate {
    max_unavailable: Option<IgnoredAny>,
}

/// The status of an object, or the word that a `Status` has in its place.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawStatus {
    Parts {
        #[serde(default)]
        conditions: Vec<RawCondition>,
    },
    Word(IgnoredAny),
}

impl Default for RawStatus {
    fn default() -> Self {
        Self::Parts { conditions: Vec::new() }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawCondition {
    observed_generation: Option<i64>,
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
    #[serde(rename = "faults.example/seq", borrow)]
    seq: Option<Cow<'a, str>>,
    #[serde(rename = "faults.example/payload", borrow)]
    payload: Option<Cow<'a, str>>,
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
    match &*raw.kind {
        "ERROR" => Ok(Line::Error(raw.object.code, raw.object.message.into_owned())),
        "BOOKMARK" => Ok(Line::Bookmark(raw.object.object().revision()?, raw.object.metadata.annotations.end.is_some())),
        other => raw.object.object().changed(kind_of(other)?),
    }
}

/// Reads a list.
pub(crate) fn list(bytes: &[u8]) -> Result<Listing> {
    let raw: RawList<'_> = serde_json::from_slice(bytes).with_context(|| format!("a list: {}", start_of(bytes)))?;
    Listing::of(revision(&raw.metadata.resource_version, "a list")?, raw.items.iter().map(|object| Ok(object.object())))
}

/// The floor that a 410 names: `too old resource version: N (F)`.
#[must_use]
pub(crate) fn floor(message: &str) -> Option<u64> {
    message.strip_prefix("too old resource version: ")?.split_once('(')?.1.strip_suffix(')')?.parse().ok()
}

impl RawObject<'_> {
    fn object(&self) -> Object<'_> {
        let (meta, annotations) = (&self.metadata, &self.metadata.annotations);
        let conditions = match &self.status {
            RawStatus::Parts { conditions } => &conditions[..],
            RawStatus::Word(_) => &[],
        };
        let strategy_is_whole = self.spec.update_strategy.as_ref().is_none_or(|strategy| strategy.rolling_update.max_unavailable.is_some());
        Object {
            namespace: &meta.namespace,
            name: &meta.name,
            revision: &meta.resource_version,
            tier: &meta.labels.tier,
            seq: annotations.seq.as_ref().unwrap_or(&self.data.seq),
            payload: annotations.payload.as_ref().unwrap_or(&self.data.payload),
            is_whole: strategy_is_whole && conditions.iter().all(|condition| condition.observed_generation.is_some()),
        }
    }
}

fn start_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(120)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Draft;

    #[test]
    fn a_change_a_bookmark_and_an_error_are_read() {
        let draft = Draft { namespace: "faults-1".into(), name: "x".into(), tier: 2, seq: 9, payload_bytes: 4 };
        let stored = String::from_utf8(draft.stored(Resource::ConfigMaps)).expect("ASCII");
        let object = stored.trim_end().replace(r#""creationTimestamp""#, r#""resourceVersion":"12","creationTimestamp""#);
        let read = line(format!(r#"{{"type":"MODIFIED","object":{object}}}"#).as_bytes()).expect("well formed");
        let event = Event { kind: Kind::Modified, key: draft.id(), revision: 12, digest: draft.digest() };
        assert!(matches!(read, Line::Change(e, Body { seq: 9, is_whole: true }) if e == event), "{read:?}");

        let end = br#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert!(matches!(line(end), Ok(Line::Bookmark(7, true))));

        let gone = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 3 (9)","reason":"Expired","code":410}}"#;
        let Ok(Line::Error(410, message)) = line(gone) else { panic!("an error line") };
        assert_eq!(floor(&message), Some(9));
    }

    #[test]
    fn what_the_newer_release_adds_is_missed() {
        let whole = |more: &str| {
            let object = format!(
                r#"{{"metadata":{{"name":"x","namespace":"faults-1","resourceVersion":"5","annotations":{{"faults.example/seq":"7"}}}},{more}}}"#
            );
            let Ok(Line::Change(_, body)) = line(format!(r#"{{"type":"ADDED","object":{object}}}"#).as_bytes()) else { panic!("{object}") };
            let listing = list(format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{object}]}}"#).as_bytes()).expect("a list");
            assert_eq!((body.seq, listing.lesser.is_empty()), (7, body.is_whole));
            body.is_whole
        };
        assert!(whole(r#""status":{"conditions":[{"observedGeneration":0}]}"#) && whole(r#""status":{}"#));
        assert!(!whole(r#""status":{"conditions":[{"observedGeneration":1},{"type":"A"}]}"#));
        assert!(whole(r#""spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0,"maxUnavailable":1}}}"#));
        assert!(!whole(r#""spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}"#) && !whole(r#""spec":{"updateStrategy":{}}"#));
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
