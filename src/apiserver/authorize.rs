//! Authorizes every request, after its user is known and before anything of its path is looked up, so that a refusal never shows whether something exists
//! (spec api-surface §0, §13.2).

use std::fmt::Display;
use std::sync::Arc;
use std::time::SystemTime;

use axum::response::Response;
use futures_util::FutureExt;
use http::Method;
use server::heads::Held;
use tokio::time::{Instant, timeout_at};

use super::{
    api::Api,
    context::{Arrived, Authenticated, Authorized},
    inflight::OpenWatch,
    line::RequestLine,
    path::Route,
    status::Status,
};
use auth::access::{Opened, Permission, StillValid, Undecided};
use auth::authn::Credential;
use auth::authz::{Attributes, Decision, RequestInfo, Target, Verdict};
use auth::providers::NotSaid;
use auth::{MONITORING, User};
use go::quote::quoted;
use intern::Guard;

/// Decides whether a request may be answered. Returns what a watch was allowed, if that may be taken away.
pub(super) async fn authorize(api: &Api, context: &Authenticated) -> Result<Option<Arc<RequestInfo>>, Response> {
    let Arrived { line, reply, until, head, .. } = &**context;
    let user = &context.user;
    let note = |decision: &str, reason: &dyn Display| {
        if let Some(record) = reply.record() {
            record.annotate("authorization.k8s.io/decision", decision);
            record.annotate("authorization.k8s.io/reason", reason.to_string());
        }
    };
    let is_open = line.is_always_open();
    if api.access.allows_all(user) || is_open && reply.record().is_none() {
        note("allow", &"");
        let may_end = line.is_watch() && (context.credential != Credential::Lasting || context.impersonator.is_some());
        return Ok(may_end.then(|| line.info().clone()));
    }
    if !is_open && Instant::now() >= *until {
        return Err(context.timed_out());
    }
    let info = line.info().clone();
    // Webhooks may have to be waited for.
    head.grow(info.weight()).map_err(|full| context.refused(&full.into()))?;
    let asked = info.attributes(user);
    let asker = context.asker(user);
    let deciding = api.access.decide(&asker, &asked);
    // A probe waits for no webhook: who decides from memory has decided now, and the audit log tells why.
    let verdict = if is_open { deciding.now_or_never() } else { timeout_at(*until, deciding).await.ok() };
    match verdict {
        Some(Ok(verdict)) if verdict.decision == Decision::Allow => note("allow", &verdict.reason),
        Some(Ok(verdict)) if verdict.decision == Decision::NoOpinion && verdict.error.is_none() && may_look_inside(line, user) => {
            note("allow", &"group system:monitoring");
            return Ok(None);
        }
        _ if is_open => note("allow", &""),
        Some(Ok(Verdict { error: Some(error), .. })) => {
            if let Some(record) = reply.record() {
                record.annotate("authorization.k8s.io/reason", "internal error");
            }
            return Err(reply.internal_error(&line.uri, &error));
        }
        Some(Ok(verdict)) => {
            note("forbid", &verdict.reason);
            return Err(context.refused(&Status::access_denied(&asked, &verdict.reason.to_string())));
        }
        Some(Err(undecided)) => return Err(context.refused(&undecided.into())),
        None => return Err(context.timed_out()),
    }
    Ok(line.is_watch().then_some(info))
}

/// Whether a user is of those who may read what this server shows of itself, unless an authorizer says no. No role that Kubernetes has names those paths.
fn may_look_inside(line: &RequestLine, user: &User) -> bool {
    let is_inside = matches!(&line.route, Ok(Route::Inside(path)) if path.is_of_the_server());
    is_inside && line.method == Method::GET && user.groups.iter().any(|group| group == MONITORING)
}

/// What a watch lives on.
pub(super) struct Rights {
    /// Who watches.
    pub(super) user: Arc<User>,
    /// Its right to go on; none where nobody can take it away.
    pub(super) permission: Option<Permission>,
    /// When what proves who asks counts no more.
    pub(super) expires: Option<Instant>,
    /// What counts its user.
    pub(super) kept: Option<Held>,
    /// What counts the watch itself.
    pub(super) open: Option<OpenWatch>,
}

/// Returns what the watch lives on that this request begins.
///
/// # Errors
/// The 429: there is no room for what is kept of it.
pub(super) fn rights(api: &Api, context: &Authorized) -> Result<Rights, Status> {
    let (user, impersonator, conn) = (context.user.clone(), context.impersonator.clone(), &context.conn);
    let info = context.allowed.clone().or_else(|| api.access.moves_watches().then(|| context.line.info().clone()));
    let of_impersonator = impersonator.as_ref().map_or(0, |impersonator| impersonator.user.weight() + impersonator.wanted.weight());
    let (kept, mut permission) = (conn.heads.keep(user.weight() + of_impersonator)?, None);
    if let Some(info) = info {
        let count = |info: &RequestInfo| Ok::<_, Status>(conn.heads.keep(info.weight())?.map(|held| Box::new(held) as Guard));
        let info = api.access.share(Arc::unwrap_or_clone(info), count)?;
        let (is_still_valid, goodbye) = (is_still_valid(api, context), conn.goodbye.clone());
        permission = api.access.open_stream(Opened { user: user.clone(), impersonator, info, is_still_valid, goodbye }, context.losses);
    }
    let left = context.expires.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
    let expires = left.and_then(|left| Instant::now().checked_add(left));
    Ok(Rights { user, permission, expires, kept, open: context.open_watch.clone() })
}

/// Asks whether what proves who asks still counts; none when it always does.
fn is_still_valid(api: &Api, context: &Authorized) -> Option<StillValid> {
    let credential = Some(context.credential.clone()).filter(|credential| *credential != Credential::Lasting)?;
    let (authenticator, conn) = (api.identity.authenticator.clone(), context.conn.clone());
    Some(Box::new(move || authenticator.is_still_valid(&credential, &conn.certificate, SystemTime::now())))
}

/// A lack of room or of an answer is no judgement: who comes again may be let in.
impl From<NotSaid> for Status {
    fn from(not_said: NotSaid) -> Status {
        match not_said {
            NotSaid::TooMany(_) => Status::too_many_requests(not_said.to_string(), 1),
            NotSaid::NoWord => Status::unavailable(not_said.to_string(), 1),
        }
    }
}

impl From<Undecided> for Status {
    fn from(undecided: Undecided) -> Status {
        match undecided {
            Undecided::TooMany => Status::too_many_requests(undecided.to_string(), 1),
            Undecided::Loading => Status::unavailable(undecided.to_string(), 1),
        }
    }
}

impl Status {
    /// 403 of an authorizer, with its reason if it has one (spec api-surface §13.2).
    pub(super) fn access_denied(asked: &Attributes<'_>, reason: &str) -> Status {
        let (group, resource, name) = match asked.target {
            Target::Path(_) => ("", "", ""),
            Target::Resource(of) => (of.group, of.resource, of.name),
        };
        Status::forbidden_of(group, resource, name, &refusal(asked, reason))
    }
}

/// What follows `is forbidden: `.
pub(super) fn refusal(asked: &Attributes<'_>, reason: &str) -> String {
    let user = quoted(&asked.user.name);
    let text = match asked.target {
        Target::Path(path) => format!("User {user} cannot {} path {}", asked.verb, quoted(path)),
        Target::Resource(of) => {
            let whole = if of.subresource.is_empty() { of.resource.to_owned() } else { format!("{}/{}", of.resource, of.subresource) };
            let scope = match of.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", quoted(namespace)),
            };
            format!("User {user} cannot {} resource {} in API group {} {scope}", asked.verb, quoted(&whole), quoted(of.group))
        }
    };
    // As Go's sanitizer, against pages that would show it.
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if reason.is_empty() { text } else { format!("{text}: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_info::request_info;
    use go::url::Query;

    fn message(name: &str, method: &Method, path: &str, reason: &str) -> String {
        let user = User { name: name.to_owned(), ..User::default() };
        let info = request_info(method, path, &Query::parse(""));
        String::from_utf8(Status::access_denied(&info.attributes(&user), reason).to_json()).expect("UTF-8")
    }

    /// The bodies are those of kube-apiserver 1.36.3.
    #[test]
    fn refusals_are_in_kube_apiservers_words() {
        let json = |message: &str, details: &str| {
            format!(
                r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","reason":"Forbidden","details":{details},"code":403}}"#
            )
        };
        assert_eq!(
            message("jane", &Method::GET, "/api/v1/namespaces/default/pods", ""),
            json(
                r#"pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""#,
                r#"{"kind":"pods"}"#
            )
        );
        assert_eq!(
            message("jane", &Method::DELETE, "/api/v1/namespaces/x/pods/p/status", ""),
            json(
                r#"pods \"p\" is forbidden: User \"jane\" cannot delete resource \"pods/status\" in API group \"\" in the namespace \"x\""#,
                r#"{"name":"p","kind":"pods"}"#
            )
        );
        assert_eq!(message("jane", &Method::GET, "/metrics", ""), json(r#"forbidden: User \"jane\" cannot get path \"/metrics\""#, "{}"));
        assert_eq!(
            message("jane", &Method::GET, "/apis/apps/v1/deployments", r#"RBAC: clusterrole.rbac.authorization.k8s.io "x" not found"#),
            json(
                r#"deployments.apps is forbidden: User \"jane\" cannot list resource \"deployments\" in API group \"apps\" at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io \"x\" not found"#,
                r#"{"group":"apps","kind":"deployments"}"#
            )
        );
    }
}
