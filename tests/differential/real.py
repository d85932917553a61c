#!/usr/bin/env python3
"""Definitions of custom resources that many clusters have, from their Go modules, and objects that fit them or do not, on watchcache and on a kube-apiserver: both must
take the definitions, refuse the same objects in the same words, and store the same.

    tests/differential/run.sh PEERS watchcache tests/differential/real.py [--good N] [--broken N] [--seed S] [--show N] [--only WORD]

The modules are fetched with `go mod download`; nothing of them is kept here. Of each version of each definition `--good` objects are made that fit its schema, as far as
that can be told from it: what the kube-apiserver refuses is taken out, up to some rounds. Then `--broken` of them get something wrong. Both servers are sent each, strictly
or not. Rules in CEL are taken out of the definitions first, for watchcache does not evaluate them, and so are conversion webhooks, which nobody answers."""

import argparse
import copy
import http.client
import json
import os
import random
import re
import subprocess
import sys
import time

from apply import Server
from schema import DEFINITIONS, Both, conditions

# Module, version, and where its definitions are.
MODULES = [
    ("sigs.k8s.io/gateway-api", "v1.3.0", "config/crd"),
    ("github.com/cert-manager/cert-manager", "v1.18.2", "deploy/crds"),
    ("github.com/prometheus-operator/prometheus-operator", "v0.83.0", "example/prometheus-operator-crd"),
    ("sigs.k8s.io/cluster-api", "v1.10.4", "config/crd/bases"),
    ("github.com/argoproj/argo-cd/v2", "v2.14.0", "manifests/crds"),
    ("istio.io/api", "v1.26.0", "kubernetes"),
    ("knative.dev/serving", "v0.46.0", "config/core/300-resources"),
    ("github.com/crossplane/crossplane", "v1.20.0", "cluster/crds"),
]
YAML = "application/yaml"
ROUNDS_MAX = 12


def fetched(module, version):
    done = subprocess.run(["go", "mod", "download", "-json", f"{module}@{version}"], capture_output=True, text=True, cwd="/")
    if done.returncode != 0:
        raise SystemExit(f"{module}@{version} cannot be fetched: {done.stdout} {done.stderr}")
    return json.loads(done.stdout)["Dir"]


def texts(folder):
    """The definitions in the files below a folder, as they stand there."""
    for base, folders, files in os.walk(folder):
        folders.sort()
        for name in sorted(files):
            if name.endswith((".yaml", ".yml")):
                # Some are templates, but for labels only.
                text = "".join(line for line in open(os.path.join(base, name)) if "{{" not in line)
                yield from (part for part in re.split(r"^---.*$", text, flags=re.M) if re.search(r"^kind: CustomResourceDefinition\s*$", part, re.M))


class Yaml(Server):
    """Sends a text as it stands."""

    def read(self, text):
        """A definition as JSON, as the server reads it; nothing is stored."""
        client = http.client.HTTPSConnection(self.at.hostname, self.at.port, context=self.trust, timeout=30)
        client.request("POST", f"{DEFINITIONS}?dryRun=All", text.encode(), {"Authorization": f"Bearer {self.token}", "Content-Type": YAML, "User-Agent": "differential/1"})
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())


def without_rules(value):
    if isinstance(value, dict):
        return {name: without_rules(member) for name, member in value.items() if name != "x-kubernetes-validations"}
    return [without_rules(item) for item in value] if isinstance(value, list) else value


TEXTS = ["a", "example", "v1", "1s", "10m", "1Gi", "a.example.com", "https://example.com/a", "10.0.0.1", "10.0.0.0/8", "A", "Aa", "ab-cd", "example.com/a", "1", "100", "/a", "a@b.cc", "2026-01-01T00:00:00Z", "^a$", "a/b", "sha256:" + "a" * 64, "ab" * 8]
FORMATS = {"date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01", "duration": "10s", "byte": "YQ==", "uri": "https://example.com/a", "ipv4": "10.0.0.1", "ipv6": "::1", "cidr": "10.0.0.0/8", "hostname": "a.example.com", "email": "a@example.com", "uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8"}
ANYTHING = [None, True, -7, 1.5, 4e20, 2000000.0, "", "-", "a b", [], {}, ["a"], {"zz": 1}, "日本語"]


class Maker:
    """Makes objects by a schema."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def maybe(self, share):
        return self.random.random() < share

    def text(self, schema):
        fits = lambda text: schema.get("minLength", 0) <= len(text) <= schema.get("maxLength", 1 << 30)
        if "format" in schema and schema["format"] in FORMATS:
            return FORMATS[schema["format"]]
        found = [text for text in TEXTS if fits(text)]
        if "pattern" in schema:
            try:
                # As Go finds them, anywhere.
                found = [text for text in found if re.search(schema["pattern"], text)]
            except re.error:
                pass
        return self.random.choice(found) if found else "a" * max(schema.get("minLength", 1), 1)

    def value(self, schema, depth):
        if schema.get("x-kubernetes-int-or-string"):
            return self.random.choice([1, 8080, "10%"])
        for junctor in "oneOf", "anyOf":
            chosen = [one for one in schema.get(junctor, []) if "type" in one or "enum" in one or "pattern" in one or "properties" in one]
            if chosen and not schema.get("type"):
                return self.value(schema | self.random.choice(chosen) | {junctor: []}, depth)
        if schema.get("enum"):
            return self.random.choice(schema["enum"])
        kind = schema.get("type")
        if kind == "string":
            return self.text(schema)
        if kind in ("integer", "number"):
            least = schema.get("minimum", 1)
            return min(int(max(least, self.random.randint(0, 20))), int(schema.get("maximum", 1 << 30)))
        if kind == "boolean":
            return self.maybe(0.5)
        if kind == "array":
            count = max(schema.get("minItems", 0), min(schema.get("maxItems", 2), self.random.randint(0, 2) if depth > 0 else 0))
            items = [self.value(schema["items"], depth - 1) for _ in range(count)]
            keys = schema.get("x-kubernetes-list-map-keys") or []
            for at, item in enumerate(items):
                for key in keys if isinstance(item, dict) else []:
                    if isinstance(item.get(key), str) and "enum" not in schema["items"]["properties"][key]:
                        item[key] = f"{item[key]}{at}"
                    elif isinstance(item.get(key), int):
                        item[key] += at
            return items[:1] if schema.get("x-kubernetes-list-type") == "set" else items
        if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
            return {name: self.value(schema["additionalProperties"], depth - 1) for name in (["a", "b"][:self.random.randint(0, 2)] if depth > 0 else [])}
        if kind == "object":
            required = set(schema.get("required", []))
            for junctor in "oneOf", "anyOf":
                choices = [one for one in schema.get(junctor, []) if one.get("required")]
                if choices:
                    required |= set(self.random.choice(choices)["required"])
            few = 6 / (len(schema.get("properties", {})) + 1)
            return {name: self.value(of, depth - 1) for name, of in schema.get("properties", {}).items() if name in required or (depth > 0 and self.maybe(few))}
        return {"a": 1} if schema.get("x-kubernetes-preserve-unknown-fields") else "a"

    def object(self, schema, head):
        made = self.value({"type": "object"} | schema, 6)
        made = made if isinstance(made, dict) else {}
        for name in "apiVersion", "kind", "metadata":
            made.pop(name, None)
        return head | made

    def broken(self, object, schema):
        """The same object with one to three parts that are no good, as a rule."""
        made = copy.deepcopy(object)
        for _ in range(self.random.choice([1, 1, 2, 3])):
            places = []

            def walk(value, of):
                for name, member in (value.items() if isinstance(value, dict) else enumerate(value)):
                    if value is made and name in ("apiVersion", "kind", "metadata"):
                        continue
                    places.append((value, name))
                    if isinstance(member, (dict, list)):
                        walk(member, None)

            walk(made, schema)
            if not places:
                made["spec"] = self.random.choice(ANYTHING)
                continue
            value, name = self.random.choice(places)
            change = self.random.random()
            if change < 0.5:
                value[name] = copy.deepcopy(self.random.choice(ANYTHING))
            elif change < 0.7 and isinstance(value, dict):
                del value[name]
            elif change < 0.9 and isinstance(value, dict):
                value["zz"] = self.random.choice(ANYTHING)
            elif isinstance(value[name], list):
                value[name] = value[name] * 40
            else:
                value[name] = [value[name]]
        return made


def repaired(object, answer):
    """Takes out what the causes of a 422 name; nothing if they name nothing that is there."""
    causes = answer.get("details", {}).get("causes", []) if isinstance(answer, dict) else []
    for cause in causes:
        parts = re.findall(r"[^.\[\]]+", cause.get("field", ""))
        while parts:
            value = object
            try:
                for part in parts[:-1]:
                    value = value[int(part) if isinstance(value, list) else part]
                at = int(parts[-1]) if isinstance(value, list) else parts[-1]
                if parts[0] == "metadata":
                    break
                del value[at]
                return True
            except (KeyError, IndexError, ValueError, TypeError):
                parts.pop()
    return False


def samples(both, made, version, options, seed):
    """Good and broken objects of one version. Returns how many of the good ones were taken."""
    spec, schema = made["spec"], version.get("schema", {}).get("openAPIV3Schema", {})
    maker = Maker(seed)
    namespaced = spec["scope"] == "Namespaced"
    collection = f"/apis/{spec['group']}/{version['name']}/" + ("namespaces/default/" if namespaced else "") + spec["names"]["plural"]
    taken, good = 0, []
    for nth in range(options.good):
        head = {"apiVersion": f"{spec['group']}/{version['name']}", "kind": spec["names"]["kind"], "metadata": {"name": f"{version['name']}-{nth}"}}
        object = maker.object(schema, head)
        for _ in range(ROUNDS_MAX):
            answers = both.ask("object", "POST", collection, object)
            if answers[1][0] != 422 or not repaired(object, answers[1][1]):
                break
        taken += answers[1][0] == 201
        good.append(object)
        if [answer[0] for answer in answers] == [201, 201]:
            both.ask("object", "GET", f"{collection}/{head['metadata']['name']}")
    for nth in range(options.broken):
        object = maker.broken(maker.random.choice(good), schema)
        object["metadata"] = {"name": f"{version['name']}-b{nth}"}
        strictness = maker.random.choice(["Strict", "Warn", "Ignore"])
        both.ask("broken object", "POST", f"{collection}?fieldValidation={strictness}", object)
        live = [server.ask("GET", f"{collection}/{version['name']}-{nth % options.good}") for server in (both.ours, both.theirs)]
        if [answer[0] for answer in live] == [200, 200]:
            updates = []
            for server, (_, body, _) in zip((both.ours, both.theirs), live):
                updates.append(server.ask("PUT", f"{collection}/{version['name']}-{nth % options.good}?dryRun=All&fieldValidation={strictness}", object | {"metadata": body["metadata"]}))
            both.compare(f"update {collection} {json.dumps(object)}", *updates)
    return taken


def sorted_conditions(both, name):
    """What a definition has come to on both. A kube-apiserver's controllers write conditions in any order, the last one perhaps later."""
    for _ in range(10):
        found = [conditions(server, name) for server in (both.ours, both.theirs)]
        for _, body, _ in found:
            body.get("status", {}).get("conditions", []).sort(key=lambda condition: condition["type"])
        if len({len(body.get("status", {}).get("conditions", [])) for _, body, _ in found}) == 1:
            break
        time.sleep(0.5)
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ["ours", "theirs", "ca", "token", "known"]:
        arguments.add_argument(f"--{flag}", required=True)
    for flag, default in [("good", 10), ("broken", 10), ("seed", 1), ("show", 20)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    arguments.add_argument("--only", default="", help="modules with this word in their path")
    options = arguments.parse_args()
    both = Both(*(Yaml(url, options.ca, options.token) for url in (options.ours, options.theirs)), options.show)
    lines, refused = [], 0
    for module, version, folder in MODULES:
        if options.only not in module:
            continue
        found = {}
        for text in texts(os.path.join(fetched(module, version), folder)):
            code, read = both.ours.read(text)
            if code != 201:
                raise SystemExit(f"{module}: a definition cannot be read: {code} {json.dumps(read)[:600]}")
            found.setdefault(read["metadata"]["name"], read)
        before, installed, wanted, taken = (both.same, both.different), 0, 0, 0
        for name, read in sorted(found.items()):
            metadata = {"name": name, "annotations": {key: value for key, value in read["metadata"].get("annotations", {}).items() if key == "api-approved.kubernetes.io"}}
            made = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": without_rules(read["spec"]) | {"conversion": {"strategy": "None"}}}
            answers = both.ask("definition", "POST", DEFINITIONS, made)
            if [answer[0] for answer in answers] != [201, 201]:
                refused += 1
                continue
            installed += 1
            both.compare(f"conditions of {name}", *sorted_conditions(both, name))
            versions = [one for one in made["spec"]["versions"] if one["served"]]
            for one in versions:
                both.wait(f"/apis/{made['spec']['group']}/{one['name']}/{made['spec']['names']['plural']}")
            # A kube-apiserver lets objects in some seconds after their definition.
            time.sleep(2.5)
            for at, one in enumerate(versions):
                wanted += options.good
                taken += samples(both, made, one, options, options.seed * 1_000_003 + hash_of(name) + at)
            for server in both.ours, both.theirs:
                server.ask("DELETE", f"{DEFINITIONS}/{name}")
        same, different = both.same - before[0], both.different - before[1]
        lines.append(f"{module} {version}: {installed} of {len(found)} definitions, {taken} of {wanted} good objects taken, {same} answers equal, {different} differ")
        print(lines[-1], flush=True)
    print(f"{both.same} answers equal, {both.different} differ, {refused} definitions refused; " + ", ".join(f"{count} {what}" for what, count in sorted(both.codes.items())))
    sys.exit(both.different > 0 or both.same == 0)


def hash_of(name):
    """The same in each run."""
    return sum(ord(letter) * (at + 1) for at, letter in enumerate(name)) * 101


if __name__ == "__main__":
    main()
