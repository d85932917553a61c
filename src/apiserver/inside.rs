//! What this server shows of itself to people: the page at `/watchcache/`, and its API under `/watchcache/api/v1/` (docs/operations.md, docs/decisions/0042).
//!
//! Nothing is gathered before somebody asks. What is gathered is shared by all who ask within a second (`shared`); figures are those of `/metrics`.

mod cluster;
mod expired;
mod history;
mod manager;
mod overview;
mod paging;
pub mod path;
mod resources;
mod shared;
pub mod shown;
mod stream;
mod watches;

use std::sync::Arc;

use axum::{
    extract::Request,
    response::{IntoResponse, Response},
};
use http::{
    HeaderValue, Method, StatusCode,
    header::{
        CACHE_CONTROL, CONTENT_SECURITY_POLICY, ETAG, HeaderName, IF_NONE_MATCH, LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        X_FRAME_OPTIONS,
    },
};
use serde_json::{Value, json};

use super::{api::Api, context::Authorized, status::Status};
use auth::User;
use path::InsidePath;

/// The paths of the API, in the words that it uses for itself.
const PATHS: [&str; 6] = ["overview", "resources", "watches", "expired-watches", "history", "cluster"];

const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// Answers a request for the page or its API.
pub(super) async fn serve(api: &Arc<Api>, context: &Authorized, path: &InsidePath, request: Request) -> Response {
    if !api.settings.shows_inside {
        return context.reply.page_not_found();
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let query = &context.line.query;
    let answer = match path {
        InsidePath::Watch(number) if *request.method() == Method::DELETE => cut(api, context, *number),
        _ if !reads => Err(Status::method_not_allowed()),
        InsidePath::Redirect => Ok(redirect(context)),
        InsidePath::File(name) => Ok(file(context, name, request.headers().get(IF_NONE_MATCH))),
        InsidePath::Paths => {
            let there = PATHS.iter().filter(|path| **path != "cluster" || cluster::is_there(api));
            let paths: Vec<String> = there.map(|path| format!("/watchcache/api/v1/{path}")).collect();
            Ok(answered(context, &json!({ "kind": "Paths", "paths": paths })))
        }
        InsidePath::Overview if context.line.is_watch() => stream::serve(api, context),
        InsidePath::Overview => overview(api, context).await,
        InsidePath::Resources => resources::serve(api, context, query).await,
        InsidePath::Watches => watches::serve(api, context, query).await,
        InsidePath::ExpiredWatches => expired::serve(api, context, query).await,
        InsidePath::Watch(number) => watches::one(api, *number).map(|watch| answered(context, &watch)),
        InsidePath::Cluster if cluster::is_there(api) => cluster(api, context).await,
        InsidePath::Cluster => Err(Status::not_found_generic()),
        InsidePath::History(Some(path)) => history::serve(api, context, path, query).await,
        InsidePath::History(None) => Err(Status::not_found_generic()),
    };
    answer.unwrap_or_else(|status| context.refused(&status))
}

async fn overview(api: &Arc<Api>, context: &Authorized) -> Result<Response, Status> {
    let answer = api.inside.answers.get("overview", context.until, || overview::gather(api.clone())).await?;
    Ok(json_of(context, answer.to_vec()))
}

async fn cluster(api: &Arc<Api>, context: &Authorized) -> Result<Response, Status> {
    let answer = api.inside.answers.get("cluster", context.until, || cluster::gather(api.clone())).await?;
    Ok(json_of(context, answer.to_vec()))
}

/// Ends a watch, as if its time were over. One whose client does not read ends with its connection, if that is its own.
fn cut(api: &Api, context: &Authorized, number: u64) -> Result<Response, Status> {
    let watch = api.watches.find(number).ok_or_else(|| no_watch(number))?;
    let by: &User = &context.user;
    tracing::info!(
        watch = number,
        user = watch.client.user.name,
        by = by.name,
        resource = watch.resource.served.resource,
        "a watch was ended on request"
    );
    let told = watches::row(&watch);
    tokio::spawn(watch.end(api.watches.clone()));
    Ok(answered(context, &told))
}

fn no_watch(number: u64) -> Status {
    Status::not_found("", "watches", &number.to_string())
}

/// Answers with a tree.
fn answered(context: &Authorized, tree: &Value) -> Response {
    json_of(context, tree.to_string().into_bytes())
}

/// Answers with JSON.
fn json_of(context: &Authorized, compact: Vec<u8>) -> Response {
    let mut response = context.reply.object(StatusCode::OK, compact);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The page's files name each other relatively, so that it works behind a path of a proxy, too; and so does this.
fn redirect(context: &Authorized) -> Response {
    let mut response = context.reply.empty(StatusCode::FOUND);
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("watchcache/"));
    response
}

/// A file of the page. Browsers keep it, and ask each time whether it is the same.
fn file(context: &Authorized, name: &str, has: Option<&HeaderValue>) -> Response {
    let Some(file) = page::find(name) else { return context.reply.page_not_found() };
    let tag = HeaderValue::from_str(&format!("\"{}\"", file.tag())).expect("hexadecimal digits");
    let mut response = match has.is_some_and(|has| *has == tag) {
        true => context.reply.empty(StatusCode::NOT_MODIFIED),
        false => context.reply.whole(StatusCode::OK, file.content_type, file.bytes.into()),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (CACHE_CONTROL, "no-cache, private"),
        (CONTENT_SECURITY_POLICY, page::CONTENT_SECURITY_POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(ETAG, tag);
    response.into_response()
}
