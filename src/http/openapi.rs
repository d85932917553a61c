//! `/openapi/v3`: documents with a hash in their URL, so that clients keep them (spec api-surface §1.6). Knows nothing of what is in them.
//!
//! Deviations: JSON is the only form (a client that accepts protobuf alone gets 406; kubectl and client-go accept both), there is no `/openapi/v2`, and
//! no `Last-Modified`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::extract::Request;
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY},
};
use http_body_util::Full;

use super::respond::Reply;
use go::{calendar::civil, url::Query};
use kube::{Catalogue, openapi::Document};

const JSON: &str = "application/json";
/// What kube-apiserver says of the index, which is JSON.
const TEXT: &str = "text/plain; charset=utf-8";
/// How long a document may be kept when its URL has its hash.
const KEPT: Duration = Duration::from_secs(365 * 86_400);

/// Answers what follows `/openapi/`. Any method is answered as GET, as by kube-apiserver. Makes documents on first need: some 100 ms of computing.
pub(super) fn answer(reply: &Reply, (request, query): (&Request, &Query), catalogue: &Catalogue, rest: &str) -> Response<Full<Bytes>> {
    match rest.split_once('/') {
        None if rest == "v3" => reply.whole(StatusCode::OK, TEXT, catalogue.openapi_index().clone()),
        Some(("v3", path)) => match catalogue.openapi(path) {
            Some(found) => document(reply, (request, query), path, found),
            None => bare(reply, StatusCode::NOT_FOUND),
        },
        _ => reply.page_not_found(),
    }
}

fn document(reply: &Reply, (request, query): (&Request, &Query), path: &str, document: &Document) -> Response<Full<Bytes>> {
    let mut response = if accepts_json(request.headers()) {
        tagged(reply, (request, query), path, document)
    } else {
        bare(reply, StatusCode::NOT_ACCEPTABLE)
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn tagged(reply: &Reply, (request, query): (&Request, &Query), path: &str, document: &Document) -> Response<Full<Bytes>> {
    let asked = query.first("hash").filter(|hash| !hash.is_empty());
    let etag = header(&format!("\"{}\"", document.hash));
    let mut response = match asked {
        Some(hash) if hash != document.hash => {
            let mut moved = reply.whole(StatusCode::MOVED_PERMANENTLY, JSON, Bytes::new());
            moved.headers_mut().insert(LOCATION, header(&format!("/openapi/v3/{path}?hash={}", document.hash)));
            moved
        }
        _ if request.headers().get(IF_NONE_MATCH) == Some(&etag) => {
            let mut known = bare(reply, StatusCode::NOT_MODIFIED);
            known.headers_mut().remove(CONTENT_LENGTH);
            known
        }
        _ => reply.whole(StatusCode::OK, JSON, document.body.clone()),
    };
    if asked.is_some_and(|hash| hash == document.hash) {
        put(&mut response, CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
        put(&mut response, EXPIRES, header(&date(SystemTime::now() + KEPT)));
    }
    put(&mut response, ETAG, etag);
    response
}

/// Nothing but the code.
fn bare(reply: &Reply, code: StatusCode) -> Response<Full<Bytes>> {
    let mut response = reply.whole(code, JSON, Bytes::new());
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

fn put(response: &mut Response<Full<Bytes>>, name: HeaderName, value: HeaderValue) {
    response.headers_mut().insert(name, value);
}

/// A header of a hash, a date or a path that a route matched.
fn header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("made of a catalogue's names, digits and ASCII letters")
}

/// Whether JSON is among what the client takes; no header takes all.
fn accepts_json(headers: &HeaderMap) -> bool {
    let mut asked = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).peekable();
    let taken = |kind: &str| matches!(kind.split(';').next().unwrap_or_default().trim(), "" | JSON | "application/*" | "*/*");
    asked.peek().is_none() || asked.any(taken)
}

/// `Sun, 21 Nov 2027 14:27:40 UTC`.
fn date(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let days = i64::try_from(seconds / 86_400).unwrap_or(0);
    let (year, month, day) = civil(days);
    let weekday = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"][usize::try_from(days % 7).unwrap_or(0)];
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months[usize::try_from(month - 1).unwrap_or(0)];
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Method;

    use super::*;

    fn ask(path: &str, headers: &[(HeaderName, &str)]) -> Response<Full<Bytes>> {
        let mut request = Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let reply = Reply::new(&Method::GET, request.headers(), None);
        let rest = request.uri().path().strip_prefix("/openapi/").expect("its route");
        let query = Query::parse(request.uri().query().unwrap_or(""));
        answer(&reply, (&request, &query), &Catalogue::new(&[]), rest)
    }

    fn told(response: &Response<Full<Bytes>>, name: HeaderName) -> &str {
        response.headers().get(name).map_or("-", |value| value.to_str().expect("ASCII"))
    }

    #[test]
    fn a_document_is_kept_as_long_as_its_hash_is_right() {
        let catalogue = Catalogue::new(&[]);
        let hash = &catalogue.openapi("apis/apps/v1").expect("it is there").hash;
        let (plain, hashed) = ("/openapi/v3/apis/apps/v1", format!("/openapi/v3/apis/apps/v1?hash={hash}"));
        let etag = format!("\"{hash}\"");
        let check = |path: &str, sent: &[(HeaderName, &str)], code: u16, cache: &str, location: &str| {
            let response = ask(path, sent);
            let found = (response.status().as_u16(), told(&response, CACHE_CONTROL), told(&response, LOCATION));
            assert_eq!(found, (code, cache, location), "{path}");
            assert_eq!((told(&response, ETAG), told(&response, VARY)), (&*etag, "Accept"), "{path}");
            assert_eq!(response.headers().contains_key(EXPIRES), cache != "no-cache, private", "{path}");
        };
        check(plain, &[], 200, "no-cache, private", "-");
        check(&format!("{plain}?hash="), &[], 200, "no-cache, private", "-");
        check(&hashed, &[], 200, "public, immutable", "-");
        check(&format!("{plain}?hash=ABC"), &[], 301, "no-cache, private", &hashed);
        check(plain, &[(IF_NONE_MATCH, &etag)], 304, "no-cache, private", "-");
        check(&hashed, &[(IF_NONE_MATCH, &etag)], 304, "public, immutable", "-");
    }

    #[test]
    fn only_json_is_there_and_only_what_is_served() {
        let code = |path: &str, accept: &str| ask(path, &[(ACCEPT, accept)]).status().as_u16();
        let path = "/openapi/v3/api/v1";
        let protobuf = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
        assert_eq!(code(path, protobuf), 406);
        assert_eq!(code(path, "text/html"), 406);
        for accept in [
            "application/json",
            "*/*",
            "application/*",
            &format!("{protobuf}, application/json;q=0.5"),
            "text/html,application/json;as=Table",
        ] {
            assert_eq!(code(path, accept), 200, "{accept}");
        }
        assert_eq!(code("/openapi/v3", "text/html"), 200);
        let missing = ask("/openapi/v3/apis/nope/v1", &[]);
        assert_eq!((missing.status().as_u16(), told(&missing, CONTENT_TYPE)), (404, "-"));
        assert_eq!(code("/openapi/v2", "*/*"), 404);
        assert_eq!(told(&ask("/openapi/v3", &[]), CONTENT_TYPE), TEXT);
    }

    #[test]
    fn dates_are_told_in_words() {
        assert_eq!(date(UNIX_EPOCH + Duration::from_secs(1_826_807_260)), "Sun, 21 Nov 2027 14:27:40 UTC");
        assert_eq!(date(UNIX_EPOCH), "Thu, 01 Jan 1970 00:00:00 UTC");
    }
}
