//! Finds out who answers a request on a replica: this server, upstream, or upstream if etcd does not.

use std::time::Duration;

use http::HeaderMap;
use upstream::{Backend, Reason, backend_for};

use super::{
    api::Api,
    audit::is_long,
    context::Authenticated,
    hand_on::{Destination, Handed, LONG, Replica, asked, asks_table, is_impersonated},
    line::RequestLine,
    path::Route,
};
use cache::state::snapshot::Known;

/// How long a watch waits for its resource to be loaded: handed on, it would be upstream's for half an hour.
const LOADING_MAX: Duration = Duration::from_secs(10);

/// Finds out who answers.
pub(super) async fn decide(api: &Api, replica: &Replica, context: &Authenticated, headers: &HeaderMap) -> Destination {
    let line = &context.line;
    let (route, method) = (line.route.as_ref().ok(), &line.method);
    let is_table = asks_table(headers);
    let asked = || asked(api, replica, (route, line), (method, is_table));
    let mut answer = backend_for(method, asked());
    if answer == Backend::Upstream(Reason::Loading)
        && line.is_watch()
        && let Some(Route::Resource(path)) = route
    {
        let resource = api.resources.load().find(&path.group, &path.version, &path.resource).cloned();
        if let Some(resource) = resource.filter(|resource| !resource.handle.published.fed().is_declined()) {
            // In time or not, it is looked at again.
            let _ = resource.handle.published.wait_until(Known::is_ready, LOADING_MAX).await;
        }
        answer = backend_for(method, asked());
    }
    let asks_etcd = matches!(route, Some(Route::Resource(_))) && asks_etcd(line, replica.is_source);
    let acts = is_impersonated(headers);
    if answer == Backend::Memory && replica.is_source && asks_etcd && acts {
        // Who is judged here could not be handed on later.
        answer = Backend::Upstream(Reason::Unproven);
    }
    let handed = |reason| Handed { reason, upstream: replica.upstream.now(), is_long: is_long(line.info()), limit: LONG };
    match answer {
        Backend::Upstream(reason) => Destination::Upstream(handed(reason)),
        Backend::Memory if asks_etcd && !acts => {
            Destination::Either(handed(if replica.is_source { Reason::Unproven } else { Reason::Behind }))
        }
        Backend::Memory => Destination::Here,
    }
}

/// Whether a read may have to ask etcd.
fn asks_etcd(line: &RequestLine, is_source: bool) -> bool {
    let has = |name| line.query.first(name).is_some();
    match line.is_watch() {
        true => has("sendInitialEvents") || is_source && line.query.first("resourceVersion").unwrap_or("").is_empty(),
        false => line.query.first("resourceVersion") != Some("0") || is_source && has("continue"),
    }
}
