//! Tests of the graph: after any sequence of changes it decides as a scan of all objects does.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::authz::{Attributes, Authorizer, Decision, Resource, Target};
use crate::user::User;

type Objects = BTreeMap<(&'static str, &'static str), (Kind, Value)>;

const NAMES: [&str; 3] = ["a", "b", "c"];
const NODES: [&str; 3] = ["", "n1", "n2"];
const SORTS: [Sort; 5] = [Sort::Pod, Sort::Claim, Sort::Attachment, Sort::Volume, Sort::Secret];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

/// A pod of a secret and a claim, a volume of a claim and a secret, or an attachment.
fn object() -> impl Strategy<Value = (Kind, Value)> {
    let node = || prop::sample::select(&NODES[..]);
    let pod = (node(), name(), name(), prop::bool::weighted(0.1), 0..3_usize).prop_map(|(node, secret, claim, is_mirror, times)| {
        let annotations = if is_mirror { json!({"kubernetes.io/config.mirror": "x"}) } else { json!(null) };
        let mut volumes = vec![json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}})];
        volumes.extend((0..times).map(|i| json!({"name": format!("s{i}"), "secret": {"secretName": secret}})));
        (Kind::Pod, json!({"metadata": {"annotations": annotations}, "spec": {"nodeName": node, "volumes": volumes}}))
    });
    let volume = (prop::bool::weighted(0.8), name(), name(), name()).prop_map(|(is_bound, claim, first, second)| {
        let reference = |name: &str| json!({"name": name, "namespace": "n"});
        let csi = json!({"nodePublishSecretRef": reference(first), "nodeStageSecretRef": reference(second), "controllerPublishSecretRef": reference("no")});
        let claim = if is_bound { json!({"namespace": "n", "name": claim}) } else { json!(null) };
        (Kind::PersistentVolume, json!({"spec": {"claimRef": claim, "csi": csi}}))
    });
    let attachment = node().prop_map(|node| (Kind::VolumeAttachment, json!({"spec": {"nodeName": node}})));
    prop_oneof![4 => pod, 3 => volume, 1 => attachment]
}

/// The names of the three kinds differ, so that an object never changes its kind.
fn key(kind: Kind, name: &'static str) -> (&'static str, &'static str) {
    match kind {
        Kind::Pod => ("pod", name),
        Kind::PersistentVolume => ("volume", name),
        _ => ("attachment", name),
    }
}

fn put(graph: &mut NodeGraph, kind: Kind, name: &str, object: &Value) {
    graph.put(kind, "n", name, object.to_string().as_bytes()).expect("an object of its kind");
}

fn pods_of<'a>(objects: &'a Objects, node: &'a str) -> impl Iterator<Item = (&'static str, &'a Value)> {
    let pods = objects.iter().filter(|(_, (kind, _))| *kind == Kind::Pod);
    pods.filter(move |(_, (_, pod))| pod["spec"]["nodeName"] == node).map(|((_, name), (_, pod))| (*name, pod))
}

fn pod_names(pod: &Value, of: &str, member: &str, name: &str) -> bool {
    let is_mirror = !pod["metadata"]["annotations"].is_null();
    !is_mirror && pod["spec"]["volumes"].as_array().expect("volumes").iter().any(|volume| volume[of][member] == name)
}

fn scan(objects: &Objects, sort: Sort, name: &'static str, node: &str) -> bool {
    let claims = |claim: &str| pods_of(objects, node).any(|(_, pod)| pod_names(pod, "persistentVolumeClaim", "claimName", claim));
    let is_claimed = |volume: &Value| volume["spec"]["claimRef"]["name"].as_str().is_some_and(claims);
    match sort {
        Sort::Pod => pods_of(objects, node).any(|(pod, _)| pod == name),
        Sort::Claim => claims(name),
        Sort::Attachment => objects.get(&key(Kind::VolumeAttachment, name)).is_some_and(|(_, it)| it["spec"]["nodeName"] == node),
        Sort::Volume => objects.get(&key(Kind::PersistentVolume, name)).is_some_and(|(_, volume)| is_claimed(volume)),
        Sort::Secret => {
            let volumes = objects.values().filter(|(kind, _)| *kind == Kind::PersistentVolume).map(|(_, volume)| volume);
            let names =
                |volume: &Value| ["nodePublishSecretRef", "nodeStageSecretRef"].iter().any(|r| volume["spec"]["csi"][*r]["name"] == name);
            pods_of(objects, node).any(|(_, pod)| pod_names(pod, "secret", "secretName", name))
                || volumes.filter(|volume| names(volume)).any(is_claimed)
        }
        _ => false,
    }
}

/// Whether the kubelet of this node may do this.
fn may(graph: &NodeGraph, verb: &str, sort: Sort, name: &str, kubelet: &User) -> bool {
    let (group, resource, namespace) = match sort {
        Sort::Pod => ("", "pods", "n"),
        Sort::Claim => ("", "persistentvolumeclaims", "n"),
        Sort::Attachment => ("storage.k8s.io", "volumeattachments", ""),
        Sort::Volume => ("", "persistentvolumes", ""),
        _ => ("", "secrets", "n"),
    };
    let target = Target::Resource(Resource { group, resource, namespace, name, ..Resource::default() });
    graph.decide(&Attributes { user: kubelet, verb, target }).decision == Decision::Allow
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Else his watches would go on.
    #[test]
    fn whoever_loses_a_right_is_affected(changes in prop::collection::vec((object(), name(), prop::bool::weighted(0.7)), 1..30)) {
        let mut graph = NodeGraph::default();
        let kubelets = NODES[1..].iter().map(|node| User {
            name: format!("system:node:{node}"),
            groups: vec!["system:nodes".to_owned()],
            ..User::default()
        });
        let kubelets: Vec<User> = kubelets.collect();
        for ((kind, object), name, is_put) in changes {
            let before = graph.clone();
            if is_put { put(&mut graph, kind, name, &object) } else { graph.remove(kind, "n", name) }
            let mut affected = Affected::default();
            before.lost(&graph, kind, "n", name, &mut affected);
            for (kubelet, sort) in kubelets.iter().flat_map(|kubelet| SORTS.map(|sort| (kubelet, sort))) {
                for name in NAMES {
                    let has_lost = may(&before, "get", sort, name, kubelet) && !may(&graph, "get", sort, name, kubelet);
                    prop_assert!(!has_lost || affected.has(kubelet), "{:?} {}", sort, name);
                }
            }
            if before == graph {
                prop_assert!(affected.is_nobody());
            }
        }
    }

    /// It depends on nothing but the objects that are there, and tells what a look at all of them tells.
    #[test]
    fn a_graph_is_its_objects(changes in prop::collection::vec((object(), name(), prop::bool::weighted(0.7)), 1..50)) {
        let (mut objects, mut changed) = (Objects::new(), NodeGraph::default());
        let before = changed.clone();
        for ((kind, object), name, is_put) in changes {
            if is_put {
                put(&mut changed, kind, name, &object);
                objects.insert(key(kind, name), (kind, object));
            } else {
                changed.remove(kind, "n", name);
                objects.remove(&key(kind, name));
            }
        }
        let mut afresh = NodeGraph::default();
        objects.iter().for_each(|((_, name), (kind, object))| put(&mut afresh, *kind, name, object));
        prop_assert_eq!(&changed, &afresh);
        prop_assert_eq!(before, NodeGraph::default());
        for sort in SORTS {
            for (name, node) in NAMES.iter().flat_map(|name| NODES[1..].iter().map(move |node| (*name, *node))) {
                let namespace = if matches!(sort, Sort::Attachment | Sort::Volume) { "" } else { "n" };
                let ours = changed.belongs(VertexRef { sort, namespace, name }, node);
                prop_assert_eq!(ours, scan(&objects, sort, name, node), "{:?} {} {}", sort, name, node);
            }
        }
    }
}

#[test]
fn what_is_no_object_says_nothing() {
    let mut graph = NodeGraph::default();
    let secret = VertexRef { sort: Sort::Secret, namespace: "n", name: "s" };
    put(&mut graph, Kind::Pod, "a", &json!({"spec": {"nodeName": "n1", "imagePullSecrets": [{"name": "s"}]}}));
    assert!(graph.belongs(secret, "n1"));
    graph.put(Kind::Pod, "n", "a", br#"{"spec":{"nodeName":7}}"#).expect_err("a name is a string");
    assert_eq!(graph, NodeGraph::default());
    put(
        &mut graph,
        Kind::Pod,
        "a",
        &json!({"spec": {"nodeName": "n1", "imagePullSecrets": [{"name": "s"}], "volumes": null, "containers": [{}]}}),
    );
    put(
        &mut graph,
        Kind::Pod,
        "a",
        &json!({"spec": {"nodeName": "n2"}, "status": {"extendedResourceClaimStatus": {"resourceClaimName": "r"}}}),
    );
    assert!(!graph.belongs(secret, "n1") && graph.belongs(VertexRef { sort: Sort::ResourceClaim, name: "r", ..secret }, "n2"));
}
