//! The rules of single kinds for writes (spec api-surface §5.5, §5.8, §6, §8.3): one row for each kind that has some. Everything else about a write is the
//! same for all kinds (`strategy`).
//!
//! **To add a rule** of a built-in kind: its row is in the file of its kind; name the function at the stage that it belongs to. A kind without a row gets one
//! there, and a place in [`ALL`].

mod access;
mod account;
mod admission;
mod data;
mod definition;
mod namespace;
mod network;
mod node;
mod others;
mod pod;
mod pod_parts;
pub(super) mod repeated;
mod row;
mod service;
mod signing;
mod signing_spec;
mod slices;
mod volume;
pub(super) mod warnings;
mod workload;

pub(super) use data::encode_string_data;
pub(super) use row::StatusMetadata;

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

use super::part::Part;
use catalogue::{Origin, Served, defaults};
use row::{JudgedAsNew, Strategy};

/// The rows of all kinds that have one.
static ALL: [&[Strategy]; 9] = [
    &access::ALL,
    &admission::ALL,
    &others::ALL,
    &volume::OTHERS,
    &[account::SERVICE_ACCOUNTS, data::CONFIG_MAPS, data::SECRETS, namespace::NAMESPACES, node::NODES, pod::PODS],
    &[definition::API_SERVICES, definition::DEFINITIONS, signing::SIGNING_REQUESTS],
    &[network::INGRESSES, network::INGRESS_CLASSES, network::IP_ADDRESSES, network::NETWORK_POLICIES, network::SERVICE_CIDRS],
    &[service::ENDPOINTS, service::SERVICES, slices::ENDPOINT_SLICES, slices::RESOURCE_SLICES, volume::CLAIMS, volume::VOLUMES],
    &[
        workload::CRON_JOBS,
        workload::DAEMON_SETS,
        workload::DEPLOYMENTS,
        workload::JOBS,
        workload::POD_TEMPLATES,
        workload::REPLICATION_CONTROLLERS,
        workload::REPLICA_SETS,
        workload::STATEFUL_SETS,
    ],
];

/// The group that judges Events otherwise than the version in which they are stored.
const EVENTS: &str = "events.k8s.io";

static BY_STORAGE: LazyLock<HashMap<&str, &Strategy>> =
    LazyLock::new(|| ALL.into_iter().flatten().map(|strategy| (strategy.storage, strategy)).collect());

/// Returns the rules of the kind of a served resource.
pub(super) fn of(served: &Served) -> &'static Strategy {
    match served.origin {
        Origin::Custom(_) => &Strategy::CUSTOM,
        _ if served.group == EVENTS => &others::NEW_EVENTS,
        _ => of_storage(&served.storage.id),
    }
}

fn of_storage(id: &str) -> &'static Strategy {
    BY_STORAGE.get(id).copied().unwrap_or(&Strategy::COMMON)
}

/// What the writer of a built-in should know about it, though it is accepted.
pub(super) fn warned(id: &str, part: Part, old: Option<&Value>, new: &Value) -> Vec<String> {
    let (strategy, mut warnings) = (of_storage(id), Vec::new());
    match part {
        Part::Main => (strategy.warn)(old, new, &mut warnings),
        Part::Status => (strategy.warn_status)(new, &mut warnings),
        Part::Finalizers | Part::Approval | Part::EphemeralContainers | Part::Resize | Part::Server => {}
    }
    warnings
}

/// Whether an update is judged as a new object is.
pub(super) fn is_judged_as_new(served: &Served, part: Part) -> bool {
    match part {
        Part::Main => of(served).judged_as_new != JudgedAsNew::No,
        Part::Status => of(served).judged_as_new == JudgedAsNew::MainAndStatus,
        Part::EphemeralContainers | Part::Resize => true,
        Part::Finalizers | Part::Approval | Part::Server => false,
    }
}

/// Drops fields of features that are off, but of the kinds that lose them later.
pub(super) fn drop_disabled(served: &Served, old: Option<&Value>, object: &mut Value) {
    if !served.is_custom() && (old.is_none() || !of(served).is_counted_before_features) {
        defaults::drop_disabled(object, old, &served.stored_as, &served.kind);
    }
}

/// Drops what a change loses after the generation has counted it.
pub(super) fn drop_counted(served: &Served, old: &Value, new: &mut Value) {
    let strategy = of(served);
    (strategy.drop_counted)(old, new);
    if strategy.is_counted_before_features {
        defaults::drop_disabled(new, Some(old), &served.stored_as, &served.kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_of_a_storage_that_is_there_and_stands_once() {
        let rows: Vec<&str> = ALL.into_iter().flatten().map(|strategy| strategy.storage).collect();
        assert_eq!(rows.len(), BY_STORAGE.len(), "one stands twice: {rows:?}");
        let definitions = &catalogue::Catalogue::definitions().storage;
        let known: Vec<&str> = catalogue::built_in_storages().chain([definitions]).map(|storage| &*storage.id).collect();
        let lost: Vec<&&str> = rows.iter().filter(|id| !known.contains(id)).collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
}
