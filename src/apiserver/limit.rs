//! The stage that limits how many requests are under way (`inflight` counts them).

use axum::response::Response;
use http::{HeaderValue, Method, StatusCode, header::RETRY_AFTER};

use super::{
    api::Api,
    context::Authenticated,
    forward::Destination,
    inflight::{Full, OpenWatch, Place},
    line::RequestLine,
    path::Route,
};
use auth::MASTERS;
use telemetry::{Scope, Verb};

/// The text of kube-apiserver's 429, and the seconds after which a client may come again.
const TOO_MANY: &str = "Too many requests, please try again later.\n";
const RETRY_AFTER_SECONDS: &str = "1";

/// Finds a place for a request, and room for a watch. Exempt are administrators (the plain listener is one), who always get an answer, and what probes ask. A
/// watch has a place only until it begins, and memory until it ends. Where upstream is asked about each request first, one waits for its place.
pub(super) async fn admit(
    api: &Api,
    context: &Authenticated,
    destination: &Destination,
) -> Result<(Option<Place>, Option<OpenWatch>), Full> {
    let (user, line) = (&context.user, &context.line);
    let is_administrator = user.groups.iter().any(|group| group == MASTERS);
    // What upstream answers is counted there.
    let is_upstreams = destination.has_no_end();
    let is_exempt = is_administrator || line.is_always_open() || is_upstreams;
    let place = match is_exempt {
        true => None,
        false if is_source(api) => Box::pin(api.inflight.admit_until(&line.method, user, context.until)).await?,
        false => api.inflight.admit(&line.method, user)?,
    };
    let watch = (line.is_watch() && !is_upstreams).then(|| api.inflight.admit_watch(user, is_administrator)).transpose()?;
    Ok((place, watch))
}

fn is_source(api: &Api) -> bool {
    api.upstream.as_ref().is_some_and(|upstream| upstream.is_source())
}

/// Returns the answer to a request that has no place.
pub(super) fn refused(api: &Api, context: &Authenticated) -> Response {
    count(api, &context.line);
    let mut response = context.reply.text(StatusCode::TOO_MANY_REQUESTS, TOO_MANY);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
    response
}

/// A refused request is in the same metrics as others.
fn count(api: &Api, line: &RequestLine) {
    let Ok(Route::Resource(path)) = &line.route else { return };
    let resources = api.resources.load();
    let Some(resource) = resources.find(&path.group, &path.version, &path.resource) else { return };
    let verb = match (&line.method, &path.name) {
        (&Method::GET | &Method::HEAD, _) if line.is_watch() => Verb::Watch,
        (&Method::GET | &Method::HEAD, Some(_)) => Verb::Get,
        (&Method::GET | &Method::HEAD, None) => Verb::List,
        (&Method::POST, _) => Verb::Create,
        (&Method::PUT, _) => Verb::Update,
        (&Method::PATCH, _) => Verb::Patch,
        (&Method::DELETE, Some(_)) => Verb::Delete,
        (&Method::DELETE, None) => Verb::DeleteCollection,
        _ => return,
    };
    let scope = match (&path.name, &path.namespace) {
        (Some(_), _) => Scope::Resource,
        (None, Some(_)) => Scope::Namespace,
        (None, None) => Scope::Cluster,
    };
    resource.requests.request(verb, scope).terminated(StatusCode::TOO_MANY_REQUESTS.as_u16());
}
