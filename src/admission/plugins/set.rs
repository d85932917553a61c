//! The names of kube-apiserver's plugins, and which of them are on.

use std::{collections::BTreeSet, sync::Arc};

use super::settings::Settings;
use go::quote::quoted;

/// A plugin that this crate has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names are kube-apiserver's")]
pub enum Plugin {
    LimitRanger,
    ServiceAccount,
    TaintNodesByCondition,
    PodSecurity,
    Priority,
    DefaultTolerationSeconds,
    DefaultStorageClass,
    StorageObjectInUseProtection,
    PersistentVolumeClaimResize,
    RuntimeClass,
    DefaultIngressClass,
    PodTopologyLabels,
    NodeDeclaredFeatureValidator,
    PodResizeValidator,
    MutatingAdmissionPolicy,
    MutatingAdmissionWebhook,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionWebhook,
    ResourceQuota,
}

/// Who does what a plugin does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// This crate, when the plugin is on.
    Us(Plugin),
    /// Another part of the server, always.
    Server,
    /// Nobody yet.
    Nobody,
}

/// All plugins that kube-apiserver knows, in its order, and whether it has them on by itself.
const KNOWN: [(&str, bool, By); 41] = [
    ("AlwaysAdmit", false, By::Server),
    ("NamespaceAutoProvision", false, By::Nobody),
    ("NamespaceLifecycle", true, By::Server),
    ("NamespaceExists", false, By::Server),
    ("LimitPodHardAntiAffinityTopology", false, By::Nobody),
    ("LimitRanger", true, By::Us(Plugin::LimitRanger)),
    ("ServiceAccount", true, By::Us(Plugin::ServiceAccount)),
    ("NodeRestriction", false, By::Server),
    ("TaintNodesByCondition", true, By::Us(Plugin::TaintNodesByCondition)),
    ("AlwaysPullImages", false, By::Nobody),
    ("ImagePolicyWebhook", false, By::Nobody),
    ("PodSecurity", true, By::Us(Plugin::PodSecurity)),
    ("PodNodeSelector", false, By::Nobody),
    ("Priority", true, By::Us(Plugin::Priority)),
    ("DefaultTolerationSeconds", true, By::Us(Plugin::DefaultTolerationSeconds)),
    ("PodTolerationRestriction", false, By::Nobody),
    ("EventRateLimit", false, By::Nobody),
    ("ExtendedResourceToleration", false, By::Nobody),
    ("DefaultStorageClass", true, By::Us(Plugin::DefaultStorageClass)),
    ("StorageObjectInUseProtection", true, By::Us(Plugin::StorageObjectInUseProtection)),
    ("PodGroupProtection", true, By::Server),
    ("OwnerReferencesPermissionEnforcement", false, By::Nobody),
    ("PersistentVolumeClaimResize", true, By::Us(Plugin::PersistentVolumeClaimResize)),
    ("RuntimeClass", true, By::Us(Plugin::RuntimeClass)),
    ("CertificateApproval", true, By::Server),
    ("CertificateSigning", true, By::Server),
    ("ClusterTrustBundleAttest", true, By::Server),
    ("CertificateSubjectRestriction", true, By::Server),
    ("DefaultIngressClass", true, By::Us(Plugin::DefaultIngressClass)),
    ("DenyServiceExternalIPs", false, By::Nobody),
    ("PodTopologyLabels", true, By::Us(Plugin::PodTopologyLabels)),
    ("PodGroupWorkloadExists", true, By::Server),
    ("NodeDeclaredFeatureValidator", true, By::Us(Plugin::NodeDeclaredFeatureValidator)),
    ("JobValidation", true, By::Server),
    ("PodResizeValidator", true, By::Us(Plugin::PodResizeValidator)),
    ("MutatingAdmissionPolicy", true, By::Us(Plugin::MutatingAdmissionPolicy)),
    ("MutatingAdmissionWebhook", true, By::Us(Plugin::MutatingAdmissionWebhook)),
    ("ValidatingAdmissionPolicy", true, By::Us(Plugin::ValidatingAdmissionPolicy)),
    ("ValidatingAdmissionWebhook", true, By::Us(Plugin::ValidatingAdmissionWebhook)),
    ("ResourceQuota", true, By::Us(Plugin::ResourceQuota)),
    ("AlwaysDeny", false, By::Nobody),
];

/// Seconds that a Pod tolerates a node that is not ready, and one that is not reached, by default.
const TOLERATION_SECONDS: (i64, i64) = (300, 300);

/// The plugins that are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugins {
    on: Vec<Plugin>,
    /// For how many seconds a Pod tolerates a node that is not ready, and one that is not reached.
    pub toleration_seconds: (i64, i64),
    /// Their settings.
    pub settings: Arc<Settings>,
}

impl Default for Plugins {
    fn default() -> Self {
        Self::with(|_, is_default| is_default)
    }
}

impl Plugins {
    /// No plugin.
    #[must_use]
    pub fn none() -> Self {
        Self { on: Vec::new(), toleration_seconds: TOLERATION_SECONDS, settings: Arc::default() }
    }

    /// Returns those that are on by default, with those that are enabled and without those that are disabled, and a line for each that was asked for in vain.
    ///
    /// # Errors
    /// kube-apiserver's texts about names that it does not know.
    pub fn chosen(enabled: &[String], disabled: &[String]) -> Result<(Self, Vec<String>), String> {
        let mut wrong = Vec::new();
        for (flag, names) in [("enable", enabled), ("disable", disabled)] {
            let unknown = names.iter().filter(|name| !KNOWN.iter().any(|(known, ..)| known == name));
            wrong.extend(unknown.map(|name| format!("{flag}-admission-plugins plugin {} is unknown", quoted(name))));
        }
        let (enable, disable): (BTreeSet<&str>, BTreeSet<&str>) =
            (enabled.iter().map(String::as_str).collect(), disabled.iter().map(String::as_str).collect());
        let both: Vec<&str> = enable.intersection(&disable).copied().collect();
        if !both.is_empty() {
            wrong.push(format!("[{}] in enable-admission-plugins and disable-admission-plugins overlapped", both.join(" ")));
        }
        match wrong.as_slice() {
            [] => {}
            [one] => return Err(one.clone()),
            many => return Err(format!("[{}]", many.join(", "))),
        }
        let plugins = Self::with(|name, is_default| enable.contains(name) || is_default && !disable.contains(name));
        Ok((plugins, in_vain(&enable, &disable)))
    }

    fn with(is_on: impl Fn(&str, bool) -> bool) -> Self {
        let on = KNOWN.iter().filter(|(name, is_default, _)| is_on(name, *is_default));
        let on = on.filter_map(|(_, _, by)| if let By::Us(plugin) = by { Some(*plugin) } else { None });
        Self { on: on.collect(), ..Self::none() }
    }

    /// Leaves only this plugin on.
    #[cfg(test)]
    pub(super) fn retain(&mut self, plugin: Plugin) {
        self.on.retain(|known| *known == plugin);
    }

    /// Returns the plugins that are on, in kube-apiserver's order.
    pub fn iter(&self) -> impl Iterator<Item = Plugin> + '_ {
        self.on.iter().copied()
    }

    /// Whether a plugin is on.
    #[must_use]
    pub fn has(&self, plugin: Plugin) -> bool {
        self.on.contains(&plugin)
    }
}

/// Returns a line for each plugin that was enabled and is not there, or disabled and is always on.
fn in_vain(enabled: &BTreeSet<&str>, disabled: &BTreeSet<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, _, by) in &KNOWN {
        match by {
            By::Nobody if enabled.contains(name) => {
                lines.push(format!("--enable-admission-plugins={name}: this server does not have that plugin yet"));
            }
            By::Server if disabled.contains(name) => {
                lines.push(format!("--disable-admission-plugins={name}: this server always does what that plugin does"));
            }
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn names_are_kube_apiservers() {
        for (enabled, disabled, want) in [
            (&[][..], &[][..], Ok(0)),
            (&["Nobody"], &[], Err(r#"enable-admission-plugins plugin "Nobody" is unknown"#)),
            (&[], &["priority"], Err(r#"disable-admission-plugins plugin "priority" is unknown"#)),
            (&["Priority"], &["Priority"], Err("[Priority] in enable-admission-plugins and disable-admission-plugins overlapped")),
            (&["A"], &["B"], Err(r#"[enable-admission-plugins plugin "A" is unknown, disable-admission-plugins plugin "B" is unknown]"#)),
            (&["AlwaysDeny", "Priority"], &["NamespaceLifecycle", "ValidatingAdmissionPolicy"], Ok(2)),
        ] {
            let chosen = Plugins::chosen(&names(enabled), &names(disabled)).map(|(_, lines)| lines.len());
            assert_eq!(chosen, want.map_err(str::to_owned), "{enabled:?} {disabled:?}");
        }
    }

    #[test]
    fn what_is_on_can_be_turned_off() {
        let (plugins, lines) = Plugins::chosen(&[], &names(&["Priority", "RuntimeClass"])).expect("known names");
        assert_eq!(lines, Vec::<String>::new());
        assert!(!plugins.has(Plugin::Priority) && !plugins.has(Plugin::RuntimeClass) && plugins.has(Plugin::DefaultStorageClass));
        assert_eq!(plugins.iter().count() + 2, Plugins::default().iter().count());
        assert_eq!(Plugins::none().iter().count(), 0);
    }
}
