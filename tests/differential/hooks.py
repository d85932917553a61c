#!/usr/bin/env python3
"""Random admission webhooks, and random writes, told to watchcache and to a kube-apiserver: what both answer, what they ask the webhooks, and what they store must be the same.

    OFF=ServiceAccount tests/differential/run.sh PEERS watchcache tests/differential/hooks.py [--rounds N] [--seed S] [--only ROUND] [--show N]

OFF has to leave MutatingAdmissionWebhook and ValidatingAdmissionWebhook on. A round has one to four configurations with up to three webhooks each, then six to twelve requests, each to
both servers. The webhooks are a thread of this program, with the certificate srv.crt and srv.key of the folder of the authority: each changes, allows, refuses or misbehaves, always in
the same way. Questions of mutating webhooks are compared in order, those of validating ones as a set. A configuration counts a moment after it was written: probes in a namespace
that no other webhook looks at tell when. Of several refusals of validating webhooks kube-apiserver tells the one that comes first: then all but one are held up and it is asked again.
Left out are uids, revisions, times, generated names, tokens, and ports of clients."""

import argparse
import base64
import collections
import copy
import http.server
import json
import os
import random
import re
import ssl
import sys
import threading
import time
from urllib.parse import urlsplit

from apply import APPLY, JSON, JSON_PATCH, MERGE, STRATEGIC, Server, keyed, text

GROUP = "ex.io"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
KIND_OF = {MUTATING: "MutatingWebhookConfiguration", VALIDATING: "ValidatingWebhookConfiguration"}
NAMESPACES = {"alpha": {"team": "a", "env": "prod"}, "beta": {"team": "b"}, "gamma": {}}
# The label of the namespace of the probes, and of the probes.
MARKER = "marker"
# Seconds that a webhook may take which is expected to answer: the machine may be busy.
TIMEOUTS = [3, 4, 5, 10, None]
HANG_SECONDS = 2.5
# Differences that are no fault: a pattern of "request path-in-the-answer ours kube", and why.
EXPLAINED = []


def definition():
    spec = {"type": "object", "properties": {
        "size": {"type": "integer"}, "replicas": {"type": "integer"}, "note": text(), "items": keyed(["k"], k=text(), v=text()), "mode": text() | {"default": "fast"}}}
    status = {"type": "object", "properties": {"phase": text(), "replicas": {"type": "integer"}}}
    versions = [{
        "name": name, "served": True, "storage": name == "v1",
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}} for name in ("v1", "v2")]
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"things.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}, "versions": versions}}


# --- the webhooks

def pointed(target, name, value):
    """Operations that put a member into an object of the metadata which may not be there."""
    def operations(item):
        if (item.get("metadata") or {}).get(target) is None:
            return [{"op": "add", "path": f"/metadata/{target}", "value": {name: value(item) if callable(value) else value}}]
        return [{"op": "add", "path": f"/metadata/{target}/{name}", "value": value(item) if callable(value) else value}]
    return operations


def counted(item):
    return str(int(((item.get("metadata") or {}).get("annotations") or {}).get("count", "0")) + 1)


def of_kind(item):
    """A member that fits the kind."""
    kind = item.get("kind")
    return {
        "ConfigMap": [{"op": "add", "path": "/data", "value": {"k": "hooked"}}], "Secret": [{"op": "add", "path": "/data", "value": {"k": "aG9va2Vk"}}],
        "Pod": [{"op": "add", "path": "/spec/containers/0/image", "value": "hooked:1"}], "Deployment": [{"op": "add", "path": "/spec/replicas", "value": 7}],
        "Scale": [{"op": "add", "path": "/spec/replicas", "value": 7}], "HorizontalPodAutoscaler": [{"op": "add", "path": "/spec/maxReplicas", "value": 77}],
        "Thing": [{"op": "add", "path": "/spec", "value": {"size": 7, "items": [{"k": "hooked"}]}}], "Lease": [{"op": "add", "path": "/spec/holderIdentity", "value": "hooked"}],
        "Binding": [{"op": "add", "path": "/target/name", "value": "hooked"}],
        "Eviction": [{"op": "add", "path": "/deleteOptions", "value": {"gracePeriodSeconds": 7}}], "PriorityClass": [{"op": "add", "path": "/description", "value": "hooked"}],
    }.get(kind, [{"op": "add", "path": "/metadata/annotations", "value": {"hooked": "1"}}])


def invalid_of_kind(item):
    kind = item.get("kind")
    return {
        "ConfigMap": [{"op": "add", "path": "/data", "value": {"a b": "x"}}], "Secret": [{"op": "add", "path": "/data", "value": {"k": "no base64"}}],
        "Pod": [{"op": "add", "path": "/spec/restartPolicy", "value": "Sometimes"}], "Deployment": [{"op": "add", "path": "/spec/replicas", "value": -1}],
        "Scale": [{"op": "add", "path": "/spec/replicas", "value": -1}], "HorizontalPodAutoscaler": [{"op": "add", "path": "/spec/maxReplicas", "value": 0}],
        "Thing": [{"op": "add", "path": "/spec", "value": {"size": "x", "items": [{"k": "a"}, {"k": "a"}]}}], "Lease": [{"op": "add", "path": "/spec/leaseDurationSeconds", "value": -1}],
    }.get(kind, [{"op": "add", "path": "/metadata/labels", "value": {"a b": "c d"}}])


def always(*operations):
    return lambda _: list(operations)


def operation(op, path, **more):
    return {"op": op, "path": path} | more


# What changes an object: operations by the object, or the text of a patch.
PATCHES = {
    "label": pointed("labels", "hooked", "yes"), "label-l": pointed("labels", "l", "b"), "annotation": pointed("annotations", "hooked", "yes"), "count": pointed("annotations", "count", counted),
    "labels-none": always(operation("remove", "/metadata/labels")), "member": of_kind, "invalid-member": invalid_of_kind,
    "unknown-field": always(operation("add", "/unknownField", value={"a": 1})), "unknown-in-spec": always(operation("add", "/spec/unknownField", value=1)),
    "finalizer": always(operation("add", "/metadata/finalizers", value=["ex.io/f"])), "owner": always(operation("add", "/metadata/ownerReferences", value=[
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "00000000-0000-0000-0000-000000000001"}])),
    "test-then-label": lambda item: [operation("test", "/metadata/name", value=(item.get("metadata") or {}).get("name"))] + pointed("labels", "tested", "yes")(item),
    "test-fails": always(operation("test", "/metadata/name", value="another")), "test-alone": lambda item: [operation("test", "/kind", value=item.get("kind"))],
    "empty-list": always(), "null": lambda _: "null", "object": lambda _: '{"op": "add"}', "no-json": lambda _: "no JSON", "half": lambda _: '[{"op": "add", "path": "/a', "number": lambda _: "[1]",
    "no-op": always({"path": "/metadata/labels"}), "bad-op": always(operation("jump", "/metadata/labels", value=1)), "no-value": always(operation("add", "/metadata/labels")),
    "no-path": always({"op": "add", "value": 1}), "missing-parent": always(operation("add", "/a/b/c", value=1)), "remove-missing": always(operation("remove", "/metadata/nothing")),
    "move": always(operation("move", "/metadata/annotations", **{"from": "/metadata/labels"})), "copy": always(operation("copy", "/metadata/annotations", **{"from": "/metadata/labels"})),
    "same": lambda item: [operation("add", "/kind", value=item.get("kind"))], "labels-wrong": always(operation("add", "/metadata/labels", value={"a b": "c d"})),
    "labels-number": always(operation("add", "/metadata/labels", value={"a": 1})), "labels-text": always(operation("add", "/metadata/labels", value="text")),
    "labels-null": always(operation("add", "/metadata/labels", value=None)), "no-metadata": always(operation("remove", "/metadata")), "no-spec": always(operation("remove", "/spec")),
    "name": always(operation("add", "/metadata/name", value="another")), "uid": always(operation("add", "/metadata/uid", value="another")),
    "namespace": always(operation("add", "/metadata/namespace", value="another")), "generate-name": always(operation("add", "/metadata/generateName", value="another-")),
    "revision": always(operation("add", "/metadata/resourceVersion", value="1")), "generation": always(operation("add", "/metadata/generation", value=77)),
    "created": always(operation("add", "/metadata/creationTimestamp", value="2020-01-01T00:00:00Z")), "managed-none": always(operation("add", "/metadata/managedFields", value=[])),
    "managed-wrong": always(operation("add", "/metadata/managedFields", value=[{"manager": "x", "operation": "Jump"}])), "deletion": always(operation("add", "/metadata/deletionTimestamp", value="2020-01-01T00:00:00Z")),
    "kind": always(operation("add", "/kind", value="Other")), "api-version": always(operation("add", "/apiVersion", value="other/v1")), "no-kind": always(operation("remove", "/kind")),
    "status": always(operation("add", "/status", value={"phase": "Hooked", "replicas": 5})), "whole": always(operation("replace", "", value={"a": 1})), "scalar": always(operation("replace", "", value=1)),
}
GOOD_PATCHES = ["label", "label", "label-l", "annotation", "count", "count", "member", "member", "member", "test-then-label", "unknown-field", "finalizer", "status"]


def on_response(**changes):
    def mode(_, response, answer):
        response.update(copy.deepcopy(changes))
    return mode


def on_answer(**changes):
    def mode(_, response, answer):
        for name, value in changes.items():
            answer.pop(name) if value is None else answer.update({name: value})
    return mode


def as_text(code, body, **headers):
    return lambda *_: (code, {name.replace("_", "-"): value for name, value in headers.items()}, body)


def encoded(operations):
    return base64.b64encode((operations if isinstance(operations, str) else json.dumps(operations)).encode()).decode()


def denied(**result):
    return on_response(allowed=False, status=result) if result else on_response(allowed=False)


CAUSES = {"name": "n", "group": "g", "kind": "k", "uid": "u", "causes": [{"reason": "FieldValueInvalid", "message": "m", "field": "spec.f"}], "retryAfterSeconds": 3}
# How a webhook answers beside changing things: what it does to its response, or a code, headers and a text.
ALLOWS = {
    "allow": on_response(), "warns": on_response(warnings=["first", "second \"quoted\" é", "first"]), "warns-oddly": on_response(warnings=["", "two\nlines", "tab\tand \\"]),
    "annotates": on_response(auditAnnotations={"k": "v", "a b": "c"}), "allow-with-status": on_response(status={"code": 422, "message": "but", "status": "Failure"}),
}
DENIES = {
    "deny": denied(), "deny-empty": on_response(allowed=False, status={}), "deny-message": denied(message="told so"), "deny-reason": denied(reason="Conflict"), "deny-both": denied(message="told so", reason="NotFound", code=404),
    "deny-200": denied(message="told so", code=200), "deny-99": denied(code=99), "deny-code": denied(code=418, message="a teapot"), "deny-details": denied(code=422, reason="Invalid", message="told so", details=CAUSES),
    "deny-success": denied(status="Success", message="told so", code=403), "deny-warns": lambda q, r, a: r.update(allowed=False, warnings=["refused"], status={"message": "two\nlines"}),
    "deny-metadata": denied(metadata={"resourceVersion": "7", "continue": "c"}, message="told so", code=500), "deny-429": denied(code=429, reason="TooManyRequests", message="later", details={"retryAfterSeconds": 2}),
}
WRONG = {
    "other-uid": on_response(uid="another"), "no-uid": lambda q, r, a: r.pop("uid") and None, "no-allowed": lambda q, r, a: r.pop("allowed") and None, "text-allowed": on_response(allowed="yes"),
    "other-kind": on_answer(kind="AdmissionRevue"), "no-kind": on_answer(kind=None), "no-version": on_answer(apiVersion=None), "other-version": on_answer(apiVersion="admission.k8s.io/v7"),
    "other-known-version": lambda q, r, a: a.update(apiVersion={"admission.k8s.io/v1": "admission.k8s.io/v1beta1"}.get(a["apiVersion"], "admission.k8s.io/v1")),
    "no-response": on_answer(response=None), "null-response": lambda q, r, a: a.update(response=None), "empty-response": lambda q, r, a: a.update(response={}), "unknown-member": on_response(other=1),
    "patch-without-type": on_response(patch=encoded([])), "type-without-patch": on_response(patchType="JSONPatch"), "other-type": on_response(patch=encoded([]), patchType="MergePatch"), "patch-no-base64": on_response(
        patch="no base64", patchType="JSONPatch"), "empty-patch": on_response(patch="", patchType="JSONPatch"), "denied-with-patch": on_response(allowed=False, patch=encoded([]), patchType="JSONPatch"),
    "500": as_text(500, "it is broken"), "500-empty": as_text(500, ""), "404": as_text(404, "not here"), "403-json": as_text(403, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "told so", "reason": "Forbidden", "code": 403})),
    "201": lambda q, r, a: (201, {}, json.dumps(a)), "204": as_text(204, ""), "302": as_text(302, "", Location="https://127.0.0.1:1/elsewhere"), "307": as_text(307, "", Location="https://127.0.0.1:1/elsewhere"),
    "status-200": as_text(200, json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "told so", "code": 422})), "html": lambda q, r, a: (200, {"Content-Type": "text/html"}, json.dumps(a)),
    "garbage": as_text(200, "<html>"), "empty": as_text(200, ""), "array": as_text(200, "[]"), "half": as_text(200, '{"kind": "AdmissionReview", "response": {'), "break": None,
}
MODES = ALLOWS | DENIES | WRONG


class Webhooks:
    """Answers questions as `behaviours` says, and remembers those about users of this program."""

    def __init__(self, folder, users):
        self.users, self.behaviours, self.asked, self.held_up, self.lock = users, {}, [], None, threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                outer.answer(self, json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))

            def log_message(self, *_):
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 100

            def handle_error(self, *_):
                pass

        self.listener = Listener(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(folder, "srv.crt"), os.path.join(folder, "srv.key"))
        self.listener.socket = context.wrap_socket(self.listener.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.listener.server_address[1]}"
        threading.Thread(target=self.listener.serve_forever, daemon=True).start()

    def answer(self, handler, review):
        at, request = urlsplit(handler.path), review["request"]
        _, who, configuration, hook = at.path.split("/")
        mode, patch = self.behaviours.get((configuration, hook), ("allow", None))
        if request["userInfo"]["username"] not in self.users:
            # The servers write things themselves.
            mode, patch = "allow", None
        else:
            with self.lock:
                self.asked.append((who, configuration, hook, {"query": at.query, "media": handler.headers.get("Content-Type"), "accept": handler.headers.get("Accept")} | review))
        answer = {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": {"uid": request["uid"], "allowed": True}}
        response, told = answer["response"], None
        if patch is not None:
            response |= {"patch": encoded(PATCHES[patch](request.get("object") or {})), "patchType": "JSONPatch"}
        if self.held_up and self.held_up != hook:
            time.sleep(0.4)
        if mode == "hang":
            time.sleep(HANG_SECONDS)
        if mode in ("hang", "break"):
            handler.close_connection = True
            return
        told = MODES[mode](request, response, answer)
        code, headers, body = told or (200, {}, json.dumps(answer))
        handler.send_response(code)
        for name, value in ({"Content-Type": JSON} | ({} if code == 204 else {"Content-Length": str(len(body.encode()))}) | headers).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body.encode())

    def take(self):
        with self.lock:
            asked, self.asked = self.asked, []
        return asked


# --- what is random

# Rules of each topic, and of all: groups, versions, resources.
RULES = {
    "configmaps": [("", "v1", "configmaps")], "secrets": [("", "v1", "secrets")],
    "pods": [("", "v1", "pods"), ("", "v1", "pods/*"), ("", "v1", "pods/status"), ("", "v1", "pods/binding"), ("", "v1", "pods/eviction"), ("", "v1", "bindings"), ("", "v1", "pods pods/status")],
    "deployments": [("apps", "v1", "deployments"), ("apps", "*", "deployments/scale"), ("*", "*", "*/scale"), ("apps extensions", "v1beta1", "deployments"), ("apps", "v1", "deployments/status")],
    "namespaces": [("", "v1", "namespaces"), ("", "v1", "namespaces/*"), ("", "v1", "namespaces/finalize")],
    "horizontalpodautoscalers": [("autoscaling", "v1", "horizontalpodautoscalers"), ("autoscaling", "v2", "horizontalpodautoscalers"), ("autoscaling", "v1 v2", "horizontalpodautoscalers"),
                                 ("autoscaling", "v2", "*/status"), ("autoscaling", "v2beta2", "horizontalpodautoscalers")],
    "things": [(GROUP, "v1", "things"), (GROUP, "v2", "things"), (GROUP, "v1", "things/scale"), (GROUP, "v2", "things/status"), (GROUP, "v2", "things/*"), (GROUP, "*", "things things/*"), (GROUP, "v3 v2", "things")],
    "leases": [("coordination.k8s.io", "v1", "leases"), ("coordination.k8s.io", "v1beta1", "leases")], "others": [("*", "*", "*")],
}
RULES_OF_ALL = [("*", "*", "*"), ("*", "*", "*/*"), ("*", "*", "*/status"), ("", "*", "*"), ("*", "v1", "*"), ("*", "v2", "*/*"), ("apps autoscaling", "*", "*")]
OPERATIONS = [*[["*"]] * 8, ["CREATE", "UPDATE"], ["CREATE", "UPDATE"], ["CREATE"], ["UPDATE"], ["DELETE"], ["UPDATE", "DELETE"], ["CONNECT"], ["CREATE", "DELETE"]]
CONDITIONS = [
    "request.operation != 'DELETE'", "request.resource.resource != 'pods'", "has(object.metadata.labels) && 'round' in object.metadata.labels", "object.metadata.name.startsWith('o')",
    "oldObject == null || oldObject.metadata.?labels.?round.hasValue()", "request.userInfo.username == 'admin'", "'system:masters' in request.userInfo.groups", "object.spec.replicas > 1",
    "authorizer.group('').resource('configmaps').namespace(request.namespace).check('create').allowed()", "authorizer.serviceAccount('alpha', 'default').group('apps').resource('deployments').check('get').allowed()",
    "authorizer.requestResource.check('delete').allowed()", "authorizer.path('/metrics').check('get').allowed()", "request.dryRun", "!request.dryRun", "has(request.dryRun) && request.dryRun", "request.options.fieldManager == 'm1'",
    "request.options.kind != 'CreateOptions'", "request.subResource == ''", "request.requestSubResource == 'status'", "request.requestKind.version == 'v1'", "request.name.size() > 2", "object.data.k == 'v'", "[1, 2, 3].all(x, x > 0)",
    "size(object.metadata.managedFields) >= 0", "timestamp(object.metadata.creationTimestamp) < timestamp('2100-01-01T00:00:00Z')", "oldObject.metadata.labels == object.metadata.labels", "namespaceObject == null", "has(request.userInfo.extra)",
    "request.userInfo.extra.size() > 0", "object.metadata.resourceVersion != ''", "object.kind == 'Pod' || object.apiVersion == 'v1'", "request.namespace == 'alpha'", "dyn(object).spec.x == 1", "object.metadata.generateName.endsWith('-')",
    "authorizer.group('apps').resource('deployments').subresource('scale').namespace('beta').name('x').check('update').reason() == ''", "request.uid != ''", "request.requestResource == request.resource", "has(request.object)", "1 / object.spec.replicas == 1",
]
# What no configuration may have.
WRONG_CONDITIONS = ["object.", "1", "params.x == 1", "variables.x == 1", "object.metadata.name", "foo(object)", "request.zz == 1", "authorizer.foo()"]
WRONG_CONFIGURATIONS = [
    {"sideEffects": "Some"}, {"sideEffects": None}, {"timeoutSeconds": 31}, {"timeoutSeconds": 0}, {"admissionReviewVersions": ["v2"]}, {"admissionReviewVersions": []}, {"failurePolicy": "Maybe"}, {"matchPolicy": "Like"}, {"name": "short"},
    {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, {"objectSelector": {"matchLabels": {"a b": "c"}}}, {"reinvocationPolicy": "Always"}, {"clientConfig": {"url": "http://127.0.0.1/x"}}, {"clientConfig": {}},
    {"rules": [{"operations": ["*", "CREATE"], "apiGroups": ["*", "a"], "apiVersions": ["v1"], "resources": ["*", "pods"]}]}, {"rules": [{"operations": ["JUMP"], "apiGroups": [], "apiVersions": [""], "resources": ["a/b/c"], "scope": "Some"}]},
]


class Cases:
    """What a round has; it depends on the seed and the number of the round alone."""

    def __init__(self, seed, nth):
        self.random, self.nth, self.label = random.Random(seed * 1_000_003 + nth), nth, f"r{nth}"
        self.topics = self.random.sample([topic for topic in RULES if topic != "others"], self.one(1, 2)) + (["others"] if self.maybe(0.3) else [])
        self.namespace = self.one("alpha", "alpha", "beta", "gamma")

    def maybe(self, share):
        return self.random.random() < share

    def one(self, *of):
        return self.random.choice(of)

    # Configurations.

    def rule(self):
        groups, versions, resources = self.one(*RULES_OF_ALL) if self.maybe(0.45) else self.one(*RULES[self.one(*self.topics)])
        rule = {"operations": self.one(*OPERATIONS), "apiGroups": groups.split(" "), "apiVersions": versions.split(" "), "resources": resources.split(" ")}
        if self.maybe(0.3):
            rule["scope"] = self.one("*", "Namespaced", "Namespaced", "Cluster")
        return rule

    def namespace_selector(self):
        return self.one({"matchLabels": {"team": "a"}}, {"matchExpressions": [{"key": "team", "operator": "Exists"}]}, {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}, {},
                        {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["beta"]}]}, {"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "env", "operator": "Exists"}]}, {}, {})

    def object_selector(self):
        return self.one({"matchLabels": {"l": "a"}}, {"matchExpressions": [{"key": "l", "operator": "NotIn", "values": ["b"]}]}, {"matchExpressions": [{"key": "l", "operator": "DoesNotExist"}]}, {"matchLabels": {"hooked": "yes"}}, {"matchLabels": {"round": self.label}})

    def hook(self, kind, configuration, name):
        hook = {
            "name": name, "rules": [self.rule() for _ in range(self.one(1, 1, 2, 3))], "sideEffects": self.one("None", "NoneOnDryRun"),
            "admissionReviewVersions": self.one(["v1"], ["v1"], ["v1beta1"], ["v1beta1", "v1"], ["v2", "v1"], ["v2", "v1beta1"])}
        for member, share, of in (("matchPolicy", 0.6, ["Exact", "Equivalent"]), ("failurePolicy", 0.8, ["Ignore", "Ignore", "Fail"]), ("reinvocationPolicy", 0.6, ["IfNeeded", "IfNeeded", "Never"])):
            if self.maybe(share) and (member != "reinvocationPolicy" or kind == MUTATING):
                hook[member] = self.one(*of)
        if (seconds := self.one(*TIMEOUTS)) is not None:
            hook["timeoutSeconds"] = seconds
        if self.maybe(0.2):
            hook["objectSelector"] = self.object_selector()
        if self.maybe(0.2):
            hook["namespaceSelector"] = self.namespace_selector()
        if self.maybe(0.25):
            hook["matchConditions"] = [{"name": f"c{nth}", "expression": self.one(*CONDITIONS)} for nth in range(self.one(1, 1, 2, 3))]
        self.spare_the_probes(hook)
        place = self.one(*["good"] * 40, "unreachable", "service", "no-bundle")
        hook["clientConfig"] = {"place": place, "path": f"{configuration}/{name}"}
        return hook

    def spare_the_probes(self, hook):
        """A webhook that may be asked about the creation of ConfigMaps looks away from the probes."""
        def may_match(rule):
            return ({"*", "CREATE"} & set(rule["operations"]) and {"*", ""} & set(rule["apiGroups"]) and {"*", "v1"} & set(rule["apiVersions"]) and {"*", "*/*", "configmaps"} & set(rule["resources"])
                    and rule.get("scope") != "Cluster")
        if any(map(may_match, hook["rules"])):
            selector = hook.setdefault(self.one("namespaceSelector", "objectSelector"), {})
            selector["matchExpressions"] = selector.get("matchExpressions", []) + [{"key": MARKER, "operator": "DoesNotExist"}]

    def behaviour(self, kind, hook):
        """A mode and a patch."""
        share = self.random.random()
        if kind == MUTATING and share < 0.45:
            return self.one(*["allow"] * 5, "warns", "deny-message"), self.one(*GOOD_PATCHES) if self.maybe(0.6) else self.one(*PATCHES)
        if share < 0.5:
            return "allow", self.one("label", "empty-list", "no-json")
        if share < 0.8:
            return self.one("allow", *ALLOWS), None
        if share < 0.88:
            return self.one(*DENIES), None
        if share < 0.89:
            hook["timeoutSeconds"] = 1
            return "hang", None
        return self.one(*WRONG), None

    def configurations(self):
        """Kind, configuration, and whether it is right; and the behaviours of its webhooks."""
        made, behaviours = [], {}
        for nth in range(self.one(1, 2, 3, 4)):
            kind = self.one(MUTATING, MUTATING, VALIDATING)
            name = f"{self.one('a', 'b', 'c')}{nth}-{self.label}"
            hooks = [self.hook(kind, name, f"h{nth}{at}.ex.io") for at in range(self.one(1, 2, 3))]
            for hook in hooks:
                behaviours[name, hook["name"]] = self.behaviour(kind, hook)
            right = True
            if self.maybe(0.06):
                right, wrong = False, copy.deepcopy(self.one(*WRONG_CONFIGURATIONS, {"matchConditions": [{"name": "c", "expression": self.one(*WRONG_CONDITIONS)}]}))
                hooks[0].update(wrong)
            made.append((kind, {"apiVersion": "admissionregistration.k8s.io/v1", "kind": KIND_OF[kind], "metadata": {"name": name}, "webhooks": hooks}, right))
        return made, behaviours

    # Objects.

    def collection(self, topic, version=None):
        prefix = {"deployments": "/apis/apps/v1", "horizontalpodautoscalers": f"/apis/autoscaling/{version or 'v2'}", "things": f"/apis/{GROUP}/{version or 'v1'}", "leases": "/apis/coordination.k8s.io/v1"}.get(topic, "/api/v1")
        return f"{prefix}/namespaces" if topic == "namespaces" else f"{prefix}/namespaces/{self.namespace}/{topic}"

    def metadata(self, name):
        labels = {"round": self.label} | ({"l": self.one("a", "b")} if self.maybe(0.5) else {})
        return {"name": name, "labels": labels} | ({"annotations": {"a": self.one("1", "2")}} if self.maybe(0.3) else {})

    def object(self, topic, name, version=None):
        """An object that is right; its immutable parts are always the same."""
        of = {
            "configmaps": ("v1", "ConfigMap"), "secrets": ("v1", "Secret"), "pods": ("v1", "Pod"), "deployments": ("apps/v1", "Deployment"), "namespaces": ("v1", "Namespace"),
            "horizontalpodautoscalers": (f"autoscaling/{version or 'v2'}", "HorizontalPodAutoscaler"), "things": (f"{GROUP}/{version or 'v1'}", "Thing"), "leases": ("coordination.k8s.io/v1", "Lease")}[topic]
        item = {"apiVersion": of[0], "kind": of[1], "metadata": self.metadata(name)}
        pod = {"containers": [{"name": "c", "image": "i:1"}]}
        metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]
        scaled = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "minReplicas": self.one(1, 2), "maxReplicas": self.one(5, 6)}
        return item | {
            "configmaps": {"data": {"k": self.one("v", "w")}}, "secrets": {"stringData": {"k": self.one("v", "w")}}, "pods": {"spec": pod}, "namespaces": {},
            "deployments": {"spec": {"replicas": self.one(1, 2, 3), "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod}}},
            "horizontalpodautoscalers": {"spec": scaled | ({"targetCPUUtilizationPercentage": 50} if version == "v1" else {"metrics": metrics})},
            "things": {"spec": {"size": self.one(1, 2), "replicas": self.one(1, 2), "items": [{"k": "a", "v": "b"}]}}, "leases": {"spec": {"holderIdentity": self.one("x", "y"), "leaseDurationSeconds": 5}},
        }[topic]

    def name(self, topic, letter=None):
        return f"o{self.label}-{letter or self.one('a', 'a', 'b')}" if topic != "namespaces" else f"o{self.label}-{letter or self.one('a', 'b')}-ns"

    def given(self):
        """What is there before the webhooks are: an object of each topic."""
        return [(self.collection(topic), self.object(topic, self.name(topic, letter))) for topic in self.topics if topic != "others" for letter in "ab"]

    def query(self, *more):
        parts = list(more) + (["dryRun=All"] if self.maybe(0.25) else [])
        if self.maybe(0.2) and not any(part.startswith("fieldManager") for part in parts):
            parts.append(f"fieldManager={self.one('m1', 'm2')}")
        if self.maybe(0.1):
            parts.append(f"fieldValidation={self.one('Strict', 'Warn', 'Ignore')}")
        return "?" + "&".join(parts) if parts else ""

    def change(self, topic):
        metadata = {"labels": {"l": self.one("a", "b", "c", None)}} | ({"annotations": {"a": self.one("1", "3")}} if self.maybe(0.4) else {})
        if self.maybe(0.06):
            metadata["labels"]["a b"] = "wrong"
        change = {"metadata": metadata}
        if self.maybe(0.6):
            change |= {
                "configmaps": {"data": {"k": self.one("v", "x", "y")}}, "secrets": {"stringData": {"k": self.one("v", "x")}}, "deployments": {"spec": {"replicas": self.one(0, 1, 4)}}, "things": {"spec": {"size": self.one(1, 2, 3, "x")}},
                "horizontalpodautoscalers": {"spec": {"maxReplicas": self.one(5, 8, 0)}}, "leases": {"spec": {"holderIdentity": self.one("x", "z")}}, "pods": {"spec": {"activeDeadlineSeconds": 1000}}}.get(topic, {})
        return change

    def delete_options(self):
        options = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if self.maybe(0.3):
            options["propagationPolicy"] = self.one("Foreground", "Background", "Orphan")
        if self.maybe(0.3):
            options["gracePeriodSeconds"] = self.one(0, 5)
        if self.maybe(0.1):
            options["preconditions"] = {"uid": "00000000-0000-0000-0000-000000000001"}
        return options if self.maybe(0.5) else None

    def request(self):
        """A request: method, path, body, media type; whether to put in the revision of what is there."""
        topic = self.one(*self.topics)
        if topic == "others":
            return self.other()
        version = {"horizontalpodautoscalers": self.one("v1", "v2"), "things": self.one("v1", "v2")}.get(topic)
        collection, name = self.collection(topic, version), self.name(topic)
        there, verb = f"{collection}/{name}", self.one(*["create"] * 5, *["update"] * 4, *["patch"] * 5, "apply", "apply", "apply-new", "delete", "delete", "delete", "collection", *["sub"] * 5)
        if verb == "sub" and (request := self.of_subresource(topic, collection, name, version)):
            return request
        if verb == "collection" and topic != "namespaces":
            query = [f"labelSelector=round%3D{self.label}"] + (["dryRun=All"] if self.maybe(0.6) else [])
            return "DELETE", f"{collection}?{'&'.join(query)}", self.delete_options(), JSON, False
        if verb == "delete":
            return "DELETE", there + self.query().replace("fieldManager", "x").replace("fieldValidation", "y"), self.delete_options(), JSON, False
        if verb in ("update", "sub", "collection"):
            return "PUT", there + self.query(), self.object(topic, name, version), JSON, self.maybe(0.5) or topic in ("things", "leases")
        if verb == "patch":
            media = self.one(MERGE, MERGE, JSON_PATCH, STRATEGIC)
            if media == JSON_PATCH:
                return "PATCH", there + self.query(), self.one([{"op": "add", "path": "/metadata/labels/l", "value": self.one("a", "b")}], [{"op": "test", "path": "/kind", "value": "x"}], []), media, False
            return "PATCH", there + self.query(), self.change(topic), media, False
        if verb in ("apply", "apply-new"):
            name = name if verb == "apply" else self.name(topic, self.one("d", "e"))
            item = self.object(topic, name, version)
            if self.maybe(0.1) and "spec" in item:
                item["spec"]["unknown"] = 1
            return "PATCH", f"{collection}/{name}" + self.query(f"fieldManager={self.one('m1', 'm2')}", *(["force=true"] if self.maybe(0.8) else [])), item, APPLY, False
        item = self.object(topic, self.name(topic, self.one("c", "d", "a", "f", "g", "h")), version)
        if self.maybe(0.25):
            item["metadata"]["generateName"] = f"{self.one('og', 'g')}{self.label}-"
            del item["metadata"]["name"]
        if self.maybe(0.06):
            item["metadata"]["labels"]["a b"] = "wrong"
        if self.maybe(0.06):
            item["unknown"] = {"a": 1}
        return "POST", collection + self.query(), item, JSON, False

    def of_subresource(self, topic, collection, name, version):
        at, query = f"{collection}/{name}", self.query()
        if topic == "pods":
            return self.one(
                ("PATCH", f"{at}/status{query}", {"metadata": {"labels": {"l": "s"}}, "status": {"phase": self.one("Running", "Failed"), "message": "m"}}, self.one(MERGE, STRATEGIC), False),
                ("POST", f"{at}/binding{query}", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name} | ({"labels": {"l": "a"}} if self.maybe(0.5) else {}), "target": {"kind": "Node", "name": "n1"}}, JSON, False),
                ("POST", f"{collection.removesuffix('pods')}bindings{query}", {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": "n1"}}, JSON, False),
                ("POST", f"{at}/eviction{query}", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}} | ({"deleteOptions": {"gracePeriodSeconds": 1}} if self.maybe(0.4) else {}), JSON, False),
                ("PATCH", f"{at}/ephemeralcontainers{query}", {"spec": {"ephemeralContainers": [{"name": "e", "image": "i:2"}]}}, self.one(MERGE, STRATEGIC), False))
        if topic in ("deployments", "things"):
            scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": self.namespace}, "spec": {"replicas": self.one(0, 2, 5)}}
            status = {"status": {"replicas": 2} if topic == "deployments" else {"phase": "p", "replicas": self.one(1, 2)}}
            return self.one(
                ("PUT", f"{at}/scale{query}", scale, JSON, False), ("PATCH", f"{at}/scale{query}", {"spec": {"replicas": self.one(0, 2, 5)}}, MERGE, False),
                ("PATCH", f"{at}/status{query}", {"metadata": {"labels": {"l": "s"}}} | status, MERGE, False),
                ("PATCH", f"{at}/status{self.query('fieldManager=m1', 'force=true')}", self.object(topic, name, version) | status, APPLY, False))
        if topic == "namespaces":
            return self.one(
                ("PUT", f"{at}/finalize{query}", self.object(topic, name) | {"spec": {"finalizers": ["kubernetes", "ex.io/f"]}}, JSON, False),
                ("PATCH", f"{at}/status{query}", {"status": {"phase": "Active", "conditions": [{"type": "t", "status": "True"}]}}, MERGE, False))
        if topic == "horizontalpodautoscalers":
            return "PATCH", f"{at}/status{query}", {"status": {"currentReplicas": 3, "desiredReplicas": 4}}, MERGE, False
        return None

    def other(self):
        """What is written seldom: configurations of webhooks, which no webhook sees, and what is not stored."""
        rule = {"operations": ["CREATE"], "apiGroups": ["nobody.io"], "apiVersions": ["v1"], "resources": ["things"]}
        hook = {"name": "a.ex.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule], "clientConfig": {"url": "https://127.0.0.1:1/x"}}
        kind = self.one(MUTATING, VALIDATING)
        policy = {"validations": [{"expression": "true"}], "matchConstraints": {"resourceRules": [{key: rule[key] for key in rule}]}}
        crd = definition() | {"metadata": {"name": "gadgets.ex.io"}}
        crd["spec"]["names"] = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
        access = {"resourceAttributes": {"namespace": "alpha", "verb": "get", "resource": "pods"}}
        name = f"o{self.label}-{self.one('a', 'b', 'c')}"
        return self.one(
            ("POST", f"{CONFIGURATIONS}/{kind}?dryRun=All", {"apiVersion": "admissionregistration.k8s.io/v1", "kind": KIND_OF[kind], "metadata": {"name": name}, "webhooks": [hook]}, JSON, False),
            ("PATCH", f"{CONFIGURATIONS}/{kind}/{MARKER}?dryRun=All", {"metadata": {"labels": {"a": "b"}}}, MERGE, False), ("DELETE", f"{CONFIGURATIONS}/{kind}/{MARKER}?dryRun=All", None, JSON, False),
            ("POST", f"{CONFIGURATIONS}/validatingadmissionpolicies?dryRun=All", {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name}, "spec": policy}, JSON, False),
            ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All", crd, JSON, False),
            ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": access}, JSON, False),
            ("POST", f"/apis/authorization.k8s.io/v1/namespaces/{self.namespace}/localsubjectaccessreviews",
             {"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview", "metadata": {"namespace": self.namespace}, "spec": access | {"user": "x"}}, JSON, False),
            ("POST", "/api/v1/namespaces/alpha/serviceaccounts/jane/token" + self.query(), {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}, JSON, False),
            ("POST", "/apis/scheduling.k8s.io/v1/priorityclasses" + self.query(), {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name, "labels": {"l": "a"}}, "value": 7}, JSON, False),
            ("PATCH", "/api/v1/namespaces/alpha/serviceaccounts/jane" + self.query(), {"metadata": {"labels": {"l": self.one("a", "b")}}}, MERGE, False),
            ("POST", f"/api/v1/namespaces/{self.namespace}/events" + self.query(), {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": {"namespace": self.namespace, "kind": "Pod", "name": "x"}, "reason": "r"}, JSON, False),
        )

    def requests(self):
        return [(*self.request(), self.maybe(0.12)) for _ in range(self.one(*range(6, 13)))]


# --- what is compared

def plain(value, key=""):
    """Without what must differ."""
    if isinstance(value, dict):
        out = {}
        for name, inner in value.items():
            is_version = name == "resourceVersion" and key == "metadata"
            out[name] = "…" if inner and (is_version or name in ("uid", "creationTimestamp", "deletionTimestamp", "time", "token")) else plain(inner, name)
        if isinstance(out.get("items"), list) and str(out.get("kind", "")).endswith("List"):
            out["items"].sort(key=lambda item: str((item.get("metadata") or {}).get("name")))
        return out
    if isinstance(value, list):
        items = [plain(inner) for inner in value]
        if key == "causes":
            # Some types there validate metadata twice.
            items = [item for at, item in enumerate(items) if item not in items[:at]]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if key in ("managedFields", "causes") else items
    if isinstance(value, str):
        value = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID", value)
        value = re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME", value)
        value = re.sub(r"\b(o?gr\d+-)[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"\1XXXXX", value)
        value = re.sub(r"/(kube|ours)/", "/WHO/", value)
        # Go has two texts for a time that is over, by chance.
        value = re.sub(r"(context deadline exceeded|net/http: request canceled).*(?=$)", "TIME OVER", value) if "timeout=1s" in value else value
        return re.sub(r"127\.0\.0\.1:\d+->127\.0\.0\.1:\d+", "A->B", value)
    return value


def apart(ours, theirs, path=""):
    """Where two values differ: the path and both."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [found for name in sorted(ours.keys() | theirs.keys()) for found in (
            apart(ours[name], theirs[name], f"{path}.{name}") if name in ours and name in theirs else [(f"{path}.{name}", ours.get(name, "(none)"), theirs.get(name, "(none)"))])]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [found for at, (one, other) in enumerate(zip(ours, theirs)) for found in apart(one, other, f"{path}[{at}]")]
    if isinstance(ours, list) and isinstance(theirs, list):
        # Without what both have.
        alone = [one for one in ours if one not in theirs], [one for one in theirs if one not in ours]
        return [(path, *(alone if any(alone) else (f"{len(ours)} of the same", f"{len(theirs)} of the same")))]
    return [] if ours == theirs and type(ours) is type(theirs) else [(path, ours, theirs)]


def of_question(question):
    """By what questions of validating webhooks are sorted: whom they go to, and what they are about."""
    request = question["request"]
    item = request.get("oldObject") or request.get("object") or {}
    return question["hook"], str((item.get("metadata") or {}).get("name")), (item.get("metadata") or {}).get("generation", 0), json.dumps(item, sort_keys=True)


def refuser(body):
    """The webhook that a refusal names."""
    found = re.search(r'webhook "([^"]+)"', str(body.get("message", ""))) if isinstance(body, dict) else None
    return found and found[1]


class Round:
    def __init__(self, run, nth):
        self.run, self.nth, self.cases = run, nth, Cases(run.options.seed, nth)
        self.servers, self.hooks, self.spoilt = run.servers, run.hooks, set()

    def both(self, method, path, body=None, media=JSON):
        return [server.ask(method, path, body, media) for server in self.servers.values()]

    def placed(self, who, configuration):
        """A configuration with the addresses of its webhooks."""
        configuration = copy.deepcopy(configuration)
        for hook in configuration["webhooks"]:
            client = hook["clientConfig"]
            if "place" in client:
                place, at = client["place"], f"/{who}/{client['path']}"
                hook["clientConfig"] = {
                    "good": {"url": self.hooks.url + at, "caBundle": self.run.bundle}, "unreachable": {"url": f"https://127.0.0.1:1{at}", "caBundle": self.run.bundle}, "no-bundle": {"url": self.hooks.url + at},
                    "service": {"service": {"namespace": "alpha", "name": "nobody", "path": at}, "caBundle": self.run.bundle}}[place]
        return configuration

    def marker(self, kind):
        """The last configuration of its kind: its webhook refuses the probes."""
        hook = {
            "name": f"{MARKER}.ex.io", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 10, "namespaceSelector": {"matchLabels": {MARKER: "yes"}}, "objectSelector": {"matchLabels": {MARKER: kind}},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}], "clientConfig": {"place": "good", "path": f"{MARKER}/{MARKER}.ex.io"}}
        return {"apiVersion": "admissionregistration.k8s.io/v1", "kind": KIND_OF[kind], "metadata": {"name": MARKER}, "webhooks": [hook]}

    def wait(self, code):
        """Until both servers answer both probes so."""
        for kind in (MUTATING, VALIDATING):
            probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "labels": {MARKER: kind}}}
            for who, server in self.servers.items():
                until = time.time() + 60
                while (told := server.ask("POST", f"/api/v1/namespaces/{MARKER}/configmaps?dryRun=All", probe))[0] != code:
                    if time.time() > until:
                        raise SystemExit(f"round {self.nth}: after 60 s {who} still answers a probe of {kind} with {told}")
                    time.sleep(0.05)

    def configure(self):
        made, behaviours = self.cases.configurations()
        self.made, self.behaviours = made, behaviours
        self.hooks.behaviours = behaviours | {(MARKER, f"{MARKER}.ex.io"): ("deny-message", None)}
        self.names = []
        for kind, configuration, right in made:
            answers = [server.ask("POST", f"{CONFIGURATIONS}/{kind}", self.placed(who, configuration)) for who, server in self.servers.items()]
            self.names.append((kind, configuration["metadata"]["name"]))
            self.run.compare(self, ("POST", f"{CONFIGURATIONS}/{kind}", configuration, JSON), answers, {who: ([], []) for who in self.servers})
        for kind in (MUTATING, VALIDATING):
            for who, server in self.servers.items():
                code, told, _ = server.ask("POST", f"{CONFIGURATIONS}/{kind}", self.placed(who, self.marker(kind)))
                if code != 201:
                    raise SystemExit(f"{who} does not take the marker: {told}")
            self.names.append((kind, MARKER))

    def end(self):
        # The marker goes last.
        for kind, name in self.names:
            self.both("DELETE", f"{CONFIGURATIONS}/{kind}/{name}")
        self.wait(201)

    def settle(self, server, path):
        """kube-apiserver asks twice of an object that its cache does not have yet."""
        for _ in range(40):
            newest, cached = server.ask("GET", path), server.ask("GET", f"{path}?resourceVersion=0")
            of = [answer[1].get("metadata", {}).get("resourceVersion") if answer[0] == 200 else None for answer in (newest, cached)]
            if of[0] == of[1]:
                return newest
            time.sleep(0.025)
        return newest

    def questions(self):
        """Of each server: those of mutating webhooks, in order, and those of validating ones, sorted."""
        kinds = {configuration["metadata"]["name"]: kind for kind, configuration, _ in self.made}
        out = {who: ([], []) for who in self.servers}
        for who, configuration, hook, review in self.hooks.take():
            if configuration != MARKER:
                out[who][kinds[configuration] == VALIDATING].append({"hook": f"{configuration}/{hook}"} | plain(review))
        [found[1].sort(key=of_question) for found in out.values()]
        return out

    def object_path(self, method, path, body):
        """The object that a request is about; none of a collection."""
        bare = path.split("?")[0]
        if method == "POST":
            parts = bare.split("/")
            if parts[-1] in ("binding", "eviction", "token"):
                return "/".join(parts[:-1])
            name = (body.get("metadata") or {}).get("name")
            return f"{bare.removesuffix('bindings') + 'pods' if parts[-1] == 'bindings' else bare}/{name}" if name else None
        if method == "DELETE" and "labelSelector" in path:
            return None
        return re.sub(r"/(status|scale|finalize|ephemeralcontainers)$", "", bare)

    def play(self):
        for collection, item in self.cases.given():
            for who, (code, told, _) in zip(self.servers, self.both("POST", collection, item)):
                if code != 201:
                    raise SystemExit(f"round {self.nth}: {who} does not take {item}: {code} {told}")
        self.configure()
        self.wait(400)
        self.hooks.take()
        touched = set()
        for method, path, body, media, with_revision, as_jane in self.cases.requests():
            about = self.object_path(method, path, body)
            place = re.sub(r"/(apis/)?[^/]+/v\d+/", "/", about or path.split("?")[0])
            if place in self.spoilt or about is None and any(spoilt.startswith(place) for spoilt in self.spoilt):
                continue
            answers = []
            for who in self.servers:
                found = self.settle(self.servers[who], about) if about else (0, {}, [])
                sent = copy.deepcopy(body)
                if with_revision and found[0] == 200:
                    sent["metadata"]["resourceVersion"] = found[1]["metadata"]["resourceVersion"]
                answers.append((self.run.janes if as_jane else self.servers)[who].ask(method, path, sent, media))
            questions = self.questions()
            if questions["ours"] != questions["kube"]:
                # One may still be on its way.
                time.sleep(0.3)
                for who, late in self.questions().items():
                    [mine.extend(more) for mine, more in zip(questions[who], late)]
                    questions[who][1].sort(key=of_question)
            answers = self.undecided(answers, questions, (method, path, body, media), as_jane)
            same = self.run.compare(self, (method, path, body, media), answers, questions, as_jane)
            if not same and min(code for code, _, _ in answers) < 400:
                self.spoilt.add(place)
            elif about and place not in self.spoilt:
                touched.add((place, about))
        for place, about in sorted(touched):
            if place not in self.spoilt:
                self.run.compare(self, ("GET", about, None, JSON), [self.settle(server, about) for server in self.servers.values()], {who: ([], []) for who in self.servers})
        self.end()

    def undecided(self, answers, questions, request, as_jane):
        """Answers that differ only in which of several validating webhooks was the first to refuse: kube-apiserver is asked again with the others held up."""
        named = [refuser(body) for _, body, _ in answers]
        validating = {hook["name"] for kind, configuration, _ in self.made if kind == VALIDATING for hook in configuration["webhooks"]}
        if min(code for code, _, _ in answers) < 400 or named[0] == named[1] or not set(named) <= validating:
            return answers
        method, path, body, media = request
        for at, who in ((1, "kube"), (0, "ours")):
            self.hooks.held_up = named[1 - at]
            again = (self.run.janes if as_jane else self.servers)[who].ask(method, path, body, media)
            self.hooks.held_up = None
            self.hooks.take()
            if refuser(again[1]) == named[1 - at]:
                self.run.raced += 1
                return [again, answers[1]] if at == 0 else [answers[0], again]
        # Those that cannot be reached cannot be held up.
        alike = [re.sub(r"\b[abc]\d-r\d+/|\bh\d+\.ex\.io", "", json.dumps(plain(body), sort_keys=True)) for _, body, _ in answers]
        return [answers[1], answers[1]] if alike[0] == alike[1] else answers


class Run:
    def __init__(self, options):
        self.options = options
        make = lambda url, token=options.token: Server(url, options.ca, token)
        self.servers = {"ours": make(options.ours), "kube": make(options.theirs)}
        with open(options.ca, "rb") as file:
            self.bundle = base64.b64encode(file.read()).decode()
        self.janes, self.requests, self.asked, self.differ, self.raced, self.explained = {}, 0, 0, 0, 0, collections.Counter()
        self.codes, self.shapes = collections.Counter(), collections.Counter()
        self.hooks = Webhooks(os.path.dirname(os.path.abspath(options.ca)), {"admin", "system:serviceaccount:alpha:jane"})
        self.prepare(make)

    def prepare(self, make):
        role = {"rules": [{"apiGroups": ["", "apps"], "resources": ["configmaps", "pods", "pods/*", "deployments", "deployments/*"], "verbs": ["*"]}]}
        binding = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "jane"}, "subjects": [{"kind": "ServiceAccount", "namespace": "alpha", "name": "jane"}]}
        for who, server in self.servers.items():
            def done(path, body):
                code, told, _ = server.ask("POST", path, body)
                if code != 201:
                    raise SystemExit(f"{who} does not take {body}: {code} {told}")
                return told
            for name, labels in (NAMESPACES | {MARKER: {MARKER: "yes"}}).items():
                done("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
            done("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
            done("/api/v1/namespaces/alpha/serviceaccounts", {"metadata": {"name": "jane"}})
            done("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "jane"}} | role)
            done("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "jane"}} | binding)
            token = done("/api/v1/namespaces/alpha/serviceaccounts/jane/token", {"spec": {"expirationSeconds": 36000}})["status"]["token"]
            self.janes[who] = make(f"https://{server.at.netloc}", token)
        for who, server in self.servers.items():
            for version in ("v1", "v2"):
                thing = {"apiVersion": f"{GROUP}/{version}", "kind": "Thing", "metadata": {"name": "probe"}}
                for _ in range(600):
                    if server.ask("POST", f"/apis/{GROUP}/{version}/namespaces/alpha/things?dryRun=All", thing)[0] == 201:
                        break
                    time.sleep(0.1)
                else:
                    raise SystemExit(f"{who} does not take things")

    def compare(self, round, request, answers, questions, as_jane=False):
        self.requests += 1
        self.asked += sum(map(len, questions["kube"]))
        self.codes[answers[1][0]] += 1
        sides = []
        for (code, body, warnings), who in zip(answers, self.servers):
            mutating, validating = questions[who]
            if max(code for code, _, _ in answers) >= 400 and "labelSelector" in request[1]:
                # Whoever is the first to refuse ends a deletion of many.
                validating = []
            sides.append({"code": code, "body": plain(body), "warnings": sorted(map(plain, warnings)), "mutating": mutating, "validating": validating})
        every = apart(*sides)
        if not every:
            return True
        found = [one for one in every if not self.is_explained(f"{request[0]} {request[1]} {one[0]} {json.dumps(one[1])} {json.dumps(one[2])}")]
        if not found:
            return False
        told = self.told(round, request, sides, found, as_jane)
        self.differ += 1
        shape = f"{request[0]} " + " ".join(dict.fromkeys(re.sub(r"\[\d+\]", "[]", where) for where, _, _ in found[:4]))
        self.shapes[shape] += 1
        if self.shapes[shape] <= self.options.show:
            print(told, flush=True)
        return False

    def is_explained(self, difference):
        for pattern, why in EXPLAINED + [(pattern, "--ignore") for pattern in self.options.ignore]:
            if re.search(pattern, difference, re.DOTALL):
                self.explained[why] += 1
                return True
        return False

    def told(self, round, request, sides, found, as_jane):
        """A difference in words: the webhooks that have to do with it, the request, and where both are apart."""
        method, path, body, media = request
        named = {question["hook"] for side in sides for question in side["mutating"] + side["validating"]}
        refused = {refuser(side["body"]) for side in sides}
        lines = [f"differs: seed {self.options.seed} round {round.nth}: {method} {path}{' as jane' if as_jane else ''} ({media}) {json.dumps(body)[:900]}"]
        hooks = [(kind, configuration, hook) for kind, configuration, _ in round.made for hook in configuration["webhooks"]]
        concerned = [hook for hook in hooks if f"{hook[1]['metadata']['name']}/{hook[2]['name']}" in named or hook[2]["name"] in refused] or hooks
        for kind, configuration, hook in concerned if not path.startswith(CONFIGURATIONS) else []:
            name = configuration["metadata"]["name"]
            lines.append(f"  {kind.removesuffix('webhookconfigurations')} {name}/{hook['name']} {round.behaviours[name, hook['name']]} {json.dumps({key: value for key, value in hook.items() if key != 'name'})}")
        for side, who in zip(sides, self.servers):
            asked = [[f"{question['hook']} {question['request']['operation']} {question['request']['resource']['resource']}/{question['request'].get('subResource', '')} v={question['request']['kind']['version']}"
                      for question in side[name]] for name in ("mutating", "validating")]
            message = side["body"].get("message", "") if isinstance(side["body"], dict) else side["body"]
            lines.append(f"  {who:4} {side['code']} {str(message)[:500]} asked {asked[0]} {asked[1]}")
        for where, ours, theirs in found[:10]:
            lines.append(f"  at {where}:\n    ours {json.dumps(ours)[:700]}\n    kube {json.dumps(theirs)[:700]}")
        return "\n".join(lines)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("ours", "theirs", "ca", "token", "known"):
        arguments.add_argument(f"--{flag}")
    arguments.add_argument("--rounds", type=int, default=20)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--only", type=int, help="the number of the only round")
    arguments.add_argument("--show", type=int, default=2, help="how many of each shape")
    arguments.add_argument("--ignore", action="append", default=[], help="leave out differences like this pattern")
    options = arguments.parse_args()
    run, began = Run(options), time.time()
    for nth in range(options.rounds) if options.only is None else [options.only]:
        Round(run, nth).play()
    for why, count in run.explained.items():
        print(f"explained {count} times: {why}")
    for shape, count in run.shapes.most_common(30):
        print(f"{count:5} {shape}")
    print(f"{run.requests} requests, {run.asked} questions, {run.differ} differ, in {time.time() - began:.0f} s (seed {options.seed}); kube-apiserver's codes: {dict(sorted(run.codes.items()))}, "
          f"refusals that raced: {run.raced}")
    return int(run.differ > 0)


if __name__ == "__main__":
    sys.exit(main())
