//! The latest watches that were answered 410, a page of them: whose they were, what they had seen and what history reached back to.

use std::{borrow::Cow, sync::Arc};

use axum::response::Response;
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    super::{api::Api, context::Authorized, expired_watches::ExpiredWatch, status::Status},
    json_of,
    overview::millis,
    paging::{Key, Paging},
    watches::{contains, listener},
};
use go::url::Query;
use offload::run_on_thread;

/// The members that there is an order by.
const SORTS: &[&str] = &["id", "at", "user", "agent", "address", "resource", "revision", "missed"];

pub(super) async fn serve(api: &Arc<Api>, context: &Authorized, query: &Query) -> Result<Response, Status> {
    let paging = Paging::of(query, SORTS)?;
    let gather = || {
        let (api, paging) = (api.clone(), paging.clone());
        run_on_thread(move || tree(&api, &paging).to_string().into())
    };
    let answer: Bytes = api.inside.answers.get(&paging.question("expired"), context.until, gather).await?;
    Ok(json_of(context, answer.to_vec()))
}

fn tree(api: &Api, paging: &Paging) -> Value {
    let (ever, mut all) = api.watches.expired.latest();
    let kept = all.len();
    all.retain(|watch| {
        let [group, _, resource] = &watch.resource;
        contains(paging, &watch.question, [&watch.user, resource, group], watch.address)
    });
    let items: Vec<Value> = paging.page(&all, |watch| key(watch, paging.sort)).into_iter().map(row).collect();
    json!({ "kind": "ExpiredWatches", "ever": ever, "kept": kept, "total": all.len(), "offset": paging.offset, "items": items })
}

fn key<'w>(watch: &'w ExpiredWatch, sort: &str) -> Key<'w> {
    let [group, _, resource] = &watch.resource;
    Key::Text(match sort {
        "user" => Cow::Borrowed(&watch.user),
        "agent" => Cow::Borrowed(&watch.question.agent),
        "address" => Cow::Owned(watch.address.to_string()),
        "resource" => Cow::Owned(format!("{resource}.{group}")),
        "at" => return Key::Number(millis(watch.at)),
        "revision" => return Key::Number(watch.late.seen.0),
        "missed" => return Key::Number(watch.late.missed()),
        _ => return Key::Number(watch.number),
    })
}

fn row(watch: &ExpiredWatch) -> Value {
    let ([group, version, resource], asked) = (&watch.resource, &watch.question);
    json!({
        "id": watch.number,
        "at": millis(watch.at),
        "user": &*watch.user,
        "impersonator": watch.impersonator,
        "agent": &*asked.agent,
        "address": watch.address.to_string(),
        "listener": listener(watch.listener),
        "group": &**group,
        "version": &**version,
        "resource": &**resource,
        "namespace": &*asked.namespace,
        "name": &*asked.name,
        "labelSelector": &*asked.label_selector,
        "fieldSelector": &*asked.field_selector,
        "form": asked.form,
        "revision": watch.late.seen.0,
        "floor": watch.late.floor.0,
        "missed": watch.late.missed(),
        "when": if watch.late.was_open { "open" } else { "beginning" },
    })
}
