#!/usr/bin/env python3
"""types.py SWAGGER: the types of the built-in kinds, from a kube-apiserver's `/openapi/v2` (a file, or a URL that needs no credentials) to stdout.

    curl -sk -H "Authorization: Bearer $TOKEN" "$KUBE/openapi/v2" > swagger.json
    tests/peers/types.py swagger.json > src/catalogue/types.txt

Keeps what is reachable from the kinds of `src/catalogue/builtins.json`, their lists and their subresources. The form is told in the first lines.
"""
import json, pathlib, ssl, sys, urllib.request

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
ALWAYS = [META + kind for kind in ("APIResourceList", "DeleteOptions", "ObjectMeta", "Patch", "Status", "WatchEvent")] + ["io.k8s.api.core.v1.Binding"]
OPAQUE = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity", META + "Time": "time", META + "MicroTime": "micro-time",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string", META + "FieldsV1": "any", META + "Patch": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
}
SCALARS = {("string", ""): "string", ("string", "byte"): "bytes", ("boolean", ""): "boolean", ("number", "double"): "number",
           ("integer", "int32"): "int32", ("integer", "int64"): "int64"}
HEAD = """\
# The types of Kubernetes' built-in kinds, from the OpenAPI document of kube-apiserver {version} by tests/peers/types.py. Not to be edited.
# NAME [atomic] [GROUP/VERSION/KIND | VERSION/KIND of core | */KIND of every version]…   then a line for each field:
#  FIELD[!] TYPE [patch=STRATEGY] [key=MERGE KEY] [list=TYPE[:KEYS]] [map=TYPE]           `!`: required
# NAME = SHAPE   a type with a form of its own
# A TYPE is a scalar, a NAME, [TYPE] or {{TYPE}} (a map with string keys).
"""


def main(source):
    document = json.load(urllib.request.urlopen(source, context=unverified()) if "://" in source else open(source))
    types = document["definitions"]
    print(HEAD.format(version=document["info"]["version"]), end="")
    for name in sorted(reachable(types, roots(types))):
        define(name, types[name])


def unverified():
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


def roots(types):
    """The definitions of every kind that is served."""
    catalogue = json.loads((pathlib.Path(__file__).parents[2] / "src/catalogue/builtins.json").read_text())
    wanted = set()
    for row in catalogue["resources"]:
        wanted |= {(row["group"], row["version"], row["kind"]), (row["group"], row["version"], row["list_kind"])}
        for sub in row.get("subresources", []):
            wanted.add((sub.get("group") or row["group"], sub.get("version") or row["version"], sub["kind"]))
    for row in catalogue["unstored"]:
        wanted |= {(row["group"], row["version"], kind) for kind in (row["kind"], row.get("list_kind")) if kind}
    kinds = {name: [(k["group"], k["version"], k["kind"]) for k in t.get("x-kubernetes-group-version-kind", [])] for name, t in types.items()}
    return ALWAYS + [name for name, of in kinds.items() if wanted & set(of)]


def reachable(types, ahead):
    found, ahead = set(), list(ahead)
    while ahead:
        name = ahead.pop()
        if name not in found:
            found.add(name)
            ahead += references(types[name])
    return found


def references(node):
    if isinstance(node, dict):
        own = [node["$ref"].removeprefix("#/definitions/")] if isinstance(node.get("$ref"), str) else []
        return own + [name for value in node.values() for name in references(value)]
    return [name for value in node for name in references(value)] if isinstance(node, list) else []


def define(name, it):
    if name in OPAQUE or "type" not in it:
        print(f"{name} = {OPAQUE.get(name, 'any')}")
        return
    assert it["type"] == "object", (name, it)
    kinds = it.get("x-kubernetes-group-version-kind", [])
    of = sorted({f"{k['group']}/{k['version']}/{k['kind']}".lstrip("/") for k in kinds}) if len(kinds) < 5 else [f"*/{kinds[0]['kind']}"]
    print(" ".join([name] + atomic(name, it) + of))
    for field, schema in sorted(it.get("properties", {}).items()):
        print(" " + " ".join([field + "!" * (field in it.get("required", [])), shape(schema)] + facts(schema)))


def atomic(name, it):
    return [expected(it["x-kubernetes-map-type"], "atomic")] if "x-kubernetes-map-type" in it else []


def expected(value, known):
    assert value == known, value
    return value


def shape(schema):
    if "$ref" in schema:
        return schema["$ref"].removeprefix("#/definitions/")
    if schema["type"] == "array":
        return f"[{shape(schema['items'])}]"
    if schema["type"] == "object":
        return f"{{{shape(schema['additionalProperties'])}}}"
    return SCALARS[schema["type"], schema.get("format", "")]


def facts(schema):
    fact = lambda word, key: [f"{word}={schema[key]}"] if key in schema else []
    keys = schema.get("x-kubernetes-list-map-keys")
    listed = [found + (":" + ",".join(keys) if keys else "") for found in fact("list", "x-kubernetes-list-type")]
    return fact("patch", "x-kubernetes-patch-strategy") + fact("key", "x-kubernetes-patch-merge-key") + listed + fact("map", "x-kubernetes-map-type")


main(sys.argv[1])
