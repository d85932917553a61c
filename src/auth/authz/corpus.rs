//! The corpus of authorization: configurations of authorizers, and what webhooks answer. Whatever comes, nobody is allowed by mistake.

use std::time::Duration;

use corpus::Subject;
use serde_json::Value;

use super::config::{AuthorizationConfiguration, Configured};
use super::webhook::{REASON_BYTES_MAX, Settings, Version, Webhook};
use super::{Attributes, Decision, Target};
use crate::user::User;
use go::yaml::reader;

fn configuration(input: &[u8]) -> bool {
    let Ok(document) = reader::parse(input) else { return false };
    let Ok(configuration) = AuthorizationConfiguration::from_tree(&document.value) else { return false };
    let Ok(authorizers) = configuration.authorizers() else { return false };
    assert!(!authorizers.is_empty(), "somebody decides");
    for (at, one) in authorizers.iter().enumerate() {
        match one {
            Configured::Memory(kind) => assert!(["AlwaysAllow", "AlwaysDeny", "Node", "RBAC"].contains(&&**kind), "{kind}"),
            Configured::Webhook { kubeconfig, timeout, .. } => {
                assert!(kubeconfig.starts_with('/') && !timeout.is_zero() && *timeout <= Duration::from_secs(30));
            }
        }
        assert!(!authorizers[..at].contains(one), "each once");
    }
    true
}

fn answer(input: &[u8]) -> bool {
    let (allowed_ttl, refused_ttl) = (Some(Duration::from_secs(9)), None);
    let settings =
        Settings { name: "w".to_owned(), version: Version::V1, allowed_ttl, refused_ttl, denies_on_error: false, is_host: false };
    let (webhook, user) = (Webhook::new(settings), User::default());
    let question = webhook.question(&Attributes { user: &user, verb: "get", target: Target::Path("/x") });
    let Ok(verdict) = webhook.answered(&question, input, Duration::ZERO) else {
        assert!(webhook.known(&question, Duration::ZERO).is_none(), "what is no answer is not kept");
        return false;
    };
    let tree: Value = serde_json::from_slice(input).expect("it was read");
    let is_allowed = tree["status"]["allowed"] == true && tree["status"]["denied"] != true;
    assert_eq!(verdict.decision == Decision::Allow, is_allowed);
    let kept = webhook.known(&question, Duration::ZERO).map(|kept| kept.decision);
    let is_short = tree["status"]["reason"].as_str().is_none_or(|reason| reason.len() < REASON_BYTES_MAX);
    assert_eq!(kept, (tree["status"]["allowed"] == true && is_short).then_some(verdict.decision));
    true
}

#[test]
fn configurations() {
    let words = &["authorizers:", "- type: ", "RBAC", "Webhook", "webhook:", "timeout: 3s", "name: ", "\n  ", "null", "&a", "*a"];
    let long = &[["authorizers: ", "[", ""], ["kind: AuthorizationConfiguration\nauthorizers:\n", "- {type: RBAC}\n", ""]];
    Subject { name: "authorizers", law: configuration, words, long }.check();
}

#[test]
fn answers() {
    let words = &["\"status\":", "\"allowed\":true", "\"denied\":true", "\"reason\":", "null", "[]", "\"kind\":\"SubjectAccessReview\""];
    let long = &[["{\"status\":", "[", ""], ["{\"status\":{\"reason\":\"", "a", "\",\"allowed\":true}}"]];
    Subject { name: "webhook-answers", law: answer, words, long }.check();
}
