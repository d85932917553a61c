//! What upstream serves, as its discovery says, and what all answers that were seen lately agree on. Pure: time comes in.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

/// How long an answer counts after it was seen last. Servers of one address answer in turn: each of three is missed for so long once in ten thousand times.
const SEEN_FOR_S: u64 = 120;
/// Different answers that count at once.
const ANSWERS_MAX: usize = 8;

/// Resources by group, version and plural name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offered(BTreeMap<String, BTreeMap<String, BTreeMap<String, Entry>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    kind: String,
    namespaced: bool,
    verbs: BTreeSet<String>,
    /// The verbs of each subresource.
    parts: BTreeMap<String, BTreeSet<String>>,
}

/// One resource, as a request names it and as this server knows it.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names of discovery")]
pub struct Named<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub kind: &'a str,
    pub namespaced: bool,
}

#[derive(Deserialize)]
struct Aggregated {
    #[serde(default)]
    items: Vec<AggregatedGroup>,
}

#[derive(Deserialize)]
struct AggregatedGroup {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    versions: Vec<AggregatedVersion>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct AggregatedVersion {
    version: String,
    #[serde(default)]
    resources: Vec<AggregatedResource>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AggregatedResource {
    resource: String,
    #[serde(default)]
    response_kind: Option<Kind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: BTreeSet<String>,
    #[serde(default)]
    subresources: Vec<AggregatedPart>,
}

#[derive(Deserialize)]
struct AggregatedPart {
    subresource: String,
    #[serde(default)]
    verbs: BTreeSet<String>,
}

#[derive(Default, Deserialize)]
struct Kind {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Plain {
    #[serde(default)]
    resources: Vec<PlainResource>,
}

#[derive(Deserialize)]
struct PlainResource {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: BTreeSet<String>,
}

impl Offered {
    /// Reads an `APIGroupDiscoveryList`, of the groups that are wanted.
    ///
    /// # Errors
    /// It is none.
    pub fn aggregated(body: &[u8], is_wanted: impl Fn(&str) -> bool) -> Result<Self, String> {
        let list: Aggregated = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let mut offered = Self::default();
        for group in list.items.into_iter().filter(|group| is_wanted(&group.metadata.name)) {
            let versions = offered.0.entry(group.metadata.name).or_default();
            for version in group.versions {
                let resources = versions.entry(version.version).or_default();
                for AggregatedResource { resource, response_kind, scope, verbs, subresources } in version.resources {
                    let parts = subresources.into_iter().map(|part| (part.subresource, part.verbs)).collect();
                    let kind = response_kind.unwrap_or_default().kind;
                    resources.insert(resource, Entry { kind, namespaced: scope == "Namespaced", verbs, parts });
                }
            }
        }
        Ok(offered)
    }

    /// The groups and versions of an `APIGroupList`.
    ///
    /// # Errors
    /// It is none.
    pub fn group_versions(body: &[u8]) -> Result<Vec<(String, String)>, String> {
        let list: Groups = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let of = |group: Group| group.versions.into_iter().map(move |version| (group.name.clone(), version.version));
        Ok(list.groups.into_iter().flat_map(of).collect())
    }

    /// Adds an `APIResourceList` of this group and version.
    ///
    /// # Errors
    /// It is none.
    pub fn add_plain(&mut self, group: &str, version: &str, body: &[u8]) -> Result<(), String> {
        let list: Plain = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let resources = self.0.entry(group.to_owned()).or_default().entry(version.to_owned()).or_default();
        let (parts, whole): (Vec<_>, Vec<_>) = list.resources.into_iter().partition(|resource| resource.name.contains('/'));
        for PlainResource { name, kind, namespaced, verbs } in whole {
            resources.insert(name, Entry { kind, namespaced, verbs, parts: BTreeMap::new() });
        }
        for PlainResource { name, verbs, .. } in parts {
            if let Some((resource, part)) = name.split_once('/')
                && let Some(entry) = resources.get_mut(resource)
            {
                entry.parts.insert(part.to_owned(), verbs);
            }
        }
        Ok(())
    }

    /// Adds what another document says.
    pub fn add(&mut self, other: &Self) {
        for (group, versions) in &other.0 {
            self.0.entry(group.clone()).or_default().extend(versions.clone());
        }
    }

    /// Whether this is served as this server knows it, to get, to list and to watch.
    #[must_use]
    pub fn reads(&self, named: Named<'_>) -> bool {
        self.entry(named).is_some_and(|entry| ["get", "list", "watch"].iter().all(|verb| entry.verbs.contains(*verb)))
    }

    /// Whether this subresource of it is served to get.
    #[must_use]
    pub fn reads_part(&self, named: Named<'_>, part: &str) -> bool {
        self.entry(named).and_then(|entry| entry.parts.get(part)).is_some_and(|verbs| verbs.contains("get"))
    }

    fn entry(&self, Named { group, version, resource, kind, namespaced }: Named<'_>) -> Option<&Entry> {
        let entry = self.0.get(group)?.get(version)?.get(resource)?;
        (entry.kind == kind && entry.namespaced == namespaced).then_some(entry)
    }
}

/// What one server has said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its minor version, `36`.
    pub minor: String,
    /// What it serves; none when it may not be asked.
    pub offered: Option<Offered>,
}

/// What was said lately, with the second in which it was said last.
#[derive(Debug, Default)]
pub struct Recent(Vec<(Said, u64)>);

impl Recent {
    /// Somebody has said this now. What was said longest ago is forgotten when there is too much.
    pub fn said(&mut self, said: Said, now_s: u64) {
        self.0.retain(|(other, at)| *other != said && now_s.saturating_sub(*at) < SEEN_FOR_S);
        if self.0.len() >= ANSWERS_MAX {
            self.0.remove(0);
        }
        self.0.push((said, now_s));
    }

    /// What all of them agree on.
    #[must_use]
    pub fn agreed(&self) -> Agreed {
        let offered = self.0.iter().map(|(said, _)| said.offered.clone()).collect::<Option<Vec<_>>>();
        Agreed { minors: self.0.iter().map(|(said, _)| said.minor.clone()).collect(), offered }
    }
}

/// What servers that answer in turn agree on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Their minor versions.
    pub minors: BTreeSet<String>,
    /// What each serves; none when one of them may not be asked.
    offered: Option<Vec<Offered>>,
}

impl Agreed {
    /// Whether all are of this minor version.
    #[must_use]
    pub fn is_of(&self, minor: &str) -> bool {
        !self.minors.is_empty() && self.minors.iter().all(|other| other == minor)
    }

    /// Whether it is known what they serve.
    #[must_use]
    pub fn is_told(&self) -> bool {
        self.offered.is_some()
    }

    /// Whether each serves this as this server knows it. Where none may be asked, those of the minor version that this server knows do.
    #[must_use]
    pub fn reads(&self, named: Named<'_>, known_minor: &str) -> bool {
        self.offered.as_ref().map_or_else(|| self.is_of(known_minor), |all| all.iter().all(|offered| offered.reads(named)))
    }

    /// The same of a subresource.
    #[must_use]
    pub fn reads_part(&self, named: Named<'_>, part: &str, known_minor: &str) -> bool {
        self.offered.as_ref().map_or_else(|| self.is_of(known_minor), |all| all.iter().all(|offered| offered.reads_part(named, part)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APPS: &str = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","resources":[
        {"resource":"deployments","responseKind":{"group":"apps","version":"v1","kind":"Deployment"},"scope":"Namespaced","verbs":["get","list","watch"],
         "subresources":[{"subresource":"scale","verbs":["get","update"]},{"subresource":"odd","verbs":["update"]}]},
        {"resource":"written","responseKind":{"kind":"Written"},"scope":"Cluster","verbs":["create"]}]}]},{"metadata":{"name":"ex.io"}}]}"#;
    const DEPLOYMENTS: Named<'static> =
        Named { group: "apps", version: "v1", resource: "deployments", kind: "Deployment", namespaced: true };

    fn said(minor: &str, body: Option<&str>) -> Said {
        Said {
            minor: minor.to_owned(),
            offered: body.map(|body| Offered::aggregated(body.as_bytes(), |group| group == "apps").expect("a list")),
        }
    }

    #[test]
    fn what_is_served_is_read_of_both_forms() {
        let aggregated = said("36", Some(APPS)).offered.expect("a list");
        let plain = r#"{"resources":[{"name":"deployments","kind":"Deployment","namespaced":true,"verbs":["get","list","watch"]},{"name":"deployments/scale","verbs":["get","update"]},
            {"name":"deployments/odd","verbs":["update"]},{"name":"written","kind":"Written","namespaced":false,"verbs":["create"]}]}"#;
        let mut read = Offered::default();
        read.add_plain("apps", "v1", plain.as_bytes()).expect("a list");
        assert_eq!(read, aggregated);
        assert!(aggregated.reads(DEPLOYMENTS) && aggregated.reads_part(DEPLOYMENTS, "scale") && !aggregated.reads_part(DEPLOYMENTS, "odd"));
        for other in [
            Named { version: "v2", ..DEPLOYMENTS },
            Named { kind: "Other", ..DEPLOYMENTS },
            Named { namespaced: false, ..DEPLOYMENTS },
            Named { resource: "written", kind: "Written", namespaced: false, ..DEPLOYMENTS },
        ] {
            assert!(!aggregated.reads(other), "{other:?}");
        }
        let groups = br#"{"groups":[{"name":"apps","versions":[{"version":"v1"},{"version":"v2"}]}]}"#;
        assert_eq!(Offered::group_versions(groups), Ok(vec![("apps".into(), "v1".into()), ("apps".into(), "v2".into())]));
        assert!(Offered::aggregated(b"what?", |_| true).is_err() && Offered::aggregated(br#"{"items":3}"#, |_| true).is_err());
    }

    /// Three servers of two releases behind one address answer in turn.
    #[test]
    fn what_one_of_them_does_not_serve_nobody_serves() {
        let (old, new) = (said("35", Some(r#"{"items":[]}"#)), said("36", Some(APPS)));
        let mut recent = Recent::default();
        recent.said(new.clone(), 0);
        assert!(recent.agreed().reads(DEPLOYMENTS, "36") && recent.agreed().is_of("36"));
        recent.said(old.clone(), 5);
        for at in (10..300).step_by(10) {
            recent.said(new.clone(), at);
            recent.said(old.clone(), at + 5);
            assert!(!recent.agreed().reads(DEPLOYMENTS, "36") && !recent.agreed().is_of("36"));
        }
        recent.said(new.clone(), 295 + SEEN_FOR_S - 1);
        assert!(!recent.agreed().reads(DEPLOYMENTS, "36"), "the old one was seen lately");
        recent.said(new.clone(), 295 + SEEN_FOR_S);
        assert!(recent.agreed().reads(DEPLOYMENTS, "36"));
        // Nobody has answered for long: what was said last counts.
        assert!(recent.agreed().is_told());
    }

    #[test]
    fn those_who_do_not_tell_serve_what_their_release_serves() {
        let mut recent = Recent::default();
        assert!(!recent.agreed().is_of("36"));
        recent.said(said("36", None), 0);
        assert!(recent.agreed().reads(DEPLOYMENTS, "36") && !recent.agreed().is_told());
        recent.said(said("37", None), 1);
        assert!(!recent.agreed().reads(DEPLOYMENTS, "36"));
    }
}
