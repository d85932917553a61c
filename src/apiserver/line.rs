//! Method, path and query of a request, read once.

use std::sync::{Arc, OnceLock};

use http::{Method, Uri};

use super::{
    inside::path::InsidePath,
    path::{PathError, Route},
    request_info::request_info,
};
use auth::authz::RequestInfo;
use go::url::Query;

/// What the request line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestLine {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) route: Result<Route, PathError>,
    pub(super) query: Query,
    /// Whether more than one slash ends the path.
    pub(super) ends_with_slashes: bool,
    /// GET or HEAD.
    reads: bool,
    info: OnceLock<Arc<RequestInfo>>,
}

impl RequestLine {
    pub(super) fn parse(method: &Method, uri: &Uri) -> Self {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let (path, query) = (uri.path(), Query::parse(uri.query().unwrap_or("")));
        let ends_with_slashes = path.ends_with("//");
        Self { route: Route::parse(path), query, ends_with_slashes, reads, info: OnceLock::new(), method: method.clone(), uri: uri.clone() }
    }

    /// Returns what the request of this line asks to do, as authorizers and the audit log see it. Read at the first call.
    pub(super) fn info(&self) -> &Arc<RequestInfo> {
        self.info.get_or_init(|| Arc::new(request_info(&self.method, self.uri.path(), &self.query)))
    }

    /// Returns whether probes ask for this without being anybody: the default of `--authorization-always-allow-paths`.
    pub(super) fn is_always_open(&self) -> bool {
        self.method == Method::GET && matches!(self.route, Ok(Route::Health { check: None, .. }))
    }

    /// Verb watch, by parameter or by path (spec list-watch §1.1).
    pub(super) fn is_watch(&self) -> bool {
        match &self.route {
            Ok(Route::Inside(InsidePath::Overview)) => self.reads && self.query.is_true("watch"),
            Ok(Route::Resource(path)) => self.reads && (path.legacy_watch || (path.name.is_none() && self.query.is_true("watch"))),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_told_by_parameter_or_path() {
        let is_watch = |uri: &'static str| RequestLine::parse(&Method::GET, &Uri::from_static(uri)).is_watch();
        for uri in [
            "/watchcache/api/v1/overview?watch=1",
            "/api/v1/pods?watch=1",
            "/api/v1/watch/pods",
            "/api/v1/watch/namespaces/n/pods/p",
            "/apis/apps/v1/deployments?watch",
        ] {
            assert!(is_watch(uri), "{uri}");
        }
        for uri in [
            "/watchcache/api/v1/watches?watch=1",
            "/api/v1/pods",
            "/api/v1/pods?watch=0",
            "/api/v1/namespaces/n/pods/p?watch=1",
            "/api/v1?watch=1",
            "/healthz?watch=1",
        ] {
            assert!(!is_watch(uri), "{uri}");
        }
        for method in [Method::POST, Method::DELETE] {
            assert!(!RequestLine::parse(&method, &Uri::from_static("/api/v1/watch/pods?watch=1")).is_watch(), "{method}");
        }
    }
}
