//! The open watches, a page of them: who watches what, from where, and how far each is.

use std::{borrow::Cow, net::SocketAddr, sync::Arc, time::Instant};

use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    super::{
        api::Api,
        context::Authorized,
        open_watches::{Question, WatchRecord, shown},
        status::Status,
    },
    json_of, no_watch,
    overview::millis,
    paging::{Key, Paging},
    resources::age,
};
use cache::dispatch::Phase;
use go::url::Query;
use model::Revision;
use offload::run_on_thread;
use server::ListenerKind;

/// The members that there is an order by.
const SORTS: &[&str] =
    &["id", "user", "agent", "address", "resource", "since", "lag", "events", "bytes", "unread", "fellBehind", "revision"];

pub(super) async fn serve(api: &Arc<Api>, context: &Authorized, query: &Query) -> Result<Response, Status> {
    let paging = Paging::of(query, SORTS)?;
    let gather = || {
        let (api, paging) = (api.clone(), paging.clone());
        run_on_thread(move || tree(&api, &paging).to_string().into())
    };
    let answer: Bytes = api.inside.answers.get(&paging.question("watches"), context.until, gather).await?;
    Ok(json_of(context, answer.to_vec()))
}

/// Returns one watch.
pub(super) fn one(api: &Api, number: u64) -> Result<Value, Status> {
    api.watches.find(number).map(|watch| row(&watch)).ok_or_else(|| no_watch(number))
}

fn tree(api: &Api, paging: &Paging) -> Value {
    let mut all = api.watches.all();
    all.sort_unstable_by_key(|watch| watch.number);
    let open = all.len();
    all.retain(|watch| is_found(watch, paging));
    let total = all.len();
    let items: Vec<Value> = paging.page(&all, |watch| key(watch, paging.sort)).into_iter().map(|watch| row(watch)).collect();
    json!({ "kind": "Watches", "open": open, "total": total, "offset": paging.offset, "items": items })
}

fn is_found(watch: &WatchRecord, paging: &Paging) -> bool {
    let served = &watch.resource.served;
    contains(paging, &watch.question, [&watch.client.user.name, &served.resource, &served.group], watch.client.conn.peer)
}

/// Whether what a watch asks for, who asks and for which resource contain what is looked for.
pub(super) fn contains(paging: &Paging, asked: &Question, texts: [&str; 3], peer: SocketAddr) -> bool {
    let asked: [&str; 5] = [&asked.agent, &asked.namespace, &asked.name, &asked.label_selector, &asked.field_selector];
    paging.finds(texts.into_iter().chain(asked)) || paging.finds(std::iter::once(&*peer.to_string()))
}

fn key<'w>(watch: &'w WatchRecord, sort: &str) -> Key<'w> {
    Key::Text(match sort {
        "user" => Cow::Borrowed(&watch.client.user.name),
        "agent" => Cow::Borrowed(&watch.question.agent),
        "address" => Cow::Owned(watch.client.conn.peer.to_string()),
        "resource" => Cow::Owned(format!("{}.{}", watch.resource.served.resource, watch.resource.served.group)),
        "since" => return Key::Number(millis(watch.since)),
        // Those of which it is not known how far they are come with the slowest.
        "lag" => return Key::Number(lag(watch).map_or(u64::MAX, |lag| lag.events as u64)),
        "events" => return Key::Number(watch.progress().events),
        "bytes" => return Key::Number(watch.progress().bytes),
        "unread" => return Key::Number(watch.client.conn.unread.held() as u64),
        "fellBehind" => return Key::Number(u64::from(watch.progress().fell_behind)),
        "revision" => return Key::Number(watch.progress().seen),
        _ => return Key::Number(watch.number),
    })
}

/// What a watch has not been sent.
struct Lag {
    events: usize,
    /// Whether there may be fewer: of what it replays some may not match.
    is_at_most: bool,
    seconds: f64,
}

/// How much a watch lacks; `None` while it is shown the objects that were there, and when history no longer reaches back to where it is.
fn lag(watch: &WatchRecord) -> Option<Lag> {
    let progress = watch.progress();
    let handle = &watch.resource.handle;
    let known = handle.published.known();
    let ring = &known.snapshot.ring;
    let since = |index: usize| ring.at(index).map_or(0.0, |event| age(handle.since, event.at_ms, Instant::now()));
    let replayed = || {
        let index = ring.since(Revision(progress.seen)).ok()?;
        let events = ring.len().saturating_sub(index);
        Some(Lag { events, is_at_most: true, seconds: if events > 0 { since(index) } else { 0.0 } })
    };
    match progress.phase {
        Phase::Live => match watch.group.upgrade()?.pending(watch.seat) {
            Some(pending) => {
                let seconds = pending.first.map_or(0.0, |first| since(ring.after(Revision(first.0.saturating_sub(1)))));
                Some(Lag { events: pending.events, is_at_most: false, seconds })
            }
            // The log of its group has moved on, which a watch notices that gets to send.
            None => replayed(),
        },
        Phase::Replaying => replayed(),
        Phase::Initial | Phase::Ended => None,
    }
}

/// Returns the name of a listener.
pub(super) fn listener(kind: ListenerKind) -> &'static str {
    match kind {
        ListenerKind::Plain => "plain",
        ListenerKind::Secure => "TLS",
    }
}

/// Returns a watch as it is told.
pub(super) fn row(watch: &WatchRecord) -> Value {
    let (served, asked, progress) = (&watch.resource.served, &watch.question, watch.progress());
    let phase = match progress.phase {
        Phase::Initial => "initial",
        Phase::Replaying => "replaying",
        Phase::Live => "live",
        Phase::Ended => "ended",
    };
    json!({
        "id": watch.number,
        "user": shown(&watch.client.user.name),
        "impersonator": watch.client.impersonator.as_ref().map(|user| shown(&user.name)),
        "agent": &*asked.agent,
        "address": watch.client.conn.peer.to_string(),
        "listener": listener(watch.client.conn.listener),
        "group": served.group,
        "version": served.version,
        "resource": served.resource,
        "namespace": &*asked.namespace,
        "name": &*asked.name,
        "labelSelector": &*asked.label_selector,
        "fieldSelector": &*asked.field_selector,
        "form": asked.form,
        "since": millis(watch.since),
        "phase": phase,
        "revision": progress.seen,
        "lag": lag(watch).map(|lag| json!({ "events": lag.events, "atMost": lag.is_at_most, "seconds": lag.seconds })),
        "events": progress.events,
        "bytes": progress.bytes,
        "connectionUnreadBytes": watch.client.conn.unread.held(),
        "fellBehind": progress.fell_behind,
    })
}
