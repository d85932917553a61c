//! What the audit log is told of a request: when it comes, when its answer begins, and when it ends. Without an audit log nothing here does anything.

use std::{
    any::Any,
    future::Future,
    net::{IpAddr, Ipv4Addr},
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
    time::SystemTime,
};

use ::audit::{Record, RequestMeta, Stage};
use axum::response::Response;
use futures_util::FutureExt;
use http::{
    HeaderMap, Method,
    header::{AUTHORIZATION, USER_AGENT},
};
use http_body::Body as _;
use server::heads::Held;

use super::{
    api::Api,
    context::{Arrived, Authenticated},
    extras,
    held::held,
    status::Status,
};
use auth::User;
use auth::authz::RequestInfo;

/// Subresources whose requests are long.
const LONG_SUBRESOURCES: [&str; 5] = ["attach", "exec", "proxy", "log", "portforward"];

/// What is told of a request that is let in.
pub(super) struct Audited {
    record: Arc<Record>,
    /// Whether the beginning of the answer is told too.
    is_long: bool,
    /// What counts the record.
    kept: Option<Held>,
}

/// Begins to tell of a request of this user. From here on its `Reply` has the record.
///
/// # Errors
/// The answer instead, when nobody could write the first event and the mode is strict.
pub(super) async fn begin(api: &Api, context: &mut Authenticated, headers: &HeaderMap) -> Result<Option<Audited>, Response> {
    if api.audit.is_none() {
        return Ok(None);
    }
    let Some((record, info)) = record(api, Some(&context.user), context, headers) else { return Ok(None) };
    let kept = context.conn.heads.keep(record.weight()).map_err(|full| context.refused(&full.into()))?;
    if !record.emit(Stage::RequestReceived).await {
        record.reject();
        return Err(context.reply.internal_error(&context.line.uri, "failed to store audit event"));
    }
    context.reply_mut().audit(record.clone());
    Ok(Some(Audited { record, is_long: is_long(&info), kept }))
}

/// Whether a request has no end of its own: watches, logs, shells.
pub(super) fn is_long(info: &RequestInfo) -> bool {
    let is_part = info.is_resource && LONG_SUBRESOURCES.contains(&&*info.subresource);
    matches!(&*info.verb, "watch" | "proxy") || is_part || !info.is_resource && info.path.starts_with("/debug/pprof/")
}

/// Serves a request and tells how it ends. An answer that has no end yet carries what tells it.
pub(super) async fn ended(audited: Audited, served: impl Future<Output = Response>) -> Response {
    let Audited { record, is_long, kept } = audited;
    let ending = Ending { record: Some(record.clone()), _kept: kept };
    let response = match AssertUnwindSafe(served).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            ending.forget();
            record.panicked(message(&*panic));
            record.emit(Stage::Panic).await;
            resume_unwind(panic);
        }
    };
    record.code(response.status().as_u16());
    if is_long {
        record.emit(Stage::ResponseStarted).await;
    }
    if let Some(handshake) = extras::get(&response).and_then(|extras| extras.upgrade.as_ref()) {
        handshake.hold(ending);
    } else if is_long && response.body().size_hint().exact().is_none() {
        return response.map(|body| held(body, ending));
    } else {
        ending.forget();
        record.emit(Stage::ResponseComplete).await;
    }
    response
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}

/// A failure before anybody is known: only the beginning of its answer is told.
pub(super) fn refuse(api: &Api, headers: &HeaderMap, context: &Arrived, status: &Status) -> impl Future<Output = Response> + use<> {
    let mut reply = context.reply.clone();
    let record = record(api, None, context, headers);
    if let Some((record, _)) = &record {
        record.refused(&if status.code == 401 { attempted(context, headers) } else { status.message.clone() });
        reply.audit(record.clone());
    }
    let response = reply.status(status);
    async move {
        if let Some((record, _)) = record {
            record.code(response.status().as_u16());
            record.emit(Stage::ResponseStarted).await;
        }
        response
    }
}

/// By which credentials a client tried to prove who it is, in kube-apiserver's words.
fn attempted(context: &Arrived, headers: &HeaderMap) -> String {
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default().trim();
    let is_scheme = |scheme: &str| authorization.split_once(' ').is_some_and(|(found, _)| found.eq_ignore_ascii_case(scheme));
    let methods = [
        ("basic", is_scheme("Basic")),
        ("bearer", is_scheme("Bearer")),
        ("access_token", context.line.query.first("access_token").is_some_and(|token| !token.trim().is_empty())),
        ("x509", context.conn.certificate.was_sent()),
    ];
    let methods: Vec<&str> = methods.into_iter().filter(|(_, tried)| *tried).map(|(name, _)| name).collect();
    match methods.as_slice() {
        [] => "Authentication failed, no credentials provided".to_owned(),
        methods => format!("Authentication failed, attempted: {}", methods.join(", ")),
    }
}

/// The record of a request, if the policy wants one.
fn record(api: &Api, user: Option<&Arc<User>>, context: &Arrived, headers: &HeaderMap) -> Option<(Arc<Record>, Arc<RequestInfo>)> {
    let audit = api.audit.as_ref()?;
    let info = context.line.info().clone();
    let agent = headers.get(USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()).into_owned());
    let ips = source_ips(headers, context.conn.peer.ip());
    let met = RequestMeta {
        id: context.reply.audit_id(),
        uri: context.line.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        user_agent: agent.unwrap_or_default(),
        source_ips: ips.iter().map(ToString::to_string).collect(),
        received: SystemTime::now().checked_sub(context.at.elapsed()).unwrap_or_else(SystemTime::now),
    };
    let record = audit.begin(user, &info, met)?;
    // What is written is counted with the bodies that it comes from, what is read with other answers.
    let is_read = matches!(context.line.method, Method::GET | Method::HEAD);
    let account = if is_read { context.conn.unread.clone() } else { context.conn.bodies.clone() };
    record.count_with(Box::new(move |bytes| Box::new(account.add(bytes))));
    Some((record, info))
}

/// Where a request comes from, as far as its headers say, and at last who sent it to us.
fn source_ips(headers: &HeaderMap, peer: IpAddr) -> Vec<IpAddr> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut ips: Vec<IpAddr> = text("x-forwarded-for").split(',').filter_map(|part| ip(part.trim())).collect();
    if let Some(real) = ip(text("x-real-ip")).filter(|real| !ips.contains(real)) {
        ips.push(real);
    }
    let peer = peer.to_canonical();
    if ips.last() != Some(&peer) {
        ips.push(peer);
    }
    ips
}

/// An address as Go reads it: leading zeros are allowed.
fn ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    }
    let mut octets = text.split('.').map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse::<u8>().ok()).flatten()
    });
    let mut next = || octets.next().flatten();
    let [a, b, c, d] = [next()?, next()?, next()?, next()?];
    octets.next().is_none().then(|| Ipv4Addr::new(a, b, c, d).into())
}

/// Tells the end of a request when it is dropped.
#[derive(Debug)]
pub(super) struct Ending {
    record: Option<Arc<Record>>,
    /// What counts it.
    _kept: Option<Held>,
}

impl Ending {
    /// Somebody else tells it.
    fn forget(mut self) {
        self.record = None;
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            record.closed_early();
            record.emit_later(Stage::ResponseComplete);
        }
    }
}

#[cfg(test)]
mod tests {
    use ::audit::{Audit, Counters, Format, LogConfig, Mode, Policy, start_log};
    use axum::body::Body;
    use http::{HeaderName, HeaderValue};

    use super::*;
    use telemetry::Metrics;

    /// The first line was recorded from kube-apiserver 1.36.3.
    #[test]
    fn sources_are_told_from_the_farthest_on() {
        let told = |headers: &[(&'static str, &'static str)], peer: &str| {
            let headers: HeaderMap =
                headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect();
            let ips = source_ips(&headers, peer.parse().expect("an address"));
            ips.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let (forwarded, real) = ("x-forwarded-for", "x-real-ip");
        let both = [(forwarded, "1.2.3.4, ::1, x, 010.1.1.1"), (real, "5.6.7.8")];
        assert_eq!(told(&both, "127.0.0.1"), "1.2.3.4 ::1 10.1.1.1 5.6.7.8 127.0.0.1");
        assert_eq!(told(&[], "::ffff:1.2.3.4"), "1.2.3.4");
        assert_eq!(told(&[(forwarded, "1.1.1.1,2.2.2.2"), (real, "1.1.1.1")], "2.2.2.2"), "1.1.1.1 2.2.2.2");
        assert_eq!(told(&[(forwarded, "1.1.1"), (real, "256.1.1.1")], "::1"), "::1");
    }

    /// The stages and codes that are told while `work` is done with a record.
    async fn told(work: impl AsyncFnOnce(Audited)) -> Vec<String> {
        let document = serde_json::json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]});
        let (policy, metrics) = (Policy::read(&document).expect("a policy").0, Metrics::new());
        let counters = Counters {
            events: metrics.audit_events.clone(),
            errors: metrics.audit_errors.clone(),
            levels: metrics.audit_levels.clone(),
            rejected: metrics.audit_rejected.clone(),
        };
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("audit.log");
        let config = LogConfig { path: Some(path.clone()), format: Format::Json, rotation: None, mode: Mode::Blocking, truncation: None };
        let audit = Audit::new(policy, vec![start_log(&config, &counters).expect("a log")], counters);
        let met = RequestMeta {
            id: String::new(),
            uri: String::new(),
            user_agent: String::new(),
            source_ips: Vec::new(),
            received: SystemTime::now(),
        };
        let record = audit.begin(None, &RequestInfo::default(), met).expect("a level");
        work(Audited { record, is_long: false, kept: None }).await;
        audit.close().await;
        let text = std::fs::read_to_string(path).expect("a file");
        let event = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON");
        let text =
            text.lines().map(event).map(|event| format!("{} {}", event["stage"].as_str().unwrap_or_default(), event["responseStatus"]));
        text.collect()
    }

    #[tokio::test]
    async fn every_end_is_told_once() {
        let answered = told(async |audited| drop(ended(audited, async { Response::new(Body::empty()) }).await)).await;
        assert_eq!(answered, [r#"ResponseComplete {"code":200,"metadata":{}}"#]);
        let fallen = told(async |audited| {
            let fall = async { std::hint::black_box(None::<Response>).expect("a test's panic") };
            let outcome = AssertUnwindSafe(ended(audited, fall)).catch_unwind().await;
            assert!(outcome.is_err(), "the panic goes on");
        })
        .await;
        let why = r#"{"code":500,"message":"APIServer panic'd: a test's panic","metadata":{},"reason":"InternalError","status":"Failure"}"#;
        assert_eq!(fallen, [format!("Panic {why}")]);
        let left = told(async |audited| drop(ended(audited, std::future::pending()).now_or_never())).await;
        let why = r#"{"code":200,"message":"Connection closed early","metadata":{},"status":"Success"}"#;
        assert_eq!(left, [format!("ResponseComplete {why}")]);
    }

    #[test]
    fn watches_are_long() {
        let info = |verb: &str, subresource: &str| RequestInfo {
            verb: verb.to_owned(),
            is_resource: true,
            subresource: subresource.to_owned(),
            ..RequestInfo::default()
        };
        assert!(is_long(&info("watch", "")) && is_long(&info("get", "log")) && !is_long(&info("get", "status")));
        assert!(is_long(&RequestInfo { path: "/debug/pprof/heap".into(), ..RequestInfo::default() }));
    }
}
