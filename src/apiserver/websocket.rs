//! WebSocket watches: which requests ask for one, and the handshake, as kube-apiserver has them by golang.org/x/net/websocket (spec list-watch §4.10).

mod origin;

use axum::{body::Body, extract::Request, response::Response};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{
    HeaderMap, HeaderValue, Method, StatusCode, Version,
    header::{CONNECTION, ORIGIN, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE},
};
use hyper::upgrade::OnUpgrade;
use server::{
    Follow, Handshake,
    websocket::{Payload, Socket},
};
use sha1::{Digest, Sha1};

use super::{
    body::{Events, WatchBody},
    extras,
};
use codec::LENGTH_PREFIX;

/// What a client's key is joined with before it is hashed (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The one version that there is.
const VERSION: &str = "13";

/// Whether a request asks for its connection to become a WebSocket. HTTP/2 has no such requests.
pub(super) fn is_asked(request: &Request) -> bool {
    let headers = request.headers();
    request.version() == Version::HTTP_11
        && headers.get(UPGRADE).is_some_and(|upgrade| upgrade.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && headers.get_all(CONNECTION).iter().any(names_upgrade)
}

fn names_upgrade(connection: &HeaderValue) -> bool {
    connection.as_bytes().to_ascii_lowercase().windows(7).any(|part| part == b"upgrade")
}

/// A watch that is to go out through a WebSocket.
pub(super) struct Upgrade {
    verdict: Result<Accepted, Refusal>,
}

/// What the answer to a good handshake says.
#[derive(Debug, PartialEq, Eq)]
struct Accepted {
    proof: HeaderValue,
    protocol: Option<HeaderValue>,
}

/// Why a handshake is refused: status and text. The connection is closed after it.
type Refusal = (StatusCode, &'static str);

const BAD_METHOD: Refusal = (StatusCode::METHOD_NOT_ALLOWED, "bad method");
const NOT_WEBSOCKET: Refusal = (StatusCode::BAD_REQUEST, "not websocket protocol");
const NO_KEY: Refusal = (StatusCode::BAD_REQUEST, "mismatch challenge/response");
const BAD_VERSION: Refusal = (StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
const NO_ORIGIN: Refusal = (StatusCode::FORBIDDEN, "");
const MANY_PROTOCOLS: Refusal = (StatusCode::BAD_REQUEST, "");

impl Upgrade {
    /// Looks at a request's handshake. It is answered when the watch is there: before, whatever else is wrong with the request is told as in any other.
    pub(super) fn asked(request: &mut Request) -> Option<Self> {
        if !is_asked(request) {
            return None;
        }
        // hyper would let go of this connection.
        request.extensions_mut().remove::<OnUpgrade>()?;
        Some(Self { verdict: judge(request.method(), request.headers()) })
    }

    /// The answer to the handshake. Where it is 101, what follows it on the connection goes along in its extensions.
    pub(super) fn answer(self, watch: WatchBody, media_type: &str) -> Response {
        let mut response = Response::new(Body::empty());
        // Whatever the verdict: a refused handshake is no less out of sight.
        let events = Events::new(watch);
        let socket = match self.verdict {
            Ok(Accepted { proof, protocol }) => {
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                let headers = response.headers_mut();
                headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
                headers.insert(SEC_WEBSOCKET_ACCEPT, proof);
                protocol.map(|protocol| headers.insert(SEC_WEBSOCKET_PROTOCOL, protocol));
                Some(Box::new(Socket { events: Box::new(events), payload: payload(media_type) }) as Box<dyn Follow>)
            }
            Err((code, text)) => {
                *response.status_mut() = code;
                *response.body_mut() = Body::from(text);
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                if (code, text) == BAD_VERSION {
                    response.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION));
                }
                None
            }
        };
        extras::of(&mut response).upgrade = Some(Handshake::followed_by(socket));
        response
    }
}

/// How events of this media type go out. A frame has a length of its own, so those of protobuf leave theirs (spec list-watch §4.10).
fn payload(media_type: &str) -> Payload {
    if media_type == "application/json" { Payload::Text } else { Payload::Binary { without: LENGTH_PREFIX } }
}

/// The checks of golang.org/x/net/websocket in their order: the first value of a header counts.
fn judge(method: &Method, headers: &HeaderMap) -> Result<Accepted, Refusal> {
    if method != Method::GET {
        return Err(BAD_METHOD);
    }
    if !headers.get(CONNECTION).is_some_and(names_upgrade) {
        return Err(NOT_WEBSOCKET);
    }
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| !key.is_empty()).ok_or(NO_KEY)?;
    if headers.get(SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
        return Err(BAD_VERSION);
    }
    if !headers.get(ORIGIN).is_some_and(|origin| origin::is_uri(origin.as_bytes())) {
        return Err(NO_ORIGIN);
    }
    let proof = BASE64_STANDARD.encode(Sha1::new().chain_update(key).chain_update(GUID).finalize());
    let protocol = headers.get(SEC_WEBSOCKET_PROTOCOL).filter(|protocol| !protocol.is_empty());
    if protocol.is_some_and(|protocol| protocol.as_bytes().contains(&b',')) {
        return Err(MANY_PROTOCOLS);
    }
    Ok(Accepted { proof: HeaderValue::from_str(&proof).expect("base64 is ASCII"), protocol: protocol.cloned() })
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    /// The request of RFC 6455 §1.3, with other values for these headers; none where the value is empty.
    fn request(changes: &[(HeaderName, &str)]) -> Request {
        let mut request = Request::new(Body::empty());
        let headers = request.headers_mut();
        for (name, value) in [
            (UPGRADE, "websocket"),
            (CONNECTION, "Upgrade"),
            (SEC_WEBSOCKET_KEY, "dGhlIHNhbXBsZSBub25jZQ=="),
            (SEC_WEBSOCKET_VERSION, "13"),
            (ORIGIN, "http://example.com"),
        ]
        .iter()
        .chain(changes)
        {
            match *value {
                "" => drop(headers.remove(name)),
                value => drop(headers.insert(name, HeaderValue::from_str(value).expect("a value"))),
            }
        }
        request
    }

    fn judged(changes: &[(HeaderName, &str)]) -> Result<Accepted, Refusal> {
        judge(&Method::GET, request(changes).headers())
    }

    #[test]
    fn the_example_of_the_rfc() {
        let proof = HeaderValue::from_static("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(judged(&[]), Ok(Accepted { proof: proof.clone(), protocol: None }));
        let protocol = Some(HeaderValue::from_static("any thing"));
        assert_eq!(judged(&[(SEC_WEBSOCKET_PROTOCOL, "any thing")]), Ok(Accepted { proof, protocol }));
    }

    #[test]
    fn the_first_thing_that_is_wrong_is_told() {
        let [key, version, origin, protocol] = [SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, ORIGIN, SEC_WEBSOCKET_PROTOCOL];
        let mut changes = vec![(protocol, "a, b")];
        assert_eq!(judged(&changes), Err(MANY_PROTOCOLS));
        changes.push((origin.clone(), "null"));
        assert_eq!(judged(&changes), Err(NO_ORIGIN));
        changes.push((origin, ""));
        assert_eq!(judged(&changes), Err(NO_ORIGIN));
        changes.push((version.clone(), "8"));
        assert_eq!(judged(&changes), Err(BAD_VERSION));
        changes.push((version, ""));
        assert_eq!(judged(&changes), Err(BAD_VERSION));
        changes.push((key, ""));
        assert_eq!(judged(&changes), Err(NO_KEY));
        changes.push((CONNECTION, "keep-alive"));
        assert_eq!(judged(&changes), Err(NOT_WEBSOCKET));
        assert_eq!(judge(&Method::HEAD, request(&changes).headers()), Err(BAD_METHOD));
    }

    #[test]
    fn the_media_type_says_how_events_go_out() {
        assert_eq!(payload("application/json"), Payload::Text);
        assert_eq!(payload("application/vnd.kubernetes.protobuf;stream=watch"), Payload::Binary { without: 4 });
    }

    #[test]
    fn upgrades_are_asked_for_by_two_headers() {
        let asked = |changes: &[(HeaderName, &str)]| is_asked(&request(changes));
        assert!(asked(&[]));
        assert!(asked(&[(UPGRADE, "WebSocket"), (CONNECTION, "keep-alive, UPGRADE")]));
        for not in [[(UPGRADE, "")], [(UPGRADE, "h2c")], [(UPGRADE, "websocket, h2c")], [(CONNECTION, "")], [(CONNECTION, "keep-alive")]] {
            assert!(!asked(&not), "{not:?}");
        }
        let mut second = request(&[(CONNECTION, "keep-alive")]);
        second.headers_mut().append(CONNECTION, HeaderValue::from_static("upgrade"));
        assert!(is_asked(&second));
        let mut of_http2 = request(&[]);
        *of_http2.version_mut() = Version::HTTP_2;
        assert!(!is_asked(&of_http2));
    }
}
