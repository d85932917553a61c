#!/usr/bin/env python3
"""record.py ETCD_URL KUBE_URL TOKEN [cases|lifecycle]: record the files beside this one from a live kube-apiserver.

cases.jsonl: what was sent (POST, or PUT after a POST) and what was answered, with the definition's status a moment later. stored.jsonl: one
definition a line, the bytes in etcd and the GET of the same revision. lifecycle.jsonl: the frames of a watch while definitions come, clash and go.
The kube-apiserver must store JSON (--storage-media-type=application/json) and have no other definitions. Needs nothing but Python.
"""
import base64, copy, json, pathlib, ssl, sys, threading, time, urllib.error, urllib.request

ETCD, KUBE, TOKEN = sys.argv[1:4]
HERE = pathlib.Path(__file__).parent
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
ROOT = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    ask = urllib.request.Request(KUBE + path, data, {"Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(ask, context=TLS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        text = e.read().decode()
        try:
            return e.code, json.loads(text)
        except ValueError:
            return e.code, {"message": text}


def stored(name):
    key = "/registry/apiextensions.k8s.io/customresourcedefinitions/" + name
    body = json.dumps({"key": base64.b64encode(key.encode()).decode()}).encode()
    kv = json.load(urllib.request.urlopen(ETCD + "/v3/kv/range", body))["kvs"][0]
    return base64.b64decode(kv["value"]).decode().removesuffix("\n")


def put_away(object):
    """Straight into etcd."""
    key = "/registry/apiextensions.k8s.io/customresourcedefinitions/" + object["metadata"]["name"]
    pair = {"key": key.encode(), "value": json.dumps(object).encode()}
    urllib.request.urlopen(ETCD + "/v3/kv/put", json.dumps({name: base64.b64encode(part).decode() for name, part in pair.items()}).encode()).read()
    time.sleep(0.5)


def text(path):
    ask = urllib.request.Request(KUBE + path, headers={"Authorization": "Bearer " + TOKEN})
    return urllib.request.urlopen(ask, context=TLS).read().decode().removesuffix("\n")


def gone(name):
    call("DELETE", f"{ROOT}/{name}")
    for _ in range(100):
        if call("GET", f"{ROOT}/{name}")[0] == 404:
            return
        time.sleep(0.1)
    raise SystemExit(f"{name} stays")


def settled(name):
    """GET once the controllers have written nothing for a moment."""
    last = None
    for _ in range(50):
        time.sleep(0.15)
        now = call("GET", f"{ROOT}/{name}")[1]
        if last and last["metadata"]["resourceVersion"] == now["metadata"]["resourceVersion"] and now["status"].get("conditions"):
            return now
        last = now
    return last


def bare(object):
    """Without managed fields, and times blanked."""
    object = copy.deepcopy(object)
    object["metadata"].pop("managedFields", None)
    for condition in object.get("status", {}).get("conditions") or []:
        condition["lastTransitionTime"] = "T"
    return object


OBJ = {"type": "object"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def props(**members):
    return {"type": "object", "properties": members}


def version(name="v1", schema=OPEN, storage=True, served=True, **more):
    out = {"name": name, "served": served, "storage": storage, **more}
    if schema is not None:
        out["schema"] = {"openAPIV3Schema": schema}
    return out


def crd(plural="foos", group="ex.io", kind="Foo", name=None, scope="Namespaced", versions=None, names=None, meta=None, **spec):
    object = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name or f"{plural}.{group}", **(meta or {})},
        "spec": {"group": group, "scope": scope, "names": {"plural": plural, "kind": kind, **(names or {})}, "versions": versions or [version()], **spec},
    }
    if names and names.get("plural") is None and "plural" in names:
        del object["spec"]["names"]["plural"]
    return object


def schema(root):
    return crd(versions=[version(schema=root)])


def field(inner):
    """A schema with one property `a`."""
    return schema(props(a=inner))


def columns(*list):
    return crd(versions=[version(additionalPrinterColumns=list)])


def scale(**paths):
    return crd(versions=[version(subresources={"status": {}, "scale": paths})])


def hook(review=("v1",), **config):
    return {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": list(review)}}


SERVICE = {"namespace": "n", "name": "s"}
ALL = props(spec=props(a={"type": "string"}, n={"type": "integer"}, f={"type": "number"}, m={"type": "object", "additionalProperties": {"type": "string"}}, l={"type": "array", "items": {"type": "string"}}), status=OPEN)


def selectable(*paths, root=ALL):
    return crd(versions=[version(schema=root, selectableFields=[{"jsonPath": path} for path in paths])])


PROTECTED = {"group": "ex.k8s.io"}
APPROVED = "api-approved.kubernetes.io"
GOOD = {
    "minimal": crd(),
    "cluster scope, all names": crd(scope="Cluster", names={"singular": "foo", "shortNames": ["fo", "f"], "listKind": "FooSet", "categories": ["all"]}),
    "two versions, one schema": crd(versions=[version(schema=ALL), version("v2", ALL, storage=False)]),
    "two versions, two schemas": crd(versions=[version(schema=ALL), version("v2", OPEN, storage=False, served=False)]),
    "columns and subresources alike": crd(
        versions=[
            version(schema=ALL, storage=stores, name=name, subresources={"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.s"}},
                    additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": ".spec.a", "priority": 1, "description": "<a & b>", "format": "byte"}], selectableFields=[{"jsonPath": ".spec.a"}])
            for name, stores in (("v1beta1", False), ("v1", True))
        ]
    ),
    "columns and subresources apart": crd(
        versions=[
            version(schema=ALL, subresources={"status": {}}, additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": ".spec.a"}], selectableFields=[{"jsonPath": ".spec.n"}]),
            version("v2", storage=False, deprecated=True, deprecationWarning="old", additionalPrinterColumns=[]),
        ]
    ),
    "junctors below the root name what is not there": field({"type": "object", "allOf": [{"properties": {"y": {"maxLength": 1}}}], "oneOf": [{"items": {"maxLength": 1}}]}),
    "int-or-string in allOf": field({"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "x"}]}),
    "webhook by service": crd(versions=[version(), version("v2", ALL, storage=False)], conversion=hook(service={**SERVICE, "path": "/convert"})),
    "webhook by url": crd(versions=[version(), version("v2", storage=False)], conversion=hook(("v1", "v1beta1"), url="https://example.com/x:y?".rstrip("?"), caBundle="")),
    "webhook without effect": crd(conversion={"strategy": "None", "webhook": {}}),
    "empty members": crd(names={"shortNames": [], "categories": [], "singular": "", "listKind": ""}, versions=[version(schema={"type": "object", "properties": {}, "required": [], "title": "", "description": "", "nullable": False}, subresources={}, additionalPrinterColumns=[], deprecated=False)]),
    "unknown members": crd(versions=[version(schema={"type": "object", "foo": 1, "properties": {"a": {"type": "string", "bar": {}}}}, zip=1)], zap=2),
    "every schema member": schema(
        props(
            s={"type": "string", "format": "date-time", "title": "t", "description": "<d>", "default": "2020-01-01T00:00:00Z", "maxLength": 40, "minLength": 0, "pattern": "^.*$", "enum": ["2020-01-01T00:00:00Z", "x"], "example": {"b": 1, "a": [1.0, None]}, "externalDocs": {"url": "https://example.com", "description": "d"}, "nullable": True},
            n={"type": "number", "maximum": 1e22, "minimum": 0, "exclusiveMaximum": True, "exclusiveMinimum": True, "multipleOf": 0.5},
            i={"type": "integer", "format": "int64", "maximum": 9223372036854775807, "minimum": -9223372036854775808},
            l={"type": "array", "items": props(k={"type": "string"}, v={"type": "string"}) | {"required": ["k"]}, "maxItems": 3, "minItems": 0, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
            set={"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            m={"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 9, "minProperties": 0, "x-kubernetes-map-type": "atomic"},
            b={"type": "object", "additionalProperties": True},
            x={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
            e={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
            o={"type": "object", "properties": {"p": {"type": "string"}, "q": {"type": "string"}}, "oneOf": [{"required": ["p"]}, {"required": ["q"]}], "allOf": [{"properties": {"p": {"maxLength": 4}}}], "not": {"required": ["p", "q"]}},
        )
        | {"x-kubernetes-validations": [{"rule": "self.n > 1.0", "message": "small", "reason": "FieldValueForbidden", "fieldPath": ".n"}, {"rule": "self.s == oldSelf.s", "optionalOldSelf": False, "messageExpression": "'no'"}]}
    ),
    "metadata of all kinds": crd(meta={"labels": {"b": "1", "a": "2"}, "annotations": {"z": "<&>", "a": ""}, "finalizers": ["ex.io/keep"]}),
    "approved": crd(**PROTECTED, meta={"annotations": {APPROVED: "https://github.com/kubernetes/kubernetes/pull/1"}}),
    "unapproved": crd(**PROTECTED, meta={"annotations": {APPROVED: "unapproved, a test"}}),
    "metadata restricted to a name": schema(props(metadata=props(name={"type": "string", "maxLength": 5}), kind={"type": "string"}, apiVersion={"type": "string"})),
    "status and preserveUnknownFields false": crd(preserveUnknownFields=False) | {"status": {"storedVersions": ["v9"], "conditions": [{"type": "Established", "status": "True"}], "acceptedNames": {"plural": "x", "kind": "X"}}},
}
STORED = list(GOOD)

REJECTED = {
    "name of another": crd(name="bars.ex.io"),
    "group missing": crd(group="", name="foos."),
    "group without a dot": crd(group="ex"),
    "group in capitals": crd(group="Ex.io"),
    "scope missing": crd(scope=""),
    "scope unknown": crd(scope="Galaxy"),
    "names missing": {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.ex.io"}, "spec": {"group": "ex.io", "scope": "Namespaced", "versions": [version()]}},
    "no spec": {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.ex.io"}},
    "names that are no labels": crd(kind="Foo_1", names={"singular": "Foo", "shortNames": ["ok", "1f", ""], "categories": ["A b"], "listKind": "x<y"}),
    "a long plural": crd("f" * 64),
    "kind and listKind alike": crd(names={"listKind": "Foo"}),
    "no version": crd() | {"spec": crd()["spec"] | {"versions": []}},
    "no storage version": crd(versions=[version(storage=False)]),
    "two storage versions": crd(versions=[version(), version("v2")]),
    "two storage versions that differ": crd(versions=[version(), version("v2", ALL, subresources={"status": {}}, additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": ".spec.a"}], deprecated=True)]),
    "a version twice": crd(versions=[version(), version(storage=False, served=False)]),
    "a version's name": crd(versions=[version("V1")]),
    "schema missing": crd(versions=[version(schema=None)]),
    "schema missing in one": crd(versions=[version(), version("v2", None, storage=False)]),
    "schema without a type": schema({"properties": {"a": {"type": "string"}}}),
    "schema of an array": schema({"type": "array", "items": OBJ}),
    "schema of a string with status": crd(versions=[version(schema={"type": "string"}, subresources={"status": {}})]),
    "root members with status": crd(versions=[version(schema=OBJ | {"maxProperties": 3}, subresources={"status": {}})]),
    "nullable root": schema(OPEN | {"nullable": True}),
    "property without a type": field({}),
    "items without a type": field({"type": "array", "items": {}}),
    "items missing": field({"type": "array"}),
    "items are a list": field({"type": "array", "items": [{"type": "string"}]}),
    "type unknown": field({"type": "text"}),
    "type null": field({"type": "null"}),
    "ref and friends": field({"type": "object", "$ref": "#/x", "id": "i", "definitions": {"d": {"type": "string"}}, "patternProperties": {"p": {"type": "string"}}, "additionalItems": True}),
    "dependencies": field({"type": "object", "dependencies": {"d": ["x"]}}),
    "unique items": field({"type": "array", "uniqueItems": True, "items": {"type": "string"}}),
    "additionalProperties and properties": field({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": {"type": "string"}}),
    "additionalProperties false": field({"type": "object", "properties": {"x": {"type": "string"}}, "additionalProperties": False}),
    "additionalProperties at the root": schema({"type": "object", "additionalProperties": {"type": "string"}}),
    "structure inside junctors": field({"type": "object", "properties": {"x": {"type": "string"}}, "anyOf": [{"type": "object", "properties": {"x": {"type": "string", "default": "d", "description": "e", "title": "t", "nullable": True}}}, {"additionalProperties": {"type": "string"}}], "not": {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-int-or-string": True, "x-kubernetes-embedded-resource": True, "x-kubernetes-list-type": "set", "x-kubernetes-map-type": "atomic", "x-kubernetes-list-map-keys": ["a"]}}),
    "junctors name what is not there": schema(props(x={"type": "string"}) | {"allOf": [{"properties": {"y": {"maxLength": 1}}}], "oneOf": [{"items": {"maxLength": 1}}], "not": {"properties": {"x": {"properties": {"z": {"maxLength": 1}}}}}}),
    "metadata inside junctors": schema(OBJ | {"allOf": [{"properties": {"metadata": {"maxProperties": 1}}}]}),
    "metadata with labels": schema(props(metadata=props(labels={"type": "object", "additionalProperties": {"type": "string"}}))),
    "metadata is a string": schema(props(metadata={"type": "string"}, kind={"type": "integer"}, apiVersion={"type": "object"})),
    "default in metadata": schema(props(metadata=props(name={"type": "string", "default": "x"}))),
    "embedded without properties": field({"type": "object", "x-kubernetes-embedded-resource": True}),
    "embedded string": field({"type": "string", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}),
    "embedded with metadata of a wrong type": field({"x-kubernetes-embedded-resource": True, "properties": {"metadata": {"type": "string"}, "kind": {"type": "integer"}}, "additionalProperties": True}),
    "int-or-string with others": field({"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-embedded-resource": True}),
    "int-or-string the other way round": field({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}, {"type": "integer"}]}),
    "preserve false": field({"type": "object", "x-kubernetes-preserve-unknown-fields": False}),
    "list types": field({"type": "object", "x-kubernetes-list-type": "bag", "x-kubernetes-list-map-keys": ["x"], "x-kubernetes-map-type": "thing"}),
    "list type map without keys": field({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}),
    "list type map, wrong keys": field({"type": "array", "items": props(k={"type": "object"}, o={"type": "string", "nullable": True}), "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "k", "z", "o"]}),
    "list type set of objects": field({"type": "array", "items": {"type": "object", "nullable": True}, "x-kubernetes-list-type": "set"}),
    "list type set of lists": field({"type": "array", "items": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}, "x-kubernetes-list-type": "set"}),
    "keys without list type": field({"type": "array", "items": props(k={"type": "string"}), "x-kubernetes-list-map-keys": ["k"]}),
    "map type on nothing": field({"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-map-type": "atomic", "x-kubernetes-list-type": "atomic"}),
    "a pattern that is none": field({"type": "string", "pattern": "("}),
    "a default of a wrong type": field({"type": "string", "default": 7}),
    "a rule that does not compile": field({"type": "string", "x-kubernetes-validations": [{"rule": "self.x"}]}),
    "rules that say nothing": field({"type": "string", "x-kubernetes-validations": [{"rule": " "}, {"rule": "true", "message": " "}, {"rule": "true", "message": "a\nb"}, {"rule": "true ||\ntrue"}, {"rule": "true", "messageExpression": " ", "reason": "Nope", "fieldPath": " "}, {"rule": "true", "fieldPath": ".a\n"}]}),
    "printer columns": columns({"name": "", "type": "", "jsonPath": ""}, {"name": "A", "type": "text", "format": "hex", "jsonPath": "spec.a"}, {"name": "B", "type": "date", "jsonPath": "."}),
    "printer columns apart": crd(versions=[version(additionalPrinterColumns=[{"name": "A", "type": "x", "jsonPath": ".a"}]), version("v2", storage=False)]),
    "scale without paths": scale(),
    "scale with wrong paths": scale(specReplicasPath=".status.n", statusReplicasPath="status.n", labelSelectorPath=".metadata.x"),
    "selectable fields": selectable(".spec.a", "", "spec.a", ".spec.z", ".spec.f", ".metadata.name", ".spec.a", ".spec.m.k", ".spec.l[0]", ".spec."),
    "nine selectable fields": selectable(*[f".spec.a{i}" for i in range(9)], root=props(spec=props(**{f"a{i}": {"type": "boolean"} for i in range(9)}))),
    "selectable fields without a schema": crd(versions=[version(schema=None, selectableFields=[{"jsonPath": ".spec.a"}]), version("v2", storage=False)]),
    "selectable fields apart, one schema": crd(versions=[version(schema=ALL, selectableFields=[{"jsonPath": ".spec.n"}]), version("v2", ALL, storage=False)]),
    "metadata of an embedded resource": field({"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"metadata": props(labels={"type": "object", "additionalProperties": {"type": "string", "default": "x"}}, e={"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True})}}),
    "protected group": crd(**PROTECTED),
    "protected group, wrong annotation": crd(**PROTECTED, meta={"annotations": {APPROVED: "yes"}}),
    "preserveUnknownFields": crd(preserveUnknownFields=True),
    "preserveUnknownFields and a default": crd(preserveUnknownFields=True, versions=[version(schema=props(a={"type": "string", "default": "x"}))], conversion=hook(url="https://x")),
    "conversion unknown": crd(conversion={"strategy": "Magic"}),
    "conversion empty": crd(conversion={}),
    "webhook missing": crd(conversion={"strategy": "Webhook"}),
    "webhook with strategy None": crd(conversion=hook(url="https://x") | {"strategy": "None"}),
    "webhook of two": crd(conversion=hook(url="https://x", service=SERVICE)),
    "webhook of none": crd(conversion=hook(caBundle="AAAA")),
    "webhook url": crd(conversion=hook(url="http://u:p@/x?q=1#f")),
    "webhook url that is none": crd(conversion=hook(url="https://a b\x7f")),
    "webhook service": crd(conversion=hook(service={"namespace": "", "name": "", "port": 0, "path": "a//B/"})),
    "webhook service path": crd(conversion=hook(service=SERVICE | {"path": "//", "port": 70000})),
    "webhook review versions": crd(conversion=hook(("v2", "v2", "V3"), url="https://x")),
    "no webhook review versions": crd(conversion=hook((), url="https://x")),
    "deprecation warning": crd(versions=[version(deprecationWarning="x"), version("v2", storage=False, deprecated=True, deprecationWarning=""), version("v3", storage=False, deprecated=True, deprecationWarning="x" * 257 + "\n")]),
}


def changed(change, first=None):
    return first or crd(), change


def set_at(path, value):
    def change(object):
        *way, last = path
        for step in way:
            object = object[step]
        if value is None:
            del object[last]
        else:
            object[last] = value
    return change


BAD_BUNDLE = hook(url="https://x", caBundle="AAAA")
LOOSE = {"properties": {"a": {"description": "no type"}}}
ODD = props(a={"type": "text"}, l={"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "nullable": True}})


def old(schema=None, **spec):
    """A v1beta1 definition as an old kube-apiserver has left it in etcd."""
    if schema is not None:
        spec["validation"] = {"openAPIV3Schema": schema}
    names = {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"}
    versions = [{"name": "v1", "served": True, "storage": True}]
    return {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "metadata": {"name": "foos." + spec.get("group", "ex.io"), "uid": "6b0b7b0a-0000-4000-8000-000000000000", "generation": 1, "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"group": "ex.io", "version": "v1", "names": names, "scope": "Namespaced", "versions": versions, "conversion": {"strategy": "None"}, "preserveUnknownFields": True, **spec},
        "status": {"conditions": [], "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]},
    }


MANY = old(props(**{f"a{i}": {"type": "string"} for i in range(20)}), selectableFields=[{"jsonPath": f".a{i}"} for i in range(20)], preserveUnknownFields=False)


def storage_to_v2(object):
    object["spec"]["versions"][0]["storage"], object["spec"]["versions"][1]["storage"] = False, True


TWO = crd(versions=[version(), version("v2", storage=False)])
UPDATES = {
    "nothing": changed(lambda object: None),
    "a label": changed(set_at(["metadata", "labels"], {"a": "b"})),
    "scope": changed(set_at(["spec", "scope"], "Cluster")),
    "kind": changed(set_at(["spec", "names", "kind"], "Bar")),
    "plural": changed(set_at(["spec", "names", "plural"], "bars")),
    "group": changed(set_at(["spec", "group"], "ex.com")),
    "short names": changed(set_at(["spec", "names", "shortNames"], ["fx"])),
    "singular": changed(set_at(["spec", "names", "singular"], "fuu")),
    "list kind": changed(set_at(["spec", "names", "listKind"], "FooBag")),
    "a new version": changed(set_at(["spec", "versions"], TWO["spec"]["versions"])),
    "storage version": changed(storage_to_v2, TWO),
    "stored version removed": changed(set_at(["spec", "versions"], [version("v2")]), TWO),
    "status": changed(set_at(["status", "storedVersions"], ["v1", "v7"])),
    "schema to a bad one": changed(set_at(["spec", "versions", 0, "schema"], {"openAPIV3Schema": {}})),
    "preserveUnknownFields": changed(set_at(["spec", "preserveUnknownFields"], True)),
    "approval taken away": changed(set_at(["metadata", "annotations"], None), GOOD["approved"]),
    "approval changed": changed(set_at(["metadata", "annotations", APPROVED], "unapproved: later"), GOOD["approved"]),
    "approval spoilt": changed(set_at(["metadata", "annotations", APPROVED], "hm"), GOOD["approved"]),
    "bad bundle": changed(set_at(["spec", "conversion"], hook(url="https://x", caBundle="AAAA"))),
    "bundle of a bad certificate": changed(set_at(["spec", "conversion"], hook(url="https://x", caBundle=base64.b64encode(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").decode()))),
    "own plural as a short name": changed(set_at(["spec", "names", "shortNames"], ["foos"])),
    "scope before it is established": changed(set_at(["spec", "scope"], "Cluster"), crd(conversion=BAD_BUNDLE)),
    "kind before it is established": changed(set_at(["spec", "names", "kind"], "Bar"), crd(conversion=BAD_BUNDLE)),
    "old, no schema, a label": changed(set_at(["metadata", "labels"], {"a": "b"}), old()),
    "old, protected and not approved, a label": changed(set_at(["metadata", "labels"], {"a": "b"}), old(OPEN, **PROTECTED, preserveUnknownFields=False)),
    "old, no schema, preserves no more": changed(set_at(["spec", "preserveUnknownFields"], False), old()),
    "old, not structural, a label": changed(set_at(["metadata", "labels"], {"a": "b"}), old(LOOSE)),
    "old, not structural, preserves no more": changed(set_at(["spec", "preserveUnknownFields"], False), old(LOOSE)),
    "old, not structural, made so": changed(set_at(["spec"], crd()["spec"]), old(LOOSE)),
    "old, an unknown type and a set of maps, a label": changed(set_at(["metadata", "labels"], {"a": "b"}), old(ODD)),
    "old, an unsupported member, a label": changed(set_at(["metadata", "labels"], {"a": "b"}), old({"type": "object", "$schema": "http://x"})),
    "old, twenty selectable fields, a label": changed(set_at(["metadata", "labels"], {"a": "b"}), MANY),
    "old, twenty selectable fields, one less": changed(lambda object: object["spec"]["versions"][0]["selectableFields"].pop(), MANY),
    "review versions": changed(set_at(["spec", "conversion"], hook(("v9",), url="https://x"))),
}


def answered(code, answer):
    out = {"code": code, "message": answer.get("message"), "causes": answer.get("details", {}).get("causes", [])} if code >= 400 else {"code": code}
    return out


def record_cases():
    cases, stored_lines = [], []
    for name, body in (GOOD | REJECTED).items():
        code, answer = call("POST", ROOT, body)
        case = {"name": name, "create": body, "answer": answered(code, answer)}
        if (code < 300) != (name in GOOD):
            print("unexpected:", name, code, answer.get("message", ""), file=sys.stderr)
        if code < 300:
            crd_name = answer["metadata"]["name"]
            case["created"] = bare(answer)
            case["settled"] = bare(settled(crd_name))
            if name in STORED:
                stored_lines.append(json.dumps({"name": name, "stored": stored(crd_name), "get": text(f"{ROOT}/{crd_name}")}))
            if answer["metadata"].get("finalizers"):
                live = call("GET", f"{ROOT}/{crd_name}")[1]
                del live["metadata"]["finalizers"]
                call("PUT", f"{ROOT}/{crd_name}", live)
            gone(crd_name)
        cases.append(case)
    for name, (first, change) in UPDATES.items():
        crd_name = first["metadata"]["name"]
        put_away(first) if first["apiVersion"].endswith("v1beta1") else call("POST", ROOT, first)
        old = settled(crd_name)
        new = copy.deepcopy(old)
        change(new)
        code, answer = call("PUT", f"{ROOT}/{crd_name}", new)
        case = {"name": name, "old": bare(old), "update": bare(new), "answer": answered(code, answer)}
        if code < 300:
            case["updated"] = bare(answer)
            case["settled"] = bare(settled(crd_name))
        gone(crd_name)
        cases.append(case)
    (HERE / "cases.jsonl").write_text("".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases))
    (HERE / "stored.jsonl").write_text("".join(line + "\n" for line in stored_lines))
    print(len(GOOD), "good", len(REJECTED), "refused", len(UPDATES), "updates")


class Watch(threading.Thread):
    """Every frame of all definitions from now on."""

    def __init__(self):
        super().__init__(daemon=True)
        self.frames = []
        revision = call("GET", ROOT + "?limit=1")[1]["metadata"]["resourceVersion"]
        ask = urllib.request.Request(f"{KUBE}{ROOT}?watch=1&resourceVersion={revision}", headers={"Authorization": "Bearer " + TOKEN})
        self.answer = urllib.request.urlopen(ask, context=TLS)
        self.start()

    def run(self):
        try:
            for line in self.answer:
                frame = json.loads(line)
                frame["object"]["metadata"].pop("managedFields", None)
                self.frames.append(frame)
        except Exception:
            pass


def record_lifecycle():
    out = {}

    def story(name, *steps):
        watch = Watch()
        for step in steps:
            step()
            time.sleep(1.5)
        out[name] = list(watch.frames)

    post = lambda body: lambda: call("POST", ROOT, body)
    delete = lambda name: lambda: call("DELETE", f"{ROOT}/{name}")

    def instances(count):
        def make():
            for i in range(count):
                code, answer = call("POST", "/apis/ex.io/v1/namespaces/default/foos", {"apiVersion": "ex.io/v1", "kind": "Foo", "metadata": {"name": f"i{i}"}})
                assert code == 201, answer
        return make

    def put(name, change):
        def send():
            live = call("GET", f"{ROOT}/{name}")[1]
            change(live)
            code, answer = call("PUT", f"{ROOT}/{name}", live)
            assert code == 200, answer
        return send

    story("comes and goes", post(crd()), lambda: time.sleep(1), instances(2), delete("foos.ex.io"), lambda: time.sleep(3))
    story("kept by another finalizer", post(crd(meta={"finalizers": ["ex.io/keep"]})), delete("foos.ex.io"), lambda: time.sleep(3), put("foos.ex.io", set_at(["metadata", "finalizers"], None)))
    clash = crd("bars", kind="Bar", names={"singular": "foo", "shortNames": ["b", "fo", "fz"], "listKind": "FooList"})
    story("a clash, and the other goes", post(crd(names={"shortNames": ["fo", "fz"]})), post(clash), delete("foos.ex.io"), lambda: time.sleep(2), delete("bars.ex.io"))
    story("a clash, never established", post(crd()), post(crd("bars", kind="Foo")), delete("bars.ex.io"), delete("foos.ex.io"))
    story("a plural that is another's singular", post(crd(names={"singular": "bars"})), post(crd("bars", kind="Bar")), put("foos.ex.io", set_at(["spec", "names", "singular"], "foo")), delete("bars.ex.io"), delete("foos.ex.io"))
    story("an established one asks for a taken name", post(crd()), post(crd("bars", kind="Bar")), put("bars.ex.io", set_at(["spec", "names", "shortNames"], ["foos", "b"])), put("bars.ex.io", set_at(["spec", "names", "shortNames"], ["b"])), delete("bars.ex.io"), delete("foos.ex.io"))
    # Two controllers race for the first write; the story that we tell has the approval first.
    while "approved" not in out or out["approved"][1]["object"]["status"]["conditions"][0]["type"] == "NamesAccepted":
        story("approved", post(GOOD["approved"]), put("foos.ex.k8s.io", set_at(["metadata", "annotations", APPROVED], "unapproved: later")), delete("foos.ex.k8s.io"))
    story("storage moves", post(TWO), put("foos.ex.io", storage_to_v2), delete("foos.ex.io"))
    story("a bad bundle", post(crd(conversion=hook(url="https://x", caBundle="AAAA"))), put("foos.ex.io", set_at(["spec", "conversion"], {"strategy": "None"})), delete("foos.ex.io"))
    frames = [{"story": name, **frame} for name, frames in out.items() for frame in frames]
    (HERE / "lifecycle.jsonl").write_text("".join(json.dumps(frame, ensure_ascii=False) + "\n" for frame in frames))
    for name, frames in out.items():
        print(name, len(frames))
    for name in ("foos.ex.io", "bars.ex.io", "foos.ex.k8s.io"):
        gone(name)


for part in sys.argv[4:] or ["cases", "lifecycle"]:
    {"cases": record_cases, "lifecycle": record_lifecycle}[part]()
