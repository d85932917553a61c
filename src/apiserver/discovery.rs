//! Discovery documents, in the form that the client accepts (spec api-surface §2).

use axum::{extract::Request, response::Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header::IF_NONE_MATCH};

use super::{
    accept::Asked,
    api::{whole, without_newline},
    content_type::{self, OBJECTS},
    respond::Reply,
    status::Status,
};
use catalogue::discovery::{AGGREGATED_MEDIA_TYPE, Aggregated};

/// `/api` and `/apis`, plain or aggregated as the client accepts (spec api-surface §2.2).
pub(super) fn discovery<'a>(
    mut reply: Reply,
    asked: Asked,
    request: &Request,
    plain: impl FnOnce() -> Bytes,
    aggregated: impl FnOnce() -> &'a Aggregated,
) -> Response {
    let form = match consumed(asked, request).and_then(|()| reply.negotiate(asked)) {
        Ok(form) => form,
        Err(status) => return whole(reply.status(&status)),
    };
    if !form.aggregated {
        return whole(reply.object(StatusCode::OK, without_newline(&plain())));
    }
    let document = aggregated();
    let etag = HeaderValue::from_str(&format!("\"{}\"", document.etag)).expect("hex digits in quotes");
    if request.headers().get(IF_NONE_MATCH) == Some(&etag) {
        return whole(reply.not_modified(&etag));
    }
    whole(reply.tagged(AGGREGATED_MEDIA_TYPE, &etag, without_newline(&document.body)))
}

/// A discovery document of one group or version.
pub(super) fn document(mut reply: Reply, asked: Asked, request: &Request, document: &Bytes) -> Response {
    match consumed(asked, request).and_then(|()| reply.negotiate(asked)) {
        Ok(_) => whole(reply.object(StatusCode::OK, without_newline(document))),
        Err(status) => whole(reply.status(&status)),
    }
}

/// Lets a request pass whose `Content-Type`, if it has one, the router knows.
fn consumed(asked: Asked, request: &Request) -> Result<(), Status> {
    match asked {
        Asked::RoutedDocument | Asked::RoutedDiscovery => content_type::routed(request.headers(), &OBJECTS, true),
        _ => Ok(()),
    }
}
