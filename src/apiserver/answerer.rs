//! Finds out who answers a request on a replica: notes that upstream does, or that it can if etcd does not answer.

use std::time::Duration;

use axum::extract::Request;
use upstream::{Answerer, Reason, answerer};

use super::{
    api::{Api, arrived},
    audit::is_long,
    hand_on::{Handed, LONG, Spare, asked, asks_table, is_impersonated},
    line::RequestLine,
    path::Route,
};
use cache::state::snapshot::Known;

/// How long a watch waits for its resource to be loaded: handed on, it would be upstream's for half an hour.
const LOADING_MAX: Duration = Duration::from_secs(10);

/// Finds out who answers; whether that one also judges whom the client wants to act as.
pub(super) async fn decide(api: &Api, request: &mut Request) -> bool {
    let Some(replica) = &api.replica else { return false };
    let line = arrived(request).line;
    let (route, method) = (line.route.as_ref().ok(), request.method());
    let is_table = asks_table(request.headers());
    let asked = || asked(api, replica, (route, &line), (method, is_table));
    let mut answer = answerer(method, asked());
    if answer == Answerer::Upstream(Reason::Loading)
        && line.is_watch()
        && let Some(Route::Resource(path)) = route
    {
        let resource = api.resources.load().find(&path.group, &path.version, &path.resource).cloned();
        if let Some(resource) = resource.filter(|resource| !resource.handle.published.fed().is_declined()) {
            // In time or not, it is looked at again.
            let _ = resource.handle.published.wait_until(Known::is_ready, LOADING_MAX).await;
        }
        answer = answerer(method, asked());
    }
    let asks_etcd = matches!(route, Some(Route::Resource(_))) && asks_etcd(&line);
    if answer == Answerer::Memory && replica.is_source && asks_etcd && is_impersonated(request.headers()) {
        // Who is judged here could not be handed on later.
        answer = Answerer::Upstream(Reason::Unproven);
    }
    let Answerer::Upstream(reason) = answer else {
        if asks_etcd && !is_impersonated(request.headers()) {
            let is_long = is_long(line.info(request));
            let reason = if replica.is_source { Reason::Unproven } else { Reason::Behind };
            let handed = Handed { reason, upstream: replica.upstream.now(), is_long, limit: LONG };
            request.extensions_mut().insert(Spare(handed));
        }
        return false;
    };
    let (upstream, is_long) = (replica.upstream.now(), is_long(line.info(request)));
    let keeps_impersonation = upstream.manner().keeps_impersonation();
    request.extensions_mut().insert(Handed { reason, upstream, is_long, limit: LONG });
    keeps_impersonation
}

/// Whether a read may have to ask etcd.
fn asks_etcd(line: &RequestLine) -> bool {
    match line.is_watch() {
        true => line.query.first("sendInitialEvents").is_some() || line.query.first("resourceVersion").unwrap_or("").is_empty(),
        false => line.query.first("resourceVersion") != Some("0") || line.query.first("continue").is_some(),
    }
}
