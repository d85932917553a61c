#!/usr/bin/env python3
"""What OpenAPI costs watchcache and a kube-apiserver: all documents for the first time and again, 500 definitions, and the documents with them.

    tests/differential/run.sh PEERS watchcache benches/openapi.py [--definitions 500]
"""

import argparse
import gzip
import http.client
import json
import os
import ssl
import time
from urllib.parse import urlsplit

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUPS = 20


def group(nth):
    return f"g{nth % GROUPS}.openapi.example.org"


def definition(nth):
    fields = {f"f{i}": {"type": "string", "description": f"The field {i} of a thing, of which much can be said."} for i in range(60)}
    root = {"type": "object", "description": "A thing.", "properties": {"spec": {"type": "object", "properties": fields}}}
    names = {"plural": f"things{nth}", "singular": f"thing{nth}", "kind": f"Thing{nth}", "listKind": f"Thing{nth}List"}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"things{nth}.{group(nth)}"}, "spec": {
        "group": group(nth), "scope": "Namespaced", "names": names, "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}]}}


class Server:
    def __init__(self, url, options, pid):
        at = urlsplit(url)
        self.client = http.client.HTTPSConnection(at.hostname, at.port, context=ssl.create_default_context(cafile=options.ca), timeout=120)
        self.token, self.pid, self.definitions = options.token, int(pid), options.definitions

    def ask(self, path, accept="application/json", method="GET", body=None):
        headers = {"Authorization": f"Bearer {self.token}", "Accept": accept, "Accept-Encoding": "gzip", "Content-Type": "application/json"}
        self.client.request(method, path, body, headers)
        answer = self.client.getresponse()
        return answer.status, answer.read()

    def text(self, path):
        status, body = self.ask(path)
        return status, gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body

    def resident(self):
        return next(int(line.split()[1]) // 1024 for line in open(f"/proc/{self.pid}/status") if line.startswith("VmRSS"))

    def measured(self, what, work):
        clock = (~self.pid << 3) | 2
        spent, began = time.clock_gettime(clock), time.time()
        told = work()
        print(f"  {what:32} {1e3 * (time.time() - began):8.1f} ms {1e3 * (time.clock_gettime(clock) - spent):8.1f} ms CPU {self.resident():5} MiB resident  {told or ''}")

    def documents(self):
        paths = json.loads(self.text("/openapi/v3")[1])["paths"].values()
        return f"{sum(len(self.ask(path['serverRelativeURL'])[1]) for path in paths)} bytes"

    def create(self):
        for nth in range(self.definitions):
            status, body = self.ask(DEFINITIONS, method="POST", body=json.dumps(definition(nth)))
            assert status == 201, body

    def shown(self):
        last = self.definitions - 1
        deadline = time.time() + 120
        while time.time() < deadline:
            status, text = self.text(f"/openapi/v3/apis/{group(last)}/v1")
            if status == 200 and f"Thing{last}".encode() in text:
                return
            time.sleep(0.05)
        raise SystemExit("the last definition is not shown")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("ours", "theirs", "ca", "token", "known"):
        arguments.add_argument(f"--{flag}")
    arguments.add_argument("--definitions", type=int, default=500)
    options = arguments.parse_args()
    for name, url, pid in (("watchcache", options.ours, "WATCHCACHE_PID"), ("kube-apiserver", options.theirs, "KUBE_APISERVER_PID")):
        server = Server(url, options, os.environ[pid])
        time.sleep(5)
        print(f"{name}: {server.resident()} MiB resident at rest")
        for turn in ("first", "again"):
            server.measured(f"v3, all documents, {turn}", server.documents)
            server.measured(f"v2 in JSON, {turn}", lambda: f"{len(server.ask('/openapi/v2')[1])} bytes")
            server.measured(f"v2 in protobuf, {turn}", lambda: f"{len(server.ask('/openapi/v2', PROTOBUF)[1])} bytes")
        server.measured(f"{options.definitions} definitions created", server.create)
        server.measured("the last one is in v3", server.shown)
        time.sleep(5)
        for turn in ("first", "again"):
            server.measured(f"v2 with them, {turn}", lambda: f"{len(server.ask('/openapi/v2')[1])} bytes")
        time.sleep(20)
        print(f"  at the end {server.resident()} MiB resident")


if __name__ == "__main__":
    main()
