//! The header `Strict-Transport-Security` of the TLS listener's answers.

use axum::response::Response;
use http::{
    HeaderValue,
    header::{CACHE_CONTROL, STRICT_TRANSPORT_SECURITY},
};
use server::ListenerKind;

/// Tells browsers of the TLS listener to come through no other. Of kube-apiserver's filters it is the neighbour of the one that forbids caches to keep what is
/// answered: an answer has both headers or none.
pub(super) fn tell(directives: Option<&HeaderValue>, listener: ListenerKind, response: &mut Response) {
    if let Some(directives) = directives.filter(|_| listener == ListenerKind::Secure && response.headers().contains_key(CACHE_CONTROL)) {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, directives.clone());
    }
}
