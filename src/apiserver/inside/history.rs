//! What an object was: its states as the ring has them, of one object or of a collection, and the object as it was at a revision. The ring alone answers; its
//! floor is told. Authorized as a `get` of the object, or a `list` of the collection (`request_info`).

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use axum::response::Response;
use http::Method;
use serde_json::{Value, json};

use super::{
    super::{api::Api, context::Authorized, parts::is_in_scope, path::ResourcePath, respond::not_found, status::Status},
    json_of,
    manager::{Manager, changed_by, made_by},
    overview::millis,
};
use cache::state::snapshot::Known;
use codec::Encoder;
use go::url::Query;
use model::{Event, Object, Revision};
use offload::run_on_thread;
use registry::Resource;
use storage::read::target::Target;

/// States of one answer.
const STATES: usize = 100;
const STATES_MAX: usize = 500;

/// Bytes of objects that are looked at for one answer, to find out who has changed them; then the answer ends, and says where to go on.
const LOOKED_AT_MAX: usize = 16 << 20;

/// What is asked.
struct Asked {
    resource: Arc<Resource>,
    known: Known,
    /// Of one object.
    key: Option<Vec<u8>>,
    namespace: Option<String>,
    limit: usize,
    /// Only what is older than this revision.
    before: u64,
}

pub(super) async fn serve(api: &Arc<Api>, context: &Authorized, path: &ResourcePath, query: &Query) -> Result<Response, Status> {
    path.check_name().map_err(Status::bad_request)?;
    let resources = api.resources.load_full();
    let resource = resources.find(&path.group, &path.version, &path.resource);
    let Some(resource) = resource.filter(|resource| is_in_scope(resource, path, &Method::GET)).cloned() else {
        return Ok(not_found(&context.reply, &resources.catalogue, Some(&path.group)));
    };
    if let Some(shown) = &resource.shown {
        shown.view.want();
    }
    let handle = &resource.handle;
    handle.published.fed().want();
    if let Some(included) = &handle.included
        && !path.namespace.as_deref().is_some_and(|namespace| included.has(namespace))
    {
        return Err(Status::unavailable("this server keeps the history of some namespaces only", 60));
    }
    let known = handle.published.known();
    if !known.is_ready() {
        return Err(Status::too_many_requests("storage is (re)initializing", 1));
    }
    if !known.snapshot.broken.is_empty() {
        return Err(Status::unavailable(
            "stored values of this resource cannot be read: while there are some, its history is not told",
            60,
        ));
    }
    let number = |name: &str| match query.first(name).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| Status::bad_request(format!("{name} must be a revision"))),
    };
    let target = path.name.as_deref().map(|name| Target::object(resource.clone(), api.reader.prefix(), path.namespace.as_deref(), name));
    let key = target.and_then(|target| target.key).map(|key| key.to_vec());
    if let Some(at) = number("revision")? {
        let Some(key) = &key else { return Err(Status::bad_request("only one object can be asked for at a revision")) };
        let object = at_revision(&known, key, Revision(at))?;
        let object = object.ok_or_else(|| Status::not_found(&path.group, &path.resource, path.name.as_deref().unwrap_or_default()))?;
        return Ok(json_of(context, whole(&resource.encoders.whole().encoder, &object)));
    }
    let limit = number("limit")?.map_or(STATES, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    if !(1..=STATES_MAX).contains(&limit) {
        return Err(Status::bad_request(format!("limit must be a number from 1 to {STATES_MAX}")));
    }
    let asked = Asked { key, namespace: path.namespace.clone(), limit, before: number("before")?.unwrap_or(u64::MAX), known, resource };
    Ok(json_of(context, run_on_thread(move || asked.tree().to_string().into_bytes()).await))
}

/// Returns an object as it was at a revision; `None` when it was not there.
///
/// # Errors
/// 410: the ring does not reach back so far. 400: that revision is not known yet.
fn at_revision(known: &Known, key: &[u8], at: Revision) -> Result<Option<Arc<Object>>, Status> {
    if at > known.revision {
        return Err(Status::bad_request(format!("revision {at} is not known yet: memory is at {}", known.revision)));
    }
    let (store, ring) = (&known.snapshot.store, &known.snapshot.ring);
    let later = (ring.after(at)..ring.len()).filter_map(|index| ring.at(index)).find(|event| event.key() == key);
    let was = later.map_or_else(|| store.find(key), |event| event.old.as_ref());
    match was {
        Some(object) if object.revision <= at => Ok(Some(object.clone())),
        _ if at >= ring.floor() => Ok(None),
        _ => Err(Status::watch_expired(at.0, ring.floor().0)),
    }
}

fn whole(encoder: &Encoder, object: &Object) -> Vec<u8> {
    let mut text = Vec::with_capacity(object.tail_len() + 64);
    encoder.object_into(object, &mut text);
    text
}

impl Asked {
    fn tree(&self) -> Value {
        let ring = &self.known.snapshot.ring;
        let of = |event: &&Arc<Event>| event.revision.0 < self.before && self.is_asked(event);
        let mut events = ring.iter().rev().filter(of);
        let (mut items, mut looked_at, mut next, mut oldest) = (Vec::new(), 0, None, None);
        for event in events.by_ref() {
            let last: Option<&Arc<Event>> = oldest;
            // A revision is told whole: what comes next is older than it.
            let is_full = items.len() >= self.limit || looked_at >= LOOKED_AT_MAX;
            if let Some(last) = last.filter(|last| is_full && event.revision < last.revision) {
                next = Some(last.revision.0);
                break;
            }
            items.push(self.event(event, &mut looked_at));
            oldest = Some(event);
        }
        // What one object was before all that is remembered of it is known, too.
        if let (Some(key), None) = (&self.key, next) {
            let first = match oldest {
                Some(event) => event.old.as_ref(),
                None => self.known.snapshot.store.find(key).filter(|object| object.revision.0 < self.before),
            };
            items.extend(first.map(|object| self.state(object, &mut looked_at)));
        }
        let served = &self.resource.served;
        json!({
            "kind": "History",
            "group": served.group,
            "version": served.version,
            "resource": served.resource,
            "revision": self.known.revision.0,
            "floor": ring.floor().0,
            "items": items,
            "before": next,
        })
    }

    fn is_asked(&self, event: &Event) -> bool {
        match (&self.key, &self.namespace) {
            (Some(key), _) => event.key() == &**key,
            (None, Some(namespace)) => object(event).namespace() == namespace,
            (None, None) => true,
        }
    }

    fn event(&self, event: &Event, looked_at: &mut usize) -> Value {
        let kind = match (&event.old, &event.new) {
            (None, _) => "ADDED",
            (Some(_), Some(_)) => "MODIFIED",
            (Some(_), None) => "DELETED",
        };
        let mut text = |object: &Object| self.text(object, looked_at);
        let by = match (&event.old, &event.new) {
            (Some(old), Some(new)) => changed_by(&text(old), &text(new)),
            (None, Some(new)) => made_by(&text(new)),
            (_, None) => None,
        };
        let at = self.resource.handle.since + std::time::Duration::from_millis(event.at_ms);
        let at = SystemTime::now() - Instant::now().saturating_duration_since(at);
        told(object(event), event.revision, kind, Some(millis(at)), by)
    }

    /// A state whose change is not remembered.
    fn state(&self, object: &Arc<Object>, looked_at: &mut usize) -> Value {
        let by = made_by(&self.text(object, looked_at));
        told(object, object.revision, "STATE", None, by)
    }

    fn text(&self, object: &Object, looked_at: &mut usize) -> Vec<u8> {
        *looked_at += object.tail_len();
        whole(&self.resource.encoders.whole().encoder, object)
    }
}

fn object(event: &Event) -> &Object {
    event.new.as_ref().or(event.old.as_ref()).expect("an event has an object before or after")
}

fn told(object: &Object, revision: Revision, kind: &str, at: Option<u64>, by: Option<Manager>) -> Value {
    json!({
        "namespace": object.namespace(),
        "name": object.name(),
        "revision": revision.0,
        "type": kind,
        "at": at,
        "bytes": object.tail_len(),
        "manager": by.as_ref().map(|by| &by.manager),
        "operation": by.as_ref().map(|by| &by.operation),
        "subresource": by.as_ref().map(|by| &by.subresource).filter(|subresource| !subresource.is_empty()),
        "managerTime": by.as_ref().map(|by| &by.time),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::state::{
        resource::ResourceState,
        ring::RingLimits,
        snapshot::{Fed, Published},
    };
    use model::{Batch, Change, Epoch, test_object};

    const KEY: &[u8] = b"/registry/configmaps/ns/a";

    /// `a` is loaded at 10, changed at 12 and 14, deleted at 16, created at 18; others change between. `keeps`: events of the ring.
    fn known(keeps: usize) -> Known {
        let mut state = ResourceState::new(RingLimits { events_max: keeps, bytes_max: usize::MAX, window_ms: u64::MAX });
        state.reset(Epoch(1), Revision(10), Revision(10), vec![Arc::new(test_object("a", 7))], Vec::new());
        let put = |name: &str, revision| Change::Put(Arc::new(test_object(name, revision)));
        for (revision, change) in [
            (11, put("b", 11)),
            (12, put("a", 12)),
            (14, put("a", 14)),
            (16, Change::Delete(KEY.to_vec().into())),
            (17, put("b", 17)),
            (18, put("a", 18)),
        ] {
            state.apply(&Batch { revision: Revision(revision), changes: vec![change] }, revision);
        }
        let fed = Arc::new(Fed::default());
        Published::new(state.snapshot(), fed).known()
    }

    fn was(keeps: usize, at: u64) -> Result<Option<u64>, u16> {
        let was = at_revision(&known(keeps), KEY, Revision(at));
        was.map(|object| object.map(|object| object.revision.0)).map_err(|status| status.code)
    }

    #[test]
    fn an_object_is_shown_as_it_was() {
        let all = |at| was(100, at);
        assert_eq!([10, 11, 12, 13, 14, 15].map(all), [Ok(Some(7)), Ok(Some(7)), Ok(Some(12)), Ok(Some(12)), Ok(Some(14)), Ok(Some(14))]);
        assert_eq!([16, 17, 18].map(all), [Ok(None), Ok(None), Ok(Some(18))]);
        // Below the floor only what the ring still names: the object before the first change that it remembers.
        assert_eq!((all(8), all(7), all(6)), (Ok(Some(7)), Ok(Some(7)), Err(410)));
        assert_eq!(all(19), Err(400), "it is not known yet");
        // The change at 16 is the first that is left.
        let few = |at| was(3, at);
        assert_eq!([13, 14, 15, 16, 17, 18].map(few), [Err(410), Ok(Some(14)), Ok(Some(14)), Ok(None), Ok(None), Ok(Some(18))]);
    }
}
