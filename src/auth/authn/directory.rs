//! The objects that tokens are bound to, as far as authentication needs them. Callers look them up in their cache.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

/// Kinds of objects that tokens are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Who a token speaks for.
    ServiceAccount,
    /// What a token may be bound to, and where legacy and bootstrap tokens are kept.
    Secret,
    /// What a token may be bound to.
    Pod,
    /// What a token may be bound to; without a namespace.
    Node,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::ServiceAccount, Kind::Secret, Kind::Pod, Kind::Node];

    /// Its resource, in the core group.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Kind::ServiceAccount => "serviceaccounts",
            Kind::Secret => "secrets",
            Kind::Pod => "pods",
            Kind::Node => "nodes",
        }
    }

    /// As `kind` has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::ServiceAccount => "ServiceAccount",
            Kind::Secret => "Secret",
            Kind::Pod => "Pod",
            Kind::Node => "Node",
        }
    }
}

/// Looks objects up in memory, at once.
pub trait Directory {
    /// The object, if it is there; `namespace` is empty for a Node.
    fn object(&self, kind: Kind, namespace: &str, name: &str) -> Option<Object>;
}

/// There is nothing: every token that is bound to an object is refused.
#[derive(Clone, Copy, Debug)]
pub struct Empty;

impl Directory for Empty {
    fn object(&self, _kind: Kind, _namespace: &str, _name: &str) -> Option<Object> {
        None
    }
}

/// What matters here of any of the four kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    metadata: Metadata,
    spec: Spec,
    /// A Secret's values in base64.
    data: Option<BTreeMap<String, String>>,
    #[serde(rename = "type")]
    kind_of_secret: String,
    /// Of a ServiceAccount.
    secrets: Vec<Reference>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    uid: String,
    deletion_timestamp: Option<String>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    service_account_name: String,
    node_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Reference {
    name: String,
}

impl Object {
    /// Of the JSON that is served of it.
    ///
    /// # Errors
    /// When it is no such object.
    pub fn from_json(bytes: &[u8]) -> Result<Object, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// Its uid.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether its deletion was to be done before this second.
    pub(super) fn is_deleted_before(&self, seconds: i64) -> bool {
        let at = self.metadata.deletion_timestamp.as_deref().map(go::time::parse);
        at.is_some_and(|at| at.is_ok_and(|(at, _)| at < seconds))
    }

    /// The value of a label; empty when there is none.
    pub(super) fn label(&self, name: &str) -> &str {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(name)).map_or("", String::as_str)
    }

    /// The account that a Pod runs as.
    pub(super) fn service_account(&self) -> &str {
        &self.spec.service_account_name
    }

    /// The node that a Pod runs on; empty when there is none yet.
    pub(super) fn node(&self) -> &str {
        &self.spec.node_name
    }

    /// The type of a Secret.
    pub(super) fn secret_type(&self) -> &str {
        &self.kind_of_secret
    }

    /// A value of a Secret; empty when there is none.
    pub(super) fn value(&self, key: &str) -> Vec<u8> {
        let value = self.data.as_ref().and_then(|data| data.get(key));
        value.and_then(|value| STANDARD.decode(value).ok()).unwrap_or_default()
    }

    /// Whether a ServiceAccount names this Secret.
    pub(super) fn names_secret(&self, name: &str) -> bool {
        self.secrets.iter().any(|secret| secret.name == name)
    }
}
