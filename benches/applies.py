#!/usr/bin/env python3
"""What a PUT and an apply cost watchcache and a kube-apiserver: CPU of each server for one request, of a Pod of some 3 KB, of an Endpoints of some 170 KB, and of custom
resources of 2 and of 50 KB with a schema.

    tests/differential/run.sh PEERS watchcache benches/applies.py [--requests 300] [--large 30] [--rounds 5]

Asks both servers the same, one request after the other on one TLS connection, A B A B. watchcache has its embedded store inside, kube-apiserver an etcd beside, whose CPU is told
apart. Prints medians of the rounds, and their ratio."""

import argparse
import http.client
import json
import os
import ssl
import statistics
import time
from urllib.parse import urlsplit

APPLY, JSON, NAMESPACE = "application/apply-patch+yaml", "application/json", "/api/v1/namespaces/default"


def pod():
    container = lambda nth: {
        "name": f"c{nth}", "image": f"registry.example/app/service-{nth}:1.2.{nth}", "args": [f"--flag-{i}=value-{i}" for i in range(4)],
        "env": [{"name": f"VARIABLE_{i}", "value": f"value of variable {i}"} for i in range(8)],
        "ports": [{"name": "http", "containerPort": 8080 + nth, "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "500m", "memory": "256Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "config", "mountPath": "/etc/config"}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080 + nth, "scheme": "HTTP"}, "periodSeconds": 10}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"app": "web", "turn": "0"}, "annotations": {"example.org/owner": "somebody"}},
            "spec": {"containers": [container(nth) for nth in range(3)], "volumes": [{"name": "config", "emptyDir": {}}]}}


def endpoints():
    address = lambda nth: {"ip": f"10.{nth >> 16 & 255}.{nth >> 8 & 255}.{nth & 255}", "nodeName": f"node-{nth % 100}",
                           "targetRef": {"kind": "Pod", "namespace": "default", "name": f"web-{nth:06}", "uid": f"{nth:08x}-0000-4000-8000-000000000000"}}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "e", "labels": {"turn": "0"}},
            "subsets": [{"addresses": [address(nth) for nth in range(1000)], "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}]}


def definition():
    text = lambda **more: {"type": "string", **more}
    part = {"type": "object", "required": ["name"], "properties": {
        "name": text(maxLength=63, pattern="^[a-z0-9-]+$"), "mode": text(enum=["Fast", "Safe"]), "weight": {"type": "integer", "minimum": 0, "maximum": 1000},
        "labels": {"type": "object", "additionalProperties": text()}, "limit": {"x-kubernetes-int-or-string": True}, "protocol": text(default="TCP")}}
    parts = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": part}
    root = {"type": "object", "properties": {"spec": {"type": "object", "required": ["parts"], "properties": {"parts": parts, "size": {"type": "integer", "default": 1}}}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.bench.example.org"}, "spec": {
        "group": "bench.example.org", "scope": "Namespaced", "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}]}}


def gadget(name, parts):
    part = lambda nth: {"name": f"part-{nth}", "mode": "Safe", "weight": nth, "labels": {"a": "some text that is a label", "b": "another one"}, "limit": "100m" if nth % 2 else nth}
    return {"apiVersion": "bench.example.org/v1", "kind": "Gadget", "metadata": {"name": name, "labels": {"turn": "0"}}, "spec": {"parts": [part(nth) for nth in range(parts)]}}


class Server:
    def __init__(self, url, ca, token, pid, etcd):
        at = urlsplit(url)
        self.client = http.client.HTTPSConnection(at.hostname, at.port, context=ssl.create_default_context(cafile=ca), timeout=60)
        self.headers, self.clocks = {"Authorization": f"Bearer {token}", "User-Agent": "applies/1"}, [(~int(of) << 3) | 2 for of in (pid, etcd) if of]

    def ask(self, method, path, body=None, media=JSON):
        self.client.request(method, path, None if body is None else json.dumps(body), self.headers | {"Content-Type": media})
        answer = self.client.getresponse()
        text = answer.read()
        assert answer.status in (200, 201), (method, path, answer.status, text[:300])
        return text

    def spent(self):
        return [time.clock_gettime(clock) for clock in self.clocks]

    def cost(self, count, request):
        before = self.spent()
        for nth in range(count):
            request(nth)
        return [(after - then) * 1e6 / count for then, after in zip(before, self.spent())]


class Case:
    """An object on one server, and the requests that are measured."""

    def __init__(self, server, path, config):
        self.server, self.path, self.config, self.turn = server, path, config, 0
        self.apply()
        # Somebody else has a part too.
        other = {"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": {"labels": {"other": "yes"}}}
        server.ask("PATCH", f"{path}?fieldManager=other&force=true", other, APPLY)
        self.object = json.loads(server.ask("GET", path))
        self.revision = self.object["metadata"]["resourceVersion"]

    def next(self):
        self.turn += 1
        self.config["metadata"]["labels"]["turn"] = self.object["metadata"]["labels"]["turn"] = str(self.turn)

    def apply(self):
        text = self.server.ask("PATCH", f"{self.path}?fieldManager=deployer&force=true", self.config, APPLY)
        self.revision = json.loads(text)["metadata"]["resourceVersion"]

    def put(self, _):
        self.next()
        self.object["metadata"]["resourceVersion"] = self.revision
        self.object = json.loads(self.server.ask("PUT", f"{self.path}?fieldManager=updater", self.object))
        self.revision = self.object["metadata"]["resourceVersion"]

    def apply_changed(self, _):
        self.next()
        self.apply()

    def apply_same(self, _):
        self.apply()

    def get(self, _):
        self.server.ask("GET", self.path)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("ours", "theirs", "ca", "token", "known"):
        arguments.add_argument(f"--{flag}")
    for flag, default in [("requests", 300), ("large", 30), ("rounds", 5)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    options = arguments.parse_args()
    servers = {"watchcache": Server(options.ours, options.ca, options.token, os.environ["WATCHCACHE_PID"], None),
               "kube-apiserver": Server(options.theirs, options.ca, options.token, os.environ["KUBE_APISERVER_PID"], os.environ["ETCD_PID"])}
    for server in servers.values():
        server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    # kube-apiserver serves a definition a moment later.
    time.sleep(8)
    gadgets, found = "/apis/bench.example.org/v1/namespaces/default/gadgets", {}
    for what, path, config, count in [
            ("Pod", f"{NAMESPACE}/pods/p", pod, options.requests), ("Endpoints", f"{NAMESPACE}/endpoints/e", endpoints, options.large),
            ("Gadget", f"{gadgets}/small", lambda: gadget("small", 13), options.requests), ("large Gadget", f"{gadgets}/large", lambda: gadget("large", 330), options.large)]:
        cases = {name: Case(server, path, config()) for name, server in servers.items()}
        print(f"{what}: {len(json.dumps(config()))} bytes applied, {len(json.dumps(cases['watchcache'].object))} with managed fields")
        for turn in range(options.rounds + 1):
            for name, case in cases.items():
                for unit, request in [("PUT", case.put), ("apply", case.apply_changed), ("apply of the same", case.apply_same), ("GET", case.get)]:
                    cost = servers[name].cost(count, request)
                    # The first turn warms them up.
                    found.setdefault((f"{what}: {unit}", name), []).extend([cost] if turn > 0 else [])
    middle = lambda costs, at: statistics.median(cost[at] for cost in costs)
    for unit in dict.fromkeys(unit for unit, _ in found):
        ours, theirs = found[unit, "watchcache"], found[unit, "kube-apiserver"]
        print(f"{unit:30} watchcache {middle(ours, 0):8.0f} µs   kube-apiserver {middle(theirs, 0):8.0f} µs (its etcd {middle(theirs, 1):6.0f})   "
              f"{middle(theirs, 0) / middle(ours, 0):5.1f} ×   rounds {[round(cost[0]) for cost in ours]} {[round(cost[0]) for cost in theirs]}")


if __name__ == "__main__":
    main()
