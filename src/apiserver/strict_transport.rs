//! The header `Strict-Transport-Security` of the TLS listener's answers.

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use http::{
    HeaderValue,
    header::{CACHE_CONTROL, STRICT_TRANSPORT_SECURITY},
};
use server::ListenerKind;

use super::api::connection;

/// Tells browsers of the TLS listener to come through no other. Of kube-apiserver's filters it is the neighbour of the one that forbids caches to keep what is
/// answered: an answer has both headers or none.
pub(super) async fn keep_to_tls(State(directives): State<HeaderValue>, request: Request, next: Next) -> Response {
    let is_secure = connection(&request).listener == ListenerKind::Secure;
    let mut response = next.run(request).await;
    if is_secure && response.headers().contains_key(CACHE_CONTROL) {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, directives);
    }
    response
}
