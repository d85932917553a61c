//! What may be asked of a resource as OpenAPI v3 operations, of which `swagger` makes those of v2.

use serde_json::{Map, Value, json};

use super::{
    path_of,
    schemas::{GVK, Schemas, kind_of},
};
use crate::{Offer, Review, Served, Subresource};

/// What bodies and answers may be, protobuf left out: clients ask for it by `Accept`. Server-side apply is not supported yet.
pub(super) const BODIES: &[&str] = &["application/json", "application/yaml"];
const ANSWERS: &[&str] = BODIES;
/// Lists of custom resources can be watched as well, which is not told.
const STREAMS: &[&str] = &["application/json", "application/yaml", "application/json;stream=watch"];
const PATCHES: &[&str] = &["application/json-patch+json", "application/merge-patch+json"];
const STRATEGIC: &str = "application/strategic-merge-patch+json";

const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
/// Only those of custom resources are told.
const GET: &[(&str, &str)] = &[("resourceVersion", "string")];
const WRITE: &[(&str, &str)] = &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const FORCE: &[(&str, &str)] = &[("force", "boolean")];
const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
/// Of built-in resources; of custom ones those of a list are told.
const DELETE_COLLECTION: &[(&str, &str)] = &[
    ("continue", "string"),
    ("dryRun", "string"),
    ("fieldSelector", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
];

/// The paths of a resource, each with its operations.
pub(super) fn paths_of(served: &Served, offer: Offer, schemas: &mut Schemas<'_>) -> Vec<(String, Value)> {
    let root = format!("/{}", path_of(&served.group, &served.version));
    let (one, list) = own_schemas(served, schemas);
    let verbs = served.verbs(offer);
    let may = |verb: &str| verbs.contains(&verb);
    let scope = if served.namespaced { "namespaces/{namespace}/" } else { "" };
    let collection = format!("{scope}{}", served.resource);
    let whole = Subject::of(served);
    let mut paths = vec![
        whole.path(
            &root,
            &collection,
            vec![
                may("list").then(|| whole.list("", &list)),
                may("create").then(|| whole.create(&one, "")),
                may("deletecollection").then(|| whole.delete_collection(schemas)),
            ],
        ),
        whole.path(
            &root,
            &format!("{collection}/{{name}}"),
            vec![
                may("get").then(|| whole.read(&one, "")),
                may("update").then(|| whole.replace(&one, "")),
                may("delete").then(|| whole.delete(schemas)),
                may("patch").then(|| whole.patch(&one, "", schemas)),
            ],
        ),
    ];
    if served.namespaced && may("list") {
        let all = Subject { scope: "", ..whole };
        paths.push(all.path(&root, &served.resource, vec![Some(all.list("ForAllNamespaces", &list))]));
    }
    if !served.is_custom() && may("watch") {
        let event = schemas.meta("WatchEvent");
        paths.push(whole.path(&root, &format!("watch/{collection}"), vec![Some(whole.watch("List", "watchlist", &event))]));
        paths.push(whole.path(&root, &format!("watch/{collection}/{{name}}"), vec![Some(whole.watch("", "watch", &event))]));
        if served.namespaced {
            let all = Subject { scope: "", ..whole };
            let operation = all.watch("ListForAllNamespaces", "watchlist", &event);
            paths.push(all.path(&root, &format!("watch/{}", served.resource), vec![Some(operation)]));
        }
    }
    for (sub, verbs) in served.subresources(offer).into_iter().filter(|(sub, _)| has_schema(served, sub)) {
        paths.push(subresource(served, sub, &verbs, &format!("{root}/{collection}/{{name}}"), &one, schemas));
    }
    paths.retain(|(_, path)| path.as_object().is_some_and(|path| path.keys().any(|key| key != "parameters")));
    paths
}

/// The path of a review: it is asked by POST.
pub(super) fn path_of_review(review: &Review, schemas: &mut Schemas<'_>) -> (String, Value) {
    let root = format!("/{}", path_of(&review.group, &review.version));
    let place = if review.namespaced { "namespaces/{namespace}/" } else { "" };
    let one = schemas.kind(&review.group, &review.version, &review.kind);
    let subject = Subject::of_review(review);
    let (method, mut operation) = subject.create(&one, "");
    // The router of these takes whatever its decoders know.
    operation["requestBody"]["content"] = json!({ "*/*": { "schema": one } });
    subject.path(&root, &format!("{place}{}", review.resource), vec![Some((method, operation))])
}

fn scope(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "" }
}

/// Streams (`exec`, `log`, `proxy`) are no operations on objects.
fn has_schema(served: &Served, sub: &Subresource) -> bool {
    !sub.kind.ends_with("Options") && (sub.kind != served.kind || sub.verbs.iter().any(|verb| verb == "update"))
}

fn own_schemas(served: &Served, schemas: &mut Schemas<'_>) -> (Value, Value) {
    if served.is_custom() {
        return (schemas.custom(served, false), schemas.custom(served, true));
    }
    let (group, version) = (&served.group, &served.version);
    (schemas.kind(group, version, &served.kind), schemas.kind(group, version, &served.list_kind))
}

fn subresource(
    served: &Served,
    sub: &Subresource,
    verbs: &[&str],
    path: &str,
    parent: &Value,
    schemas: &mut Schemas<'_>,
) -> (String, Value) {
    let (group, version) = (sub.group.as_deref().unwrap_or(&served.group), sub.version.as_deref().unwrap_or(&served.version));
    let body = if sub.kind == served.kind { parent.clone() } else { schemas.kind(group, version, &sub.kind) };
    let whole = Subject::of(served);
    // Of a definition's scale kube-apiserver tells the kind of the whole object.
    let subject = if served.is_custom() { whole } else { Subject { kind: (group, version, &sub.kind), ..whole } };
    let suffix = capital(&sub.name);
    let may = |verb: &str| verbs.contains(&verb);
    subject.path(
        path,
        &sub.name,
        vec![
            may("get").then(|| subject.read(&body, &suffix)),
            may("create").then(|| subject.create(&body, &suffix)),
            may("update").then(|| subject.replace(&body, &suffix)),
            may("patch").then(|| subject.patch(&body, &suffix, schemas)),
        ],
    )
}

/// What operations are about.
#[derive(Clone, Copy)]
struct Subject<'a> {
    /// Group, version and kind that operation ids name.
    of: (&'a str, &'a str, &'a str),
    custom: bool,
    /// `Namespaced` or nothing, as it stands in operation ids.
    scope: &'a str,
    /// Group, version and kind of what is sent.
    kind: (&'a str, &'a str, &'a str),
}

/// A method and its operation.
type Operation = (&'static str, Value);

impl<'a> Subject<'a> {
    fn of(served: &'a Served) -> Self {
        let kind = (&*served.group, &*served.version, &*served.kind);
        Self { of: kind, custom: served.is_custom(), scope: scope(served.namespaced), kind }
    }

    fn of_review(review: &'a Review) -> Self {
        let kind = (&*review.group, &*review.version, &*review.kind);
        Self { of: kind, custom: false, scope: scope(review.namespaced), kind }
    }

    fn path(&self, root: &str, path: &str, operations: Vec<Option<Operation>>) -> (String, Value) {
        let whole = format!("{root}/{path}");
        let in_path =
            |name: &str| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "uniqueItems": true } });
        let names = ["name", "namespace"].into_iter().filter(|name| whole.contains(&format!("{{{name}}}"))).map(in_path);
        let mut members: Map<_, _> = operations.into_iter().flatten().map(|(method, it)| (method.to_owned(), it)).collect();
        let mut parameters: Vec<Value> = names.chain(parameters(&[("pretty", "string")])).chain(shared(&mut members)).collect();
        parameters.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        members.insert("parameters".to_owned(), parameters.into());
        (whole, Value::Object(members))
    }

    fn list(&self, suffix: &str, list: &Value) -> Operation {
        let types = if self.custom { ANSWERS } else { STREAMS };
        ("get", self.operation("list", "", suffix, "list", parameters(LIST).collect(), &[("200", types, list)]))
    }

    fn watch(&self, suffix: &str, action: &str, event: &Value) -> Operation {
        ("get", self.operation("watch", "", suffix, action, parameters(LIST).collect(), &[("200", STREAMS, event)]))
    }

    fn read(&self, one: &Value, suffix: &str) -> Operation {
        let options = if self.custom { GET } else { &[] };
        ("get", self.operation("read", "", suffix, "get", parameters(options).collect(), &[("200", ANSWERS, one)]))
    }

    fn create(&self, one: &Value, suffix: &str) -> Operation {
        let answers = [("200", ANSWERS, one), ("201", ANSWERS, one), ("202", ANSWERS, one)];
        ("post", with_body(self.operation("create", "", suffix, "post", parameters(WRITE).collect(), &answers), BODIES, one, true))
    }

    fn replace(&self, one: &Value, suffix: &str) -> Operation {
        let answers = [("200", ANSWERS, one), ("201", ANSWERS, one)];
        ("put", with_body(self.operation("replace", "", suffix, "put", parameters(WRITE).collect(), &answers), BODIES, one, true))
    }

    fn patch(&self, one: &Value, suffix: &str, schemas: &mut Schemas<'_>) -> Operation {
        let strategic = (!self.custom).then_some(&STRATEGIC);
        let types: Vec<&str> = PATCHES.iter().chain(strategic).copied().collect();
        let options = parameters(WRITE).chain(parameters(FORCE)).collect();
        let answers = [("200", ANSWERS, one), ("201", ANSWERS, one)];
        let operation = self.operation("patch", "", suffix, "patch", options, if self.custom { &answers[..1] } else { &answers });
        ("patch", with_body(operation, &types, &schemas.meta("Patch"), true))
    }

    fn delete(&self, schemas: &mut Schemas<'_>) -> Operation {
        let status = schemas.meta("Status");
        let answers = [("200", ANSWERS, &status), ("202", ANSWERS, &status)];
        let operation = self.operation("delete", "", "", "delete", parameters(DELETE).collect(), &answers);
        ("delete", with_body(operation, BODIES, &schemas.meta("DeleteOptions"), false))
    }

    fn delete_collection(&self, schemas: &mut Schemas<'_>) -> Operation {
        let status = schemas.meta("Status");
        let options = parameters(if self.custom { LIST } else { DELETE_COLLECTION }).collect();
        let operation = self.operation("delete", "Collection", "", "deletecollection", options, &[("200", ANSWERS, &status)]);
        let operation = if self.custom { operation } else { with_body(operation, BODIES, &schemas.meta("DeleteOptions"), false) };
        ("delete", operation)
    }

    /// `verb` and `middle` make the operation id: `deleteAppsV1CollectionNamespacedDeployment`.
    fn operation(
        &self,
        verb: &str,
        middle: &str,
        suffix: &str,
        action: &str,
        parameters: Vec<Value>,
        answers: &[(&str, &[&str], &Value)],
    ) -> Value {
        let (group, version, kind) = self.of;
        let group = words(group);
        let id = format!("{verb}{group}{}{middle}{}{kind}{suffix}", capital(version), self.scope);
        let mut responses: Map<_, _> =
            answers.iter().map(|(code, types, schema)| ((*code).to_owned(), answer(code, types, schema))).collect();
        responses.insert("401".to_owned(), json!({ "description": "Unauthorized" }));
        let tag = format!("{}{}_{version}", group[..1].to_lowercase(), &group[1..]);
        let (of, at, kind) = self.kind;
        let mut operation =
            json!({ "tags": [tag], "operationId": id, "responses": responses, "x-kubernetes-action": action, GVK: kind_of(of, at, kind) });
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        operation
    }
}

/// Takes from the operations of a path the parameters that all of them have: they are told once.
fn shared(operations: &mut Map<String, Value>) -> Vec<Value> {
    let lists: Vec<_> = operations.values().map(|operation| operation["parameters"].as_array().cloned().unwrap_or_default()).collect();
    let Some((first, others)) = lists.split_first() else { return Vec::new() };
    let shared: Vec<_> = first.iter().filter(|it| others.iter().all(|list| list.contains(it))).cloned().collect();
    for operation in operations.values_mut().filter_map(Value::as_object_mut) {
        let Some(Value::Array(own)) = operation.get_mut("parameters") else { continue };
        own.retain(|it| !shared.contains(it));
        if own.is_empty() {
            operation.remove("parameters");
        }
    }
    shared
}

fn with_body(mut operation: Value, types: &[&str], schema: &Value, required: bool) -> Value {
    operation["requestBody"] = json!({ "content": content(types, schema) });
    if required {
        operation["requestBody"]["required"] = true.into();
    }
    operation
}

fn answer(code: &str, types: &[&str], schema: &Value) -> Value {
    let description = match code {
        "201" => "Created",
        "202" => "Accepted",
        _ => "OK",
    };
    json!({ "description": description, "content": content(types, schema) })
}

fn content(types: &[&str], schema: &Value) -> Map<String, Value> {
    types.iter().map(|name| ((*name).to_owned(), json!({ "schema": schema }))).collect()
}

fn parameters(of: &[(&str, &str)]) -> impl Iterator<Item = Value> {
    of.iter().map(|(name, kind)| json!({ "name": name, "in": "query", "schema": { "type": kind, "uniqueItems": true } }))
}

/// A group in an operation id: `Core`, `Apps`, `RbacAuthorization` of `rbac.authorization.k8s.io`, `ExIo` of `ex.io`.
fn words(group: &str) -> String {
    let group = if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) };
    group.split(|c: char| !c.is_ascii_alphanumeric()).map(capital).collect()
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
