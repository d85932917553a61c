//! Policies as kube-apiserver 1.36.3 reads and applies them; the texts were recorded from it.

use serde_json::json;

use super::*;

fn refused(document: &Value) -> String {
    Policy::read(document).expect_err("a wrong policy")
}

fn policy(mut document: Value) -> Policy {
    document["kind"] = "Policy".into();
    document["apiVersion"] = VERSION.into();
    Policy::read(&document).expect("a policy").0
}

#[test]
fn wrong_policies_are_told_in_kube_apiservers_words() {
    let wrong = json!({"apiVersion": VERSION, "kind": "Policy", "omitStages": ["Foo"], "rules": [
        {"level": "Foo"},
        {},
        {"level": "None", "nonResourceURLs": ["x", "/a*b", "*"], "namespaces": ["a"]},
        {"level": "None", "resources": [{"group": "Apps/v1", "resourceNames": ["a"]}]},
    ]});
    assert_eq!(
        refused(&wrong),
        format!(
            r#"[omitStages[0]: Invalid value: "Foo": allowed stages are RequestReceived,ResponseStarted,ResponseComplete,Panic, rules[0].level: Unsupported value: "Foo": supported values: "None", "Metadata", "Request", "RequestResponse", rules[1].level: Required value, rules[2].nonResourceURLs[0]: Invalid value: "x": non-resource URL rules must begin with a '/' character, rules[2].nonResourceURLs[1]: Invalid value: "/a*b": non-resource URL wildcards '*' must be the final character of the rule, rules[2].nonResourceURLs: Invalid value: ["x","/a*b","*"]: rules cannot apply to both regular resources and non-resource URLs, rules[3].resources.group: Invalid value: "Apps/v1": {}, rules[3].resources.resourceNames: Invalid value: ["a"]: using resourceNames requires at least one resource]"#,
            legal::SUBDOMAIN
        )
    );
    let no_kind = |kind: &str, version: &str| {
        format!(r#"failed decoding: no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111""#)
    };
    let of = |kind: &str, version: &str| refused(&json!({"apiVersion": version, "kind": kind, "rules": [{"level": "None"}]}));
    assert_eq!(of("Policy", "audit.k8s.io/v1beta1"), no_kind("Policy", "audit.k8s.io/v1beta1"));
    assert_eq!(of("Polcy", VERSION), no_kind("Polcy", VERSION));
    let nameless = "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy";
    assert_eq!((of("", ""), refused(&Value::Null)), (nameless.to_owned(), nameless.to_owned()));
    let rules = |rules: Value| refused(&json!({"apiVersion": VERSION, "kind": "Policy", "rules": rules}));
    assert_eq!(rules(json!([])), "loaded illegal policy with 0 rules");
    let field = "failed decoding: json: cannot unmarshal";
    assert_eq!(rules(json!([{"level": 3}])), format!("{field} number into Go struct field PolicyRule.rules.level of type v1.Level"));
    let users = format!("{field} string into Go struct field PolicyRule.rules.users of type []string");
    assert_eq!(rules(json!([{"level": "None", "users": "a"}])), users);
}

#[test]
fn unknown_fields_are_only_told() {
    let document =
        json!({"apiVersion": VERSION, "kind": "Policy", "foo": 1, "rules": [{"level": "None", "user": ["a"], "resources": [{"x": 1}]}]});
    let (_, unknown) = Policy::read(&document).expect("a policy");
    assert_eq!(unknown, ["foo", "rules[0].resources[0].x", "rules[0].user"]);
}

fn user() -> User {
    User { name: "tim".to_owned(), groups: vec!["humans".to_owned(), "developers".to_owned()], ..User::default() }
}

/// `group/resource/subresource/namespace/name`, each of them perhaps empty.
fn resource(verb: &str, of: &str) -> RequestInfo {
    let part = |at: usize| of.split('/').nth(at).unwrap_or_default().to_owned();
    RequestInfo {
        verb: verb.to_owned(),
        is_resource: true,
        group: part(0),
        resource: part(1),
        subresource: part(2),
        namespace: part(3),
        name: part(4),
        ..RequestInfo::default()
    }
}

fn path(path: &str) -> RequestInfo {
    RequestInfo { verb: "get".to_owned(), path: path.into(), ..RequestInfo::default() }
}

#[test]
fn the_first_rule_that_fits_decides() {
    let pod = resource("get", "/pods//default/busybox");
    let log = resource("get", "/pods/log/default/busybox");
    let role = resource("update", "rbac/clusterroles/status//edit");
    for (rule, info, fits) in [
        (json!({}), &pod, true),
        (json!({"users": ["tim"]}), &pod, true),
        (json!({"users": ["tom"]}), &pod, false),
        (json!({"userGroups": ["x", "humans"]}), &pod, true),
        (json!({"userGroups": ["x"]}), &pod, false),
        (json!({"verbs": ["create"]}), &pod, false),
        (json!({"verbs": ["create", "get"]}), &pod, true),
        (json!({"namespaces": ["default"]}), &pod, true),
        (json!({"namespaces": ["other"]}), &pod, false),
        (json!({"namespaces": [""]}), &pod, false),
        (json!({"namespaces": [""]}), &role, true),
        (json!({"namespaces": [""]}), &path("/logs"), false),
        (json!({"resources": [{}]}), &pod, true),
        (json!({"resources": [{"group": "apps"}]}), &pod, false),
        (json!({"resources": [{"group": "*"}]}), &role, true),
        (json!({"resources": [{"resources": ["pods"]}]}), &pod, true),
        (json!({"resources": [{"resources": ["pods"]}]}), &log, false),
        (json!({"resources": [{"resources": ["pods/log"]}]}), &log, true),
        (json!({"resources": [{"resources": ["pods/log"]}]}), &pod, false),
        (json!({"resources": [{"resources": ["*"]}]}), &log, true),
        (json!({"resources": [{"resources": ["*/log"]}]}), &log, true),
        (json!({"resources": [{"resources": ["*/log"]}]}), &pod, false),
        (json!({"resources": [{"resources": ["pods/*"]}]}), &log, true),
        (json!({"resources": [{"resources": ["pods/*"]}]}), &pod, true),
        (json!({"resources": [{"resources": ["nodes/*"]}]}), &log, false),
        (json!({"resources": [{"group": "rbac", "resources": ["*/status"], "resourceNames": ["edit"]}]}), &role, true),
        (json!({"resources": [{"group": "rbac", "resources": ["*/status"], "resourceNames": ["view"]}]}), &role, false),
        (json!({"resources": [{"group": "x"}, {"group": "rbac"}]}), &role, true),
        (json!({"nonResourceURLs": ["/logs*"]}), &path("/logs/kubelet.log"), true),
        (json!({"nonResourceURLs": ["/logs"]}), &path("/logs/kubelet.log"), false),
        (json!({"nonResourceURLs": ["/metrics"]}), &path("/metrics"), true),
        (json!({"nonResourceURLs": ["*"]}), &path("/"), true),
        (json!({"nonResourceURLs": ["*"]}), &pod, false),
    ] {
        let mut rule = rule;
        rule["level"] = "Request".into();
        let policy = policy(json!({"rules": [rule, {"level": "Metadata", "users": ["nobody"]}]}));
        let level = if fits { Level::Request } else { Level::None };
        assert_eq!(policy.rule(Some(&user()), info).level, level, "{rule} {info:?}");
    }
}

#[test]
fn who_is_not_known_fits_no_rule_about_users() {
    let info = path("/metrics");
    for rule in [json!({"level": "Request", "users": [""]}), json!({"level": "Request", "userGroups": ["humans"]})] {
        let policy = policy(json!({"rules": [rule, {"level": "Metadata"}]}));
        assert_eq!(policy.rule(None, &info).level, Level::Metadata);
    }
}

#[test]
fn what_is_omitted_is_joined_or_overruled() {
    let policy = policy(json!({
        "omitStages": ["RequestReceived"], "omitManagedFields": true,
        "rules": [
            {"level": "Request", "verbs": ["get"], "omitStages": ["Panic"], "omitManagedFields": false},
            {"level": "Request", "verbs": ["list"]},
        ],
    }));
    let of = |verb: &str| policy.rule(None, &resource(verb, "/pods"));
    let (get, list, other) = (of("get"), of("list"), of("watch"));
    assert_eq!((get.omit_stages, get.omit_managed_fields), (vec![Stage::RequestReceived, Stage::Panic], false));
    assert_eq!((list.omit_stages, list.omit_managed_fields), (vec![Stage::RequestReceived], true));
    assert_eq!(other.level, Level::None);
}
