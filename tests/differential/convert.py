#!/usr/bin/env python3
"""Conversion webhooks: stories about a definition with three versions and a real webhook, told to watchcache and to a kube-apiserver. Both call the same webhook, which
converts, or misbehaves in one of fifty ways; their answers, what they store and what their watches tell must be the same.

    tests/differential/run.sh PEERS watchcache tests/differential/convert.py [--stories NAME,…] [--show N]

The webhook is a thread of this program, with the certificate srv.crt and srv.key of the folder of the authority. Left out are uids, revisions, times, and the pauses
that a resource asks for while it is loaded: kube-apiserver waits up to half a minute before it asks a webhook again."""

import argparse
import base64
import copy
import http.client
import http.server
import json
import os
import re
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from urllib.parse import urlsplit

JSON, MERGE, JSON_PATCH, APPLY = "application/json", "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
GROUP = "conv.ex.io"


def text():
    return {"type": "string"}


def number(**more):
    return {"type": "integer"} | more


def schema(**spec):
    conditions = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": {
        "type": "object", "required": ["type"], "properties": {"type": text(), "status": text()}}}
    status = {"type": "object", "properties": {"replicas": number(), "phase": text(), "conditions": conditions}}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}, "status": status}}}


def version(name, storage, spec, path, columns, fields):
    return {
        "name": name, "served": True, "storage": storage, "schema": schema(**spec),
        "subresources": {"status": {}, "scale": {"specReplicasPath": path, "statusReplicasPath": ".status.replicas"}},
        "additionalPrinterColumns": columns, "selectableFields": [{"jsonPath": field} for field in fields]}


def definition(plural, kind, url, bundle, storage="v1", reviews=("v1",), strategy="Webhook"):
    """v1 has `address` as `host:port`, v2 both apart, with a default that v1 has not, and v3 the same under another name."""
    v1 = {"address": text(), "replicas": number(), "note": text()}
    v2 = {"host": text(), "port": text(), "replicas": number(), "note": text(), "mode": text() | {"default": "fast"}}
    v3 = {"server": {"type": "object", "properties": {"host": text(), "port": text()}}, "count": number(), "note": text()}
    columns = lambda path: [{"name": "Address", "type": "string", "jsonPath": path}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                version("v1", storage == "v1", v1, ".spec.replicas", columns(".spec.address"), [".spec.address"]),
                version("v2", storage == "v2", v2, ".spec.replicas", columns(".spec.host"), [".spec.host"]),
                version("v3", storage == "v3", v3, ".spec.count", columns(".spec.server.host"), [".spec.server.host"])],
            "conversion": {"strategy": "None"} if strategy == "None" else {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": list(reviews), "clientConfig": {"url": url, "caBundle": bundle}}}}}


def converted(item, desired):
    """The object in another version. What only one version has is kept in an annotation."""
    item = copy.deepcopy(item)
    have, want = item["apiVersion"].split("/")[1], desired.split("/")[1]
    spec = item.get("spec", {})
    annotations = item["metadata"].get("annotations") or {}
    kept = json.loads(annotations.pop("conv.ex.io/kept", "{}"))
    if have == "v1":
        host, _, port = spec.pop("address", "").partition(":")
        plain = spec | ({"host": host} if host else {}) | ({"port": port} if port else {})
    elif have == "v2":
        plain = dict(spec)
    else:
        server = spec.pop("server", {})
        plain = spec | server
        if "count" in plain:
            plain["replicas"] = plain.pop("count")
    plain = kept | plain
    keep = {}
    if want != "v2" and "mode" in plain:
        keep["mode"] = plain.pop("mode")
    if want == "v1":
        host, port = plain.pop("host", ""), plain.pop("port", "")
        if host or port:
            plain["address"] = host + (f":{port}" if port else "")
    elif want == "v3":
        server = {name: plain.pop(name) for name in ("host", "port") if name in plain}
        if server:
            plain["server"] = server
        if "replicas" in plain:
            plain["count"] = plain.pop("replicas")
    if keep:
        annotations["conv.ex.io/kept"] = json.dumps(keep, sort_keys=True)
    if annotations:
        item["metadata"]["annotations"] = annotations
    else:
        item["metadata"].pop("annotations", None)
    if spec or plain:
        item["spec"] = plain
    item["apiVersion"] = desired
    return item


class Webhook:
    """Serves conversions, in one of many moods."""

    def __init__(self, folder, port, address="127.0.0.1"):
        self.folder = folder
        self.mood, self.calls, self.lock = "good", {"ours": [0, 0], "theirs": [0, 0]}, threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                outer.answer(self, json.loads(body))

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass

        self.listener = Listener((address, port), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(folder, "srv.crt"), os.path.join(folder, "srv.key"))
        self.listener.socket = context.wrap_socket(self.listener.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.listener.server_address[1]}/convert"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def answer(self, handler, review):
        request, mood = review["request"], self.mood
        with self.lock:
            calls = self.calls["ours" if handler.headers.get("User-Agent", "").startswith("watchcache") else "theirs"]
            calls[0] += 1
            calls[1] += len(request["objects"])
        code, headers = 200, {}
        objects = [converted(item, request["desiredAPIVersion"]) for item in request["objects"]]
        answer = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": {
            "uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}}
        response = answer["response"]
        if mood in MOODS:
            code, headers, text = MOODS[mood](answer, response, objects, code, headers) or (code, headers, None)
        else:
            text = None
        if mood == "hang":
            time.sleep(40)
        text = json.dumps(answer) if text is None else text
        if mood == "break":
            handler.close_connection = True
            return
        handler.send_response(code)
        for name, value in ({"Content-Type": JSON, "Content-Length": str(len(text.encode()))} | headers).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(text.encode())


def on_first(change):
    def mood(answer, response, objects, code, headers):
        change(objects[0])
    return mood


def on_response(change):
    def mood(answer, response, objects, code, headers):
        change(response)
    return mood


def as_text(code, text, **headers):
    return lambda *_: (code, {name.replace("_", "-"): value for name, value in headers.items()}, text)


def at(path, value):
    def change(item):
        *parents, last = path.split(".")
        for name in parents:
            item = item.setdefault(name, {})
        if value is None:
            item.pop(last, None)
        else:
            item[last] = value
    return change


MOODS = {
    "refuses": on_response(at("result", {"status": "Failure", "message": "no such colour"})),
    "refuses-silently": on_response(at("result", {"status": "Failure"})),
    "no-status": on_response(at("result", {})),
    "no-result": on_response(at("result", None)),
    "other-uid": on_response(at("uid", "another")),
    "no-response": lambda answer, *_: answer.pop("response") and None,
    "null-response": lambda answer, *_: answer.update(response=None),
    "other-kind": lambda answer, *_: answer.update(kind="ConversionRevue"),
    "other-version": lambda answer, *_: answer.update(apiVersion="apiextensions.k8s.io/v1beta1"),
    "unknown-version": lambda answer, *_: answer.update(apiVersion="apiextensions.k8s.io/v7"),
    "no-kind": lambda answer, *_: (answer.pop("kind"), answer.pop("apiVersion")) and None,
    "none-back": on_response(at("convertedObjects", [])),
    "null-back": on_response(at("convertedObjects", None)),
    "twice-back": lambda answer, response, objects, *_: objects.append(copy.deepcopy(objects[0])),
    "nulls-back": on_response(at("convertedObjects", [None])),
    "text-back": on_response(at("convertedObjects", ["text"])),
    "empty-back": on_response(at("convertedObjects", [{}])),
    "not-converted": on_first(at("apiVersion", f"{GROUP}/v9")),
    "other-group": on_first(at("apiVersion", "other.io/v2")),
    "other-object-kind": on_first(at("kind", "Gadget")),
    "no-object-kind": on_first(at("kind", None)),
    "other-name": on_first(at("metadata.name", "another")),
    "other-namespace": on_first(at("metadata.namespace", "another")),
    "other-object-uid": on_first(at("metadata.uid", "another")),
    "no-metadata": on_first(at("metadata", None)),
    "text-metadata": on_first(at("metadata", "text")),
    "labels-number": on_first(at("metadata.labels", {"a": 1})),
    "labels-list": on_first(at("metadata.labels", ["a"])),
    "labels-wrong": on_first(at("metadata.labels", {"a b": "c d"})),
    "labels-other": on_first(at("metadata.labels", {"made": "by-webhook"})),
    "labels-none": on_first(at("metadata.labels", None)),
    "annotations-wrong": on_first(at("metadata.annotations", {"a b": "x"})),
    "annotations-number": on_first(at("metadata.annotations", {"a": 1})),
    "annotations-other": on_first(at("metadata.annotations", {"made": "by-webhook"})),
    "finalizers": on_first(at("metadata.finalizers", ["ex.io/mine"])),
    "other-metadata": on_first(at("metadata.generation", 77)),
    "unknown-field": on_first(at("spec.unknown", {"a": 1})),
    "null-field": on_first(at("spec.note", {}.get("none"))),
    "wrong-type": on_first(at("spec.note", 7)),
    "error-500": as_text(500, "it is broken"),
    "error-500-empty": as_text(500, ""),
    "error-404": as_text(404, "not here"),
    "error-403": as_text(403, "not you"),
    "error-status": as_text(422, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "told so", "reason": "Invalid", "code": 422})),
    "status-200": as_text(200, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "told so", "code": 422})),
    "redirect": as_text(302, "", Location="https://127.0.0.1:1/elsewhere"),
    "redirect-307": as_text(307, "", Location="https://127.0.0.1:1/elsewhere"),
    "no-content": as_text(204, ""),
    "empty": as_text(200, ""),
    "garbage": as_text(200, "<html>"),
    "half": as_text(200, '{"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": {'),
    "array": as_text(200, "[]"),
    "no-media": as_text(200, "{}", Content_Type="text/html"),
    "break": lambda *_: None,
}


class Server:
    def __init__(self, name, url, ca, token):
        self.name, self.at, self.token, self.trust, self.client = name, urlsplit(url), token, ssl.create_default_context(cafile=ca), None

    def ask(self, method, path, body=None, media=JSON, accept=JSON):
        """Code, body and warnings; tried again once on a new connection."""
        headers = {"User-Agent": "differential/1", "Authorization": f"Bearer {self.token}", "Accept": accept}
        headers |= {"Content-Type": media} if body is not None else {}
        for _ in range(2):
            try:
                if self.client is None:
                    self.client = http.client.HTTPSConnection(self.at.hostname, self.at.port, context=self.trust, timeout=70)
                self.client.request(method, path, None if body is None else json.dumps(body), headers)
                answer = self.client.getresponse()
                text, kind = answer.read().decode(), answer.headers.get_content_type()
                if "watch=" in path and answer.status == 200:
                    return answer.status, [json.loads(line) for line in text.splitlines()], []
                return answer.status, json.loads(text) if kind == JSON and text else text, sorted(answer.headers.get_all("Warning") or [])
            except (http.client.HTTPException, OSError):
                self.client = None
        raise SystemExit(f"{self.at.geturl()} does not answer")

    def settled(self, method, path, body=None, media=JSON, accept=JSON, seconds=40):
        """The same once the resource is loaded: a 429 says that it is not."""
        end = time.time() + seconds
        while True:
            answer = self.ask(method, path, body, media, accept)
            if answer[0] != 429 or time.time() > end:
                return answer
            time.sleep(0.1)


def plain(value):
    """Without what must differ."""
    if isinstance(value, dict):
        out = {}
        for name, inner in value.items():
            if name in ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "time", "continue", "retryAfterSeconds", "selfLink"):
                out[name] = "…" if inner else inner
            elif name == "managedFields" and isinstance(inner, list):
                out[name] = sorted((plain(entry) for entry in inner), key=lambda entry: json.dumps(entry, sort_keys=True))
            else:
                out[name] = plain(inner)
        return out
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, str):
        value = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", value)
        value = re.sub(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", "TIME", value)
        return re.sub(r"127\.0\.0\.1:\d+->127\.0\.0\.1:\d+", "A->B", value)
    return value


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Story:
    """Asks both servers the same, each about a definition of its own kind, and compares."""

    def __init__(self, name, servers, hook, bundle):
        self.name, self.servers, self.hook, self.bundle = name, servers, hook, bundle
        self.differences, self.compared = [], 0
        self.plural = re.sub("[^a-z]", "", name) + "s"
        self.kind = self.plural[:-1].capitalize()

    def path(self, version, name="", query=""):
        return f"/apis/{GROUP}/{version}/namespaces/default/{self.plural}" + (f"/{name}" if name else "") + query

    def object(self, version, name, spec=None, **metadata):
        return {"apiVersion": f"{GROUP}/{version}", "kind": self.kind, "metadata": {"name": name} | metadata} | ({} if spec is None else {"spec": spec})

    def define(self, **options):
        self.hook.mood = "good"
        made = definition(self.plural, self.kind, self.hook.url, self.bundle, **options)
        for server in self.servers:
            code, found, _ = server.ask("GET", f"{CRDS}/{self.plural}.{GROUP}")
            if code == 200:
                # What an earlier run has left can be deleted only where it can be converted.
                server.ask("PUT", f"{CRDS}/{self.plural}.{GROUP}", found | {"spec": found["spec"] | {"conversion": made["spec"]["conversion"]}})
            server.ask("DELETE", f"{CRDS}/{self.plural}.{GROUP}")
        self.wait_for(lambda server: server.ask("GET", f"{CRDS}/{self.plural}.{GROUP}")[0] == 404)
        for server in self.servers:
            assert server.ask("POST", CRDS, made)[0] == 201
        self.wait_for(lambda server: server.ask("GET", self.path("v1"))[0] == 200)
        # kube-apiserver lets nobody create for a while after that.
        self.wait_for(lambda server: server.ask("POST", self.path("v1", "", "?dryRun=All"), self.object("v1", "try", {}))[0] == 201)

    def wait_for(self, done):
        for server in self.servers:
            for _ in range(400):
                if done(server):
                    break
                time.sleep(0.1)
            else:
                raise SystemExit(f"{self.name}: {server.name} does not come so far")

    def redefine(self, change):
        """Changes the definition on both, and waits until it counts."""
        for server in self.servers:
            for _ in range(20):
                path = f"{CRDS}/{self.plural}.{GROUP}"
                found = server.ask("GET", path)[1]
                change(found["spec"])
                if server.ask("PUT", path, found)[0] == 200:
                    break
        time.sleep(1.5)

    def both(self, what, method, path, body=None, media=JSON, accept=JSON, settle=False, only=None):
        answers = []
        for server in self.servers:
            ask = server.settled if settle else server.ask
            code, told, warnings = ask(method, path, body, media, accept)
            answers.append((code, plain(told) if only is None else only(told), warnings))
        self.compared += 1
        if answers[0] != answers[1]:
            self.differences.append((what, method, path, body, answers))
        return answers


def lines(events):
    """Events of a watch, without bookmarks."""
    return plain([event for event in events if event["type"] != "BOOKMARK"]) if isinstance(events, list) else plain(events)


def ordinary(story):
    """Every verb in every version."""
    story.define()
    both, path, thing = story.both, story.path, story.object
    for version, name, spec in [
        ("v1", "a", {"address": "ha:1", "replicas": 3}), ("v2", "b", {"host": "hb", "port": "2", "mode": "slow"}),
        ("v3", "c", {"server": {"host": "hc", "port": "3"}, "count": 5, "note": "n"}), ("v2", "d", {}), ("v3", "e", {"unknown": 1, "server": {"x": 1}}),
    ]:
        both(f"create {version}", "POST", path(version, "", "?dryRun=All"), thing(version, name, spec))
        both(f"create {version}", "POST", path(version), thing(version, name, spec, labels={"l": name}))
    both("create again", "POST", path("v2"), thing("v2", "a", {}))
    both("create without a spec", "POST", path("v3"), thing("v3", "f"))
    both("create of another version", "POST", path("v2"), thing("v1", "g"))
    both("generateName", "POST", path("v2"), {"apiVersion": f"{GROUP}/v2", "kind": story.kind, "metadata": {"generateName": "x"}}, only=lambda told: told["kind"])
    both("delete", "DELETE", path("v2", "", "?labelSelector=!l"), only=lambda told: len(told["items"]))
    for version in ("v1", "v2", "v3"):
        for name in "abcdez":
            both("get", "GET", path(version, name))
            both("get from the cache", "GET", path(version, name, "?resourceVersion=0"), settle=True)
        for query in ("", "?resourceVersion=0", "?limit=2", "?limit=2&resourceVersion=0", "?labelSelector=l%3Db", "?fieldSelector=metadata.name%3Dc",
                      "?fieldSelector=spec.host%3Dhb", "?fieldSelector=spec.address%3Dha:1", "?fieldSelector=spec.server.host%3Dhc&limit=1"):
            both("list", "GET", path(version, "", query), settle=True)
        for accept in (TABLE, METADATA_LIST):
            both("list as", "GET", path(version), accept=accept, settle=True, only=lambda told: without_ages(plain(told)))
        both("get as", "GET", path(version, "a"), accept=METADATA)
        both("get as", "GET", path(version, "a"), accept=TABLE, only=lambda told: without_ages(plain(told)))
        both("scale", "GET", path(version, "a/scale"))
        both("status", "GET", path(version, "b/status"))
        both("watch", "GET", path(version, "", "?watch=true&timeoutSeconds=1&resourceVersion=0"), settle=True, only=lines)
        both("watch list", "GET", path(
            version, "", "?watch=true&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"), settle=True, only=lines)
    for version, name, patch in [
        ("v2", "a", {"spec": {"port": "9"}}), ("v3", "b", {"spec": {"count": 7}}), ("v1", "c", {"spec": {"address": "hc:33"}}),
        ("v3", "a", {"spec": {"server": None}}), ("v2", "a", {"metadata": {"labels": {"m": "1"}, "annotations": {"a": "1"}}}), ("v2", "z", {}),
        ("v1", "a", {"spec": {"unknown": 1}}), ("v2", "a", {}), ("v3", "c", {"metadata": {"name": "other"}}),
    ]:
        both("merge patch", "PATCH", path(version, name), patch, MERGE)
        both("merge patch, dry", "PATCH", path(version, name, "?dryRun=All"), patch, MERGE)
    both("JSON patch", "PATCH", path("v3", "c"), [{"op": "replace", "path": "/spec/server/port", "value": "4"}, {"op": "test", "path": "/spec/count", "value": 5}], JSON_PATCH)
    both("JSON patch of another version", "PATCH", path("v3", "c"), [{"op": "test", "path": "/spec/host", "value": "hc"}], JSON_PATCH)
    for version in ("v1", "v2", "v3"):
        both("status", "PATCH", path(version, "a/status"), {"status": {"replicas": 2, "phase": version, "conditions": [{"type": version, "status": "True"}]}}, MERGE)
        both("scale", "PATCH", path(version, "a/scale"), {"spec": {"replicas": len(version) + int(version[1])}}, MERGE)
        both("scale", "PUT", path(version, "b/scale"), {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "b", "namespace": "default"}, "spec": {"replicas": 4}})
        both("get", "GET", path(version, "a"))
    for version, spec in (("v1", {"address": "h:8", "note": "1"}), ("v2", {"host": "g", "note": "2"}), ("v3", {"server": {"port": "7"}, "count": 3})):
        for force in ("", "&force=true"):
            both("apply", "PATCH", path(version, "a", f"?fieldManager=m{version}{force}"), thing(version, "a", spec), APPLY)
        both("apply new", "PATCH", path(version, f"n{version}", "?fieldManager=m"), thing(version, f"n{version}", spec), APPLY)
        both("apply less", "PATCH", path(version, f"n{version}", "?fieldManager=m"), thing(version, f"n{version}", {"note": "less"}), APPLY)
    for version in ("v2", "v3", "v1"):
        both("apply elsewhere", "PATCH", path(version, "nv1", "?fieldManager=m"), thing(version, "nv1", {"note": "more"}), APPLY)
        both("replace", "PUT", path(version, "b"), thing(version, "b", {"note": version}))
        both("replace nothing", "PUT", path(version, "b"), thing(version, "b", {"note": version}))
        both("replace what is not there", "PUT", path(version, f"w{version}"), thing(version, f"w{version}", {"note": version}))
        both("replace of another uid", "PUT", path(version, "b"), thing(version, "b", {"note": version}, uid="another"))
        both("replace of another revision", "PUT", path(version, "b"), thing(version, "b", {"note": version}, resourceVersion="1"))
    for version in ("v1", "v2", "v3"):
        both("list", "GET", path(version), settle=True)
    both("finalizer", "PATCH", path("v2", "c"), {"metadata": {"finalizers": ["ex.io/f"]}}, MERGE)
    both("delete", "DELETE", path("v3", "c"))
    both("delete again", "DELETE", path("v2", "c"))
    both("finalizer", "PATCH", path("v3", "c"), {"metadata": {"finalizers": []}}, MERGE)
    both("gone", "GET", path("v1", "c"))
    both("delete", "DELETE", path("v3", "a"))
    both("delete", "DELETE", path("v3"), only=lambda told: plain(told))
    both("list", "GET", path("v2"), settle=True)


def without_ages(told):
    """Cells that tell ages differ by a second."""
    return json.loads(re.sub(r'"\d+s"', '"AGE"', json.dumps(told)))


def follow(story):
    """Watches in three versions while objects are written in three."""
    story.define()
    seen = {}

    def watch(server, version, query):
        own = Server(server.name, server.at.geturl(), None, server.token)
        own.trust = server.trust
        seen[server.name, version, query] = own.settled("GET", story.path(version, "", f"?watch=true&timeoutSeconds=6&allowWatchBookmarks=true{query}"))

    for server in story.servers:
        server.settled("GET", story.path("v2")), server.settled("GET", story.path("v3"))
    queries = [(version, query) for version in ("v1", "v2", "v3") for query in ("", "&labelSelector=l", "&fieldSelector=metadata.name%3Db")] + [("v2", "&fieldSelector=spec.host%3Dh2")]
    threads = [threading.Thread(target=watch, args=(server, *query)) for server in story.servers for query in queries]
    [thread.start() for thread in threads]
    time.sleep(1)
    for nth in range(6):
        for version, name in (("v1", "a"), ("v2", "b"), ("v3", "c")):
            spec = {"v1": {"address": f"h{nth}:1"}, "v2": {"host": f"h{nth}"}, "v3": {"server": {"host": f"h{nth}"}}}[version]
            labels = {"l": str(nth)} if nth % 2 else None
            if nth == 0:
                story.both("create", "POST", story.path(version), story.object(version, name, spec, labels=labels))
            else:
                story.both("patch", "PATCH", story.path(version, name), {"metadata": {"labels": labels}, "spec": spec}, MERGE)
    for version, name in (("v3", "a"), ("v1", "b"), ("v2", "c")):
        story.both("delete", "DELETE", story.path(version, name))
    [thread.join() for thread in threads]
    ours, theirs = (server.name for server in story.servers)
    for version, query in queries:
        answers = [(seen[name, version, query][0], lines(seen[name, version, query][1]), []) for name in (ours, theirs)]
        story.compared += 1
        if answers[0] != answers[1]:
            story.differences.append((f"watch {version} {query}", "GET", "", None, answers))


def unasked(story):
    """Versions whose schemas differ, and no webhook: each prunes what it does not know."""
    moved(story, strategy="None")


def moved(story, strategy="Webhook"):
    """The storage version moves to and fro, and objects of each are left."""
    story.define(strategy=strategy)
    both, path, thing = story.both, story.path, story.object

    def look(when):
        for version in ("v1", "v2", "v3"):
            both(f"{when}: list", "GET", path(version), settle=True)
            both(f"{when}: get", "GET", path(version, "av"))
            both(f"{when}: watch", "GET", path(version, "", "?watch=true&timeoutSeconds=1&resourceVersion=0"), settle=True, only=lines)

    def store(version):
        def change(spec):
            for one in spec["versions"]:
                one["storage"] = one["name"] == version
        story.redefine(change)

    for nth, stored in enumerate(("v1", "v2", "v3", "v1")):
        if nth:
            store(stored)
        for version in ("v1", "v2", "v3"):
            spec = {"v1": {"address": f"h{nth}:1"}, "v2": {"host": f"h{nth}", "mode": "m"}, "v3": {"server": {"host": f"h{nth}"}}}[version]
            both("create", "POST", path(version), thing(version, f"o{nth}{version}", spec), settle=True)
        both("create", "POST", path("v1"), thing("v1", "av", {"address": "h:1"}), settle=True)
        look(f"stored as {stored}")
        both("touch", "PATCH", path("v2", "o0v1"), {}, MERGE)
        both("touch", "PUT", path("v1", "o0v2"), thing("v1", "o0v2", {"address": f"t{nth}:1"}))
        look(f"stored as {stored}, touched")
    both("versions", "GET", f"{CRDS}/{story.plural}.{GROUP}", only=lambda told: told["status"]["storedVersions"])


def wrong(story):
    """Every way in which a webhook may misbehave."""
    story.define()
    both, path, thing = story.both, story.path, story.object
    both("create", "POST", path("v1"), thing("v1", "a", {"address": "h:1"}, labels={"l": "1"}))
    for mood in story.moods:
        story.hook.mood = mood
        # A redirection is not followed here, and told.
        only = (lambda told: told.get("code")) if mood.startswith("redirect") else None
        # Which of two conversions of a patch fails first depends on what a server has in memory.
        either = only or (lambda told: told if "message" not in told else re.sub(
            rf"{GROUP}/v\d", f"{GROUP}/vN", re.sub("(Object 'Kind' is missing) in .*", r"\1", re.sub("for conv.*?failed: Post", "Post", plain(told["message"])))))
        # What was converted before is kept here.
        both(f"{mood}: touch", "PATCH", path("v1", "a"), {"metadata": {"labels": {"mood": mood}}}, MERGE)
        both(f"{mood}: get", "GET", path("v2", "a"), only=only)
        both(f"{mood}: stored", "GET", path("v1", "a"))
        both(f"{mood}: create", "POST", path("v2"), thing("v2", f"x-{mood}", {"host": "h", "note": "n"}), only=only)
        both(f"{mood}: patch", "PATCH", path("v2", "a"), {"spec": {"note": mood}}, MERGE, only=lambda told: either(told) if told["kind"] == "Status" else plain(told))
        both(f"{mood}: dry", "PATCH", path("v2", "a", "?dryRun=All"), {"spec": {"note": mood + mood}}, MERGE, only=only)
        both(f"{mood}: delete", "DELETE", path("v2", f"x-{mood}"))
        both(f"{mood}: patch v1", "PATCH", path("v1", "a"), {"spec": {"note": mood}, "metadata": {"labels": {"l": "1"}, "annotations": None}}, MERGE)
        both(f"{mood}: reset", "PATCH", path("v1", "a"), {"metadata": {"managedFields": [{}]}}, MERGE)
        story.hook.mood = "good"
        both(f"{mood}: touch again", "PATCH", path("v1", "a"), {"metadata": {"labels": {"mood": f"{mood}-again"}}}, MERGE)
        both(f"{mood}: then", "GET", path("v2", "a"), settle=True)
        both(f"{mood}: delete v1", "DELETE", path("v1", f"x-{mood}"))


def unreachable(story):
    """A webhook that is not there, not trusted, or not found."""
    story.define()
    both, path, thing = story.both, story.path, story.object
    both("create", "POST", path("v1"), thing("v1", "a", {"address": "h:1"}))
    for name, client in (
        ("refused", {"url": "https://127.0.0.1:1/x", "caBundle": story.bundle}),
        ("no service", {"service": {"namespace": "default", "name": "nosuch", "path": "/c"}, "caBundle": story.bundle}),
        ("not trusted", {"url": story.hook.url}),
    ):
        story.redefine(lambda spec: spec["conversion"]["webhook"].update(clientConfig=client))
        both(f"{name}: get", "GET", path("v2", "a"))
        both(f"{name}: page", "GET", path("v2", "", "?limit=1"))
        # What tells that a resource is not loaded has the reason only once its load has failed.
        told = lambda answer: answer["reason"] + answer["message"].split(":")[0]
        both(f"{name}: list", "GET", path("v2"), only=told)
        both(f"{name}: watch", "GET", path("v2", "", "?watch=true&timeoutSeconds=1"), only=told)
        both(f"{name}: stored", "GET", path("v1"), settle=True)
        both(f"{name}: create", "POST", path("v2"), thing("v2", "b", {"host": "h"}))
        both(f"{name}: delete", "DELETE", path("v2", "a"))
    story.redefine(lambda spec: spec["conversion"]["webhook"].update(clientConfig={"url": story.hook.url, "caBundle": story.bundle}))
    both("again: list", "GET", path("v2"), settle=True)


def old_reviews(story):
    """A webhook that speaks v1beta1 first, of whose answers less is asked."""
    story.define(reviews=("v1beta1", "v1"))
    both, path = story.both, story.path
    both("create", "POST", path("v1"), story.object("v1", "a", {"address": "h:1"}))
    for mood in ("good", "other-uid", "no-kind", "other-kind", "refuses", "none-back"):
        story.hook.mood = mood
        both(f"{mood}: touch", "PATCH", path("v1", "a"), {"metadata": {"labels": {"mood": mood}}}, MERGE)
        both(f"{mood}: get", "GET", path("v2", "a"))
    story.hook.mood = "good"


def own_address():
    """An address of this host that a slice may have: not on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        # Sends nothing: the kernel says from where it would.
        asking.connect(("192.0.2.2", 9))
        return asking.getsockname()[0]


def service(story):
    """A webhook that is named by its Service, of watchcache alone: a kube-apiserver asks its cluster IP, which nobody answers here."""
    folder, name = story.hook.folder, "hook.default.svc"
    with tempfile.TemporaryDirectory() as made:
        own = os.path.join(made, "srv")
        extensions = os.path.join(made, "extensions")
        with open(extensions, "w") as file:
            file.write(f"subjectAltName=DNS:{name}")
        openssl = lambda *words: subprocess.run(["openssl", *words], check=True, capture_output=True)
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{own}.key", "-subj", "/CN=hook", "-out", f"{own}.csr")
        openssl("x509", "-req", "-in", f"{own}.csr", "-CA", f"{folder}/ca.crt", "-CAkey", f"{folder}/ca.key", "-CAcreateserial", "-days", "2",
                "-out", f"{own}.crt", "-extfile", extensions)
        hook = Webhook(made, 0, own_address())
    story.servers = story.servers[:1]
    server, path = story.servers[0], story.path
    story.define()
    port = hook.listener.server_address[1]
    about = {"name": "hook", "namespace": "default"}
    server.ask("POST", "/api/v1/namespaces/default/services", {
        "apiVersion": "v1", "kind": "Service", "metadata": about, "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]}})
    client = {"service": about | {"path": "/convert"}, "caBundle": story.bundle}
    story.redefine(lambda spec: spec["conversion"]["webhook"].update(clientConfig=client))
    server.ask("POST", path("v1"), story.object("v1", "a", {"address": "h:1"}))
    # Nobody answers at the cluster IP, and then there is a slice.
    server.ask("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "hook-1", "namespace": "default", "labels": {
            "kubernetes.io/service-name": "hook"}}, "addressType": "IPv4", "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [own_address()], "conditions": {"ready": True}}]})
    code, told, _ = server.settled("GET", path("v2", "a"))
    story.compared += 1
    if (code, told.get("spec", {}).get("host")) != (200, "h"):
        story.differences.append(("get", "GET", path("v2", "a"), None, [(code, told, []), (200, {"host": "h"}, [])]))
    for kind in ("/api/v1/namespaces/default/services/hook", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/hook-1"):
        server.ask("DELETE", kind)


def hanging(story):
    """A webhook that does not answer: both say so after half a minute; in watchcache 80 who ask hold up nobody else, and the next ones are told to come again."""
    story.define()
    both, path = story.both, story.path
    both("create", "POST", path("v1"), story.object("v1", "a", {"address": "h:1"}))
    both("list", "GET", path("v2"), settle=True)
    story.hook.mood = "hang"
    both("touch", "PATCH", path("v1", "a"), {"metadata": {"labels": {"l": "1"}}}, MERGE)
    ours, codes, times = story.servers[0], [], []
    fresh = lambda: Server(ours.name, ours.at.geturl(), None, ours.token)

    def ask():
        own = fresh()
        own.trust = ours.trust
        codes.append(own.ask("GET", path("v2", "a"))[0])

    threads = [threading.Thread(target=ask) for _ in range(80)]
    [thread.start() for thread in threads]
    while any(thread.is_alive() for thread in threads):
        for other in (path("v1"), path("v1", "a"), "/api/v1/namespaces/default/configmaps"):
            began = time.time()
            code = ours.ask("GET", other)[0]
            times.append(time.time() - began)
            if code != 200:
                story.differences.append(("another resource", "GET", other, None, [(code, "", []), (200, "", [])]))
        time.sleep(0.2)
    told = {code: codes.count(code) for code in set(codes)}
    if set(told) != {429, 500} or max(times) > 5:
        story.differences.append(("80 who ask", "GET", path("v2", "a"), None, [(0, told, []), (0, max(times), [])]))
    print(f"hanging: {told}; meanwhile {len(times)} other reads, the slowest {max(times) * 1000:.0f} ms", flush=True)
    # Go has two texts for it, by chance.
    both("get", "GET", path("v2", "a"), only=lambda told: told["message"].split("timeout=30s")[0])
    story.hook.mood = "good"
    both("then", "GET", path("v2", "a"), settle=True)
    both("then", "GET", path("v2"), settle=True)


class Informer(threading.Thread):
    """Lists, watches from there, and lists again when it must, as client-go does; keeps what it believes and what it was told."""

    def __init__(self, story, server, version, page):
        super().__init__(daemon=True)
        self.story, self.version, self.page = story, version, page
        self.server = Server(server.name, server.at.geturl(), None, server.token)
        self.server.trust = server.trust
        # Each session: the revision of its list, what it listed, its events, the last revision that it is known to be at.
        self.sessions, self.state, self.stopped = [], {}, False

    def run(self):
        while not self.stopped:
            listed = self.list()
            if listed is None:
                time.sleep(0.2)
                continue
            at, items = listed
            session = {"from": at, "items": items, "events": [], "at": at}
            self.sessions.append(session)
            self.state = dict(items)
            while not self.stopped and self.watch(session):
                pass

    def list(self):
        items, token, at = {}, "", 0
        while True:
            query = f"?limit={self.page}" + (f"&continue={token}" if token else "") if self.page else "?resourceVersion=0"
            code, told, _ = self.server.ask("GET", self.story.path(self.version, "", query))
            if code != 200:
                return None
            items |= {item["metadata"]["name"]: shown(item) for item in told["items"]}
            at, token = int(told["metadata"]["resourceVersion"]), told["metadata"].get("continue", "")
            if not token:
                return at, items

    def watch(self, session):
        """Whether it may go on from where it is."""
        query = f"?watch=true&allowWatchBookmarks=true&timeoutSeconds=2&resourceVersion={session['at']}"
        code, events, _ = self.server.ask("GET", self.story.path(self.version, "", query))
        if code != 200:
            time.sleep(0.1)
            return code == 429
        for event in events:
            if event["type"] == "ERROR":
                return False
            revision = int(event["object"]["metadata"]["resourceVersion"])
            if event["type"] != "BOOKMARK":
                name = event["object"]["metadata"]["name"]
                session["events"].append((revision, event["type"], name, shown(event["object"])))
                if event["type"] == "DELETED":
                    self.state.pop(name, None)
                else:
                    self.state[name] = shown(event["object"])
            session["at"] = revision
        return True


def shown(item):
    """What an object counts, whatever its version; it must be of that version."""
    spec, version = item["spec"], item["apiVersion"].split("/")[1]
    host = {"v1": lambda: spec["address"].partition(":")[0], "v2": lambda: spec["host"], "v3": lambda: spec["server"]["host"]}[version]()
    return version, host


def informers(story, seconds=10, watchers=20):
    """Informers in two versions, of watchcache alone, while the storage version moves: each sees every change once, in order, in its version."""
    story.define()
    server, truth, stopped = story.servers[0], [], []
    followers = [Informer(story, server, "v1" if nth % 2 else "v2", (0, 3)[nth // 2 % 2]) for nth in range(watchers)]
    [follower.start() for follower in followers]

    def write():
        own, count, there = Server(server.name, server.at.geturl(), None, server.token), 0, set()
        own.trust = server.trust
        while not stopped:
            count += 1
            version, name = ("v1", "v2", "v3")[count % 3], f"o{count * 7 % 10}"
            spec = {"v1": {"address": f"h{count}:1"}, "v2": {"host": f"h{count}"}, "v3": {"server": {"host": f"h{count}"}}}[version]
            if name in there and count % 11 == 0:
                kind, (code, told, _) = "DELETED", own.ask("DELETE", story.path(version, name))
            elif name in there:
                kind, (code, told, _) = "MODIFIED", own.ask("PATCH", story.path(version, name), {"spec": spec}, MERGE)
            else:
                kind, (code, told, _) = "ADDED", own.ask("POST", story.path(version), story.object(version, name, spec))
            if code in (200, 201):
                there = there - {name} if kind == "DELETED" else there | {name}
                truth.append((kind, name, f"h{count}", int(told["metadata"]["resourceVersion"]) if kind != "DELETED" else None))
            time.sleep(0.01)

    writer = threading.Thread(target=write)
    writer.start()
    began, nth = time.time(), 0
    while time.time() - began < seconds:
        time.sleep(seconds / 6)
        nth += 1

        def store(spec):
            for one in spec["versions"]:
                one["storage"] = one["name"] == ("v2", "v3", "v1")[nth % 3]
        found = server.ask("GET", f"{CRDS}/{story.plural}.{GROUP}")[1]
        store(found["spec"])
        server.ask("PUT", f"{CRDS}/{story.plural}.{GROUP}", found)
    stopped.append(True)
    writer.join()
    time.sleep(5)
    for follower in followers:
        follower.stopped = True
    [follower.join(20) for follower in followers]
    newest = {item["metadata"]["name"]: shown(item) for item in server.settled("GET", story.path("v1"))[1]["items"]}
    written = {(name, revision): host for _, name, host, revision in truth if revision}
    for nth, follower in enumerate(followers):
        wrong = []
        if {name: host for name, (_, host) in follower.state.items()} != {name: host for name, (_, host) in newest.items()}:
            wrong.append(("Complete", follower.state, newest))
        for session in follower.sessions:
            events, last = session["events"], session["from"]
            for revision, kind, name, (version, host) in events:
                if version != follower.version:
                    wrong.append(("another version", revision, name))
                if revision <= last:
                    wrong.append(("Ordered, Unique", revision, last))
                if kind != "DELETED" and written.get((name, revision)) not in (host, None):
                    wrong.append(("another state", revision, name, host))
                last = revision
            told = {(name, revision) for revision, kind, name, _ in events if kind != "DELETED"}
            due = {key for key in written if session["from"] < key[1] <= session["at"]}
            if due - told:
                wrong.append(("Reliable", sorted(due - told)[:3]))
            if told - set(written):
                wrong.append(("nobody wrote it", sorted(told - set(written))[:3]))
        story.compared += sum(len(session["events"]) for session in follower.sessions)
        for one in wrong[:3]:
            story.differences.append((f"informer {nth} in {follower.version}", "", "", None, [(0, one, []), (0, None, [])]))
    print(f"informers: {len(truth)} writes, {sum(len(follower.sessions) for follower in followers)} lists", flush=True)


STORIES = {"ordinary": ordinary, "follow": follow, "moved": moved, "unasked": unasked, "wrong": wrong, "unreachable": unreachable, "old-reviews": old_reviews,
           "informers": informers, "service": service, "hanging": hanging}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("--ours", "--theirs", "--ca", "--token"):
        parser.add_argument(name, required=True)
    parser.add_argument("--known")
    parser.add_argument("--stories", default=",".join(STORIES))
    parser.add_argument("--moods", default=",".join(MOODS))
    parser.add_argument("--show", type=int, default=10)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    folder = os.path.dirname(os.path.abspath(options.ca))
    hook = Webhook(folder, options.port)
    with open(options.ca, "rb") as file:
        bundle = base64.b64encode(file.read()).decode()
    servers = [Server("ours", options.ours, options.ca, options.token), Server("theirs", options.theirs, options.ca, options.token)]
    count, compared, shown = 0, 0, 0
    for name in options.stories.split(","):
        began, story = time.time(), Story(name, servers, hook, bundle)
        story.moods = options.moods.split(",")
        STORIES[name](story)
        count, compared = count + len(story.differences), compared + story.compared
        print(f"{name}: {story.compared} answers compared in {time.time() - began:.0f} s, {len(story.differences)} differ", flush=True)
        for what, method, path, body, answers in story.differences:
            if shown < options.show:
                shown += 1
                print(f"  {what}: {method} {path} {json.dumps(body) if body is not None else ''}")
                for server, (code, told, warnings) in zip(servers, answers):
                    print(f"    {server.name:6}: {code} {json.dumps(told)} {warnings or ''}")
    print(f"{compared} answers compared, {count} differ")
    for name, (calls, objects) in hook.calls.items():
        print(f"{name}: the webhook was called {calls} times, with {objects} objects")
    raise SystemExit(1 if count else 0)


if __name__ == "__main__":
    main()
