//! The discovery documents of a catalogue as bytes, equal to kube-apiserver's for what is listed: compact, with the newline it ends them with.
//!
//! They list what is answered and nothing else: resources with the verbs and subresources of the catalogue's `Offer`.

use std::cmp::Reverse;

use bytes::Bytes;
use serde::Serialize;
use sha2::{Digest, Sha512};

use super::{
    Catalogue, GroupVersion, Offer, Served, Subresource, Unstored,
    documents::{
        ApiGroup, ApiGroups, ApiResource, ApiResourceList, ApiVersions, GroupDiscovery, GroupDiscoveryList, Metadata, Paths,
        ResourceDiscovery, ResponseKind, ServerAddress, SubresourceDiscovery, Typed, VersionDiscovery, VersionForDiscovery, VersionInfo,
    },
    served::api_version,
};

/// Media type of the aggregated documents. Clients compare the answer's Content-Type with it whole (spec api-surface §2.2).
pub const AGGREGATED_MEDIA_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The release whose API we serve, with this program in semver's build metadata; clients compare it with their own.
pub const GIT_VERSION: &str = concat!("v1.36.3+watchcache-", env!("CARGO_PKG_VERSION"));
/// Its major and minor.
pub const EMULATED: &str = "1.36";
/// Its minor, as `/version` says it.
pub const MINOR: &str = "36";

/// An aggregated document.
#[derive(Clone, Debug)]
pub struct Aggregated {
    /// The document.
    pub body: Bytes,
    /// Its ETag, without the quotes of the header.
    pub etag: String,
}

impl Catalogue {
    /// `/api`. `server_address` is the `host:port` that this server advertises.
    #[must_use]
    pub fn api_versions(&self, server_address: &str) -> Bytes {
        let addresses = [ServerAddress { client_cidr: "0.0.0.0/0", server_address }];
        line(&ApiVersions { kind: "APIVersions", versions: ["v1"], addresses })
    }

    /// `/apis`.
    #[must_use]
    pub fn api_group_list(&self) -> Bytes {
        let mut groups = self.listed_groups(|name| !name.is_empty());
        // The real server breaks ties by the names of APIServices (`v1.ex.io`), not of groups: one with `foo.ex.io` comes before `v1.aa.io`.
        // Versions that we refuse have one too.
        groups.sort_by_cached_key(|group| {
            let first = self.groups[group.name].iter().map(|version| format!("{}.{}", version.version, group.name)).min();
            (Reverse(group.priority()), first)
        });
        line(&Typed { kind: "APIGroupList", api_version: "v1", rest: ApiGroups { groups: groups.iter().map(Listed::api_group).collect() } })
    }

    /// `/apis/G`; `None` when nothing of the group is listed.
    #[must_use]
    pub fn api_group(&self, group: &str) -> Option<Bytes> {
        let groups = self.listed_groups(|name| name == group && !name.is_empty());
        groups.first().map(|group| line(&Typed { kind: "APIGroup", api_version: "v1", rest: group.api_group() }))
    }

    /// `/api/v1` or `/apis/G/V`; `None` when nothing of the group version is listed.
    #[must_use]
    pub fn api_resource_list(&self, group: &str, version: &str) -> Option<Bytes> {
        let found = self.version(group, version).filter(|version| version.is_listed())?;
        Some(line(&ApiResourceList {
            kind: "APIResourceList",
            api_version: (!group.is_empty()).then_some("v1"),
            group_version: api_version(group, version),
            resources: found.api_resources(self.offer),
        }))
    }

    /// `/api` for a client that accepts `AGGREGATED_MEDIA_TYPE`.
    #[must_use]
    pub fn aggregated_core(&self) -> &Aggregated {
        self.aggregated_core.get_or_init(|| self.aggregated(str::is_empty))
    }

    /// `/apis` for a client that accepts `AGGREGATED_MEDIA_TYPE`.
    #[must_use]
    pub fn aggregated_groups(&self) -> &Aggregated {
        self.aggregated_groups.get_or_init(|| self.aggregated(|name| !name.is_empty()))
    }

    /// `/`: the paths of discovery and `others`, sorted; indented for every client, without a newline at the end.
    #[must_use]
    pub fn paths(&self, others: &[&str]) -> Bytes {
        let core = ["/api", "/api/v1"].iter().filter(|_| self.has_built_ins);
        let mut paths: Vec<String> = core.chain(&["/apis", "/apis/"]).chain(others).map(|&path| path.to_owned()).collect();
        for group in self.listed_groups(|name| !name.is_empty()) {
            paths.push(format!("/apis/{}", group.name));
            paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{}", group.name, version.version)));
        }
        paths.sort();
        paths.dedup();
        indented(&Paths { paths })
    }

    fn aggregated(&self, wanted: impl Fn(&str) -> bool) -> Aggregated {
        let mut groups = self.listed_groups(wanted);
        groups.sort_by_key(|group| (Reverse(group.priority()), group.name));
        let items = groups.iter().map(|group| group.discovery(self.offer)).collect();
        let list = GroupDiscoveryList { metadata: Metadata { name: "" }, items };
        let etag = etag(&json(&list));
        Aggregated { body: line(&Typed { kind: "APIGroupDiscoveryList", api_version: "apidiscovery.k8s.io/v2", rest: list }), etag }
    }

    /// The groups of which something is listed, by name.
    fn listed_groups(&self, wanted: impl Fn(&str) -> bool) -> Vec<Listed<'_>> {
        let groups = self.groups.iter().filter(|(name, _)| wanted(name));
        let listed =
            groups.map(|(name, versions)| Listed { name, versions: versions.iter().filter(|version| version.is_listed()).collect() });
        listed.filter(|group| !group.versions.is_empty()).collect()
    }
}

/// `/version`: indented for every client, without a newline at the end. `gitVersion` is the release whose API we serve, with this program in
/// semver's build metadata, which clients parse and ignore.
#[must_use]
pub fn version() -> Bytes {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    indented(&VersionInfo {
        major: "1",
        minor: "36",
        emulation_major: "1",
        emulation_minor: "36",
        min_compatibility_major: "1",
        min_compatibility_minor: "35",
        git_version: GIT_VERSION,
        git_commit: "",
        git_tree_state: "",
        build_date: "",
        go_version: "",
        compiler: "rustc",
        platform: format!("{}/{architecture}", std::env::consts::OS),
    })
}

/// A group and its versions that are listed, preferred one first.
struct Listed<'a> {
    name: &'a str,
    versions: Vec<&'a GroupVersion>,
}

impl<'a> Listed<'a> {
    fn priority(&self) -> u32 {
        self.versions.iter().map(|version| version.group_priority).max().unwrap_or(0)
    }

    fn api_group(&self) -> ApiGroup<'a> {
        let entry = |version: &&'a GroupVersion| VersionForDiscovery {
            group_version: api_version(self.name, &version.version),
            version: &version.version,
        };
        let versions: Vec<_> = self.versions.iter().map(entry).collect();
        ApiGroup { name: self.name, preferred_version: versions[0].clone(), versions }
    }

    fn discovery(&self, offer: Offer) -> GroupDiscovery<'a> {
        let entry = |version: &&'a GroupVersion| VersionDiscovery {
            version: &version.version,
            resources: version.resource_discoveries(offer),
            freshness: "Current",
        };
        GroupDiscovery { metadata: Metadata { name: self.name }, versions: self.versions.iter().map(entry).collect() }
    }
}

impl GroupVersion {
    pub(super) fn listed(&self) -> impl Iterator<Item = &Served> {
        self.resources.values().map(|served| &**served).filter(|served| served.is_listed())
    }

    pub(super) fn is_listed(&self) -> bool {
        self.listed().next().is_some() || !self.unstored.is_empty()
    }

    /// What can be done with what is not stored, if that is anything.
    fn unstored(&self, offer: Offer) -> impl Iterator<Item = (&'static Unstored, Vec<&'static str>)> {
        self.unstored.iter().map(move |unstored| (*unstored, unstored.verbs(offer))).filter(|(_, verbs)| !verbs.is_empty())
    }

    /// What `/apis/G/V` lists, by name.
    fn api_resources(&self, offer: Offer) -> Vec<ApiResource<'_>> {
        let unstored = self.unstored(offer).map(|(unstored, verbs)| ApiResource {
            name: unstored.resource.clone(),
            singular_name: &unstored.singular,
            namespaced: unstored.namespaced,
            group: None,
            version: None,
            kind: &unstored.kind,
            verbs,
            short_names: &unstored.short_names,
            categories: &[],
            storage_version_hash: "",
        });
        let mut all: Vec<_> = unstored.chain(self.listed().flat_map(|served| api_resources(served, offer))).collect();
        let resource = |entry: &ApiResource<'_>| entry.name.split('/').next().unwrap_or_default().to_owned();
        all.sort_by_cached_key(resource);
        all
    }

    fn resource_discoveries(&self, offer: Offer) -> Vec<ResourceDiscovery<'_>> {
        let unstored = self.unstored(offer).map(|(unstored, verbs)| ResourceDiscovery {
            resource: &unstored.resource,
            response_kind: ResponseKind { group: "", version: "", kind: &unstored.kind },
            scope: scope(unstored.namespaced),
            singular_resource: &unstored.singular,
            verbs,
            short_names: &unstored.short_names,
            categories: &[],
            subresources: Vec::new(),
        });
        let mut all: Vec<_> = unstored.chain(self.listed().map(|served| resource_discovery(served, offer))).collect();
        all.sort_by_key(|entry| entry.resource);
        all
    }
}

/// What `/apis/G/V` says of a resource: its own entry, then those of its subresources.
fn api_resources<'a>(served: &'a Served, offer: Offer) -> Vec<ApiResource<'a>> {
    let resource = ApiResource {
        name: served.resource.clone(),
        singular_name: &served.singular,
        namespaced: served.namespaced,
        group: None,
        version: None,
        kind: &served.kind,
        verbs: served.verbs(offer),
        short_names: &served.short_names,
        categories: &served.categories,
        storage_version_hash: &served.storage_version_hash,
    };
    let subresource = |(sub, verbs): (&'a Subresource, _)| ApiResource {
        name: format!("{}/{}", served.resource, sub.name),
        singular_name: "",
        namespaced: served.namespaced,
        group: sub.group.as_deref(),
        version: sub.version.as_deref(),
        kind: &sub.kind,
        verbs,
        short_names: &[],
        categories: &[],
        storage_version_hash: "",
    };
    std::iter::once(resource).chain(served.subresources(offer).into_iter().map(subresource)).collect()
}

fn resource_discovery<'a>(served: &'a Served, offer: Offer) -> ResourceDiscovery<'a> {
    let subresource = |(sub, verbs): (&'a Subresource, _)| SubresourceDiscovery {
        subresource: &sub.name,
        response_kind: response_kind(served, sub),
        verbs,
    };
    // Built-ins leave the document's own group and version out; custom resources say them.
    let (group, version) = own_group_version(served);
    ResourceDiscovery {
        resource: &served.resource,
        response_kind: ResponseKind { group, version, kind: &served.kind },
        scope: scope(served.namespaced),
        singular_resource: &served.singular,
        verbs: served.verbs(offer),
        short_names: &served.short_names,
        categories: &served.categories,
        subresources: served.subresources(offer).into_iter().map(subresource).collect(),
    }
}

fn response_kind<'a>(served: &'a Served, sub: &'a Subresource) -> ResponseKind<'a> {
    let (group, version) = own_group_version(served);
    ResponseKind { group: sub.group.as_deref().unwrap_or(group), version: sub.version.as_deref().unwrap_or(version), kind: &sub.kind }
}

fn own_group_version(served: &Served) -> (&str, &str) {
    if served.is_custom() { (&served.group, &served.version) } else { ("", "") }
}

fn scope(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "Cluster" }
}

/// SHA-512 in upper-case hex. The real server hashes the aggregated list as JSON without its `kind` and `apiVersion`.
fn etag(list: &[u8]) -> String {
    Sha512::digest(list).iter().map(|byte| format!("{byte:02X}")).collect()
}

fn json<T: Serialize>(document: &T) -> Vec<u8> {
    serde_json::to_vec(document).expect("documents have string keys and no failing serializer")
}

fn line<T: Serialize>(document: &T) -> Bytes {
    let mut text = json(document);
    text.push(b'\n');
    text.into()
}

fn indented<T: Serialize>(document: &T) -> Bytes {
    serde_json::to_vec_pretty(document).expect("documents have string keys and no failing serializer").into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;
    use crate::Definition;

    /// A document recorded from kube-apiserver 1.36.3 (`docs/catalogue.md`).
    fn recorded(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/discovery").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn definitions() -> Vec<Definition> {
        let list: Value = serde_json::from_str(&recorded("definitions.json")).expect("recorded JSON");
        list["items"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|item| Definition::parse(item.to_string().as_bytes()).expect("a definition"))
            .collect()
    }

    fn everything() -> Catalogue {
        Catalogue::offering(&definitions(), Offer::Everything)
    }

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).expect("documents are UTF-8")
    }

    #[test]
    fn resource_lists_equal_the_recorded_ones() {
        let catalogue = everything();
        for (group, version) in [
            ("apps", "v1"),
            ("authentication.k8s.io", "v1"),
            ("authorization.k8s.io", "v1"),
            ("batch", "v1"),
            ("ex.io", "v1beta1"),
            ("ex.io", "v2"),
            ("aa.io", "v2"),
            ("bb.io", "v1"),
        ] {
            let ours = catalogue.api_resource_list(group, version).expect("listed");
            assert_eq!(text(&ours), recorded(&format!("{group}_{version}.json")));
        }
        let core: Value = serde_json::from_str(&recorded("core_v1.json")).expect("recorded JSON");
        let ours = catalogue.api_resource_list("", "v1").expect("listed");
        assert_eq!(serde_json::from_slice::<Value>(&ours).expect("ours is JSON"), core);
        assert!(
            text(&ours).starts_with(r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings","singularName":"#)
        );
    }

    #[test]
    fn groups_equal_the_recorded_ones() {
        let catalogue = everything();
        assert_eq!(text(&catalogue.api_versions("127.0.0.1:21210")), recorded("api.json"));
        assert_eq!(text(&catalogue.api_group("ex.io").expect("listed")), recorded("ex.io.json"));
        let groups: Value = serde_json::from_str(&recorded("apis.json")).expect("recorded JSON");
        assert_eq!(serde_json::from_slice::<Value>(&catalogue.api_group_list()).expect("ours is JSON"), groups);
    }

    #[test]
    fn aggregated_documents_equal_the_recorded_ones() {
        let catalogue = everything();
        let core: Value = serde_json::from_str(&recorded("aggregated_api.json")).expect("recorded JSON");
        assert_eq!(serde_json::from_slice::<Value>(&catalogue.aggregated_core().body).expect("ours is JSON"), core);
        let ours = text(&catalogue.aggregated_groups().body);
        for item in recorded("aggregated_apis_items.jsonl").lines() {
            assert!(ours.contains(item), "not in /apis: {item}");
        }
        let order: Vec<_> =
            ours.match_indices("{\"metadata\":{\"name\":\"").map(|(at, m)| ours[at + m.len()..].split('"').next()).collect();
        assert_eq!(order.first(), Some(&Some("apiregistration.k8s.io")));
        assert_eq!(order[order.len() - 3..], [Some("aa.io"), Some("bb.io"), Some("ex.io")]);
    }

    #[test]
    fn etags_are_computed_as_the_real_server_does() {
        let document = recorded("aggregated_api.json");
        let list = document.trim_end().replacen(r#""kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","#, "", 1);
        assert_eq!(etag(list.as_bytes()), recorded("aggregated_api.etag").trim_end());
        let (with, without) = (everything(), Catalogue::offering(&[], Offer::Everything));
        assert_ne!(with.aggregated_groups().etag, without.aggregated_groups().etag);
        assert_eq!(with.aggregated_core().etag, without.aggregated_core().etag);
        assert_eq!(with.aggregated_core().etag.len(), 128);
    }

    #[test]
    fn reads_list_only_what_is_read() {
        let catalogue = Catalogue::new(&definitions());
        for verb in ["create", "update", "patch", "delete", "deletecollection"] {
            let quoted = format!("\"{verb}\"");
            assert!(!text(&catalogue.aggregated_core().body).contains(&quoted), "{verb}");
            // Reviews are asked with POST and change nothing.
            let reviews = if verb == "create" { 6 } else { 0 };
            assert_eq!(text(&catalogue.aggregated_groups().body).matches(&quoted).count(), reviews, "{verb}");
        }
        assert!(!text(&catalogue.aggregated_core().body).contains("\"exec\""));
        assert!(catalogue.api_resource_list("aa.io", "v3").is_none());
        assert!(catalogue.api_group("").is_none());
    }

    #[test]
    fn paths_are_sorted_and_whole() {
        let catalogue = everything();
        let paths: Value = serde_json::from_slice(&catalogue.paths(&["/version", "/healthz", "/apis"])).expect("ours is JSON");
        let paths: Vec<&str> = paths["paths"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        assert!(paths.is_sorted() && paths.contains(&"/healthz") && paths.contains(&"/apis/ex.io/v1beta1"));
        assert_eq!(paths.iter().filter(|path| **path == "/apis").count(), 1);
    }

    #[test]
    fn the_version_parses_for_clients() {
        let info: Value = serde_json::from_slice(&version()).expect("ours is JSON");
        assert_eq!((info["major"].as_str(), info["minor"].as_str()), (Some("1"), Some("36")));
        let (release, build) = info["gitVersion"].as_str().and_then(|v| v.split_once('+')).expect("build metadata");
        assert_eq!(release, "v1.36.3");
        let identifier = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        assert!(build.starts_with("watchcache-") && build.split('.').all(identifier));
    }
}
