//! Finds out who answers a request on a replica: this server, upstream, or upstream if etcd does not.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::HeaderMap;
use upstream::{Backend, Reason, backend_for};

use super::{
    api::Api,
    audit::is_long,
    authorize::authorize,
    context::Authenticated,
    hand_on::{Destination, Handed, LONG, Replica, asked, asks_table, is_impersonated, read},
    limit,
    line::RequestLine,
    path::Route,
};
use cache::state::snapshot::Known;
use registry::Resource;

/// How long a watch waits for its resource to be loaded: handed on, it would be upstream's for half an hour.
const LOADING_MAX: Duration = Duration::from_secs(10);

/// Finds out who answers.
pub(super) fn decide(api: &Api, replica: &Replica, context: &Authenticated, headers: &HeaderMap) -> Destination {
    let line = &context.line;
    let (route, method) = (line.route.as_ref().ok(), &line.method);
    let is_table = asks_table(headers);
    let mut answer = backend_for(method, asked(api, replica, (route, line), (method, is_table)));
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

/// Returns the resource for which a watch waits before it is decided again who answers: one that is being loaded, or will be when it is asked for.
pub(super) fn awaited(
    api: &Api,
    replica: &Replica,
    destination: &Destination,
    context: &Authenticated,
    headers: &HeaderMap,
) -> Option<Arc<Resource>> {
    let is_loading = matches!(destination, Destination::Upstream(handed) if handed.reason == Reason::Loading);
    // Who acts as another is judged by the source, to which he could not be handed on later.
    if !is_loading || !context.line.is_watch() || replica.is_source && is_impersonated(headers) {
        return None;
    }
    read(api, replica, &context.line).filter(|resource| !resource.handle.published.fed().is_declined())
}

/// Waits until the resource of a watch is loaded, or for so long as it may. It has a place until it is known that it may be watched; nobody else has it loaded.
///
/// # Errors
/// The answer to a watch that may not be, or has no place.
pub(super) async fn loaded(api: &Api, replica: &Replica, resource: &Resource, context: &Authenticated) -> Result<(), Response> {
    let Ok((place, _watch)) = limit::admit(api, context, &Destination::Here) else { return Err(limit::refused(api, context)) };
    if replica.is_source {
        authorize(api, context).await?;
        resource.handle.published.fed().want();
    }
    drop(place);
    // In time or not, it is looked at again.
    let _ = resource.handle.published.wait_until(Known::is_ready, LOADING_MAX).await;
    Ok(())
}

/// Whether a read may have to ask etcd.
fn asks_etcd(line: &RequestLine, is_source: bool) -> bool {
    let has = |name| line.query.first(name).is_some();
    match line.is_watch() {
        true => has("sendInitialEvents") || is_source && line.query.first("resourceVersion").unwrap_or("").is_empty(),
        false => line.query.first("resourceVersion") != Some("0") || is_source && has("continue"),
    }
}
