#!/usr/bin/env python3
"""record.py KUBE TOKEN: what a kube-apiserver says that it serves, for docs/catalogue.md: resources.jsonl beside this file, and its /openapi/v2 as types.txt, by
tests/peers/types.py."""
import json
import pathlib
import ssl
import subprocess
import sys
import tempfile
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
KUBE, TOKEN = sys.argv[1:]
TLS = ssl._create_unverified_context()


def get(path):
    ask = urllib.request.Request(KUBE + path, headers={"Authorization": f"Bearer {TOKEN}", "Accept": "application/json", "User-Agent": "record"})
    with urllib.request.urlopen(ask, context=TLS) as answer:
        return answer.read()


def lines():
    services = {item["metadata"]["name"]: item["spec"] for item in json.loads(get("/apis/apiregistration.k8s.io/v1/apiservices"))["items"]}
    groups = json.loads(get("/apis"))["groups"]
    versions = [("", "v1")] + [(group["name"], version["version"]) for group in groups for version in group["versions"]]
    for group, version in versions:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        spec = services.get(f"{version}.{group}", {})
        yield {"group": group, "version": version, "group_priority": spec.get("groupPriorityMinimum"), "version_priority": spec.get("versionPriority")}
        for resource in json.loads(get(path))["resources"]:
            row = {"group": group, "version": version, "resource": resource}
            if "list" in resource["verbs"] and "/" not in resource["name"]:
                row["list_kind"] = json.loads(get(f"{path}/{resource['name']}?limit=1"))["kind"]
            yield row


(HERE / "resources.jsonl").write_text("".join(json.dumps(line, sort_keys=True) + "\n" for line in lines()))
with tempfile.NamedTemporaryFile(suffix=".json") as swagger:
    swagger.write(get("/openapi/v2"))
    swagger.flush()
    types = subprocess.run([sys.executable, HERE.parents[1] / "peers/types.py", swagger.name], check=True, stdout=subprocess.PIPE)
    (HERE.parents[2] / "src/catalogue/types.txt").write_bytes(types.stdout)
