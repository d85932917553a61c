#!/usr/bin/env python3
"""Random sequences of server-side apply, updates, patches, status and scale by four managers, sent to watchcache and to a kube-apiserver: what both answer and
store must be the same, with its managed fields.

    tests/differential/run.sh PEERS watchcache tests/differential/apply.py [--sequences N] [--seed S] [--show N]

A sequence is about one object of one of sixteen kinds, one of them a custom resource with lists that are maps by one key and by two, sets, atomic lists and maps, and
what nobody declares. It ends where kube-apiserver refuses an object for a reason that watchcache does not know (validation of built-in types).
Left out are uids, revisions, times, and the order of entries and of causes: entries are sorted by time, which passes while two servers are asked, and kube-apiserver
tells conflicts in a random order."""

import argparse
import copy
import http.client
import json
import random
import re
import ssl
import sys
import time
from urllib.parse import urlsplit

APPLY, MERGE, STRATEGIC, JSON_PATCH, JSON = (
    "application/apply-patch+yaml", "application/merge-patch+json", "application/strategic-merge-patch+json", "application/json-patch+json", "application/json")
# Path of the collection, version, kind, subresources.
KINDS = {
    "configmaps": ("/api/v1", "v1", "ConfigMap", ""),
    "secrets": ("/api/v1", "v1", "Secret", ""),
    "services": ("/api/v1", "v1", "Service", "status"),
    "pods": ("/api/v1", "v1", "Pod", "status"),
    "endpoints": ("/api/v1", "v1", "Endpoints", ""),
    "serviceaccounts": ("/api/v1", "v1", "ServiceAccount", ""),
    "deployments": ("/apis/apps/v1", "apps/v1", "Deployment", "status scale"),
    "statefulsets": ("/apis/apps/v1", "apps/v1", "StatefulSet", "status scale"),
    "jobs": ("/apis/batch/v1", "batch/v1", "Job", "status"),
    "horizontalpodautoscalers": ("/apis/autoscaling/v2", "autoscaling/v2", "HorizontalPodAutoscaler", "status"),
    "endpointslices": ("/apis/discovery.k8s.io/v1", "discovery.k8s.io/v1", "EndpointSlice", ""),
    "ingresses": ("/apis/networking.k8s.io/v1", "networking.k8s.io/v1", "Ingress", "status"),
    "networkpolicies": ("/apis/networking.k8s.io/v1", "networking.k8s.io/v1", "NetworkPolicy", ""),
    "roles": ("/apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io/v1", "Role", ""),
    "leases": ("/apis/coordination.k8s.io/v1", "coordination.k8s.io/v1", "Lease", ""),
    "widgets": ("/apis/ex.io/v1", "ex.io/v1", "Widget", "status scale"),
}
# What a kube-apiserver says of an apply to the scale of a custom resource whose replicas nobody manages; ours applies it.
NO_SUCH_SCALE = "request to convert CR to an invalid group/version: autoscaling/v1"
MANAGERS = ["m1", "m2", "m3", "kubectl"]


def text():
    return {"type": "string"}


def keyed(keys, **properties):
    required = [key for key in keys if "default" not in properties[key]]
    items = {"type": "object", "required": required, "properties": properties}
    return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items}


WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.ex.io"},
    "spec": {"group": "ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}, "versions": [{
        "name": "v1", "served": True, "storage": True,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer"}, "replicas": {"type": "integer"},
                "items": keyed(["k"], k=text(), v=text()),
                "ports": keyed(["port", "protocol"], port={"type": "integer"}, protocol={"type": "string", "default": "TCP"}),
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text()},
                "atomic": {"type": "array", "items": text()},
                "map": {"type": "object", "additionalProperties": text()},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text()},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}},
            "status": {"type": "object", "properties": {
                "phase": text(), "replicas": {"type": "integer"}, "conditions": keyed(["type"], type=text(), status=text())}}}}},
    }]},
}


class Server:
    def __init__(self, url, ca, token):
        self.at, self.token, self.trust, self.client = urlsplit(url), token, ssl.create_default_context(cafile=ca), None

    def ask(self, method, path, body=None, media=JSON):
        """Code, body and warnings; tried again once on a new connection."""
        headers = {"User-Agent": "differential/1", "Authorization": f"Bearer {self.token}"} | ({"Content-Type": media} if body is not None else {})
        for _ in range(2):
            try:
                if self.client is None:
                    self.client = http.client.HTTPSConnection(self.at.hostname, self.at.port, context=self.trust, timeout=30)
                self.client.request(method, path, None if body is None else json.dumps(body), headers)
                answer = self.client.getresponse()
                text, is_json = answer.read().decode(), answer.headers.get_content_type() == JSON
                return answer.status, json.loads(text) if is_json else text, sorted(text for text in answer.headers.get_all("Warning") or [] if " by this server" not in text)
            except (http.client.HTTPException, OSError):
                self.client = None
        raise SystemExit(f"{self.at.geturl()} does not answer")


class Sequence:
    """What happens to one object."""

    def __init__(self, seed, nth, namespace):
        self.random = random.Random(seed * 1_000_003 + nth)
        self.plural = self.random.choice(sorted(KINDS))
        self.name = f"o{nth}"
        prefix, self.version, self.kind, subresources = KINDS[self.plural]
        self.subresources = subresources.split()
        self.collection = f"{prefix}/namespaces/{namespace}/{self.plural}"
        self.path = f"{self.collection}/{self.name}"

    def maybe(self, share):
        return self.random.random() < share

    def one(self, *of):
        return self.random.choice(of)

    def some(self, of, least, most):
        return self.random.sample(of, self.random.randint(least, most))

    def metadata(self):
        metadata = {"name": self.name}
        if self.maybe(0.5):
            metadata["labels"] = {key: self.one("1", "2", "3") for key in self.some("abcd", 0, 3)}
        if self.maybe(0.4):
            metadata["annotations"] = {key: self.one("x", "y") for key in self.some("efg", 0, 2)}
        if self.maybe(0.15):
            metadata["finalizers"] = self.some(["ex.io/a", "ex.io/b", "ex.io/c"], 0, 2)
        if self.maybe(0.05):
            metadata["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{uid}", "uid": f"00000000-0000-0000-0000-00000000000{uid}"} for uid in self.some("123", 1, 2)]
        return metadata

    def container(self, name):
        container = {"name": name, "image": self.one("a:1", "a:2", "b:1")}
        if self.maybe(0.5):
            container["ports"] = [self.port("containerPort", port) for port in self.some([80, 443, 8080, 9], 0, 2)]
        if self.maybe(0.5):
            container["env"] = [{"name": name, "value": self.one("1", "2")} for name in self.some("ABC", 0, 2)]
        if self.maybe(0.3):
            container["resources"] = {"limits": {"cpu": self.one("1", "500m")}, "requests": {"cpu": "100m"}} if self.maybe(0.7) else {}
        if self.maybe(0.3):
            container["args"] = [self.one("x", "y") for _ in range(self.random.randint(0, 2))]
        if self.maybe(0.2):
            container["volumeMounts"] = [{"name": "v", "mountPath": self.one("/a", "/b")}]
        return container

    def port(self, member, port):
        made = {member: port}
        if self.maybe(0.5):
            made["protocol"] = self.one("TCP", "UDP")
        if self.maybe(0.3):
            made["name"] = f"p{port}"
        return made

    def pod(self):
        pod = {"containers": [self.container(name) for name in self.some(["c1", "c2", "c3"], 1, 2)], "volumes": [{"name": "v", "emptyDir": {}}]}
        if self.maybe(0.3):
            pod["volumes"].append({"name": "w", "configMap": {"name": self.one("x", "y")}})
        if self.maybe(0.2):
            pod["tolerations"] = [{"key": "k", "operator": "Exists"}]
        if self.maybe(0.2):
            pod["nodeSelector"] = {"a": self.one("1", "2")}
        if self.maybe(0.2):
            pod["imagePullSecrets"] = [{"name": name} for name in self.some("xy", 0, 2)]
        return pod

    def object(self):
        return {"apiVersion": self.version, "kind": self.kind, "metadata": self.metadata()} | getattr(self, self.plural)()

    def configmaps(self):
        return {"data": {key: self.one("1", "2") for key in self.some("klmn", 0, 3)}} if self.maybe(0.9) else {"binaryData": {"z": "AAA="}}

    def secrets(self):
        made = {"data": {key: self.one("AA==", "BB==") for key in self.some("klm", 0, 3)}} if self.maybe(0.5) else {}
        if self.maybe(0.4):
            made["stringData"] = {key: self.one("1", "2") for key in self.some("mn", 0, 2)}
        return made

    def services(self):
        ports = [{"port": port, "name": f"n{port}"} | ({"protocol": self.one("TCP", "UDP")} if self.maybe(0.5) else {})
                 | ({"targetPort": self.one(80, "web")} if self.maybe(0.5) else {}) for port in self.some([80, 443, 8080], 1, 2)]
        spec = {"clusterIP": "None", "ports": ports}
        if self.maybe(0.5):
            spec["selector"] = {"a": self.one("1", "2")}
        if self.maybe(0.2):
            spec["externalIPs"] = self.some(["1.2.3.4", "5.6.7.8"], 0, 2)
        return {"spec": spec}

    def pods(self):
        return {"spec": self.pod()}

    def endpoints(self):
        return {"subsets": [{"addresses": [{"ip": ip} for ip in self.some(["1.1.1.1", "1.1.1.2", "1.1.1.3"], 1, 2)], "ports": [{"port": 80}]}]} if self.maybe(0.8) else {}

    def serviceaccounts(self):
        made = {member: [{"name": name} for name in self.some("xyz", 0, 2)] for member in ["secrets", "imagePullSecrets"] if self.maybe(0.5)}
        return made | ({"automountServiceAccountToken": self.one(True, False)} if self.maybe(0.3) else {})

    def workload(self):
        labels = {"app": "a"} | ({"x": self.one("1", "2")} if self.maybe(0.4) else {})
        spec = {"selector": {"matchLabels": {"app": "a"}}, "template": {"metadata": {"labels": labels}, "spec": self.pod()}}
        if self.maybe(0.6):
            spec["replicas"] = self.random.randint(0, 3)
        if self.maybe(0.2):
            spec["minReadySeconds"] = self.random.randint(0, 2)
        return spec

    def deployments(self):
        made = {"spec": self.workload()}
        if self.maybe(0.3):
            made["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": self.one(1, "25%", 2)}} if self.maybe(0.6) else {}
        if self.maybe(0.2):
            made["status"] = {"replicas": 1}
        return made

    def statefulsets(self):
        return {"spec": self.workload() | {"serviceName": "s"}}

    def jobs(self):
        spec = {"template": {"spec": self.pod() | {"restartPolicy": "Never"}}}
        if self.maybe(0.4):
            spec["parallelism"] = self.random.randint(0, 2)
        if self.maybe(0.3):
            spec["suspend"] = self.one(True, False)
        return {"spec": spec}

    def horizontalpodautoscalers(self):
        spec = {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": self.random.randint(1, 4)}
        if self.maybe(0.4):
            spec["minReplicas"] = 1
        if self.maybe(0.5):
            target = {"type": "Utilization", "averageUtilization": self.random.randint(1, 99)}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        return {"spec": spec}

    def endpointslices(self):
        made = {"addressType": "IPv4", "endpoints": [{"addresses": [ip]} for ip in self.some(["1.1.1.1", "1.1.1.2", "1.1.1.3"], 1, 2)]}
        return made | ({"ports": [{"port": port, "name": f"n{port}"} for port in self.some([1, 2, 3], 1, 2)]} if self.maybe(0.6) else {})

    def ingresses(self):
        spec = {"defaultBackend": {"service": {"name": self.one("a", "b"), "port": {"number": self.random.randint(1, 3)}}}}
        return {"spec": spec | ({"tls": [{"hosts": self.some(["a.b", "c.d"], 1, 2)}]} if self.maybe(0.4) else {})}

    def networkpolicies(self):
        spec = {"podSelector": {} if self.maybe(0.5) else {"matchLabels": {"a": self.one("1", "2")}}}
        if self.maybe(0.5):
            spec["ingress"] = [{"from": [{"podSelector": {}}]}]
        if self.maybe(0.5):
            spec["policyTypes"] = self.some(["Ingress", "Egress"], 1, 2)
        return {"spec": spec}

    def roles(self):
        rule = lambda: {"apiGroups": [""], "resources": self.some(["pods", "secrets"], 1, 2), "verbs": self.some(["get", "list", "watch"], 1, 2)}
        return {"rules": [rule() for _ in range(self.random.randint(1, 2))]} if self.maybe(0.9) else {}

    def leases(self):
        return {"spec": {"holderIdentity": self.one("a", "b")} | ({"leaseDurationSeconds": self.random.randint(1, 5)} if self.maybe(0.4) else {})}

    def widgets(self):
        values = {
            "size": lambda: self.random.randint(0, 3), "replicas": lambda: self.random.randint(0, 3),
            "items": lambda: [{"k": key, "v": self.one("1", "2")} for key in self.some("abc", 0, 3)],
            "ports": lambda: [{"port": port, "protocol": self.one("TCP", "UDP")} for port in self.some([80, 443, 8080], 0, 2)],
            "set": lambda: self.some("pqr", 0, 2), "atomic": lambda: self.some("pqr", 0, 2),
            "map": lambda: {key: self.one("1", "2") for key in self.some("abc", 0, 2)}, "whole": lambda: {key: self.one("1", "2") for key in self.some("abc", 0, 2)},
            "any": lambda: {"x": self.random.randint(0, 2), "y": [1, {"z": self.one(1, 2)}]}}
        made = {"spec": {name: make() for name, make in values.items() if self.maybe(0.4)}} if self.maybe(0.85) else {}
        return made | ({"status": {"phase": self.one("A", "B")}} if self.maybe(0.3) else {})

    def status(self):
        conditions = lambda *types: [{"type": name, "status": self.one("True", "False")} for name in self.some(types, 0, 2)]
        number = self.random.randint(0, 3)
        return {
            "deployments": {"replicas": number, "conditions": conditions("Available", "Progressing")}, "statefulsets": {"replicas": number},
            "services": {"loadBalancer": {}}, "pods": {"phase": self.one("Running", "Pending"), "conditions": conditions("Ready", "Initialized")},
            "jobs": {"active": number}, "horizontalpodautoscalers": {"currentReplicas": number, "desiredReplicas": 1},
            "ingresses": {"loadBalancer": {"ingress": [{"ip": self.one("1.1.1.1", "2.2.2.2")}]}},
            "widgets": {"phase": self.one("A", "B"), "conditions": conditions("X", "Y")}}[self.plural]

    def request(self, live):
        """A request about the object as it is, as method, path, body and media type."""
        chance, managed = self.random.random(), f"?fieldManager={self.one(*MANAGERS)}"
        forced = managed + ("&force=true" if self.maybe(0.4) else "")
        if chance < 0.45:
            configuration = self.object()
            if self.maybe(0.3):
                spec = configuration.get("spec", {})
                [spec.pop(name) for name in list(spec) if self.maybe(0.4) and name != "clusterIP"]
            return "PATCH", self.path + forced, configuration, APPLY
        named = {"metadata": {"name": self.name}}
        if chance < 0.52 and "status" in self.subresources and live:
            return "PATCH", f"{self.path}/status{forced}", {"apiVersion": self.version, "kind": self.kind, "status": self.status()} | named, APPLY
        if chance < 0.57 and "scale" in self.subresources:
            scale = {"spec": {"replicas": self.random.randint(0, 3)}}
            if self.maybe(0.5):
                return "PATCH", f"{self.path}/scale{forced}", {"apiVersion": "autoscaling/v1", "kind": "Scale"} | named | scale, APPLY
            return "PATCH", f"{self.path}/scale{managed}", scale, MERGE
        if chance < 0.63 and "status" in self.subresources:
            return "PATCH", f"{self.path}/status{managed}", {"status": self.status()}, MERGE
        if chance < 0.75:
            return "PUT", self.path + (managed if self.maybe(0.8) else ""), self.replacement(live), JSON
        if chance < 0.9:
            patch = self.object()
            del patch["apiVersion"], patch["kind"], patch["metadata"]["name"]
            spec = patch.get("spec", {})
            [spec.pop(name) for name in list(spec) if self.maybe(0.5)]
            return "PATCH", self.path + managed, patch, STRATEGIC if self.plural != "widgets" and self.maybe(0.5) else MERGE
        if chance < 0.95:
            return "POST", self.collection + managed, self.object(), JSON
        if chance < 0.97:
            return "PATCH", self.path + managed, [{"op": "add", "path": "/metadata/labels", "value": {"j": self.one("1", "2")}}], JSON_PATCH
        return "DELETE", self.path, None, JSON

    def replacement(self, live):
        """The object of a PUT: what is there with some changes, or another one."""
        new, is_change = self.object(), self.maybe(0.8)
        if not live or not is_change:
            return new
        changed = copy.deepcopy(live)
        for name in set(new) - {"apiVersion", "kind", "metadata", "status"}:
            if isinstance(new[name], dict) and isinstance(changed.get(name), dict):
                changed[name].update({key: value for key, value in sorted(new[name].items()) if self.maybe(0.5)})
            elif self.maybe(0.6):
                changed[name] = new[name]
        metadata = changed["metadata"]
        if self.maybe(0.5):
            metadata.setdefault("labels", {})["u"] = self.one("1", "2")
        for share, entries in [(0.1, []), (0.05, [{}]), (0.05, [{"manager": "x", "operation": "Bad"}])]:
            if self.maybe(share):
                metadata["managedFields"] = entries
        if metadata.get("managedFields") and self.maybe(0.05):
            self.one(*metadata["managedFields"]).update(self.one({"manager": "m" * 129}, {"manager": "é\u200bx"}, {"manager": "ü"}, {"subresource": "s" * 257}))
        if self.maybe(0.2):
            metadata.pop("managedFields", None)
        return changed


def left(value, path=()):
    """What must be the same of an answer."""
    if isinstance(value, dict):
        is_metadata = path[-1:] == ("metadata",)
        times = ("deletionTimestamp", "startTime", "lastTransitionTime", "lastUpdateTime", "time")
        return {name: left(member, (*path, name)) for name, member in value.items()
                if name not in times and not (is_metadata and name in ("resourceVersion", "uid", "creationTimestamp"))
                # Which an allocator gives.
                and name.removeprefix("f:") not in ("clusterIPs", "ipFamilies", "ipFamilyPolicy")}
    if isinstance(value, list):
        items = [left(item, path) for item in value]
        if path[-1:] == ("causes",):
            # Some types there validate metadata twice.
            items = [item for at, item in enumerate(items) if item not in items[:at]]
        return sorted(items, key=json.dumps) if path[-1:] in (("managedFields",), ("causes",)) else items
    if isinstance(value, str):
        if path[-1:] == ("message",) and " in body " in value:
            # What a schema says of properties comes in a random order there.
            value = ", ".join(sorted(re.split(r", |\[|\]", value)))
        if "Invalid value: {" in value:
            # An empty list that was sent is shown as null (docs/conformance.md, `validation`).
            value = value.replace("[]", "null")
        return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "UID", re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", value))
    return value


def told(ours, theirs, path=""):
    """The first places where two values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [line for name in sorted(set(ours) | set(theirs)) for line in told(ours.get(name), theirs.get(name), f"{path}.{name}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [line for at, pair in enumerate(zip(ours, theirs)) for line in told(*pair, f"{path}[{at}]")]
    return [] if ours == theirs else [f"    {path}: ours {json.dumps(ours)[:400]}, theirs {json.dumps(theirs)[:400]}"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ["ours", "theirs", "ca", "token", "known"]:
        arguments.add_argument(f"--{flag}", required=True)
    for flag, default in [("sequences", 300), ("seed", 1), ("show", 20)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    options = arguments.parse_args()
    ours, theirs = (Server(url, options.ca, options.token) for url in (options.ours, options.theirs))
    namespace = f"apply-{options.seed}"
    for server in ours, theirs:
        server.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGETS)
        server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    # A kube-apiserver lets objects in some seconds after their definition.
    deadline = time.monotonic() + 60
    while any(server.ask("GET", f"/apis/ex.io/v1/namespaces/{namespace}/widgets")[0] != 200 for server in (ours, theirs)):
        if time.monotonic() > deadline:
            raise SystemExit("the definition is not served")
        time.sleep(0.5)
    time.sleep(3)
    same, different, refused = 0, 0, 0
    for nth in range(options.sequences):
        sequence, live = Sequence(options.seed, nth, namespace), (None, None)
        for step in range(sequence.random.randint(4, 10)):
            # The same choices about the object that each of them has.
            state = sequence.random.getstate()
            mine = sequence.request(live[0])
            sequence.random.setstate(state)
            request = sequence.request(live[1])
            answers = ours.ask(*mine), theirs.ask(*request)
            stored = [server.ask("GET", sequence.path) for server in (ours, theirs)]
            live = [body if code == 200 else None for code, body, _ in stored]
            if NO_SUCH_SCALE in str(answers[1][1]) or answers[1][0] == 422 and answers[0][0] < 300:
                refused += 1
                break
            pairs = [(left(list(pair[0])), left(list(pair[1]))) for pair in (answers, stored)]
            lines = [line for what, pair in zip(("answer", "stored"), pairs) for line in told(*pair, what)]
            if not lines:
                same += 1
                continue
            different += 1
            if different <= options.show:
                method, path, body, _ = request
                print(f"{sequence.plural} step {step}: {method} {path} {json.dumps(body)[:1000]}", *lines[:12], sep="\n")
            break
    print(f"{options.sequences} sequences, {same + different} requests compared: {same} equal, {different} differ; {refused} objects that kube-apiserver alone refuses")
    sys.exit(different > 0 or same == 0)


if __name__ == "__main__":
    main()
