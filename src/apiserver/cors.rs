//! Pages of other origins: the headers by which browsers let them read answers, as kube-apiserver's filter `WithCORS` sets them.

use axum::{extract::Request, response::Response};
use http::{
    HeaderValue, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN,
    },
};

use super::origins::Origins;

const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE, PATCH");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
);
const EXPOSED: HeaderValue = HeaderValue::from_static("Date");

/// Adds the headers by which a page of this origin may read an answer.
pub(super) fn tell(origin: HeaderValue, response: &mut Response) {
    // As there, what follows a handshake is none of it.
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
    }
}

/// Returns the origin of a request, the first one that it names, if its pages may read answers.
pub(super) fn allowed(origins: Option<&Origins>, request: &Request) -> Option<HeaderValue> {
    let (origins, origin) = (origins?, request.headers().get(ORIGIN)?);
    origins.allow(origin.as_bytes()).then(|| origin.clone())
}
