//! The same as `event` of what upstream tells as protobuf: read and checked, and objects left as bytes in their envelopes.

use std::time::Duration;

use bytes::Bytes;

use super::event::{Failure, INITIAL_EVENTS_END, Item, Lie, Page, Told, of_kind, revision};
use super::place::Place;
use codec::proto::told::{Event, List, Meta, Status};
use codec::proto::{ProtoError, envelope_into, envelope_len, open};
use model::Revision;

fn none(what: &str) -> impl Fn(ProtoError) -> Lie {
    move |error| Lie(format!("what is no {what} in protobuf: {error}"))
}

/// Reads one event of a watch.
///
/// # Errors
/// It is none that belongs there.
pub(super) fn told(frame: &Bytes, place: &Place) -> Result<Told, Lie> {
    let event = Event::read(frame).map_err(none("event"))?;
    if event.kind == "ERROR" {
        return Ok(Told::Failed(failure(event.object)));
    }
    let object = open(event.object).map_err(none("object"))?;
    place.check(object.kind, object.api_version)?;
    let meta = Meta::read(object.raw, INITIAL_EVENTS_END).map_err(none("object"))?;
    let revision = revision(meta.resource_version)?;
    let item = || Ok(Item { key: place.key(meta.namespace, meta.name)?, revision, value: frame.slice_ref(event.object) });
    of_kind(event.kind, item, || Told::Bookmark { revision, ends_initial: meta.is_annotated })
}

/// Reads a page of a list.
///
/// # Errors
/// It is none, or has something else in it.
pub(super) fn page(body: &Bytes, place: &Place) -> Result<Page, Lie> {
    let unknown = open(body).map_err(none("list"))?;
    if unknown.kind.strip_suffix("List") != Some(&place.kind) || unknown.api_version != place.api_version {
        return Err(Lie(format!(
            "{} {:?} where a list of {} {} was asked for",
            unknown.api_version, unknown.kind, place.api_version, place.kind
        )));
    }
    let list = List::read(unknown.raw).map_err(none("list"))?;
    let at = revision(list.resource_version)?;
    let mut items = Vec::with_capacity(list.items.len());
    for raw in list.items {
        let meta = Meta::read(raw, "").map_err(none("object"))?;
        let revision = revision(meta.resource_version)?;
        if revision > at {
            return Err(Lie(format!("a list of {at} with an object of {revision}")));
        }
        let mut value = Vec::with_capacity(envelope_len(&place.api_version, &place.kind, raw.len()));
        envelope_into(&place.api_version, &place.kind, raw, &mut value);
        items.push(Item { key: place.key(meta.namespace, meta.name)?, revision, value: value.into() });
    }
    Ok(Page { revision: at, items, next: list.next.to_owned(), remaining: list.remaining.and_then(|count| usize::try_from(count).ok()) })
}

/// The revision of a list, whatever else is in it.
///
/// # Errors
/// It has none.
pub(super) fn list_revision(body: &[u8]) -> Result<Revision, Lie> {
    let unknown = open(body).map_err(none("list"))?;
    revision(List::read(unknown.raw).map_err(none("list"))?.resource_version)
}

/// What a `Status` says.
pub(super) fn failure(body: &[u8]) -> Failure {
    let status = open(body).and_then(|unknown| Status::read(unknown.raw)).unwrap_or_default();
    Failure {
        code: u16::try_from(status.code).unwrap_or_default(),
        message: status.message.to_owned(),
        retry_after: Some(status.retry_after_seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::event;
    use crate::lines::Form;
    use codec::proto::{field_into, message};
    use model::Storage;

    fn enveloped(kind: &str, json: &str) -> Vec<u8> {
        let raw = message("v1", kind).expect("a message").from_json(json.as_bytes()).expect("an object");
        let mut out = Vec::new();
        envelope_into("v1", kind, &raw, &mut out);
        out
    }

    fn frame(kind: &str, object: &[u8]) -> Bytes {
        let (mut extension, mut out) = (Vec::new(), Vec::new());
        field_into(1, object, &mut extension);
        field_into(1, kind.as_bytes(), &mut out);
        field_into(2, &extension, &mut out);
        out.into()
    }

    #[test]
    fn tells_what_json_tells() {
        let place = Place::of(&Arc::new(Storage::test_config_maps()), "/registry/");
        let told = |kind: &str, object: &[u8]| event::told(&frame(kind, object), Form::Protobuf, &place);
        let map = enveloped("ConfigMap", r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"},"data":{"b":"c"}}"#);
        let item = Item { key: "/registry/configmaps/n/a".into(), revision: Revision(7), value: map.clone().into() };
        assert_eq!(told("MODIFIED", &map), Ok(Told::Put(item.clone())));
        assert_eq!(told("DELETED", &map), Ok(Told::Gone(item)));
        let last = enveloped("ConfigMap", r#"{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}"#);
        assert_eq!(told("BOOKMARK", &last), Ok(Told::Bookmark { revision: Revision(9), ends_initial: true }));
        let status = enveloped("Status", r#"{"message":"too old","code":410,"details":{"retryAfterSeconds":3}}"#);
        let failure = Failure { code: 410, message: "too old".to_owned(), retry_after: Some(Duration::from_secs(3)) };
        assert_eq!(told("ERROR", &status), Ok(Told::Failed(failure)));
        let secret = enveloped("Secret", r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"}}"#);
        assert!(told("ADDED", &secret).is_err_and(|lie| lie.0.contains("where v1 ConfigMap was asked for")));
        assert!(told("TOLD", &map).is_err() && told("ADDED", &map[..map.len() - 9]).is_err() && told("ADDED", b"").is_err());
        let unnamed = enveloped("ConfigMap", r#"{"metadata":{"name":"a/b","namespace":"n","resourceVersion":"7"}}"#);
        assert!(told("ADDED", &unnamed).is_err_and(|lie| lie.0.contains("no name here")));
    }

    #[test]
    fn a_page_has_whole_objects() {
        let place = Place::of(&Arc::new(Storage::test_config_maps()), "/registry/");
        let one = r#"{"metadata":{"name":"a","namespace":"n","resourceVersion":"7"}}"#;
        let list = enveloped(
            "ConfigMapList",
            &format!(r#"{{"metadata":{{"resourceVersion":"9","continue":"x","remainingItemCount":4}},"items":[{one}]}}"#),
        );
        let page = event::page(&list.clone().into(), &place).expect("a page");
        let item = Item { key: "/registry/configmaps/n/a".into(), revision: Revision(7), value: enveloped("ConfigMap", one).into() };
        assert_eq!(page, Page { revision: Revision(9), items: vec![item], next: "x".to_owned(), remaining: Some(4) });
        assert_eq!(event::list_revision(&list), Ok(Revision(9)));
        let newer = enveloped("ConfigMapList", &format!(r#"{{"metadata":{{"resourceVersion":"6"}},"items":[{one}]}}"#));
        event::page(&newer.into(), &place).expect_err("an object that is newer than its list");
        let other = enveloped("PodList", r#"{"metadata":{"resourceVersion":"9"}}"#);
        event::page(&other.into(), &place).expect_err("of another kind");
    }
}
