//! The cases of kube-apiserver's `admission_test.go`.

use serde_json::json;

use super::*;
use crate::plugins::{
    Plugin,
    testing::{Objects, admitted, creation, update},
};

fn ranges(limits: Value) -> Objects {
    Objects::of(Lookup::LimitRange, &[json!({"metadata": {"name": "abc", "namespace": "ns"}, "spec": {"limits": limits}})])
}

/// Amounts of `cpu` and `memory`, or of what the text names: `memory=1Gi`.
fn amounts(text: &str) -> Value {
    let mut made = json!({});
    for part in text.split_whitespace() {
        let (name, amount) = part.split_once('=').unwrap_or(("cpu", part));
        made[name] = amount.into();
    }
    made
}

fn container(name: &str, requests: &str, limits: &str) -> Value {
    json!({"name": name, "resources": {"requests": amounts(requests), "limits": amounts(limits)}})
}

fn a_pod(count: usize, requests: &str, limits: &str) -> Value {
    let containers: Vec<Value> = (0..count).map(|n| container(&format!("foo-{n}"), requests, limits)).collect();
    json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": {"containers": containers}})
}

fn with_init(mut pod: Value, inits: &[(&str, &str)]) -> Value {
    let inits = inits.iter().enumerate().map(|(n, (requests, limits))| container(&format!("foo-{n}"), requests, limits));
    pod["spec"]["initContainers"] = inits.collect::<Vec<_>>().into();
    pod
}

fn whole(mut pod: Value, requests: &str, limits: &str) -> Value {
    pod["spec"]["resources"] = json!({"requests": amounts(requests), "limits": amounts(limits)});
    pod
}

fn refused(pod: &Value, kind: &str, member: &str, limit: &str) -> Option<String> {
    let limits = json!([{"type": kind, member: amounts(limit)}]);
    admitted(Plugin::LimitRanger, &creation("pods"), pod, &ranges(limits)).err()
}

/// The cases of `TestPodLimitFunc` that pass.
#[test]
fn what_is_within_the_limits_passes() {
    for (pod, kind, member, limit) in [
        (a_pod(1, "100m", ""), "Container", "min", "50m"),
        (a_pod(1, "100m", "200m"), "Container", "min", "50m"),
        (a_pod(1, "memory=60Mi", "memory=100Mi"), "Container", "min", "memory=50Mi"),
        (a_pod(1, "500m", "1"), "Container", "max", "2"),
        (a_pod(1, "", "1"), "Container", "max", "2"),
        (a_pod(1, "memory=250Mi", "memory=500Mi"), "Container", "max", "memory=1Gi"),
        (a_pod(1, "500m", "750m"), "Container", "maxLimitRequestRatio", "1.5"),
        (a_pod(2, "75m", ""), "Pod", "min", "100m"),
        (a_pod(2, "75m", "200m"), "Pod", "min", "100m"),
        (with_init(a_pod(2, "memory=60Mi", ""), &[("memory=100Mi", "")]), "Pod", "min", "memory=100Mi"),
        (with_init(a_pod(2, "500m", "1"), &[("1", "2"), ("1", "1")]), "Pod", "max", "2"),
        (a_pod(3, "memory=300Mi", "memory=450Mi"), "Pod", "maxLimitRequestRatio", "memory=1.5"),
        (a_pod(1, "ephemeral-storage=60Mi", ""), "Container", "min", "ephemeral-storage=50Mi"),
        (whole(a_pod(3, "100m", "200m"), "200m", "400m"), "Pod", "max", "400m"),
        (whole(a_pod(3, "50m memory=60Mi", ""), "160m memory=200Mi", ""), "Pod", "min", "160m memory=200Mi"),
        (whole(a_pod(3, "", "50m memory=60Mi"), "", "160m memory=200Mi"), "Pod", "max", "160m memory=200Mi"),
    ] {
        assert_eq!(refused(&pod, kind, member, limit), None, "{kind} {member} {limit}");
    }
}

/// The cases of `TestPodLimitFunc` that fail, with their texts.
#[test]
fn what_is_beyond_the_limits_is_refused() {
    for (pod, kind, member, limit, want) in [
        (a_pod(1, "40m", ""), "Container", "min", "50m", "minimum cpu usage per Container is 50m, but request is 40m"),
        (a_pod(1, "40m", "200m"), "Container", "min", "50m", "minimum cpu usage per Container is 50m, but request is 40m"),
        (a_pod(1, "60m", "40m"), "Container", "min", "50m", "minimum cpu usage per Container is 50m, but limit is 40m"),
        (a_pod(1, "", ""), "Container", "min", "50m", "minimum cpu usage per Container is 50m.  No request is specified"),
        (a_pod(1, "500m", "2500m"), "Container", "max", "2", "maximum cpu usage per Container is 2, but limit is 2500m"),
        (a_pod(1, "", ""), "Container", "max", "2", "maximum cpu usage per Container is 2.  No limit is specified"),
        (a_pod(1, "3", "1"), "Container", "max", "2", "maximum cpu usage per Container is 2, but request is 3"),
        (
            a_pod(1, "1250m", "2500m"),
            "Container",
            "maxLimitRequestRatio",
            "1",
            "cpu max limit to request ratio per Container is 1, but provided ratio is 2.000000",
        ),
        (
            a_pod(1, "", "1"),
            "Container",
            "maxLimitRequestRatio",
            "1",
            "cpu max limit to request ratio per Container is 1, but no request is specified or request is 0",
        ),
        (
            a_pod(1, "1", ""),
            "Container",
            "maxLimitRequestRatio",
            "1",
            "cpu max limit to request ratio per Container is 1, but no limit is specified or limit is 0",
        ),
        (a_pod(1, "75m", ""), "Pod", "min", "100m", "minimum cpu usage per Pod is 100m, but request is 75m"),
        (
            with_init(a_pod(2, "memory=60Mi", "memory=80Mi"), &[("memory=40Mi", "memory=2Gi")]),
            "Pod",
            "max",
            "memory=1Gi",
            "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
        ),
        (a_pod(3, "memory=250Mi", "memory=500Mi"), "Pod", "max", "memory=1Gi", "maximum memory usage per Pod is 1Gi, but limit is 1500Mi"),
        (
            a_pod(3, "memory=250Mi", "memory=500Mi"),
            "Pod",
            "maxLimitRequestRatio",
            "memory=1.5",
            "memory max limit to request ratio per Pod is 1500m, but provided ratio is 2.000000",
        ),
        (whole(a_pod(3, "", "50m"), "", "200m"), "Pod", "max", "160m", "maximum cpu usage per Pod is 160m, but limit is 200m"),
        (a_pod(2, "", "500m memory=1"), "Container", "max", "100m memory=1", "maximum cpu usage per Container is 100m, but limit is 500m"),
        (
            a_pod(1, "", ""),
            "Container",
            "max",
            "2 memory=1Gi",
            "[maximum cpu usage per Container is 2.  No limit is specified, maximum memory usage per Container is 1Gi.  No limit is specified]",
        ),
    ] {
        // A stored quantity is in its normal form.
        let limit = limit.replace("1.5", "1500m");
        assert_eq!(refused(&pod, kind, member, &limit).as_deref(), Some(want), "{pod}");
    }
}

/// The cases of `TestMergePodResourceRequirements`.
#[test]
fn containers_get_what_they_do_not_say() {
    let defaults = || {
        ranges(json!([
            {"type": "Pod", "max": {"cpu": "10"}, "default": {"cpu": "9"}},
            {"type": "Container", "default": amounts("75m memory=10Mi"), "defaultRequest": amounts("50m memory=5Mi")},
        ]))
    };
    let made = |pod: &Value| admitted(Plugin::LimitRanger, &creation("pods"), pod, &defaults()).expect("within the limits");
    let note = |pod: &Value| tree::text(pod, &["metadata", "annotations", ANNOTATION]).to_owned();
    let bare = made(&json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "foo-0"}]}}));
    assert_eq!(
        bare["spec"]["containers"][0]["resources"],
        json!({"requests": amounts("50m memory=5Mi"), "limits": amounts("75m memory=10Mi")})
    );
    assert_eq!(note(&bare), "LimitRanger plugin set: cpu, memory request for container foo-0; cpu, memory limit for container foo-0");
    let some = made(&with_init(a_pod(1, "memory=512Mi", ""), &[("memory=512Mi", "")]));
    for list in ["containers", "initContainers"] {
        assert_eq!(
            some["spec"][list][0]["resources"],
            json!({"requests": amounts("50m memory=512Mi"), "limits": amounts("75m memory=10Mi")})
        );
    }
    assert_eq!(
        note(&some),
        "LimitRanger plugin set: cpu request for container foo-0; cpu, memory limit for container foo-0; cpu request for init container foo-0; \
         cpu, memory limit for init container foo-0"
    );
    let all = with_init(a_pod(1, "100m memory=512Mi", "200m memory=1G"), &[("200m memory=1G", "400m memory=2G")]);
    assert_eq!(made(&all), all);
}

/// The cases of `TestPersistentVolumeClaimLimitFunc`.
#[test]
fn claims_stay_within_their_limits() {
    let claim = |size: &str| json!({"metadata": {"name": "c"}, "spec": {"resources": {"requests": amounts(size)}}});
    for (size, member, limit, want) in [
        ("storage=1Gi", "min", "storage=1Gi", None),
        ("storage=1Gi", "max", "storage=1Gi", None),
        ("storage=500Mi", "min", "storage=1Gi", Some("minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 500Mi")),
        ("storage=11Gi", "max", "storage=10Gi", Some("maximum storage usage per PersistentVolumeClaim is 10Gi, but request is 11Gi")),
        ("", "max", "storage=10Gi", Some("maximum storage usage per PersistentVolumeClaim is 10Gi.  No request is specified")),
    ] {
        let cluster = ranges(json!([{"type": "PersistentVolumeClaim", member: amounts(limit)}]));
        let (old, sent) = (claim("storage=1Gi"), claim(size));
        for write in [creation("persistentvolumeclaims"), update("persistentvolumeclaims", &old)] {
            assert_eq!(admitted(Plugin::LimitRanger, &write, &sent, &cluster).err().as_deref(), want, "{size} {member}");
        }
    }
}

/// The cases of `TestLimitRangerIgnoresSubresource` and `TestLimitRangerAdmitPod`.
#[test]
fn what_is_judged_and_what_not() {
    let cluster = || ranges(json!([{"type": "Container", "max": {"cpu": "1"}}]));
    let (pod, leaving) = (a_pod(1, "", "2"), json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    let refused = |write: &Write<'_>| admitted(Plugin::LimitRanger, write, &pod, &cluster()).is_err();
    assert!(refused(&creation("pods")));
    assert!(!refused(&update("pods", &pod)), "resources of a Pod do not change here");
    assert!(refused(&Write { subresource: "resize", ..update("pods", &pod) }));
    assert!(!refused(&Write { subresource: "resize", ..update("pods", &leaving) }));
    assert!(!refused(&Write { subresource: "status", ..update("pods", &pod) }));
    assert!(!refused(&Write { namespace: "other", ..creation("pods") }));
}
