//! How old memory may be that answers: which reads it is too old for, and what clients are told of its age.

use std::{sync::Arc, time::Duration};

use axum::{extract::Request, response::Response};
use http::{
    HeaderValue, Method, StatusCode,
    header::{AGE, WARNING},
};
use tokio::time::sleep;

use super::{api::Api, context::Authorized, line::RequestLine, path::ResourcePath, resource, status::Status};
use cache::state::snapshot::Fed;
use registry::Resource;
use storage::read::{
    options::ListOptions,
    target::{RequestScope, Target},
};

/// What RFC 9111 has for an answer whose server was out of reach. Of the code 110 clients of Kubernetes print nothing, as they do of 299.
const STALE: HeaderValue = HeaderValue::from_static(r#"110 watchcache "Response is Stale""#);
/// The same of one that should have been consistent.
const CACHED: HeaderValue = HeaderValue::from_static(
    r#"299 watchcache "answered from memory, which may be older than what the API server behind has: --consistent-reads=cached""#,
);
/// How often it is looked whether memory is too old for the watches that are open.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The part of the watches that ends at one look, so that upstream gets them one after the other.
const DISMISSED_PART: usize = 10;

/// Returns whether memory, which is behind, is too old for this read: it asks for what etcd has now, or for less than `--max-staleness`.
pub(super) fn is_out_of_reach(api: &Api, resource: &Arc<Resource>, path: &ResourcePath, line: &RequestLine) -> bool {
    let published = &resource.handle.published;
    if !published.fed().is_behind() {
        return false;
    }
    if is_too_old(api, published.fed()) {
        return true;
    }
    let known = published.known();
    if let (Some(name), false) = (&path.name, line.is_watch()) {
        let target = Target::object(resource.clone(), api.reader.prefix(), path.namespace.as_deref(), name);
        return api.reader.get_needs_etcd(&target, &known, line.query.first("resourceVersion").unwrap_or(""));
    }
    // What is wrong with its options or selectors, memory tells as well as upstream.
    let Ok(mut options) = ListOptions::of(&line.query) else { return false };
    let wanted = RequestScope {
        namespace: path.namespace.as_deref(),
        name: path.name.as_deref(),
        labels: &options.label_selector,
        fields: &options.field_selector,
        shard: None,
    };
    let Ok(target) = Target::collection(resource.clone(), api.reader.prefix(), &wanted, || Ok(())) else { return false };
    if line.is_watch() {
        if options.watch {
            options.default_watch();
        }
        return api.reader.watch_needs_etcd(&target, &known, &options);
    }
    api.reader.list_needs_etcd(&target, &options)
}

fn is_too_old(api: &Api, fed: &Fed) -> bool {
    api.settings.max_staleness.is_some_and(|most| fed.age().is_none_or(|age| age > most))
}

/// Answers a request whose path names a resource, and says how old the answer may be.
pub(super) async fn serve(api: &Api, context: &Authorized, path: &ResourcePath, request: Request) -> Response {
    let warns = api.reader.takes_memory() && *request.method() == Method::GET && is_consistent(&context.line);
    let mut response = with_age(api, context, path, request).await;
    if warns && response.status() == StatusCode::OK {
        response.headers_mut().append(WARNING, CACHED);
    }
    response
}

/// Whether a read asks for what there is now.
fn is_consistent(line: &RequestLine) -> bool {
    line.query.first("resourceVersion").unwrap_or("").is_empty() && (!line.is_watch() || line.query.first("sendInitialEvents").is_some())
}

async fn with_age(api: &Api, context: &Authorized, path: &ResourcePath, request: Request) -> Response {
    let fed = match api.oldest().is_behind() {
        true => api.resources.load().find(&path.group, &path.version, &path.resource).map(|found| found.handle.published.fed().clone()),
        false => None,
    };
    let Some(fed) = fed else { return resource::serve(api, context, path, request).await };
    match age(api, &fed, request.method(), &context.line) {
        Ok(age) => {
            let mut response = resource::serve(api, context, path, request).await;
            tell(age, &mut response);
            response
        }
        Err(status) => context.refused(&status),
    }
}

/// Returns the age of memory that is behind, if this request is answered as memory has it.
///
/// # Errors
/// 503 when that is more than `--max-staleness` allows and nobody else can be asked.
fn age(api: &Api, fed: &Fed, method: &Method, line: &RequestLine) -> Result<Option<Duration>, Status> {
    let is_from_memory =
        api.reader.takes_memory() || line.is_watch() || line.query.first("resourceVersion").is_some_and(|revision| !revision.is_empty());
    if !matches!(*method, Method::GET | Method::HEAD) || !is_from_memory || !fed.is_behind() {
        return Ok(None);
    }
    let age = fed.age();
    match api.settings.max_staleness {
        Some(most) if api.upstream.is_none() && is_too_old(api, fed) => Err(Status::unavailable(
            format!("memory is {} s behind etcd, and --max-staleness is {} s", age.unwrap_or_default().as_secs(), most.as_secs()),
            1,
        )),
        _ => Ok(age),
    }
}

/// Tells the client how old the answer may be.
fn tell(age: Option<Duration>, response: &mut Response) {
    if let Some(age) = age.filter(|_| response.status() == StatusCode::OK) {
        response.headers_mut().insert(AGE, age.as_secs().into());
        response.headers_mut().append(WARNING, STALE);
    }
}

/// Ends the open watches of a replica once memory is older than `--max-staleness`: their clients come again and are forwarded, where they miss nothing. While
/// upstream does not answer they stay, for nobody could go on with them.
pub async fn dismiss(api: Arc<Api>) {
    loop {
        sleep(LOOK_EVERY).await;
        let upstream_answers = api.upstream.as_ref().is_some_and(|upstream| upstream.answers());
        if !upstream_answers || !api.oldest().is_behind() || !is_too_old(&api, api.oldest()) {
            continue;
        }
        let watches = api.access.watches();
        if watches > 0 {
            let ended = api.access.move_watches(watches.div_ceil(DISMISSED_PART)).await;
            tracing::info!(watches, ended, "memory is older than --max-staleness: watches end, and upstream goes on with them");
        }
    }
}
