//! Discovery documents, in the form that the client accepts (spec api-surface §2).

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header::IF_NONE_MATCH};

use super::{
    accept::Asked,
    content_type::{self, OBJECTS},
    respond::Reply,
    status::Status,
};
use catalogue::discovery::{AGGREGATED_MEDIA_TYPE, Aggregated};

/// `/api` and `/apis`, plain or aggregated as the client accepts (spec api-surface §2.2).
pub(super) fn discovery<'a>(
    reply: &Reply,
    asked: Asked,
    headers: &HeaderMap,
    plain: impl FnOnce() -> Bytes,
    aggregated: impl FnOnce() -> &'a Aggregated,
) -> Response {
    let mut reply = reply.clone();
    let form = match consumed(asked, headers).and_then(|()| reply.negotiate(asked)) {
        Ok(form) => form,
        Err(status) => return reply.status(&status),
    };
    if !form.aggregated {
        return reply.object(StatusCode::OK, without_newline(&plain()));
    }
    let document = aggregated();
    let etag = HeaderValue::from_str(&format!("\"{}\"", document.etag)).expect("hex digits in quotes");
    if headers.get(IF_NONE_MATCH) == Some(&etag) {
        return reply.not_modified(&etag);
    }
    reply.tagged(AGGREGATED_MEDIA_TYPE, &etag, without_newline(&document.body))
}

/// A discovery document of one group or version.
pub(super) fn document(reply: &Reply, asked: Asked, headers: &HeaderMap, document: &Bytes) -> Response {
    let mut reply = reply.clone();
    match consumed(asked, headers).and_then(|()| reply.negotiate(asked)) {
        Ok(_) => reply.object(StatusCode::OK, without_newline(document)),
        Err(status) => reply.status(&status),
    }
}

/// Lets a request pass whose `Content-Type`, if it has one, the router knows.
fn consumed(asked: Asked, headers: &HeaderMap) -> Result<(), Status> {
    match asked {
        Asked::RoutedDocument | Asked::RoutedDiscovery => content_type::routed(headers, &OBJECTS, true),
        _ => Ok(()),
    }
}

fn without_newline(document: &[u8]) -> Vec<u8> {
    document.strip_suffix(b"\n").unwrap_or(document).to_vec()
}
