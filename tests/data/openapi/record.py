#!/usr/bin/env python3
"""record.py KUBE_URL TOKEN: record the files beside this one from a live kube-apiserver without feature gates and without definitions.

parameters.jsonl. A line: a member of a path in OpenAPI v3 (a method, or `parameters`, which all methods of the path share), its parameters as `name in type`,
and the paths that have it so. Of core/v1, apps/v1 and the group of a definition that is made for it.

v2.jsonl. A line: a definition as the server shows it, or what `/openapi/v2` says of those: a path of their group versions, the schema of a kind; and the parameters
that operations share, of all groups.

v3.jsonl. The same definitions, of which documents of v3 say a path or a schema. In both, some lines have besides what it is in protobuf: a message of name and value.

src/catalogue/openapi/recorded.json.gz. What documents are made of that no rule tells: the schemas of all documents of OpenAPI v3, the parameters of operations by
`x-kubernetes-action`, the members that custom objects, objects inside of them and their lists begin with, and the group versions of which kinds like DeleteOptions
are told, in `/openapi/v2` and in the documents of custom resources. Its bytes depend on what is recorded and on Python's zlib alone.

Needs nothing but Python.
"""
import base64, gzip, json, pathlib, ssl, sys, time, urllib.error, urllib.request

KUBE, TOKEN = sys.argv[1:3]
HERE = pathlib.Path(__file__).parent
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(group, kind, versions, scope="Namespaced"):
    plural = kind.lower() + "s"
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"}, "spec": {
        "group": group, "scope": scope, "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": kind + "List"},
        "versions": versions}}


def version(name, schema, storage=True, served=True, **more):
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}, **more}


def thing(**properties):
    return {"type": "object", "properties": properties}


STRING, INTEGER, OPEN = {"type": "string"}, {"type": "integer"}, {"x-kubernetes-preserve-unknown-fields": True}
SUBRESOURCES = {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
WIDGETS = definition("ex.io", "Widget", [version("v1", {"type": "object"}, subresources=SUBRESOURCES)])

RICH = thing(
    spec={
        "description": "what is wished", "type": "object", "required": ["nothing", "size", "nothings"],
        "minProperties": 1, "maxProperties": 90, "properties": {
            "size": {"description": "how many", "type": "integer", "format": "int32", "minimum": 0, "maximum": 10, "exclusiveMaximum": True, "default": 3},
            "ratio": {"type": "number", "multipleOf": 0.5, "nullable": True},
            "colour": {"type": "string", "enum": ["red", "green"], "default": "red", "title": "Colour", "example": "red"},
            "name": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[a-z]+$", "externalDocs": {"url": "https://ex.io/names"}},
            "nothing": {"description": "may be null", "type": "object", "nullable": True, "required": ["a"], "properties": {"a": STRING}},
            "nothings": {"type": "array", "nullable": True, "items": STRING, "maxItems": 9},
            "port": {"x-kubernetes-int-or-string": True, "description": "a number or a name"},
            "share": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+%?$"},
            "one": {**thing(a=STRING, b=INTEGER), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            "all": {**thing(a=STRING), "allOf": [{"properties": {"a": {"maxLength": 5}}}], "not": {"required": ["z"]}},
            "any": {**STRING, "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
            "open": OPEN,
            "opens": {"type": "object", **OPEN, "properties": {"known": STRING}, "required": ["known"]},
            "openList": {"type": "array", **OPEN, "items": STRING},
            "free": {"type": "object", "additionalProperties": True},
            "labels": {"type": "object", "additionalProperties": STRING, "x-kubernetes-map-type": "atomic"},
            "counts": {"type": "object", "additionalProperties": {"type": "integer", "nullable": True}},
            "set": {"type": "array", "items": STRING, "x-kubernetes-list-type": "set", "default": []},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"], "items": {
                "type": "object", "required": ["key"], "properties": {"key": STRING, "value": {**STRING, "default": "none", "nullable": True}}}},
            "atomic": {"type": "array", "items": {"type": "object", "x-kubernetes-map-type": "granular", "properties": {"x": INTEGER}},
                       "x-kubernetes-list-type": "atomic", "minItems": 1},
            "checked": {**thing(low=INTEGER, high=INTEGER), "x-kubernetes-validations": [
                {"rule": "self.low <= self.high", "message": "upside down", "reason": "FieldValueInvalid", "fieldPath": ".low"}]},
            "inner": {"type": "object", "x-kubernetes-embedded-resource": True, "required": ["spec"],
                      "properties": {"spec": thing(replicas={**INTEGER, "default": 1}), "kind": {**STRING, "minLength": 1}}},
            "inners": {"type": "array", "items": {"type": "object", "x-kubernetes-embedded-resource": True, **OPEN}},
            "innerNothing": {"type": "object", "x-kubernetes-embedded-resource": True, "nullable": True, "properties": {"spec": thing(a=STRING)}},
            "when": {"type": "string", "format": "date-time"}, "bytes": {"type": "string", "format": "byte"},
            # Names that are words of schemas too.
            "default": STRING, "nullable": {"type": "boolean"}, "allOf": {"type": "array", "items": thing(default=STRING, items=thing(nullable=STRING))},
        }},
    status={"type": "object", "nullable": True, "properties": {"replicas": INTEGER}},
    metadata={"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}},
)
MADE = [
    definition("rich.ex.io", "Gadget", [
        version("v1", RICH, subresources=SUBRESOURCES, selectableFields=[{"jsonPath": ".spec.colour"}, {"jsonPath": ".spec.name"}]),
        version("v1alpha1", thing(), storage=False, served=False)]),
    definition("rich.ex.io", "Crate", [version("v1", {**thing(spec=STRING), **OPEN, "description": "open at its root"})], scope="Cluster"),
    # Versions that we serve both: none prunes what the other has.
    definition("ex.io", "Plain", [
        version("v1", {**thing(a=STRING), "description": "newer"}), version("v1beta1", {**thing(a=STRING), "required": ["a"]}, storage=False)]),
]


def call(method, path, body=None):
    headers = {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json", "Accept": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    return json.load(urllib.request.urlopen(urllib.request.Request(KUBE + path, data, headers, method=method), context=TLS))


def document(path):
    for _ in range(100):
        try:
            found = call("GET", "/openapi/v3/" + path)
            if found.get("paths"):
                return found
        except urllib.error.HTTPError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"{path} is not told")


def parameters():
    call("POST", DEFINITIONS, WIDGETS)
    rows = {}
    for path in ["api/v1", "apis/apps/v1", "apis/ex.io/v1"]:
        for path, members in document(path)["paths"].items():
            # Proxies take any method: they are no operations on objects.
            for member, of in members.items() if "/proxy" not in path else []:
                parameters = of if member == "parameters" else of.get("parameters", [])
                told = tuple(f"{it['name']} {it['in']} {it['schema']['type']}" for it in parameters)
                rows.setdefault((member, told), []).append(path)
    call("DELETE", DEFINITIONS + "/widgets.ex.io")
    lines = [{"member": member, "parameters": list(told), "paths": paths} for (member, told), paths in rows.items()]
    (HERE / "parameters.jsonl").write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    print(len(lines), "rows")


def swagger(groups, names):
    """The document, once it tells of these kinds and of no others of these groups."""
    for _ in range(600):
        found = call("GET", "/openapi/v2")
        there = {name for name in found["definitions"] if name.rsplit(".", 2)[0] in groups}
        if there == names:
            return found
        time.sleep(0.2)
    raise SystemExit(f"told are {there}, not {names}")


def fields(message):
    """The fields of a protobuf message that are texts or messages: numbers and bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 2:
            length = varint()
            yield key >> 3, message[at:at + length]
            at += length
        elif key & 7 == 0:
            varint()
        else:
            at += 8


def messages(path, media, *places):
    """The messages with a name at each place, a path of field numbers, by name."""
    request = urllib.request.Request(KUBE + path, None, {"Authorization": "Bearer " + TOKEN, "Accept": media})
    whole = urllib.request.urlopen(request, context=TLS).read()
    found = {}
    for place in places:
        inside = [whole]
        for number in place:
            inside = [value for message in inside for of, value in fields(message) if of == number]
        found |= {next(fields(message))[1].decode(): base64.b64encode(message).decode() for message in inside}
    return found


PROTOBUF = "application/com.github.proto-openapi.spec.v{}.v1.0+protobuf"
PATHS_IN_PROTOBUF = ["/apis/rich.ex.io/v1/namespaces/{namespace}/gadgets", "/apis/rich.ex.io/v1/namespaces/{namespace}/gadgets/{name}"]


def with_protobuf(rows, told):
    """The rows, with what they are in protobuf: all but most paths, which are alike."""
    for row in rows:
        name = row.get("definition") or row.get("parameter") or row.get("path")
        if name in told and (name in PATHS_IN_PROTOBUF or "path" not in row):
            row["protobuf"] = told[name]
    return rows


def v2():
    for made in MADE:
        call("POST", DEFINITIONS, made)
    reverse = lambda group: ".".join(reversed(group.split(".")))
    names, places = set(), set()
    for made in MADE:
        spec = made["spec"]
        for it in spec["versions"]:
            if it["served"]:
                places.add(f"/apis/{spec['group']}/{it['name']}/")
                names |= {f"{reverse(spec['group'])}.{it['name']}.{spec['names'][of]}" for of in ["kind", "listKind"]}
    found = swagger({reverse(made["spec"]["group"]) for made in MADE}, names)
    # Discovery is told of built-in groups alone.
    paths = {path: it for path, it in found["paths"].items() if any(path.startswith(place) for place in places)}
    shown = []
    for made in MADE:
        path = DEFINITIONS + "/" + made["metadata"]["name"]
        it = call("GET", path)
        names_, conditions = it["status"]["acceptedNames"], it["status"]["conditions"]
        it["metadata"] = {"name": made["metadata"]["name"]}
        it["status"]["conditions"] = [{"type": of["type"], "status": of["status"]} for of in conditions]
        shown.append(it)
    rows = [{"shown": it} for it in shown] + [{"path": path, "of": of} for path, of in sorted(paths.items())]
    rows += [{"definition": name, "of": found["definitions"][name]} for name in sorted(names)]
    rows += [{"parameter": name, "of": it} for name, it in sorted(found["parameters"].items())]
    third = []
    for place in sorted(places):
        told = document(place.strip("/"))
        third += [{"path": path, "of": it} for path, it in sorted(told["paths"].items())]
        third += [{"definition": name, "of": it} for name, it in sorted(told["components"]["schemas"].items()) if name in names]
        third = with_protobuf(third, messages("/openapi/v3" + place.rstrip("/"), PROTOBUF.format(3), (4, 1), (5, 1, 1)))
    rows = with_protobuf(rows, messages("/openapi/v2", PROTOBUF.format(2), (8, 2), (9, 1), (10, 1)))
    (HERE / "v3.jsonl").write_text("".join(json.dumps(row, separators=(",", ":"), sort_keys=True) + "\n" for row in third))
    (HERE / "v2.jsonl").write_text("".join(json.dumps(row, separators=(",", ":"), sort_keys=True) + "\n" for row in rows))
    for made in MADE:
        call("DELETE", DEFINITIONS + "/" + made["metadata"]["name"])
    print(len(paths), "paths and", len(names), "definitions")


GVK = "x-kubernetes-group-version-kind"


def by_action(documents):
    """The parameters that are not of a path, of each action. One of a name in the description is of one kind."""
    found = {}
    for document in documents:
        for members in document["paths"].values():
            for of in members.values():
                if isinstance(of, dict) and of.get("x-kubernetes-action") not in [None, "connect"]:
                    told = [it for it in members.get("parameters", []) + of.get("parameters", []) if it["in"] != "path"]
                    found.setdefault(of["x-kubernetes-action"], []).append(told)
    # That of a subresource of its own, the log of a Pod, is none of these.
    least = lambda lists: sorted(min(lists, key=len), key=lambda it: it["name"])
    return {action: least(lists) for action, lists in found.items()}


def recorded():
    paths = call("GET", "/openapi/v3")["paths"]
    documents = [document(path) for path in paths]
    inner = {**thing(spec=STRING), "x-kubernetes-embedded-resource": True}
    gadgets = definition("rich.ex.io", "Gadget", [version("v1", thing(inner=inner), subresources=SUBRESOURCES)])
    call("POST", DEFINITIONS, gadgets)
    custom = document("apis/rich.ex.io/v1")
    call("DELETE", DEFINITIONS + "/gadgets.rich.ex.io")
    schemas, every = {}, {}
    for of in documents:
        for name, schema in of["components"].get("schemas", {}).items():
            kinds = schema.get(GVK, [])
            # A kind of every group version is told of that of the document.
            before = schemas.setdefault(name, schema)
            if len(kinds) < 2 or len({(it["group"], it["version"]) for it in kinds}) < 2:
                assert before == schema or before.get(GVK) != kinds, name
            else:
                every[name] = kinds[0]["kind"]
    swagger = call("GET", "/openapi/v2")["definitions"]
    places = lambda kinds: [[it["group"], it["version"]] for it in kinds]
    listed = {kind: places(swagger[name][GVK]) for name, kind in every.items()}
    kinds = listed["DeleteOptions"]
    assert all(it == kinds for it in listed.values()), "other group versions for other kinds"
    for name in every:
        schemas[name] = {member: it for member, it in schemas[name].items() if member != GVK}
    names = {it: custom["components"]["schemas"]["io.ex.rich.v1." + it]["properties"] for it in ["Gadget", "GadgetList"]}
    head = lambda of: {member: of[member] for member in ["apiVersion", "kind", "metadata"]}
    made = {
        "custom_kinds": places(custom["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"][GVK]),
        "every": every, "every_kinds": kinds,
        "heads": {"embedded": head(names["Gadget"]["inner"]["properties"]), "list": head(names["GadgetList"]), "object": head(names["Gadget"])},
        "parameters": {"built_in": by_action(documents), "custom": by_action([custom])},
        "schemas": schemas,
    }
    text = json.dumps(made, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    (HERE.parents[2] / "src/catalogue/openapi/recorded.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(len(schemas), "schemas,", len(text), "bytes")


recorded()
parameters()
v2()
