//! Tests of the configuration: what is accepted, what is refused, and the error texts.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn tree() -> Value {
    json!({
        "kind": "AuthenticationConfiguration",
        "apiVersion": "apiserver.config.k8s.io/v1",
        "jwt": [{
            "issuer": {"url": "https://a.example", "audiences": ["us"]},
            "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        }],
    })
}

/// What is wrong after a change.
fn wrong(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut tree = tree();
    change(&mut tree);
    let configuration = AuthenticationConfiguration::from_tree(&tree).expect("it can be read");
    configuration.wrong(&["https://kubernetes.default.svc".to_owned()])
}

#[test]
fn a_good_one_is_read() {
    assert_eq!(wrong(|_| {}), Vec::<String>::new());
    let configuration = AuthenticationConfiguration::from_tree(&tree()).expect("it can be read");
    assert_eq!((configuration.jwt[0].issuer.audiences.join(" ").as_str(), configuration.anonymous()), ("us", None));
    let anonymous = |value: Value| {
        let mut tree = tree();
        tree["anonymous"] = value;
        AuthenticationConfiguration::from_tree(&tree).expect("it can be read").anonymous()
    };
    assert_eq!(anonymous(json!({"enabled": true})), Some(Anonymous::Yes));
    assert_eq!(anonymous(json!({"enabled": false})), Some(Anonymous::No));
    assert_eq!(anonymous(json!({"enabled": true, "conditions": [{"path": "/livez"}]})), Some(Anonymous::Paths(vec!["/livez".to_owned()])));
    assert_eq!(anonymous(Value::Null), None);
}

#[test]
fn what_is_no_configuration_is_refused() {
    let error = |change: fn(&mut Value)| {
        let mut tree = tree();
        change(&mut tree);
        AuthenticationConfiguration::from_tree(&tree).expect_err("refused").to_string()
    };
    assert!(error(|tree| tree["kind"] = "Pod".into()).starts_with("no kind \"Pod\" is registered"));
    assert!(error(|tree| tree["apiVersion"] = "apiserver.config.k8s.io/v1alpha1".into()).contains("\"apiserver.config.k8s.io/v1alpha1\""));
    let unknown = error(|tree| {
        tree["jwt"][0]["issuer"]["uri"] = "x".into();
        tree["other"] = 1.into();
    });
    assert_eq!(unknown, "strict decoding error: unknown field \"jwt[0].issuer.uri\", unknown field \"other\"");
    assert!(error(|tree| tree["jwt"] = "x".into()).contains("expected a sequence"));
}

#[test]
fn values_are_checked_in_kube_apiservers_words() {
    let issuer = |name: &'static str, value: Value| wrong(move |tree| tree["jwt"][0]["issuer"][name] = value);
    assert_eq!(issuer("url", "".into()), ["jwt[0].issuer.url: Required value"]);
    assert_eq!(issuer("url", "http://a".into()), ["jwt[0].issuer.url: Invalid value: \"http://a\": URL scheme must be https"]);
    assert_eq!(
        issuer("url", "https://u@a?b#c".into()),
        ["username or password", "query", "fragment"]
            .map(|part| format!("jwt[0].issuer.url: Invalid value: \"https://u@a?b#c\": URL must not contain a {part}"))
    );
    assert_eq!(
        issuer("url", "https://kubernetes.default.svc".into()),
        [
            "jwt[0].issuer.url: Invalid value: \"https://kubernetes.default.svc\": URL must not overlap with disallowed issuers: [https://kubernetes.default.svc]"
        ]
    );
    assert_eq!(
        issuer("discoveryURL", "https://a.example/".into()),
        ["jwt[0].issuer.discoveryURL: Invalid value: \"https://a.example/\": discoveryURL must be different from URL"]
    );
    assert_eq!(
        issuer("audiences", json!([])),
        ["jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required"]
    );
    assert_eq!(
        issuer("audiences", json!(["a", "", "a"])),
        [
            "jwt[0].issuer.audiences[1]: Required value",
            "jwt[0].issuer.audiences[2]: Duplicate value: \"a\"",
            "jwt[0].issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny for multiple audiences",
        ]
    );
    assert!(
        issuer("certificateAuthority", "x".into())[0].starts_with("jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": ")
    );
    assert_eq!(
        issuer("egressSelectorType", "x".into()),
        ["jwt[0].issuer.egressSelectorType: Invalid value: \"x\": egress selector must be either controlplane or cluster"]
    );
}

#[test]
fn mappings_and_rules_are_checked() {
    let jwt = |name: &'static str, value: Value| wrong(move |tree| tree["jwt"][0][name] = value);
    assert_eq!(
        jwt("claimMappings", json!({"username": {"claim": "sub"}})),
        [
            "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing"
        ]
    );
    assert_eq!(jwt("claimMappings", json!({})), ["jwt[0].claimMappings.username: Required value: claim or expression is required"]);
    let cel = json!({
        "username": {"expression": "claims.sub"},
        "uid": {"expression": "claims.uid"},
        "extra": [{"key": "a/b", "valueExpression": "'x'"}],
    });
    assert_eq!(
        jwt("claimMappings", cel),
        [("username.expression", "claims.sub"), ("uid.expression", "claims.uid"), ("extra[0].valueExpression", "'x'")]
            .map(|(path, value)| format!("jwt[0].claimMappings.{path}: Invalid value: \"{value}\": CEL expressions are not supported"))
    );
    assert_eq!(
        jwt("claimValidationRules", json!([{"claim": "a", "message": "m"}, {"claim": "a"}, {}, {"claim": "b", "expression": "c"}])),
        [
            "jwt[0].claimValidationRules[0].message: Invalid value: \"m\": may not be specified when claim is set",
            "jwt[0].claimValidationRules[1].claim: Duplicate value: \"a\"",
            "jwt[0].claimValidationRules[2]: Required value: claim or expression is required",
            "jwt[0].claimValidationRules[3]: Invalid value: \"b\": claim and expression can't both be set",
        ]
    );
    assert_eq!(
        jwt("userValidationRules", json!([{"expression": "true"}])),
        ["jwt[0].userValidationRules[0].expression: Invalid value: \"true\": CEL expressions are not supported"]
    );
    let twice = wrong(|tree| {
        let one = tree["jwt"][0].clone();
        tree["jwt"] = json!([one, one]);
    });
    assert_eq!(twice, ["jwt[1].issuer.url: Duplicate value: \"https://a.example\""]);
    assert_eq!(wrong(|tree| tree["jwt"] = json!(vec![json!({}); 65])), ["jwt: Too many: 65: must have at most 64 items"]);
    assert_eq!(
        wrong(|tree| tree["anonymous"] = json!({"enabled": false, "conditions": [{"path": "/a"}]})),
        ["anonymous.conditions: Invalid value: [{\"path\":\"/a\"}]: enabled should be set to true when conditions are defined"]
    );
}

#[test]
fn names_are_prefixed_by_the_issuer_unless_they_are_addresses() {
    let prefix = |claim: &str, prefix: &str| {
        let flags = Flags {
            issuer_url: "https://a".to_owned(),
            username_claim: claim.to_owned(),
            username_prefix: prefix.to_owned(),
            ..Flags::default()
        };
        flags.authenticator().claim_mappings.username.prefix
    };
    assert_eq!(prefix("sub", "").as_deref(), Some("https://a#"));
    assert_eq!(prefix("email", "").as_deref(), Some(""));
    assert_eq!(prefix("sub", "-").as_deref(), Some(""));
    assert_eq!(prefix("email", "x:").as_deref(), Some("x:"));
}

proptest! {
    #[test]
    fn never_panics(tree in corpus::any_json()) {
        let mut whole = super::tests::tree();
        whole["jwt"] = tree.clone();
        whole["anonymous"] = tree;
        if let Ok(configuration) = AuthenticationConfiguration::from_tree(&whole) {
            let _ = configuration.wrong(&[]);
        }
    }
}
