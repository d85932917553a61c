//! The JSON shapes of discovery, members in the order of the Go types.

use serde::Serialize;

/// A document with a type head.
#[derive(Serialize)]
pub(super) struct Typed<T> {
    pub(super) kind: &'static str,
    #[serde(rename = "apiVersion")]
    pub(super) api_version: &'static str,
    #[serde(flatten)]
    pub(super) rest: T,
}

#[derive(Serialize)]
pub(super) struct ApiVersions<'a> {
    pub(super) kind: &'static str,
    pub(super) versions: [&'static str; 1],
    #[serde(rename = "serverAddressByClientCIDRs")]
    pub(super) addresses: [ServerAddress<'a>; 1],
}

#[derive(Serialize)]
pub(super) struct ServerAddress<'a> {
    #[serde(rename = "clientCIDR")]
    pub(super) client_cidr: &'static str,
    #[serde(rename = "serverAddress")]
    pub(super) server_address: &'a str,
}

#[derive(Serialize)]
pub(super) struct ApiGroups<'a> {
    pub(super) groups: Vec<ApiGroup<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup<'a> {
    pub(super) name: &'a str,
    pub(super) versions: Vec<VersionForDiscovery<'a>>,
    pub(super) preferred_version: VersionForDiscovery<'a>,
}

#[derive(Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionForDiscovery<'a> {
    pub(super) group_version: String,
    pub(super) version: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResourceList<'a> {
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) api_version: Option<&'static str>,
    pub(super) group_version: String,
    pub(super) resources: Vec<ApiResource<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResource<'a> {
    pub(super) name: String,
    pub(super) singular_name: &'a str,
    pub(super) namespaced: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<&'a str>,
    pub(super) kind: &'a str,
    pub(super) verbs: Vec<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) short_names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) categories: &'a [String],
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) storage_version_hash: &'a str,
}

#[derive(Serialize)]
pub(super) struct GroupDiscoveryList<'a> {
    pub(super) metadata: Metadata<'a>,
    pub(super) items: Vec<GroupDiscovery<'a>>,
}

#[derive(Serialize)]
pub(super) struct GroupDiscovery<'a> {
    pub(super) metadata: Metadata<'a>,
    pub(super) versions: Vec<VersionDiscovery<'a>>,
}

#[derive(Serialize)]
pub(super) struct Metadata<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) name: &'a str,
}

#[derive(Serialize)]
pub(super) struct VersionDiscovery<'a> {
    pub(super) version: &'a str,
    pub(super) resources: Vec<ResourceDiscovery<'a>>,
    pub(super) freshness: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ResourceDiscovery<'a> {
    pub(super) resource: &'a str,
    pub(super) response_kind: ResponseKind<'a>,
    pub(super) scope: &'static str,
    pub(super) singular_resource: &'a str,
    pub(super) verbs: Vec<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) short_names: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(super) categories: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) subresources: Vec<SubresourceDiscovery<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SubresourceDiscovery<'a> {
    pub(super) subresource: &'a str,
    pub(super) response_kind: ResponseKind<'a>,
    pub(super) verbs: Vec<&'a str>,
}

#[derive(Serialize)]
pub(super) struct ResponseKind<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
}

#[derive(Serialize)]
pub(super) struct Paths {
    pub(super) paths: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionInfo {
    pub(super) major: &'static str,
    pub(super) minor: &'static str,
    pub(super) emulation_major: &'static str,
    pub(super) emulation_minor: &'static str,
    pub(super) min_compatibility_major: &'static str,
    pub(super) min_compatibility_minor: &'static str,
    pub(super) git_version: &'static str,
    pub(super) git_commit: &'static str,
    pub(super) git_tree_state: &'static str,
    pub(super) build_date: &'static str,
    pub(super) go_version: &'static str,
    pub(super) compiler: &'static str,
    pub(super) platform: String,
}
