//! What kube-apiserver 1.36.3 decided with `Node,RBAC` (`tests/data/authz/record.py`), against what we decide from the same objects.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::node::{self, NodeGraph};
use super::rbac::{self, RbacIndex, Refusal};
use super::*;

const NOW: Duration = Duration::ZERO;

/// The lines of a file of `tests/data/authz`.
fn lines(name: &str) -> Vec<Value> {
    let path = format!("{}/../../tests/data/authz/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("a file of the tree");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is an object")).collect()
}

fn put(index: &mut RbacIndex, object: &Value) {
    let Some(kind) = object["kind"].as_str().and_then(rbac::Kind::named) else { return };
    let name = |member: &str| object["metadata"][member].as_str().unwrap_or("");
    index.put(kind, name("namespace"), name("name"), object.to_string().as_bytes()).expect("an object of RBAC");
}

/// The index of the objects that every cluster has.
pub(super) fn bootstrap() -> RbacIndex {
    let mut index = RbacIndex::default();
    for line in include_str!("bootstrap/objects.jsonl").lines() {
        put(&mut index, &serde_json::from_str(line).expect("an object"));
    }
    index
}

fn index() -> RbacIndex {
    let mut index = bootstrap();
    lines("objects").iter().for_each(|object| put(&mut index, object));
    index
}

/// What pods, volumes, attachments and slices say.
fn graph() -> NodeGraph {
    let mut graph = NodeGraph::default();
    for object in lines("objects") {
        let kind = match object["kind"].as_str() {
            Some("Pod") => node::Kind::Pod,
            Some("PersistentVolume") => node::Kind::PersistentVolume,
            Some("VolumeAttachment") => node::Kind::VolumeAttachment,
            Some("ResourceSlice") => node::Kind::ResourceSlice,
            _ => continue,
        };
        let name = |member: &str| object["metadata"][member].as_str().unwrap_or("");
        graph.put(kind, name("namespace"), name("name"), object.to_string().as_bytes()).expect("an object of its kind");
    }
    graph
}

fn chain() -> Chain {
    let links: Vec<Arc<dyn Authorizer>> = vec![Arc::new(Masters), Arc::new(graph()), Arc::new(index())];
    Chain(links.into_iter().map(Link::Memory).collect())
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn user(of: &Value) -> User {
    User { name: of["user"].as_str().unwrap_or("").to_owned(), groups: texts(&of["groups"]), ..User::default() }
}

/// kube-apiserver looks at bindings in the order of a Go map: errors are a set.
fn set(errors: &str) -> BTreeSet<&str> {
    errors.split('\n').flat_map(|line| line.trim_start_matches("RBAC: ").trim_matches(['[', ']']).split(", ")).collect()
}

#[test]
fn access_reviews() {
    let (chain, index) = (chain(), index());
    let mut several = 0;
    for review in lines("reviews") {
        let spec = &review["spec"];
        let user = user(spec);
        let text = |of: &'static str, member: &str| spec[of][member].as_str().unwrap_or("");
        let of = "resourceAttributes";
        let selector = spec[of]["fieldSelector"]["rawSelector"].as_str().unwrap_or("");
        let equal =
            |requirement: &'_ str| requirement.split_once("==").or(requirement.split_once('=')).map(|(f, v)| (f.to_owned(), v.to_owned()));
        let fields = selector.split(',').filter(|part| !part.contains("!=")).filter_map(equal);
        let fields = fields.map(|(key, value)| Requirement { key, operator: Operator::In, values: vec![value] }).collect();
        let selectors = Selectors { fields, labels: Vec::new() };
        let target = match spec.get("nonResourceAttributes") {
            Some(_) => Target::Path(text("nonResourceAttributes", "path")),
            None => Target::Resource(Resource {
                namespace: text(of, "namespace"),
                group: text(of, "group"),
                version: "*",
                resource: text(of, "resource"),
                subresource: text(of, "subresource"),
                name: text(of, "name"),
                selectors: &selectors,
            }),
        };
        let verb = if let Target::Path(_) = target { text("nonResourceAttributes", "verb") } else { text(of, "verb") };
        let asked = Attributes { user: &user, verb, target };
        let verdict = chain.asking(NOW).decide(&asked);
        let reason = verdict.reason.to_string();
        let expected = review["status"]["reason"].as_str().unwrap_or("");
        assert_eq!(verdict.decision == Decision::Allow, review["status"]["allowed"] == true, "{spec} {reason}");
        assert_eq!(review["status"].get("evaluationError"), None);
        if verdict.decision != Decision::Allow {
            assert_eq!(set(&reason), set(expected), "{spec}");
        } else if reason != expected {
            // Another binding that allows it too: it must do so when ours is gone.
            several += 1;
            let mut rest = index.clone();
            while rest.decide(&asked).reason.to_string() != expected {
                assert_eq!(rest.decide(&asked).decision, Decision::Allow, "{spec}: {expected}");
                rest.forget(&rest.decide(&asked).reason);
            }
        }
    }
    assert!(several > 3, "{several}");
}

impl RbacIndex {
    /// Removes the binding that granted something.
    fn forget(&mut self, reason: &Reason) {
        let text = reason.to_string();
        let (kind, name) = match text.split('"').next() {
            Some("RBAC: allowed by ClusterRoleBinding ") => (rbac::Kind::ClusterRoleBinding, text.split('"').nth(1)),
            _ => (rbac::Kind::RoleBinding, text.split('"').nth(1)),
        };
        let (name, namespace) = name.map(|name| name.split_once('/').unwrap_or((name, ""))).expect("a name in quotes");
        self.remove(kind, namespace, name);
    }
}

#[test]
fn rules_reviews() {
    for review in lines("rules") {
        let user = user(&review);
        let mut ours =
            serde_json::to_value(chain().asking(NOW).rules_for(&user, review["namespace"].as_str().expect("a namespace"))).expect("JSON");
        let mut theirs = review["status"].clone();
        for status in [&mut ours, &mut theirs] {
            for list in ["resourceRules", "nonResourceRules"] {
                status[list].as_array_mut().expect("a list").sort_by_key(Value::to_string);
            }
            let error = status["evaluationError"].as_str().map(|error| json!(set(error)));
            status["evaluationError"] = json!(error);
        }
        assert_eq!(ours, theirs, "{} {:?}", user.name, user.groups);
    }
}

#[test]
fn writes_of_rbac_objects() {
    let (chain, index) = (chain(), index());
    for write in lines("writes") {
        let (user, text) = (user(&write), |member: &str| write[member].as_str().unwrap_or(""));
        let kind = rbac::Kind::named(text("kind")).expect("a kind of RBAC");
        let stored = Some(&write["stored"]).filter(|stored| !stored.is_null());
        let asked = rbac::Write { user: &user, kind, namespace: text("namespace"), name: text("name"), object: &write["object"], stored };
        let resource = format!("{}.{}", kind.resource(), rbac::GROUP);
        let ours = match index.confirm_no_escalation(&chain.asking(NOW), &asked) {
            Ok(()) => (0, String::new()),
            Err(Refusal::Forbidden(why)) => {
                let name = write["object"]["metadata"]["name"].as_str().expect("a name");
                (403, format!("{resource} \"{name}\" is forbidden: {why}"))
            }
            Err(Refusal::NotFound(name)) => (404, format!("{resource} \"{name}\" not found")),
            Err(Refusal::BadRequest(why)) => (400, why),
            Err(Refusal::Internal(why)) => (500, why),
        };
        let theirs = match write["code"].as_u64() {
            // Validation comes after.
            Some(200 | 201 | 422) => (0, String::new()),
            Some(code) => (code, text("message").to_owned()),
            None => panic!("{write}"),
        };
        assert_eq!(ours, theirs, "{write}");
    }
}

#[test]
fn rules_that_are_too_many_are_refused() {
    let words = |prefix: &str| -> Vec<String> { (0..400).map(|i| format!("{prefix}{i}")).collect() };
    let rule = json!({"verbs": words("v"), "apiGroups": words("g"), "resources": words("r"), "resourceNames": words("n")});
    let mut write = rbac::Write {
        user: &User { name: "jane".into(), ..User::default() },
        kind: rbac::Kind::ClusterRole,
        namespace: "",
        name: "",
        object: &json!({"rules": [rule]}),
        stored: None,
    };
    let refused = index().confirm_no_escalation(&chain().asking(NOW), &write);
    assert!(matches!(&refused, Err(Refusal::Forbidden(why)) if why.starts_with("the rules are too many")), "{refused:?}");
    let mut index = index();
    let held = json!({"rules": [{"verbs": words("v"), "apiGroups": ["*"], "resources": ["*"]}]});
    index.put(rbac::Kind::ClusterRole, "", "granter", held.to_string().as_bytes()).expect("a role");
    let granter = User { name: "jane".into(), groups: vec!["granters".into()], ..User::default() };
    write.user = &granter;
    let refused = index.confirm_no_escalation(&chain().asking(NOW), &write);
    assert!(matches!(&refused, Err(Refusal::Forbidden(why)) if why.starts_with("the rules are too many")), "{refused:?}");
}
