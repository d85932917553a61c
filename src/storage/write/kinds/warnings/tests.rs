//! What kube-apiserver warned of, of each sort.

use serde_json::{Value, json};

use super::super::{Part, warned as of};

fn told(id: &str, object: Value) -> Vec<String> {
    of(id, Part::Main, None, &object)
}

fn pod(spec: Value) -> Vec<String> {
    told("pods", json!({"metadata": {"name": "a"}, "spec": spec}))
}

#[test]
fn volumes_that_are_deprecated() {
    let volumes =
        json!([{"name": "r", "rbd": {}}, {"name": "g", "gitRepo": {}}, {"name": "s", "storageos": {}}, {"name": "e", "emptyDir": {}}]);
    let want = [
        "spec.template.spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
        "spec.template.spec.volumes[1].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        "spec.template.spec.volumes[2].storageOS: deprecated in v1.22, non-functional in v1.25+",
    ];
    let set = |name: &str, generation: i64| json!({"metadata": {"name": name, "generation": generation}, "spec": {"template": {"spec": {"volumes": volumes}}}});
    assert_eq!(told("deployments", set("a", 1)), want);
    assert_eq!(of("deployments", Part::Main, Some(&set("a", 1)), &set("a", 1)), Vec::<String>::new(), "nothing was counted");
    assert_eq!(of("deployments", Part::Main, Some(&set("a", 1)), &set("a", 2)), want);
    let named = told("deployments", set("a.b", 1));
    assert!(named[0].starts_with("metadata.name: this is used in Pod names and hostnames") && named.len() == 4, "{named:?}");
    assert_eq!(told("persistentvolumes", json!({"spec": {"rbd": {}}})), ["spec.rbd: deprecated in v1.28, non-functional in v1.31+"]);
}

#[test]
fn what_hides_something_else_in_a_pod() {
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}]);
    assert_eq!(
        pod(json!({"containers": [{"env": env}]})),
        ["spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply"]
    );
    let ports = json!([{"containerPort": 1, "protocol": "TCP", "name": "p"}, {"containerPort": 1, "protocol": "TCP", "hostPort": 2, "name": "p"}, {"containerPort": 3, "hostIP": "1.2.3.4", "protocol": "UDP"}]);
    assert_eq!(
        pod(json!({"containers": [{"ports": ports}]})),
        [
            "spec.containers[0].ports[1]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[2]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:3 Protocol:UDP HostIP:1.2.3.4}",
            "spec.containers[0].ports[1]: duplicate port name \"p\" with spec.containers[0].ports[0], services and probes that select ports by name will \
             use spec.containers[0].ports[0]",
        ]
    );
    let map = json!({"name": "m", "items": [{"path": "a"}, {"path": "a/b/"}, {"path": "c"}]});
    assert_eq!(
        pod(json!({"volumes": [{"name": "v", "configMap": map}]})),
        ["volume \"v\" (ConfigMap \"m\"): overlapping paths: \"a/b\" with \"a\""]
    );
    assert_eq!(
        pod(json!({"volumes": [{"name": "v", "projected": {"sources": [{}]}}]})),
        ["volume \"v\" (Projected) has no sources provided"]
    );
}

#[test]
fn odd_values_in_a_pod() {
    let spec = json!({"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}], "terminationGracePeriodSeconds": -3, "overhead": {"memory": "1500m", "cpu": "1m"},
        "topologySpreadConstraints": [{"topologyKey": "beta.kubernetes.io/os"}], "hostAliases": [{"ip": "010.0.0.1"}], "nodeSelector": {"beta.kubernetes.io/arch": "x"}});
    assert_eq!(
        told("podtemplates", json!({"metadata": {}, "template": {"spec": spec}})),
        [
            "template.spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \"kubernetes.io/arch\" instead",
            "template.spec.topologySpreadConstraints[0].topologyKey: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "template.spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
            "template.spec.imagePullSecrets[1].name: duplicate name \"a\"",
            "template.spec.imagePullSecrets[2].name: invalid empty name \"\"",
            "template.spec.overhead[memory]: fractional byte value \"1500m\" is invalid, must be an integer",
            "template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
            "template.spec.hostAliases[0].ip: non-standard IP address \"010.0.0.1\" is invalid: use \"10.0.0.1\"",
        ]
    );
}

#[test]
fn what_a_service_ignores() {
    let service = |spec: Value| told("services/specs", json!({"metadata": {}, "spec": spec}));
    assert_eq!(
        service(
            json!({"type": "ClusterIP", "clusterIP": "None", "externalIPs": ["1.2.3.4"], "sessionAffinity": "ClientIP", "loadBalancerIP": "::FFFF"})
        ),
        [
            "spec.loadBalancerIP is ignored for headless services",
            "spec.externalIPs is ignored for headless services",
            "spec.SessionAffinity is ignored for headless services",
            "spec.loadBalancerIP: IPv6 address \"::FFFF\" should be in RFC 5952 canonical format (\"::ffff\")",
        ]
    );
    assert_eq!(
        service(json!({"type": "ClusterIP", "externalName": "x", "externalIPs": ["1.2.3.4"], "trafficDistribution": "PreferClose"})),
        [
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ]
    );
}

#[test]
fn single_rules() {
    let check = |id: &str, object: Value, want: &str| assert_eq!(told(id, object), [want], "{id}");
    check("endpointslices", json!({"addressType": "FQDN", "endpoints": []}), "spec.addressType: FQDN endpoints are deprecated");
    check("minions", json!({"spec": {"externalID": "x"}}), "spec.externalID: this field is deprecated, and is unused by Kubernetes");
    check(
        "resourcequotas",
        json!({"spec": {"hard": {"cpu": "2", "limits.cpu": "1"}}}),
        "ResourceQuota cpu (2) should be less than limits.cpu (1)",
    );
    check(
        "ingress",
        json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": "x"}}}),
        "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead",
    );
    check(
        "networkpolicies",
        json!({"spec": {"egress": [{"to": [{"ipBlock": {"cidr": "10.1.0.0/8"}}]}]}}),
        "spec.egress[0].to[0].ipBlock.cidr: CIDR value \"10.1.0.0/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.0.0/32\"?)",
    );
    check("secrets", json!({"type": "kubernetes.io/tls"}), "tls: failed to find any PEM data in certificate input");
    check(
        "validatingwebhookconfigurations",
        json!({"metadata": {"name": "a.static.k8s.io"}}),
        "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be managed via the API",
    );
    let status = json!({"status": {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "FD00::"}]}});
    assert_eq!(
        of("pods", Part::Status, Some(&status), &status),
        ["status.podIPs[1].ip: IPv6 address \"FD00::\" should be in RFC 5952 canonical format (\"fd00::\")"]
    );
}
