//! `serviceaccounts/NAME/token`: issues a token to a client that may ask for it (spec api-surface §12).

use std::time::SystemTime;

use axum::{extract::Request, response::Response};
use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    admit::Admission,
    api::Api,
    context::Authorized,
    created::Created,
    parts::NO_NAMESPACE,
    path::{Odd, ResourcePath},
    respond::not_found,
    rights::{RequestRights, annotation_hook, client},
    status::Status,
};
use auth::access::{Asker, directory::Cached};
use auth::authn::{Issued, Issuer, TokenRequest, TokenRequestError};
use model::invalid::{FieldError, FieldErrorKind};
use storage::read::{failure::ReadError, target::Target};
use storage::write::{
    By,
    failure::{StatusSubject, WriteError},
    object_ref::ObjectRef,
};
use telemetry::{Scope, Verb};

/// What is asked for and answered.
const KIND: (&str, &str, &str) = ("authentication.k8s.io", "v1", "TokenRequest");

/// Answers a request for a token of an account.
pub(super) async fn serve(api: &Api, context: &Authorized, path: &ResourcePath, request: Request) -> Response {
    if request.method() == Method::POST && !path.odd.longer {
        let lacks = match path.odd {
            Odd { no_name: true, .. } => Some("name must be provided"),
            Odd { no_namespace: true, .. } => Some(NO_NAMESPACE),
            _ => None,
        };
        if let Some(message) = lacks.map(str::to_owned).or_else(|| path.check_name().err()) {
            return context.refused(&Status::bad_request(message));
        }
    }
    let name = path.name.as_ref().filter(|_| !path.odd.longer);
    let (Some(namespace), Some(account), Some(issuer)) = (&path.namespace, name, &api.identity.issuer) else {
        return not_found(&context.reply, &api.resources.load().catalogue, Some(&path.group));
    };
    if request.method() != Method::POST {
        return context.refused(&Status::method_not_allowed());
    }
    let timer = api.metrics.served("", "v1", "serviceaccounts").request(Verb::Create, Scope::Resource);
    let work = async |created: &mut Created| {
        let Some(mut asked) = created.read(api, context, KIND, request).await? else { return Ok(None) };
        TokenRequest::check_namespace(&asked, namespace).map_err(refused)?;
        created.warnings.extend(api.writer.without_duplicate_owners(&mut asked));
        there(api, namespace, account).await?;
        let asker = context.asker(&context.user);
        admit(api, &asker, path, &asked).await?;
        let (rights, annotation_hook) = (RequestRights { api, asker: &asker }, annotation_hook(&context.reply));
        let by = By { client: Some(client(&asker, &rights)), annotation_hook: annotation_hook.as_deref(), ..By::default() };
        let admission = match of_account(api, namespace, account) {
            Some(of) => api.writer.admission_of_token(of, &by, created.options()).await.map_err(Status::from)?,
            None => None,
        };
        if let Some(admission) = &admission {
            asked["status"] = no_token();
            asked = admission.changed(asked, &mut created.warnings).await.map_err(Status::from)?;
        }
        let issued = issue(api, issuer, namespace, account, &asked).map_err(refused)?;
        if let Some(admission) = &admission {
            let mut shown = issued.answer.clone();
            shown["status"] = no_token();
            admission.confirm(&shown, &mut created.warnings).await.map_err(Status::from)?;
        }
        if let Some(record) = context.reply.record() {
            record.annotate("authentication.kubernetes.io/issued-credential-id", issued.credential_id);
        }
        created.warnings.extend(issued.warning);
        Ok(Some(issued.answer))
    };
    Created::new(context).answer(context, timer, work).await
}

/// How long a token waits for the cache to know the account that etcd has.
const CATCH_UP: std::time::Duration = std::time::Duration::from_secs(5);

/// The status of a request whose token is not there yet.
fn no_token() -> Value {
    json!({"token": "", "expirationTimestamp": null})
}

/// Names the account; none where accounts are not served.
fn of_account(api: &Api, namespace: &str, account: &str) -> Option<ObjectRef> {
    let resource = api.resources.load().find("", "v1", "serviceaccounts").cloned()?;
    Some(ObjectRef { resource, namespace: Some(namespace.to_owned()), name: account.to_owned() })
}

/// The namespace must take new content, as if a token were some. Then waits until the cache knows of the account as etcd does: who has just made one wants a
/// token of it.
async fn there(api: &Api, namespace: &str, account: &str) -> Result<(), Status> {
    let place = of_account(api, namespace, account).ok_or_else(Status::not_found_generic)?;
    let resource = place.resource.clone();
    let target = Target::object(resource.clone(), api.reader.prefix(), Some(namespace), account);
    api.writer.check_namespace(&place).await.map_err(Status::from)?;
    match api.reader.get(&target, "").await {
        Ok(object) => {
            // etcd may have answered in the place of a cache that is late.
            let late = resource.handle.published.wait_for(object.revision, CATCH_UP).await.is_err();
            if late { Err(Status::unavailable("the account cannot be looked up now, please try again later", 1)) } else { Ok(()) }
        }
        Err(ReadError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether this user may have such a token, if he is a kubelet.
async fn admit(api: &Api, asker: &Asker<'_>, path: &ResourcePath, asked: &Value) -> Result<(), Status> {
    let Some(admission) = Admission::of(api, asker.user, path) else { return Ok(()) };
    api.access.ask(asker, |authorizer| admission.confirm_put(authorizer, asked, None)).await?.map_err(Status::from)
}

fn issue(api: &Api, issuer: &Issuer, namespace: &str, account: &str, asked: &Value) -> Result<Issued, TokenRequestError> {
    let resources = api.resources.load();
    let directory = Cached::new(&resources, api.reader.prefix());
    let request = TokenRequest::check(asked, namespace, account, &issuer.audiences, &directory)?;
    issuer.issue(&request, &Uuid::new_v4().to_string(), SystemTime::now())
}

fn refused(error: TokenRequestError) -> Status {
    let own = |name: String| StatusSubject { group: KIND.0.to_owned(), kind: KIND.2.to_owned(), name };
    match error {
        TokenRequestError::BadRequest(why) => Status::bad_request(why),
        TokenRequestError::Invalid { name, field, value, why } => {
            let message = format!("Invalid value: {value}: {why}");
            let error = FieldError { field: field.to_owned(), kind: FieldErrorKind::Invalid, message };
            WriteError::Invalid { of: own(name), errors: vec![error] }.into()
        }
        TokenRequestError::NotFound { kind, name } => Status::not_found("", kind.resource(), &name),
        TokenRequestError::Conflict { kind, group, name, why } => {
            WriteError::Conflict { of: StatusSubject { group: group.to_owned(), kind: kind.to_owned(), name }, why }.into()
        }
        TokenRequestError::Sign(why) => Status::internal(format!("failed to generate token: {why}")),
    }
}
