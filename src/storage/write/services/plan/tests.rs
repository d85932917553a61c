//! Each was sent to a kube-apiserver (`tests/differential/services.py` sends more).

use std::net::IpAddr;

use serde_json::Value;

use super::*;
use crate::write::services::{
    AddressRange, PortRange, Ports,
    pools::{Found, State, StoredPorts},
    spec::{IPV4, Port},
};
use model::Revision;

const PORTS: PortRange = PortRange { base: 30000, size: 50 };

/// What a write comes to, and what it takes and gives back.
fn tried(
    state: &mut State,
    dry_run: bool,
    both: bool,
    write: impl FnOnce(Families, &mut Pools<'_>) -> Result<(), Refusal>,
) -> Result<(), String> {
    let ranges: Vec<AddressRange> =
        ["10.0.0.0/24", "fd00::/112"].iter().take(1 + usize::from(both)).filter_map(|range| AddressRange::parse(range)).collect();
    state.ports.get_or_insert_with(|| StoredPorts { ports: Ports::none(PORTS), revision: Revision(5) });
    let is_cached = |ip: IpAddr| ip.to_string() == "10.0.0.200";
    let kept = ranges.first().map(AddressRange::first);
    let mut pools = Pools { ranges: &ranges, is_cached: &is_cached, dry_run, by_server: false, configured: PORTS, kept, state };
    pools.begin();
    write(Families { first: IPV4, has_both: both }, &mut pools).map_err(|refusal| match refusal {
        Refusal::Invalid(errors) => errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect::<Vec<_>>().join("; "),
        Refusal::Internal(why) | Refusal::Raw(why) => why,
        Refusal::Missing => "missing".to_owned(),
    })
}

fn spec(service: Value) -> Spec {
    Spec::of(&json!({ "spec": service }))
}

fn created(both: bool, service: Value) -> Result<Spec, String> {
    let mut spec = spec(service);
    tried(&mut State::default(), false, both, |families, pools| create(families, pools, "s", &mut spec)).map(|()| spec)
}

fn updated(both: bool, old: &Spec, service: Value) -> Result<(Spec, State), String> {
    let (mut spec, mut state) = (spec(service), State::default());
    let mut ports = Ports::none(PORTS);
    old.held_ports().into_iter().for_each(|port| drop(ports.take(port)));
    state.ports = Some(StoredPorts { ports, revision: Revision(5) });
    tried(&mut state, false, both, |families, pools| update(families, pools, "s", &mut spec, old)).map(|()| (spec, state))
}

#[test]
fn families_follow_from_what_is_asked_for() {
    let families =
        |both: bool, service: Value| created(both, service).map(|spec| (spec.families.join(","), spec.policy.unwrap_or_default()));
    let is = |families: &str, policy: &str| Ok((families.to_owned(), policy.to_owned()));
    assert_eq!(families(false, json!({"type": "ClusterIP"})), is("IPv4", "SingleStack"));
    assert_eq!(families(true, json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"})), is("IPv4,IPv6", "PreferDualStack"));
    assert_eq!(families(false, json!({"type": "ClusterIP", "ipFamilyPolicy": "PreferDualStack"})), is("IPv4", "PreferDualStack"));
    assert_eq!(families(true, json!({"type": "ClusterIP", "clusterIP": "fd00::5"})), is("IPv6", "SingleStack"));
    assert_eq!(families(false, json!({"type": "ClusterIP", "clusterIP": "None"})), is("IPv4,IPv6", "RequireDualStack"));
    assert_eq!(families(false, json!({"type": "ClusterIP", "clusterIP": "None", "selector": {"a": "b"}})), is("IPv4", "SingleStack"));
    assert_eq!(families(false, json!({"type": "ExternalName"})), is("", ""));
    for (service, want) in [
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (json!({"ipFamilies": ["IPv6"]}), "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster"),
        (json!({"clusterIP": "fd00::5"}), "spec.clusterIPs[0]: Invalid value: [\"fd00::5\"]: IPv6 is not configured on this cluster"),
        (
            json!({"clusterIPs": ["10.0.0.5"]}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.5\"]: must be empty when `clusterIP` is not specified",
        ),
        (json!({"clusterIP": "010.0.0.5"}), "spec.clusterIPs[0]: Invalid value: \"010.0.0.5\": must not have leading 0s"),
        (json!({"ipFamilies": ["IPv4", "IPv4"]}), "spec.ipFamilies[1]: Duplicate value: \"IPv4\""),
    ] {
        assert_eq!(families(false, service.clone()), Err(want.to_owned()), "{service}");
    }
}

#[test]
fn an_address_is_had_once() {
    let asked = |ip: &str, found: Option<Found>| {
        let (mut spec, mut state) = (spec(json!({"type": "ClusterIP", "clusterIP": ip})), State::default());
        state.found.extend(found.map(|found| (ip.parse().expect("an address"), found)));
        tried(&mut state, false, false, |families, pools| create(families, pools, "s", &mut spec)).map(|()| state.plan.taken)
    };
    let refused = |ip: &str, why: &str| Err(format!("spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: {why}"));
    assert_eq!(asked("10.0.0.5", None), Ok(vec!["10.0.0.5".parse().expect("an address")]));
    assert_eq!(asked("10.0.0.1", None), refused("10.0.0.1", "provided IP is already allocated"));
    assert_eq!(asked("10.0.0.200", None), Err("missing".to_owned()), "the cache may be behind");
    assert_eq!(asked("10.0.0.200", Some(Found::Taken)), refused("10.0.0.200", "provided IP is already allocated"));
    assert_eq!(asked("10.0.0.200", Some(Found::Own)), refused("10.0.0.200", "provided IP is already allocated"));
    assert_eq!(asked("10.0.0.200", Some(Found::Free)).map(|taken| taken.len()), Ok(1));
    assert_eq!(asked("10.0.1.1", None), refused("10.0.1.1", "the provided network does not match the current range"));
}

#[test]
fn ports_of_one_number_share_a_node_port() {
    let ports = |ports: Value| {
        created(false, json!({"type": "NodePort", "ports": ports}))
            .map(|spec| spec.ports.iter().map(|port| port.node_port).collect::<Vec<_>>())
    };
    let shared = ports(json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}])).expect("free");
    assert_eq!(shared[0], shared[1]);
    assert_eq!(ports(json!([{"port": 53}, {"port": 53, "nodePort": 30007}])), Ok(vec![30007, 30007]));
    let twice = json!([{"port": 1, "nodePort": 30007}, {"port": 2, "nodePort": 30007}]);
    assert_eq!(ports(twice), Err("spec.ports[1].nodePort: Invalid value: 30007: provided port is already allocated".to_owned()));
    let none = created(
        false,
        json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": [{"port": 1}, {"port": 2, "nodePort": 30009}]}),
    );
    assert_eq!(none.map(|spec| spec.node_ports().collect::<Vec<_>>()), Ok(vec![30009]));
    let health = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 80, "ports": [{"port": 1}]});
    let why = "failed to allocate requested HealthCheck NodePort 80: provided port is not in the valid range. The range of valid ports is 30000-30049";
    assert_eq!(created(false, health), Err(why.to_owned()));
}

#[test]
fn a_change_takes_and_gives_back() {
    let old = created(
        true,
        json!({"type": "NodePort", "ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}),
    )
    .expect("free");
    let [first, second] = [0, 1].map(|i| old.cluster_ips[i].parse::<IpAddr>().expect("an address"));
    let held: Vec<i64> = old.node_ports().collect();
    // The same again, without what was allocated.
    let (same, state) =
        updated(true, &old, json!({"type": "NodePort", "ports": [{"port": 90, "name": "a"}, {"port": 81, "name": "b"}]})).expect("kept");
    assert_eq!((&same.cluster_ips, same.node_ports().collect::<Vec<_>>()), (&old.cluster_ips, held.clone()));
    assert_eq!((state.plan.taken, state.plan.released), (vec![], vec![]));
    let (single, state) =
        updated(true, &old, json!({"type": "ClusterIP", "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}]})).expect("less");
    assert_eq!((single.cluster_ips, state.plan.released), (vec![first.to_string()], vec![second]));
    assert_eq!(state.plan.ports.map(|ports| ports.all().count()), Some(0), "both ports are free");
    let (_, state) = updated(true, &old, json!({"type": "ExternalName"})).expect("none");
    assert_eq!(state.plan.released, [first, second]);
    let before = Spec { ports: vec![Port { port: 80, ..Port::default() }], kind: "ClusterIP".to_owned(), ..Spec::default() };
    let (now, state) = updated(false, &before, json!({"type": "ClusterIP", "ports": [{"port": 80}]})).expect("it gets one");
    assert_eq!((now.cluster_ips.len(), state.plan.taken.len()), (1, 1), "it was stored while nobody allocated");
    let less = json!({"type": "NodePort", "clusterIP": first.to_string(), "clusterIPs": [first.to_string()], "ports": [{"port": 80}]});
    let why = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary cluster IP";
    assert_eq!(updated(true, &old, less).map(drop), Err(why.to_owned()));
}

#[test]
fn a_dry_run_guesses() {
    let (mut spec, mut state) = (spec(json!({"type": "NodePort", "ports": [{"port": 80}, {"port": 81}]})), State::default());
    tried(&mut state, true, false, |families, pools| create(families, pools, "s", &mut spec)).expect("it takes nothing");
    assert_eq!((&*spec.cluster_ip, spec.node_ports().collect::<Vec<_>>()), ("10.0.0.0", vec![32769, 32770]));
    assert!(state.plan.taken.is_empty() && state.plan.ports.is_none_or(|ports| ports.all().count() == 0));
}
