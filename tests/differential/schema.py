#!/usr/bin/env python3
"""Random definitions of custom resources, and random objects that fit them or do not, sent to watchcache and to a kube-apiserver: both must refuse the same in the same
words, and store the same.

    tests/differential/run.sh PEERS watchcache tests/differential/schema.py [--definitions N] [--objects N] [--wrong N] [--seed S] [--show N]

`--definitions` are made, and of each `--objects`: created, replaced, patched, applied, with their status and scale, strictly or not, some only for show. `--wrong` more
definitions have something wrong, are answered alike, and so is a change of each. Errors are compared as sets, for kube-apiserver tells those of properties in a random
order. Left out are uids, revisions, times, and what apply.py leaves out."""

import argparse
import copy
import json
import random
import re
import sys
import time
from collections import Counter

from apply import APPLY, JSON, MERGE, Server, left, told
from schemas import Cases

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def definition(group, nth, schema, **version):
    plural = f"things{nth}"
    names = {"plural": plural, "singular": f"thing{nth}", "kind": f"Thing{nth}", "listKind": f"Thing{nth}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}} | version]}}


def parts(message):
    """A message without the order of what it tells, and without revisions. Of an apply that does not fit its type kube-apiserver tells what it meets first, in a random
    order."""
    if message.startswith("failed to create typed patch object"):
        return [message.split(":")[0]]
    return sorted(re.split(r", |\[|\]|\n", re.sub(r'resourceVersion(\\*)":(\\*)"\d+', r"resourceVersion\1", message)))


def same_form(answer):
    """What must be the same of an answer: its code, body and warnings."""
    code, body, warnings = answer
    body = left(body)
    if isinstance(body, dict) and body.get("kind") == "Status":
        body["message"] = parts(body.get("message", ""))
        for cause in body.get("details", {}).get("causes", []):
            cause["message"] = parts(cause["message"])
        causes = body.get("details", {}).get("causes")
        if causes:
            causes.sort(key=json.dumps)
    warnings = [parts(warning) for warning in warnings if "x-kubernetes-validations" not in warning]
    return [code, body, sorted(warnings)]


class Both:
    def __init__(self, ours, theirs, show):
        self.ours, self.theirs, self.show, self.same, self.different, self.codes = ours, theirs, show, 0, 0, Counter()

    def ask(self, what, method, path, body=None, media=JSON):
        answers = [server.ask(method, path, body, media) for server in (self.ours, self.theirs)]
        self.compare(f"{what}: {method} {path} {json.dumps(body)}", *answers)
        self.codes[f"{method} {answers[1][0]}"] += 1
        return answers

    def compare(self, what, ours, theirs):
        lines = told(same_form(ours), same_form(theirs), "answer")
        if not lines:
            self.same += 1
            return True
        self.different += 1
        if self.different <= self.show:
            print(what[:6000], *lines[:12], sep="\n", flush=True)
        return False

    def wait(self, path):
        deadline = time.monotonic() + 60
        while any(server.ask("GET", path)[0] != 200 for server in (self.ours, self.theirs)):
            if time.monotonic() > deadline:
                raise SystemExit(f"{path} is not served")
            time.sleep(0.2)


class Story:
    """What happens to one object."""

    def __init__(self, both, cases, plural, kind, group, schema, subresources):
        self.both, self.cases, self.schema, self.subresources = both, cases, schema, subresources
        self.collection, self.head = f"/apis/{group}/v1/{plural}", {"apiVersion": f"{group}/v1", "kind": kind}

    def options(self, **more):
        cases = self.cases
        query = {"fieldValidation": cases.one("Strict", "Warn", "Ignore", "Warn")} | more
        if cases.maybe(0.1):
            query["dryRun"] = "All"
        return "?" + "&".join(f"{name}={value}" for name, value in query.items())

    def made(self, wrong):
        made = self.cases.object(self.schema, wrong)
        if self.cases.maybe(0.5):
            made.pop("status", None)
        made.pop("metadata", None)
        return made

    def tell(self, name, steps):
        cases, wrong = self.cases, self.cases.one(0, 0.03, 0.1, 0.3)
        path, what = f"{self.collection}/{name}", json.dumps(self.schema)
        object = self.head | {"metadata": {"name": name}}
        _, created = self.both.ask(what, "POST", self.collection + self.options(), object | self.made(wrong))
        if created[0] != 201:
            # Something must be there to be changed.
            for _ in range(3):
                _, created = self.both.ask(what, "POST", self.collection + "?fieldValidation=Ignore", object | self.made(0))
                if created[0] == 201:
                    break
        for _ in range(steps):
            live = self.both.ask(what, "GET", path)
            if live[0][0] != 200 or live[1][0] != 200:
                return
            objects = [answer[1] for answer in live]
            state = cases.random.getstate()
            answers = []
            for at, server in enumerate((self.both.ours, self.both.theirs)):
                cases.random.setstate(state)
                method, to, body, media = self.change(path, objects[at], wrong)
                answers.append(server.ask(method, to, body, media))
            self.both.codes[f"{method} {answers[1][0]}"] += 1
            if not self.both.compare(f"{what}\n  {json.dumps(left(objects[1]))}\n  {method} {to} {json.dumps(body)}", *answers):
                return
        self.both.ask(what, "GET", path)

    def change(self, path, live, wrong):
        cases, chance = self.cases, self.cases.random.random()
        spec = {name: member for name, member in live.items() if name not in ("apiVersion", "kind", "metadata")}
        new = cases.changed(spec, self.schema, cases.one(0.1, 0.4)) if cases.maybe(0.8) else self.made(wrong)
        new = new if isinstance(new, dict) else {}
        new.pop("metadata", None)
        if cases.maybe(wrong * 0.5):
            new["zz"] = 1
        head = self.head | {"metadata": copy.deepcopy(live["metadata"])}
        if "status" in self.subresources and chance < 0.2:
            status = self.schema["properties"].get("status")
            new["status"] = cases.changed(live.get("status", {}), status, 0.5) if status and cases.maybe(0.5) else cases.value(status or {}, wrong)
            return "PUT", f"{path}/status{self.options()}", live | {"status": new["status"]}, JSON
        if "scale" in self.subresources and chance < 0.3:
            return "PATCH", f"{path}/scale{self.options()}", {"spec": {"replicas": cases.one(0, 1, 2, 7, 101, -1)}}, MERGE
        if chance < 0.6:
            return "PUT", path + self.options(), head | new, JSON
        if chance < 0.8:
            return "PATCH", path + self.options(), {name: new.get(name) for name in sorted(set(new) | set(spec)) if cases.maybe(0.7)}, MERGE
        managed = {"fieldManager": cases.one("m1", "m2"), "force": "true"}
        return "PATCH", path + self.options(**managed), self.head | {"metadata": {"name": live["metadata"]["name"]}} | new, APPLY


def objects(both, options, group):
    """Definitions in batches: a kube-apiserver lets objects in some seconds after their definition."""
    batch, nth = 25, 0
    while nth < options.definitions:
        stories = []
        for nth in range(nth, min(nth + batch, options.definitions)):
            cases = Cases(options.seed * 1_000_003 + nth, embeds=True)
            subresources = {}
            more = {}
            if cases.maybe(0.4):
                subresources["status"] = {}
                more["status"] = cases.object_schema(2)
                more["status"].pop("default", None)
            if cases.maybe(0.2):
                subresources["scale"] = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
                more["spec"] = {"type": "object", "properties": {"replicas": {"type": "integer", "maximum": 100}, "a": cases.schema(2)}}
            schema = cases.root(**more)
            version = {"subresources": subresources} if subresources else {}
            made = definition(group, nth, schema, **version)
            answers = both.ask("definition", "POST", DEFINITIONS, made)
            if [answer[0] for answer in answers] == [201, 201]:
                names = made["spec"]["names"]
                stories.append(Story(both, cases, names["plural"], names["kind"], group, schema, subresources))
        for story in stories:
            both.wait(story.collection)
        time.sleep(3)
        for story in stories:
            for object in range(options.objects):
                story.tell(f"o{object}", 4)
            for server in both.ours, both.theirs:
                server.ask("DELETE", f"{DEFINITIONS}/{story.collection.rsplit('/', 1)[1]}.{group}")
        nth += 1
        print(f"{nth} definitions, {both.same + both.different} answers: {both.same} equal, {both.different} differ", file=sys.stderr, flush=True)


def broken(cases, made):
    """Something of a definition that may be wrong."""
    version = made["spec"]["versions"][0]
    root = version.get("schema", {}).get("openAPIV3Schema")
    if root is None:
        return
    nodes = []

    def walk(node):
        nodes.append(node)
        for below in (node.get("properties") or {}).values():
            walk(below)
        for name in "items", "additionalProperties", "not":
            if isinstance(node.get(name), dict):
                walk(node[name])
        for name in "allOf", "anyOf", "oneOf":
            for below in node.get(name, []):
                walk(below)

    walk(root)
    node = cases.one(*nodes)
    changes = [
        lambda: node.update(default=cases.anything(2)), lambda: node.update(default={"zz": 1}), lambda: node.update(default=[cases.anything(1)]),
        lambda: node.pop("type", None), lambda: node.update(type=cases.one("null", "foo", "object", "string", "array", "integer")),
        lambda: node.update(pattern=cases.one("(", "a**", "[", r"\8", "a{1001}", r"\p{Foo}", "x")), lambda: node.update(nullable=True),
        lambda: node.update(enum=cases.one([], [1, 1], [None], ["a", 1])), lambda: node.update(uniqueItems=True), lambda: node.update(additionalProperties=cases.one(False, True, {})),
        lambda: node.update({"x-kubernetes-list-type": cases.one("set", "map", "atomic", "foo")}), lambda: node.update({"x-kubernetes-map-type": cases.one("granular", "atomic", "foo")}),
        lambda: node.update({"x-kubernetes-list-map-keys": cases.one(["a"], ["a", "a"], [], ["k"])}), lambda: node.update({"x-kubernetes-int-or-string": cases.one(True, False)}),
        lambda: node.update({"x-kubernetes-preserve-unknown-fields": cases.one(True, False)}), lambda: node.update({"x-kubernetes-embedded-resource": True}),
        lambda: node.update({cases.one("allOf", "anyOf", "oneOf"): [{"type": "string"}, {"properties": {"zz": {"minLength": 1}}}]}), lambda: node.update({"not": {"default": 1}}),
        lambda: node.update({"$ref": "#/a"}), lambda: node.update(items=cases.one({"type": "string"}, [{"type": "string"}], {})), lambda: node.update(properties={"metadata": cases.schema(1)}),
        lambda: node.update(required=cases.one(["a"], [], ["a", "a"])), lambda: node.update(minLength=-1), lambda: node.update(format=cases.one("date", "foo", "int32")), lambda: node.update(maximum=-1, minimum=1),
        lambda: root.setdefault("properties", {}).update(metadata=cases.one({"type": "object", "properties": {"name": {"type": "string", "pattern": "^a"}}}, {"type": "object", "properties": {"labels": {"type": "object"}}}, {"type": "string"})),
        lambda: root.setdefault("properties", {}).update(apiVersion=cases.one({"type": "string"}, {"type": "integer"}, {"type": "string", "default": "x"})), lambda: root.update(default={}), lambda: root.update(type="array"),
        lambda: version.update(selectableFields=[{"jsonPath": cases.one(".spec", ".a", ".spec.a", "a", ".metadata.name", "", ".spec[0]", ".b")} for _ in range(cases.one(1, 1, 2, 9))]),
        lambda: version.update(additionalPrinterColumns=[{"name": cases.one("A", "", "A"), "type": cases.one("string", "foo", "date", "integer"), "jsonPath": cases.one(".a", "a", "", ".a[", ".metadata.name"), "format": cases.one("", "foo", "int32")}]),
        lambda: version.update(subresources={"scale": {"specReplicasPath": cases.one(".spec.replicas", ".a", "", "spec.a"), "statusReplicasPath": cases.one(".status.replicas", ".spec", ""), "labelSelectorPath": cases.one(".status.s", ".a", "")}}),
        lambda: version.update(name=cases.one("V1", "v1-", "1", "")), lambda: version.update(served=False), lambda: version.update(storage=False), lambda: version.update(deprecationWarning="x"),
        lambda: version.update(deprecated=True, deprecationWarning=cases.one("x", "", "x" * 300, "a\nb")), lambda: version.pop("schema"), lambda: made["spec"]["versions"].append(copy.deepcopy(version)),
        lambda: made["spec"]["versions"].append({"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": cases.root()}}),
        lambda: made["spec"].update(preserveUnknownFields=True), lambda: made["spec"].update(scope=cases.one("", "Foo", "Namespaced")), lambda: made["spec"].update(group=cases.one("", "x", "A.b", "a.k8s.io")),
        lambda: made["spec"]["names"].update({cases.one("plural", "singular", "kind", "listKind"): cases.one("", "A", "-", "thing", "x.y")}), lambda: made["spec"]["names"].update(shortNames=["t", cases.one("T", "t", "")], categories=["all", cases.one("", "X")]),
        lambda: made["spec"].update(conversion=cases.one({"strategy": "Foo"}, {"strategy": "Webhook"}, {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}, {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v9"], "clientConfig": {"url": "http://x"}}})),
        lambda: made["metadata"].update(name="other." + made["spec"]["group"]), lambda: version["schema"].pop("openAPIV3Schema", None)]
    cases.one(*changes)()


def conditions(server, name):
    """What a definition has come to once nothing changes any more."""
    before = None
    for _ in range(40):
        code, body, _ = server.ask("GET", f"{DEFINITIONS}/{name}")
        now = left(body)
        if code != 200 or now == before and any(condition["type"] == "Established" and condition["reason"] != "Installing" for condition in now.get("status", {}).get("conditions") or []):
            break
        before = now
        time.sleep(0.1)
    for condition in (body.get("status", {}).get("conditions") or []) if isinstance(body, dict) else []:
        condition["message"] = parts(condition["message"])
    return code, body, []


def wrong_definitions(both, options, group):
    for nth in range(options.wrong):
        cases = Cases(options.seed * 1_000_003 + 500_000 + nth, embeds=True)
        made = definition(group, f"{nth}w", cases.root())
        for _ in range(cases.one(0, 1, 1, 1, 2)):
            broken(cases, made)
        answers = both.ask("definition", "POST", DEFINITIONS, made)
        if [answer[0] for answer in answers] != [201, 201]:
            continue
        name = made["metadata"]["name"]
        found = [conditions(server, name) for server in (both.ours, both.theirs)]
        both.compare(f"conditions of {json.dumps(made)}", *found)
        changed = copy.deepcopy(made)
        for _ in range(cases.one(1, 1, 2)):
            broken(cases, changed)
        spec = changed["spec"]
        both.ask(f"change of {json.dumps(made)}", "PATCH", f"{DEFINITIONS}/{name}", {"spec": spec}, MERGE)
        for server in both.ours, both.theirs:
            server.ask("DELETE", f"{DEFINITIONS}/{name}")
        if nth % 50 == 49:
            print(f"{nth + 1} wrong definitions, {both.same} equal, {both.different} differ", file=sys.stderr, flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ["ours", "theirs", "ca", "token", "known"]:
        arguments.add_argument(f"--{flag}", required=True)
    for flag, default in [("definitions", 25), ("objects", 4), ("wrong", 50), ("seed", 1), ("show", 20)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    options = arguments.parse_args()
    both = Both(*(Server(url, options.ca, options.token) for url in (options.ours, options.theirs)), options.show)
    group = f"s{options.seed}.example.com"
    wrong_definitions(both, options, group)
    objects(both, options, group)
    print(f"{options.definitions} definitions with {options.objects} objects each, {options.wrong} definitions that may be wrong: {both.same} answers equal, {both.different} differ; "
          + ", ".join(f"{count} {what}" for what, count in sorted(both.codes.items())))
    sys.exit(both.different > 0 or both.same == 0)


if __name__ == "__main__":
    main()
