#!/usr/bin/env python3
"""record.py KUBE_URL TOKEN: record parameters.jsonl beside this file from a live kube-apiserver without feature gates and without definitions.

A line: a member of a path in OpenAPI v3 (a method, or `parameters`, which all methods of the path share), its parameters as `name in type`, and the paths
that have it so. Of core/v1, apps/v1 and the group of a definition that is made for it. Needs nothing but Python.
"""
import json, pathlib, ssl, sys, time, urllib.error, urllib.request

KUBE, TOKEN = sys.argv[1:3]
HERE = pathlib.Path(__file__).parent
TLS = ssl.create_default_context()
TLS.check_hostname, TLS.verify_mode = False, ssl.CERT_NONE
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.ex.io"}, "spec": {
    "group": "ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
    "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}, "subresources": {
        "status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}}]}}


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
