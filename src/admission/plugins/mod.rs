//! What kube-apiserver's own admission plugins do to objects that are written, whoever writes: they change an object before it is prepared (`mutate`), and
//! judge it after it was found valid (`validate`), in the order of kube-apiserver.
//!
//! Objects are JSON trees with their defaults, in the version that is stored. What a plugin must know of other objects it asks a [`Cluster`].

mod account;
mod classes;
mod limits;
mod node_features;
mod priority;
mod protection;
pub mod quota;
mod resize;
mod resources;
mod runtime_class;
mod security;
mod set;
mod settings;
mod taint;
mod tolerations;
mod topology;
mod write;

#[cfg(test)]
mod testing;

use serde_json::Value;

use crate::tree;

pub use security::SecuritySettings;
pub use set::{Plugin, Plugins};
pub use settings::{LimitedResource, Settings};
use write::Verdict;
pub use write::{Annotation, Cluster, Denial, Lookup, Notes, SecurityCount, Write, Wrong};

/// Returns the kinds that plugins may look up for a write of this resource, if any plugin takes part in one; none if no plugin does.
#[must_use]
pub fn lookups(group: &str, resource: &str) -> Option<&'static [Lookup]> {
    Some(match (group, resource) {
        ("", "pods") => {
            &[Lookup::PriorityClass, Lookup::RuntimeClass, Lookup::ServiceAccount, Lookup::Node, Lookup::LimitRange, Lookup::Namespace]
        }
        ("", "persistentvolumeclaims") => &[Lookup::StorageClass, Lookup::LimitRange],
        ("networking.k8s.io", "ingresses") => &[Lookup::IngressClass],
        ("scheduling.k8s.io", "priorityclasses") => &[Lookup::PriorityClass],
        ("", "podtemplates" | "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "daemonsets" | "statefulsets")
        | ("batch", "jobs" | "cronjobs") => &[Lookup::Namespace],
        ("", "namespaces") => &[Lookup::Pod],
        ("", "nodes" | "persistentvolumes") | ("storage.k8s.io", "volumeattributesclasses") => &[],
        _ => return None,
    })
}

/// Changes an object that is to be written, as the plugins that are on do.
///
/// # Errors
/// A plugin refuses it.
pub fn mutate(plugins: &Plugins, write: &Write<'_>, object: &mut Value, cluster: &dyn Cluster) -> Verdict {
    for plugin in plugins.iter() {
        match plugin {
            Plugin::LimitRanger => limits::mutate(write, object, cluster),
            Plugin::ServiceAccount => account::mutate(write, object, cluster)?,
            Plugin::TaintNodesByCondition => taint::mutate(write, object),
            Plugin::Priority => priority::mutate(write, object, cluster)?,
            Plugin::DefaultTolerationSeconds => tolerations::mutate(write, object, plugins.toleration_seconds),
            Plugin::DefaultStorageClass => classes::storage(write, object, cluster),
            Plugin::StorageObjectInUseProtection => protection::mutate(write, object),
            Plugin::RuntimeClass => runtime_class::mutate(write, object, cluster)?,
            Plugin::DefaultIngressClass => classes::ingress(write, object, cluster),
            Plugin::PodTopologyLabels => topology::mutate(write, object, cluster),
            Plugin::PodSecurity
            | Plugin::PersistentVolumeClaimResize
            | Plugin::NodeDeclaredFeatureValidator
            | Plugin::PodResizeValidator
            | Plugin::MutatingAdmissionWebhook
            | Plugin::MutatingAdmissionPolicy
            | Plugin::ValidatingAdmissionPolicy
            | Plugin::ValidatingAdmissionWebhook
            | Plugin::ResourceQuota => {}
        }
    }
    Ok(())
}

/// Judges an object that is to be written, as the plugins that are on do. `notes` gets what they have to say besides.
///
/// # Errors
/// A plugin refuses it.
pub fn validate(plugins: &Plugins, write: &Write<'_>, object: &Value, cluster: &dyn Cluster, notes: &mut Notes) -> Verdict {
    for plugin in plugins.iter() {
        match plugin {
            Plugin::LimitRanger => limits::validate(write, object, cluster)?,
            Plugin::ServiceAccount => account::validate(write, object, cluster)?,
            Plugin::PodSecurity => security::validate(&plugins.settings.security, write, object, cluster, notes)?,
            Plugin::Priority => priority::validate(write, object, cluster)?,
            Plugin::PersistentVolumeClaimResize => resize::claim(write, object, cluster)?,
            Plugin::RuntimeClass => runtime_class::validate(write, object, cluster)?,
            Plugin::NodeDeclaredFeatureValidator => node_features::validate(write, object, cluster)?,
            Plugin::PodResizeValidator => resize::pod(write, object, cluster)?,
            Plugin::TaintNodesByCondition
            | Plugin::DefaultTolerationSeconds
            | Plugin::DefaultStorageClass
            | Plugin::StorageObjectInUseProtection
            | Plugin::DefaultIngressClass
            | Plugin::PodTopologyLabels
            | Plugin::MutatingAdmissionWebhook
            | Plugin::MutatingAdmissionPolicy
            | Plugin::ValidatingAdmissionPolicy
            | Plugin::ValidatingAdmissionWebhook
            | Plugin::ResourceQuota => {}
        }
    }
    Ok(())
}

/// Returns the name of an object in a refusal: it may have none yet.
#[must_use]
pub fn name_of(object: &Value) -> &str {
    let said = |member: &str| Some(tree::text(object, &["metadata", member])).filter(|name| !name.is_empty());
    said("name").or_else(|| said("generateName")).unwrap_or("Unknown")
}
