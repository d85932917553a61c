//! What quotas count of each resource.

use serde_json::Value;

use super::pods;
use crate::{
    Operation,
    plugins::{
        Write,
        classes::STORAGE_CLASS,
        resources::{self, Resources},
    },
    tree,
};
use go::amount::Amount;

/// How objects of a resource are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counter {
    /// By what their containers ask for.
    Pods,
    /// By their ports.
    Services,
    /// By their size, also of each class.
    Claims,
    /// One by one, under these names.
    Objects(Vec<String>),
}

/// Resources that no quota counts.
const IGNORED: [(&str, &str); 3] = [("", "bindings"), ("", "events"), ("events.k8s.io", "events")];

/// Resources that have a name of their own in quotas.
const NAMED: [&str; 4] = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];

const OF_CLASS: &str = ".storageclass.storage.k8s.io/";
const CLAIMS: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const SERVICES: [&str; 4] = ["count/services", "services", "services.nodeports", "services.loadbalancers"];

impl Counter {
    /// Returns how a namespaced resource is counted, if it is.
    #[must_use]
    pub fn of(group: &str, resource: &str) -> Option<Self> {
        if IGNORED.contains(&(group, resource)) {
            return None;
        }
        Some(match (group, resource) {
            ("", "pods") => Self::Pods,
            ("", "services") => Self::Services,
            ("", "persistentvolumeclaims") => Self::Claims,
            ("", _) => {
                let named = NAMED.contains(&resource).then(|| resource.to_owned());
                Self::Objects(std::iter::once(format!("count/{resource}")).chain(named).collect())
            }
            _ => Self::Objects(vec![format!("count/{resource}.{group}")]),
        })
    }

    /// Whether this counts what a quota limits under this name.
    #[must_use]
    pub fn counts(&self, name: &str) -> bool {
        match self {
            Self::Pods => pods::counts(name),
            Self::Services => SERVICES.contains(&name),
            Self::Claims => {
                let of_class = || name.split_once(OF_CLASS).is_some_and(|(_, name)| CLAIMS.contains(&name));
                name == "count/persistentvolumeclaims" || CLAIMS.contains(&name) || of_class()
            }
            Self::Objects(names) => names.iter().any(|known| known == name),
        }
    }

    /// Whether a write may change what is used.
    pub(super) fn handles(&self, write: &Write<'_>, object: &Value) -> bool {
        match (self, write.operation, write.subresource) {
            (_, Operation::Delete, _) => false,
            (_, Operation::Create, "") | (Self::Services | Self::Claims, Operation::Update, "") => true,
            (Self::Pods, Operation::Update, "resize") => true,
            (Self::Pods, Operation::Update, "") => write.old.is_some_and(|old| pods::has_deadline(old) != pods::has_deadline(object)),
            _ => false,
        }
    }

    /// Returns what an object uses.
    pub(super) fn usage(&self, object: &Value) -> Resources {
        match self {
            Self::Pods => pods::usage(object),
            Self::Services => service(object),
            Self::Claims => claim(object),
            Self::Objects(names) => names.iter().map(|name| (name.clone(), Amount::whole(1))).collect(),
        }
    }

    /// Returns what a Pod uses that should have been gone for long.
    pub(super) fn usage_of_lost(&self) -> Resources {
        one("count/pods")
    }

    /// Returns what an object should say because a quota counts it, as the text of a refusal.
    pub(super) fn missing(&self, counted: &[&str], object: &Value) -> Option<String> {
        match self {
            Self::Pods => pods::missing(counted, object),
            _ => None,
        }
    }
}

fn one(name: &str) -> Resources {
    std::iter::once((name.to_owned(), Amount::whole(1))).collect()
}

fn service(service: &Value) -> Resources {
    let count = |number: usize| Amount::whole(i64::try_from(number).unwrap_or(i64::MAX));
    let ports = || tree::items(service, &["spec", "ports"]);
    let (nodes, balancers) = match tree::text(service, &["spec", "type"]) {
        "NodePort" => (ports().count(), 0),
        "LoadBalancer" if tree::at(service, &["spec", "allocateLoadBalancerNodePorts"]) == Some(&Value::Bool(false)) => {
            (ports().filter(|port| tree::at(port, &["nodePort"]).and_then(Value::as_i64).is_some_and(|port| port != 0)).count(), 1)
        }
        "LoadBalancer" => (ports().count(), 1),
        _ => (0, 0),
    };
    let all = [count(1), count(1), count(nodes), count(balancers)];
    SERVICES.iter().map(|name| (*name).to_owned()).zip(all).collect()
}

fn claim(claim: &Value) -> Resources {
    let mut used = one("persistentvolumeclaims");
    used.extend(one("count/persistentvolumeclaims"));
    let annotated = tree::at(claim, &["metadata", "annotations", STORAGE_CLASS]).and_then(Value::as_str);
    let class = annotated.unwrap_or_else(|| tree::text(claim, &["spec", "storageClassName"]));
    let named = |name: &str| format!("{class}{OF_CLASS}{name}");
    if !class.is_empty() {
        used.extend(one(&named("persistentvolumeclaims")));
    }
    if let Some(asked) = resources::at(claim, &["spec", "resources", "requests"]).remove("storage") {
        let allocated = resources::at(claim, &["status", "allocatedResources"]).remove("storage");
        let size = allocated.filter(|allocated| *allocated > asked).unwrap_or(asked).rounded_up();
        if !class.is_empty() {
            used.insert(named("requests.storage"), size.clone());
        }
        used.insert("requests.storage".to_owned(), size);
    }
    used
}
