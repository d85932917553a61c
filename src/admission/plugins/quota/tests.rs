//! Cases of kube-apiserver's `resourcequota/admission_test.go` and of the evaluators' tests.

use serde_json::json;

use super::*;
use crate::plugins::testing::{creation, update};

fn amounts(text: &str) -> Value {
    let parts = text.split_whitespace().filter_map(|part| part.split_once('='));
    Value::Object(parts.map(|(name, amount)| (name.to_owned(), amount.into())).collect())
}

fn quota(hard: &str, used: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["hard"] = amounts(hard);
    json!({"metadata": {"name": "quota", "namespace": "ns"}, "spec": spec, "status": {"hard": amounts(hard), "used": amounts(used)}})
}

fn container(requests: &str, limits: &str) -> Value {
    json!({"name": "c", "resources": {"requests": amounts(requests), "limits": amounts(limits)}})
}

fn pod(containers: &[Value]) -> Value {
    json!({"metadata": {"name": "p", "resourceVersion": "1"}, "spec": {"containers": containers}, "status": {"qosClass": "Burstable"}})
}

/// What a write adds to the only quota, as text.
fn charged(write: &Write<'_>, object: &Value, quota: &Value) -> Result<String, String> {
    match charge(&[], write, object, &[quota]) {
        Ok(charges) => {
            let used = charges.first().and_then(|charge| charge.used.as_object());
            let parts = used.into_iter().flatten().map(|(name, amount)| format!("{name}={}", amount.as_str().unwrap_or_default()));
            Ok(parts.collect::<Vec<_>>().join(" "))
        }
        Err(Denial::Forbidden { why, .. }) => Err(why),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn pods_are_counted_by_what_they_ask_for() {
    let small = pod(&[container("cpu=100m memory=1Gi", "cpu=200m memory=2Gi")]);
    for (object, hard, used, want) in [
        (&small, "pods=3", "pods=1", Ok("pods=2")),
        (&small, "count/pods=3", "count/pods=0", Ok("count/pods=1")),
        (&small, "cpu=3 memory=100Gi pods=5", "cpu=1 memory=50Gi pods=3", Ok("cpu=1100m memory=51Gi pods=4")),
        (&small, "requests.cpu=1 limits.memory=2Gi", "requests.cpu=0 limits.memory=0", Ok("limits.memory=2Gi requests.cpu=100m")),
        (&small, "services=3", "services=1", Ok("")),
        (&small, "pods=3", "pods=3", Err("exceeded quota: quota, requested: pods=1, used: pods=3, limited: pods=3")),
        (
            &small,
            "cpu=3 memory=1Gi",
            "cpu=2950m memory=1Mi",
            Err("exceeded quota: quota, requested: cpu=100m,memory=1Gi, used: cpu=2950m,memory=1Mi, limited: cpu=3,memory=1Gi"),
        ),
        (&small, "pods=3", "", Err("status unknown for quota: quota, resources: pods")),
        (
            &pod(&[container("", "")]),
            "cpu=3 memory=1Gi",
            "cpu=0 memory=0",
            Err("failed quota: quota: must specify cpu for: c; memory for: c"),
        ),
        (&pod(&[container("cpu=1", "")]), "limits.cpu=3", "limits.cpu=0", Err("failed quota: quota: must specify limits.cpu for: c")),
        (
            &pod(&[container("example.com/gpu=2 hugepages-2Mi=4Mi", "")]),
            "requests.example.com/gpu=3 hugepages-2Mi=8Mi",
            "requests.example.com/gpu=0 hugepages-2Mi=0",
            Ok("hugepages-2Mi=4Mi requests.example.com/gpu=2"),
        ),
    ] {
        let want = want.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(charged(&creation("pods"), object, &quota(hard, used, json!({}))), want, "{hard}");
    }
    let status = Write { subresource: "status", ..update("pods", &small) };
    assert_eq!(charged(&status, &small, &quota("pods=0", "pods=0", json!({}))).as_deref(), Ok(""));
}

#[test]
fn a_resize_adds_what_is_new() {
    let (old, new) = (pod(&[container("cpu=100m", "")]), pod(&[container("cpu=300m", "")]));
    let write = Write { subresource: "resize", ..update("pods", &old) };
    assert_eq!(charged(&write, &new, &quota("cpu=1 pods=1", "cpu=500m pods=1", json!({}))).as_deref(), Ok("cpu=700m pods=1"));
    let back = Write { subresource: "resize", ..update("pods", &new) };
    assert_eq!(charged(&back, &old, &quota("cpu=1", "cpu=500m", json!({}))).as_deref(), Ok(""), "the controller takes it back");
    assert_eq!(charged(&update("pods", &old), &new, &quota("cpu=1", "cpu=1", json!({}))).as_deref(), Ok(""), "it is no such update");
}

#[test]
fn scopes_choose_among_pods() {
    let mut ending = pod(&[container("", "")]);
    ending["spec"]["activeDeadlineSeconds"] = 5.into();
    let mut best = pod(&[container("", "")]);
    best["status"]["qosClass"] = "BestEffort".into();
    let mut classed = pod(&[container("", "")]);
    classed["spec"]["priorityClassName"] = "high".into();
    let mut foreign = pod(&[container("", "")]);
    foreign["spec"]["affinity"] =
        json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"podAffinityTerm": {"namespaces": ["x"]}}]}});
    let plain = pod(&[container("", "")]);
    let select = |operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": values}]}});
    for (spec, matching) in [
        (json!({"scopes": ["Terminating"]}), vec![&ending]),
        (json!({"scopes": ["NotTerminating"]}), vec![&best, &classed, &foreign, &plain]),
        (json!({"scopes": ["BestEffort"]}), vec![&best]),
        (json!({"scopes": ["NotBestEffort", "Terminating"]}), vec![&ending]),
        (json!({"scopes": ["PriorityClass"]}), vec![&classed]),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), vec![&foreign]),
        (json!({"scopes": ["VolumeAttributesClass"]}), vec![]),
        (select("In", json!(["high"])), vec![&classed]),
        (select("In", json!(["low"])), vec![]),
        (select("NotIn", json!(["high"])), vec![&ending, &best, &foreign, &plain]),
        (select("DoesNotExist", json!([])), vec![&ending, &best, &foreign, &plain]),
        (select("Exists", json!([])), vec![&classed]),
    ] {
        for object in [&ending, &best, &classed, &foreign, &plain] {
            let is_charged =
                charged(&creation("pods"), object, &quota("pods=9", "pods=0", spec.clone())).expect("there is room") == "pods=1";
            assert_eq!(is_charged, matching.contains(&object), "{spec} {object}");
        }
    }
}

#[test]
fn services_claims_and_other_objects_are_counted() {
    let service = |kind: &str, ports: usize, more: Value| {
        let mut service =
            json!({"metadata": {"resourceVersion": "1"}, "spec": {"type": kind, "ports": vec![json!({"nodePort": 0}); ports]}});
        more.as_object().into_iter().flatten().for_each(|(name, value)| service["spec"][name] = value.clone());
        service
    };
    let all = |used: &str| quota("services=9 services.nodeports=3 services.loadbalancers=1 count/services=9", used, json!({}));
    let none = "services=0 services.nodeports=0 services.loadbalancers=0 count/services=0";
    for (object, want) in [
        (service("ClusterIP", 2, json!({})), "count/services=1 services=1 services.loadbalancers=0 services.nodeports=0"),
        (service("NodePort", 2, json!({})), "count/services=1 services=1 services.loadbalancers=0 services.nodeports=2"),
        (service("LoadBalancer", 3, json!({})), "count/services=1 services=1 services.loadbalancers=1 services.nodeports=3"),
        (
            service("LoadBalancer", 3, json!({"allocateLoadBalancerNodePorts": false})),
            "count/services=1 services=1 services.loadbalancers=1 services.nodeports=0",
        ),
    ] {
        assert_eq!(charged(&creation("services"), &object, &all(none)).as_deref(), Ok(want));
    }
    let (old, new) = (service("ClusterIP", 1, json!({})), service("NodePort", 4, json!({})));
    assert_eq!(
        charged(&update("services", &old), &new, &all(none)),
        Err("exceeded quota: quota, requested: services.nodeports=4, used: services.nodeports=0, limited: services.nodeports=3".to_owned())
    );
    let claim = json!({"metadata": {"name": "c"}, "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "10Gi"}}}});
    let hard = "gold.storageclass.storage.k8s.io/requests.storage=20Gi persistentvolumeclaims=2 requests.storage=30Gi silver.storageclass.storage.k8s.io/persistentvolumeclaims=0";
    let used = "gold.storageclass.storage.k8s.io/requests.storage=5Gi persistentvolumeclaims=1 requests.storage=5Gi silver.storageclass.storage.k8s.io/persistentvolumeclaims=0";
    assert_eq!(
        charged(&creation("persistentvolumeclaims"), &claim, &quota(hard, used, json!({}))).as_deref(),
        Ok(
            "gold.storageclass.storage.k8s.io/requests.storage=15Gi persistentvolumeclaims=2 requests.storage=15Gi silver.storageclass.storage.k8s.io/persistentvolumeclaims=0"
        )
    );
    for (group, resource, name) in [
        ("", "configmaps", "configmaps"),
        ("", "secrets", "count/secrets"),
        ("apps", "deployments", "count/deployments.apps"),
        ("ex.io", "things", "count/things.ex.io"),
    ] {
        let write = Write { group, ..creation(resource) };
        let want = format!("exceeded quota: quota, requested: {name}=1, used: {name}=1, limited: {name}=1");
        let of = |hard: &str, used: &str| quota(&format!("{name}={hard}"), &format!("{name}={used}"), json!({}));
        assert_eq!(charged(&write, &json!({}), &of("1", "1")), Err(want));
        assert_eq!(charged(&write, &json!({}), &of("2", "1")), Ok(format!("{name}=2")));
        assert_eq!(charged(&Write { operation: Operation::Update, ..write }, &json!({}), &of("1", "1")), Ok(String::new()));
    }
    assert_eq!(Counter::of("", "events"), None);
}

#[test]
fn a_sum_has_all_that_a_quota_limits() {
    let mut quota = quota("pods=9 cpu=9 configmaps=9 requests.example.com/gpu=1", "", json!({}));
    let (pods, maps) = (Counter::Pods, Counter::of("", "configmaps").expect("counted"));
    let mut finished = pod(&[container("cpu=5", "")]);
    finished["status"]["phase"] = "Succeeded".into();
    let used = {
        let mut sum = Sum::of(&quota);
        assert_eq!(sum.counted(&pods), ["cpu", "pods", "requests.example.com/gpu"]);
        sum.begin(&pods);
        sum.begin(&maps);
        sum.add(&pods, &pod(&[container("cpu=1500m", "")]), false);
        sum.add(&pods, &pod(&[container("cpu=500m", "")]), false);
        sum.add(&pods, &pod(&[container("cpu=500m", "")]), true);
        sum.add(&pods, &finished, false);
        sum.add(&maps, &json!({}), false);
        assert!(!sum.is_stored());
        sum.used()
    };
    assert_eq!(used, json!({"configmaps": "1", "cpu": "2", "pods": "2", "requests.example.com/gpu": "0"}));
    quota["status"]["used"] = used;
    let mut sum = Sum::of(&quota);
    sum.begin(&maps);
    assert!(!sum.is_stored(), "not all is counted");
}

/// Cases of `TestPodEvaluatorUsageResourceResize`.
#[test]
fn a_pod_that_is_resized_counts_by_the_most() {
    let mut resized = pod(&[container("cpu=100m", "cpu=200m")]);
    resized["status"]["containerStatuses"] = json!([{
        "name": "c", "allocatedResources": {"cpu": "150m"}, "resources": {"requests": {"cpu": "120m"}, "limits": {"cpu": "300m"}},
    }]);
    let usage = |pod: &Value| {
        let used = Counter::Pods.usage(pod);
        (used["requests.cpu"].to_string(), used["limits.cpu"].to_string())
    };
    assert_eq!(usage(&resized), ("150m".to_owned(), "300m".to_owned()));
    resized["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1".into();
    assert_eq!(usage(&resized).0, "1");
    resized["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
    assert_eq!(usage(&resized), ("150m".to_owned(), "300m".to_owned()));
}

#[test]
fn what_is_limited_needs_a_quota() {
    let limited = |resource: &str, contains: &[&str], scopes: Value| LimitedResource {
        resource: resource.to_owned(),
        contains: contains.iter().map(|part| (*part).to_owned()).collect(),
        scopes: scopes.as_array().cloned().unwrap_or_default(),
        ..LimitedResource::default()
    };
    let high = json!([{"scopeName": "PriorityClass", "operator": "In", "values": ["high", "top"]}]);
    let mut important = pod(&[container("cpu=1", "cpu=2")]);
    important["spec"]["priorityClassName"] = "high".into();
    let plain = pod(&[container("cpu=1", "cpu=2")]);
    let of_high =
        quota("pods=5", "pods=0", json!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}}));
    let (of_cpu, of_pods) = (quota("requests.cpu=5", "requests.cpu=0", json!({})), quota("pods=5", "pods=0", json!({})));
    let uncovered = Err("insufficient quota to match these scopes: [{PriorityClass In [high top]}]".to_owned());
    let unlimited = |what: &str| Err(format!("insufficient quota to consume: {what}"));
    for (limits, object, quotas, want) in [
        (limited("pods", &["requests.cpu"], Value::Null), &plain, vec![], unlimited("requests.cpu")),
        (limited("pods", &["cpu"], Value::Null), &plain, vec![&of_pods], unlimited("cpu,limits.cpu,requests.cpu")),
        (limited("pods", &["requests.cpu"], Value::Null), &plain, vec![&of_cpu], Ok(1)),
        (limited("secrets", &["cpu"], Value::Null), &plain, vec![], Ok(0)),
        (limited("pods", &[], high.clone()), &plain, vec![], Ok(0)),
        (limited("pods", &[], high.clone()), &important, vec![], uncovered.clone()),
        (limited("pods", &[], high.clone()), &important, vec![&of_pods], uncovered),
        (limited("pods", &[], high), &important, vec![&of_high], Ok(1)),
    ] {
        let made = charge(std::slice::from_ref(&limits), &creation("pods"), object, &quotas).map(|charges| charges.len());
        let made = made.map_err(|denial| match denial {
            Denial::Forbidden { why, .. } | Denial::Failed(why) => why,
            Denial::Invalid(_) => panic!("{denial:?}"),
        });
        assert_eq!(made, want, "{limits:?}");
    }
}
