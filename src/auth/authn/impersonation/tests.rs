//! Tests of impersonation: requests and RBAC rules with the recorded answers of a kube-apiserver.

use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::authn::recorded;
use crate::user::AUTHENTICATED;

const ROBOT: &str = "system:serviceaccount:default:robot";
const OURS: &str = "authentication.k8s.io";

struct Rule {
    user: &'static str,
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    names: &'static [&'static str],
}

const fn rule(
    user: &'static str,
    group: &'static str,
    resources: &'static [&'static str],
    verbs: &'static [&'static str],
    names: &'static [&'static str],
) -> Rule {
    Rule { user, group, resources, verbs, names }
}

/// The rules that the recorded server had.
const RULES: &[Rule] = &[
    rule("old", "", &["users", "groups", "serviceaccounts"], &["impersonate"], &[]),
    rule("old", OURS, &["uids", "userextras/scopes"], &["impersonate"], &[]),
    rule("new", OURS, &["users", "groups", "uids", "userextras/example.org/scopes"], &["impersonate:user-info"], &[]),
    rule("new", OURS, &["serviceaccounts"], &["impersonate:serviceaccount"], &[]),
    rule("new", OURS, &["nodes"], &["impersonate:arbitrary-node"], &[]),
    rule("new", OURS, &["selfsubjectreviews"], &["impersonate-on:user-info:create", "impersonate-on:serviceaccount:create"], &[]),
    rule("new", OURS, &["selfsubjectreviews"], &["impersonate-on:arbitrary-node:create"], &[]),
    rule("half", OURS, &["users"], &["impersonate:user-info"], &[]),
    rule("few", OURS, &["users"], &["impersonate:user-info"], &["bob"]),
    rule("few", OURS, &["groups"], &["impersonate:user-info"], &["devs"]),
    rule("few", OURS, &["selfsubjectreviews"], &["impersonate-on:user-info:create"], &[]),
    rule(ROBOT, OURS, &["nodes"], &["impersonate:associated-node"], &[]),
    rule(ROBOT, OURS, &["selfsubjectreviews"], &["impersonate-on:associated-node:create"], &[]),
];

fn user(name: &str) -> User {
    User { name: name.to_owned(), ..User::default() }.authenticated()
}

/// Verb, group, resource with its subresource, namespace and name of a question about the creation of a SelfSubjectReview.
fn parts(question: &Question) -> [String; 5] {
    match question {
        Question::Request { verb } => [verb.as_str(), OURS, "selfsubjectreviews", "", ""].map(str::to_owned),
        Question::Resource { verb, group, resource, subresource, namespace, name } => {
            let whole = if subresource.is_empty() { (*resource).to_owned() } else { format!("{resource}/{subresource}") };
            [(*verb).to_owned(), (*group).to_owned(), whole, namespace.clone(), name.clone()]
        }
    }
}

fn rbac(user: &User, question: &Question) -> Result<(), String> {
    let [verb, group, resource, _, name] = parts(question);
    let has = |list: &[&str], one: &str| list.contains(&one);
    let allows = |rule: &Rule| {
        let is_named = rule.names.is_empty() || has(rule.names, &name);
        rule.user == user.name && rule.group == group && has(rule.resources, &resource) && has(rule.verbs, &verb) && is_named
    };
    if user.name == "admin" || RULES.iter().any(allows) { Ok(()) } else { Err(String::new()) }
}

/// The message of the 403.
fn message(requestor: &str, forbidden: &Forbidden) -> String {
    let [verb, group, resource, namespace, name] = parts(&forbidden.question);
    let plural = resource.split('/').next().unwrap_or_default();
    let of = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    let name = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
    let place = if namespace.is_empty() { "at the cluster scope".to_owned() } else { format!("in the namespace \"{namespace}\"") };
    let reason = if forbidden.reason.is_empty() { String::new() } else { format!(": {}", forbidden.reason) };
    format!("{of}{name} is forbidden: User \"{requestor}\" cannot {verb} resource \"{resource}\" in API group \"{group}\" {place}{reason}")
}

/// What a recorded SelfSubjectReview tells.
fn told(answer: &Value) -> User {
    let info = &answer["status"]["userInfo"];
    let texts = |list: &Value| list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let extra = info["extra"].as_object().into_iter().flatten().map(|(key, values)| (key.clone(), texts(values)));
    let own = |member: &str| info[member].as_str().unwrap_or_default().to_owned();
    User { name: own("username"), uid: own("uid"), groups: texts(&info["groups"]), extra: extra.collect() }
}

fn requestor(case: &Value) -> User {
    match case["token"].as_str() {
        None => User { name: "system:anonymous".to_owned(), ..User::default() },
        Some(token) if token.starts_with("ey") => User { extra: vec![(node_key(), vec!["worker".to_owned()])], ..user(ROBOT) },
        Some(token) => user(token),
    }
}

fn node_key() -> String {
    "authentication.kubernetes.io/node-name".to_owned()
}

#[test]
fn who_may_be_whom_is_as_in_kube_apiserver() {
    let impersonation = Impersonation::default();
    let mut seen = (0, 0, 0);
    for case in recorded::all()["who"].as_array().expect("cases") {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let name = text(&case["name"]);
        let answer: Value = serde_json::from_str(&text(&case["answer"])).expect("JSON");
        let mut headers: HeaderMap = case["headers"]
            .as_array()
            .expect("headers")
            .iter()
            .map(|header| {
                (HeaderName::try_from(text(&header[0])).expect("a name"), HeaderValue::try_from(text(&header[1])).expect("a value"))
            })
            .collect();
        if !impersonates(&headers) || case["certificate"].is_string() {
            continue;
        }
        let requestor = requestor(case);
        let wanted = match Impersonation::wanted(&mut headers) {
            Err(text) => {
                assert_eq!((&case["code"], &answer["message"]), (&400.into(), &text.into()), "{name}");
                seen.0 += 1;
                continue;
            }
            Ok(None) => {
                assert_eq!(told(&answer).name, requestor.name, "{name}");
                continue;
            }
            Ok(Some(wanted)) => wanted,
        };
        assert!(!impersonates(&headers), "{name}");
        match impersonation.decide(&wanted, &requestor, "create", &mut rbac) {
            Err(forbidden) => {
                assert_eq!((&case["code"], &answer["message"]), (&403.into(), &message(&requestor.name, &forbidden).into()), "{name}");
                seen.1 += 1;
            }
            Ok(Impersonated { user, .. }) if user.groups.iter().any(|group| group == AUTHENTICATED) => {
                assert_eq!(user, told(&answer), "{name}: {answer}");
                seen.2 += 1;
            }
            // Who is not authenticated may not ask who it is.
            Ok(Impersonated { user, .. }) => {
                let told = text(&answer["message"]);
                assert!(told.contains(&format!("User \"{}\" cannot create resource", user.name)), "{name}: {told}");
            }
        }
    }
    assert!(seen.0 > 5 && seen.1 > 40 && seen.2 > 40, "{seen:?}");
}

#[test]
fn an_account_impersonates_its_own_node_by_what_all_nodes_share() {
    let facts = [("authentication.kubernetes.io/pod-name".to_owned(), vec!["p".to_owned()]), (node_key(), vec!["worker".to_owned()])];
    let requestor = User { extra: facts.to_vec(), ..user(ROBOT) };
    let wanted = User { name: "system:node:worker".to_owned(), ..User::default() };
    let mut asked = Vec::new();
    let mut ask = |user: &User, question: &Question| {
        let [_, _, _, _, name] = parts(question);
        asked.push((user.extra.clone(), name));
        Ok(())
    };
    let done = Impersonation::default().decide(&wanted, &requestor, "list", &mut ask).expect("allowed");
    assert_eq!((done.mode, done.user.groups.join(" ").as_str()), (Mode::AssociatedNode, "system:nodes system:authenticated"));
    let keys = vec![node_key(), "authentication.kubernetes.io/pod-name".to_owned()];
    let told = vec![("authentication.kubernetes.io/associated-node-keys".to_owned(), keys)];
    assert_eq!(asked, [(told.clone(), String::new()), (told, "*".to_owned())]);
}

#[test]
fn odd_facts_are_not_taken_in_constrained_modes() {
    let reason = |key: &str, values: &[&str]| {
        let extra = vec![(key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect())];
        let wanted = User { name: "bob".to_owned(), extra, ..User::default() };
        let mut ask = |_: &User, question: &Question| match question {
            Question::Resource { verb: "impersonate", .. } => Err("old".to_owned()),
            _ => Ok(()),
        };
        let done = Impersonation::default().decide(&wanted, &user("jane"), "get", &mut ask);
        done.map(|done| done.mode).map_err(|forbidden| forbidden.reason)
    };
    assert_eq!(reason("a.b/c", &["x"]), Ok(Mode::UserInfo));
    assert_eq!(reason("", &["x"]), Err("impersonating the empty string key in extra is not allowed".to_owned()));
    assert_eq!(reason("a/B", &["x"]), Err("impersonating a non-lowercase key in extra is not allowed: \"a/B\"".to_owned()));
    assert_eq!(reason("a/b", &[]), Err("impersonating empty values in extra is not allowed".to_owned()));
    assert!(reason("A/ ", &["x"]).is_err_and(|why| why.contains("not allowed: [extra.key: Invalid value: \"A\"")));
}

proptest! {
    #[test]
    fn never_panics(
        names in prop::collection::vec("impersonate-(user|group|uid|extra-[a-z%0-9]{0,6})", 0..5),
        value in prop::collection::vec(0x20..=0xff_u8, 0..9),
    ) {
        let mut headers = HeaderMap::new();
        for name in names {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(&value)) {
                headers.append(name, value);
            }
        }
        if let Ok(Some(wanted)) = Impersonation::wanted(&mut headers) {
            prop_assert!(!impersonates(&headers));
            let mut no = |_: &User, _: &Question| Err(String::new());
            prop_assert!(Impersonation::default().decide(&wanted, &user("jane"), "get", &mut no).is_err());
        }
    }
}
