//! Bound tokens: the service account, and the Pod, Secret or Node that must still exist.

use serde_json::Value;

use super::{CREDENTIAL_ID, LEEWAY_SECONDS, NODE_NAME, NODE_UID, POD_NAME, POD_UID, account, check_times, end, user};
use crate::authn::directory::{Directory, Kind, Object};
use crate::authn::jwt::{Claims, date, mistyped, text};
use crate::authn::{AuthenticatedUser, Refusal};

const INVALIDATED: &str = "service account token has been invalidated";

/// A name and a uid.
#[derive(Clone, Copy, Debug)]
struct Reference<'a> {
    name: &'a str,
    uid: &'a str,
}

/// The claim `kubernetes.io`.
struct Private<'a> {
    namespace: &'a str,
    account: Reference<'a>,
    pod: Option<Reference<'a>>,
    secret: Option<Reference<'a>>,
    node: Option<Reference<'a>>,
    warn_after: Option<i64>,
}

/// Whether the claims of bound tokens are of their types.
pub(super) fn check_types(claims: &Claims) -> Result<(), Refusal> {
    private(claims)?;
    Ok(())
}

/// Checks what the claims say of times and objects, in kube-apiserver's order.
pub(super) fn check(claims: &Claims, directory: &dyn Directory, now: i64) -> Result<AuthenticatedUser, Refusal> {
    let (id, private) = (claims.text("jti")?, private(claims)?);
    let expires = check_times(claims, now)?;
    let Private { namespace, account: Reference { name, uid }, .. } = private;
    let found = account(directory, namespace, name)?;
    if found.uid() != uid {
        return Err(Refusal::from_memory(format!("service account UID ({}) does not match claim ({uid})", found.uid())));
    }
    // What was deleted longer ago than clocks differ is gone.
    let gone = now.saturating_sub(LEEWAY_SECONDS);
    if found.is_deleted_before(gone) {
        return Err(format!("service account {namespace}/{name} has been deleted").into());
    }
    let look = |kind, namespace, bound: Reference<'_>| same(directory.object(kind, namespace, bound.name), kind, bound, gone);
    if let Some(secret) = private.secret {
        look(Kind::Secret, namespace, secret)?;
    }
    let mut extra = Vec::new();
    let mut add = |key: &str, value: &str| extra.push((key.to_owned(), vec![value.to_owned()]));
    if !id.is_empty() {
        add(CREDENTIAL_ID, &format!("JTI={id}"));
    }
    match (private.pod, private.node) {
        (Some(pod), _) => look(Kind::Pod, namespace, pod)?,
        (None, Some(node)) => look(Kind::Node, "", node)?,
        (None, None) => {}
    }
    if let Some(node) = private.node.filter(|node| !node.name.is_empty()) {
        add(NODE_NAME, node.name);
        if !node.uid.is_empty() {
            add(NODE_UID, node.uid);
        }
    }
    if let Some(pod) = private.pod.filter(|pod| !pod.name.is_empty() && !pod.uid.is_empty()) {
        add(POD_NAME, pod.name);
        add(POD_UID, pod.uid);
    }
    let stale = private.warn_after.filter(|after| *after != 0 && now > *after);
    let annotation = stale.map(|after| {
        let late = format!("subject: {}, seconds after warning threshold: {}", claims.text("sub").unwrap_or_default(), now - after);
        ("authentication.k8s.io/stale-token", late)
    });
    Ok(AuthenticatedUser { user: user(namespace, name, uid, extra), expires: end(expires), annotation, ..AuthenticatedUser::default() })
}

/// Whether the object that a token is bound to is the same one and still there.
fn same(found: Option<Object>, kind: Kind, bound: Reference<'_>, gone: i64) -> Result<(), Refusal> {
    let Some(found) = found else { return Err(Refusal::from_memory(INVALIDATED.to_owned())) };
    if found.uid() != bound.uid {
        let what = kind.name().to_lowercase();
        return Err(Refusal::from_memory(format!(
            "{what} UID ({}) does not match service account {what} ref claim ({})",
            found.uid(),
            bound.uid
        )));
    }
    if found.is_deleted_before(gone) { Err(INVALIDATED.to_owned().into()) } else { Ok(()) }
}

fn private(claims: &Claims) -> Result<Private<'_>, String> {
    let all = match claims.get("kubernetes.io") {
        None => None,
        Some(Value::Object(all)) => Some(all),
        Some(other) => return Err(mistyped(other, "serviceaccount.kubernetes")),
    };
    let get = |name: &str| all.and_then(|all| all.get(name));
    let reference = |name: &str| match get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(of)) => Ok(Some(Reference { name: text(of.get("name"))?, uid: text(of.get("uid"))? })),
        Some(other) => Err(mistyped(other, "serviceaccount.ref")),
    };
    Ok(Private {
        namespace: text(get("namespace"))?,
        account: reference("serviceaccount")?.unwrap_or(Reference { name: "", uid: "" }),
        pod: reference("pod")?,
        secret: reference("secret")?,
        node: reference("node")?,
        warn_after: date(get("warnafter"))?,
    })
}
