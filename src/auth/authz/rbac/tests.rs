//! Tests of the index: after any sequence of changes it decides as a scan of all objects does; and the cost of a decision.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::authz::Resource;

type Objects = BTreeMap<(&'static str, String, String), Value>;

fn user(name: &str, groups: &[&str]) -> User {
    User { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect(), ..User::default() }
}

fn words(of: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(of), 0..=most)
}

fn rules() -> impl Strategy<Value = Value> {
    let rule = (
        words(&["get", "list", "*"], 2),
        words(&["", "apps", "*"], 2),
        words(&["pods", "pods/log", "*/log", "*", "pods/*", "log"], 2),
        words(&["a", "b"], 1),
        words(&["/a", "/a*", "/b/*", "*", "/a**"], 1),
    );
    let rule = rule.prop_map(|(verbs, groups, resources, names, urls)| {
        json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names, "nonResourceURLs": urls})
    });
    prop::collection::vec(rule, 0..3).prop_map(Value::from)
}

fn subjects() -> impl Strategy<Value = Value> {
    let subject = (
        prop::sample::select(vec!["User", "Group", "ServiceAccount", "Robot"]),
        prop::sample::select(vec!["jane", "dev", "sa", "system:serviceaccount:n1:sa"]),
        prop::sample::select(vec!["", "n1", "n2"]),
    );
    let subject = subject.prop_map(|(kind, name, namespace)| json!({"kind": kind, "name": name, "namespace": namespace}));
    prop::collection::vec(subject, 0..4).prop_map(Value::from)
}

/// An object is put, or removed without one.
#[derive(Clone, Debug)]
struct Change {
    kind: Kind,
    namespace: &'static str,
    name: &'static str,
    object: Option<Value>,
}

fn change() -> impl Strategy<Value = Change> {
    let reference = (prop::sample::select(vec!["Role", "ClusterRole", "Other"]), prop::sample::select(vec!["a", "b", "c", "d"]));
    let object = (prop::bool::weighted(0.8), rules(), reference, subjects());
    let key = (prop::sample::select(&Kind::ALL[..]), prop::sample::select(vec!["n1", "n2"]), prop::sample::select(vec!["a", "b", "c"]));
    (key, object).prop_map(|((kind, namespace, name), (put, rules, (of, role), subjects))| {
        let object = match kind {
            Kind::ClusterRole | Kind::Role => json!({"metadata": {"name": name, "labels": null}, "rules": rules}),
            _ => json!({"metadata": {}, "roleRef": {"apiGroup": GROUP, "kind": of, "name": role}, "subjects": subjects}),
        };
        Change { kind, namespace: if kind.is_namespaced() { namespace } else { "" }, name, object: put.then_some(object) }
    })
}

fn index(objects: &Objects) -> RbacIndex {
    let mut index = RbacIndex::default();
    for ((resource, namespace, name), object) in objects {
        let kind = Kind::of(resource).expect("one of the four");
        index.put(kind, namespace, name, object.to_string().as_bytes()).expect("an object of RBAC");
    }
    index
}

fn texts<'a>(value: &'a Value, member: &str) -> Vec<&'a str> {
    value[member].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// A rule as Kubernetes' `RuleAllows` reads it.
fn allows(rule: &Value, verb: &str, target: Target<'_>) -> bool {
    let any = |member: &str, value: &str| texts(rule, member).iter().any(|of| *of == "*" || *of == value);
    any("verbs", verb)
        && match target {
            Target::Resource(Resource { group, resource, subresource, name, .. }) => {
                let combined = if subresource.is_empty() { resource.to_owned() } else { format!("{resource}/{subresource}") };
                let names = texts(rule, "resourceNames");
                any("apiGroups", group)
                    && (any("resources", &combined) || !subresource.is_empty() && any("resources", &format!("*/{subresource}")))
                    && (names.is_empty() || names.contains(&name))
            }
            Target::Path(path) => texts(rule, "nonResourceURLs")
                .iter()
                .any(|of| *of == path || of.ends_with('*') && path.starts_with(of.trim_end_matches('*'))),
        }
}

fn is_subject(subject: &Value, user: &User, namespace: &str) -> bool {
    let text = |member: &str| subject[member].as_str().unwrap_or("");
    match text("kind") {
        "User" => text("name") == user.name,
        "Group" => user.groups.iter().any(|group| group == text("name")),
        "ServiceAccount" => {
            let namespace = if text("namespace").is_empty() { namespace } else { text("namespace") };
            !namespace.is_empty() && format!("system:serviceaccount:{namespace}:{}", text("name")) == user.name
        }
        _ => false,
    }
}

/// All bindings that allow it, by name, and what is said about those without a role.
fn scan(objects: &Objects, asked: &Attributes<'_>) -> (Vec<String>, BTreeSet<String>) {
    let (mut reasons, mut errors) = (Vec::new(), BTreeSet::new());
    let of = match asked.target {
        Target::Resource(Resource { namespace, .. }) => namespace,
        Target::Path(_) => "",
    };
    for resource in ["clusterrolebindings", "rolebindings"] {
        for ((_, namespace, name), binding) in objects.iter().filter(|((r, n, _), _)| *r == resource && (n.is_empty() || n == of)) {
            let subjects = binding["subjects"].as_array().expect("subjects");
            let Some(subject) = subjects.iter().find(|subject| is_subject(subject, asked.user, namespace)) else { continue };
            let (kind, role) = (binding["roleRef"]["kind"].as_str().unwrap_or(""), binding["roleRef"]["name"].as_str().unwrap_or(""));
            let key = match kind {
                "ClusterRole" => ("clusterroles", String::new(), role.to_owned()),
                "Role" => ("roles", namespace.clone(), role.to_owned()),
                _ => {
                    errors.insert(format!("unsupported role reference kind: {kind:?}"));
                    continue;
                }
            };
            let Some(found) = objects.get(&key) else {
                errors.insert(format!("{}.{GROUP} {role:?} not found", kind.to_lowercase()));
                continue;
            };
            if found["rules"].as_array().into_iter().flatten().any(|rule| allows(rule, asked.verb, asked.target)) {
                let text = |member: &str| subject[member].as_str().unwrap_or("");
                let in_namespace = if text("namespace").is_empty() { namespace } else { text("namespace") };
                let who =
                    if text("kind") == "ServiceAccount" { format!("{}/{in_namespace}", text("name")) } else { text("name").to_owned() };
                let binding = if namespace.is_empty() {
                    format!("ClusterRoleBinding {name:?}")
                } else {
                    format!("RoleBinding \"{name}/{namespace}\"")
                };
                reasons.push(format!("RBAC: allowed by {binding} of {kind} {role:?} to {} {who:?}", text("kind")));
            }
        }
    }
    (reasons, errors)
}

fn asks() -> Vec<(User, &'static str, Target<'static>)> {
    let users =
        [user("jane", &["dev"]), user("system:serviceaccount:n1:sa", &["dev", "dev", "ops"]), user("system:serviceaccount:n2:sa", &[])];
    let mut asks = Vec::new();
    for user in users {
        for verb in ["get", "list"] {
            for namespace in ["", "n1", "n2"] {
                for (group, resource, subresource, name) in
                    [("", "pods", "", "a"), ("apps", "pods", "log", ""), ("", "log", "log", "b"), ("apps", "pods", "*", "c")]
                {
                    let resource = Resource { namespace, group, version: "v1", resource, subresource, name, ..Resource::default() };
                    asks.push((user.clone(), verb, Target::Resource(resource)));
                }
            }
            asks.extend(["/a", "/ab", "/b/", "/b", "/c"].map(|path| (user.clone(), verb, Target::Path(path))));
        }
    }
    asks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// It depends on nothing but the objects that are there, and decides as a scan of them does: of the bindings that allow it, the one with the smallest
    /// name is told.
    #[test]
    fn an_index_is_its_objects(changes in prop::collection::vec(change(), 1..60)) {
        let (mut objects, mut changed) = (Objects::new(), RbacIndex::default());
        let before = changed.clone();
        for Change { kind, namespace, name, object } in changes {
            let key = (kind.resource(), namespace.to_owned(), name.to_owned());
            match object {
                Some(object) => {
                    changed.put(kind, namespace, name, object.to_string().as_bytes()).expect("an object of RBAC");
                    objects.insert(key, object);
                }
                None => {
                    changed.remove(kind, namespace, name);
                    objects.remove(&key);
                }
            }
        }
        prop_assert_eq!(&changed, &index(&objects));
        prop_assert_eq!(before, RbacIndex::default());
        for (user, verb, target) in asks() {
            let asked = Attributes { user: &user, verb, target };
            let verdict = changed.decide(&asked);
            let (reasons, errors) = scan(&objects, &asked);
            match reasons.first() {
                Some(first) => {
                    prop_assert_eq!(verdict.decision, Decision::Allow);
                    prop_assert_eq!(verdict.reason.to_string(), first.clone());
                }
                None => {
                    prop_assert_eq!(verdict.decision, Decision::NoOpinion);
                    let text = verdict.reason.to_string();
                    let told = text.trim_start_matches("RBAC: ").trim_matches(['[', ']']);
                    let told: BTreeSet<String> = told.split(", ").filter(|e| !e.is_empty()).map(str::to_owned).collect();
                    prop_assert_eq!(told, errors);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Else his watches would go on.
    #[test]
    fn whoever_loses_a_right_is_affected(changes in prop::collection::vec(change(), 1..60)) {
        let mut index = RbacIndex::default();
        for Change { kind, namespace, name, object } in changes {
            let before = index.clone();
            match object {
                Some(object) => index.put(kind, namespace, name, object.to_string().as_bytes()).expect("an object of RBAC"),
                None => index.remove(kind, namespace, name),
            }
            let mut affected = Affected::default();
            before.lost(&index, kind, namespace, name, &mut affected);
            for (user, verb, target) in asks() {
                let asked = Attributes { user: &user, verb, target };
                let has_lost = before.decide(&asked).decision == Decision::Allow && index.decide(&asked).decision != Decision::Allow;
                prop_assert!(!has_lost || affected.has(&user), "{:?} {}", user, verb);
            }
        }
    }
}

/// Who is bound to something else, and who gets something, is not looked at.
#[test]
fn nobody_else_is_affected() {
    let role = |verbs: &[&str]| json!({"rules": [{"verbs": verbs, "nonResourceURLs": ["*"]}]}).to_string();
    let binding = |role: &str, names: &[&str]| {
        let subjects: Vec<Value> = names.iter().map(|name| json!({"kind": "User", "name": name})).collect();
        json!({"roleRef": {"kind": "ClusterRole", "name": role}, "subjects": subjects}).to_string()
    };
    let mut index = RbacIndex::default();
    let mut change = |kind: Kind, name: &str, object: Option<String>| {
        let before = index.clone();
        match object {
            Some(object) => index.put(kind, "", name, object.as_bytes()).expect("an object of RBAC"),
            None => index.remove(kind, "", name),
        }
        let mut affected = Affected::default();
        before.lost(&index, kind, "", name, &mut affected);
        ["jane", "joe", "jim"].into_iter().filter(|name| affected.has(&user(name, &[]))).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(change(Kind::ClusterRole, "r", Some(role(&["get"]))), "");
    assert_eq!(change(Kind::ClusterRoleBinding, "a", Some(binding("r", &["jane"]))), "");
    assert_eq!(change(Kind::ClusterRoleBinding, "b", Some(binding("r", &["joe"]))), "");
    assert_eq!(change(Kind::ClusterRoleBinding, "c", Some(binding("other", &["jim"]))), "");
    assert_eq!(change(Kind::ClusterRoleBinding, "a", Some(binding("r", &["jane"]))), "", "it is as it was");
    assert_eq!(change(Kind::ClusterRole, "r", Some(role(&["list"]))), "jane joe");
    assert_eq!(change(Kind::ClusterRoleBinding, "a", Some(binding("other", &["joe"]))), "jane");
    assert_eq!(change(Kind::ClusterRoleBinding, "b", None), "joe");
    assert_eq!(change(Kind::ClusterRole, "r", None), "", "nobody has it");
}

#[test]
fn what_is_no_object_grants_nothing() {
    let mut index = RbacIndex::default();
    let role = br#"{"rules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}"#;
    let binding = br#"{"roleRef":{"kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","name":"jane"}]}"#;
    index.put(Kind::ClusterRole, "", "r", role).expect("a role");
    index.put(Kind::ClusterRoleBinding, "", "b", binding).expect("a binding");
    let jane = user("jane", &[]);
    let allowed =
        |index: &RbacIndex| index.decide(&Attributes { user: &jane, verb: "get", target: Target::Path("/x") }).decision == Decision::Allow;
    assert!(allowed(&index));
    let mut broken = index.clone();
    broken.put(Kind::ClusterRoleBinding, "", "b", br#"{"subjects":7}"#).expect_err("subjects are a list");
    assert!(!allowed(&broken));
    let mut broken = index.clone();
    broken.put(Kind::ClusterRole, "", "r", b"{").expect_err("no JSON");
    assert!(!allowed(&broken));
    let mut elsewhere = RbacIndex::default();
    elsewhere.put(Kind::ClusterRole, "", "r", role).expect("a role");
    elsewhere.put(Kind::RoleBinding, "", "b", binding).expect("a binding of no namespace is left out");
    assert!(!allowed(&elsewhere));
    assert!(allowed(&index), "the other clones do not change it");
}

#[test]
fn aggregating_roles_get_the_rules_of_those_they_select() {
    let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
    let selected = |selectors: Value, rules: Value| json!({"rules": rules, "aggregationRule": {"clusterRoleSelectors": selectors}});
    let labelled = |labels: Value, rules: &[Value]| json!({"metadata": {"labels": labels}, "rules": rules});
    let mut index = RbacIndex::default();
    let put = |index: &mut RbacIndex, name: &str, role: Value| {
        index.put(Kind::ClusterRole, "", name, role.to_string().as_bytes()).expect("a role");
    };
    put(&mut index, "c", labelled(json!({"to": "x", "tier": "1"}), &[rule("get"), rule("list")]));
    put(&mut index, "b", labelled(json!({"to": "x"}), &[rule("watch"), rule("get")]));
    put(&mut index, "d", labelled(json!({"to": "y"}), &[rule("delete")]));
    put(&mut index, "both", selected(json!([{"matchLabels": {"to": "y"}}, {"matchLabels": {"to": "x"}}]), json!(null)));
    let expressions = json!([{"matchExpressions": [
        {"key": "to", "operator": "In", "values": ["x", "y"]}, {"key": "tier", "operator": "DoesNotExist"}, {"key": "to", "operator": "NotIn", "values": ["y"]}, {"key": "to", "operator": "Exists"}]}]);
    put(&mut index, "expressed", selected(expressions, json!([rule("get")])));
    put(&mut index, "wrong", selected(json!([{}, {"matchExpressions": [{"key": "to", "operator": "in", "values": ["x"]}]}]), json!([])));
    put(&mut index, "none", selected(json!([{"matchLabels": {"to": "z"}}]), json!([rule("get")])));
    put(&mut index, "right", selected(json!([{"matchLabels": {"to": "y"}}]), json!([rule("delete")])));
    let verbs = |index: &RbacIndex| -> Vec<(String, String)> {
        let verbs = |role: &Aggregated| role.rules.iter().map(|rule| &*rule.verbs[0]).collect::<Vec<_>>().join(" ");
        index.aggregated().iter().map(|role| (role.name.to_string(), verbs(role))).collect()
    };
    let expected = [("both", "delete watch get list"), ("expressed", "watch get"), ("none", "")];
    assert_eq!(verbs(&index), expected.map(|(name, verbs)| (name.to_owned(), verbs.to_owned())));
    for role in index.clone().aggregated() {
        let mut object = serde_json::to_value(&role.rules).map(|rules| json!({"rules": rules})).expect("JSON");
        object["aggregationRule"] = match &*role.name {
            "both" => json!({"clusterRoleSelectors": [{"matchLabels": {"to": "y"}}, {"matchLabels": {"to": "x"}}]}),
            _ => continue,
        };
        put(&mut index, &role.name, object);
    }
    assert!(verbs(&index).iter().all(|(name, _)| name != "both"), "nothing is left to do for it");
}

/// What does not grow with all bindings: a decision and an update. Prints what they cost (`cargo test --release` for figures).
#[test]
fn ten_thousand_bindings() {
    const TIMES: u32 = 1_000;
    let mut index = crate::authz::golden::bootstrap();
    let binding = |subjects: &[(&str, String)]| {
        let subjects: Vec<Value> = subjects.iter().map(|(kind, name)| json!({"kind": kind, "name": name})).collect();
        json!({"roleRef": {"kind": "ClusterRole", "name": "system:aggregate-to-view"}, "subjects": subjects}).to_string()
    };
    for i in 0..10_000 {
        let object = binding(&[("User", format!("user-{i}")), ("Group", format!("team-{}", i % 100))]);
        let (kind, namespace) = if i % 2 == 0 { (Kind::ClusterRoleBinding, "") } else { (Kind::RoleBinding, "default") };
        index.put(kind, namespace, &format!("b-{i}"), object.as_bytes()).expect("a binding");
    }
    let resource = Resource { namespace: "default", group: "", version: "v1", resource: "pods", ..Resource::default() };
    let mut told = String::new();
    let mut time = |what: &str, run: &mut dyn FnMut(u32)| {
        let began = std::time::Instant::now();
        (0..TIMES).for_each(run);
        told.push_str(&format!("{what}: {} ns\n", began.elapsed().as_nanos() / u128::from(TIMES)));
    };
    for (what, name, group, verb, decision) in [
        ("allowed by a user's binding", "user-77", "system:authenticated", "get", Decision::Allow),
        ("allowed by one of 100 bindings of a group", "jane", "team-3", "get", Decision::Allow),
        ("not allowed by 101 bindings", "user-77", "team-77", "delete", Decision::NoOpinion),
        ("not allowed, no binding", "jane", "system:authenticated", "get", Decision::NoOpinion),
    ] {
        let user = user(name, &[group]);
        let asked = Attributes { user: &user, verb, target: Target::Resource(resource) };
        assert_eq!(index.decide(&asked).decision, decision, "{what}");
        time(what, &mut |_| drop(std::hint::black_box(index.decide(&asked))));
    }
    time("put, while the index before it is held", &mut |i| {
        let before = index.clone();
        let object = binding(&[("Group", "team-3".to_owned())]);
        index.put(Kind::ClusterRoleBinding, "", &format!("new-{i}"), object.as_bytes()).expect("a binding");
        drop(before);
    });
    std::io::Write::write_all(&mut std::io::stdout(), told.as_bytes()).expect("stdout");
}
