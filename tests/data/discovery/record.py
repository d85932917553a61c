#!/usr/bin/env python3
"""record.py ETCD_URL KUBE_URL TOKEN: record the documents beside this file from a live kube-apiserver that has no definitions.

It must store JSON (--storage-media-type=application/json). Makes the definitions below, one of which clashes and one of which is being deleted, and writes
them as they are shown and stored, without managed fields and annotations; then discovery, plain and aggregated, byte for byte. The server's address in
api.json becomes 127.0.0.1:21210. Needs nothing but Python.
"""
import base64, json, pathlib, ssl, sys, time, urllib.error, urllib.request

ETCD, KUBE, TOKEN = sys.argv[1:4]
HERE = pathlib.Path(__file__).parent
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ANY = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
EMPTY = {"openAPIV3Schema": {"type": "object"}}
COLOURED = {"openAPIV3Schema": {"type": "object", "properties": {
    "spec": {"type": "object", "properties": {"color": {"type": "string"}, "replicas": {"type": "integer"}, "size": {"type": "integer"}}},
    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}}
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def version(name, schema, served=True, storage=False, **more):
    return {"name": name, "served": served, "storage": storage, "schema": schema, **more}


def part(member):
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {member: {"type": "string"}}}}}}


SPECS = [
    {"group": "ex.io", "scope": "Namespaced",
     "names": {"plural": "widgets", "singular": "widget", "shortNames": ["wd", "wdg"], "kind": "Widget", "categories": ["all", "toys"]},
     "versions": [version("v1beta1", COLOURED, subresources={"status": {}}, selectableFields=[{"jsonPath": ".spec.color"}]),
                  version("v1", COLOURED, storage=True, subresources={"status": {}, "scale": SCALE},
                          selectableFields=[{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]),
                  version("v2alpha1", ANY, served=False)]},
    {"group": "ex.io", "scope": "Cluster", "names": {"plural": "gadgets", "kind": "Gadget"},
     "versions": [version("v2", ANY), version("v1", ANY), version("v10", ANY, served=False, storage=True), version("foo", ANY), version("v11alpha2", ANY),
                  version("v11beta1", ANY), version("v3beta1", ANY)]},
    {"group": "aa.io", "scope": "Namespaced", "names": {"plural": "parts", "kind": "Part"},
     "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://127.0.0.1:1/c"}, "conversionReviewVersions": ["v1"]}},
     "versions": [version("v1", part("a")),
                  version("v2", part("b"), storage=True, additionalPrinterColumns=[{"name": "B", "type": "string", "jsonPath": ".spec.b"}])]},
    # The names of its list are those of the parts.
    {"group": "aa.io", "scope": "Namespaced", "names": {"plural": "clashes", "singular": "clash", "shortNames": ["pt"], "kind": "Clash", "listKind": "PartList"},
     "versions": [version("v1", EMPTY, storage=True)]},
    {"group": "bb.io", "scope": "Cluster", "names": {"plural": "goers", "kind": "Goer"}, "versions": [version("v1", EMPTY, storage=True)]},
]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DOCUMENTS = {"api.json": "/api", "apis.json": "/apis", "core_v1.json": "/api/v1", "ex.io.json": "/apis/ex.io"}
DOCUMENTS |= {f"{of.replace('/', '_')}.json": "/apis/" + of for of in
              ["apps/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1", "batch/v1", "ex.io/v1beta1", "ex.io/v2", "aa.io/v2", "bb.io/v1"]}
# Of the aggregated document of groups: the order of the others' versions is nobody's.
GROUPS = ["apps", "batch", "networking.k8s.io", "apiextensions.k8s.io", "bb.io", "ex.io", "authentication.k8s.io", "authorization.k8s.io"]


def call(method, path, body=None, accept="application/json"):
    headers = {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json", "Accept": accept}
    data = None if body is None else json.dumps(body).encode()
    answer = urllib.request.urlopen(urllib.request.Request(KUBE + path, data, headers, method=method), context=TLS)
    return answer.read().decode(), answer.headers


def stored(name):
    key = "/registry/apiextensions.k8s.io/customresourcedefinitions/" + name
    body = json.dumps({"key": base64.b64encode(key.encode()).decode()}).encode()
    return base64.b64decode(json.load(urllib.request.urlopen(ETCD + "/v3/kv/range", body))["kvs"][0]["value"]).decode()


def plain(text):
    it = json.loads(text)
    for own in ("managedFields", "annotations"):
        it["metadata"].pop(own, None)
    return it


def eventually(ask, right):
    for _ in range(150):
        try:
            answer = ask()
            if right(answer):
                return answer
        except urllib.error.HTTPError:
            pass
        time.sleep(0.2)
    raise SystemExit("it did not come")


def items(text):
    """The elements of `items`, as they came."""
    at, found = text.index('"items":[') + len('"items":['), []
    while text[at] != "]":
        end = json.JSONDecoder().raw_decode(text, at)[1]
        found.append(text[at:end])
        at = end + (text[end] == ",")
    return found


names = []
for spec in SPECS:
    name = f"{spec['names']['plural']}.{spec['group']}"
    call("POST", DEFINITIONS, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": spec})
    names.append(name)
    time.sleep(1)
goer = {"apiVersion": "bb.io/v1", "kind": "Goer", "metadata": {"name": "g", "finalizers": ["ex.io/keep"]}}
eventually(lambda: call("POST", "/apis/bb.io/v1/goers", goer), lambda _: True)
call("DELETE", DEFINITIONS + "/goers.bb.io")
eventually(lambda: call("GET", DEFINITIONS + "/goers.bb.io")[0], lambda text: '"InstanceDeletionInProgress"' in text)
aggregated = eventually(lambda: call("GET", "/apis", accept=AGGREGATED)[0], lambda text: all(f'"name":"{group}"' in text for group in ["aa.io", "bb.io", "ex.io"]))
time.sleep(5)
aggregated = call("GET", "/apis", accept=AGGREGATED)[0]

shown = sorted((plain(text) for text in (json.dumps(it) for it in json.loads(call("GET", DEFINITIONS)[0])["items"])), key=lambda it: it["metadata"]["name"])
for name, list in [("definitions.json", shown), ("definitions_stored.json", [plain(stored(name)) for name in sorted(names)])]:
    rows = ",\n".join(json.dumps(it, separators=(",", ":"), ensure_ascii=False) for it in list)
    (HERE / name).write_text('{"items":[\n' + rows + "\n]}\n")
for name, path in DOCUMENTS.items():
    (HERE / name).write_text(call("GET", path)[0].replace(KUBE.split("//")[1], "127.0.0.1:21210"))
core, headers = call("GET", "/api", accept=AGGREGATED)
(HERE / "aggregated_api.json").write_text(core)
(HERE / "aggregated_api.etag").write_text(headers["ETag"].strip('"') + "\n")
by_name = {json.loads(item)["metadata"]["name"]: item for item in items(aggregated)}
(HERE / "aggregated_apis_items.jsonl").write_text("".join(by_name[group] + "\n" for group in GROUPS))
print(len(DOCUMENTS) + 5, "files")
