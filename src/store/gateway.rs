//! What etcd answers over plain HTTP on its client port: probes, metrics and the JSON gateway, which translates and decides nothing.

mod messages;
mod probes;
mod read;
mod write;

use std::future::Future;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request as HttpRequest};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response as HttpResponse};
use axum::routing::{MethodRouter, any, post};
use futures_util::{StreamExt, stream};
use prost::Message;
use proto::cluster_server::Cluster;
use proto::kv_server::Kv;
use proto::lease_server::Lease;
use proto::maintenance_server::Maintenance;
use proto::{LeaseKeepAliveRequest, WatchRequest};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status};

use super::check::MESSAGE_BYTES_MAX;
use super::refusal::Refusal;
use super::service::Service;
use read::Read;
use write::Write;

/// Bytes of a body: what gRPC takes of a request, in base64, and as much again as half of it for names and space.
pub(super) const JSON_BYTES_MAX: usize = 4 << 20;
/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// What etcd's gateway says of the message that it has translated.
const TRANSLATED: (HeaderName, HeaderValue) =
    (HeaderName::from_static("grpc-metadata-content-type"), HeaderValue::from_static("application/grpc"));
/// Paths of etcd's gateway below /v3 that are for what one node without users and alarms has not.
const NOT_SERVED: &[&str] = &[
    "/auth/authenticate",
    "/auth/disable",
    "/auth/enable",
    "/auth/role/add",
    "/auth/role/delete",
    "/auth/role/get",
    "/auth/role/grant",
    "/auth/role/list",
    "/auth/role/revoke",
    "/auth/status",
    "/auth/user/add",
    "/auth/user/changepw",
    "/auth/user/delete",
    "/auth/user/get",
    "/auth/user/grant",
    "/auth/user/list",
    "/auth/user/revoke",
    "/cluster/member/add",
    "/cluster/member/promote",
    "/cluster/member/remove",
    "/cluster/member/update",
    "/election/campaign",
    "/election/leader",
    "/election/observe",
    "/election/proclaim",
    "/election/resign",
    "/lock/lock",
    "/lock/unlock",
    "/maintenance/downgrade",
    "/maintenance/hash",
    "/maintenance/hashkv",
    "/maintenance/transfer-leadership",
];

/// Adds the paths of plain HTTP to those of gRPC.
pub(super) fn add(grpc: Router, service: &Service) -> Router {
    let nothing = || any(async || refused(&Status::not_found("Not Found")));
    let json = Router::new().nest("/v3", json_paths(service)).nest("/v3beta", json_paths(service));
    let paths = json.route("/v3/", nothing()).route("/v3beta/", nothing()).merge(probes::paths(service));
    let paths = paths.layer(DefaultBodyLimit::max(JSON_BYTES_MAX)).layer(from_fn(no_pages));
    grpc.fallback(absent).merge(paths)
}

fn json_paths(service: &Service) -> Router {
    let mut paths = Router::new()
        .route("/kv/range", unary(service, |service, request| async move { Kv::range(&service, request).await }))
        .route("/kv/put", unary(service, |service, request| async move { Kv::put(&service, request).await }))
        .route("/kv/deleterange", unary(service, |service, request| async move { Kv::delete_range(&service, request).await }))
        .route("/kv/txn", unary(service, |service, request| async move { Kv::txn(&service, request).await }))
        .route("/kv/compaction", unary(service, |service, request| async move { Kv::compact(&service, request).await }))
        .route("/lease/grant", unary(service, |service, request| async move { service.lease_grant(request).await }))
        .route("/cluster/member/list", unary(service, |service, request| async move { service.member_list(request).await }))
        .route("/maintenance/status", unary(service, |service, request| async move { Maintenance::status(&service, request).await }))
        .route("/maintenance/alarm", unary(service, |service, request| async move { service.alarm(request).await }))
        .route("/maintenance/defragment", unary(service, |service, request| async move { service.defragment(request).await }))
        .route("/maintenance/snapshot", streamed(service, snapshot))
        .route("/lease/keepalive", streamed(service, keep_alive))
        .route("/watch", streamed(service, watch));
    // etcd has these under both names.
    for at in ["", "/kv"] {
        paths = paths
            .route(&format!("{at}/lease/revoke"), unary(service, |service, request| async move { service.lease_revoke(request).await }))
            .route(
                &format!("{at}/lease/timetolive"),
                unary(service, |service, request| async move { service.lease_time_to_live(request).await }),
            )
            .route(&format!("{at}/lease/leases"), unary(service, |service, request| async move { service.lease_leases(request).await }));
    }
    for &path in NOT_SERVED {
        paths = paths.route(path, post(async move || refused(&Status::unimplemented(format!("{path} is not served by this store")))));
    }
    paths
        .method_not_allowed_fallback(async || refused(&Status::unimplemented("Method Not Allowed")))
        .fallback(async || refused(&Status::not_found("Not Found")))
}

/// Answers a request with one message.
fn unary<Q, A, F, W>(service: &Service, call: F) -> MethodRouter
where
    Q: Read + Message + 'static,
    A: Write,
    F: Fn(Service, Request<Q>) -> W + Clone + Send + Sync + 'static,
    W: Future<Output = Result<Response<A>, Status>> + Send + 'static,
{
    let service = service.clone();
    post(async move |request: HttpRequest| {
        let (head, body) = request.into_parts();
        let asked = collect(body).await.and_then(|body| sized(read::first(&body)?));
        let answer = match asked {
            Ok(message) => call(service, Request::from_parts(MetadataMap::default(), head.extensions, message)).await,
            Err(status) => Err(status),
        };
        match answer.map(Response::into_parts) {
            Ok((_, message, extensions)) => {
                let mut text = String::new();
                message.json(&mut text);
                let mut response = translated(text);
                *response.extensions_mut() = extensions;
                response
            }
            Err(status) => refused(&status),
        }
    })
}

/// Refuses a message that gRPC would not take.
fn sized<M: Message>(message: M) -> Result<M, Status> {
    let bytes = message.encoded_len();
    if bytes > MESSAGE_BYTES_MAX { Err(Refusal::TooLargeMessage(bytes, MESSAGE_BYTES_MAX).into()) } else { Ok(message) }
}

/// What answers a stream: lines of JSON.
type Lines = stream::BoxStream<'static, Result<String, Status>>;

/// Answers a request with a stream of messages, a line each; the body is read to its end before.
fn streamed(service: &Service, open: fn(&Service, Request<Bytes>) -> Result<Lines, Status>) -> MethodRouter {
    let service = service.clone();
    post(async move |request: HttpRequest| {
        let (head, body) = request.into_parts();
        let opened = match collect(body).await {
            Ok(body) => open(&service, Request::from_parts(MetadataMap::default(), head.extensions, body)),
            Err(status) => Err(status),
        };
        match opened {
            Ok(lines) => {
                translated(Body::from_stream(lines.map(|line| Ok::<_, std::io::Error>(line.unwrap_or_else(|status| last(&status))))))
            }
            Err(status) => refused(&status),
        }
    })
}

fn line(message: &impl Write) -> String {
    let mut line = String::from("{\"result\":");
    message.json(&mut line);
    line.push_str("}\n");
    line
}

/// The line of an error, which ends a stream.
fn last(status: &Status) -> String {
    format!("{{\"error\":{}}}\n", described(status))
}

fn snapshot(service: &Service, _: Request<Bytes>) -> Result<Lines, Status> {
    Ok(service.pieces()?.map(|piece| piece.map(|piece| line(&piece))).boxed())
}

/// Renews the leases of a body one after the other. A value that cannot be read ends the stream without a word, as in etcd.
fn keep_alive(service: &Service, request: Request<Bytes>) -> Result<Lines, Status> {
    let service = service.clone();
    let renewed = stream::iter(messages::<LeaseKeepAliveRequest>(request.get_ref())).then(move |lease| {
        let service = service.clone();
        async move { service.renew(lease.id).await.map(|answer| line(&answer)).map_err(Status::from) }
    });
    Ok(renewed.boxed())
}

fn watch(service: &Service, request: Request<Bytes>) -> Result<Lines, Status> {
    let asked = messages::<WatchRequest>(request.get_ref()).into_iter().map(Ok);
    let responses = service.follow(stream::iter(asked), service.account.of(&request))?;
    Ok(responses.map(|response| response.map(|response| line(&response))).boxed())
}

/// The messages of a body, up to one that cannot be read.
fn messages<M: Read>(body: &[u8]) -> Vec<M> {
    read::values(body).map_while(|value| value.and_then(read::message).ok()).collect()
}

async fn collect(body: Body) -> Result<Bytes, Status> {
    let collected = tokio::time::timeout(BODY_TIMEOUT, axum::body::to_bytes(body, JSON_BYTES_MAX)).await;
    let collected = collected.map_err(|_| Status::deadline_exceeded(format!("the body did not come within {BODY_TIMEOUT:?}")))?;
    collected.map_err(|_| Status::resource_exhausted(format!("the body cannot be read, or is larger than {JSON_BYTES_MAX} bytes")))
}

pub(super) fn refused(status: &Status) -> HttpResponse {
    in_json(http_code(status.code()), described(status))
}

fn described(status: &Status) -> String {
    let mut text = format!("{{\"code\":{},\"message\":", i32::from(status.code()));
    write::text(status.message(), &mut text);
    text + "}"
}

fn translated(body: impl Into<Body>) -> HttpResponse {
    let mut response = in_json(StatusCode::OK, body);
    response.headers_mut().extend([TRANSLATED]);
    response
}

fn in_json(code: StatusCode, body: impl Into<Body>) -> HttpResponse {
    let mut response = HttpResponse::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The HTTP code that grpc-gateway gives to a code of gRPC.
fn http_code(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::OK,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => StatusCode::BAD_REQUEST,
        Code::DeadlineExceeded => StatusCode::GATEWAY_TIMEOUT,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted => StatusCode::CONFLICT,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Cancelled | Code::Unknown | Code::Internal | Code::DataLoss => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Refuses what a browser sends for a page: nothing is authenticated here, and any page could write to a port of loopback.
async fn no_pages(request: HttpRequest, next: Next) -> HttpResponse {
    if request.headers().contains_key(header::ORIGIN) {
        return (StatusCode::FORBIDDEN, "requests of web pages (with the header Origin) are refused: the store authenticates nobody\n")
            .into_response();
    }
    next.run(request).await
}

/// Answers a path that is not served: in gRPC's way to a client of gRPC.
async fn absent(request: HttpRequest) -> HttpResponse {
    let kind = request.headers().get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
    if kind.starts_with(b"application/grpc") {
        return Status::unimplemented("").into_http::<Body>();
    }
    probes::plain(StatusCode::NOT_FOUND, "404 page not found\n")
}
