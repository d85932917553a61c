//! A line in the log for each request, with the fields of kube-apiserver's, where the log level asks for it (`--v=3`).

use std::net::SocketAddr;

use axum::{extract::Request, response::Response};
use http::{
    Method, StatusCode,
    header::{CONTENT_TYPE, USER_AGENT},
};
use http_body::Body as _;
use tokio::time::Instant;

use server::heads::Held;

use super::{conn::ConnInfo, held::held, line::RequestLine, respond::AUDIT_ID};

/// Bytes of an audit ID that the log shows, as in kube-apiserver.
const AUDIT_ID_MAX: usize = 64;

/// Bytes of a URI, and of a `User-Agent`, that the log shows of a client whose requests take too much memory.
const CUT_BYTES_MAX: usize = 1 << 10;

/// What is told of a request when it ends.
pub(super) struct RequestLog {
    at: Instant,
    verb: String,
    uri: String,
    user_agent: String,
    peer: SocketAddr,
    /// What counts it.
    _kept: Option<Held>,
}

impl RequestLog {
    /// What is told of a request; nothing when nobody reads it.
    pub(super) fn begin(conn: &ConnInfo, request: &Request) -> Option<Box<Self>> {
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return None;
        }
        let user_agent =
            request.headers().get(USER_AGENT).map_or(String::new(), |agent| String::from_utf8_lossy(agent.as_bytes()).into_owned());
        let (mut uri, mut user_agent) =
            (request.uri().path_and_query().map_or_else(|| request.uri().to_string(), ToString::to_string), user_agent);
        let kept = conn.heads.keep(uri.len() + user_agent.len()).unwrap_or_else(|_| {
            cut(&mut uri);
            cut(&mut user_agent);
            None
        });
        Some(Box::new(Self { at: Instant::now(), verb: verb(request), uri, user_agent, peer: conn.peer, _kept: kept }))
    }

    /// Tells of a request, if anything is told, when its answer is over: of a watch, when it ends.
    pub(super) fn end(told: Option<Box<Self>>, response: Response) -> Response {
        let Some(told) = told else { return response };
        let audit_id = response.headers().get(AUDIT_ID).map_or(String::new(), |id| String::from_utf8_lossy(id.as_bytes()).into_owned());
        let ending = Ending { told, audit_id, code: response.status() };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS || response.body().size_hint().exact().is_some() {
            return response;
        }
        response.map(|body| held(body, ending))
    }
}

/// Leaves so much of a text that it need not be counted.
fn cut(text: &mut String) {
    text.truncate(text.floor_char_boundary(CUT_BYTES_MAX));
    text.shrink_to_fit();
}

/// kube-apiserver's word for what a request does: that of its metrics.
fn verb(request: &Request) -> String {
    let method = request.method();
    let line = RequestLine::parse(method, request.uri());
    let info = line.info();
    let is_apply = || request.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == "application/apply-patch+yaml");
    let names_one = !info.name.is_empty() || info.verb == "create";
    match *method {
        _ if line.is_watch() => "WATCH".to_owned(),
        Method::GET | Method::HEAD if info.is_resource && !names_one => "LIST".to_owned(),
        Method::GET | Method::HEAD => "GET".to_owned(),
        Method::PATCH if is_apply() => "APPLY".to_owned(),
        _ => method.to_string(),
    }
}

/// Tells of a request when it is dropped.
struct Ending {
    told: Box<RequestLog>,
    audit_id: String,
    code: StatusCode,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let RequestLog { at, verb, uri, user_agent, peer, .. } = &*self.told;
        let (latency, peer) = (format!("{:?}", at.elapsed()), peer.to_string());
        let audit_id = self.audit_id.get(..AUDIT_ID_MAX).unwrap_or(&self.audit_id);
        if self.code == StatusCode::SWITCHING_PROTOCOLS {
            tracing::debug!(verb, URI = uri, latency, userAgent = user_agent, "audit-ID" = audit_id, srcIP = peer, hijacked = true, "HTTP");
        } else {
            let resp = self.code.as_u16();
            tracing::debug!(verb, URI = uri, latency, userAgent = user_agent, "audit-ID" = audit_id, srcIP = peer, resp, "HTTP");
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn verbs_are_those_of_kube_apiserver_s_log() {
        let of = |method: Method, uri: &str, kind: Option<&str>| {
            let mut request = Request::builder().method(method).uri(uri);
            if let Some(kind) = kind {
                request = request.header(CONTENT_TYPE, kind);
            }
            verb(&request.body(Body::empty()).expect("a request"))
        };
        for (uri, wanted) in [
            ("/api/v1/pods", "LIST"),
            ("/api/v1/namespaces/a/pods?limit=1", "LIST"),
            ("/api/v1/namespaces/a/pods/b", "GET"),
            ("/api/v1/pods?watch=1", "WATCH"),
            ("/api/v1/watch/pods", "WATCH"),
            ("/version", "GET"),
            ("/apis", "GET"),
        ] {
            assert_eq!(of(Method::GET, uri, None), wanted, "{uri}");
        }
        let one = "/api/v1/namespaces/a/configmaps/b";
        assert_eq!(of(Method::HEAD, one, None), "GET");
        assert_eq!(of(Method::PATCH, one, Some("application/merge-patch+json")), "PATCH");
        assert_eq!(of(Method::PATCH, one, Some("application/apply-patch+yaml")), "APPLY");
        assert_eq!(of(Method::DELETE, "/api/v1/namespaces/a/configmaps", None), "DELETE");
        assert_eq!(of(Method::OPTIONS, "/api/v1/namespaces", None), "OPTIONS");
    }
}
