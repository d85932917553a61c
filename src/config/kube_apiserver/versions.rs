//! `--runtime-config`: API versions and resources that are to be on or off, beside those that there are.

use std::collections::{BTreeMap, BTreeSet};

use catalogue::{built_in_group_versions, is_built_in_group};

use super::table;
use crate::config::pflag::boolean;

/// The only names that stand for many versions.
const ALL: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];

/// What is wrong, in kube-apiserver's words, and what is not as it was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) mistakes: Vec<String>,
    pub(super) reports: Vec<String>,
}

/// Judges all values of the flag together.
pub(super) fn judge<'v>(values: impl Iterator<Item = &'v str>) -> Judged {
    let mut asked: BTreeMap<&str, &str> = BTreeMap::new();
    for pair in values.flat_map(|value| value.split(',')).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        asked.insert(name.trim(), value.trim());
    }
    let mut judged = Judged::default();
    if asked.len() == 1 && asked.get("api/all") == Some(&"false") {
        judged.mistakes.push("invalid runtime-config with only api/all=false".to_owned());
        return judged;
    }
    let mut unknown = BTreeSet::new();
    for (name, value) in &asked {
        if let Err(why) = one(name, value, &mut unknown, &mut judged.reports) {
            judged.mistakes.push(why);
        }
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.into_iter().collect();
        judged.mistakes.push(format!("unknown api groups {}", names.join(",")));
    }
    judged
}

fn one(name: &str, value: &str, unknown: &mut BTreeSet<String>, reports: &mut Vec<String>) -> Result<(), String> {
    if ALL.contains(&name) {
        match value {
            "true" | "false" => reports.extend(of_all(name, value == "true")),
            _ => return Err(format!("invalid value {name}={value}")),
        }
        return Ok(());
    }
    let parts: Vec<&str> = name.split('/').collect();
    let (group, version, resource) = match parts[..] {
        [group, version] => (group, version, None),
        [group, version, resource] => (group, version, Some(resource)),
        _ => return Err(format!("runtime-config invalid key {name}")),
    };
    if !is_known_group(group) {
        unknown.insert(format!("{group}/{version}"));
        return Ok(());
    }
    let full = format!("{group}/{version}");
    let Some((_, can_be_on)) = table::versions().find(|(known, _)| *known == full) else {
        return Err(format!("group version {group}/{version} that has not been registered"));
    };
    let is_on = match value {
        "" => true,
        value => boolean(value).map_err(|why| format!("invalid value of {name}: {value}, err: {why}"))?,
    };
    if let Some(resource) = resource.filter(|resource| resource.to_lowercase() != *resource) {
        return Err(format!("invalid key {name}: group/version/resource and resource is always lowercase plural, not \"{resource}\""));
    }
    let is_served = is_served(group, version);
    if is_on && can_be_on && !is_served {
        reports.push(format!("--runtime-config: {group}/{version} is asked for and not served"));
    } else if !is_on && is_served {
        reports.push(format!("--runtime-config: {name} cannot be turned off here"));
    }
    Ok(())
}

fn is_known_group(group: &str) -> bool {
    is_built_in_group(group) || table::versions().any(|(known, _)| known.split('/').next() == Some(group))
}

fn is_served(group: &str, version: &str) -> bool {
    built_in_group_versions().any(|(known, of_group, ..)| (known, of_group) == (group, version))
}

/// Many versions at once: a line when any of them is not as it should be.
fn of_all(name: &str, is_on: bool) -> Option<String> {
    let is_meant = |known: &str| {
        let version = known.split('/').nth(1).unwrap_or_default();
        match name {
            "api/ga" => !version.contains("alpha") && !version.contains("beta"),
            "api/beta" => version.contains("beta"),
            "api/alpha" => version.contains("alpha"),
            _ => true,
        }
    };
    let otherwise = table::versions().filter(|(known, can_be_on)| {
        let (group, version) = known.split_once('/').unwrap_or_default();
        *can_be_on && is_meant(known) && is_served(group, version) != is_on
    });
    let names: Vec<&str> = otherwise.map(|(known, _)| known).collect();
    let what = if is_on { "asked for and not served" } else { "served, and cannot be turned off here" };
    (!names.is_empty()).then(|| format!("--runtime-config: {name}={is_on}: {} are {what}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(value: &str) -> (Vec<String>, usize) {
        let judged = judge([value].into_iter());
        (judged.mistakes, judged.reports.len())
    }

    /// The texts are those of kube-apiserver 1.36.3.
    #[test]
    fn versions_are_judged_in_its_words() {
        for (value, mistakes, reports) in [
            ("", vec![], 0),
            ("apps/v1=true,/v1", vec![], 0),
            ("api/v1=true", vec!["unknown api groups api/v1"], 0),
            ("v1=true", vec!["runtime-config invalid key v1"], 0),
            ("resource.k8s.io/v1beta2=true", vec![], 1),
            ("extensions/v1beta1=true,apps/v1beta1=true", vec![], 0),
            ("api/all=false,batch/v1=false", vec![], 2),
            ("api/ga=true", vec![], 0),
            ("api/alpha=true", vec![], 1),
            ("api/alpha=false", vec![], 0),
            ("api/all=false", vec!["invalid runtime-config with only api/all=false"], 0),
            ("api/beta=x", vec!["invalid value api/beta=x"], 0),
            ("apps", vec!["runtime-config invalid key apps"], 0),
            ("a/b/c/d=true", vec!["runtime-config invalid key a/b/c/d"], 0),
            ("nope/v1=true,none/v1=true", vec!["unknown api groups none/v1,nope/v1"], 0),
            ("apps/v9=true", vec!["group version apps/v9 that has not been registered"], 0),
            ("apps/v1=x", vec!["invalid value of apps/v1: x, err: strconv.ParseBool: parsing \"x\": invalid syntax"], 0),
            (
                "apps/v1/Deployments=true",
                vec![
                    "invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, not \"Deployments\"",
                ],
                0,
            ),
        ] {
            assert_eq!(judged(value), (mistakes.into_iter().map(str::to_owned).collect(), reports), "{value}");
        }
    }
}
