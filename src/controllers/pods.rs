//! Deletes Pods that no kubelet will end: kube-controller-manager's pod-garbage-collector-controller.
//!
//! Those of nodes that are gone, those that are being deleted and have no node or one that is out of service, and of finished ones the oldest beyond
//! [`FINISHED_MAX`]. They are looked at every [`LOOK_EVERY`], as there, but only when a Pod or a node has changed or a node is waited for: at rest nothing is
//! done.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{self, StreamExt};
use memchr::memmem;
use serde_json::{Value, json};

use super::{
    Controllers,
    objects::{Metadata, place, place_of, text, tree},
};
use model::{Object, selector::Field};
use registry::Resource;
use retry::Reminder;
use storage::write::{Part, failure::WriteError, options::DeleteOptions};

/// How often is looked, as there.
const LOOK_EVERY: Duration = Duration::from_secs(20);
/// How long a node may be missing before its Pods go, as there: it may come.
const QUARANTINE: Duration = Duration::from_secs(40);
/// Finished Pods that are kept, as there by default.
const FINISHED_MAX: usize = 12_500;
/// Pods that are deleted at once.
const DELETES: usize = 16;
/// Pods that are looked at before others have their turn.
const PODS_AT_ONCE: usize = 4096;
/// How often the log has a line about failures.
const REMIND_EVERY: Duration = Duration::from_secs(10);
/// The taint of a node whose machine is known to be off.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub(super) async fn run(controllers: Arc<Controllers>) {
    let (Some(pods), Some(nodes)) = (controllers.built_in("", "pods"), controllers.built_in("", "nodes")) else { return };
    let Some(collector) = Collector::of(&controllers, pods, nodes) else { return };
    let (mut seen_pods, mut seen_nodes) = (None, None);
    let (mut missing, mut reminder) = (HashMap::<String, Instant>::new(), Reminder::every(REMIND_EVERY));
    // What the cache does not have yet may be there.
    let _ = collector.nodes.handle.published.next(&mut seen_nodes).await;
    let _ = collector.pods.handle.published.next(&mut seen_pods).await;
    loop {
        let failures = collector.look(&mut missing).await;
        if let Some(error) = failures.first()
            && reminder.is_due()
        {
            tracing::warn!(%error, failing = failures.len(), "Pods that no kubelet ends cannot be deleted; trying again");
        }
        tokio::time::sleep(LOOK_EVERY).await;
        if failures.is_empty() && missing.is_empty() {
            // What has changed meanwhile is seen at once.
            tokio::select! {
                _ = collector.pods.handle.published.next(&mut seen_pods) => {}
                _ = collector.nodes.handle.published.next(&mut seen_nodes) => {}
            }
        }
    }
}

struct Collector<'c> {
    controllers: &'c Controllers,
    pods: Arc<Resource>,
    nodes: Arc<Resource>,
    /// `spec.nodeName` and `status.phase` of a Pod.
    node_name: Field,
    phase: Field,
}

/// Why a Pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// It has finished, and there are too many that have.
    Finished,
    /// It is being deleted, and its node is out of service.
    OutOfService,
    /// Its node is gone.
    Orphaned,
    /// It is being deleted, and never had a node.
    Unscheduled,
}

impl<'c> Collector<'c> {
    fn of(controllers: &'c Controllers, pods: Arc<Resource>, nodes: Arc<Resource>) -> Option<Self> {
        let [node_name, phase] = ["spec.nodeName", "status.phase"].map(|label| pods.served.field(label).ok());
        let (node_name, phase) = (node_name?, phase?);
        Some(Self { controllers, pods, nodes, node_name, phase })
    }

    /// Looks at all Pods once, and deletes those whose turn it is; returns what failed. `missing` are nodes that Pods name and nobody has, and since when.
    async fn look(&self, missing: &mut HashMap<String, Instant>) -> Vec<WriteError> {
        let (pods, nodes) = (self.pods.handle.published.known().snapshot, self.nodes.handle.published.known().snapshot);
        let present: HashSet<&str> = nodes.store.scan(b"", b"").map(|node| node.name()).collect();
        let unusable: HashSet<&str> = nodes
            .store
            .scan(b"", b"")
            .filter(|node| memmem::find(node.own_tail(), OUT_OF_SERVICE.as_bytes()).is_some())
            .filter(|node| tree(&self.nodes, node).is_some_and(|node| is_out_of_service(&node)))
            .map(|node| node.name())
            .collect();
        let now = Instant::now();
        let mut named = HashSet::new();
        let (mut finished, mut going) = (Vec::new(), Vec::new());
        for (count, pod) in pods.store.scan(b"", b"").enumerate() {
            if count % PODS_AT_ONCE == PODS_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            let (node, is_leaving) = (self.node_name.of(pod), is_being_deleted(pod));
            if !matches!(self.phase.of(pod), "Pending" | "Running" | "Unknown") {
                finished.push(pod);
            }
            if node.is_empty() {
                if is_leaving {
                    going.push((pod.clone(), Reason::Unscheduled));
                }
            } else if is_leaving && unusable.contains(node) {
                going.push((pod.clone(), Reason::OutOfService));
            } else if !present.contains(node) {
                named.insert(node.to_owned());
                let since = *missing.entry(node.to_owned()).or_insert(now);
                if now.duration_since(since) >= QUARANTINE {
                    going.push((pod.clone(), Reason::Orphaned));
                }
            }
        }
        // The Pods that come later for a node that is gone wait as long.
        missing.retain(|node, since| named.contains(node) && now.duration_since(*since) < QUARANTINE);
        let surplus = finished.len().saturating_sub(FINISHED_MAX);
        if surplus > 0 {
            going.extend(self.oldest(&finished, surplus).into_iter().map(|pod| (pod, Reason::Finished)));
        }
        let known_gone = self.known_gone(&going).await;
        let going = going.into_iter().filter(|(pod, reason)| *reason != Reason::Orphaned || known_gone.contains(self.node_name.of(pod)));
        let mut done = stream::iter(going).map(|(pod, reason)| async move { self.end(&pod, reason).await }).buffer_unordered(DELETES);
        let mut failures = Vec::new();
        while let Some(done) = done.next().await {
            failures.extend(done.err());
        }
        failures
    }

    /// Of finished Pods those that go first: evicted ones, then the oldest.
    fn oldest(&self, finished: &[&Arc<Object>], count: usize) -> Vec<Arc<Object>> {
        let mut all: Vec<_> = finished
            .iter()
            .map(|pod| {
                let whole = tree(&self.pods, pod).unwrap_or_default();
                (turn(&whole), (*pod).clone())
            })
            .collect();
        all.sort_by(|(one, a), (other, b)| one.cmp(other).then_with(|| a.name().cmp(b.name())));
        all.truncate(count);
        all.into_iter().map(|(_, pod)| pod).collect()
    }

    /// Of the nodes whose Pods would go, those that etcd does not have either.
    async fn known_gone(&self, going: &[(Arc<Object>, Reason)]) -> HashSet<String> {
        let orphaned = going.iter().filter(|(_, reason)| *reason == Reason::Orphaned);
        let nodes: HashSet<&str> = orphaned.map(|(pod, _)| self.node_name.of(pod)).collect();
        let mut gone = HashSet::new();
        for node in nodes {
            if let Ok(None) = self.controllers.writer.newest(&place(&self.nodes, "", node)).await {
                gone.insert(node.to_owned());
            }
        }
        gone
    }

    /// Says that a Pod has failed, unless it has finished, and deletes it.
    async fn end(&self, pod: &Arc<Object>, reason: Reason) -> Result<(), WriteError> {
        let Some(whole) = tree(&self.pods, pod) else { return Ok(()) };
        let (place, uid) = (place_of(&self.pods, pod), &whole["metadata"]["uid"]);
        if !matches!(text(&whole, "/status/phase"), "Succeeded" | "Failed") {
            let status = failed(&whole, reason, &self.controllers.writer.now());
            match self.controllers.merge(&place, Part::Status, &json!({"metadata": {"uid": uid}, "status": status})).await {
                Ok(_) => {}
                Err(WriteError::NotFound(_) | WriteError::Conflict { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let uid = uid.as_str().map(str::to_owned);
        self.controllers.delete(&place, &DeleteOptions { grace_seconds: Some(0), uid, ..DeleteOptions::default() }).await
    }
}

/// Whether a Pod is being deleted; most are not read for that.
fn is_being_deleted(pod: &Object) -> bool {
    let may_be = memmem::find(pod.own_tail(), b"\"deletionTimestamp\":\"").is_some();
    may_be && Metadata::of(pod).is_some_and(|metadata| metadata.is_being_deleted())
}

/// Whether a node is not ready and has the taint.
fn is_out_of_service(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_ready = conditions.filter(|condition| condition["type"] == "Ready").any(|condition| condition["status"] == "True");
    let taints = node.pointer("/spec/taints").and_then(Value::as_array).into_iter().flatten();
    !is_ready && taints.into_iter().any(|taint| taint["key"] == OUT_OF_SERVICE)
}

/// Which turn a finished Pod has: evicted ones before others, then by when they were made.
fn turn(pod: &Value) -> (bool, String) {
    let is_evicted = text(pod, "/status/phase") == "Failed" && text(pod, "/status/reason") == "Evicted";
    (!is_evicted, text(pod, "/metadata/creationTimestamp").to_owned())
}

/// What changes in the status of a Pod that has failed for this reason.
fn failed(pod: &Value, reason: Reason, now: &str) -> Value {
    let generation = &pod["metadata"]["generation"];
    let mut status = json!({"phase": "Failed", "observedGeneration": generation});
    if reason == Reason::Orphaned {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
            "observedGeneration": generation, "lastProbeTime": null, "lastTransitionTime": now,
        });
        let all = pod.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let others = all.filter(|known| known["type"] != condition["type"]).cloned();
        status["conditions"] = others.chain([condition.clone()]).collect();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicted_pods_go_first_and_then_the_oldest() {
        let pod = |phase: &str, reason: &str, made: &str| json!({"metadata": {"creationTimestamp": made}, "status": {"phase": phase, "reason": reason}});
        let mut all = [
            pod("Succeeded", "", "2026-01-02T00:00:00Z"),
            pod("Failed", "", "2026-01-01T00:00:00Z"),
            pod("Failed", "Evicted", "2026-01-03T00:00:00Z"),
            pod("Succeeded", "Evicted", "2026-01-04T00:00:00Z"),
        ];
        all.sort_by_key(turn);
        let days: Vec<&str> = all.iter().map(|pod| &text(pod, "/metadata/creationTimestamp")[8..10]).collect();
        assert_eq!(days, ["03", "01", "02", "04"]);
    }

    #[test]
    fn a_node_is_out_of_service_when_it_is_tainted_and_not_ready() {
        let node = |ready: &str, taint: &str| json!({"spec": {"taints": [{"key": taint}]}, "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        assert!(
            is_out_of_service(&node("False", OUT_OF_SERVICE)) && is_out_of_service(&json!({"spec": {"taints": [{"key": OUT_OF_SERVICE}]}}))
        );
        assert!(
            !is_out_of_service(&node("True", OUT_OF_SERVICE))
                && !is_out_of_service(&node("Unknown", "other"))
                && !is_out_of_service(&json!({}))
        );
    }

    #[test]
    fn only_an_orphan_is_told_of_the_disruption_and_keeps_its_other_conditions() {
        let pod = json!({"metadata": {"generation": 2}, "status": {"conditions": [{"type": "Ready"}, {"type": "DisruptionTarget", "status": "False"}]}});
        assert_eq!(failed(&pod, Reason::Unscheduled, "now"), json!({"phase": "Failed", "observedGeneration": 2}));
        let orphan = failed(&pod, Reason::Orphaned, "now");
        let told: Vec<(&str, &str)> =
            orphan["conditions"].as_array().expect("a list").iter().map(|c| (text(c, "/type"), text(c, "/status"))).collect();
        assert_eq!(told, [("Ready", ""), ("DisruptionTarget", "True")]);
    }
}
