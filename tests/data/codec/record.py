#!/usr/bin/env python3
"""record.py ETCD_URL KUBE_URL TOKEN [PART ...]: record the golden cases beside this file from a live kube-apiserver; PARTs are builtins, definitions,
partial and lists, all when none is named.

The kube-apiserver must store JSON (--storage-media-type=application/json). Needs nothing but Python. Each case is a file of lines,
`what apiVersion payload`: `key` and `revision` of the value, `stored` (the bytes in etcd), and for each served apiVersion `get`, `list` (of this
object alone), `page` (limit=1 of its collection), `added`, `bookmark` (annotated) and `deleted`, as they came, each without its last newline. A case of
`partial` has PartialObjectMetadata under its own apiVersions, and an `empty` list besides.
"""
import base64, json, pathlib, ssl, sys, time, urllib.error, urllib.request

ETCD, KUBE, TOKEN = sys.argv[1:4]
HERE = pathlib.Path(__file__).parent
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
TEXT = "<a href='x'>&amp;</a> é \u2028 \u2029 \"quoted\" \\ back \t tab \x01 \x7f 😀"


def call(method, path, body=None, accept="application/json", sent="application/json"):
    data = None if body is None else json.dumps(body).encode()
    ask = urllib.request.Request(KUBE + path, data, {"Authorization": "Bearer " + TOKEN, "Content-Type": sent, "Accept": accept}, method=method)
    try:
        return urllib.request.urlopen(ask, context=TLS).read()
    except urllib.error.HTTPError as e:
        raise SystemExit(f"{method} {path}: {e.code} {e.read().decode()}")


def stored(key):
    body = json.dumps({"key": base64.b64encode(key.encode()).decode()}).encode()
    answer = json.load(urllib.request.urlopen(ETCD + "/v3/kv/range", body))["kvs"][0]
    return base64.b64decode(answer["value"]), answer["mod_revision"]


def line(what, version, payload):
    payload = payload.decode() if isinstance(payload, bytes) else payload
    payload = payload.removesuffix("\n")
    assert "\n" not in payload, (what, payload)
    return f"{what} {version} {payload}\n"


def served(root, version, name):
    """What one served resource shows of the object, all but its deletion."""
    out = line("get", version, call("GET", f"{root}/{name}"))
    out += line("list", version, call("GET", f"{root}?fieldSelector=metadata.name={name}"))
    out += line("page", version, call("GET", f"{root}?limit=1"))
    frames = call("GET", f"{root}?watch=1&resourceVersion=0&allowWatchBookmarks=1&timeoutSeconds=1&fieldSelector=metadata.name={name}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
    added, bookmark = frames.decode().split("\n")[:2]
    return out + line("added", version, added) + line("bookmark", version, bookmark)


def case(file, roots, key, body, settle=0):
    """Create through the first root (path, apiVersion), record what every root shows, delete, record the deletion.

    A definition's status is written by controllers: `settle` seconds pass first."""
    name = json.loads(call("POST", roots[0][0], body))["metadata"]["name"]
    key = key + name
    time.sleep(settle)
    value, revision = stored(key)
    out = line("key", "-", key) + line("revision", "-", revision) + line("stored", "-", value)
    for root, version in roots:
        out += served(root, version, name)
    kept = json.loads(call("GET", f"{roots[0][0]}/{name}"))
    if not kept["metadata"].get("finalizers"):
        call("DELETE", f"{roots[0][0]}/{name}?gracePeriodSeconds=0")
        for root, version in roots:
            seen = call("GET", f"{root}?watch=1&resourceVersion={revision}&timeoutSeconds=1&fieldSelector=metadata.name={name}").decode()
            if seen.count("\n") == 1:  # a pod or a definition is written once more before it goes: then the body is another one
                out += line("deleted", version, seen)
    (HERE / (file + ".case")).write_text(out)
    print(file, len(out))


NS = "codec"
meta = lambda name, **more: {"name": name, **more}
rich = lambda name: meta(name, labels={"app": "web", "tier": "front", "empty": ""}, annotations={"note": TEXT})
core = lambda plural: [(f"/api/v1/namespaces/{NS}/{plural}", "v1")]
events = core("events") + [(f"/apis/events.k8s.io/v1/namespaces/{NS}/events", "events.k8s.io/v1")]
pod = {"containers": [{"name": "c", "image": "nginx", "args": ["<a>", "b&c"], "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}],
       "nodeSelector": {"disk": "ssd"}}


def builtins():
    for filler in ["zz-1", "zz-2"]:
        call("POST", core("configmaps")[0][0], {"metadata": {"name": filler}})
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "0a1b2c3d-0000-4000-8000-000000000000", "controller": True}
    case("configmap", core("configmaps"), f"/registry/configmaps/{NS}/", {"metadata": {**rich("cm"), "ownerReferences": [owner]},
         "data": {"text": TEXT}, "binaryData": {"bin": "AAEC/w=="}})
    case("configmap_bare", core("configmaps"), f"/registry/configmaps/{NS}/", {"metadata": {"name": "bare"}})
    case("configmap_generated", core("configmaps"), f"/registry/configmaps/{NS}/", {"metadata": {"generateName": "gen-"}, "immutable": True})
    case("configmap_finalizer", core("configmaps"), f"/registry/configmaps/{NS}/", {"metadata": {"name": "fin", "finalizers": ["ex.io/hold"]}})
    case("secret", core("secrets"), f"/registry/secrets/{NS}/", {"metadata": rich("s"), "stringData": {"k": TEXT}, "type": "ex.io/own"})
    case("pod", core("pods"), f"/registry/pods/{NS}/", {"metadata": rich("p"), "spec": pod})
    case("service", core("services"), f"/registry/services/specs/{NS}/", {"metadata": rich("svc"), "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}})
    case("node", [("/api/v1/nodes", "v1")], "/registry/minions/", {"metadata": {"name": "node-1"}, "spec": {"unschedulable": True}})
    case("deployment", [(f"/apis/apps/v1/namespaces/{NS}/deployments", "apps/v1")], f"/registry/deployments/{NS}/",
         {"metadata": rich("d"), "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}})
    case("lease", [(f"/apis/coordination.k8s.io/v1/namespaces/{NS}/leases", "coordination.k8s.io/v1")], f"/registry/leases/{NS}/",
         {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.000006Z"}})
    about = {"kind": "Pod", "namespace": NS, "name": "p", "uid": "u-1", "apiVersion": "v1", "resourceVersion": "7", "fieldPath": "spec.containers{c}"}
    case("event_core_full", events, f"/registry/events/{NS}/", {"metadata": rich("e1"), "involvedObject": about, "reason": "Why", "message": TEXT,
         "source": {"component": "kubelet", "host": "n1"}, "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:05:05Z", "count": 7,
         "type": "Warning", "eventTime": "2026-01-02T03:04:05.000006Z", "series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000007Z"},
         "action": "Pulling", "related": {**about, "name": "q"}, "reportingComponent": "kubelet", "reportingInstance": "kubelet-n1"})
    case("event_core_bare", events, f"/registry/events/{NS}/", {"metadata": {"name": "e2"}, "involvedObject": {"namespace": NS}})
    case("event_v1", list(reversed(events)), f"/registry/events/{NS}/", {"metadata": {"name": "e3"}, "regarding": about, "reason": "Why", "note": TEXT,
         "type": "Normal", "eventTime": "2026-01-02T03:04:05.000006Z", "action": "Pulling", "reportingController": "ex.io/c", "reportingInstance": "c-1"})


def crd(plural, kind, versions, **spec):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": plural + ".ex.io", "labels": {"set": "codec"}},
            "spec": {"group": "ex.io", "scope": "Namespaced", "names": {"plural": plural, "kind": kind, **spec.pop("names", {})}, "versions": versions, **spec}}


def schema(**more):
    return {"openAPIV3Schema": {"type": "object", "description": TEXT[:22], "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                 "size": {"type": "integer"}, "on": {"type": "boolean"}}, **more},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}, "data": {"type": "object", "additionalProperties": {"type": "string"}}}}}


def version(name, storage=False, **more):
    return {"name": name, "served": True, "storage": storage, "schema": schema(), **more}


COLUMNS = [{"name": "Color", "type": "string", "jsonPath": ".spec.color", "description": TEXT[:22]}, {"name": "Size", "type": "integer", "format": "int32", "priority": 1, "jsonPath": ".spec.size"}]
FIELDS = [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}, {"jsonPath": ".spec.on"}]
SCALE = {"status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.sel"}}
HOOK = {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": NS, "name": "hook", "path": "/c"}, "caBundle": ""}, "conversionReviewVersions": ["v1", "v1beta1"]}}
URL = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://127.0.0.1:1/c"}, "conversionReviewVersions": ["v1"]}}


def definitions():
    root = [("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "apiextensions.k8s.io/v1")]
    key = "/registry/apiextensions.k8s.io/customresourcedefinitions/"
    define("crd_one", root, key, crd("ones", "One", [version("v1", True)]))
    define("crd_same", root, key, crd("sames", "Same", [version("v1", True, subresources=SCALE, additionalPrinterColumns=COLUMNS, selectableFields=[{"jsonPath": ".spec.color"}]),
         version("v2", subresources=SCALE, additionalPrinterColumns=COLUMNS, selectableFields=[{"jsonPath": ".spec.color"}])],
         names={"shortNames": ["sm"], "categories": ["all", "ex"], "singular": "same", "listKind": "SameList"}, scope="Cluster"))
    define("crd_differ", root, key, crd("differs", "Differ", [version("v1beta1", additionalPrinterColumns=COLUMNS, deprecated=True, deprecationWarning="old <one>", schema=schema(description="other")),
         version("v1", True, subresources={"status": {}}, selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}])]))
    define("crd_hook", root, key, crd("hooks", "Hook", [version("v1", True), version("v2")], conversion=HOOK))
    define("crd_url", root, key, crd("urls", "Url", [version("v1", True, served=False), version("v2", additionalPrinterColumns=COLUMNS)], conversion=URL))
    define("crd_rules", root, key, crd("rules", "Rule", [version("v1", True, schema=schema(**{"x-kubernetes-validations": [{"rule": "self.size > 1 && self.size < 9", "message": "no"}]}))]))
    call("POST", root[0][0], crd("widgets", "Widget", [version("v1", True, selectableFields=FIELDS), version("v2", selectableFields=FIELDS)]))
    established(root[0][0] + "/widgets.ex.io")
    both = [(f"/apis/ex.io/v1/namespaces/{NS}/widgets", "ex.io/v1"), (f"/apis/ex.io/v2/namespaces/{NS}/widgets", "ex.io/v2")]
    key = f"/registry/ex.io/widgets/{NS}/"
    widget = lambda name, **more: {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": rich(name), **more}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "0a1b2c3d-0000-4000-8000-000000000000", "controller": True}
    call("POST", both[0][0], widget("zz"))
    full = widget("w1", spec={"text": TEXT, "size": 5, "on": True, "float": 1.5, "big": 1e21, "small": 1e-7, "z": None, "list": [1, "a", {}]}, data={"b": "2", "a": TEXT})
    full["metadata"]["ownerReferences"] = [owner]
    case("widget", both, key, full)
    case("widget_bare", both, key, {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w2"}})


def define(file, roots, key, body):
    case(file, roots, key, body, settle=2)


def established(path):
    """Wait until the definition is served."""
    for _ in range(50):
        if '"type":"Established","status":"True"' in call("GET", path).decode():
            break
        time.sleep(0.2)
    time.sleep(2)


def partial():
    """PartialObjectMetadata: a plain built-in, two whose conversion moves an annotation, and a custom resource, which is stored in another order."""
    template = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}
    owners = [{"uid": "u-1", "name": "x", "kind": "ConfigMap", "apiVersion": "v1", "blockOwnerDeletion": False, "controller": True},
              {"uid": "u-2", "name": "y", "kind": "ConfigMap", "apiVersion": "v1"}]
    full = lambda name: {**rich(name), "generateName": "pre-", "ownerReferences": owners}
    apps = f"/apis/apps/v1/namespaces/{NS}"
    projected("partial_configmap", core("configmaps")[0][0], f"/registry/configmaps/{NS}/", {"metadata": full("pc"), "data": {"metadata": "{"}})
    projected("partial_daemonset", apps + "/daemonsets", f"/registry/daemonsets/{NS}/", {"metadata": rich("pd"), "spec": template})
    moved = {"name": "pd", "annotations": {"deprecated.deployment.rollback.to": "3"}}
    projected("partial_deployment", apps + "/deployments", f"/registry/deployments/{NS}/", {"metadata": moved, "spec": template})
    root = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    call("POST", root, crd("gadgets", "Gadget", [version("v1", True, subresources={"status": {}})]))
    established(root + "/gadgets.ex.io")
    gadgets = f"/apis/ex.io/v1/namespaces/{NS}/gadgets"
    gadget = lambda meta, **more: {"apiVersion": "ex.io/v1", "kind": "Gadget", "metadata": meta, **more}
    projected("partial_gadget", gadgets, f"/registry/ex.io/gadgets/{NS}/", gadget(full("g1"), data={"metadata": "{"}, spec={"size": 5}))
    projected("partial_gadget_bare", gadgets, f"/registry/ex.io/gadgets/{NS}/", gadget({"name": "g2"}))
    # Deleted, but held: its deletion has a time and a grace period of 0. Its status is written by another request.
    call("POST", gadgets, gadget({"name": "g3", "finalizers": ["ex.io/b", "ex.io/a"]}))
    call("PATCH", gadgets + "/g3/status", {"status": {"a": 1}}, sent="application/merge-patch+json")
    call("DELETE", gadgets + "/g3")
    projected("partial_gadget_held", gadgets, f"/registry/ex.io/gadgets/{NS}/", None, "g3")


def projected(file, root, key, body, name=None):
    name = name or json.loads(call("POST", root, body))["metadata"]["name"]
    value, revision = stored(key + name)
    out = line("key", "-", key + name) + line("revision", "-", revision) + line("stored", "-", value)
    shown = [(v, *(f"application/json;as={kind};g=meta.k8s.io;v={v}" for kind in ["PartialObjectMetadata", "PartialObjectMetadataList"])) for v in ["v1", "v1beta1"]]
    only = f"timeoutSeconds=1&fieldSelector=metadata.name={name}"
    for v, one, many in shown:
        v = "meta.k8s.io/" + v
        out += line("get", v, call("GET", f"{root}/{name}", accept=one))
        out += line("list", v, call("GET", f"{root}?fieldSelector=metadata.name={name}", accept=many))
        out += line("page", v, call("GET", f"{root}?limit=1&fieldSelector=metadata.name={name}", accept=many))
        out += line("empty", v, call("GET", f"{root}?fieldSelector=metadata.name=nobody", accept=many))
        frames = call("GET", f"{root}?watch=1&{only}&allowWatchBookmarks=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", accept=one)
        added, bookmark = frames.decode().split("\n")[:2]
        out += line("added", v, added) + line("bookmark", v, bookmark)
    if body:
        call("DELETE", f"{root}/{name}?propagationPolicy=Background")
        for v, one, _ in shown:
            out += line("deleted", "meta.k8s.io/" + v, call("GET", f"{root}?watch=1&{only}&resourceVersion={revision}", accept=one))
    (HERE / (file + ".case")).write_text(out)
    print(file, len(out))


def lists():
    pretty = core("configmaps")[0][0] + "?pretty=true"
    (HERE / "list.pretty").write_bytes(call("GET", pretty))
    (HERE / "list.compact").write_bytes(call("GET", core("configmaps")[0][0]))


call("POST", "/api/v1/namespaces", {"metadata": {"name": NS}})
for part in sys.argv[4:] or ["builtins", "definitions", "partial", "lists"]:
    {"builtins": builtins, "definitions": definitions, "partial": partial, "lists": lists}[part]()
