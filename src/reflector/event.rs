//! What upstream tells on a watch and in a list, read and checked: objects with their keys and revisions, bookmarks, failures. Believes nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

use super::lines::Form;
use super::place::Place;
use super::protobuf;
use codec::proto::PREFIX;
use model::Revision;

/// The annotation of the bookmark that ends the initial events.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What an API server does not send: upstream is none, or is out of order.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("upstream sends {0}")]
pub(crate) struct Lie(pub(crate) String);

/// An object as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Its key in the cache.
    pub(crate) key: Bytes,
    /// The revision that wrote it, or deleted it.
    pub(crate) revision: Revision,
    /// Its JSON, or its protobuf in an envelope.
    pub(crate) value: Bytes,
}

impl Item {
    /// Whether it was told as protobuf, of which only what is known here can be served.
    pub(crate) fn is_protobuf(&self) -> bool {
        self.value.starts_with(PREFIX)
    }
}

/// What one line of a watch tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The object was written.
    Put(Item),
    /// The object is gone.
    Gone(Item),
    /// Everything up to here was told.
    Bookmark {
        /// Here.
        revision: Revision,
        /// The initial events are over.
        ends_initial: bool,
    },
    /// The watch ends with this.
    Failed(Failure),
}

/// A `Status` that says why.
#[derive(Clone, Debug, Default, Error, PartialEq, Eq)]
#[error("{code} {message}")]
pub(crate) struct Failure {
    /// Its HTTP code.
    pub(crate) code: u16,
    /// Its text.
    pub(crate) message: String,
    /// After which time upstream wants to be asked again.
    pub(crate) retry_after: Option<Duration>,
}

/// A page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The revision of the list.
    pub(crate) revision: Revision,
    /// Its objects.
    pub(crate) items: Vec<Item>,
    /// Where the next page begins; empty after the last one.
    pub(crate) next: String,
    /// How many objects follow, if that is told.
    pub(crate) remaining: Option<usize>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
    #[serde(borrow)]
    annotations: Option<&'a RawValue>,
    #[serde(borrow, rename = "continue")]
    next: Cow<'a, str>,
    remaining_item_count: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Answered {
    code: u16,
    message: String,
    details: Details,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: u64,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// Reads one event of a watch.
///
/// # Errors
/// It is none that belongs there.
pub(crate) fn told(event: &Bytes, form: Form, place: &Place) -> Result<Told, Lie> {
    match form {
        Form::Json => told_json(event, place),
        Form::Protobuf => protobuf::told(event, place),
    }
}

fn told_json(line: &Bytes, place: &Place) -> Result<Told, Lie> {
    let event: Event<'_> = serde_json::from_slice(line).map_err(|error| Lie(format!("a line that is no event: {error}")))?;
    if event.kind == "ERROR" {
        return Ok(Told::Failed(failure(event.object.get().as_bytes())));
    }
    let head = head(event.object)?;
    place.check(&head.kind, &head.api_version)?;
    let revision = revision(&head.metadata.resource_version)?;
    let item = || {
        let key = place.key(&head.metadata.namespace, &head.metadata.name)?;
        Ok(Item { key, revision, value: line.slice_ref(event.object.get().as_bytes()) })
    };
    of_kind(&event.kind, item, || Told::Bookmark { revision, ends_initial: ends_initial(&head.metadata) })
}

/// What an event of this type tells.
pub(super) fn of_kind(kind: &str, item: impl FnOnce() -> Result<Item, Lie>, bookmark: impl FnOnce() -> Told) -> Result<Told, Lie> {
    match kind {
        "ADDED" | "MODIFIED" => item().map(Told::Put),
        "DELETED" => item().map(Told::Gone),
        "BOOKMARK" => Ok(bookmark()),
        other => Err(Lie(format!("an event of type {other:?}"))),
    }
}

/// Reads a page of a list.
///
/// # Errors
/// It is none, or has something else in it.
pub(crate) fn page(body: &Bytes, place: &Place) -> Result<Page, Lie> {
    if body.starts_with(PREFIX) {
        return protobuf::page(body, place);
    }
    let list: List<'_> = serde_json::from_slice(body).map_err(|error| Lie(format!("what is no list: {error}")))?;
    let at = revision(&list.metadata.resource_version)?;
    let mut items = Vec::new();
    for raw in list.items.unwrap_or_default() {
        let head = head(raw)?;
        // Objects of built-in types are told without what the list says already.
        let value = if head.kind.is_empty() && head.api_version.is_empty() {
            let rest = raw.get().strip_prefix('{').ok_or_else(|| Lie("a list of what are no objects".to_owned()))?;
            Bytes::from(format!("{}{}", place.head(), rest))
        } else {
            place.check(&head.kind, &head.api_version)?;
            body.slice_ref(raw.get().as_bytes())
        };
        let key = place.key(&head.metadata.namespace, &head.metadata.name)?;
        let revision = revision(&head.metadata.resource_version)?;
        if revision > at {
            return Err(Lie(format!("a list of {at} with an object of {revision}")));
        }
        items.push(Item { key, revision, value });
    }
    Ok(Page { revision: at, items, next: list.metadata.next.into_owned(), remaining: list.metadata.remaining_item_count })
}

/// The revision of a list, whatever else is in it.
///
/// # Errors
/// It has none.
pub(crate) fn list_revision(body: &[u8]) -> Result<Revision, Lie> {
    if body.starts_with(PREFIX) {
        return protobuf::list_revision(body);
    }
    let head: Head<'_> = serde_json::from_slice(body).map_err(|error| Lie(format!("what is no list: {error}")))?;
    revision(&head.metadata.resource_version)
}

/// What a `Status` says.
pub(crate) fn failure(body: &[u8]) -> Failure {
    if body.starts_with(PREFIX) {
        return protobuf::failure(body);
    }
    let Answered { code, message, details } = serde_json::from_slice(body).unwrap_or_default();
    let retry_after = Some(details.retry_after_seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs);
    Failure { code, message, retry_after }
}

fn head(raw: &RawValue) -> Result<Head<'_>, Lie> {
    if !raw.get().starts_with('{') {
        return Err(Lie("what is no object".to_owned()));
    }
    serde_json::from_str(raw.get()).map_err(|error| Lie(format!("what is no object: {error}")))
}

/// A revision of etcd in decimal digits; zero is none.
pub(super) fn revision(text: &str) -> Result<Revision, Lie> {
    let is_number = !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    // Larger ones are none of etcd, whose numbers are signed.
    let number = Some(text).filter(|_| is_number).and_then(|text| text.parse::<i64>().ok()).and_then(|number| u64::try_from(number).ok());
    number.map(Revision).ok_or_else(|| Lie(format!("a resourceVersion {text:?}, which is no revision")))
}

fn ends_initial(metadata: &Metadata<'_>) -> bool {
    let annotations = metadata.annotations.and_then(|raw| serde_json::from_str::<BTreeMap<Cow<'_, str>, Cow<'_, str>>>(raw.get()).ok());
    annotations.is_some_and(|all| all.get(INITIAL_EVENTS_END).is_some_and(|value| value == "true"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use model::Storage;

    fn place() -> Place {
        Place::of(&Arc::new(Storage::test_config_maps()), "/registry/")
    }

    fn object(rest: &str) -> String {
        format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{{rest}}}}}"#)
    }

    fn read(kind: &str, object: &str) -> Result<Told, Lie> {
        told(&Bytes::from(format!(r#"{{"type":"{kind}","object":{object}}}"#)), Form::Json, &place())
    }

    #[test]
    fn events_have_keys_and_revisions() {
        let one = object(r#""name":"a","namespace":"n","resourceVersion":"7""#);
        let item = Item { key: "/registry/configmaps/n/a".into(), revision: Revision(7), value: one.clone().into() };
        assert_eq!(read("ADDED", &one), Ok(Told::Put(item.clone())));
        assert_eq!(read("MODIFIED", &one), Ok(Told::Put(item.clone())));
        assert_eq!(read("DELETED", &one), Ok(Told::Gone(item)));
        let bookmark = |annotations: &str| read("BOOKMARK", &object(&format!(r#""resourceVersion":"9"{annotations}"#)));
        let revision = Revision(9);
        assert_eq!(bookmark(""), Ok(Told::Bookmark { revision, ends_initial: false }));
        let last = bookmark(r#","annotations":{"k8s.io/initial-events-end":"true"}"#);
        assert_eq!(last, Ok(Told::Bookmark { revision, ends_initial: true }));
        let error = read("ERROR", r#"{"kind":"Status","code":410,"message":"too old","details":{"retryAfterSeconds":3}}"#);
        let retry_after = Some(Duration::from_secs(3));
        assert_eq!(error, Ok(Told::Failed(Failure { code: 410, message: "too old".to_owned(), retry_after })));
    }

    /// Whatever an upstream sends that is out of order, it is told as that and not as an object.
    #[test]
    fn lies_are_told_as_lies() {
        let good = object(r#""name":"a","namespace":"n","resourceVersion":"7""#);
        let lies = [
            ("<html><body>sign in</body></html>".to_owned(), "a line that is no event"),
            (r#"{"type":"ADDED"}"#.to_owned(), "a line that is no event"),
            (format!(r#"{{"type":"ADDED","object":{}"#, &good[..good.len() - 9]), "a line that is no event"),
            (format!(r#"{{"type":"TOLD","object":{good}}}"#), "an event of type"),
        ];
        for (line, why) in lies {
            let error = told(&Bytes::from(line.clone()), Form::Json, &place()).expect_err(&line);
            assert!(error.0.starts_with(why), "{line}: {error}");
        }
        let objects = [
            (good.replace("ConfigMap", "Secret"), "where v1 ConfigMap was asked for"),
            (good.replace(r#""v1""#, r#""v2""#), "where v1 ConfigMap was asked for"),
            ("[]".to_owned(), "what is no object"),
            ("{}".to_owned(), "where v1 ConfigMap was asked for"),
            (object(r#""name":"a","namespace":"n""#), "which is no revision"),
            (good.replace(r#""7""#, r#""0""#), "which is no revision"),
            (good.replace(r#""7""#, r#""07""#), "which is no revision"),
            (good.replace(r#""7""#, r#""-7""#), "which is no revision"),
            (good.replace(r#""7""#, r#""9223372036854775808""#), "which is no revision"),
            (good.replace(r#""7""#, "7"), "what is no object"),
            (good.replace(r#""a""#, r#""a/b""#), "no name here"),
            (good.replace(r#""a""#, r#""..""#), "no name here"),
            (good.replace(r#""a""#, r#""""#), "no name here"),
            (good.replace(r#""namespace":"n","#, ""), "no name here"),
            (good.replace(r#""name":"a""#, r#""name":"a","name":"b""#), "what is no object"),
        ];
        for (object, why) in objects {
            let error = read("ADDED", &object).expect_err(&object);
            assert!(error.0.contains(why), "{object}: {error}");
        }
    }

    #[test]
    fn a_page_has_whole_objects() {
        let list = |items: &str| {
            let body = format!(
                r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"9","continue":"x"}},"items":{items}}}"#
            );
            page(&body.into(), &place())
        };
        let bare = r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"}}"#;
        let whole = object(r#""name":"a","namespace":"n","resourceVersion":"7""#);
        let item = Item { key: "/registry/configmaps/n/a".into(), revision: Revision(7), value: whole.clone().into() };
        let page = |items| Ok(Page { revision: Revision(9), items, next: "x".to_owned(), remaining: None });
        assert_eq!(list(&format!("[{bare}]")), page(vec![item.clone()]));
        assert_eq!(list(&format!("[{whole}]")), page(vec![item]));
        assert_eq!(list("null"), page(Vec::new()));
        assert!(list(&format!("[{}]", whole.replace("ConfigMap", "Pod"))).is_err());
        assert!(list(&format!("[{}]", bare.replace(r#""7""#, r#""10""#))).is_err(), "newer than the list");
        assert_eq!(list_revision(br#"{"kind":"X","metadata":{"resourceVersion":"12"},"items":[]}"#), Ok(Revision(12)));
    }
}
