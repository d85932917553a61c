//! The probes of etcd, its version, and the metrics of it that dashboards and alerts of this store need.

use std::fmt::Write;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any};
use serde_json::json;

use super::super::service::Service;
use super::super::service_other::{ETCD_VERSION, STORAGE_VERSION};

/// A commit that takes longer means that the disk hangs.
const COMMIT_MAX: Duration = Duration::from_secs(5);
/// etcd's header beside texts.
const NO_SNIFFING: (HeaderName, HeaderValue) = (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
/// The checks of `/livez` …
const LIVE: &[Check] = &[Check { name: "serializable_read", reads_only: true }];
/// … and those of `/readyz`. There are neither learners here nor alarms.
const READY: &[Check] = &[
    Check { name: "data_corruption", reads_only: true },
    Check { name: "serializable_read", reads_only: true },
    Check { name: "linearizable_read", reads_only: false },
    Check { name: "non_learner", reads_only: true },
];

/// A check of etcd's.
struct Check {
    name: &'static str,
    /// It holds as long as something can be read; the others, as long as what is written can be read too.
    reads_only: bool,
}

pub(super) fn paths(service: &Service) -> Router {
    let mut paths = Router::new()
        .route("/health", get(service, |service, _| health(service)))
        .route("/version", get(service, |_, _| version()))
        .route("/metrics", {
            let service = service.clone();
            any(async move || metrics(&service))
        });
    for (path, checks) in [("/livez", LIVE), ("/readyz", READY)] {
        paths = paths.route(path, get(service, move |service, query| probe(service, checks, query, true)));
        for check in checks {
            let own = std::slice::from_ref(check);
            paths = paths.route(&format!("{path}/{}", check.name), get(service, move |service, query| probe(service, own, query, false)));
        }
    }
    paths
}

/// Only GET, as in etcd: HEAD is refused too.
fn get(service: &Service, answer: impl Fn(&Service, &Query) -> Response + Clone + Send + Sync + 'static) -> MethodRouter {
    let service = service.clone();
    any(async move |method: Method, RawQuery(query): RawQuery| {
        if method != Method::GET {
            let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
            refusal.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
            return refusal;
        }
        answer(&service, &Query(query.unwrap_or_default()))
    })
}

/// The query of a probe.
struct Query(String);

impl Query {
    /// The values of a name, which may be empty.
    fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        let pairs = self.0.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.filter(move |(key, _)| *key == name).map(|(_, value)| value)
    }
}

/// Returns a text as etcd sends it.
pub(super) fn plain(code: StatusCode, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = code;
    response.headers_mut().extend([(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8")), NO_SNIFFING]);
    response
}

/// Why the store takes no writes, if it takes none.
fn trouble(service: &Service) -> Option<String> {
    let stands_still = service.shared.writing_for().filter(|time| *time > COMMIT_MAX);
    let failed = service.shared.stopped().map(|refusal| refusal.to_string());
    failed.or_else(|| stands_still.map(|time| format!("a commit has taken {} s", time.as_secs())))
}

fn health(service: &Service) -> Response {
    match trouble(service) {
        None => json!({ "health": "true", "reason": "" }).to_string().into_response(),
        Some(reason) => plain(StatusCode::SERVICE_UNAVAILABLE, json!({ "health": "false", "reason": reason }).to_string() + "\n"),
    }
}

fn probe(service: &Service, checks: &[Check], query: &Query, excludes: bool) -> Response {
    let (mut text, mut is_well) = (String::new(), true);
    for check in checks.iter().filter(|check| !excludes || query.all("exclude").all(|name| name != check.name)) {
        let unreadable = service.shared.state().err().map(|refusal| refusal.to_string());
        let problem = if check.reads_only { unreadable } else { unreadable.or_else(|| trouble(service)) };
        is_well &= problem.is_none();
        // A text takes everything.
        let _ = match problem {
            None => writeln!(text, "[+]{} ok", check.name),
            Some(problem) => writeln!(text, "[-]{} failed: {problem}", check.name),
        };
    }
    match is_well {
        false => plain(StatusCode::SERVICE_UNAVAILABLE, text + "\n"),
        true if query.all("verbose").next().is_some() => plain(StatusCode::OK, text + "ok\n"),
        true => plain(StatusCode::OK, "ok\n"),
    }
}

fn version() -> Response {
    let text = format!(r#"{{"etcdserver":"{ETCD_VERSION}","etcdcluster":"{STORAGE_VERSION}","storage":"{STORAGE_VERSION}"}}"#);
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn metrics(service: &Service) -> Response {
    let state = match service.shared.state() {
        Ok(state) => state,
        Err(refusal) => return plain(StatusCode::SERVICE_UNAVAILABLE, format!("{refusal}\n")),
    };
    let [file, in_use, quota] = service.shared.size().numbers();
    let takes_writes = u64::from(trouble(service).is_none());
    let mut text = String::new();
    let (server, id) = (format!("{{server_version=\"{ETCD_VERSION}\"}}"), format!("{{server_id=\"{:x}\"}}", service.shared.member_id));
    let cluster = "{cluster_version=\"3.6\"}";
    for (name, labels, value, help) in [
        ("etcd_cluster_version", cluster, 1.to_string(), "Which version is running."),
        (
            "etcd_debugging_mvcc_compact_revision",
            "",
            state.compacted.to_string(),
            "The revision of the last compaction; -1 before the first.",
        ),
        ("etcd_debugging_mvcc_current_revision", "", state.revision.to_string(), "The current revision of the store."),
        ("etcd_debugging_mvcc_keys_total", "", state.index.count().to_string(), "Number of keys."),
        ("etcd_mvcc_db_total_size_in_bytes", "", file.to_string(), "What the store takes on the disk."),
        ("etcd_mvcc_db_total_size_in_use_in_bytes", "", in_use.to_string(), "What the changes in it take that are kept."),
        ("etcd_server_has_leader", "", takes_writes.to_string(), "Whether the store takes writes: 1 if it does."),
        ("etcd_server_id", &id, 1.to_string(), "The id of this member."),
        ("etcd_server_is_leader", "", 1.to_string(), "Whether this member is the leader: it is the only one."),
        ("etcd_server_is_learner", "", 0.to_string(), "Whether this member is a learner: it is not."),
        ("etcd_server_quota_backend_bytes", "", quota.to_string(), "Bytes of changes that may be kept; 0 is no limit."),
        ("etcd_server_version", &server, 1.to_string(), "Which version is running."),
    ] {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name}{labels} {value}");
    }
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
