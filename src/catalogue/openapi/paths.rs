//! What may be asked of a resource as OpenAPI v3 operations, of which `swagger` makes those of v2.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    path_of,
    recorded::Parameters,
    schemas::{GVK, Schemas, kind_of},
};
use crate::{Offer, Served, Subresource, Unstored};

/// What bodies of custom resources and answers with them may be.
pub(super) const CUSTOM: &[&str] = &["application/json", "application/yaml"];
/// What bodies of Kubernetes' own resources are: whatever its decoders know.
pub(super) const ANY: &[&str] = &["*/*"];
pub(super) const ANSWERS: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
/// Lists of custom resources can be watched as well, which is not told.
const STREAMS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// Those that are served; a custom resource has no strategic merge.
const PATCHES: &[&str] = &["application/json-patch+json", "application/merge-patch+json", STRATEGIC, "application/apply-patch+yaml"];
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The media types of all operations, in the order in which `/openapi/v2` tells them.
pub(super) const ORDER: &[&str] = &[
    "*/*",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
    "application/jwk-set+json",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// The paths of a resource, each with its operations.
pub(super) fn paths_of(served: &Served, offer: Offer, schemas: &mut Schemas<'_>) -> Vec<(String, Value)> {
    let root = format!("/{}", path_of(&served.group, &served.version));
    let (one, list) = own_schemas(served, schemas);
    let verbs = served.verbs(offer);
    let may = |verb: &str| verbs.contains(&verb);
    let scope = if served.namespaced { "namespaces/{namespace}/" } else { "" };
    let collection = format!("{scope}{}", served.resource);
    let recorded = schemas.recorded();
    let whole = Subject::of(served, &recorded.parameters);
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
                may("delete").then(|| whole.delete(tells_deleted(served).then_some(&one), schemas)),
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

/// The paths of a resource of which nothing is stored.
pub(super) fn paths_of_unstored(unstored: &Unstored, offer: Offer, schemas: &mut Schemas<'_>) -> Vec<(String, Value)> {
    let root = format!("/{}", path_of(&unstored.group, &unstored.version));
    let place = if unstored.namespaced { "namespaces/{namespace}/" } else { "" };
    let verbs = unstored.verbs(offer);
    if verbs.is_empty() {
        return Vec::new();
    }
    let one = schemas.kind(&unstored.group, &unstored.version, &unstored.kind);
    let list = verbs.contains(&"list").then(|| schemas.kind(&unstored.group, &unstored.version, &unstored.list_kind));
    let recorded = schemas.recorded();
    let subject = Subject::of_unstored(unstored, &recorded.parameters);
    let collection = format!("{place}{}", unstored.resource);
    let create = verbs.contains(&"create").then(|| subject.create(&one, ""));
    let mut paths = vec![subject.path(&root, &collection, vec![list.map(|list| subject.list_once(&list)), create])];
    if verbs.contains(&"get") {
        paths.push(subject.path(&root, &format!("{collection}/{{name}}"), vec![Some(subject.read(&one, ""))]));
    }
    paths
}

/// Whether a DELETE is told to answer with the object. A namespace's does, and it is not told.
fn tells_deleted(served: &Served) -> bool {
    served.rules.delete_returns_object && (&*served.group, &*served.resource) != ("", "namespaces")
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
    let recorded = schemas.recorded();
    let whole = Subject::of(served, &recorded.parameters);
    // Of a definition's scale kube-apiserver tells the kind of the whole object.
    let subject = if served.is_custom() { whole } else { Subject { kind: (group, version, &sub.kind), ..whole } };
    let suffix = &sub.name;
    let may = |verb: &str| verbs.contains(&verb);
    subject.path(
        path,
        &sub.name,
        vec![
            may("get").then(|| subject.read(&body, suffix)),
            may("create").then(|| subject.create(&body, suffix)),
            may("update").then(|| subject.replace(&body, suffix)),
            may("patch").then(|| subject.patch(&body, suffix, schemas)),
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
    parameters: &'a BTreeMap<String, Vec<Value>>,
}

/// A method and its operation.
type Operation = (&'static str, Value);

/// What an operation is called by, and what it says of itself.
struct Named<'a> {
    verb: &'a str,
    /// Between version and scope in the operation id: `deleteAppsV1CollectionNamespacedDeployment`.
    middle: &'a str,
    suffix: &'a str,
    action: &'a str,
    description: String,
}

impl<'a> Subject<'a> {
    fn of(served: &'a Served, parameters: &'a Parameters) -> Self {
        let (kind, custom) = ((&*served.group, &*served.version, &*served.kind), served.is_custom());
        let parameters = if custom { &parameters.custom } else { &parameters.built_in };
        Self { of: kind, custom, scope: scope(served.namespaced), kind, parameters }
    }

    fn of_unstored(unstored: &'a Unstored, parameters: &'a Parameters) -> Self {
        let kind = (&*unstored.group, &*unstored.version, &*unstored.kind);
        Self { of: kind, custom: false, scope: scope(unstored.namespaced), kind, parameters: &parameters.built_in }
    }

    fn path(&self, root: &str, path: &str, operations: Vec<Option<Operation>>) -> (String, Value) {
        let whole = format!("{root}/{path}");
        let in_path = |(name, description): (&str, String)| {
            let schema = json!({ "type": "string", "uniqueItems": true });
            json!({ "name": name, "in": "path", "description": description, "required": true, "schema": schema })
        };
        let names = [
            ("name", format!("name of the {}", self.kind.2)),
            ("namespace", "object name and auth scope, such as for teams and projects".to_owned()),
        ];
        let names = names.into_iter().filter(|(name, _)| whole.contains(&format!("{{{name}}}"))).map(in_path);
        let mut members: Map<_, _> = operations.into_iter().flatten().map(|(method, it)| (method.to_owned(), it)).collect();
        let mut parameters: Vec<Value> = names.chain(shared(&mut members)).collect();
        parameters.sort_by(|a, b| a["name"].as_str().cmp(&b["name"].as_str()));
        members.insert("parameters".to_owned(), parameters.into());
        (whole, Value::Object(members))
    }

    /// What answers may be.
    fn answers(&self) -> &'static [&'static str] {
        if self.custom { CUSTOM } else { ANSWERS }
    }

    /// What bodies may be.
    fn bodies(&self) -> &'static [&'static str] {
        if self.custom { CUSTOM } else { ANY }
    }

    fn list(&self, suffix: &str, list: &Value) -> Operation {
        let (types, verbs) = if self.custom { (CUSTOM, "list") } else { (STREAMS, "list or watch") };
        let description = format!("{verbs} objects of kind {}", self.of.2);
        ("get", self.operation(&Named { verb: "list", middle: "", suffix, action: "list", description }, &[("200", types, list)]))
    }

    /// A list that cannot be watched.
    fn list_once(&self, list: &Value) -> Operation {
        let description = format!("list objects of kind {}", self.of.2);
        ("get", self.operation(&Named { verb: "list", middle: "", suffix: "", action: "list", description }, &[("200", STREAMS, list)]))
    }

    fn watch(&self, suffix: &str, action: &str, event: &Value) -> Operation {
        let what = if action == "watch" { "changes to an object of kind" } else { "individual changes to a list of" };
        let instead = match action {
            "watch" => {
                "use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
            }
            _ => "use the 'watch' parameter with a list operation instead.",
        };
        let description = format!("watch {what} {}. deprecated: {instead}", self.of.2);
        ("get", self.operation(&Named { verb: "watch", middle: "", suffix, action, description }, &[("200", STREAMS, event)]))
    }

    /// What is done to the object of this name, or to a subresource of it.
    fn of_the_specified(&self, done: &str, sub: &str) -> String {
        let of = if sub.is_empty() { String::new() } else { format!("{sub} of ") };
        format!("{done} {of}the specified {}", self.of.2)
    }

    /// What is done to one object, or to a subresource of it.
    fn of_a(&self, done: &str, sub: &str) -> String {
        let of = if sub.is_empty() { String::new() } else { format!(" {sub} of") };
        format!("{done}{of}{}{}", article(self.of.2), self.of.2)
    }

    fn read(&self, one: &Value, sub: &str) -> Operation {
        let named =
            Named { verb: "read", middle: "", suffix: &capital(sub), action: "get", description: self.of_the_specified("read", sub) };
        ("get", self.operation(&named, &[("200", self.answers(), one)]))
    }

    fn create(&self, one: &Value, sub: &str) -> Operation {
        let types = self.answers();
        let answers = [("200", types, one), ("201", types, one), ("202", types, one)];
        let named = Named { verb: "create", middle: "", suffix: &capital(sub), action: "post", description: self.of_a("create", sub) };
        ("post", with_body(self.operation(&named, &answers), self.bodies(), one, true))
    }

    fn replace(&self, one: &Value, sub: &str) -> Operation {
        let types = self.answers();
        let description = self.of_the_specified("replace", sub);
        let named = Named { verb: "replace", middle: "", suffix: &capital(sub), action: "put", description };
        ("put", with_body(self.operation(&named, &[("200", types, one), ("201", types, one)]), self.bodies(), one, true))
    }

    fn patch(&self, one: &Value, sub: &str, schemas: &mut Schemas<'_>) -> Operation {
        let taken: Vec<&str> = PATCHES.iter().copied().filter(|&it| !self.custom || it != STRATEGIC).collect();
        let types = self.answers();
        let answers = [("200", types, one), ("201", types, one)];
        let description = self.of_the_specified("partially update", sub);
        let named = Named { verb: "patch", middle: "", suffix: &capital(sub), action: "patch", description };
        let operation = self.operation(&named, if self.custom { &answers[..1] } else { &answers });
        ("patch", with_body(operation, &taken, &schemas.meta("Patch"), true))
    }

    /// `deleted` is what it is answered with, where that is the object.
    fn delete(&self, deleted: Option<&Value>, schemas: &mut Schemas<'_>) -> Operation {
        let status = schemas.meta("Status");
        let (types, answer) = (self.answers(), deleted.unwrap_or(&status));
        let answers = [("200", types, answer), ("202", types, answer)];
        let named = Named { verb: "delete", middle: "", suffix: "", action: "delete", description: self.of_a("delete", "") };
        ("delete", with_body(self.operation(&named, &answers), self.bodies(), &schemas.meta("DeleteOptions"), false))
    }

    fn delete_collection(&self, schemas: &mut Schemas<'_>) -> Operation {
        let description = format!("delete collection of {}", self.of.2);
        let named = Named { verb: "delete", middle: "Collection", suffix: "", action: "deletecollection", description };
        let operation = self.operation(&named, &[("200", self.answers(), &schemas.meta("Status"))]);
        let with_options =
            |operation, schemas: &mut Schemas<'_>| with_body(operation, self.bodies(), &schemas.meta("DeleteOptions"), false);
        ("delete", if self.custom { operation } else { with_options(operation, schemas) })
    }

    fn operation(&self, named: &Named<'_>, answers: &[(&str, &[&str], &Value)]) -> Value {
        let (group, version, kind) = self.of;
        let id = format!("{}{}{}{}{}{kind}{}", named.verb, words(group), part_of_id(version, true), named.middle, self.scope, named.suffix);
        let (of, at, kind) = self.kind;
        let mut operation = json!({
            "description": named.description,
            "operationId": id,
            "responses": responses(answers),
            "tags": [tag(group, Some(version))],
            "x-kubernetes-action": named.action,
            GVK: kind_of(of, at, kind),
        });
        operation["parameters"] = self.parameters.get(named.action).cloned().unwrap_or_default().into();
        operation
    }
}

/// The answers of an operation: those of one who may, and that to one who does not say who he is.
pub(super) fn responses(answers: &[(&str, &[&str], &Value)]) -> Map<String, Value> {
    let told = answers.iter().map(|(code, types, schema)| ((*code).to_owned(), answer(code, types, schema)));
    told.chain([("401".to_owned(), json!({ "description": "Unauthorized" }))]).collect()
}

/// The tag of operations of a group, or of one of its versions: `apps_v1`.
pub(super) fn tag(group: &str, version: Option<&str>) -> String {
    let version = version.map_or_else(String::new, |version| format!("_{}", part_of_id(version, false)));
    format!("{}{version}", part_of_id(short(group), false))
}

/// What stands before a kind in a sentence: an article, or none before a plural.
fn article(kind: &str) -> &'static str {
    let first = kind.chars().next().map_or('x', |first| first.to_ascii_lowercase());
    match first {
        _ if kind.ends_with('s') && !kind.ends_with("ss") => " ",
        'a' | 'e' | 'i' | 'o' | 'u' => " an ",
        _ => " a ",
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

/// A group in an operation id: `Core`, `Apps`, `RbacAuthorization` of `rbac.authorization.k8s.io`, `ExIo` of `ex.io`.
pub(super) fn words(group: &str) -> String {
    part_of_id(short(group), true)
}

fn short(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.strip_suffix(".k8s.io").unwrap_or(group) }
}

/// What kube-apiserver's `ToValidOperationID` makes of a text: letters, digits but for a first one, and `_`; what follows anything else is capital.
pub(super) fn part_of_id(text: &str, is_capital: bool) -> String {
    let (mut id, mut is_capital) = (String::new(), is_capital);
    for (at, letter) in text.char_indices() {
        if !(letter.is_ascii_alphabetic() || letter == '_' || at > 0 && letter.is_ascii_digit()) {
            is_capital = true;
        } else if std::mem::take(&mut is_capital) {
            id.extend(letter.to_uppercase());
        } else {
            id.push(letter);
        }
    }
    id
}

pub(super) fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As kube-apiserver 1.36.3 publishes them.
    #[test]
    fn ids_are_made_of_odd_groups_and_versions() {
        for (group, version, id, tagged) in [
            ("", "v1", "CoreV1", "core_v1"),
            ("rbac.authorization.k8s.io", "v1", "RbacAuthorizationV1", "rbacAuthorization_v1"),
            ("1.2.example", "v1", "2ExampleV1", "2Example_v1"),
            ("a-b.com", "v1-beta", "ABComV1Beta", "aBCom_v1Beta"),
            ("12a.io", "v1", "2aIoV1", "2aIo_v1"),
        ] {
            assert_eq!(format!("{}{}", words(group), part_of_id(version, true)), id);
            assert_eq!(tag(group, Some(version)), tagged);
        }
    }
}
