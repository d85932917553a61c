//! The cluster behind a server: of a read replica the API server that answers the rest, of an aggregated one its host. How it is, what it was asked, how long
//! that took.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    super::{
        api::{Api, Host},
        check::Behind,
    },
    overview::{cachers, fault, found, millis},
};
use offload::run_on_thread;
use telemetry::{ForwardedTimes, Metrics};

/// Whether there is one.
pub(super) fn is_there(api: &Api) -> bool {
    api.upstream.is_some() || api.host.is_some()
}

pub(super) async fn gather(api: Arc<Api>) -> Bytes {
    run_on_thread(move || tree(&api).to_string().into()).await
}

fn tree(api: &Api) -> Value {
    json!({
        "kind": "Cluster",
        "at": millis(SystemTime::now()),
        "role": api.role(),
        "upstream": api.upstream.as_ref().map(|upstream| of_upstream(api, &**upstream)),
        "host": api.host.as_ref().map(|host| of_host(api, host)),
    })
}

fn of_upstream(api: &Api, upstream: &dyn Behind) -> Value {
    let resources = api.resources.load_full();
    let (mut from_memory, mut not_loaded, mut forwarded) = (0, 0, BTreeMap::<&str, usize>::new());
    for resource in cachers(&resources) {
        match upstream.forwarded_for(resource) {
            Some(reason) => *forwarded.entry(reason.name()).or_default() += 1,
            None if resource.handle.published.known().is_ready() => from_memory += 1,
            None => not_loaded += 1,
        }
    }
    let mut told = upstream.status();
    told["isSource"] = json!(upstream.is_source());
    told["lastFault"] = json!(upstream.fault().map(|last| fault(last.at, &last.why)));
    told["checks"] = json!(found(&upstream.checks(&resources)));
    told["resources"] = json!({ "fromMemory": from_memory, "notLoaded": not_loaded, "forwarded": forwarded });
    told["forwarded"] = json!(rows(&api.metrics));
    told["keptAnswers"] = json!(api.metrics.kept_answers.get());
    told
}

/// What was forwarded, by reason, most first.
fn rows(metrics: &Metrics) -> Vec<Value> {
    let mut codes = BTreeMap::<String, BTreeMap<String, u64>>::new();
    for row in metrics.forwarded_counts() {
        *codes.entry(row.reason).or_default().entry(row.code).or_default() += row.count;
    }
    let mut times = metrics.forwarded_times();
    times.sort_by(|a, b| (b.count, &a.reason).cmp(&(a.count, &b.reason)));
    let row = |ForwardedTimes { reason, count, sum, buckets }: &ForwardedTimes| json!({ "reason": reason, "count": count, "codes": codes.get(reason), "seconds": sum, "within": buckets });
    times.iter().map(row).collect()
}

fn of_host(api: &Api, host: &Host) -> Value {
    json!({
        "namespaces": host.namespaces.count(),
        "lastFault": host.namespaces.fault().map(|(at, why)| fault(at, &why)),
        "checks": found(&host.checks(&api.identity.providers)),
    })
}
