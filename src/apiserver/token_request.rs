//! `serviceaccounts/NAME/token`: issues a token to a client that may ask for it (spec api-surface §12).

use std::time::SystemTime;

use axum::{extract::Request, response::Response};
use http::{Method, StatusCode};
use serde_json::Value;
use tokio::time::timeout_at;
use uuid::Uuid;

use super::{
    accept::Asked,
    admit::Admission,
    api::{Api, Arrived, arrived, asker, caller, connection, not_found, whole},
    content_type,
    incoming::whole_body,
    mutate::warn,
    parts::NO_NAMESPACE,
    path::{Odd, ResourcePath},
    resource::sent,
    status::Status,
};
use auth::access::{Asker, directory::Cached};
use auth::authn::{Issued, Issuer, TokenRequest, TokenRequestError};
use codec::stored;
use model::invalid::{FieldError, FieldErrorKind};
use storage::read::{failure::ReadError, target::Target};
use storage::write::{
    failure::{StatusSubject, WriteError},
    object_ref::ObjectRef,
    options::{Verb as Options, WriteOptions},
};
use telemetry::{Scope, Verb};

/// What is asked for and answered.
const KIND: (&str, &str, &str) = ("authentication.k8s.io", "v1", "TokenRequest");

/// Answers a request for a token of an account.
pub(super) async fn serve(api: &Api, path: &ResourcePath, request: Request) -> Response {
    let Arrived { line, mut reply, at, limit, .. } = arrived(&request);
    if request.method() == Method::POST && !path.odd.longer {
        let lacks = match path.odd {
            Odd { no_name: true, .. } => Some("name must be provided"),
            Odd { no_namespace: true, .. } => Some(NO_NAMESPACE),
            _ => None,
        };
        if let Some(message) = lacks.map(str::to_owned).or_else(|| path.check_name().err()) {
            return whole(reply.status(&Status::bad_request(message)));
        }
    }
    let name = path.name.as_ref().filter(|_| !path.odd.longer);
    let (Some(namespace), Some(account), Some(issuer)) = (&path.namespace, name, &api.issuer) else {
        return whole(not_found(&reply, &api.resources.load().catalogue, Some(&path.group)));
    };
    if request.method() != Method::POST {
        return whole(reply.status(&Status::method_not_allowed()));
    }
    let mut timer = api.metrics.served("", "v1", "serviceaccounts").request(Verb::Create, Scope::Resource);
    let mut told = Vec::new();
    let answered = async {
        reply.negotiate(Asked::RoutedDocument)?;
        let syntax = content_type::syntax(request.headers(), true)?;
        let options = WriteOptions::parse(&line.query, Options::Create)
            .map_err(|errors| Status::from(WriteError::Invalid { of: StatusSubject::options(Options::Create.options_kind()), errors }))?;
        let (user, conn) = (caller(&request), connection(&request));
        let asker = asker(&request, &user);
        let body = match whole_body(request.into_body(), &conn, at + limit).await {
            Ok(Some(body)) => body,
            Ok(None) => return Ok(None),
            Err(status) => return Err(status),
        };
        let mut asked = api.writer.decode(KIND, &options, syntax, &body, &mut told).await.map_err(Status::from)?;
        if let Some(record) = reply.record() {
            record.requested(&asked, |asked| stored::render(false, asked));
        }
        TokenRequest::check_namespace(&asked, namespace).map_err(refused)?;
        told.extend(api.writer.without_duplicate_owners(&mut asked));
        there(api, namespace, account).await?;
        admit(api, &asker, path, &asked).await?;
        let issued = issue(api, issuer, namespace, account, &asked).map_err(refused)?;
        if let Some(record) = reply.record() {
            record.annotate("authentication.kubernetes.io/issued-credential-id", issued.credential_id);
        }
        told.extend(issued.warning);
        Ok(Some(issued.answer))
    };
    let answered = timeout_at(at + limit, answered).await.unwrap_or(Ok(None));
    let response = match answered {
        Ok(Some(answer)) => reply.object(StatusCode::CREATED, stored::render(false, &answer)),
        Ok(None) => {
            timer.terminated(504);
            return whole(reply.timed_out());
        }
        Err(status) => reply.status(&status),
    };
    let mut response = sent(response, timer);
    warn(response.headers_mut(), &told);
    response
}

/// How long a token waits for the cache to know the account that etcd has.
const CATCH_UP: std::time::Duration = std::time::Duration::from_secs(5);

/// The namespace must take new content, as if a token were some. Then waits until the cache knows of the account as etcd does: who has just made one wants a token
/// of it.
async fn there(api: &Api, namespace: &str, account: &str) -> Result<(), Status> {
    let resource = api.resources.load().find("", "v1", "serviceaccounts").cloned();
    let resource = resource.ok_or_else(Status::not_found_generic)?;
    let target = Target::object(resource.clone(), api.reader.prefix(), Some(namespace), account);
    let place = ObjectRef { resource: resource.clone(), namespace: Some(namespace.to_owned()), name: account.to_owned() };
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
