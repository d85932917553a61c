//! `--enable-admission-plugins`, `--disable-admission-plugins` and `--admission-control`: names of kube-apiserver's plugins.

use std::collections::BTreeSet;

use go::quote::quoted;

use super::table;

/// The flags as typed.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// `--enable-admission-plugins`, each name.
    pub(super) enabled: Vec<String>,
    /// `--disable-admission-plugins`, each name.
    pub(super) disabled: Vec<String>,
    /// `--admission-control`: these and no others.
    pub(super) control: Option<Vec<String>>,
}

impl Asked {
    /// Says in kube-apiserver's words what is wrong.
    pub(super) fn mistakes(&self) -> Vec<String> {
        let known: BTreeSet<&str> = table::plugins().map(|(name, _)| name).collect();
        let unknown = |flag: &str, names: &[String]| -> Vec<String> {
            let names = names.iter().filter(|name| !known.contains(name.as_str()));
            names.map(|name| format!("{flag} plugin {} is unknown", quoted(name))).collect()
        };
        let mut mistakes = Vec::new();
        if self.control.is_some() && !(self.enabled.is_empty() && self.disabled.is_empty()) {
            mistakes
                .push("admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive".to_owned());
        }
        mistakes.extend(unknown("admission-control", self.control.as_deref().unwrap_or_default()));
        mistakes.extend(unknown("enable-admission-plugins", &self.enabled));
        mistakes.extend(unknown("disable-admission-plugins", &self.disabled));
        let enabled: BTreeSet<&String> = self.enabled.iter().collect();
        let both: Vec<&str> = self.disabled.iter().collect::<BTreeSet<_>>().intersection(&enabled).map(|name| name.as_str()).collect();
        if !both.is_empty() {
            mistakes.push(format!("[{}] in enable-admission-plugins and disable-admission-plugins overlapped", both.join(" ")));
        }
        mistakes
    }

    /// Returns the flags of `watchcache serve` that turn the same plugins on and off. `serve` reports those that are asked for and not there.
    pub(super) fn flags(&self) -> Vec<String> {
        let (enabled, disabled) = match &self.control {
            None => (self.enabled.clone(), self.disabled.clone()),
            Some(only) => {
                let defaults = table::plugins().filter(|(_, is_default)| *is_default).map(|(name, _)| name.to_owned());
                (only.clone(), defaults.filter(|name| !only.contains(name)).collect())
            }
        };
        let flag = |word: &str, names: Vec<String>| (!names.is_empty()).then(|| format!("--{word}-admission-plugins={}", names.join(",")));
        [flag("enable", enabled), flag("disable", disabled)].into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(enabled: &str, disabled: &str, control: Option<&str>) -> Asked {
        let names = |text: &str| text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        Asked { enabled: names(enabled), disabled: names(disabled), control: control.map(names) }
    }

    /// As kube-apiserver 1.36.3 says it.
    #[test]
    fn wrong_names_are_refused_in_its_words() {
        for (enabled, disabled, control, want) in [
            ("NodeRestriction", "ServiceAccount", None, vec![]),
            ("Nope,Nope", "", None, vec!["enable-admission-plugins plugin \"Nope\" is unknown"; 2]),
            ("", "Nope", None, vec!["disable-admission-plugins plugin \"Nope\" is unknown"]),
            (
                "Priority,PodSecurity",
                "PodSecurity,Priority",
                None,
                vec!["[PodSecurity Priority] in enable-admission-plugins and disable-admission-plugins overlapped"],
            ),
            (
                "Priority",
                "",
                Some("Nope"),
                vec![
                    "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
                    "admission-control plugin \"Nope\" is unknown",
                ],
            ),
        ] {
            assert_eq!(asked(enabled, disabled, control).mistakes(), want, "{enabled} {disabled} {control:?}");
        }
    }

    #[test]
    fn the_same_plugins_are_asked_of_serve() {
        assert!(asked("", "", None).flags().is_empty());
        let flags = asked("NodeRestriction,AlwaysAdmit", "ServiceAccount", None).flags();
        assert_eq!(flags, ["--enable-admission-plugins=NodeRestriction,AlwaysAdmit", "--disable-admission-plugins=ServiceAccount"]);
        let only = asked("", "", Some("Priority,AlwaysPullImages")).flags();
        assert_eq!(only[0], "--enable-admission-plugins=Priority,AlwaysPullImages");
        assert!(only[1].contains("ServiceAccount") && !only[1].contains("=Priority") && !only[1].contains(",Priority"), "{only:?}");
    }
}
