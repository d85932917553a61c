//! The settings of PodSecurity: levels that count where a namespace does not say, and what is exempt.

use serde_json::Value;

use super::level::Levels;

/// The settings of PodSecurity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecuritySettings {
    /// What counts where a namespace does not say.
    pub(super) defaults: Levels,
    /// Users whose writes are not judged.
    pub(super) users: Vec<String>,
    /// Namespaces whose Pods are not judged.
    pub(super) namespaces: Vec<String>,
    /// Classes of Pods that are not judged.
    pub(super) runtime_classes: Vec<String>,
}

impl SecuritySettings {
    /// Reads a configuration whose types are right. Returns what is wrong with its values: field, value and why.
    ///
    /// # Errors
    /// A level or a version is none.
    pub fn read(configuration: &Value) -> Result<Self, Vec<(String, String, &'static str)>> {
        let text = |name: &str| configuration["defaults"][name].as_str().filter(|text| !text.is_empty());
        let (defaults, wrong) = Levels::read(text, &Levels::default());
        let strings = |name: &str| {
            let all = configuration["exemptions"][name].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        if !wrong.is_empty() {
            return Err(wrong.into_iter().map(|(name, value, why)| (format!("defaults.{name}"), value, why)).collect());
        }
        let mut defaults = defaults;
        // Labels that enforce a level warn of it; what is there by default only does what it says.
        if text("warn").is_none() {
            let plain = Levels::default().warn;
            defaults.warn.level = plain.level;
            defaults.warn.minor = text("warn-version").map_or(plain.minor, |_| defaults.warn.minor);
        }
        let [users, namespaces, runtime_classes] = ["usernames", "namespaces", "runtimeClasses"].map(strings);
        Ok(Self { defaults, users, namespaces, runtime_classes })
    }

    pub(super) fn exempts_namespace(&self, name: &str) -> bool {
        self.namespaces.iter().any(|exempt| exempt == name)
    }

    pub(super) fn exempts_user(&self, name: &str) -> bool {
        self.users.iter().any(|exempt| exempt == name)
    }

    pub(super) fn exempts_class(&self, spec: &Value) -> bool {
        spec["runtimeClassName"].as_str().is_some_and(|class| self.runtime_classes.iter().any(|exempt| exempt == class))
    }
}
