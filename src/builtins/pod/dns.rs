//! Names of a Pod, and how it resolves those of others.

use crate::{addresses::legacy_address, at::At, causes::Causes, meta, names};

const SERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_BYTES_MAX: usize = 2_048;
const HOST_NAME_BYTES_MAX: usize = 64;

/// `validatePodDNSConfig`.
pub(super) fn config(spec: &At<'_, '_>, causes: &mut Causes) {
    let (at, policy) = (spec.member("dnsConfig"), spec.member("dnsPolicy"));
    let (servers, searches) = (at.member("nameservers"), at.member("searches"));
    if policy.text() == "None" {
        if at.is_absent() {
            return causes.required(&at, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.len() == 0 {
            return causes.required(&servers, "must provide at least one DNS nameserver when `dnsPolicy` is None");
        }
    }
    if servers.len() > SERVERS_MAX {
        causes.invalid(&servers, &format!("must not have more than {SERVERS_MAX} nameservers"));
    }
    for server in servers.items() {
        legacy_address(&server, causes);
    }
    if searches.len() > SEARCHES_MAX {
        causes.invalid(&searches, &format!("must not have more than {SEARCHES_MAX} search paths"));
    }
    let bytes = searches.items().map(|search| search.text().len()).sum::<usize>() + searches.len().saturating_sub(1);
    if bytes > SEARCH_BYTES_MAX {
        causes.invalid(&searches, &format!("must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the search list"));
    }
    for search in searches.items().filter(|search| search.text() != ".") {
        let name = search.text().strip_suffix('.').unwrap_or(search.text());
        causes.each_invalid(&search.with(&name.into()), names::subdomain_with_underscore(name));
    }
    for option in at.member("options").items() {
        if option.member("name").text().is_empty() {
            causes.required(&option, "must not be empty");
        }
    }
}

/// `validateDNSPolicy`.
pub(super) fn policy(at: &At<'_, '_>, causes: &mut Causes) {
    const POLICIES: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    if meta::present(at, "", causes) && !POLICIES.contains(&at.text()) {
        causes.not_supported(at, &POLICIES);
    }
}

/// A host name that replaces the usual one (`validatePodHostName`).
pub(super) fn host_name_override(spec: &At<'_, '_>, causes: &mut Causes) {
    let at = spec.member("hostnameOverride");
    if at.is_absent() {
        return;
    }
    if spec.member("setHostnameAsFQDN").is_true() {
        causes.forbidden(&at, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.member("hostNetwork").is_true() {
        causes.forbidden(&at, "may not be specified when hostNetwork is true");
    }
    if at.text().len() > HOST_NAME_BYTES_MAX {
        causes.too_long(&at, HOST_NAME_BYTES_MAX);
    }
    meta::subdomain(&at, causes);
}

/// Lines of the file of hosts (`ValidateHostAliases`).
pub(super) fn host_aliases(at: &At<'_, '_>, causes: &mut Causes) {
    for alias in at.items() {
        legacy_address(&alias.member("ip"), causes);
        alias.member("hostnames").items().for_each(|name| meta::subdomain(&name, causes));
    }
}
