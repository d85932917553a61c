#!/usr/bin/env python3
"""record.py KUBE_URL TOKEN > cases.json: what a live kube-apiserver makes of strategic merge patches.

Creates one object of each kind in the namespace `smp` (and takes it away afterwards), sends each patch with dryRun=All and fieldValidation=Ignore, and
writes for each kind {group, version, kind, original, cases: [{patch, result | code, message}]}. What the server changes by itself is left out:
resourceVersion, generation, managedFields.
"""
import http.client, json, ssl, sys, time, urllib.error, urllib.request

KUBE, TOKEN = sys.argv[1:3]
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE


def call(method, path, body=None, kind="application/json"):
    headers = {"Authorization": "Bearer " + TOKEN, "Content-Type": kind, "User-Agent": "record"}
    ask = urllib.request.Request(KUBE + path, None if body is None else json.dumps(body).encode(), headers, method=method)
    try:
        return 200, json.load(urllib.request.urlopen(ask, context=TLS))
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)
    except http.client.RemoteDisconnected:
        return 0, {"message": "panic"}  # on some odd patches the real server's handler dies: there is nothing to follow


def plain(it):
    for own in ("resourceVersion", "generation", "managedFields"):
        it["metadata"].pop(own, None)
    return it


def record(root, group, version, body, patches, sub="", settle=0):
    code, made = call("POST", root, body)
    assert code == 200, made
    path = f"{root}/{made['metadata']['name']}"
    time.sleep(settle)  # a definition's status is written by controllers
    original = call("GET", path)[1]
    kind, cases = original["kind"], []
    for patch in patches:
        code, it = call("PATCH", f"{path}{sub}?dryRun=All&fieldValidation=Ignore", patch, "application/strategic-merge-patch+json")
        if code:
            cases.append({"patch": patch, "result": plain(it)} if code == 200 else {"patch": patch, "code": code, "message": it["message"]})
        print(kind, json.dumps(patch), code, it.get("message", ""), file=sys.stderr)
    call("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    call("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    return {"group": group, "version": version, "kind": kind, "original": plain(original), "cases": cases}


def container(name, image="i", **more):
    return {"name": name, "image": image, "imagePullPolicy": "Always", "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File", "resources": {}, **more}


env = lambda **values: [{"name": name, "value": value} for name, value in values.items()]
port = lambda number, **more: {"containerPort": number, "protocol": "TCP", **more}
pod = lambda **spec: {"spec": {"template": {"spec": spec}}}
meta = lambda **fields: {"metadata": fields}
web = lambda **fields: pod(containers=[{"name": "web", **fields}])
named = lambda *names: [{"name": name} for name in names]

DEPLOYMENT = {
    "metadata": {"name": "d", "labels": {"a": "1", "b": "2"}, "annotations": {"note": "x"}, "finalizers": ["ex.io/a", "ex.io/b"],
                 "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o1", "uid": "u1"}, {"apiVersion": "v1", "kind": "ConfigMap", "name": "o2", "uid": "u2"}]},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "w"}}, "template": {"metadata": {"labels": {"app": "w"}}, "spec": {
        "containers": [container("web", env=env(A="1", B="2", C="3"), ports=[port(80, name="http"), port(443, name="https")], args=["x", "y"],
                                 volumeMounts=[{"name": "v1", "mountPath": "/1"}, {"name": "v2", "mountPath": "/2"}]), container("side")],
        "initContainers": [container("init")], "volumes": [{"name": "v1", "emptyDir": {}}, {"name": "v2", "configMap": {"name": "c", "defaultMode": 420}}],
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], "imagePullSecrets": named("p1", "p2"), "nodeSelector": {"n": "1"},
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["h1"]}, {"ip": "1.2.3.5", "hostnames": ["h2"]}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "t", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "w"}}}]}}},
}
DEPLOYMENTS = [
    {}, {"spec": {"replicas": 5}}, {"spec": {"paused": True, "revisionHistoryLimit": 3}},
    meta(labels={"a": None, "c": "3"}), meta(labels=None), meta(annotations={"$patch": "replace", "only": "1"}), meta(annotations={"$patch": "delete"}),
    meta(annotations={"$patch": "merge", "x": "1"}), meta(annotations={"$patch": 1}), meta(annotations={"$patch": None, "x": "1"}),
    # containers
    web(image="new"), web(image="new", args=["z"]), web(args=None), pod(containers=[container("added")]),
    pod(containers=[container("c2"), {"name": "side", "image": "s"}, container("c1")]), pod(containers=[{"name": "side", "$patch": "delete"}]),
    pod(containers=[{"name": "nope", "$patch": "delete"}]), pod(containers=[{"$patch": "delete"}]), pod(containers=[{"$patch": "replace"}, container("only")]),
    pod(containers=[container("only"), {"$patch": "replace"}, {"name": "web", "$patch": "delete"}]), pod(containers=[{"$patch": "merge"}]),
    pod(containers=[{"$patch": "bogus", "name": "web"}]), pod(containers=[{"$patch": True, "name": "web"}]), pod(containers=[{"image": "nope"}]),
    pod(containers=[{"name": "side", "$patch": "replace", "image": "i"}]), pod(containers=[]), pod(containers=["x"]), pod(containers=[1]), pod(containers=[["x"]]),
    pod(containers=[{"name": "web", "image": "one"}, {"name": "web", "image": "two"}]), pod(initContainers=[container("init2")]),
    pod(initContainers=[{"name": "init", "$patch": "delete"}]), pod(initContainers=None),
    pod(containers=[{"name": "side", "$patch": "delete"}, container("side", "again")]),
    # order
    pod(**{"$setElementOrder/containers": named("side", "web")}), pod(**{"$setElementOrder/containers": named("new", "side", "web"), "containers": [container("new")]}),
    pod(**{"$setElementOrder/containers": named("web"), "containers": [{"name": "web", "image": "n"}]}),
    pod(**{"$setElementOrder/containers": named("web"), "containers": [{"name": "side", "image": "n"}]}),
    pod(**{"$setElementOrder/containers": named("web", "side"), "containers": [{"name": "side", "image": "n"}, {"name": "web", "image": "m"}]}),
    pod(**{"$setElementOrder/containers": named("web"), "containers": [{"name": "side", "$patch": "delete"}]}),
    pod(**{"$setElementOrder/containers": "web"}), pod(**{"$setElementOrder/containers": ["web"]}), pod(**{"$setElementOrder/containers": [{"image": "x"}]}),
    pod(**{"$setElementOrder/containers": [], "containers": [{"name": "web", "image": "n"}]}), pod(**{"$setElementOrder": named("web")}),
    pod(**{"$setElementOrder/nope": named("web")}), pod(**{"$setElementOrder/nodeSelector": named("web")}), pod(**{"$setElementOrder/hostname": named("web")}),
    pod(**{"$setElementOrder/containers": named("web"), "containers": {"a": 1}}), pod(**{"$setElementOrder/tolerations": [{"key": "k"}]}),
    pod(**{"$setElementOrder/resourceClaims": named("a")}), pod(**{"$setElementOrder/containers": named("side", "web"), "containers": [{"$patch": "replace"}, container("side")]}),
    # lists inside of a container
    web(env=env(B="22", D="4")), web(env=[{"name": "A", "$patch": "delete"}]), web(**{"$setElementOrder/env": named("C", "B", "A")}),
    web(**{"$setElementOrder/env": named("D", "C", "A"), "env": env(D="4")}), web(env=[{"name": "A", "value": None, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]),
    web(ports=[port(8080, name="alt")]), web(ports=[port(80, name="renamed")]), web(ports=[{"containerPort": 443, "$patch": "delete"}]),
    web(volumeMounts=[{"mountPath": "/1", "name": "v2"}]),
    web(volumeMounts=[{"mountPath": "/3", "name": "v1"}]), web(resources={"limits": {"cpu": "1"}}),
    web(resources={"limits": {"$patch": "replace", "cpu": "1"}}),
    # volumes and retainKeys
    pod(volumes=[{"name": "v1", "$retainKeys": ["name", "configMap"], "configMap": {"name": "x", "defaultMode": 420}}]),
    pod(volumes=[{"name": "v1", "$retainKeys": ["name"], "configMap": {"name": "x"}}]), pod(volumes=[{"name": "v1", "$retainKeys": "name"}]),
    pod(volumes=[{"name": "v3", "$retainKeys": ["name", "emptyDir"], "emptyDir": {}}]), pod(volumes=[{"name": "v2", "configMap": {"defaultMode": 256}}]),
    pod(volumes=[{"name": "v1", "$patch": "replace", "hostPath": {"path": "/x", "type": ""}}]),
    {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": 3}}}},
    {"spec": {"strategy": {"$patch": "replace", "type": "Recreate"}}}, {"spec": {"strategy": {"$retainKeys": [], "type": "Recreate"}}},
    # lists without a strategy, other keys
    pod(tolerations=[{"key": "z", "operator": "Exists"}]), pod(tolerations=None), pod(tolerations=[]), pod(imagePullSecrets=named("p3")),
    pod(imagePullSecrets=[{"name": "p1", "$patch": "delete"}]), pod(hostAliases=[{"ip": "1.2.3.4", "hostnames": ["h9"]}]), pod(nodeSelector={"m": "2"}),
    pod(topologySpreadConstraints=[{"topologyKey": "t", "maxSkew": 2}]),
    # metadata
    meta(finalizers=["ex.io/c"]), meta(finalizers=["ex.io/b", "ex.io/c", "ex.io/c"]), meta(**{"$deleteFromPrimitiveList/finalizers": ["ex.io/a"]}),
    meta(**{"$deleteFromPrimitiveList/finalizers": ["ex.io/nope"]}), meta(**{"$deleteFromPrimitiveList/finalizers": ["ex.io/a"], "finalizers": ["ex.io/z"], "$setElementOrder/finalizers": ["ex.io/z", "ex.io/b"]}),
    meta(**{"$setElementOrder/finalizers": ["ex.io/b", "ex.io/a"]}), meta(**{"$deleteFromPrimitiveList/finalizers": "ex.io/a"}), meta(**{"$deleteFromPrimitiveList": ["x"]}),
    meta(**{"$deleteFromPrimitiveList/ownerReferences": [{"uid": "u1"}]}), meta(finalizers=[1]), meta(finalizers=None), meta(**{"$deleteFromPrimitiveList/nope": ["a"]}),
    meta(**{"$deleteFromPrimitiveList/name": "a"}), meta(ownerReferences=[{"uid": "u1", "$patch": "delete"}]),
    meta(ownerReferences=[{"uid": "u3", "apiVersion": "v1", "kind": "ConfigMap", "name": "o3"}, {"uid": "u2", "name": "renamed"}]), meta(ownerReferences=[{"$patch": "replace"}]),
    # the whole
    {"$patch": "bogus"}, {"$retainKeys": ["apiVersion", "kind", "metadata", "spec", "status"]}, {"$retainKeys": [], "spec": {"replicas": 9}}, [], "x", 1,
]
SERVICE = {"metadata": {"name": "s"}, "spec": {"selector": {"a": "1"}, "clusterIP": "None", "externalIPs": ["1.1.1.1"],
           "ports": [{"name": "a", "port": 80, "protocol": "TCP", "targetPort": 80}, {"name": "b", "port": 443, "protocol": "TCP", "targetPort": "x"}]}}
SERVICES = [
    {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}}, {"spec": {"ports": [{"name": "c", "port": 90, "protocol": "TCP", "targetPort": 90}]}},
    {"spec": {"ports": [{"port": 443, "$patch": "delete"}]}}, {"spec": {"$setElementOrder/ports": [{"port": 443}, {"port": 80}]}}, {"spec": {"selector": {"a": None, "b": "2"}}},
    {"spec": {"externalIPs": ["2.2.2.2"]}}, {"spec": {"ports": [{"name": "x"}]}}, {"spec": {"selector": {"$patch": "replace", "z": "1"}}}, {"spec": {"selector": None}},
]
CONFIG_MAP = {"metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}, "binaryData": {"x": "AAEC"}}
CONFIG_MAPS = [
    {"data": {"a": "9", "c": "3"}}, {"data": {"a": None}}, {"data": None}, {"data": {"$patch": "replace", "z": "1"}}, {"data": {"$patch": "delete"}}, {"immutable": True},
    {"binaryData": {"y": "AA=="}}, {"data": {"$retainKeys": ["a"], "a": "5"}}, {"data": {"$retainKeys": ["b"], "a": "5"}}, {"data": {"$setElementOrder/a": ["1"]}}, {"nope": {"a": {"b": None}}},
]
ACCOUNT = {"metadata": {"name": "a"}, "secrets": named("s1", "s2"), "imagePullSecrets": named("i1")}
ACCOUNTS = [
    {"secrets": named("s3")}, {"secrets": [{"name": "s1", "$patch": "delete"}]}, {"$setElementOrder/secrets": named("s2", "s1")}, {"imagePullSecrets": named("i2")},
    {"secrets": [{"$patch": "replace"}]}, {"secrets": [{"namespace": "x"}]}, {"secrets": None}, {"automountServiceAccountToken": False},
]
condition = lambda kind, status, **more: {"type": kind, "status": status, "lastHeartbeatTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z", **more}
NODE = {"metadata": {"name": "smp"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]},
        "status": {"conditions": [condition("Ready", "True"), condition("DiskPressure", "False")], "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "smp"}],
                   "capacity": {"cpu": "4"}, "images": [{"names": ["a"], "sizeBytes": 1}]}}
NODES = [{"spec": {"taints": [{"key": "z", "effect": "NoExecute"}]}}, {"spec": {"unschedulable": True, "taints": None}}, {"spec": {"podCIDRs": ["10.1.0.0/24"]}}, {"metadata": {"labels": {"x": "y"}}}]
STATUSES = [
    {"status": {"conditions": [condition("Ready", "False", reason="R")]}}, {"status": {"conditions": [condition("New", "True")]}},
    {"status": {"$setElementOrder/conditions": [{"type": "DiskPressure"}, {"type": "Ready"}], "conditions": [{"type": "Ready", "status": "Unknown"}]}},
    {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]}}, {"status": {"$setElementOrder/addresses": [{"type": "Hostname"}, {"type": "InternalIP"}], "addresses": [{"type": "Hostname", "address": "n"}]}},
    {"status": {"addresses": [{"$patch": "replace"}, {"type": "Hostname", "address": "n"}]}}, {"status": {"capacity": {"memory": "1Gi"}}}, {"status": {"images": [{"names": ["b"], "sizeBytes": 2}]}},
    {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}},
]
CRD = {"metadata": {"name": "smps.ex.io"}, "spec": {"group": "ex.io", "scope": "Cluster", "names": {"plural": "smps", "singular": "smp", "kind": "Smp", "listKind": "SmpList"}, "versions": [
    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {"type": "string"}}}}}]}}
CRDS = [{"spec": {"names": {"shortNames": ["sm"]}}}, {"spec": {"versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}]}},
        {"metadata": {"annotations": {"a": "b"}}}, {"spec": {"names": {"categories": ["all"], "$retainKeys": ["plural", "singular", "kind", "listKind", "categories"]}}}]
ROLE = {"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}
ROLES = [{"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]}, {"$setElementOrder/rules": [{"a": 1}]}, {"rules": [{"$patch": "delete"}]}]

call("POST", "/api/v1/namespaces", {"metadata": {"name": "smp"}})
core = lambda plural: f"/api/v1/namespaces/smp/{plural}"
recorded = [
    record("/apis/apps/v1/namespaces/smp/deployments", "apps", "v1", DEPLOYMENT, DEPLOYMENTS),
    record(core("services"), "", "v1", SERVICE, SERVICES),
    record(core("configmaps"), "", "v1", CONFIG_MAP, CONFIG_MAPS),
    record(core("serviceaccounts"), "", "v1", ACCOUNT, ACCOUNTS),
    record("/api/v1/nodes", "", "v1", NODE, NODES),
    record("/api/v1/nodes", "", "v1", NODE, STATUSES, "/status"),
    record("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apiextensions.k8s.io", "v1", CRD, CRDS, settle=3),
    record("/apis/rbac.authorization.k8s.io/v1/namespaces/smp/roles", "rbac.authorization.k8s.io", "v1", ROLE, ROLES),
]
print("[" + ",\n".join(json.dumps({**it, "cases": "*"}).replace('"*"', "[\n" + ",\n".join(json.dumps(case) for case in it["cases"]) + "]") for it in recorded) + "]")
