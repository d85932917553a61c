//! Each resource: its objects, its history, its watches, what was asked of it.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    super::{api::Api, context::Authorized, status::Status},
    json_of,
    overview::{cachers, fault, seconds},
    paging::{Key, Paging},
};
use go::url::Query;
use model::{FieldPath, Storage, Term, selector::Field};
use offload::run_on_thread;
use registry::{Resource, ServedResources};
use telemetry::RequestCounts;
use upstream::Reason;

/// The members that there is an order by.
const SORTS: &[&str] = &[
    "name",
    "objects",
    "bytes",
    "ringEvents",
    "ringBytes",
    "watches",
    "groups",
    "eventsReceived",
    "eventsSent",
    "requests",
    "lists",
    "gone",
    "forwarded",
];

/// Requests by group and plural name.
type Counts = BTreeMap<(String, String), RequestCounts>;

pub(super) async fn serve(api: &Arc<Api>, context: &Authorized, query: &Query) -> Result<Response, Status> {
    let paging = Paging::of(query, SORTS)?;
    let shows_idle = match query.first("idle") {
        None | Some("" | "true") => true,
        Some("false") => false,
        Some(_) => return Err(Status::bad_request("idle must be true or false")),
    };
    let gather = || {
        let (api, paging) = (api.clone(), paging.clone());
        run_on_thread(move || tree(&api, &paging, shows_idle).to_string().into())
    };
    let question = paging.question(if shows_idle { "resources" } else { "busy resources" });
    let answer: Bytes = api.inside.answers.get(&question, context.until, gather).await?;
    Ok(json_of(context, answer.to_vec()))
}

fn tree(api: &Api, paging: &Paging, shows_idle: bool) -> Value {
    let (resources, counts) = (api.resources.load_full(), api.metrics.request_counts());
    let versions = versions(&resources);
    let all: Vec<&Arc<Resource>> = cachers(&resources).collect();
    let mut found: Vec<&Arc<Resource>> = all
        .iter()
        .filter(|resource| paging.finds([&*resource.served.resource, &*resource.served.group, &*resource.served.kind].into_iter()))
        .copied()
        .collect();
    let matching = found.len();
    found.retain(|resource| shows_idle || !is_idle(api, resource, &counts));
    let (total, of) = (found.len(), |resource: &&Arc<Resource>| key(api, resource, paging.sort, &counts, &versions));
    let items: Vec<Value> = paging.page(&found, of).into_iter().map(|resource| row(api, resource, &counts, &versions)).collect();
    json!({ "kind": "Resources", "total": total, "idle": matching - total, "offset": paging.offset, "items": items })
}

/// Returns whether there is nothing to show of a resource: no objects, no history, no watches, no requests, and nothing wrong.
fn is_idle(api: &Api, resource: &Resource, counts: &Counts) -> bool {
    let (published, served) = (&resource.handle.published, &resource.served);
    let known = published.known();
    let snapshot = &known.snapshot;
    let is_empty = snapshot.store.is_empty() && snapshot.ring.is_empty() && snapshot.broken.is_empty();
    let is_asked =
        published.watches() > 0 || counts.get(&(served.group.clone(), served.resource.clone())).is_some_and(|requests| requests.all > 0);
    // In upstream mode a resource is loaded when it is asked for; one that is forwarded or has failed is shown with the reason.
    let is_ok = known.is_ready() || (forwarded(api, resource).is_none() && published.fed().fault().is_none());
    is_empty && !is_asked && is_ok
}

/// The versions and the events sent of all that one storage shows.
#[derive(Default)]
struct Shows<'a> {
    versions: Vec<&'a str>,
    events_sent: u64,
}

fn versions(resources: &ServedResources) -> BTreeMap<(&str, &str), Shows<'_>> {
    let mut versions: BTreeMap<_, Shows<'_>> = BTreeMap::new();
    for resource in resources.iter() {
        let shows = versions.entry((&*resource.served.group, &*resource.served.resource)).or_default();
        shows.versions.push(&resource.served.version);
        shows.events_sent += resource.requests.watch_events.get();
    }
    versions
}

fn name(resource: &Resource) -> String {
    let served = &resource.served;
    if served.group.is_empty() { served.resource.clone() } else { format!("{}.{}", served.resource, served.group) }
}

/// Why upstream answers requests for a resource.
fn forwarded(api: &Api, resource: &Resource) -> Option<Reason> {
    api.upstream.as_ref()?.forwarded_for(resource)
}

fn key(api: &Api, resource: &Resource, sort: &str, counts: &Counts, versions: &BTreeMap<(&str, &str), Shows<'_>>) -> Key<'static> {
    let (published, served) = (&resource.handle.published, &resource.served);
    let snapshot = published.known().snapshot;
    let requests = || counts.get(&(served.group.clone(), served.resource.clone())).copied().unwrap_or_default();
    let sent = || versions.get(&(&*served.group, &*served.resource)).map_or(0, |shows| shows.events_sent);
    Key::Number(match sort {
        "objects" => snapshot.store.len() as u64,
        "bytes" => snapshot.store.bytes() as u64,
        "ringEvents" => snapshot.ring.len() as u64,
        "ringBytes" => snapshot.ring.bytes() as u64,
        "watches" => published.watches() as u64,
        "groups" => published.groups() as u64,
        "eventsReceived" => resource.metrics.cache_events_received.get(),
        "eventsSent" => sent(),
        "requests" => requests().all,
        "lists" => requests().lists,
        "gone" => requests().gone + resource.metrics.watches_too_old.get(),
        "forwarded" => return Key::Text(forwarded(api, resource).map_or("", Reason::name).into()),
        _ => return Key::Text(name(resource).into()),
    })
}

fn row(api: &Api, resource: &Resource, counts: &Counts, versions: &BTreeMap<(&str, &str), Shows<'_>>) -> Value {
    let (handle, served, metrics) = (&resource.handle, &resource.served, &resource.metrics);
    let (published, known) = (&handle.published, handle.published.known());
    let (snapshot, ring) = (&known.snapshot, &known.snapshot.ring);
    let now = Instant::now();
    let oldest = ring.at(0).map(|event| age(handle.since, event.at_ms, now));
    let shows = versions.get(&(&*served.group, &*served.resource));
    json!({
        "name": name(resource),
        "group": served.group,
        "resource": served.resource,
        "kind": served.kind,
        "namespaced": served.namespaced,
        "versions": if resource.shown.is_some() { vec![&*served.version] } else { shows.map_or(Vec::new(), |shows| shows.versions.clone()) },
        "converted": resource.shown.is_some(),
        "ready": known.is_ready(),
        "forwarded": forwarded(api, resource).map(Reason::name),
        "lastFault": published.fed().fault().map(|last| fault(last.at, &last.why)),
        "revision": known.revision.0,
        "ageSeconds": seconds(api.age_of(resource)),
        "note": published.fed().note().as_deref(),
        "objects": snapshot.store.len(),
        "bytes": snapshot.store.bytes(),
        "undecodable": snapshot.broken.len(),
        "indexes": snapshot.store.indexed().map(|term| told(term, &handle.storage)).collect::<Vec<_>>(),
        "ring": { "events": ring.len(), "bytes": ring.bytes(), "floor": ring.floor().0, "oldestAgeSeconds": oldest },
        "watches": published.watches(),
        "groups": published.groups(),
        "groupLogBytes": published.log_bytes(),
        "counters": {
            "requests": counts.get(&(served.group.clone(), served.resource.clone())).copied().unwrap_or_default(),
            "eventsReceived": metrics.cache_events_received.get(),
            "eventsSent": shows.map_or(0, |shows| shows.events_sent),
            "loads": metrics.cache_initializations.get(),
            "listsFromMemory": metrics.cache_list.get(),
            "listsFromEtcd": metrics.storage_list.get(),
            "listsLookedAt": metrics.cache_list_fetched.get(),
            "listsReturned": metrics.cache_list_returned.get(),
            "watchesCut": metrics.terminated_watchers.get(),
            "watchesTooOld": metrics.watches_too_old.get(),
        },
    })
}

/// How long ago a cacher that began then has applied an event, seconds.
pub(super) fn age(since: Instant, at_ms: u64, now: Instant) -> f64 {
    let at = since + std::time::Duration::from_millis(at_ms);
    now.saturating_duration_since(at).as_secs_f64()
}

/// What an index is by, as a selector writes it.
fn told(term: &Term, storage: &Storage) -> String {
    match term {
        Term::Label(key) => format!("label {key}"),
        Term::Field(Field::Name) => "field metadata.name".to_owned(),
        Term::Field(Field::Namespace) => "field metadata.namespace".to_owned(),
        Term::Field(Field::Declared(at)) => format!("field {}", storage.fields.get(usize::from(*at)).map_or_else(String::new, path_of)),
    }
}

fn path_of(field: &FieldPath) -> String {
    match field {
        FieldPath::Scalar(path) | FieldPath::Bool(path) | FieldPath::Int(path) => path.join("."),
        FieldPath::FirstOf(paths) => paths.first().map_or_else(String::new, path_of),
        FieldPath::FirstElement(path, member) => format!("{}[0].{member}", path.join(".")),
        FieldPath::AlwaysEmpty => String::new(),
    }
}
