#!/usr/bin/env python3
"""What the worst bodies cost a server, and for how long a small request waits beside each.

    benches/bodies/bodies.py PATH/watchcache PORT [MATCH]

Starts the server alone on loopback with one runtime thread, sends one body after another, and small GETs all the while. A line for each body whose name
has MATCH in it: its length, the answer's status and length, CPU of the server, time of the request, and the longest time of a small one.
"""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
BODY = 3 * MIB
PODS, MAPS = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/configmaps"
NAMESPACE = "/api/v1/namespaces/default"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON, YAML, APPLY = "application/json", "application/yaml", "application/apply-patch+yaml"
JSON_PATCH, MERGE_PATCH, STRATEGIC = (f"application/{kind}+json" for kind in ("json-patch", "merge-patch", "strategic-merge-patch"))


def filled(head, item, tail, size):
    """As many items as fit between head and tail; `item` makes one of its number."""
    items, room, i = [], size - len(head) - len(tail), 0
    while (room := room - len(text := item(i)) - 1) >= 0:
        items.append(text)
        i += 1
    return head + ",".join(items) + tail


def defined(plural, properties):
    """A definition whose objects have these members."""
    schema = {"type": "object", "properties": properties}
    names = {"plural": plural, "singular": plural[:-1], "kind": plural.capitalize()[:-1], "listKind": plural.capitalize()}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]
    return json.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.ex.io"},
                       "spec": {"group": "ex.io", "scope": "Cluster", "names": names, "versions": versions}})


def of(plural, members):
    return json.dumps({"apiVersion": "ex.io/v1", "kind": plural.capitalize()[:-1], "metadata": {"name": "a"}} | members)


def schemas():
    """Definitions, and objects that take long to be compared with them."""
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    many = [f"choice-{i}" for i in range(60_000)]
    nested = text
    for _ in range(40):
        nested = {"type": "object", "properties": {"n": nested}, "anyOf": [{"properties": {"n": {}}}, {"required": ["x"]}]}
    default = {"type": "object", "additionalProperties": text, "default": {f"k{i}": "v" * 20 for i in range(30_000)}}
    patterns = {f"p{i}": {"type": "string", "pattern": "(x+x+)+y" if i % 2 else "(a?){400}a{400}$"} for i in range(100)}
    alternatives = {"l": {"type": "array", "items": {"type": "object", "properties": {f"p{i}": {"type": "integer"} for i in range(1_000)},
                                                     "anyOf": [{"properties": {f"p{i}": {"minimum": 1}}, "required": ["p0"]} for i in range(1_000)]}}}
    definitions = {
        "choices": {"l": {"type": "array", "items": {"type": "string", "enum": many}}}, "nesteds": {"n": nested}, "defaults": {"a": default, "b": texts},
        "patterns": patterns, "alternatives": alternatives, "sets": {"l": {"type": "array", "x-kubernetes-list-type": "set", "items": text}}}
    objects = {
        "choices": {"l": many + ["no"]}, "nesteds": {"n": {}}, "defaults": {"b": ["x"]}, "patterns": {f"p{i}": "x" * 25_000 if i % 2 else "a" * 25_000 for i in range(100)},
        "alternatives": {"l": [{}] * 500_000}, "sets": {"l": ["x"] * 600_000}}
    for plural, properties in definitions.items():
        yield f"a definition: {plural}", "POST", DEFINITIONS, JSON, defined(plural, properties)
        yield f"an object of it: {plural}", "POST", f"/apis/ex.io/v1/{plural}", JSON, of(plural, objects[plural])


def applies():
    """Applies of many fields, and managed fields that nobody writes."""
    fields = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "fields"}, "data": {f"field-{i:05}": "v" * 10 for i in range(15_000)}})
    for manager in ("one", "two"):
        yield f"applied: 15,000 fields by {manager}", "PATCH", f"{MAPS}/fields?fieldManager={manager}&force=true", APPLY, fields
    yield "applied: without change", "PATCH", f"{MAPS}/fields?fieldManager=two", APPLY, fields
    entry = lambda i, fields: {"manager": f"m{i}", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}
    managers = [entry(i, {"f:data": {f"f:k{i}": {}, "f:all": {}}}) for i in range(1_000)]
    forged = lambda name, managed: json.dumps({"metadata": {"name": name, "managedFields": managed}, "data": {"all": "1"} | {f"k{i}": "" for i in range(1_000)}})
    yield "applied: 1,000 managers", "POST", MAPS, JSON, forged("managers", managers)
    yield "applied: beside them", "PATCH", f"{MAPS}/managers?fieldManager=x&force=true", APPLY, '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"managers"},"data":{"all":"2"}}'
    yield "applied: 1 MB of managed fields", "POST", MAPS, JSON, forged("forged", [entry(0, {"f:data": {f"f:{i:x}": {} for i in range(80_000)}})])
    containers = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"twice"},"spec":{"containers":['
    yield "applied: one key again and again", "PATCH", f"{PODS}/twice?fieldManager=x", APPLY, filled(containers, lambda i: '{"name":"c","image":"i"}', "]}}", MIB)
    preserved = {"l": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
    yield "applied: a definition of anythings", "POST", DEFINITIONS, JSON, defined("anythings", preserved)
    deep = '{"a":[' * 45 + "1" + "]}" * 45
    nested = '{"apiVersion":"ex.io/v1","kind":"Anything","metadata":{"name":"a"},"l":['
    yield "applied: lists nested 90 deep", "PATCH", "/apis/ex.io/v1/anythings/a?fieldManager=x", APPLY, filled(nested, lambda i: deep, "]}", MIB)


def cases():
    named = '{"metadata":{"name":"a"},'
    container = named + '"spec":{"containers":[{"name":"c","image":"i",'
    strategic = '{"spec":{"containers":['

    def metadata(member):
        return '{"metadata":{"name":"a","%s":' % member

    merges = "a: &a {" + ",".join(f"{i:x}: 1" for i in range(100_000)) + "}\nd: [" + "{<<: *a}," * 200_000 + "]"
    lines = "metadata:\n  name: a\ndata:\n" + "".join(f"  k{i:x}: ''\n" for i in range(220_000))
    long_key = named + '"' + "k" * (128 << 10) + '":{'
    element = '{"name":"c","env":[{"name":"E1"}]}'
    return [
        ("values of 100 B", "POST", MAPS, JSON, filled(named + '"data":{', lambda i: f'"k{i}":"{"v" * 100}"', "}}", BODY)),
        ("empty values", "POST", MAPS, JSON, filled(named + '"data":{', lambda i: f'"{i:x}":""', "}}", BODY)),
        ("variables {}", "POST", PODS, JSON, filled(container + '"env":[', lambda i: "{}", "]}]}}", BODY // 2)),
        ("containers {}", "POST", PODS, JSON, filled(named + '"spec":{"containers":[', lambda i: "{}", "]}}", BODY // 8)),
        ("wrong labels", "POST", MAPS, JSON, filled(metadata("labels") + "{", lambda i: f'"-{i:x}":""', "}}}", BODY // 8)),
        ("wrong finalizers", "POST", MAPS, JSON, filled(metadata("finalizers") + "[", lambda i: f'"-{i:x}"', "]}}", BODY // 16)),
        ("owners", "POST", MAPS, JSON, filled(metadata("ownerReferences") + "[", lambda i: '{"uid":"%x"}' % i, "]}}", BODY // 32)),
        ("duplicates below a long key", "POST", MAPS, JSON, filled(long_key, lambda i: f'"{i % 99:02}":0', "}}", BODY // 8)),
        ("versions {} of a definition", "POST", DEFINITIONS, JSON, filled(named + '"spec":{"versions":[', lambda i: "{}", "]}}", BODY // 32)),
        ("merge keys", "POST", MAPS, YAML, merges),
        ("lines", "POST", MAPS, YAML, lines),
        ("a merge patch of labels", "PATCH", NAMESPACE, MERGE_PATCH, filled('{"metadata":{"labels":{', lambda i: f'"{i:x}":""', "}}}", BODY)),
        ("many variables, for what follows", "POST", PODS, JSON, filled(container + '"env":[', lambda i: '{"name":"E%x"}' % i, "]}]}}", MIB // 2)),
        ("one element again and again", "PATCH", PODS + "/a", STRATEGIC, filled(strategic, lambda i: element, "]}}", BODY // 32)),
        ("10,000 insertions", "PATCH", PODS + "/a", JSON_PATCH,
         "[" + ",".join(['{"op":"add","path":"/spec/containers/0/env/0","value":{"name":"x"}}'] * 10_000) + "]"),
        *schemas(),
        *applies(),
    ]


class Server:
    def __init__(self, binary, port):
        self.port, self.dir = port, tempfile.TemporaryDirectory()
        log = open(os.path.join(self.dir.name, "log"), "w")
        command = [binary, "serve", "--insecure-port", str(port), "--data-dir", os.path.join(self.dir.name, "data")]
        self.process = subprocess.Popen(command, env=dict(os.environ, TOKIO_WORKER_THREADS="1"), stdout=log, stderr=log)
        until = time.time() + 60
        while not self.is_ready():
            if time.time() > until:
                raise SystemExit("the server is not ready after a minute")
            time.sleep(0.1)

    def is_ready(self):
        try:
            return all(self.ask("GET", target)[0] == 200 for target in ("/readyz", NAMESPACE))
        except OSError:
            return False

    def ask(self, method, target, media=None, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request(method, target, body, {"Content-Type": media} if media else {})
        answer = connection.getresponse()
        bytes_read = len(answer.read())
        connection.close()
        return answer.status, bytes_read

    def cpu_ms(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            user, system = stat.read().rsplit(") ", 1)[1].split()[11:13]
        return (int(user) + int(system)) * 1000 // os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.kill()
        self.process.wait()


def beside(server, case):
    """Sends one body and small requests until it is answered."""
    name, method, target, media, body = case
    outcome, before, began = [], server.cpu_ms(), time.time()
    large = threading.Thread(target=lambda: outcome.extend((*server.ask(method, target, media, body.encode()), time.time() - began)))
    large.start()
    longest = 0
    while large.is_alive():
        asked = time.time()
        server.ask("GET", NAMESPACE + "?resourceVersion=0")
        longest = max(longest, time.time() - asked)
        time.sleep(0.002)
    large.join()
    # What a definition makes served is there a moment later.
    until = time.time() + 10
    while target == DEFINITIONS and outcome[0] == 201 and server.ask("GET", "/apis/ex.io/v1/" + name.split()[-1])[0] != 200 and time.time() < until:
        time.sleep(0.01)
    status, answer, took = outcome
    print(f"{name:34} {len(body) >> 10:5} KiB: {status}, {answer:9} B, CPU {server.cpu_ms() - before:6} ms, "
          f"took {took * 1000:6.0f} ms, a small one at most {longest * 1000:8.1f} ms", flush=True)


def main():
    server = Server(sys.argv[1], int(sys.argv[2]))
    match = sys.argv[3] if len(sys.argv) > 3 else ""
    try:
        for case in cases():
            if match in case[0]:
                beside(server, case)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
