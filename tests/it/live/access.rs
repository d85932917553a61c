//! Access reviews on ours and on kube-apiserver, about random users, roles and bindings that both know: the answers are the same.
//!
//! `WATCHCACHE_TEST_REVIEWS` says how many reviews (400), and as many of a user's rules; `WATCHCACHE_TEST_SEED` repeats a run.

use std::{collections::BTreeSet, env, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};

use super::{Outcome, floor::stand, say};
use crate::{alone::asked, client::Client};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];
const USERS: [&str; 4] = ["u0", "u1", "u2", "u3"];
const GROUPS: [&str; 3] = ["g0", "g1", "g2"];
const ACCOUNTS: [&str; 2] = ["a0", "a1"];
const VERBS: [&str; 5] = ["get", "list", "create", "delete", "*"];
const API_GROUPS: [&str; 3] = ["", "apps", "*"];
const RESOURCES: [&str; 7] = ["pods", "pods/log", "deployments", "deployments/scale", "*/status", "*", "secrets"];
const PATHS: [&str; 5] = ["/a", "/a/*", "/metrics", "*", "/healthz"];
/// Roles and bindings of each of the four kinds.
const OBJECTS_EACH: usize = 25;
/// Names that bindings refer to beyond those of roles: they dangle.
const DANGLING: usize = 3;

fn some(rng: &mut StdRng, from: &[&str]) -> Vec<String> {
    let count = rng.random_range(1..=2);
    (0..count).map(|_| (*from.choose(rng).expect("not empty")).to_owned()).collect()
}

fn rules(rng: &mut StdRng, is_cluster: bool) -> Value {
    let rule = |rng: &mut StdRng| {
        if is_cluster && rng.random_bool(0.2) {
            return json!({"verbs": some(rng, &VERBS), "nonResourceURLs": some(rng, &PATHS)});
        }
        let mut rule = json!({"verbs": some(rng, &VERBS), "apiGroups": some(rng, &API_GROUPS), "resources": some(rng, &RESOURCES)});
        if rng.random_bool(0.3) {
            rule["resourceNames"] = json!(some(rng, &["n0", "n1"]));
        }
        rule
    };
    (0..rng.random_range(0..=3)).map(|_| rule(rng)).collect()
}

fn subjects(rng: &mut StdRng) -> Value {
    let group = "rbac.authorization.k8s.io";
    let subject = |rng: &mut StdRng| match rng.random_range(0..3) {
        0 => json!({"kind": "User", "name": USERS.choose(rng), "apiGroup": group}),
        1 => json!({"kind": "Group", "name": GROUPS.choose(rng), "apiGroup": group}),
        _ => json!({"kind": "ServiceAccount", "name": ACCOUNTS.choose(rng), "namespace": NAMESPACES.choose(rng)}),
    };
    (0..rng.random_range(1..=3)).map(|_| subject(rng)).collect()
}

/// Makes roles and bindings; the name of the last object is known by its own resource.
async fn make(client: &Client, rng: &mut StdRng, run: &str) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let name = |kind: &str, at: usize| format!("{run}-{kind}{at}");
    for at in 0..OBJECTS_EACH {
        let namespace = NAMESPACES.choose(rng).expect("not empty");
        let role =
            json!({"metadata": {"name": name("c", at), "labels": {"run": run, "part": format!("p{}", at % 3)}}, "rules": rules(rng, true)});
        asked(client, ("POST", &format!("{RBAC}/clusterroles")), Some(&role), 201).await?;
        for namespace in NAMESPACES {
            let role = json!({"metadata": {"name": name("r", at)}, "rules": rules(rng, false)});
            asked(client, ("POST", &format!("{RBAC}/namespaces/{namespace}/roles")), Some(&role), 201).await?;
        }
        let mut reference = |kinds: &[&str]| {
            let kind = *kinds.choose(rng).expect("not empty");
            let letter = if kind == "Role" { "r" } else { "c" };
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name(letter, rng.random_range(0..OBJECTS_EACH + DANGLING))})
        };
        let (of_cluster, of_namespace) = (reference(&["ClusterRole"]), reference(&["ClusterRole", "Role"]));
        let binding = json!({"metadata": {"name": name("b", at)}, "roleRef": of_cluster, "subjects": subjects(rng)});
        asked(client, ("POST", &format!("{RBAC}/clusterrolebindings")), Some(&binding), 201).await?;
        let binding = json!({"metadata": {"name": name("b", at)}, "roleRef": of_namespace, "subjects": subjects(rng)});
        asked(client, ("POST", &format!("{RBAC}/namespaces/{namespace}/rolebindings")), Some(&binding), 201).await?;
    }
    Ok(())
}

fn review(rng: &mut StdRng) -> Value {
    let namespace = *NAMESPACES.choose(rng).expect("not empty");
    let (user, groups) = match rng.random_range(0..3) {
        0 => (format!("system:serviceaccount:{namespace}:{}", ACCOUNTS.choose(rng).expect("not empty")), Vec::new()),
        1 => ((*USERS.choose(rng).expect("not empty")).to_owned(), some(rng, &GROUPS)),
        _ => ((*USERS.choose(rng).expect("not empty")).to_owned(), Vec::new()),
    };
    let mut spec = json!({"user": user, "groups": groups});
    let verb = *VERBS.choose(rng).expect("not empty");
    if rng.random_bool(0.15) {
        spec["nonResourceAttributes"] = json!({"verb": verb, "path": (["/a", "/a/b", "/metrics", "/", "/healthz"]).choose(rng)});
        return json!({"spec": spec});
    }
    let whole = *RESOURCES.choose(rng).expect("not empty");
    let (resource, subresource) = whole.split_once('/').unwrap_or((whole, ""));
    spec["resourceAttributes"] = json!({
        "verb": verb, "group": API_GROUPS.choose(rng), "resource": resource, "subresource": subresource,
        "namespace": if rng.random_bool(0.7) { namespace } else { "" }, "name": (["", "n0", "n1", "n2"]).choose(rng),
    });
    if rng.random_bool(0.1) {
        let raw = *["spec.nodeName=x", "a==b=,,", "metadata.name=n0"].choose(rng).expect("not empty");
        spec["resourceAttributes"]["fieldSelector"] = json!({"rawSelector": raw});
    }
    json!({"spec": spec})
}

/// Somebody who asks for his rules.
fn impersonated(rng: &mut StdRng) -> Vec<(String, String)> {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut headers = match rng.random_range(0..4) {
        0 => {
            let (namespace, account) = (NAMESPACES.choose(rng).expect("not empty"), ACCOUNTS.choose(rng).expect("not empty"));
            vec![header("Impersonate-User", &format!("system:serviceaccount:{namespace}:{account}"))]
        }
        1 => vec![header("Impersonate-User", "system:node:n0"), header("Impersonate-Group", "system:nodes")],
        _ => vec![header("Impersonate-User", USERS.choose(rng).expect("not empty"))],
    };
    if rng.random_bool(0.5) {
        headers.extend(some(rng, &GROUPS).iter().map(|group| header("Impersonate-Group", group)));
    }
    headers.push(header("Content-Type", "application/json"));
    headers
}

/// A user's rules: kube-apiserver tells them in the order of its maps, which is a new one each time, and so the errors of roles that are not there.
fn rules_of(status: &Value) -> (Vec<String>, Vec<String>, Value, BTreeSet<String>) {
    let all = |member: &str| {
        let mut rules: Vec<String> = status[member].as_array().into_iter().flatten().map(Value::to_string).collect();
        rules.sort();
        rules
    };
    let errors = status["evaluationError"].as_str().unwrap_or_default().trim_matches(['[', ']']);
    (all("resourceRules"), all("nonResourceRules"), status["incomplete"].clone(), errors.split(", ").map(str::to_owned).collect())
}

/// Asks both for the rules of the same users; those that differ.
async fn rules_reviewed(clients: [&Client; 2], rng: &mut StdRng, count: u64) -> Result<(Vec<String>, usize), Box<dyn std::error::Error>> {
    let (mut wrong, mut told) = (Vec::new(), 0);
    for _ in 0..count {
        let (headers, namespace) = (impersonated(rng), *NAMESPACES.choose(rng).expect("not empty"));
        let body = json!({"spec": {"namespace": namespace}}).to_string();
        let mut statuses = Vec::new();
        for client in clients {
            let target = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
            let answer = client.whole("POST", target, &headers, body.as_bytes()).await?;
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            if answer.status != 201 {
                return Err(format!("{headers:?}: {} {text}", answer.status).into());
            }
            statuses.push(serde_json::from_str::<Value>(&text)?["status"].take());
        }
        told += statuses[0]["resourceRules"].as_array().map_or(0, Vec::len);
        if rules_of(&statuses[0]) != rules_of(&statuses[1]) {
            wrong.push(format!("{headers:?} in {namespace}: theirs {}, ours {}", statuses[0], statuses[1]));
        }
    }
    Ok((wrong, told))
}

/// What both must say: where several bindings allow it, the one that is told is the first of a map, so only that one is told counts; errors have no order.
fn comparable(status: &Value) -> Value {
    let mut status = status.clone();
    let reason = status["reason"].as_str().unwrap_or_default().to_owned();
    status["reason"] = if reason.starts_with("RBAC: allowed by ") {
        json!("RBAC: allowed")
    } else {
        json!(reason.trim_start_matches("RBAC: ").trim_matches(['[', ']']).split(", ").collect::<BTreeSet<_>>())
    };
    status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd and kube-apiserver: WATCHCACHE_TEST_PEERS"]
async fn reviews_are_answered_alike() -> Outcome {
    let floor = stand().await?;
    let plainly = |error: Box<dyn std::error::Error + Send + Sync>| error.to_string();
    let (ours, theirs) = (floor.ours(), floor.theirs());
    let number = |name: &str, default: u64| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (count, seed) = (number("WATCHCACHE_TEST_REVIEWS", 400), number("WATCHCACHE_TEST_SEED", rand::random()));
    let mut rng = StdRng::seed_from_u64(seed);
    make(&theirs, &mut rng, &format!("t{seed}")).await.map_err(plainly)?;
    // Both follow etcd: a moment after the last write they know it.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let target = ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews");
    let (mut wrong, mut allowed) = (Vec::new(), 0);
    for _ in 0..count {
        let review = review(&mut rng);
        let (left, right) = tokio::join!(asked(&theirs, target, Some(&review), 201), asked(&ours, target, Some(&review), 201));
        let (left, right) = (left.map_err(plainly)?, right.map_err(plainly)?);
        allowed += usize::from(left["status"]["allowed"] == true);
        if comparable(&left["status"]) != comparable(&right["status"]) {
            wrong.push(format!("{}: theirs {}, ours {}", review["spec"], left["status"], right["status"]));
        }
    }
    say(&format!("live access: seed {seed}, {count} reviews, {allowed} allowed, {} differ", wrong.len()));
    assert!(allowed > 0 && (allowed as u64) < count, "a run in which all are answered alike shows nothing");
    // With the same authorizers: that of nodes cannot tell rules, and says so.
    let (_secured, address) = floor.secured("rules").await?;
    let (differ, rules) = rules_reviewed([&theirs, &floor.site.client(address)], &mut rng, count).await?;
    say(&format!("live access: seed {seed}, {count} users asked for their rules, {rules} rules, {} differ", differ.len()));
    assert!(rules as u64 > count, "{rules} rules show nothing");
    wrong.extend(differ);
    if wrong.is_empty() { Ok(()) } else { Err(wrong[..wrong.len().min(10)].join("\n").into()) }
}
