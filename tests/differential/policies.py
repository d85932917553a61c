#!/usr/bin/env python3
"""Compares ValidatingAdmissionPolicies of watchcache with those of a kube-apiserver: random policies, bindings, parameters and writes; the answers and warnings must be equal.

    OFF=ServiceAccount tests/differential/run.sh PEERS watchcache tests/differential/policies.py [--rounds N] [--seed S] [--only ROUND]

A policy counts a moment after it was written: a last policy of each round refuses probes, and the round waits until both servers refuse them. Of several refusals
kube-apiserver returns the first in an order of its own, so a round has one policy that denies; the others warn."""

import argparse
import collections
import json
import random
import re
import sys
import time

from apply import JSON, MERGE, Server

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES, BINDINGS = f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"
CONFIGS = "/api/v1/namespaces/default/configmaps"
SERVICES = "/api/v1/namespaces/default/services"
EXPRESSIONS = [
    "object.data.a == '1'", "size(object.data) < 3", "has(object.data) && object.data.all(k, k != 'x')", "object.metadata.name.startsWith('o')", "oldObject == null", "request.operation == 'CREATE'",
    "oldObject == null || oldObject.data == object.data", "object.metadata.labels.l == 'a'", "object.metadata.?labels[?'l'].orValue('') != 'b'", "namespaceObject.metadata.name == 'default'",
    "'team' in namespaceObject.metadata.labels", "request.userInfo.username == 'admin'", "authorizer.requestResource.check('delete').allowed()", "1 / int(object.data.a) > 0", "object.data.a.matches('^[0-9]+$')",
    "authorizer.serviceAccount('default', 'nobody').group('').resource('secrets').check('get').allowed()", "request.dryRun", "object.spec.replicas > 2", "false", "true", "int(object.data.b) < 5",
    "object.metadata.generation == 1", "request.resource.resource == 'configmaps'", "object.kind == 'ConfigMap'", "[1, 2, 3].exists(x, string(x) == object.data.a)", "object.data.a.split(',').size() == 2",
    "quantity(object.data.a).isGreaterThan(quantity('1'))", "object.data.a in ['1', '2']", "timestamp(object.metadata.creationTimestamp) > timestamp('2020-01-01T00:00:00Z')", "object != oldObject"]
OF_PARAMS = ["params.data.a == object.data.a", "params == null || has(params.data)", "size(params.metadata.name) > 1", "params.metadata.labels.l == 'p'", "params.missing == 1"]
OF_VARIABLES = ["variables.v0 == variables.v0", "string(variables.v0) == '1'", "variables.v0 != null", "dyn(variables.v0) == dyn(true)"]
VARIABLES = ["object.data.a", "object.?data.?a.orValue('none')", "object.missing", "size(object.data) > 1", "object.data", "[object.data.a, 'x']", "{'k': object.data.a}", "request", "1 + 1"]
MESSAGES = ["'a is ' + object.data.a", "'two\\nlines'", "''", "'  spaced '", "object.data.missing", "string(size(object.data))", "'old: ' + (oldObject == null ? 'none' : oldObject.data.a)"]


class Round:
    def __init__(self, seed, nth):
        self.random, self.nth = random.Random(seed * 1_000_003 + nth), nth

    def maybe(self, share):
        return self.random.random() < share

    def one(self, *of):
        return self.random.choice(of)

    def rule(self):
        rule = {"operations": self.one(["*"], ["*"], ["*"], ["CREATE"], ["UPDATE"], ["CREATE", "UPDATE"]), "apiGroups": self.one([""], ["*"]), "apiVersions": self.one(["v1"], ["*"]),
                "resources": self.one(["configmaps"], ["configmaps"], ["configmaps", "services"], ["*"], ["*"], ["services"])}
        if self.maybe(0.1):
            rule["resourceNames"] = ["oa"]
        if self.maybe(0.2):
            rule["scope"] = self.one("Namespaced", "Namespaced", "Cluster", "*")
        return rule

    def matching(self, required):
        found = {"resourceRules": [self.rule() for _ in range(self.one(1, 1, 2))]} if required or self.maybe(0.5) else {}
        if self.maybe(0.15):
            found["excludeResourceRules"] = [self.rule()]
        if self.maybe(0.2):
            found["namespaceSelector"] = self.one({"matchLabels": {"kubernetes.io/metadata.name": "default"}}, {"matchExpressions": [{"key": "team", "operator": "Exists"}]})
        if self.maybe(0.2):
            found["objectSelector"] = self.one({"matchLabels": {"l": "a"}}, {"matchExpressions": [{"key": "l", "operator": "NotIn", "values": ["b"]}]})
        if self.maybe(0.2):
            found["matchPolicy"] = self.one("Exact", "Equivalent")
        return found

    def pairs(self):
        """Policies, each with its binding."""
        made = []
        for nth in range(self.one(1, 1, 2, 3)):
            name, params = f"p{self.nth}-{nth}", self.maybe(0.4)
            spec = {"matchConstraints": self.matching(True), "failurePolicy": self.one("Fail", "Fail", "Ignore")}
            if params:
                spec["paramKind"] = self.one({"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "v1", "kind": "ConfigMap"}, {"apiVersion": "v1", "kind": "Missing"}, {"apiVersion": "v1", "kind": "Namespace"})
            if variables := self.maybe(0.4):
                spec["variables"] = [{"name": "v0", "expression": self.one(*VARIABLES)}] + ([{"name": "v1", "expression": "variables.v0"}] if self.maybe(0.4) else [])
            known = EXPRESSIONS + OF_PARAMS * 4 * params + OF_VARIABLES * 4 * variables
            if self.maybe(0.3):
                spec["matchConditions"] = [{"name": f"c{at}", "expression": self.one(*known)} for at in range(self.one(1, 2))]
            spec["validations"] = []
            for _ in range(self.one(1, 1, 2, 3)):
                validation = {"expression": self.one(*known)}
                if self.maybe(0.3):
                    validation["message"] = self.one("no", " spaced ", "it must not be")
                if self.maybe(0.3):
                    validation["messageExpression"] = self.one(*MESSAGES)
                if self.maybe(0.3):
                    validation["reason"] = self.one("Forbidden", "Forbidden", "Invalid", "RequestEntityTooLarge", *["Unauthorized"] * self.maybe(0.1))
                spec["validations"].append(validation)
            if self.maybe(0.2):
                spec["auditAnnotations"] = [{"key": "k", "valueExpression": self.one("object.data.a", "null", "'x'", "object.metadata.name")}]
            binding = {"policyName": name, "validationActions": self.one(["Deny"], ["Deny"], ["Deny", "Audit"]) if nth == 0 else self.one(["Warn"], ["Warn", "Audit"])}
            if nth != 0:
                spec["failurePolicy"] = "Ignore"
            if params and self.maybe(0.9):
                binding["paramRef"] = {"parameterNotFoundAction": self.one("Allow", "Deny")} | self.one({"name": "param"}, {"name": "missing"}, {"selector": {"matchLabels": {"l": "p"}}}, {"selector": {}})
                if self.maybe(0.4):
                    binding["paramRef"]["namespace"] = self.one("default", "default", "other")
            if matching := self.maybe(0.4) and self.matching(False):
                binding["matchResources"] = matching
            made.append((name, spec, binding))
        return made

    def requests(self):
        for _ in range(14):
            name, dry = self.one("oa", "oa", "ob", "xa"), self.one("", "", "?dryRun=All")
            labels = {"labels": {"l": self.one("a", "b")}} if self.maybe(0.5) else {}
            data = {key: self.one("1", "2", "x", "1,2", "3Gi") for key in self.random.sample("abcx", self.one(0, 1, 2, 3))}
            match self.one("create", "create", "put", "patch", "delete", "service"):
                case "create":
                    yield "POST", CONFIGS + dry, {"metadata": {"name": self.one(name, "oc", "xc")} | labels} | ({"data": data} if data else {}), JSON
                case "put":
                    yield "PUT", f"{CONFIGS}/{name}{dry}", {"metadata": {"name": name} | labels, "data": data}, JSON
                case "patch":
                    yield "PATCH", f"{CONFIGS}/{name}{dry}", {"metadata": labels, "data": data}, MERGE
                case "delete":
                    yield "DELETE", f"{CONFIGS}/{name}{dry}", None, JSON
                case _:
                    yield "POST", f"{SERVICES}?dryRun=All", {"metadata": {"name": name} | labels, "spec": {"ports": [{"port": 80}]}}, JSON


def plain(answer):
    """An answer without what no two servers have alike."""
    code, body, warnings = answer
    if isinstance(body, dict) and body.get("kind") != "Status":
        body = {"data": body.get("data"), "labels": body.get("metadata", {}).get("labels")}
    if isinstance(body, dict) and isinstance(body.get("details"), dict):
        body["details"].pop("uid", None)
    body = json.loads(re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f-]{36}", "…", json.dumps(body)))
    return code, body, sorted(warnings)


def settle(server, nth):
    """Waits until what was written last counts."""
    for _ in range(600):
        code, body, _ = server.ask("POST", f"{CONFIGS}?dryRun=All", {"metadata": {"name": f"probe-{nth}"}})
        if code == 422 and f"marker-{nth}" in json.dumps(body):
            return
        time.sleep(0.1)
    raise SystemExit("the policies do not count after a minute")


def play(servers, seed, nth, shapes, codes):
    round, differ, asked = Round(seed, nth), 0, 0
    pairs, requests = round.pairs(), list(round.requests())
    marker = {"matchConstraints": {"resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]},
              "matchConditions": [{"name": "probe", "expression": "object.metadata.name.startsWith('probe-')"}], "validations": [{"expression": "false"}]}
    every = pairs + [(f"marker-{nth}", marker, {"policyName": f"marker-{nth}", "validationActions": ["Deny"]})]
    for server in servers:
        for name in ("oa", "ob"):
            server.ask("POST", CONFIGS, {"metadata": {"name": name, "labels": {"l": "a"}}, "data": {"a": "1"}})
    for name, spec, binding in every:
        for path, told in ((POLICIES, spec), (BINDINGS, binding)):
            answers = [server.ask("POST", path, {"metadata": {"name": name}, "spec": told}) for server in servers]
            # Whether the types of expressions fit the objects is a warning of a controller's, not of the write.
            ours, kube = ((code, plain((code, body, []))[1] if code != 201 else None) for code, body, _ in answers)
            asked += 1
            if ours != kube:
                differ += 1
                shapes[f"{path} {ours[0]} {kube[0]}"] += 1
                print(f"differs: seed {seed} round {nth}: {path} {json.dumps(told)}\n  ours {json.dumps(ours)}\n  kube {json.dumps(kube)}", flush=True)
    for server in servers:
        if nth_denies_probes(pairs):
            time.sleep(3)
        else:
            settle(server, nth)
    for method, path, body, media in requests:
        asked += 1
        ours, kube = (plain(server.ask(method, path, body, media)) for server in servers)
        codes[kube[0]] += 1
        codes["denied"] += "denied request" in json.dumps(kube[1])
        codes["warned"] += bool(kube[2])
        if ours != kube:
            differ += 1
            shapes[f"{method} {ours[0]} {kube[0]}"] += 1
            print(f"differs: seed {seed} round {nth}: {method} {path} {json.dumps(body)}\n  policies {json.dumps(pairs)}\n  ours {json.dumps(ours)}\n  kube {json.dumps(kube)}", flush=True)
    for server in servers:
        for name, _, _ in every:
            server.ask("DELETE", f"{BINDINGS}/{name}")
            server.ask("DELETE", f"{POLICIES}/{name}")
        for _ in range(600):
            if server.ask("POST", f"{CONFIGS}?dryRun=All", {"metadata": {"name": "probe-x"}})[0] == 201:
                break
            time.sleep(0.1)
        for name in ("oa", "ob", "oc", "xa", "xc"):
            server.ask("DELETE", f"{CONFIGS}/{name}")
    return asked, differ


def nth_denies_probes(pairs):
    """Whether the policy that denies may refuse probes before the marker does."""
    return any("configmaps" in rule["resources"] or "*" in rule["resources"] for rule in pairs[0][1]["matchConstraints"]["resourceRules"])


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
