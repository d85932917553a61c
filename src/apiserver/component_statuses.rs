//! `componentstatuses`: what is made of the health of etcd, the scheduler and the controller manager when somebody asks for it (kubernetes'
//! `pkg/registry/core/componentstatus`).

use std::{sync::Arc, time::Duration};

use axum::{extract::Request, response::Response};
use client::{CallError, Client, Limits, Trust};
use http::{HeaderValue, Method, StatusCode, Uri, header::WARNING};
use serde_json::{Value, json};
use tokio::time::timeout_at;

use super::{
    accept::{Asked, Form, Shape},
    api::Api,
    context::Authorized,
    partial,
    path::ResourcePath,
    respond::{not_found, sent},
    status::Status,
};
use catalogue::Unstored;
use codec::{Encoder, Include, MetaVersion, Table, stored};
use model::{
    Storage,
    selector::{LabelOp, parse},
};
use storage::read::{options::ListOptions, plan::Refusal};
use telemetry::{Scope, Verb};

/// Where the other components of a control plane say on this machine that they are healthy.
const COMPONENTS: [(&str, u16); 2] = [("controller-manager", 10_257), ("scheduler", 10_259)];
const ETCD: &str = "etcd-0";
/// How a component is asked: kube-apiserver's time, and its bytes of an answer.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(20), answer_bytes_max: 10 << 10, concurrent_max: COMPONENTS.len() };
const DEPRECATED: HeaderValue = HeaderValue::from_static(r#"299 - "v1 ComponentStatus is deprecated in v1.19+""#);

/// Answers a request whose path names component statuses.
pub(super) async fn serve(api: &Api, context: &Authorized, path: &ResourcePath, unstored: &Unstored, request: Request) -> Response {
    let is_elsewhere = path.namespace.is_some() || path.odd.no_namespace || path.odd.no_name || path.legacy_watch;
    if is_elsewhere || path.subresource.is_some() {
        return not_found(&context.reply, &api.resources.load().catalogue, Some(&path.group));
    }
    if request.method() != Method::GET {
        return context.refused(&Status::method_not_allowed());
    }
    let is_list = path.name.is_none();
    let (verb, scope) = if is_list { (Verb::List, Scope::Cluster) } else { (Verb::Get, Scope::Resource) };
    let mut timer = api.metrics.served(&path.group, &path.version, &path.resource).request(verb, scope);
    let mut reply = context.reply.clone();
    let answer = match reply.negotiate(if is_list { Asked::BuiltInList } else { Asked::BuiltIn }) {
        Ok(form) => timeout_at(context.until, answer(api, context, path, unstored, form)).await,
        Err(status) => Ok(Err(status)),
    };
    let mut response = match answer {
        Ok(Ok(body)) => sent(reply.object(StatusCode::OK, body), timer),
        Ok(Err(status)) => sent(reply.status(&status), timer),
        Err(_) => {
            timer.terminated(504);
            context.timed_out()
        }
    };
    response.headers_mut().append(WARNING, DEPRECATED);
    response
}

async fn answer(api: &Api, context: &Authorized, path: &ResourcePath, unstored: &Unstored, form: Form) -> Result<Vec<u8>, Status> {
    let query = &context.line.query;
    let statuses = match &path.name {
        Some(name) => vec![status(api, name).await?.ok_or_else(|| Status::not_found("", &unstored.singular, name))?],
        None => {
            let options = ListOptions::of(query).map_err(Status::bad_request)?;
            if options.watch {
                return Err(Status::verb_not_supported("watch", &path.group, &path.resource));
            }
            let selected = selected(&options)?;
            let (etcd, first, second) = tokio::join!(status(api, ETCD), status(api, COMPONENTS[0].0), status(api, COMPONENTS[1].0));
            let all = [first?, etcd?, second?].into_iter().flatten();
            all.filter(|status| selected(status["metadata"]["name"].as_str().unwrap_or_default())).collect()
        }
    };
    let is_list = path.name.is_none();
    if let Some(status) = partial::mismatch_of(form.shape, &format!("*core.{}", unstored.kind), is_list) {
        return Err(status);
    }
    Ok(match form.shape {
        Shape::Whole if is_list => listed("v1", &unstored.list_kind, &statuses.iter().map(without_head).collect::<Vec<_>>()),
        Shape::Whole => stored::render(false, &statuses[0]),
        Shape::Partial(asked) => {
            let items: Vec<Value> = statuses.iter().map(|status| stored::only_metadata(asked.version, status)).collect();
            if is_list {
                listed(asked.version.api_version(), "PartialObjectMetadataList", &items)
            } else {
                stored::render(false, &items[0])
            }
        }
        Shape::Table(version) => {
            let word = query.first("includeObject").unwrap_or("");
            let include = Include::parse(word).ok_or_else(|| partial::no_such_include(word))?;
            table(unstored, version, include, &statuses)
        }
    })
}

/// Returns what a list selects by name, as kube-apiserver's does: a status has no labels, and no namespace.
fn selected(options: &ListOptions) -> Result<impl Fn(&str) -> bool, Status> {
    let refused = |why: String| Status::from(Refusal::BadRequest(why));
    let labels = parse::labels(&options.label_selector).map_err(refused)?;
    let fields = parse::fields(&options.field_selector).map_err(refused)?;
    let wrong = options.validate();
    if !wrong.is_empty() {
        return Err(Refusal::Invalid(wrong).into());
    }
    if let Some(unknown) = fields.iter().find(|field| !matches!(&*field.label, "metadata.name" | "metadata.namespace")) {
        let label = go::quote::quoted(&unknown.label);
        return Err(refused(format!("{label} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")));
    }
    let has_labels = labels.requirements.iter().all(|one| matches!(one.op, LabelOp::Absent | LabelOp::NotIn(_)));
    Ok(move |name: &str| {
        let value = |label: &str| if label == "metadata.name" { name } else { "" };
        has_labels && fields.iter().all(|field| (value(&field.label) == field.value) == field.equal)
    })
}

/// The status of a component; `None` when there is none of this name.
async fn status(api: &Api, name: &str) -> Result<Option<Value>, Status> {
    let condition = if name == ETCD {
        match api.etcd_failure() {
            None => json!({"type": "Healthy", "status": "True", "message": "ok"}),
            Some(why) => json!({"type": "Healthy", "status": "False", "error": why}),
        }
    } else {
        let Some((_, port)) = COMPONENTS.iter().find(|(known, _)| *known == name) else { return Ok(None) };
        let (is_healthy, message) = probed(*port).await.map_err(Status::internal)?;
        json!({"type": "Healthy", "status": if is_healthy { "True" } else { "False" }, "message": message})
    };
    Ok(Some(json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name}, "conditions": [condition]})))
}

/// Asks a component on this machine, whoever has signed its certificate; what it says, or why it says nothing.
async fn probed(port: u16) -> Result<(bool, String), String> {
    let url = Uri::try_from(format!("https://127.0.0.1:{port}/healthz")).map_err(|error| error.to_string())?;
    let client = Client::trusting(&Trust::Anyone, LIMITS)?;
    Ok(match client.get(&url).await {
        Ok(answer) if (200..400).contains(&answer.status.as_u16()) => (true, String::from_utf8_lossy(&answer.body).into_owned()),
        Ok(answer) => (false, format!("HTTP probe failed with statuscode: {}", answer.status.as_u16())),
        Err(CallError::Failed(why)) if why.ends_with("(os error 111)") => {
            (false, format!("Get \"{url}\": dial tcp 127.0.0.1:{port}: connect: connection refused"))
        }
        Err(error @ CallError::TimedOut) => (false, format!("Get \"{url}\": {error}")),
        Err(error) => (false, error.to_string()),
    })
}

/// A list of objects as they are printed.
fn listed(api_version: &str, kind: &str, items: &[Value]) -> Vec<u8> {
    let items: Vec<String> = items.iter().map(|item| String::from_utf8_lossy(&stored::render(false, item)).into_owned()).collect();
    format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{}},"items":[{}]}}"#, items.join(",")).into_bytes()
}

/// An item of a list says nothing of its kind.
fn without_head(status: &Value) -> Value {
    json!({"metadata": status["metadata"], "conditions": status["conditions"]})
}

/// A Table of these: the one of each, with the rows of all.
fn table(unstored: &Unstored, version: MetaVersion, include: Include, statuses: &[Value]) -> Vec<u8> {
    const ROWS: &str = r#","rows":["#;
    let storage = Storage {
        id: unstored.resource.as_str().into(),
        group: unstored.group.clone(),
        resource: unstored.resource.clone(),
        namespaced: false,
        shape: model::Shape::BuiltIn { kind: unstored.kind.clone(), api_version: "v1".to_owned() },
        fields: Vec::new(),
    };
    let whole = Encoder::built_in("v1", &unstored.kind, &unstored.list_kind, "");
    let encoder = Encoder::table(version, Arc::new(Table::of(&storage, &[])), include, &whole, Duration::default);
    let of_one = |status: &Value| String::from_utf8_lossy(&encoder.render(false, status)).into_owned();
    let head = of_one(&json!({"kind": unstored.kind, "apiVersion": "v1", "metadata": {}}));
    let head = head.split_once(ROWS).map_or("", |(head, _)| head);
    let row = |status: &Value| of_one(status).split_once(ROWS).and_then(|(_, rows)| rows.strip_suffix("]}")).unwrap_or_default().to_owned();
    let rows: Vec<String> = statuses.iter().map(row).collect();
    format!("{head}{ROWS}{}]}}", rows.join(",")).into_bytes()
}
