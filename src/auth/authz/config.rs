//! The file of `--authorization-config`. Reads no file: the caller passes the tree.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use go::duration;
use go::quote::quoted;
use serde::Deserialize;
use serde_json::Value;

use super::webhook::{Settings, Version};
use super::{aggregate, or_default};
use crate::names::wrong_subdomain;
use crate::strict::NoConfiguration;
use crate::strict::Shape::{self, Any, List, Object};

const KIND: &str = "AuthorizationConfiguration";
const VERSIONS: [&str; 3] = ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
/// kube-apiserver's types of authorizers; of `ABAC` there is none here.
const TYPES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
const TIMEOUT_MAX: Duration = Duration::from_secs(30);
/// What counts when the file does not say how long answers count.
const ALLOWED_TTL: Duration = Duration::from_secs(300);
const REFUSED_TTL: Duration = Duration::from_secs(30);

const SHAPE: Shape = Object(&[
    ("kind", Any),
    ("apiVersion", Any),
    (
        "authorizers",
        List(&Object(&[
            ("type", Any),
            ("name", Any),
            (
                "webhook",
                Object(&[
                    ("authorizedTTL", Any),
                    ("cacheAuthorizedRequests", Any),
                    ("unauthorizedTTL", Any),
                    ("cacheUnauthorizedRequests", Any),
                    ("timeout", Any),
                    ("subjectAccessReviewVersion", Any),
                    ("matchConditionSubjectAccessReviewVersion", Any),
                    ("failurePolicy", Any),
                    ("connectionInfo", Object(&[("type", Any), ("kubeConfigFile", Any)])),
                    ("matchConditions", List(&Object(&[("expression", Any)]))),
                ]),
            ),
        ])),
    ),
]);

/// `AuthorizationConfiguration` of `apiserver.config.k8s.io`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct AuthorizationConfiguration {
    #[serde(default, deserialize_with = "or_default")]
    authorizers: Vec<AuthorizerConfiguration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct AuthorizerConfiguration {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    webhook: Option<WebhookConfiguration>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WebhookConfiguration {
    #[serde(rename = "authorizedTTL")]
    authorized_ttl: String,
    cache_authorized_requests: Option<bool>,
    #[serde(rename = "unauthorizedTTL")]
    unauthorized_ttl: String,
    cache_unauthorized_requests: Option<bool>,
    timeout: String,
    subject_access_review_version: String,
    match_condition_subject_access_review_version: String,
    failure_policy: String,
    connection_info: ConnectionInfo,
    match_conditions: Vec<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConnectionInfo {
    #[serde(rename = "type")]
    kind: String,
    kube_config_file: Option<String>,
}

/// One authorizer of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Configured {
    /// One that decides from memory, by its type.
    Memory(String),
    /// One that asks elsewhere.
    Webhook {
        /// How.
        settings: Settings,
        /// The kubeconfig file that says where.
        kubeconfig: String,
        /// How long one answer may take.
        timeout: Duration,
    },
}

impl AuthorizationConfiguration {
    /// Of the tree of a file, without looking at what its values say.
    ///
    /// # Errors
    /// When it is something else, or has fields that nobody reads.
    pub fn from_tree(tree: &Value) -> Result<AuthorizationConfiguration, NoConfiguration> {
        SHAPE.read(tree, KIND, &VERSIONS)
    }

    /// The authorizers, in their order.
    ///
    /// # Errors
    /// What is wrong with the values, in one line and in kube-apiserver's words.
    pub fn authorizers(&self) -> Result<Vec<Configured>, String> {
        let mut wrong = self.wrong();
        if wrong.is_empty() {
            let expected = |one: &AuthorizerConfiguration| {
                let expected = one.kind.to_lowercase();
                let is_right = one.kind == "Webhook" || one.name == expected;
                (!is_right).then(|| format!("expected name {expected} for authorizer {} instead of {}", one.kind, one.name))
            };
            wrong = self.authorizers.iter().filter_map(expected).collect();
        }
        if !wrong.is_empty() {
            return Err(aggregate(&wrong));
        }
        Ok(self.authorizers.iter().map(AuthorizerConfiguration::configured).collect())
    }

    fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.authorizers.is_empty() {
            wrong.push("authorizers: Required value: at least one authorization mode must be defined".to_owned());
        }
        let (mut kinds, mut names) = (HashSet::new(), HashSet::new());
        for (at, one) in self.authorizers.iter().enumerate() {
            let path = format!("authorizers[{at}]");
            let (kind, name) = (one.kind.as_str(), one.name.as_str());
            match kind {
                "" => {
                    wrong.push(format!("{path}.type: Required value"));
                    continue;
                }
                "ABAC" => {
                    wrong.push(invalid(&format!("{path}.type"), kind, "ABAC is not supported"));
                    continue;
                }
                _ if !TYPES.contains(&kind) => {
                    wrong.push(unsupported(&format!("{path}.type"), kind, &TYPES));
                    continue;
                }
                _ if !kinds.insert(kind) && kind != "Webhook" => {
                    wrong.push(format!("{path}.type: Duplicate value: {}", quoted(kind)));
                    continue;
                }
                _ => {}
            }
            if name.is_empty() {
                wrong.push(format!("{path}.name: Required value"));
            } else if names.contains(name) {
                wrong.push(format!("{path}.name: Duplicate value: {}", quoted(name)));
            } else if let why @ [_, ..] = &wrong_subdomain(name)[..] {
                let why = format!("authorizer name is invalid: {}", why.join(", "));
                wrong.push(invalid(&format!("{path}.name"), name, &why));
            }
            names.insert(name);
            match (kind, &one.webhook) {
                ("Webhook", None) => wrong.push(format!("{path}.webhook: Required value: required when type=Webhook")),
                ("Webhook", Some(webhook)) => webhook.wrong(&path, &mut wrong),
                (_, Some(_)) => wrong.push(invalid(&format!("{path}.webhook"), "non-null", "may only be specified when type=Webhook")),
                (_, None) => {}
            }
        }
        wrong
    }
}

impl AuthorizerConfiguration {
    /// After [`AuthorizationConfiguration::wrong`] has found nothing.
    fn configured(&self) -> Configured {
        let Some(webhook) = &self.webhook else { return Configured::Memory(self.kind.clone()) };
        let ttl = |text: &str, default, is_kept: Option<bool>| {
            let ttl = duration::parse(text).ok().filter(|ttl| !ttl.is_zero()).unwrap_or(default);
            is_kept.unwrap_or(true).then_some(ttl)
        };
        let settings = Settings {
            name: self.name.clone(),
            version: Version::named(&webhook.subject_access_review_version).unwrap_or(Version::V1),
            allowed_ttl: ttl(&webhook.authorized_ttl, ALLOWED_TTL, webhook.cache_authorized_requests),
            refused_ttl: ttl(&webhook.unauthorized_ttl, REFUSED_TTL, webhook.cache_unauthorized_requests),
            denies_on_error: webhook.failure_policy == "Deny",
            is_host: false,
        };
        Configured::Webhook {
            settings,
            kubeconfig: webhook.connection_info.kube_config_file.clone().unwrap_or_default(),
            timeout: duration::parse(&webhook.timeout).unwrap_or(TIMEOUT_MAX),
        }
    }
}

impl WebhookConfiguration {
    fn wrong(&self, path: &str, wrong: &mut Vec<String>) {
        let of = |name: &str| format!("{path}.{name}");
        match duration::parse(&self.timeout) {
            _ if ["", "0", "0s"].contains(&&*self.timeout) => wrong.push(format!("{}: Required value", of("timeout"))),
            Ok(time) if time <= TIMEOUT_MAX => {}
            Ok(_) | Err(_) => wrong.push(invalid(&of("timeout"), &self.timeout, "must be > 0s and <= 30s")),
        }
        for (name, ttl) in [("authorizedTTL", &self.authorized_ttl), ("unauthorizedTTL", &self.unauthorized_ttl)] {
            if !ttl.is_empty() && duration::parse(ttl).is_err() {
                wrong.push(invalid(&of(name), ttl, "must be > 0s"));
            }
        }
        let name = of("subjectAccessReviewVersion");
        match self.subject_access_review_version.as_str() {
            "" => wrong.push(format!("{name}: Required value")),
            version if Version::named(version).is_none() => wrong.push(unsupported(&name, version, &["v1", "v1beta1"])),
            _ => {}
        }
        let name = of("matchConditionSubjectAccessReviewVersion");
        match self.match_condition_subject_access_review_version.as_str() {
            "" if !self.match_conditions.is_empty() => {
                wrong.push(format!("{name}: Required value: required if match conditions are specified"));
            }
            "" | "v1" => {}
            version => wrong.push(unsupported(&name, version, &["v1"])),
        }
        let name = of("failurePolicy");
        match self.failure_policy.as_str() {
            "" => wrong.push(format!("{name}: Required value")),
            "NoOpinion" | "Deny" => {}
            policy => wrong.push(unsupported(&name, policy, &["NoOpinion", "Deny"])),
        }
        self.connection_info.wrong(&of("connectionInfo"), wrong);
        for (at, condition) in self.match_conditions.iter().enumerate() {
            let expression = condition["expression"].as_str().unwrap_or_default();
            wrong.push(invalid(&format!("{path}.matchConditions[{at}].expression"), expression, "CEL expressions are not supported"));
        }
    }
}

impl ConnectionInfo {
    fn wrong(&self, path: &str, wrong: &mut Vec<String>) {
        let file = format!("{path}.kubeConfigFile");
        match (self.kind.as_str(), self.kube_config_file.as_deref()) {
            ("", _) => wrong.push(format!("{path}.type: Required value")),
            ("InClusterConfig", _) => wrong.push(invalid(&format!("{path}.type"), "InClusterConfig", "only KubeConfigFile is supported")),
            ("KubeConfigFile", None | Some("")) => wrong.push(format!("{file}: Required value")),
            ("KubeConfigFile", Some(name)) if !Path::new(name).is_absolute() => {
                wrong.push(invalid(&file, name, "must be an absolute path"))
            }
            ("KubeConfigFile", Some(_)) => {}
            (kind, _) => wrong.push(unsupported(&format!("{path}.type"), kind, &["InClusterConfig", "KubeConfigFile"])),
        }
    }
}

fn invalid(path: &str, value: &str, why: &str) -> String {
    format!("{path}: Invalid value: {}: {why}", quoted(value))
}

fn unsupported(path: &str, value: &str, known: &[&str]) -> String {
    let known: Vec<String> = known.iter().map(|value| quoted(value)).collect();
    format!("{path}: Unsupported value: {}: supported values: {}", quoted(value), known.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(authorizers: &Value) -> Result<Vec<Configured>, String> {
        let tree = json!({"apiVersion": VERSIONS[0], "kind": KIND, "authorizers": authorizers});
        AuthorizationConfiguration::from_tree(&tree).map_err(|error| error.to_string())?.authorizers()
    }

    fn webhook(changes: Value) -> Value {
        let mut webhook = json!({
            "timeout": "3s", "subjectAccessReviewVersion": "v1", "failurePolicy": "Deny", "unauthorizedTTL": "1s", "cacheAuthorizedRequests": false,
            "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "/etc/w.conf"},
        });
        webhook.as_object_mut().expect("an object").extend(changes.as_object().expect("an object").clone());
        json!([{"type": "Webhook", "name": "w", "webhook": webhook}])
    }

    #[test]
    fn authorizers_come_in_their_order() {
        let mut all = webhook(json!({}));
        all.as_array_mut().expect("a list").push(json!({"type": "RBAC", "name": "rbac"}));
        let settings = Settings {
            name: "w".to_owned(),
            version: Version::V1,
            allowed_ttl: None,
            refused_ttl: Some(Duration::from_secs(1)),
            denies_on_error: true,
            is_host: false,
        };
        let webhook = Configured::Webhook { settings, kubeconfig: "/etc/w.conf".to_owned(), timeout: Duration::from_secs(3) };
        assert_eq!(read(&all), Ok(vec![webhook, Configured::Memory("RBAC".to_owned())]));
    }

    /// The texts are those of kube-apiserver 1.36.3, but for what is not supported here.
    #[test]
    fn what_is_wrong_is_told_in_kube_apiservers_words() {
        let types = r#"supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook""#;
        let long = "a".repeat(254);
        for (authorizers, why) in [
            (json!([]), "authorizers: Required value: at least one authorization mode must be defined".to_owned()),
            (json!([{"name": "x"}]), "authorizers[0].type: Required value".to_owned()),
            (json!([{"type": "X", "name": "x"}]), format!("authorizers[0].type: Unsupported value: \"X\": {types}")),
            (json!([{"type": "RBAC", "name": "x"}]), "expected name rbac for authorizer RBAC instead of x".to_owned()),
            (
                json!([{"type": "RBAC", "name": "rbac"}, {"type": "RBAC", "name": "b"}, {"type": "Node"}]),
                "[authorizers[1].type: Duplicate value: \"RBAC\", authorizers[2].name: Required value]".to_owned(),
            ),
            (
                json!([{"type": "Webhook", "name": long}]),
                format!(
                    "[authorizers[0].name: Invalid value: \"{long}\": authorizer name is invalid: must be no more than 253 bytes, \
                     authorizers[0].webhook: Required value: required when type=Webhook]"
                ),
            ),
            (webhook(json!({"timeout": "31s"})), "authorizers[0].timeout: Invalid value: \"31s\": must be > 0s and <= 30s".to_owned()),
            (
                webhook(json!({"failurePolicy": "Perhaps"})),
                "authorizers[0].failurePolicy: Unsupported value: \"Perhaps\": supported values: \"NoOpinion\", \"Deny\"".to_owned(),
            ),
            (
                webhook(json!({"connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": "w.conf"}})),
                "authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \"w.conf\": must be an absolute path".to_owned(),
            ),
            (
                webhook(json!({"matchConditionSubjectAccessReviewVersion": "v1", "matchConditions": [{"expression": "true"}]})),
                "authorizers[0].matchConditions[0].expression: Invalid value: \"true\": CEL expressions are not supported".to_owned(),
            ),
            (webhook(json!({"more": 1})), "strict decoding error: unknown field \"authorizers[0].webhook.more\"".to_owned()),
        ] {
            assert_eq!(read(&authorizers), Err(why), "{authorizers}");
        }
        let other = AuthorizationConfiguration::from_tree(&json!({"apiVersion": "v1", "kind": "Pod"}));
        assert!(other.is_err_and(|why| why.to_string().contains("no kind \"Pod\" is registered for version \"v1\"")));
    }
}
