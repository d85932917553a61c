//! Finds out who answers a request on a replica: this server, upstream, or upstream if etcd does not.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::HeaderMap;
use tokio::time::Instant;
use upstream::{Backend, Reason, backend_for};

use super::{
    api::Api,
    audit::is_long,
    authorize::authorize,
    context::Authenticated,
    forward::{Destination, Forwarding, LONG, Replica, asked, asks_table, is_impersonated, read},
    limit,
    line::RequestLine,
    path::Route,
};
use registry::Resource;

/// How long a watch waits for its resource to be loaded: forwarded, it would be upstream's for half an hour. A list waits as long where memory comes from
/// upstream: who lists mostly watches from there, and all who come at once would cost upstream a list each.
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
        // Who is judged here could not be forwarded later.
        answer = Backend::Upstream(Reason::Unproven);
    }
    let forwarding =
        |reason| Forwarding { reason, upstream: replica.upstream.now(), is_long: is_long(line.info()), limit: LONG, place: None };
    if answer == Backend::Memory
        && let Some(place) = replica.reaches_further(api, line, headers)
    {
        return Destination::Upstream(Forwarding { place: Some(place), ..forwarding(Reason::Forgotten) });
    }
    match answer {
        Backend::Upstream(reason) => Destination::Upstream(forwarding(reason)),
        Backend::Memory if asks_etcd && !acts => {
            Destination::Either(forwarding(if replica.is_source { Reason::Unproven } else { Reason::Behind }))
        }
        Backend::Memory => Destination::Here,
    }
}

/// Returns the resource for which a watch or list waits before it is decided again who answers: one that is being loaded, or will be when it is asked for.
pub(super) fn awaited(
    api: &Api,
    replica: &Replica,
    destination: &Destination,
    context: &Authenticated,
    headers: &HeaderMap,
) -> Option<Arc<Resource>> {
    let is_loading = matches!(destination, Destination::Upstream(forwarding) if forwarding.reason == Reason::Loading);
    // Who acts as another is judged by the source, to which he could not be forwarded later.
    if !is_loading || !waits(&context.line, replica.is_source) || replica.is_source && is_impersonated(headers) {
        return None;
    }
    read(api, replica, &context.line).filter(|resource| !resource.handle.published.fed().is_declined())
}

/// Returns whether a read waits for its resource to be loaded: a watch; of a source a list of what there is now, too.
fn waits(line: &RequestLine, is_source: bool) -> bool {
    let is_list = || matches!(&line.route, Ok(Route::Resource(path)) if path.name.is_none());
    let asks_past =
        || line.query.first("continue").is_some_and(|token| !token.is_empty()) || line.query.first("resourceVersionMatch") == Some("Exact");
    line.is_watch() || is_source && is_list() && !asks_past()
}

/// Waits until the resource of a read is loaded or cannot be, or for so long as it may. It has a place until it is known that it may be read; nobody else has
/// it loaded.
///
/// # Errors
/// The answer to a read that may not be, or has no place.
pub(super) async fn loaded(api: &Api, replica: &Replica, resource: &Resource, context: &Authenticated) -> Result<(), Response> {
    let Ok((place, _watch)) = limit::admit(api, context, &Destination::Here).await else { return Err(limit::refused(api, context)) };
    if replica.is_source {
        authorize(api, context).await?;
        resource.handle.published.fed().want();
    }
    drop(place);
    // In time or not, it is looked at again.
    let published = &resource.handle.published;
    let limit = LOADING_MAX.min(context.until.saturating_duration_since(Instant::now()));
    let _ = published.wait_until(|known| known.is_ready() || published.fed().is_declined(), limit).await;
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
