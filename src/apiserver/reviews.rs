//! Reviews, which are answered and never stored: who am I, whose token is this, may somebody do something (spec api-surface §12, §13.4).

use axum::{extract::Request, response::Response};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    admit::Admission,
    api::Api,
    conn::ConnInfo,
    context::Authorized,
    created::Created,
    path::ResourcePath,
    rights::{RequestRights, annotation_hook, client},
    rules_review::WHOLE_BYTES,
    status::Status,
};
use auth::User;
use auth::access::{
    Asker,
    review::{self, AccessReview, Subject},
};
use auth::authz::Decision;
use catalogue::Unstored;
use storage::write::{
    By,
    failure::{StatusSubject, WriteError},
    unstored::UnstoredAdmission,
};
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
        let (rights, annotation_hook) = (RequestRights { api, asker: &asker }, annotation_hook(&context.reply));
        let by = By { client: Some(client(&asker, &rights)), annotation_hook: annotation_hook.as_deref(), ..By::default() };
        let of = storage::write::Unstored { group: kind.0, version: kind.1, resource: &review.resource, kind: kind.2 };
        let admission = api.writer.admission_of_review(of, path.namespace.as_deref(), &by, created.options()).await;
        let admission = admission.map_err(Status::from)?;
        if let Some(admission) = &admission {
            asked["status"] = unanswered(kind.2);
            asked = admission.changed(asked, &mut created.warnings).await.map_err(Status::from)?;
        }
        let review = Review { review, admission: admission.as_ref(), conn: &context.conn };
        review.answer(api, created, &asker, asked).await.map(Some)
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

/// The status of a review that nobody has answered, as admission is shown it.
fn unanswered(kind: &str) -> Value {
    match kind {
        "SelfSubjectReview" => json!({"userInfo": {}}),
        "TokenReview" => json!({"user": {}}),
        "SelfSubjectRulesReview" => json!({"resourceRules": null, "nonResourceRules": null, "incomplete": false}),
        _ => json!({"allowed": false}),
    }
}

/// A review that is to be answered.
struct Review<'a> {
    review: &'a Unstored,
    /// The webhooks and policies that take part, if any do.
    admission: Option<&'a UnstoredAdmission<'a>>,
    conn: &'a ConnInfo,
}

impl Review<'_> {
    async fn answer(&self, api: &Api, created: &mut Created, asker: &Asker<'_>, mut object: Value) -> Result<Value, Status> {
        let user = asker.user;
        let status = match &*self.review.kind {
            "SelfSubjectReview" => {
                self.confirm(&object, created).await?;
                object["metadata"] = json!({"creationTimestamp": api.writer.now()});
                json!({"userInfo": user_info(user)})
            }
            "TokenReview" => self.token(api, created, &object, asker.until).await?,
            "SelfSubjectRulesReview" => {
                let namespace = object["spec"]["namespace"].as_str().unwrap_or_default();
                if namespace.is_empty() {
                    return Err(Status::bad_request("no namespace on request"));
                }
                self.confirm(&object, created).await?;
                let rules = api.access.rules_for(user, namespace);
                // kube-apiserver answers without what was asked.
                object["metadata"] = json!({});
                object["spec"] = json!({});
                if rules.bytes_up_to(WHOLE_BYTES) > WHOLE_BYTES {
                    return created.rules(object, rules);
                }
                serde_json::to_value(rules).unwrap_or_default()
            }
            "SelfSubjectAccessReview" => self.access(api, created, AccessReview::Own, asker, &object).await?,
            "LocalSubjectAccessReview" => self.access(api, created, AccessReview::Local, asker, &object).await?,
            _ => self.access(api, created, AccessReview::Subject, asker, &object).await?,
        };
        object["status"] = status;
        Ok(object)
    }

    /// Asks webhooks and policies about a review that can be answered.
    async fn confirm(&self, object: &Value, created: &mut Created) -> Result<(), Status> {
        match self.admission {
            Some(admission) => admission.confirm(object, &mut created.warnings).await.map_err(Status::from),
            None => Ok(()),
        }
    }

    async fn access(&self, api: &Api, created: &mut Created, of: AccessReview, asker: &Asker<'_>, object: &Value) -> Result<Value, Status> {
        let wrong = review::wrong(of, object);
        if !wrong.is_empty() {
            let of = StatusSubject { group: "authorization.k8s.io".to_owned(), ..StatusSubject::default() };
            return Err(WriteError::Invalid { of, errors: wrong }.into());
        }
        if of == AccessReview::Local && object["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
            return Err(Status::bad_request("namespace is required on this type: "));
        }
        self.confirm(object, created).await?;
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
    async fn token(&self, api: &Api, created: &mut Created, object: &Value, until: Instant) -> Result<Value, Status> {
        let spec = &object["spec"];
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        self.confirm(object, created).await?;
        let audiences = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let audiences: Vec<String> = audiences.collect();
        Ok(match api.review_token(token, &audiences, (self.conn.peer.ip(), until)).await? {
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
