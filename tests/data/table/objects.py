"""The objects that record.py stores: for each built-in resource some that fill its cells in every way. Written straight to etcd, so no validation
stands between a cell and its oddest input; times are so old that their ages are told in days and years.

OBJECTS: `group/resource` to tuples of a name, the members besides metadata, and what the metadata has besides the usual. The first object of a
resource is also recorded alone, watched and deleted."""
import copy

OLD, OLDER, FUTURE = "2020-05-06T07:08:09Z", "2011-01-02T03:04:05Z", "2126-01-01T00:00:00Z"
MICRO = "2021-01-01T00:00:00.123456Z"
TEXT = "<a href='x'>&amp;</a> é \u2028 \"quoted\" \\ back \t tab 😀"


def container(name="c", image="nginx:1.27", **more):
    return {"name": name, "image": image, "resources": {}, "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent", **more}


def status(name="c", state=None, ready=False, restarts=0, last=None, **more):
    return {"name": name, "state": state or {}, "lastState": last or {}, "ready": ready, "restartCount": restarts, "image": "nginx", "imageID": "", **more}


def ended(code=0, reason=None, signal=None, at=OLD):
    return {"terminated": {"exitCode": code, **({"reason": reason} if reason else {}), **({"signal": signal} if signal else {}), "startedAt": None, "finishedAt": at}}


RUNNING = {"running": {"startedAt": OLD}}
waiting = lambda reason="": {"waiting": {"reason": reason}}
true = lambda kind, **more: {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": OLD, **more}
false = lambda kind, **more: {**true(kind), "status": "False", **more}


def pod(name, phase="Running", main=(), init=(), conditions=(), meta=None, spec=None, sidecars=(), **more):
    names = [s["name"] for s in main] or ["c"]
    inits = [container(s["name"], **({"restartPolicy": "Always"} if s["name"] in sidecars else {})) for s in init]
    return (name, {"spec": {**({"initContainers": inits} if inits else {}), "containers": [container(n) for n in names], "restartPolicy": "Always", **(spec or {})},
                   "status": {"phase": phase, **({"conditions": list(conditions)} if conditions else {}), **({"initContainerStatuses": list(init)} if init else {}),
                              **({"containerStatuses": list(main)} if main else {}), **more}}, meta or {})


DELETED = {"deletionTimestamp": OLD, "deletionGracePeriodSeconds": 30, "finalizers": ["table.io/hold"]}
READY = [true("Ready"), true("Initialized"), true("ContainersReady"), true("PodScheduled")]
PODS = [
    pod("a-rich", main=[status("a", RUNNING, True, 3, ended(1, "Error")), status("b", RUNNING, True, 2, ended(0, "Completed", at=OLDER))], conditions=[*READY, true("table.io/one"), false("table.io/two")],
        spec={"nodeName": "node-1", "readinessGates": [{"conditionType": "table.io/one"}, {"conditionType": "table.io/two"}, {"conditionType": "table.io/three"}]},
        podIP="10.1.2.3", podIPs=[{"ip": "10.1.2.3"}, {"ip": "fd00::3"}], nominatedNodeName="node-2", hostIP="192.168.0.1",
        meta={"annotations": {"note": TEXT}, "labels": {"app": "web"}, "managedFields": [{"manager": "x", "operation": "Update", "apiVersion": "v1", "time": OLD, "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]}),
    pod("b-pending", "Pending"),
    pod("c-gated", "Pending", conditions=[false("PodScheduled", reason="SchedulingGated")]),
    pod("d-evicted", "Failed", reason="Evicted", message="The node was low on resource"),
    pod("e-done", "Succeeded", main=[status("c", ended(0, "Completed"))]),
    pod("f-failed", "Failed", main=[status("c", ended(137, "OOMKilled"))]),
    pod("g-exit", "Failed", main=[status("c", ended(3))]),
    pod("h-signal", "Failed", main=[status("c", ended(0, signal=9))]),
    pod("i-crash", main=[status("c", waiting("CrashLoopBackOff"), False, 7, ended(1, "Error"))], conditions=[false("Ready")]),
    pod("j-creating", "Pending", main=[status("c", waiting("ContainerCreating"))]),
    pod("k-waiting", "Pending", main=[status("c", waiting())]),
    pod("l-half", main=[status("a", ended(0, "Completed")), status("b", RUNNING, True)], conditions=READY),
    pod("m-notready", main=[status("a", ended(0, "Completed")), status("b", RUNNING, True)], conditions=[false("Ready")]),
    pod("n-error", main=[status("a", ended(0, "Completed")), status("b", ended(2, "Error"))]),
    pod("o-error-running", main=[status("a", ended(0, "Completed")), status("b", ended(2, "Error")), status("d", RUNNING, True)]),
    pod("p-init", "Pending", init=[status("i", waiting("PodInitializing")), status("j")], main=[status("c", waiting("PodInitializing"))]),
    pod("q-init-second", "Pending", init=[status("i", ended(0, "Completed"), True), status("j", RUNNING, False, 2, ended(1, "Error"))]),
    pod("r-init-crash", "Pending", init=[status("i", waiting("CrashLoopBackOff"), False, 4, ended(1, "Error"))]),
    pod("s-init-error", "Pending", init=[status("i", ended(1, "Error"))]),
    pod("t-init-exit", "Pending", init=[status("i", ended(4))]),
    pod("u-init-signal", "Pending", init=[status("i", ended(4, signal=15))]),
    pod("v-sidecar", init=[status("s", RUNNING, True, 2, ended(1, "Error", at=OLDER), started=True), status("i", ended(0, "Completed"), False, 5, ended(1, "Error"))],
        main=[status("c", RUNNING, True, 1, ended(1, "Error"))], conditions=READY, sidecars=["s"]),
    pod("w-sidecar-unready", "Pending", init=[status("s", RUNNING, False, started=True), status("i", RUNNING)], sidecars=["s"]),
    pod("x-sidecar-starting", "Pending", init=[status("s", RUNNING, False, 1, ended(1, "Error"), started=False)], sidecars=["s"]),
    pod("y-reinit", init=[status("i", RUNNING, False, 2, ended(1, "Error"))], main=[status("c", RUNNING, True, 9)], conditions=READY),
    pod("za-terminating", main=[status("c", RUNNING, True)], conditions=READY, meta=DELETED),
    pod("zb-terminating-done", "Succeeded", main=[status("c", ended(0, "Completed"))], meta=DELETED),
    pod("zc-lost", reason="NodeLost", meta=DELETED),
    pod("zd-future", meta={"creationTimestamp": FUTURE}),
    pod("ze-ageless", meta={"creationTimestamp": None}),
    pod("zf-empty", ""),
]

TEMPLATE = {"metadata": {"labels": {"app": "web", "tier": "front"}}, "spec": {"containers": [container("a", "nginx:1"), container("b", "redis:2")], "restartPolicy": "Always"}}
EXPRESSIONS = {"matchLabels": {"z": "1", "app": "web"}, "matchExpressions": [{"key": "m", "operator": "In", "values": ["y", "x"]}, {"key": "b", "operator": "NotIn", "values": ["q"]},
               {"key": "e", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist"}]}
SELECTOR = {"matchLabels": {"app": "web"}}
bare = {"metadata": {}, "spec": {"containers": []}}


def job(name, spec=None, meta=None, **state):
    return (name, {"spec": {"template": TEMPLATE, "selector": SELECTOR, **(spec or {})}, "status": state}, meta or {})


def service(name, spec, state=None):
    return (name, {"spec": {"sessionAffinity": "None", **spec}, "status": {"loadBalancer": state or {}}})


def endpoints(name, *subsets):
    return (name, {"subsets": list(subsets)} if subsets else {})


def metric(kind, member, **source):
    return {"type": kind, member: source}


HPA = {"scaleTargetRef": {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}, "maxReplicas": 9}


def autoscaler(name, metrics=(), current=(), **more):
    return (name, {"spec": {**HPA, **({"metrics": list(metrics)} if metrics else {}), **more}, "status": {"currentReplicas": 2, "desiredReplicas": 3, **({"currentMetrics": list(current)} if current else {})}})


CPU = {"name": "cpu"}
METRIC = {"metric": {"name": "m"}}
OBJECT = {"describedObject": {"kind": "Ingress", "name": "i"}, **METRIC}
utilization = lambda n: {"type": "Utilization", "averageUtilization": n}
average = lambda q: {"type": "AverageValue", "averageValue": q}
value = lambda q: {"type": "Value", "value": q}


def event(name, meta=None, **more):
    return (name, {"involvedObject": {"kind": "Pod", "namespace": "table", "name": "p", "fieldPath": "spec.containers{c}"}, "reason": "Why", "message": TEXT, "source": {}, "firstTimestamp": None,
                   "lastTimestamp": None, "type": "Warning", "eventTime": None, "reportingComponent": "", "reportingInstance": "", **more}, meta or {})


EVENTS = [
    event("a-full", source={"component": "kubelet", "host": "n1"}, firstTimestamp=OLDER, lastTimestamp=OLD, count=7, reportingComponent="other", reportingInstance="other-1"),
    event("b-series", eventTime=MICRO, series={"count": 5, "lastObservedTime": MICRO}, reportingComponent="c.io/x", reportingInstance="x-1", count=3, lastTimestamp=OLD),
    event("c-single", eventTime=MICRO, reportingComponent="c.io/x", message="  \n trimmed\u00a0 "),
    event("d-bare", involvedObject={"kind": "Node"}, message="", reason=""),
    event("e-first", firstTimestamp=OLD, source={"host": "n1"}),
]


def node(name, labels=None, spec=None, **state):
    return (name, {"spec": spec or {}, "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {"machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "",
                   "kubeletVersion": "", "kubeProxyVersion": "", "operatingSystem": "", "architecture": "", **state.pop("info", {})}, **state}}, {"labels": labels or {}})


def volume(name, meta=None, spec=None, **state):
    return (name, {"spec": {"hostPath": {"path": "/x", "type": ""}, **(spec or {})}, "status": state}, meta or {})


def signing(name, conditions=(), spec=None, **state):
    return (name, {"spec": {"request": "", "usages": ["client auth"], "username": "jane", **(spec or {})}, "status": {**({"conditions": [{"type": c, "status": "True", "lastUpdateTime": OLD, "lastTransitionTime": OLD} for c in conditions]} if conditions else {}), **state}})


def policy_binding(name, parameter=None):
    return (name, {"spec": {"policyName": "table-p", **({"paramRef": parameter} if parameter else {}), "validationActions": ["Audit"]}})


PARAMETERS = [policy_binding("a-none"), policy_binding("b-named", {"name": "p"}), policy_binding("c-namespaced", {"name": "p", "namespace": "n"}), policy_binding("d-selected", {"selector": EXPRESSIONS}),
              policy_binding("e-everything", {"selector": {}}), policy_binding("f-empty", {})]
NOWHERE = {"resourceRules": [{"apiGroups": ["none.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"], "scope": "*"}], "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
KIND = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
mutation = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}


def webhook(name):
    return {"name": name, "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [{"apiGroups": ["none.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"], "scope": "*"}],
            "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"], "matchPolicy": "Exact", "namespaceSelector": {}, "objectSelector": {}, "timeoutSeconds": 1}


SUBJECTS = [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u1"}, {"kind": "ServiceAccount", "name": "s1", "namespace": "n"}, {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "g1"},
            {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "u2"}, {"kind": "ServiceAccount", "name": "s2", "namespace": "n"}, {"kind": "Robot", "name": "r"}]
role = lambda kind, name: {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}}
LIMITED = {"type": "Limited", "limited": {"nominalConcurrencyShares": 7, "limitResponse": {"type": "Queue", "queuing": {"queues": 8, "handSize": 4, "queueLengthLimit": 50}}, "lendablePercent": 0}}


def flow(name, precedence, **more):
    return (name, {"spec": {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": precedence, **more}, "status": {}})


OWNER = lambda api, kind, **more: {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "u-0"}, {"apiVersion": api, "kind": kind, "name": "web", "uid": "u-1", "controller": True, **more}]}
REPLICAS = {"replicas": 4, "readyReplicas": 3, "updatedReplicas": 2, "availableReplicas": 1, "observedGeneration": 1}
address = lambda *ips: [{"ip": ip} for ip in ips]
rule = lambda host="": {**({"host": host} if host else {}), "http": {"paths": []}}
hosts = lambda *names: {"rules": [rule(n) for n in names]}

OBJECTS = {
    "/pods": PODS,
    "/podtemplates": [("a", {"template": TEMPLATE}), ("b", {"template": bare})],
    "/replicationcontrollers": [("a", {"spec": {"replicas": 5, "selector": {"b": "2", "a": "1"}, "template": TEMPLATE}, "status": REPLICAS}), ("b", {"spec": {"replicas": 0}, "status": {"replicas": 0}})],
    "apps/replicasets": [("a", {"spec": {"replicas": 5, "selector": EXPRESSIONS, "template": TEMPLATE}, "status": REPLICAS}), ("b", {"spec": {"replicas": 0, "selector": {}, "template": bare}, "status": {"replicas": 0}}),
                         ("c", {"spec": {"replicas": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}, "template": bare}, "status": {"replicas": 0}})],
    "apps/deployments": [("a", {"spec": {"replicas": 5, "selector": EXPRESSIONS, "template": TEMPLATE, "strategy": {"type": "Recreate"}}, "status": REPLICAS}),
                         ("b", {"spec": {"replicas": 0, "selector": {}, "template": bare, "strategy": {}}, "status": {}}),
                         ("c", {"spec": {"replicas": 1, "selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}, "template": bare, "strategy": {}}, "status": {}})],
    "apps/statefulsets": [("a", {"spec": {"replicas": 5, "selector": SELECTOR, "template": TEMPLATE, "serviceName": "s", "updateStrategy": {}}, "status": REPLICAS})],
    "apps/daemonsets": [("a", {"spec": {"selector": SELECTOR, "template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"z": "1", "disk": "ssd"}}}, "updateStrategy": {}},
                               "status": {"currentNumberScheduled": 4, "numberMisscheduled": 0, "desiredNumberScheduled": 5, "numberReady": 3, "updatedNumberScheduled": 2, "numberAvailable": 1}}),
                        ("b", {"spec": {"selector": SELECTOR, "template": bare, "updateStrategy": {}}, "status": {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}})],
    "apps/controllerrevisions": [("a", {"data": {"x": 1}, "revision": 7}, OWNER("apps/v1", "StatefulSet")), ("b", {"data": None, "revision": 0}), ("c", {"data": None, "revision": 1}, OWNER("v1", "Pod")),
                                 ("d", {"data": None, "revision": 2}, OWNER("", ""))],
    "batch/jobs": [
        job("a", {"completions": 3, "parallelism": 2}, succeeded=1, startTime=OLDER, completionTime=OLD, conditions=[true("Complete")]),
        job("b", {"parallelism": 4}, startTime=OLD, active=4), job("c", {"parallelism": 1}), job("d", {"completions": 1}, conditions=[true("Failed")], startTime=OLD),
        job("e", meta=DELETED), job("f", meta=DELETED, conditions=[true("Complete")]), job("g", conditions=[true("Suspended")]), job("h", conditions=[false("Suspended"), true("FailureTarget")]),
        job("i", conditions=[true("SuccessCriteriaMet")]), job("j", conditions=[false("Complete"), true("Complete")])],
    "batch/cronjobs": [
        ("a", {"spec": {"schedule": "*/5 * * * *", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Allow", "suspend": True, "jobTemplate": {"metadata": {}, "spec": {"template": TEMPLATE, "selector": SELECTOR}}},
               "status": {"active": [{"kind": "Job", "name": "x"}, {"name": "y"}], "lastScheduleTime": OLD}}),
        ("b", {"spec": {"schedule": "@hourly", "concurrencyPolicy": "Allow", "suspend": False, "jobTemplate": {"metadata": {}, "spec": {"template": bare}}}, "status": {}}),
        ("c", {"spec": {"schedule": "@hourly", "jobTemplate": {"metadata": {}, "spec": {"template": bare}}}, "status": {}})],
    "autoscaling/horizontalpodautoscalers": [
        autoscaler("a", [metric("Resource", "resource", **CPU, target=utilization(80))], [metric("Resource", "resource", **CPU, current={"averageUtilization": 40, "averageValue": "100m"})], minReplicas=1),
        autoscaler("b"), autoscaler("c", [metric("Resource", "resource", **CPU, target=utilization(80))]),
        autoscaler("d", [metric("Resource", "resource", **CPU, target=average("1500m")), metric("Pods", "pods", **METRIC, target=average("2Gi"))],
                   [metric("Resource", "resource", **CPU, current={"averageValue": "100m"}), metric("Pods", "pods", **METRIC, current={"averageValue": "1Gi"})]),
        autoscaler("e", [metric("External", "external", **METRIC, target=average("5")), metric("External", "external", **METRIC, target=value("7")), metric("Object", "object", **OBJECT, target=value("9"))],
                   [metric("External", "external", **METRIC, current={"averageValue": "4"}), metric("External", "external", **METRIC, current={"value": "6"})]),
        autoscaler("f", [metric("Object", "object", **OBJECT, target=average("5")), metric("Object", "object", **OBJECT, target=value("7"))],
                   [metric("Object", "object", **OBJECT, current={"averageValue": "4"}), metric("Object", "object", **OBJECT, current={"value": "6"})]),
        autoscaler("g", [metric("ContainerResource", "containerResource", **CPU, container="c", target=utilization(50)), metric("ContainerResource", "containerResource", **CPU, container="c", target=average("1"))],
                   [metric("ContainerResource", "containerResource", **CPU, container="c", current={"averageUtilization": 10, "averageValue": "1"}), metric("ContainerResource", "containerResource", **CPU, container="c", current={"averageValue": "2"})]),
        autoscaler("h", [metric("Resource", "resource", **CPU, target={"type": "Utilization"}), metric("Odd", "odd"), metric("Pods", "pods", **METRIC, target=average("2")), metric("Pods", "pods", **METRIC, target=average("2"))]),
        autoscaler("i", [metric("External", "external", **METRIC, target=value("7")), metric("Object", "object", **OBJECT, target=average("5"))],
                   [metric("External", "external", **METRIC, current={"averageValue": "4"}), metric("Object", "object", **OBJECT, current={"value": "4"})])],
    "policy/poddisruptionbudgets": [("a", {"spec": {"minAvailable": "50%", "selector": SELECTOR}, "status": {"disruptionsAllowed": 2, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}}),
                                    ("b", {"spec": {"maxUnavailable": 1}, "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0}})],
    "/services": [
        service("a", {"type": "LoadBalancer", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9", "fd00::9"], "externalIPs": ["9.9.9.9"], "selector": {"b": "2", "a": "1"}, "ports": [{"name": "x", "port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": 30080}, {"port": 53, "protocol": "UDP", "targetPort": 53}]},
                {"ingress": [{"ip": "8.8.8.8"}, {"hostname": "a-very-long-host-name.elb.example.com"}, {"ip": "1.1.1.1"}, {"ip": "8.8.8.8"}, {}]}),
        service("b", {"type": "LoadBalancer", "clusterIP": "10.0.0.10", "clusterIPs": ["10.0.0.10"]}), service("c", {"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}),
        service("d", {"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}), service("e", {"type": "ClusterIP", "externalIPs": ["1.2.3.4", "5.6.7.8"]}),
        service("f", {"type": "NodePort", "clusterIP": "10.0.0.11", "clusterIPs": ["10.0.0.11"], "ports": [{"port": 1, "protocol": "SCTP", "targetPort": 0, "nodePort": 31000}]}), service("g", {"type": "ExternalName", "externalName": "example.com"}),
        service("h", {"type": "Odd"}), service("i", {"type": "ClusterIP", "clusterIP": "10.0.0.12"}), service("j", {"type": "LoadBalancer", "clusterIPs": ["10.0.0.13"]}, {"ingress": [{"hostname": "b.example.com"}, {"hostname": "a.example.com"}]})],
    "/endpoints": [endpoints("a", {"addresses": address("10.0.0.1", "10.0.0.2"), "ports": [{"name": "x", "port": 80, "protocol": "TCP"}, {"port": 443, "protocol": "TCP"}]}, {"addresses": address("fd00::1"), "ports": [{"port": 80, "protocol": "TCP"}]}),
                   endpoints("b"), endpoints("c", {"addresses": address("10.0.0.1", "10.0.0.2")}), endpoints("d", {"notReadyAddresses": address("10.0.0.1"), "ports": [{"port": 80, "protocol": "TCP"}]}),
                   endpoints("e", {"addresses": address("fd00::1"), "ports": [{"port": 80, "protocol": "TCP"}]}), endpoints("f", {"addresses": address(*(f"10.0.0.{n}" for n in range(9)))})],
    "discovery.k8s.io/endpointslices": [
        ("a", {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1", "10.0.0.2"], "conditions": {}}, {"addresses": ["10.0.0.3", "10.0.0.4"], "conditions": {}}], "ports": [{"name": "x", "protocol": "TCP", "port": 80}, {"name": "named", "protocol": "TCP"}, {"protocol": "TCP"}, {"name": "", "protocol": "TCP", "port": 9}]}),
        ("b", {"addressType": "FQDN", "endpoints": None, "ports": None}), ("c", {"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::1"], "conditions": {}}], "ports": [{"name": "", "protocol": "TCP"}]})],
    "networking.k8s.io/ingresses": [
        ("a", {"spec": {"ingressClassName": "nginx", "tls": [{"hosts": ["a"]}], **hosts("a.example.com", "b.example.com", "", "c.example.com", "d.example.com")}, "status": {"loadBalancer": {"ingress": [{"ip": "8.8.8.8"}, {"hostname": "a-very-long-host-name.example.com"}]}}}),
        ("b", {"spec": {}, "status": {"loadBalancer": {}}}), ("c", {"spec": hosts("a", "b", "c"), "status": {"loadBalancer": {}}}), ("d", {"spec": hosts("a", "b", "c", ""), "status": {"loadBalancer": {}}}), ("e", {"spec": hosts("", ""), "status": {"loadBalancer": {}}})],
    "networking.k8s.io/ingressclasses": [("a", {"spec": {"controller": "c.io/x", "parameters": {"apiGroup": "p.io", "kind": "Param", "name": "n", "scope": "Cluster"}}}, {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}),
                                         ("b", {"spec": {"controller": "c.io/x", "parameters": {"kind": "ConfigMap", "name": "n", "scope": "Cluster"}}}, {"annotations": {"ingressclass.kubernetes.io/is-default-class": "false"}}), ("c", {"spec": {"controller": ""}})],
    "networking.k8s.io/networkpolicies": [("a", {"spec": {"podSelector": EXPRESSIONS, "policyTypes": ["Ingress"]}}), ("b", {"spec": {"podSelector": {}}})],
    "networking.k8s.io/servicecidrs": [("a", {"spec": {"cidrs": ["10.7.0.0/16", "fd00:7::/64"]}, "status": {}})],
    "networking.k8s.io/ipaddresses": [("10.99.0.1", {"spec": {"parentRef": {"group": "Gateway.io", "resource": "Gateways", "namespace": "n", "name": "g"}}}), ("10.99.0.2", {"spec": {"parentRef": {"resource": "services", "name": "g"}}}), ("10.99.0.3", {"spec": {"parentRef": None}})],
    "/persistentvolumes": [
        volume("a", {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}, {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"], "claimRef": {"namespace": "n", "name": "c"},
               "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "new", "volumeMode": "Filesystem", "volumeAttributesClassName": "gold"}, phase="Bound", reason="Why"),
        volume("b", DELETED, {"capacity": {"storage": "1500m"}, "storageClassName": "new"}, phase="Released"), volume("c", spec={"claimRef": {}}), volume("d", {"annotations": {"volume.beta.kubernetes.io/storage-class": ""}}, {"storageClassName": "new"})],
    "/persistentvolumeclaims": [
        ("a", {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}, "volumeName": "pv", "storageClassName": "sc", "volumeMode": "Block", "volumeAttributesClassName": "gold"}, "status": {"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "5Gi"}}}),
        ("b", {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}, "status": {"phase": "Pending"}}), ("c", {"spec": {"resources": {}, "volumeName": "pv"}, "status": {"phase": "Lost"}}, DELETED),
        ("d", {"spec": {"resources": {}, "storageClassName": ""}, "status": {}}, {"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}})],
    "storage.k8s.io/storageclasses": [("a", {"provisioner": "p.io/x", "reclaimPolicy": "Retain", "allowVolumeExpansion": True, "volumeBindingMode": "WaitForFirstConsumer"}, {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}),
                                      ("b", {"provisioner": "p.io/x"}, {"annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}}), ("c", {"provisioner": "p.io/x", "allowVolumeExpansion": False}, {"annotations": {"storageclass.kubernetes.io/is-default-class": "yes"}})],
    "storage.k8s.io/volumeattributesclasses": [("a", {"driverName": "d.io"})],
    "storage.k8s.io/volumeattachments": [("a", {"spec": {"attacher": "a.io", "source": {"persistentVolumeName": "pv"}, "nodeName": "n"}, "status": {"attached": True}}), ("b", {"spec": {"attacher": "a.io", "source": {}, "nodeName": "n"}, "status": {"attached": False}})],
    "storage.k8s.io/csidrivers": [("a", {"spec": {"attachRequired": False, "podInfoOnMount": True, "volumeLifecycleModes": ["Persistent", "Ephemeral"], "storageCapacity": True, "tokenRequests": [{"audience": "x"}, {"audience": "y"}], "requiresRepublish": True}}), ("b", {"spec": {"attachRequired": True}}), ("c", {"spec": {"tokenRequests": []}})],
    "storage.k8s.io/csinodes": [("a", {"spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": None}, {"name": "e", "nodeID": "n", "topologyKeys": None}]}}), ("b", {"spec": {"drivers": None}})],
    "storage.k8s.io/csistoragecapacities": [("a", {"storageClassName": "sc", "capacity": "5Gi"}), ("b", {"storageClassName": "sc"}, {"creationTimestamp": None})],
    "/nodes": [
        node("a", {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "extra", "node-role.kubernetes.io/": ""}, {"unschedulable": True}, conditions=[true("Ready", lastHeartbeatTime=OLD), true("MemoryPressure", lastHeartbeatTime=OLD)],
             addresses=[{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "InternalIP", "address": "fd00::1"}, {"type": "ExternalIP", "address": "8.8.8.8"}],
             info={"kernelVersion": "6.1", "osImage": "Debian <12>", "containerRuntimeVersion": "containerd://2", "kubeletVersion": "v1.36.3", "architecture": "amd64"}, images=[{"names": ["a", "b"], "sizeBytes": 7}]),
        node("b", conditions=[false("Ready")]), node("c", {"kubernetes.io/role": ""}), node("d", conditions=[true("Ready"), {**true("Ready"), "status": "Unknown"}], info={"architecture": "arm64"}), node("e", spec={"unschedulable": True})],
    "/namespaces": [("table-a", {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"}}), ("table-b", {"spec": {}, "status": {}})],
    "/configmaps": [("a", {"data": {"k": TEXT, "l": ""}, "binaryData": {"b": "AAEC"}}, {"annotations": {"note": TEXT}}), ("b", {}), ("c", {"data": {}, "immutable": True})],
    "/secrets": [("a", {"data": {"k": "AAEC", "l": ""}, "type": "Opaque"}), ("b", {"type": "table.io/own"}), ("c", {})],
    "/serviceaccounts": [("a", {"secrets": [{"name": "x"}]})],
    "/resourcequotas": [("a", {"spec": {"hard": {"cpu": "1"}}, "status": {"hard": {"pods": "10", "limits.cpu": "4", "requests.cpu": "1500m", "cpu": "2", "limits.memory": "4Gi"}, "used": {"pods": "3", "limits.cpu": "500m", "cpu": "1"}}}), ("b", {"spec": {}, "status": {}})],
    "/limitranges": [("a", {"spec": {"limits": [{"type": "Pod"}]}})],
    "/events": EVENTS,
    "coordination.k8s.io/leases": [("a", {"spec": {"holderIdentity": "me"}}), ("b", {"spec": {}})],
    "scheduling.k8s.io/priorityclasses": [("a", {"value": 1000000, "globalDefault": False, "preemptionPolicy": "Never"}), ("b", {"value": -5, "preemptionPolicy": "PreemptLowerPriority"})],
    "node.k8s.io/runtimeclasses": [("a", {"handler": "runc"})],
    "apiregistration.k8s.io/apiservices": [("v1.a.table.io", {"spec": {"service": {"namespace": "n", "name": "s", "port": 443}, "group": "a.table.io", "version": "v1", "insecureSkipTLSVerify": True, "groupPriorityMinimum": 1, "versionPriority": 1}, "status": {}})],
    "flowcontrol.apiserver.k8s.io/flowschemas": [flow("a", 9000), flow("b", 100, distinguisherMethod={"type": "ByUser"}), flow("c", 9000, priorityLevelConfiguration={"name": "missing"}), flow("d", 50)],
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": [("a", {"spec": LIMITED, "status": {}}), ("b", {"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 0, "limitResponse": {"type": "Reject"}, "lendablePercent": 0}}, "status": {}})],
    "rbac.authorization.k8s.io/rolebindings": [("a", {"subjects": SUBJECTS, **role("Role", "r")}), ("b", role("ClusterRole", "r"))],
    "rbac.authorization.k8s.io/clusterrolebindings": [("table-a", {"subjects": SUBJECTS[:3], **role("ClusterRole", "table")})],
    "rbac.authorization.k8s.io/roles": [("a", {"rules": []})],
    "rbac.authorization.k8s.io/clusterroles": [("table-a", {"rules": None})],
    "certificates.k8s.io/certificatesigningrequests": [signing("a", ["Approved", "Failed"], {"signerName": "s.io/x", "expirationSeconds": 90061}, certificate="QUJD"), signing("b", ["Approved", "Denied"]), signing("c", (), {"expirationSeconds": 0}), signing("d", ["Approved"])],
    "admissionregistration.k8s.io/mutatingwebhookconfigurations": [("table-a", {"webhooks": [{**webhook("a.table.io"), "reinvocationPolicy": "Never"}, {**webhook("b.table.io"), "reinvocationPolicy": "Never"}]}), ("table-b", {})],
    "admissionregistration.k8s.io/validatingwebhookconfigurations": [("table-a", {"webhooks": [webhook("a.table.io")]}), ("table-b", {})],
    "admissionregistration.k8s.io/validatingadmissionpolicies": [("table-a", {"spec": {**KIND, "matchConstraints": NOWHERE, "validations": [{"expression": "true"}, {"expression": "true"}], "failurePolicy": "Ignore"}, "status": {}}), ("table-b", {"spec": {"matchConstraints": NOWHERE, "failurePolicy": "Ignore"}, "status": {}})],
    "admissionregistration.k8s.io/mutatingadmissionpolicies": [("table-a", {"spec": {**KIND, "matchConstraints": NOWHERE, "mutations": [mutation], "failurePolicy": "Ignore", "reinvocationPolicy": "Never"}}), ("table-b", {"spec": {"matchConstraints": NOWHERE, "failurePolicy": "Ignore", "reinvocationPolicy": "Never"}})],
    "admissionregistration.k8s.io/validatingadmissionpolicybindings": PARAMETERS,
    "admissionregistration.k8s.io/mutatingadmissionpolicybindings": [(n, {"spec": {k: v for k, v in m["spec"].items() if k != "validationActions"}}) for n, m in PARAMETERS],
    "resource.k8s.io/deviceclasses": [("a", {"spec": {}})],
    "resource.k8s.io/resourceclaimtemplates": [("a", {"spec": {"metadata": {}, "spec": {"devices": {}}}})],
    "resource.k8s.io/resourceclaims": [("a", {"spec": {"devices": {}}, "status": {"allocation": {"devices": {}}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}), ("b", {"spec": {"devices": {}}, "status": {}}), ("c", {"spec": {"devices": {}}, "status": {"allocation": {"devices": {}}}}),
                                       ("d", {"spec": {"devices": {}}, "status": {}}, DELETED), ("e", {"spec": {"devices": {}}, "status": {"allocation": {"devices": {}}, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}, DELETED), ("f", {"spec": {"devices": {}}, "status": {"allocation": {"devices": {}}}}, DELETED)],
    "resource.k8s.io/resourceslices": [("a", {"spec": {"driver": "d.io", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "nodeName": "n"}}), ("b", {"spec": {"driver": "d.io", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "allNodes": True}})],
}

# A custom resource's columns and objects: every type of column over every type of value, and paths of all sorts.
VALUES = {"text": TEXT, "int": 7, "float": 2.75, "big": 1e21, "small": 0.00001, "yes": True, "no": False, "list": ["b", {"z": 1, "a": "<"}], "map": {"z": 1.5, "a": [None]}, "null": None, "date": OLD, "bad": "yesterday", "empty": "", "zero": "0001-01-01T00:00:00Z",
          "offset": "2020-05-06T07:08:09.5+02:00", "conditions": [{"type": "Ready", "status": "False", "n": 1}, {"type": "Synced", "status": "True", "n": 2}], "nested": {"a.b": "dotted", "deep": {"n": 3}}, "huge": 9223372036854775807, "negative": -2.9}
column = lambda name, kind, path, **more: {"name": name, "type": kind, "jsonPath": path, **more}
COLUMNS = [column(f"{kind}-{key}", kind, f".spec.{key}") for kind in ["string", "integer", "number", "boolean", "date"] for key in VALUES if kind != "string" or key != "conditions"] + [
    column("Ready", "string", '.spec.conditions[?(@.type=="Ready")].status', description="Whether <it> is", format="byte", priority=1),
    column("Single", "string", ".spec.conditions[?(@.type == 'Synced')].status"), column("Above", "integer", ".spec.conditions[?(@.n>=2)].n"), column("Not", "string", ".spec.conditions[?(@.type!='Ready')].type"), column("Has", "string", ".spec.conditions[?(@.n)].type"),
    column("Mixed", "string", ".spec.conditions[?(@.type>1)].type"), column("First", "string", ".spec.conditions[0].type"), column("Last", "string", ".spec.conditions[-1].type"), column("Out", "string", ".spec.conditions[5].type"), column("Star", "string", ".spec.conditions[*].type"),
    column("Slice", "integer", ".spec.conditions[1:].n"), column("Union", "string", ".spec.conditions[1,0].type"), column("Escaped", "string", ".spec.nested.a\\.b"), column("Bracket", "string", ".spec.nested['a\\.b']"), column("Below", "integer", ".spec.nested..n"),
    column("Index", "string", ".spec.text[0]"), column("Missing", "string", ".spec.missing.more"), column("Range", "string", ".spec range"), column("Kind", "string", ".kind"), column("Version", "string", ".apiVersion"), column("Revision", "string", ".metadata.resourceVersion"),
    column("Born", "date", ".metadata.creationTimestamp"), column("Whole", "string", ".spec.nested"), column("Label", "string", ".metadata.labels['set']"), column("Braces", "string", ".spec.int}{.spec.text")]
BROKEN = [column("Good", "integer", ".spec.int"), column("Bad", "string", ".spec.conditions[x]"), column("After", "integer", ".spec.int")]


def stored(group_version, kind, namespaced, name, members, meta=None):
    """The value in etcd: the order of Go's structs at the top, which is what counts for the splice of resourceVersion."""
    meta = copy.deepcopy(meta or {})
    labels = {**meta.pop("labels", {}), "set": "table"}
    first = {"name": name, **({"namespace": "table"} if namespaced else {}), "uid": f"{name}-uid", "generation": 1, "creationTimestamp": meta.pop("creationTimestamp", OLD)}
    deletion = {key: meta.pop(key) for key in ["deletionTimestamp", "deletionGracePeriodSeconds"] if key in meta}
    order = ["annotations", "ownerReferences", "finalizers", "managedFields"]
    rest = {key: meta[key] for key in order if key in meta}
    return {"kind": kind, "apiVersion": group_version, "metadata": {**first, **deletion, "labels": labels, **rest}, **copy.deepcopy(members)}
