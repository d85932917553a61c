#!/usr/bin/env python3
"""record.py ETCD_URL KUBE_URL TOKEN [RESOURCE ...]: record anew, from a live kube-apiserver, the Tables beside this file and the columns in
src/codec/table/columns.txt. RESOURCEs are `apps/deployments`, `/pods`, `custom`; all when none is named.

The kube-apiserver must store JSON (--storage-media-type=application/json) and its etcd should have nothing else in it. Needs nothing but Python.
Each case is a file of lines, `what payload`: `resource` (what the tests need to know of it), `now` (the server's Date when the Tables were made,
seconds), `stored key revision value` of each object; then what a client gets: `list` of all of them, `page` (limit=2), `empty`, and of the first
object alone `object` (as it is), `partial` (its metadata), `get INCLUDE VERSION` and `watch INCLUDE VERSION` (two events and the annotated
bookmark, or one), `second` (of a watch of all of them), `plain` (a bookmark that ends nothing) and `deleted`.
Some have what a POST answers besides, `posted NOW`, `posted-object NOW` and `dry NOW`, each followed by the tree that it tells of (`-whole`).
Columns stand as `@columns`, the object as `@object`, the metadata as `@partial`.
"""
import base64, concurrent.futures, email.utils, json, pathlib, ssl, sys, time, urllib.error, urllib.request

import objects

ETCD, KUBE, TOKEN = sys.argv[1:4]
PARTS = sys.argv[4:]
HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
NS = "table"
SET = "labelSelector=set%3Dtable"
# What is recorded in every way; of the others there are not all combinations.
SOME = ("configmaps", "columns", "events")


def call(method, path, accept="application/json", body=None):
    data = None if body is None else json.dumps(body).encode()
    ask = urllib.request.Request(KUBE + path, data, {"Authorization": "Bearer " + TOKEN, "Accept": accept, "Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(ask, context=TLS) as answer:
            return answer.read().decode().removesuffix("\n"), int(email.utils.parsedate_to_datetime(answer.headers["Date"]).timestamp())
    except urllib.error.HTTPError as e:
        if e.code == 429:  # a custom resource whose cache is not ready yet
            time.sleep(1)
            return call(method, path, accept, body)
        raise SystemExit(f"{method} {path}: {e.code} {e.read().decode()}")


def table(path, version="v1"):
    return call("GET", path, f"application/json;as=Table;v={version};g=meta.k8s.io")


def etcd(what, **body):
    encoded = {key: base64.b64encode(value.encode()).decode() if isinstance(value, str) else value for key, value in body.items()}
    return json.load(urllib.request.urlopen(f"{ETCD}/v3/kv/{what}", json.dumps(encoded).encode()))


def read(key):
    found = etcd("range", key=key)["kvs"][0]
    return base64.b64decode(found["value"]).decode().removesuffix("\n"), found["mod_revision"]


def settle(root, keys, api_version):
    """Writes values anew as kube-apiserver itself would: in its order, with its defaults and escapes. That is how it shows them, but for the revision."""
    for key in keys:
        shown = call("GET", f"{root}/{key.rsplit('/', 1)[1]}")[0]
        kept = shown.replace(f'"resourceVersion":"{read(key)[1]}",', "", 1)
        etcd("put", key=key, value=kept.replace(f'"apiVersion":"{json.loads(shown)["apiVersion"]}"', f'"apiVersion":"{api_version}"', 1))
    time.sleep(3)


def root_of(r):
    group = f"/apis/{r['group']}" if r["group"] else "/api"
    return f"{group}/{r['version']}" + (f"/namespaces/{NS}" if r["namespaced"] else "") + f"/{r['resource']}"


def frames_of(path, version="v1", at_least=1):
    """The frames of a watch; asked again when its second was too short for them."""
    while True:
        frames = [frame for frame in table(path, version)[0].split("\n") if frame]
        if len(frames) >= at_least:
            return frames


class Case:
    def __init__(self, resource, root, keys):
        self.root, self.keys, self.lines = root, keys, ["resource " + json.dumps(resource)]
        self.columns = None

    def line(self, what, payload):
        assert "\n" not in payload, (what, payload)
        self.lines.append(f"{what} {payload}")

    def short(self, payload):
        columns = f'"columnDefinitions":{self.columns}'
        payload = payload.replace(columns, '"columnDefinitions":@columns')
        assert payload.count('"columnDefinitions":@columns') + payload.count('"columnDefinitions":null') > 0, payload
        payload = payload.replace('"object":' + self.object + "}]", '"object":@object}]')
        for version in ["v1", "v1beta1"]:
            payload = payload.replace('"object":' + self.partial.replace("meta.k8s.io/v1", "meta.k8s.io/" + version) + "}]", '"object":@partial}]')
        return payload

    def write(self, like):
        """What a POST answers, beside the object that it made: as a Table, and as a Table of what a dry run would make."""
        like["metadata"] = {"name": "posted", "labels": {"set": "posted"}}
        if "regarding" in like:  # one of events.k8s.io, which may not have what is deprecated
            like = {key: value for key, value in like.items() if not key.startswith("deprecated")}
            like |= {"eventTime": objects.MICRO, "reportingController": "table.io/x", "reportingInstance": "x-1", "action": "Act", "note": "Noted"}
        for what, query in [("posted", "includeObject=Metadata"), ("posted-object", "includeObject=Object"), ("dry", "dryRun=All")]:
            made, now = call("POST", f"{self.root}?{query}", "application/json;as=Table;v=v1;g=meta.k8s.io", like)
            told = json.loads(made)["rows"][0]["object"]["metadata"]
            whole = made if what == "dry" else call("GET", f"{self.root}/posted")[0]
            if what == "dry":
                whole = json.dumps({**like, "metadata": told}, ensure_ascii=False, separators=(",", ":"))
            else:
                call("DELETE", f"{self.root}/posted")
            self.line(f"{what} {now}", made.replace(f'"columnDefinitions":{self.columns}', '"columnDefinitions":@columns'))
            self.line(f"{what}-whole", whole)

    def record(self, deletes=True):
        first = self.keys[0].rsplit("/", 1)[1]
        name = f"fieldSelector=metadata.name%3D{first}"
        before = [read(key) for key in self.keys]
        listed, now = table(f"{self.root}?{SET}&includeObject=None")
        start = listed.index('"columnDefinitions":') + len('"columnDefinitions":')
        self.columns = listed[start:listed.index(',"rows":')]
        self.object, self.partial = call("GET", f"{self.root}/{first}")[0], call("GET", f"{self.root}/{first}", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io")[0]
        self.line("now", str(now))
        for key, (value, revision) in zip(self.keys, before):
            self.line("stored", f"{key} {revision} {value}")
        self.line("object", self.object)
        self.line("partial", self.partial)
        self.line("list", self.short(listed))
        if len(self.keys) > 2:
            self.line("page", self.short(table(f"{self.root}?{SET}&includeObject=None&limit=2")[0]))
        self.line("empty", self.short(table(f"{self.root}?fieldSelector=metadata.name%3Dabsent")[0]))
        for include, version in [("Metadata", "v1"), ("Metadata", "v1beta1"), ("Object", "v1"), ("None", "v1")]:
            self.line(f"get {include} {version}", self.short(table(f"{self.root}/{first}?includeObject={include}", version)[0]))
            if version == "v1beta1" and self.root.split("/")[-1] not in SOME:
                continue
            initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1&timeoutSeconds=1&watch=1"
            frames = frames_of(f"{self.root}?{initial}&{name}&includeObject={include}", version, 2)
            for frame in frames[:2]:
                self.line(f"watch {include} {version}", self.short(frame))
        frames = frames_of(f"{self.root}?{initial}&{SET}&includeObject=None", at_least=len(self.keys))
        if len(self.keys) > 1:
            self.line("second", self.short(frames[1]))
        if self.root.endswith("/configmaps"):  # a bookmark that ends nothing comes 2 seconds before the end
            start = json.loads(listed)["metadata"]["resourceVersion"]
            etcd("put", key="/registry/configmaps/other/x", value='{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"other"}}')
            frames = frames_of(f"{self.root}?watch=1&allowWatchBookmarks=1&timeoutSeconds=6&{name}&includeObject=None&resourceVersion={start}")
            self.line("plain", self.short(frames[-1]))
        if self.root.split("/")[-1] in SOME:
            self.write(json.loads(self.object))
        assert [read(key) for key in self.keys] == before, f"{self.root}: somebody else writes these objects"
        if deletes:
            start = json.loads(listed)["metadata"]["resourceVersion"]
            etcd("deleterange", key=self.keys[0])
            frames = frames_of(f"{self.root}?watch=1&resourceVersion={start}&timeoutSeconds=1&{name}")
            self.line("deleted", self.short(frames[-1]))
        return self.columns


def built_ins(wanted):
    catalogue = json.loads((ROOT / "src/catalogue/builtins.json").read_text())["resources"]
    served = [r for r in catalogue if "refused" not in (r.get("conversion") or {}) and r["resource"] != "customresourcedefinitions"]
    name = lambda r: f"{r['group']}/{r['resource']}"
    served = [r for r in served if not wanted or name(r) in wanted]
    placed = {}
    for r in served:
        of = "/events" if r["resource"] == "events" else name(r)
        kind = "Event" if r["resource"] == "events" else r["kind"]
        for object_name, members, *meta in objects.OBJECTS[of]:
            key = f"/registry/{r['prefix']}/" + (f"{NS}/" if r["namespaced"] else "") + object_name
            value = objects.stored(r["stored_as"], kind, r["namespaced"], object_name, members, *meta)
            etcd("put", key=key, value=json.dumps(value, separators=(",", ":"), ensure_ascii=False))
            placed.setdefault(name(r), []).append(key)
    # Some are written once more, by controllers inside kube-apiserver.
    time.sleep(12)
    with concurrent.futures.ThreadPoolExecutor(6) as at_once:
        list(at_once.map(lambda r: settle(root_of(r), placed[name(r)], r["stored_as"]), [r for r in served if r["group"] != "events.k8s.io"]))
        # Both groups of events show the same objects: one after the other.
        rest = [r for r in served if r["resource"] != "events"]
        last = sorted((r for r in served if r["resource"] == "events"), key=lambda r: r["group"] == "")
        found = dict(at_once.map(lambda r: (name(r), built_in(r, placed[name(r)])), rest)) | {name(r): built_in(r, placed[name(r)]) for r in last}
    if "apps/deployments" in found:  # a Scale is no resource of its own
        scale = table(f"/apis/apps/v1/namespaces/{NS}/deployments/b/scale")[0]
        found["autoscaling/scales"] = scale[scale.index('"columnDefinitions":') + 20:scale.index(',"rows":')]
    return found


def known(r):
    told = ["group", "version", "resource", "kind", "list_kind", "namespaced", "prefix", "stored_as", "bookmark_zero", "bookmark_annotations", "conversion"]
    return {key: r[key] for key in told if r.get(key) is not None}


def built_in(r, keys):
    case = Case(known(r), root_of(r), keys)
    columns = case.record(deletes=r["group"] != "events.k8s.io")
    (HERE / f"{r['group'] or 'core'}_{r['resource']}.case").write_text("\n".join(case.lines) + "\n")
    return columns


def definition(plural, columns):
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    kind = plural.capitalize()[:-1]
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": plural + ".table.io", "labels": {"set": "table"}},
            "spec": {"group": "table.io", "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": schema, **({"additionalPrinterColumns": columns} if columns else {})}]}}
    call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=body)
    time.sleep(3)
    return kind


def custom():
    for plural, columns in [("plains", []), ("columns", objects.COLUMNS), ("broken", objects.BROKEN)]:
        kind = definition(plural, columns)
        spec = {"spec": objects.VALUES}
        keys = []
        for name, members in [("a", spec), ("b", {}), ("c", {"spec": {"text": None, "conditions": "none"}})]:
            value = objects.stored("table.io/v1", kind, True, name, members)
            key = f"/registry/table.io/{plural}/{NS}/{name}"
            etcd("put", key=key, value=json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True))
            keys.append(key)
        time.sleep(2)
        settle(f"/apis/table.io/v1/namespaces/{NS}/{plural}", keys, "table.io/v1")
        about = {"group": "table.io", "version": "v1", "resource": plural, "kind": kind, "list_kind": kind + "List", "namespaced": True, "prefix": f"table.io/{plural}", "custom": columns}
        case = Case(about, f"/apis/table.io/v1/namespaces/{NS}/{plural}", keys)
        found = case.record()
        case.line("columns", found)
        (HERE / f"custom_{plural}.case").write_text("\n".join(case.lines) + "\n")
        if not columns:
            plain = found
    catalogue = json.loads((ROOT / "src/catalogue/builtins.json").read_text())["resources"]
    r = next(r for r in catalogue if r["resource"] == "customresourcedefinitions")
    case = Case(known(r), root_of(r), [f"/registry/{r['prefix']}/plains.table.io"])
    call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/columns.table.io")
    call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/broken.table.io")
    time.sleep(5)
    definitions = case.record(deletes=False)
    (HERE / "apiextensions.k8s.io_customresourcedefinitions.case").write_text("\n".join(case.lines) + "\n")
    call("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/plains.table.io")
    return {"custom": plain, "apiextensions.k8s.io/customresourcedefinitions": definitions}


def keep(found):
    """Merges columns into the file of the program."""
    file = ROOT / "src/codec/table/columns.txt"
    all_known = dict(line.split("\t", 1) for line in file.read_text().strip().split("\n")) | found
    file.write_text("".join(f"{name}\t{columns}\n" for name, columns in sorted(all_known.items())))


if not PARTS or set(PARTS) - {"custom"}:
    keep(built_ins(set(PARTS) - {"custom"}))
if not PARTS or "custom" in PARTS:
    keep(custom())
