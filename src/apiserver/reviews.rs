//! Reviews, which are answered and never stored: who am I, whose token is this, may somebody do something (spec api-surface §12, §13.4).

use axum::{extract::Request, response::Response};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    admit::Admission, api::Api, conn::ConnInfo, context::Authorized, created::Created, path::ResourcePath, rules_review::WHOLE_BYTES,
    status::Status,
};
use auth::User;
use auth::access::{
    Asker,
    review::{self, AccessReview, Subject},
};
use auth::authz::Decision;
use catalogue::Unstored;
use storage::write::failure::{StatusSubject, WriteError};
use telemetry::{Scope, Verb};

/// Answers a POST of a review.
pub(super) async fn serve(api: &Api, context: &Authorized, path: &ResourcePath, review: &Unstored, request: Request) -> Response {
    let timer = api.metrics.served(&review.group, &review.version, &review.resource).request(Verb::Create, Scope::Resource);
    let work = async |created: &mut Created| {
        let kind = (&*review.group, &*review.version, &*review.kind);
        let Some(asked) = created.read(api, context, kind, request).await? else { return Ok(None) };
        let mut asked = in_namespace(asked, path.namespace.as_deref())?;
        created.warnings.extend(api.writer.without_system_metadata(&mut asked));
        let asker = context.asker(&context.user);
        if let Some(admission) = Admission::of(api, &context.user, path) {
            api.access.ask(&asker, |authorizer| admission.confirm_put(authorizer, &asked, None)).await??;
        }
        answer(api, (review, created), &asker, asked, &context.conn).await.map(Some)
    };
    Created::new(context).answer(context, timer, work).await
}

/// The object in the namespace of its path; outside of namespaces it has none, whatever it says.
fn in_namespace(mut object: Value, namespace: Option<&str>) -> Result<Value, Status> {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return Ok(object) };
    match (namespace, metadata.get("namespace").and_then(Value::as_str)) {
        (Some(wanted), Some(said)) if wanted != said => {
            return Err(Status::bad_request("the namespace of the provided object does not match the namespace sent on the request"));
        }
        (Some(wanted), _) => drop(metadata.insert("namespace".to_owned(), wanted.into())),
        (None, _) => drop(metadata.remove("namespace")),
    }
    Ok(object)
}

async fn answer(
    api: &Api,
    (review, created): (&Unstored, &mut Created),
    asker: &Asker<'_>,
    mut object: Value,
    conn: &ConnInfo,
) -> Result<Value, Status> {
    let user = asker.user;
    let status = match &*review.kind {
        "SelfSubjectReview" => {
            object["metadata"] = json!({"creationTimestamp": api.writer.now()});
            json!({"userInfo": user_info(user)})
        }
        "TokenReview" => token(api, &object["spec"], conn, asker.until).await?,
        "SelfSubjectRulesReview" => {
            let namespace = object["spec"]["namespace"].as_str().unwrap_or_default();
            if namespace.is_empty() {
                return Err(Status::bad_request("no namespace on request"));
            }
            let rules = api.access.rules_for(user, namespace);
            // kube-apiserver answers without what was asked.
            object["metadata"] = json!({});
            object["spec"] = json!({});
            if rules.bytes_up_to(WHOLE_BYTES) > WHOLE_BYTES {
                return created.rules(object, rules);
            }
            serde_json::to_value(rules).unwrap_or_default()
        }
        "SelfSubjectAccessReview" => access(api, AccessReview::Own, asker, &object).await?,
        "LocalSubjectAccessReview" => access(api, AccessReview::Local, asker, &object).await?,
        _ => access(api, AccessReview::Subject, asker, &object).await?,
    };
    object["status"] = status;
    Ok(object)
}

async fn access(api: &Api, of: AccessReview, asker: &Asker<'_>, object: &Value) -> Result<Value, Status> {
    let wrong = review::wrong(of, object);
    if !wrong.is_empty() {
        let of = StatusSubject { group: "authorization.k8s.io".to_owned(), ..StatusSubject::default() };
        return Err(WriteError::Invalid { of, errors: wrong }.into());
    }
    if of == AccessReview::Local && object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
        return Err(Status::bad_request("namespace is required on this type: "));
    }
    let user = if of == AccessReview::Own { asker.user.clone() } else { review::user(&object["spec"]) };
    let subject = Subject::read(user, &object["spec"]);
    let verdict = api.access.ask(asker, |authorizer| authorizer.decide(&subject.attributes())).await?;
    let mut status = json!({"allowed": verdict.decision == Decision::Allow});
    if verdict.decision == Decision::Deny {
        status["denied"] = true.into();
    }
    let reason = verdict.reason.to_string();
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    let errors: Vec<String> = verdict.error.map(String::from).into_iter().chain(subject.ignored).collect();
    if !errors.is_empty() {
        status["evaluationError"] = errors.join("; ").into();
    }
    Ok(status)
}

/// Whose token it is.
async fn token(api: &Api, spec: &Value, conn: &ConnInfo, until: Instant) -> Result<Value, Status> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let audiences: Vec<String> = audiences.collect();
    Ok(match api.review_token(token, &audiences, (conn.peer.ip(), until)).await? {
        Ok(proof) => {
            let mut status = json!({"authenticated": true, "user": user_info(&proof.user)});
            if !proof.audiences.is_empty() {
                status["audiences"] = proof.audiences.into();
            }
            status
        }
        Err(why) if why.is_empty() => json!({"user": {}}),
        Err(why) => json!({"user": {}, "error": why}),
    })
}

/// `UserInfo`; empty members are not printed.
fn user_info(user: &User) -> Value {
    let mut info = json!({});
    for (name, value) in [("username", &user.name), ("uid", &user.uid)] {
        if !value.is_empty() {
            info[name] = value.as_str().into();
        }
    }
    if !user.groups.is_empty() {
        info["groups"] = user.groups.clone().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = user.extra.iter().map(|(key, values)| (key.clone(), Value::from(values.clone()))).collect();
    }
    info
}
