#!/usr/bin/env python3
"""Compares MutatingAdmissionPolicies of watchcache with those of a kube-apiserver: random policies, bindings, parameters and writes; what is answered must be equal.

    OFF=ServiceAccount tests/differential/run.sh PEERS watchcache tests/differential/mutations.py [--rounds N] [--seed S] [--only ROUND]

A policy counts a moment after it was written: a last policy of each round marks probes, and the round waits until both servers mark them. kube-apiserver evaluates
policies in an order of its own, so a round has one with random mutations, and at most one more, which only adds a label.
Left out: a list of objects as the value of an operation, on which a kube-apiserver panics and closes the connection;
maps as items of a list that is merged, which both refuse, each in its own words."""

import argparse
import collections
import json
import re
import sys
import time

import policies
from apply import JSON, MERGE, Server

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/mutatingadmissionpolicies", f"{ADMISSION}/mutatingadmissionpolicybindings"
CONFIGS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
APPLIES = {
    "configmaps": ["Object{}", "Object{data: Object.data{z: 'made'}}", "Object{data: {'z': 'made', 'a': '9'}}", "Object{metadata: Object.metadata{labels: {'by': request.operation}}}",
                   "Object{data: Object.data{n: string(size(object.data))}}", "Object{data: Object.data{a: 1}}", "Object{dta: 'x'}", "Object{data: Object.x{a: '1'}}", "Object{immutable: false}",
                   "Object{data: Object.data{?a: optional.none(), ?b: object.?data.?a}}", "Object{data: Object.data{a: object.data.missing}}", "Object{metadata: Object.metadata{annotations: {'k': object.metadata.name}}}",
                   "has(object.data.z) ? Object{data: Object.data{seen: 'yes'}} : Object{}", "oldObject == null ? Object{data: Object.data{is: 'new'}} : Object{data: Object.data{is: 'old'}}",
                   "Object{metadata: Object.metadata{finalizers: ['x.io/a']}}", "Object{data: object.data}", "Object{binaryData: Object.binaryData{q: 'AAAA'}}",
                   "Object{metadata: Object.metadata{labels: Object.metadata.labels{l: 'set'}}}", "Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u'}]}}"],
    "services": ["Object{spec: Object.spec{selector: Object.spec.selector{app: 'x'}}}", "Object{spec: Object.spec{sessionAffinity: 'ClientIP'}}", "Object{spec: Object.spec{ports: [Object.spec.ports{port: 81, name: 'other', protocol: 'TCP'}]}}",
                 "Object{spec: Object.spec{ports: [Object.spec.ports{port: 80, protocol: 'TCP', name: 'named'}]}}", "Object{spec: Object.spec{type: 'NodePort'}}", "Object{spec: Object.spec{externalIPs: ['1.2.3.4']}}"],
    "deployments": ["Object{spec: Object.spec{replicas: 3}}", "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}", "Object{spec: Object.spec{replicas: 'three'}}",
                    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'side', image: 'i'}]}}}}",
                    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'c', args: ['a', 'b']}]}}}}",
                    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'c', env: [Object.spec.template.spec.containers.env{name: 'E', value: 'v'}]}]}}}}",
                    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{tolerations: [Object.spec.template.spec.tolerations{key: 'k', operator: 'Exists'}]}}}}",
                    "Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{labels: {'x': 'y'}}}}}", "Object{spec: Object.spec{unknown: 1}}"],
}
PATCHES = {
    "configmaps": ["[]", "[JSONPatch{op: 'add', path: '/data/p', value: 'patched'}]", "[JSONPatch{op: 'add', path: '/data', value: {'only': 'this'}}]", "[JSONPatch{op: 'remove', path: '/data/a'}]",
                   "[JSONPatch{op: 'replace', path: '/data/a', value: object.data.a + '!'}]", "[JSONPatch{op: 'replace', path: '/none/a', value: 'x'}]", "[JSONPatch{op: 'add', path: '/none/a', value: 'x'}]",
                   "[JSONPatch{op: 'test', path: '/data/a', value: '1'}, JSONPatch{op: 'add', path: '/data/t', value: 'was one'}]", "[JSONPatch{op: 'move', from: '/data/a', path: '/data/m'}]",
                   "[JSONPatch{op: 'copy', from: '/data/a', path: '/data/c'}]", "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'by': 'patch'}}]", "[JSONPatch{op: 'frob', path: '/data/a'}]",
                   "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {jsonpatch.escapeKey('a~b'): 'v'}}]", "[JSONPatch{op: 'add', path: '/data/n', value: 1}]", "[JSONPatch{op: 'add', path: '/unknown', value: 'x'}]",
                   "object.data.?a.orValue('') == '1' ? [JSONPatch{op: 'add', path: '/data/one', value: 'yes'}] : []", "[JSONPatch{op: 'add', path: '/data/o', value: Object.data{x: 'y'}.x}]", "[JSONPatch{path: '/data/a'}]"],
    "services": ["[JSONPatch{op: 'add', path: '/spec/ports/-', value: Object.spec.ports{port: 90, name: 'ninety', protocol: 'TCP'}}]", "[JSONPatch{op: 'replace', path: '/spec/ports/0/port', value: 8080}]", "[JSONPatch{op: 'replace', path: '/spec/ports/7/port', value: 1}]"],
    "deployments": ["[JSONPatch{op: 'replace', path: '/spec/replicas', value: 5}]", "[JSONPatch{op: 'add', path: '/spec/template/spec/containers/0/env', value: [{'name': 'N', 'value': 'v'}]}]",
                    "[JSONPatch{op: 'add', path: '/spec/template/spec/nodeSelector', value: {'disk': 'fast'}}]", "[JSONPatch{op: 'remove', path: '/spec/template'}]", "[JSONPatch{op: 'add', path: '/spec/strategy', value: {'type': 'Recreate'}}]"],
}
CONDITIONS = ["object.metadata.name.startsWith('o')", "request.operation == 'CREATE'", "oldObject == null", "object.data.a == '1'", "true", "has(object.data)", "object.missing.x == 1"]


class Round(policies.Round):
    def spec(self, resource):
        rule = {"operations": self.one(["CREATE", "UPDATE"], ["CREATE", "UPDATE"], ["CREATE"], ["UPDATE"]), "apiGroups": ["*"], "apiVersions": self.one(["*"], ["v1"]), "resources": [resource]}
        spec = {"matchConstraints": {"resourceRules": [rule]}, "failurePolicy": self.one("Fail", "Fail", "Ignore"), "reinvocationPolicy": self.one("Never", "Never", "IfNeeded"), "mutations": []}
        if self.maybe(0.15):
            spec["matchConstraints"]["objectSelector"] = {"matchLabels": {"l": "a"}}
        applies = APPLIES[resource]
        if params := resource == "configmaps" and self.maybe(0.25):
            spec["paramKind"] = {"apiVersion": "v1", "kind": self.one("ConfigMap", "ConfigMap", "ConfigMap", "Missing")}
            applies = applies + ["Object{data: Object.data{p: params.data.a}}"] * 5
        if self.maybe(0.3):
            spec["variables"] = [{"name": "v", "expression": self.one("object.metadata.name", "object.?data.?a.orValue('none')", "object.data.a")}]
            if resource == "configmaps":
                applies = applies + ["Object{data: Object.data{v: variables.v}}"] * 5
        if self.maybe(0.3):
            spec["matchConditions"] = [{"name": "c", "expression": self.one(*CONDITIONS)}]
        for _ in range(self.one(1, 1, 2, 3)):
            if self.maybe(0.55):
                spec["mutations"].append({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": self.one(*applies)}})
            else:
                spec["mutations"].append({"patchType": "JSONPatch", "jsonPatch": {"expression": self.one(*PATCHES[resource])}})
        binding = {"paramRef": {"parameterNotFoundAction": self.one("Allow", "Deny")} | self.one({"name": "param"}, {"name": "missing"}, {"selector": {"matchLabels": {"l": "p"}}})} if params else {}
        return spec, binding

    def pairs(self):
        resource = self.one("configmaps", "configmaps", "configmaps", "services", "deployments")
        made = [(f"m{self.nth}-0", *self.spec(resource))]
        if self.maybe(0.3):
            label = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'other': 'policy'}}}"}}
            made.append((f"m{self.nth}-1", {"matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": [resource]}]}, "reinvocationPolicy": "Never", "mutations": [label]}, {}))
        return resource, made

    def of(self, resource):
        if resource == "configmaps":
            yield from (request for request in self.requests() if "services" not in request[1])
            return
        for _ in range(5):
            name, labels = self.one("oa", "ob"), {"labels": {"l": self.one("a", "b")}} if self.maybe(0.6) else {}
            if resource == "services":
                yield "POST", f"{SERVICES}?dryRun=All", {"metadata": {"name": name} | labels, "spec": {"clusterIP": "None", "ports": [{"port": 80}, *([{"port": 443, "name": "s"}] if self.maybe(0.1) else [])]}}, JSON
            else:
                template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
                yield "POST", f"{DEPLOYMENTS}?dryRun=All", {"metadata": {"name": name} | labels, "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}}, JSON


def plain(answer):
    """An answer without what no two servers have alike."""
    code, body, warnings = answer
    if isinstance(body, dict) and body.get("kind") != "Status":
        metadata = {name: value for name, value in body.get("metadata", {}).items() if name not in ("uid", "resourceVersion", "creationTimestamp", "managedFields")}
        body = {name: value for name, value in body.items() if name != "metadata"} | {"metadata": metadata}
    if isinstance(body, dict) and isinstance(body.get("details"), dict):
        body["details"].pop("uid", None)
    body = json.loads(re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f-]{36}|0x[0-9a-f]+", "…", json.dumps(body)))
    return code, body, sorted(warnings)


def settle(server, nth):
    for _ in range(600):
        code, body, _ = server.ask("POST", "/api/v1/namespaces?dryRun=All", {"metadata": {"name": f"probe-{nth}"}})
        if code == 201 and body["metadata"].get("annotations", {}).get("marker") == f"m{nth}":
            return
        time.sleep(0.1)
    raise SystemExit("the policies do not count after a minute")


def play(servers, seed, nth, shapes, codes):
    round, differ, asked = Round(seed, nth), 0, 0
    resource, pairs = round.pairs()
    marked = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": f"Object{{metadata: Object.metadata{{annotations: {{'marker': 'm{nth}'}}}}}}"}}
    marker = {"matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"]}]}, "reinvocationPolicy": "Never", "mutations": [marked]}
    every = pairs + [(f"marker-{nth}", marker, {})]
    for server in servers:
        for name in ("oa", "ob"):
            server.ask("POST", CONFIGS, {"metadata": {"name": name, "labels": {"l": "a"}}, "data": {"a": "1"}})
    for name, spec, binding in every:
        for path, told in ((POLICIES, spec), (BINDINGS, binding | {"policyName": name})):
            answers = [plain(server.ask("POST", path, {"metadata": {"name": name}, "spec": told})) for server in servers]
            asked += 1
            if answers[0] != answers[1]:
                differ += 1
                shapes[f"{path} {answers[0][0]} {answers[1][0]}"] += 1
                print(f"differs: seed {seed} round {nth}: {path} {json.dumps(told)}\n  ours {json.dumps(answers[0])}\n  kube {json.dumps(answers[1])}", flush=True)
    for server in servers:
        settle(server, nth)
    for method, path, body, media in round.of(resource):
        asked += 1
        ours, kube = (plain(server.ask(method, path, body, media)) for server in servers)
        codes[kube[0]] += 1
        codes["denied"] += "denied request" in json.dumps(kube[1])
        if ours != kube:
            differ += 1
            shapes[f"{method} {ours[0]} {kube[0]}"] += 1
            print(f"differs: seed {seed} round {nth}: {method} {path} {json.dumps(body)}\n  policies {json.dumps(pairs)}\n  ours {json.dumps(ours)}\n  kube {json.dumps(kube)}", flush=True)
    for server in servers:
        for name, _, _ in every:
            server.ask("DELETE", f"{BINDINGS}/{name}")
            server.ask("DELETE", f"{POLICIES}/{name}")
        for _ in range(600):
            code, body, _ = server.ask("POST", "/api/v1/namespaces?dryRun=All", {"metadata": {"name": "probe-x"}})
            if code == 201 and "annotations" not in body["metadata"]:
                break
            time.sleep(0.1)
        for name in ("oa", "ob", "oc", "xa", "xc", "other"):
            server.ask("PATCH", f"{CONFIGS}/{name}", {"metadata": {"finalizers": None}}, MERGE)
            server.ask("DELETE", f"{CONFIGS}/{name}")
    return asked, differ


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("ours", "theirs", "ca", "token", "known"):
        arguments.add_argument(f"--{flag}")
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", type=int, help="the number of the only round")
    options = arguments.parse_args()
    servers = [Server(url, options.ca, options.token) for url in (options.ours, options.theirs)]
    for server in servers:
        server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        for namespace in ("default", "other"):
            server.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": "param", "labels": {"l": "p"}}, "data": {"a": "1" if namespace == "default" else "2"}})
    shapes, codes, total, began = collections.Counter(), collections.Counter(), [0, 0], time.time()
    for nth in range(options.rounds) if options.only is None else [options.only]:
        asked, differ = play(servers, options.seed, nth, shapes, codes)
        total = [total[0] + asked, total[1] + differ]
    for shape, count in shapes.most_common(30):
        print(f"{count:5} {shape}")
    print(f"{total[0]} requests, {total[1]} differ, in {time.time() - began:.0f} s (seed {options.seed}); of kube-apiserver: {dict(codes)}")
    return int(total[1] > 0)


if __name__ == "__main__":
    sys.exit(main())
