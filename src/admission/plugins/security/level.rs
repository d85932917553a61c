//! Levels of Pod security and versions of their rules, as the labels of a namespace say them.

use std::fmt;

use serde_json::Value;

use crate::{plugins::write::Wrong, tree};

/// What the labels begin with.
pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

/// How much Pods may do, from everything to little.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Privileged => "privileged",
            Self::Baseline => "baseline",
            Self::Restricted => "restricted",
        }
    }

    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

/// The minor whose rules count; none for the newest.
pub(super) type Minor = Option<u64>;

fn version(text: &str) -> Result<Minor, &'static str> {
    const WRONG: &str = r#"must be "latest" or "v1.x""#;
    if text == "latest" {
        return Ok(None);
    }
    let digits = text.strip_prefix("v1.").filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())).ok_or(WRONG)?;
    if digits.len() > 1 && digits.starts_with('0') {
        return Err(WRONG);
    }
    // Go's numbers end at 63 bits.
    digits.parse::<i64>().ok().and_then(|minor| u64::try_from(minor).ok()).map(Some).ok_or(WRONG)
}

/// A level by the rules of a minor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) minor: Minor,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.name();
        match self.minor {
            Some(minor) => write!(f, "{level}:v1.{minor}"),
            None => write!(f, "{level}:latest"),
        }
    }
}

const PRIVILEGED: LevelVersion = LevelVersion { level: Level::Privileged, minor: None };

/// What a namespace asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Levels {
    /// Other Pods are refused.
    pub(super) enforce: LevelVersion,
    /// Other Pods are noted in the audit log.
    pub(super) audit: LevelVersion,
    /// Writers of other Pods are warned.
    pub(super) warn: LevelVersion,
}

impl Default for Levels {
    fn default() -> Self {
        Self { enforce: PRIVILEGED, audit: PRIVILEGED, warn: PRIVILEGED }
    }
}

impl Levels {
    /// Returns what the labels of a namespace say, and what is wrong with them.
    pub(super) fn of(namespace: &Value, defaults: &Self) -> (Self, Vec<Wrong>) {
        let labels = tree::at(namespace, &["metadata", "labels"]);
        let label = |name: &str| labels.and_then(|labels| labels.get(format!("{PREFIX}{name}"))).and_then(Value::as_str);
        let (levels, wrong) = Self::read(label, defaults);
        let of_label = |(name, value, why): (String, String, &'static str)| Wrong {
            field: format!("metadata.labels[{PREFIX}{name}]"),
            value,
            why: why.to_owned(),
        };
        (levels, wrong.into_iter().map(of_label).collect())
    }

    /// Returns what `label` says under the names of levels and versions, and what is wrong with it: name, value and why. A level that cannot be read is the
    /// strictest one where it is enforced, and none where it is not.
    pub(super) fn read<'l>(label: impl Fn(&str) -> Option<&'l str>, defaults: &Self) -> (Self, Vec<(String, String, &'static str)>) {
        let mut wrong = Vec::new();
        let mut note = |name: &str, value: &str, why: &'static str| wrong.push((name.to_owned(), value.to_owned(), why));
        let mut read = |name: &str, default: LevelVersion, otherwise: Level| {
            let mut made = default;
            if let Some(text) = label(name) {
                made.level = Level::parse(text).unwrap_or_else(|why| {
                    note(name, text, why);
                    otherwise
                });
            }
            let name = format!("{name}-version");
            if let Some(text) = label(&name) {
                made.minor = version(text).unwrap_or_else(|why| {
                    note(&name, text, why);
                    None
                });
            }
            made
        };
        let enforce = read("enforce", defaults.enforce, Level::Restricted);
        let audit = read("audit", defaults.audit, Level::Privileged);
        let mut warn = read("warn", defaults.warn, Level::Privileged);
        let is_enforced = label("enforce").is_some_and(|text| Level::parse(text).is_ok());
        if label("warn").is_none() && is_enforced && enforce.level > warn.level {
            warn.level = enforce.level;
            if label("warn-version").is_none() {
                warn.minor = enforce.minor;
            }
        }
        (Self { enforce, audit, warn }, wrong)
    }

    /// Whether nothing is asked for.
    pub(super) fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|of| of.level == Level::Privileged)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The cases of `TestPolicyToEvaluate`, and more of what is wrong.
    #[test]
    fn labels_say_the_levels() {
        for (labels, want, wrong) in [
            (json!({}), "privileged:latest privileged:latest privileged:latest", ""),
            (json!({"enforce": "baseline"}), "baseline:latest privileged:latest baseline:latest", ""),
            (
                json!({"enforce": "baseline", "enforce-version": "v1.0", "audit": "restricted", "audit-version": "v1.22", "warn": "restricted", "warn-version": "latest"}),
                "baseline:v1.0 restricted:v1.22 restricted:latest",
                "",
            ),
            (json!({"enforce": "restricted", "enforce-version": "v1.22"}), "restricted:v1.22 privileged:latest restricted:v1.22", ""),
            (
                json!({"enforce": "restricted", "enforce-version": "v1.22", "warn-version": "v1.21"}),
                "restricted:v1.22 privileged:latest restricted:v1.21",
                "",
            ),
            (json!({"enforce": "restricted", "warn": "baseline"}), "restricted:latest privileged:latest baseline:latest", ""),
            (json!({"enforce": "baseline", "warn": "privileged"}), "baseline:latest privileged:latest privileged:latest", ""),
            (
                json!({"enforce": "foo", "enforce-version": "foo", "audit": "foo", "warn": "foo", "warn-version": "v1.01"}),
                "restricted:latest privileged:latest privileged:latest",
                "enforce enforce-version audit warn warn-version",
            ),
            (
                json!({"enforce-version": "v1.99999999999999999999"}),
                "privileged:latest privileged:latest privileged:latest",
                "enforce-version",
            ),
            (json!({"enforce-version": "v1."}), "privileged:latest privileged:latest privileged:latest", "enforce-version"),
        ] {
            let labels: serde_json::Map<String, Value> =
                labels.as_object().into_iter().flatten().map(|(name, value)| (format!("{PREFIX}{name}"), value.clone())).collect();
            let (levels, found) = Levels::of(&json!({"metadata": {"labels": labels}}), &Levels::default());
            assert_eq!(format!("{} {} {}", levels.enforce, levels.audit, levels.warn), want, "{labels:?}");
            let found: Vec<&str> = found
                .iter()
                .map(|wrong| wrong.field.trim_start_matches("metadata.labels[").trim_start_matches(PREFIX).trim_end_matches(']'))
                .collect();
            assert_eq!(found.join(" "), wrong, "{labels:?}");
        }
    }
}
