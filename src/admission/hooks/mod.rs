//! Admission webhooks: what MutatingWebhookConfigurations and ValidatingWebhookConfigurations say, which writes a webhook is asked about, what it is asked,
//! and what is believed of its answer. Who asks, and what becomes of the object, is `storage/write/hooks`.

mod conditions;
mod notes;
mod review;

use std::{collections::HashMap, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use crate::{criteria::Criteria, tree};
use model::WebhookPlace;

pub use cel::{Authorizer, Decision, Question as RightsQuestion, ResourceCheck, Target as RightsTarget};
pub use conditions::{Conditional, Conditions, Match};
pub use review::{Answer, Denial, Question, ReviewVersion, UserInfo};

/// The time of a webhook that names none.
const TIMEOUT_DEFAULT: u64 = 10;
/// The port of a Service when a configuration names none.
const HTTPS: u16 = 443;

/// What a webhook may do with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookKind {
    /// Change it.
    Mutating,
    /// Judge it.
    Validating,
}

impl HookKind {
    /// Returns the resource of its configurations.
    #[must_use]
    pub const fn resource(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }

    /// Returns its name in metrics.
    #[must_use]
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Mutating => "admit",
            Self::Validating => "validating",
        }
    }
}

/// The group of configurations of webhooks, and of policies.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// Kinds about which no webhook is asked: who has stored a wrong one must be able to mend it.
const EXEMPT: [&str; 6] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
];

/// Returns whether no webhook is asked about objects of this kind.
#[must_use]
pub fn is_exempt(group: &str, kind: &str) -> bool {
    group == GROUP && EXEMPT.contains(&kind)
}

/// One webhook of a configuration.
#[derive(Debug)]
pub struct Hook {
    /// The name of its configuration.
    pub configuration: String,
    /// Its own name, which others may have too.
    pub name: String,
    /// What distinguishes it from others.
    pub id: String,
    /// Where it is.
    pub place: Option<WebhookPlace>,
    /// The authorities that its certificate is checked with, in PEM.
    pub bundle: Vec<u8>,
    /// Whether a failure to ask it lets the write go on.
    pub ignores_failure: bool,
    /// Whether it may be asked about a dry run: it has no side effects then.
    pub takes_dry_run: bool,
    /// How long it has for an answer.
    pub timeout: Duration,
    /// Whether it is asked again when another one has changed the object since.
    pub is_reinvoked: bool,
    /// The conditions under which it is asked.
    pub conditions: Conditions,
    /// The version in which it is asked; none when it reads none that is spoken here.
    pub review: Option<ReviewVersion>,
    /// The writes that it is asked about.
    pub criteria: Criteria,
}

impl Hook {
    /// Returns the webhooks of a configuration, in its order.
    #[must_use]
    pub fn all_of(configuration: &Value) -> Vec<Self> {
        let of = tree::text(configuration, &["metadata", "name"]);
        let mut names = HashMap::<&str, usize>::new();
        let hooks = configuration["webhooks"].as_array().into_iter().flatten();
        hooks
            .map(|hook| {
                let nth = names.entry(tree::text(hook, &["name"])).or_default();
                *nth += 1;
                Self::read(of, *nth - 1, hook)
            })
            .collect()
    }

    fn read(configuration: &str, nth: usize, hook: &Value) -> Self {
        let text = |name: &str| tree::text(hook, &[name]);
        let client = &hook["clientConfig"];
        let ignores_failure = text("failurePolicy") == "Ignore";
        Self {
            configuration: configuration.to_owned(),
            name: text("name").to_owned(),
            id: format!("{configuration}/{}/{nth}", text("name")),
            place: place(client),
            bundle: BASE64_STANDARD.decode(tree::text(client, &["caBundle"])).unwrap_or_default(),
            ignores_failure,
            takes_dry_run: matches!(text("sideEffects"), "None" | "NoneOnDryRun"),
            timeout: Duration::from_secs(hook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_DEFAULT)),
            is_reinvoked: text("reinvocationPolicy") == "IfNeeded",
            conditions: Conditions::compile(&hook["matchConditions"], ignores_failure),
            review: ReviewVersion::first_of(tree::texts(hook, &["admissionReviewVersions"])),
            criteria: Criteria::of_hook(hook),
        }
    }
}

fn place(client: &Value) -> Option<WebhookPlace> {
    if let Some(url) = client["url"].as_str() {
        return Some(WebhookPlace::Url(url.to_owned()));
    }
    let service = client["service"].as_object()?;
    let text = |name: &str| service.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let port = service.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok()).unwrap_or(HTTPS);
    Some(WebhookPlace::Service { namespace: text("namespace"), name: text("name"), path: text("path"), port })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Operation,
        criteria::{Asked, Resource},
    };

    fn hook(more: Value) -> Hook {
        let mut hook = json!({"name": "a.b.c", "clientConfig": {"url": "https://127.0.0.1/x"}, "admissionReviewVersions": ["v2", "v1"],
            "rules": [{"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}]});
        hook.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let configuration = json!({"metadata": {"name": "c"}, "webhooks": [hook]});
        Hook::all_of(&configuration).pop().expect("one")
    }

    const fn resource(version: &'static str) -> Resource<'static> {
        Resource { group: "apps", version, resource: "deployments" }
    }

    #[test]
    fn a_configuration_is_read() {
        let read = hook(json!({"failurePolicy": "Ignore", "timeoutSeconds": 3, "sideEffects": "None", "reinvocationPolicy": "IfNeeded"}));
        assert_eq!((read.id.as_str(), read.timeout, read.review), ("c/a.b.c/0", Duration::from_secs(3), Some(ReviewVersion::V1)));
        assert!(read.ignores_failure && read.takes_dry_run && read.is_reinvoked);
        let plain = hook(json!({"clientConfig": {"service": {"namespace": "n", "name": "s"}}, "admissionReviewVersions": ["v3"]}));
        assert!(!plain.ignores_failure && !plain.takes_dry_run && !plain.is_reinvoked);
        let service = WebhookPlace::Service { namespace: "n".to_owned(), name: "s".to_owned(), path: String::new(), port: HTTPS };
        assert_eq!((plain.place, plain.review, plain.timeout), (Some(service), None, Duration::from_secs(TIMEOUT_DEFAULT)));
    }

    #[test]
    fn names_that_stand_twice_are_told_apart() {
        let configuration = json!({"metadata": {"name": "c"}, "webhooks": [{"name": "x"}, {"name": "y"}, {"name": "x"}]});
        let ids: Vec<String> = Hook::all_of(&configuration).into_iter().map(|hook| hook.id).collect();
        assert_eq!(ids, ["c/x/0", "c/y/0", "c/x/1"]);
    }

    #[test]
    fn equivalent_resources_count_unless_only_exact_ones_do() {
        let asked = Asked { operation: Operation::Create, resource: resource("v1beta1"), subresource: "", namespace: "n", name: "" };
        let all = [resource("v1beta1"), resource("v1")];
        assert_eq!(hook(json!({})).criteria.matched(&asked, &all), Some(resource("v1")));
        assert_eq!(hook(json!({"matchPolicy": "Exact"})).criteria.matched(&asked, &all), None);
        assert_eq!(hook(json!({})).criteria.matched(&Asked { operation: Operation::Update, ..asked }, &all), None);
    }

    #[test]
    fn selectors_look_at_the_object_as_it_was_and_as_it_is() {
        let labelled = |text: &str| json!({"metadata": {"labels": {"l": text}}});
        let hook = hook(
            json!({"objectSelector": {"matchLabels": {"l": "yes"}}, "namespaceSelector": {"matchExpressions": [{"key": "k", "operator": "Like"}]}}),
        );
        assert_eq!(hook.criteria.selects_object(Some(&labelled("no")), Some(&labelled("yes"))), Ok(true));
        assert_eq!(hook.criteria.selects_object(Some(&labelled("no")), None), Ok(false));
        assert!(hook.criteria.selects_namespaces() && hook.criteria.selects_namespace(&json!({})).is_err());
    }

    #[test]
    fn configurations_themselves_are_exempt() {
        assert!(is_exempt(GROUP, "MutatingWebhookConfiguration") && !is_exempt("x.io", "MutatingWebhookConfiguration"));
    }
}
