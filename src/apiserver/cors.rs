//! Pages of other origins: the headers by which browsers let them read answers, as kube-apiserver's filter `WithCORS` sets them.

use std::future::Future;

use axum::{body::Body, extract::Request, response::Response};
use http::{
    HeaderValue, Method, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN,
    },
};

use super::api::arrived;
use super::origins::Origins;

const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE, PATCH");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
);
const EXPOSED: HeaderValue = HeaderValue::from_static("Date");

/// Answers a request, with these headers if it is of a page that is allowed.
pub(super) async fn allow<F: Future<Output = Response>>(
    origins: Option<&Origins>,
    request: Request,
    next: impl FnOnce(Request) -> F,
) -> Response {
    match origins.and_then(|origins| allowed(origins, &request)) {
        None => next(request).await,
        // Boxed: few requests are of such pages.
        Some(origin) => Box::pin(read(origin, request, next)).await,
    }
}

/// Answers a page that may read. Whether it may ask at all (`OPTIONS`) is answered here, whoever asks.
async fn read<F: Future<Output = Response>>(origin: HeaderValue, request: Request, next: impl FnOnce(Request) -> F) -> Response {
    let mut response = match *request.method() {
        Method::OPTIONS => arrived(&request).reply.empty(StatusCode::NO_CONTENT).map(Body::new),
        _ => next(request).await,
    };
    // As there, what follows a handshake is none of it.
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
    response
}

/// The origin of a request, if it is allowed: the first one that it names.
fn allowed(origins: &Origins, request: &Request) -> Option<HeaderValue> {
    let origin = request.headers().get(ORIGIN)?;
    origins.allow(origin.as_bytes()).then(|| origin.clone())
}
