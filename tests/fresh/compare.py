#!/usr/bin/env python3
"""The objects that a server has by itself: those of a kube-apiserver and those of watchcache, both started on nothing, are the same, but for the differences listed below.

    tests/fresh/compare.py PEERS WATCHCACHE [--advertise ADDRESS] [--record]

PEERS has etcd and kube-apiserver, as tests/peers/build.sh makes them. Needs openssl. PORT (default 21970) is the first of four on loopback.

Every resource that discovery lists is listed on both. Left out of what is compared are uids, revisions, times and what depends on the process (the holder of a Lease, its
ports). Then both are changed in the same ways, and started again: what is deleted or changed comes back, or not, on both.

--record      writes src/controllers/own/recorded.jsonl and lease.txt beside it from the kube-apiserver, and compares nothing (WATCHCACHE may be any word)
--advertise   the address of the endpoints of the Service kubernetes (default 192.0.2.7, an address for documentation)"""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time

PORT = int(os.environ.get("PORT", "21970"))
ETCD, PEER, THEIRS, OURS = range(PORT, PORT + 4)
TOKEN = "admintoken"
PATIENCE = int(os.environ.get("PATIENCE", "120"))
ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDED = ROOT / "src/controllers/own/recorded.jsonl"
LEASE = ROOT / "src/controllers/own/lease.txt"
# Kinds that are made of a record, in the order of their lines.
KINDS = ["PriorityClass", "PriorityLevelConfiguration", "FlowSchema"]
MERGE = "application/merge-patch+json"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
DEFINITION = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.ex.io"}, "spec": {
    "group": "ex.io", "scope": "Cluster", "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
    "versions": [{"name": name, "served": served, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object"}}}
                 for name, served in [("v1", True), ("v2", True), ("v3", False)]]}}

# What may differ: a pattern of the path of the object, and why. The same rows stand in docs/conformance.md.
LISTED = [
    (r"^endpointslices/default/kubernetes .metadata.generation", "kube-apiserver takes its address out of the endpoints when it stops"),
    (r"^clusterroles/(admin|edit|view) .rules", "kube-controller-manager fills in the rules of aggregated roles; watchcache does it itself"),
]


class Server:
    def __init__(self, name, port):
        self.name, self.port = name, port
        self.tls = ssl.create_default_context()
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE

    def ask(self, method, path, body=None, kind="application/json"):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=60)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind, "Accept": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else text.decode()

    def until(self, path, is_right, what):
        """The object when it is so; none when it is gone."""
        deadline = time.time() + PATIENCE
        while True:
            try:
                status, answer = self.ask("GET", path)
                found = answer if status == 200 else None
                if is_right(found):
                    return found
            except (OSError, http.client.HTTPException):
                found = "no answer"
            if time.time() > deadline:
                raise SystemExit(f"{self.name}: {what}: after {PATIENCE} s {path} is {json.dumps(found)}")
            time.sleep(0.05)

    def ready(self):
        self.until("/readyz", lambda answer: answer == "ok", "is not ready")

    def settled(self):
        """Waits for what a kube-apiserver makes after it is ready."""
        self.ready()
        for path in ["/api/v1/namespaces/default/services/kubernetes", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
                     "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking",
                     "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", "/api/v1/namespaces/default/endpoints/kubernetes"]:
            self.until(path, lambda found: found is not None, "is missing")
        self.until("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=apiserver.kubernetes.io/identity", lambda found: found and found["items"], "no Lease")
        told = lambda found: found and all(item.get("status", {}).get("conditions") for item in found["items"])
        self.until(f"{FLOW}/flowschemas", lambda found: told(found) and len(found["items"]) >= 11, "FlowSchemas without a condition")
        self.until(SERVICES, told, "APIServices without a condition")

    def objects(self):
        """All objects, by resource, namespace and name."""
        found = {}
        _, core = self.ask("GET", "/api/v1")
        _, groups = self.ask("GET", "/apis")
        places = [("/api/v1", core)]
        for group in groups["groups"]:
            path = "/apis/" + group["preferredVersion"]["groupVersion"]
            places.append((path, self.ask("GET", path)[1]))
        for path, resources in places:
            if isinstance(resources, str):
                # The group of an APIService that is not available.
                continue
            for resource in resources["resources"]:
                # Events of both groups are the same objects; componentstatuses are none.
                if "list" not in resource["verbs"] or resource["name"] == "componentstatuses" or (path.startswith("/apis/events") and resource["name"] == "events"):
                    continue
                # A kube-apiserver that has just started answers 429 of custom resources.
                answer = self.until(f"{path}/{resource['name']}", lambda found: found is not None, "cannot be listed")
                for item in answer["items"]:
                    # kube-apiserver's repair writes one when it looks between the creation of the Service and that of its address: a matter of time.
                    if resource["name"] == "events" and item.get("involvedObject", {}).get("name") == "kubernetes":
                        continue
                    metadata = item["metadata"]
                    item = {"apiVersion": path.rsplit("/apis/")[-1].removeprefix("/api/"), "kind": resource["kind"], **item}
                    found["/".join([resource["name"], *filter(None, [metadata.get("namespace"), metadata["name"]])])] = item
        return found


def normal(value, name=""):
    """Without what no two servers have in common."""
    if isinstance(value, dict):
        return {key: normal(inner, key) for key, inner in value.items() if key not in ("uid", "resourceVersion")}
    if isinstance(value, list):
        inner = [normal(item, name) for item in value]
        if name == "managedFields":
            inner.sort(key=lambda entry: (entry.get("manager", ""), entry.get("operation", ""), entry.get("subresource", "")))
        return inner
    if isinstance(value, str):
        if name in ("time", "creationTimestamp", "lastTransitionTime"):
            return "TIME" if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value) else value
        if name in ("renewTime", "acquireTime"):
            return "MICROTIME" if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", value) else value
        if name == "kubernetes.io/peer-advertise-address":
            return re.sub(r":\d+$", ":PORT", value)
        if name == "holderIdentity":
            return re.sub(r"_[0-9a-f-]{36}$", "_UUID", value)
    if value in (THEIRS, OURS) and name in ("port", "targetPort"):
        return "PORT"
    return value


def differences(theirs, ours, path=""):
    """Where two values differ, in words."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            if key not in ours:
                yield f"{path}.{key}: missing here, there {json.dumps(theirs[key])[:300]}"
            elif key not in theirs:
                yield f"{path}.{key}: only here: {json.dumps(ours[key])[:300]}"
            else:
                yield from differences(theirs[key], ours[key], f"{path}.{key}")
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (their, our) in enumerate(zip(theirs, ours)):
            yield from differences(their, our, f"{path}[{index}]")
    elif theirs != ours:
        yield f"{path}: there {json.dumps(theirs)[:300]}, here {json.dumps(ours)[:300]}"


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stderr=subprocess.DEVNULL)


class Stage:
    """Everything that runs."""

    def __init__(self, peers, watchcache, advertise):
        self.peers, self.watchcache, self.advertise, self.dir, self.children = peers, watchcache, advertise, tempfile.mkdtemp(), {}
        os.chdir(self.dir)
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-subj", "/CN=fresh-ca", "-days", "2", "-out", "ca.crt")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "srv.key", "-subj", "/CN=fresh-server", "-out", "srv.csr")
        pathlib.Path("srv.ext").write_text("subjectAltName=IP:127.0.0.1")
        openssl("x509", "-req", "-in", "srv.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out", "srv.crt", "-extfile", "srv.ext")
        openssl("genrsa", "-out", "sa.key", "2048")
        pathlib.Path("tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')
        self.common = [
            "--tls-cert-file=srv.crt", "--tls-private-key-file=srv.key", "--bind-address=127.0.0.1", f"--advertise-address={advertise}", "--token-auth-file=tokens.csv",
            "--client-ca-file=ca.crt", "--requestheader-client-ca-file=ca.crt", "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-", "--authorization-mode=RBAC",
            "--service-account-key-file=sa.key", "--service-account-signing-key-file=sa.key", "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24"]

    def start(self, name, *command):
        with open(f"{name}.log", "ab") as log:
            self.children[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def etcd(self):
        self.start("etcd", f"{self.peers}/etcd", "--data-dir=etcd", f"--listen-client-urls=http://127.0.0.1:{ETCD}", f"--advertise-client-urls=http://127.0.0.1:{ETCD}",
                   f"--listen-peer-urls=http://127.0.0.1:{PEER}", f"--initial-advertise-peer-urls=http://127.0.0.1:{PEER}", f"--initial-cluster=default=http://127.0.0.1:{PEER}")

    def theirs(self):
        self.start("kube-apiserver", f"{self.peers}/kube-apiserver", f"--etcd-servers=http://127.0.0.1:{ETCD}", f"--secure-port={THEIRS}",
                   "--disable-admission-plugins=ServiceAccount", "--cert-dir=certs", *self.common)
        return Server("kube-apiserver", THEIRS)

    def ours(self):
        # Without the controllers of a kube-controller-manager, which a kube-apiserver does not have.
        self.start("watchcache", self.watchcache, "serve", "--data-dir=data", "--controllers=", f"--secure-port={OURS}", *self.common)
        return Server("watchcache", OURS)

    def stop(self, name):
        child = self.children.pop(name)
        child.terminate()
        try:
            child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    def close(self):
        for child in self.children.values():
            child.kill()
            child.wait()
        os.chdir("/")
        shutil.rmtree(self.dir)

    def logs(self):
        for name in ["kube-apiserver", "watchcache"]:
            path = pathlib.Path(self.dir, f"{name}.log")
            if path.exists():
                print(f"--- {name}", *path.read_text(errors="replace").splitlines()[-20:], sep="\n", file=sys.stderr)


def record(server):
    """Keeps what nobody but kube-apiserver says."""
    objects = server.objects()
    chosen = [found for found in objects.values() if found["kind"] in KINDS]
    chosen.sort(key=lambda found: (KINDS.index(found["kind"]), int(found["metadata"]["resourceVersion"]) if found["kind"] == "PriorityClass" else 0, found["metadata"]["name"]))
    lines = []
    for found in chosen:
        metadata = {key: value for key, value in found["metadata"].items() if key in ("name", "annotations", "labels")}
        lines.append({**{key: value for key, value in found.items() if key != "status"}, "metadata": metadata})
    RECORDED.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    lease = next(key for key, found in objects.items() if found["kind"] == "Lease")
    LEASE.write_text(f"{os.uname().nodename} {lease.rsplit('/', 1)[1]}\n")
    print(f"{len(lines)} objects in {RECORDED}, {LEASE.read_text().strip()}")


def compared(theirs, ours, when):
    """Prints how the objects of both differ; returns how many differ that are not listed."""
    theirs, ours = ({key: normal(found) for key, found in server.objects().items()} for server in (theirs, ours))
    wrong = 0
    for key in sorted(theirs.keys() | ours.keys()):
        if key not in ours or key not in theirs:
            found = [f"{'missing' if key not in ours else 'only'} here"]
        else:
            found = list(differences(theirs[key], ours[key]))
        listed = [any(re.search(pattern, f"{key} {line}") for pattern, _ in LISTED) for line in found]
        wrong += not all(listed)
        for line, is_listed in zip(found, listed):
            print(f"{'listed' if is_listed else 'DIFFERS'} {when}: {key} {line}")
    kinds = sorted({key.split("/")[0] for key in theirs})
    print(f"{when}: {len(theirs)} objects of {len(kinds)} resources there, {len(ours)} here, {wrong} differ")
    return wrong


def changed(server):
    """What an administrator and definitions do; each step ends when the server has answered it."""
    ask, until = server.ask, server.until
    condition = lambda found: found and [c["reason"] for c in found.get("status", {}).get("conditions", [])]
    assert ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)[0] == 201
    for version in ["v1", "v2"]:
        until(f"{SERVICES}/{version}.ex.io", lambda found: condition(found) == ["Local"], "no APIService of a definition")
    assert ask("DELETE", f"{SERVICES}/v1.ex.io")[0] == 200
    until(f"{SERVICES}/v1.ex.io", lambda found: condition(found) == ["Local"], "an APIService of a definition does not come back")
    patch = {"spec": {"versions": [{**version, "served": version["name"] == "v1"} for version in DEFINITION["spec"]["versions"]]}}
    assert ask("PATCH", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.ex.io", patch, MERGE)[0] == 200
    until(f"{SERVICES}/v2.ex.io", lambda found: found is None, "the APIService of a version that is not served")
    remote = {"metadata": {"name": "v1.remote.example"}, "spec": {"group": "remote.example", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
                                                                  "insecureSkipTLSVerify": True, "service": {"name": "nobody", "namespace": "default"}}}
    assert ask("POST", SERVICES, remote)[0] == 201
    until(f"{SERVICES}/v1.remote.example", lambda found: condition(found) == ["ServiceNotFound"], "no reason")
    assert ask("GET", "/apis/remote.example/v1/x")[0] == 503 and ask("GET", "/apis/remote.example/v1")[0] == 503
    assert ask("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "nobody"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}})[0] == 201
    until(f"{SERVICES}/v1.remote.example", lambda found: condition(found) == ["ServicePortError"], "no reason")
    assert ask("PATCH", "/api/v1/namespaces/default/services/nobody", {"spec": {"ports": [{"port": 443}]}}, MERGE)[0] == 200
    until(f"{SERVICES}/v1.remote.example", lambda found: condition(found) == ["EndpointsNotFound"], "no reason")
    assert ask("POST", f"{FLOW}/flowschemas", {"metadata": {"name": "lost"}, "spec": {"priorityLevelConfiguration": {"name": "nowhere"}, "matchingPrecedence": 900}})[0] == 201
    until(f"{FLOW}/flowschemas/lost", lambda found: condition(found) == ["NotFound"], "a lost FlowSchema")
    for path in [f"{FLOW}/flowschemas/probes", f"{FLOW}/prioritylevelconfigurations/system", f"{SERVICES}/v1.batch", "/api/v1/namespaces/default/services/kubernetes", "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1",
                 "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"]:
        assert ask("DELETE", path)[0] in (200, 404), path
    status, answer = ask("DELETE", f"{CLASSES}/system-node-critical")
    assert (status, answer["message"]) == (403, 'priorityclasses.scheduling.k8s.io "system-node-critical" is forbidden: this is a system priority class and cannot be deleted')
    assert ask("DELETE", CLASSES)[0] == 200
    for name, annotation in [("catch-all", "false"), ("global-default", "true"), ("service-accounts", "false")]:
        patch = {"metadata": {"annotations": {"apf.kubernetes.io/autoupdate-spec": annotation}}, "spec": {"matchingPrecedence": 9999 if name != "catch-all" else None}}
        if name == "catch-all":
            del patch["spec"]
        assert ask("PATCH", f"{FLOW}/flowschemas/{name}", patch, MERGE)[0] == 200, name
    until(f"{FLOW}/flowschemas/probes", lambda found: condition(found) == ["Found"], "a FlowSchema does not come back")
    until(f"{FLOW}/flowschemas/global-default", lambda found: found["spec"]["matchingPrecedence"] == 9900, "a FlowSchema that was changed")
    until(f"{FLOW}/flowschemas/catch-all", lambda found: found["metadata"]["annotations"]["apf.kubernetes.io/autoupdate-spec"] == "true", "a mandatory FlowSchema")
    until(f"{FLOW}/prioritylevelconfigurations/system", lambda found: found is not None, "a level does not come back")
    until("/api/v1/namespaces/default/services/kubernetes", lambda found: found is not None, "the Service kubernetes does not come back")
    status, found = ask("GET", f"{FLOW}/flowschemas/service-accounts")
    assert status == 200 and found["spec"]["matchingPrecedence"] == 9999, "an administrator's"
    for path in [f"{SERVICES}/v1.batch", f"{CLASSES}/system-node-critical", "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking"]:
        assert ask("GET", path)[0] == 404, f"{server.name}: {path} comes back before the next start"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers")
    parser.add_argument("watchcache")
    parser.add_argument("--advertise", default="192.0.2.7")
    parser.add_argument("--record", action="store_true")
    args = parser.parse_args()
    stage = Stage(os.path.abspath(args.peers), os.path.abspath(args.watchcache), args.advertise)
    try:
        stage.etcd()
        theirs = stage.theirs()
        theirs.settled()
        if args.record:
            return record(theirs)
        ours = stage.ours()
        ours.settled()
        wrong = compared(theirs, ours, "fresh")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(changed, (theirs, ours)))
        wrong += compared(theirs, ours, "changed")
        for name, start in [("kube-apiserver", stage.theirs), ("watchcache", stage.ours)]:
            stage.stop(name)
            start().settled()
        for server in (theirs, ours):
            server.until(f"{SERVICES}/v1.batch", lambda found: found and found.get("status"), "an APIService after a start")
        wrong += compared(theirs, ours, "started again")
        if wrong:
            raise SystemExit(1)
    except BaseException:
        stage.logs()
        raise
    finally:
        stage.close()


if __name__ == "__main__":
    main()
