#!/usr/bin/env python3
"""Compares what a read replica answers with what the kube-apiserver behind it answers, of objects that have every field of that kube-apiserver's release.

    tests/peers/minors.py PEERS RELEASE WATCHCACHE [SEED]

PEERS has etcd and the kube-apiserver of RELEASE (1.37.2). Starts both and a replica (the program WATCHCACHE) on loopback: PORT (default 21230) and the four after
it. Objects are made by `schema.py golden` and written into etcd as that kube-apiserver stores them; every stored resource is then asked for on both sides: a list and
an object as JSON, protobuf, metadata and Table, and a watch; and as five other users: a list, an object and a watch as JSON. Prints what differs, and which requests the replica has forwarded. Ends with 1 when anything differs.
"""

import base64
import collections
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
PORT = int(os.environ.get("PORT", "21230"))
KUBE, ETCD, PEER, OURS = PORT, PORT + 1, PORT + 2, PORT + 3
# A kube-apiserver acts upon these: made at random they would change what it does.
LEFT_ALONE = {"apiservices", "customresourcedefinitions", "flowschemas", "prioritylevelconfigurations", "namespaces", "clusterroles", "clusterrolebindings", "roles",
              "rolebindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
              "validatingwebhookconfigurations", "mutatingwebhookconfigurations", "servicecidrs", "ipaddresses", "leases"}
PROTOBUF = "application/vnd.kubernetes.protobuf"
FORMS = {
    "JSON": "application/json",
    "protobuf": PROTOBUF,
    "metadata": "application/json;as=PartialObjectMetadata%s;g=meta.k8s.io;v=v1",
    "Table": "application/json;as=Table;g=meta.k8s.io;v=v1",
}
CONTEXT = ssl._create_unverified_context()


ADMIN = {"Authorization": "Bearer admintoken"}


def ask(port, path, accept="application/json", method="GET", body=None, timeout=30, kind="application/json", who=ADMIN):
    headers = {**who, "Accept": accept, "User-Agent": "minors", "Content-Type": kind}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers, method=method, data=body)
    try:
        with urllib.request.urlopen(request, context=CONTEXT, timeout=timeout) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def etcd(call, body):
    request = urllib.request.Request(f"http://127.0.0.1:{ETCD}/v3/kv/{call}", data=json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def text(data):
    return base64.b64encode(data).decode()


def field(number, data):
    def varint(value):
        out = b""
        while value >= 0x80:
            out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
        return out + bytes([value])

    return varint(number << 3 | 2) + varint(len(data)) + data


def wait(port, child):
    for _ in range(600):
        try:
            if ask(port, "/readyz", timeout=2) == (200, b"ok"):
                return
        except OSError:
            pass
        if child.poll() is not None:
            break
        time.sleep(0.25)
    sys.exit(f"the server on port {port} is not ready")


def start(children, peers, ours, there, flags):
    """Adds etcd, the kube-apiserver and the replica."""
    for name in ("ca", "proxy", "accounts"):
        subprocess.run(["openssl", "genrsa", "-out", f"{there}/{name}.key", "2048"], check=True, stderr=subprocess.DEVNULL)
    subprocess.run(["openssl", "req", "-x509", "-new", "-key", f"{there}/ca.key", "-subj", "/CN=ca", "-days", "9", "-out", f"{there}/ca.crt"], check=True)
    (there / "ext").write_text("extendedKeyUsage=clientAuth")
    subprocess.run(["openssl", "req", "-new", "-key", f"{there}/proxy.key", "-subj", "/CN=front-proxy", "-out", f"{there}/proxy.csr"], check=True)
    subprocess.run(["openssl", "x509", "-req", "-in", f"{there}/proxy.csr", "-CA", f"{there}/ca.crt", "-CAkey", f"{there}/ca.key", "-CAcreateserial", "-days", "9",
                    "-extfile", f"{there}/ext", "-out", f"{there}/proxy.crt"], check=True, stderr=subprocess.DEVNULL)
    (there / "tokens.csv").write_text('admintoken,admin,1,"system:masters"\nviewtoken,viewer,3,viewers\nnodetoken,system:node:n,4,"system:nodes"\n')
    url, peer = f"http://127.0.0.1:{ETCD}", f"http://127.0.0.1:{PEER}"
    log = lambda name: open(there / f"{name}.log", "wb")
    children.append(subprocess.Popen([f"{peers}/etcd", "--data-dir", f"{there}/etcd", "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peer,
                                  "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"], stdout=log("etcd"), stderr=subprocess.STDOUT))
    common = ["--etcd-servers", url, "--token-auth-file", f"{there}/tokens.csv"]
    children.append(subprocess.Popen(
        [f"{peers}/kube-apiserver", *common, "--secure-port", str(KUBE), "--bind-address", "127.0.0.1", "--advertise-address", "192.0.2.7",
         "--cert-dir", f"{there}/certs", "--service-account-key-file", f"{there}/accounts.key", "--service-account-signing-key-file", f"{there}/accounts.key",
         "--service-account-issuer", "https://kubernetes.default.svc", "--service-cluster-ip-range", "10.0.0.0/24", "--authorization-mode", "RBAC",
         "--endpoint-reconciler-type", "none", "--disable-admission-plugins", "ServiceAccount", "--requestheader-client-ca-file", f"{there}/ca.crt",
         "--requestheader-allowed-names", "front-proxy", "--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
         "--requestheader-extra-headers-prefix", "X-Remote-Extra-", "--requestheader-uid-headers", "X-Remote-Uid", *flags],
        stdout=log("kube-apiserver"), stderr=subprocess.STDOUT))
    wait(KUBE, children[-1])
    children.append(subprocess.Popen(
        [ours, "serve", *common, "--secure-port", str(OURS), "--bind-address", "127.0.0.1", "--tls-cert-file", f"{there}/certs/apiserver.crt",
         "--tls-private-key-file", f"{there}/certs/apiserver.key", "--service-account-key-file", f"{there}/accounts.key", "--service-account-issuer", "https://kubernetes.default.svc",
         "--authorization-mode", "RBAC", "--upstream-server", f"https://127.0.0.1:{KUBE}",
         "--upstream-cafile", f"{there}/certs/apiserver.crt", "--proxy-client-cert-file", f"{there}/proxy.crt", "--proxy-client-key-file", f"{there}/proxy.key"],
        stdout=log("ours"), stderr=subprocess.STDOUT))
    wait(OURS, children[-1])


def resources():
    """Every resource that the kube-apiserver lists: group version, name, kind, whether it is in namespaces."""
    versions = ["/api/v1"] + [f"/apis/{version['groupVersion']}" for group in json.loads(ask(KUBE, "/apis")[1])["groups"] for version in group["versions"]]
    for version in versions:
        for one in json.loads(ask(KUBE, version)[1])["resources"]:
            if "/" not in one["name"] and "watch" in one["verbs"]:
                yield version, one["name"], one["kind"], one["namespaced"]


def stored_under(version, name):
    """The part of a key that stands for a resource."""
    group = version.removeprefix("/apis/").split("/")[0] if version != "/api/v1" else ""
    own = {"services": "services/specs", "endpoints": "services/endpoints", "nodes": "minions", "replicationcontrollers": "controllers", "leases": "leases",
           "ingresses": "ingress", "events": "events"}
    if name in own:
        return own[name]
    legacy = {"", "apps", "batch", "autoscaling", "policy", "networking.k8s.io", "storage.k8s.io", "rbac.authorization.k8s.io", "scheduling.k8s.io",
              "admissionregistration.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "node.k8s.io", "resource.k8s.io", "certificates.k8s.io",
              "flowcontrol.apiserver.k8s.io", "storagemigration.k8s.io", "events.k8s.io"}
    return name if group in legacy else f"{group}/{name}"


def put(key, api_version, kind, message):
    envelope = field(1, field(1, api_version.encode()) + field(2, kind.encode())) + field(2, message) + b"\x1a\x00\x22\x00"
    etcd("put", {"key": text(key.encode()), "value": text(b"k8s\0" + envelope)})


def fill(release, seed):
    """Writes an object of each kind into etcd, with all fields. Returns how many."""
    made = subprocess.run([sys.executable, HERE / "schema.py", "filled", release, seed, "100"], check=True, stdout=subprocess.PIPE, text=True).stdout
    messages = {tuple(line.split("\t")[:2]): base64.b64decode(line.split("\t")[2]) for line in made.splitlines()}
    storage, names = {}, {}
    for version, name, kind, namespaced in resources():
        api_version = version.removeprefix("/apis/").removeprefix("/api/")
        if name in LEFT_ALONE or (api_version, kind) not in messages:
            continue
        at = stored_under(version, name)
        # Of several versions the one that it stores is not told; what is read is converted from any.
        storage.setdefault(at, (api_version, kind, namespaced))
        names[api_version, kind] = name
    for at, (api_version, kind, namespaced) in sorted(storage.items()):
        key = f"/registry/{at}/{'default/' if namespaced else ''}filled"
        put(key, api_version, kind, messages[api_version, kind])
        # As it would have stored it: with its defaults.
        path = f"/{'apis' if '/' in api_version else 'api'}/{api_version}/{'namespaces/default/' if namespaced else ''}{names[api_version, kind]}/filled"
        status, whole = ask(KUBE, path, PROTOBUF)
        if status != 200:
            sys.exit(f"{path}: {status} {whole}")
        etcd("put", {"key": text(key.encode()), "value": text(whole)})
    return len(storage)


def older():
    """Writes objects that were recorded from 1.36.3 into etcd, as that one stores them: a cluster that was upgraded has them so. Returns how many."""
    lines = (HERE.parent / "data/defaults/created.jsonl").read_text().splitlines()
    objects = []
    for path, got in ((line["path"], line["got"]) for line in map(json.loads, lines)):
        version, name = path.split("/namespaces/")[0] if "/namespaces/" in path else path.rsplit("/", 1)[0], path.rsplit("/", 1)[1]
        metadata = got.get("metadata", {})
        # Of these the stored version is another one.
        if name not in LEFT_ALONE and "name" in metadata and got["apiVersion"] not in ("autoscaling/v1", "events.k8s.io/v1"):
            key = "/".join(["/registry", stored_under(version, name), *([metadata["namespace"]] if "namespace" in metadata else []), metadata["name"]])
            objects.append((key, got))
    made = subprocess.run([sys.executable, HERE / "schema.py", "encode", "1.36.3"], input="".join(json.dumps(got) + "\n" for _, got in objects), check=True,
                          stdout=subprocess.PIPE, text=True).stdout.splitlines()
    for (key, got), line in zip(objects, made, strict=True):
        put(key, got["apiVersion"], got["kind"], base64.b64decode(line.split("\t")[2]))
    return len(objects)


def main():
    peers, release, ours, *rest = sys.argv[1:]
    seed = rest[0] if rest else "7"
    with tempfile.TemporaryDirectory() as there:
        children = []
        try:
            start(children, peers, ours, pathlib.Path(there), os.environ.get("KUBE_FLAGS", "").split())
            print(fill(release, seed), "kinds filled")
            print(older(), "objects as 1.36.3 has stored them")
            time.sleep(2)
            wrong, same = compare()
            print(ask(OURS, "/readyz?verbose")[1].decode())
            for line in ask(OURS, "/metrics")[1].decode().splitlines():
                if line.startswith(("watchcache_forwarded_requests_total", "watchcache_undecodable_objects")) and not line.endswith(" 0"):
                    print(line)
            compare_others(wrong, same)
            wrong["rewritten"] += rewrite()
            print(f"{release}: the same {dict(same)}, not {dict(wrong)}")
            if os.environ.get("KEEP"):
                input("Enter ends it ")
            return 1 if wrong.total() else 0
        finally:
            if os.environ.get("LOGS"):
                subprocess.run(["cp", *[str(log) for log in pathlib.Path(there).glob("*.log")], os.environ["LOGS"]], check=False)
            for child in children:
                child.kill()
                child.wait()


def compare():
    wrong, same = collections.Counter(), collections.Counter()
    for version, name, _, namespaced in resources():
        for form, accept in FORMS.items():
            for path in (f"{version}/{name}", f"{version}/{'namespaces/default/' if namespaced else ''}{name}/filled"):
                of = accept % ("List" if path.endswith(f"/{name}") else "") if "%" in accept else accept
                theirs, mine = ask(KUBE, path, of), ask(OURS, path, of)
                if without_revision(theirs, path.endswith(f"/{name}")) == without_revision(mine, path.endswith(f"/{name}")):
                    same[form] += 1
                else:
                    wrong[form] += 1
                    told(path, form, theirs, mine)
        compare_watch(f"{version}/{name}", "watch", ADMIN, wrong, same)
    return wrong, same


def compare_watch(path, form, who, wrong, same):
    path += "?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"

    def watched(port):
        status, body = ask(port, path, who=who)
        return status, b"\n".join(sorted(line for line in body.splitlines() if b'"BOOKMARK"' not in line))

    theirs, mine = watched(KUBE), watched(OURS)
    (same if theirs == mine else wrong)[form] += 1
    if theirs != mine:
        told(path, form, theirs, mine)


def others():
    """Five users besides the administrator, who may different things, and their headers."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view-all"}
    rules = [{"apiGroups": ["", "apps", "autoscaling", "storage.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    subjects = [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "viewers"}, {"kind": "ServiceAccount", "name": "other", "namespace": "default"}]
    for path, made in (
        ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "other"}}),
        (f"{rbac}/clusterroles", {"metadata": {"name": "view-all"}, "rules": rules}),
        (f"{rbac}/clusterrolebindings", {"metadata": {"name": "view-all"}, "roleRef": role, "subjects": subjects}),
    ):
        status, answer = ask(KUBE, path, method="POST", body=json.dumps(made).encode())
        if status != 201:
            sys.exit(f"{path}: {status} {answer}")
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = json.loads(ask(KUBE, "/api/v1/namespaces/default/serviceaccounts/other/token", method="POST", body=json.dumps(wanted).encode())[1])["status"]["token"]
    time.sleep(2)
    bearer = lambda token: {"Authorization": f"Bearer {token}"}
    return {"nobody": {}, "viewer": bearer("viewtoken"), "account": bearer(token), "node": bearer("nodetoken"), "impersonated": {**ADMIN, "Impersonate-User": "jane"}}


def compare_others(wrong, same):
    for user, who in others().items():
        for version, name, _, namespaced in resources():
            for path in (f"{version}/{name}", f"{version}/{'namespaces/default/' if namespaced else ''}{name}/filled"):
                theirs, mine = ask(KUBE, path, who=who), ask(OURS, path, who=who)
                is_same = without_revision(theirs, path.endswith(f"/{name}")) == without_revision(mine, path.endswith(f"/{name}"))
                (same if is_same else wrong)[user] += 1
                if not is_same:
                    told(path, user, theirs, mine)
            compare_watch(f"{version}/{name}", user, who, wrong, same)


def without_revision(answer, is_list):
    """A list's own revision is that of the moment."""
    status, body = answer
    if not is_list:
        return answer
    if body.startswith(b"k8s\0"):
        at = body.find(b"\x12", 40)
        return status, len(body), body[-64:] if at < 0 else body[120:]
    try:
        tree = json.loads(body)
    except ValueError:
        return answer
    if isinstance(tree.get("metadata"), dict):
        tree["metadata"].pop("resourceVersion", None)
    return status, json.dumps(tree)


def told(path, form, theirs, mine):
    at = next((i for i, (a, b) in enumerate(zip(theirs[1], mine[1])) if a != b), min(len(theirs[1]), len(mine[1])))
    print(f"{path} {form}: {theirs[0]} {mine[0]}, from byte {at}\n  theirs {theirs[1][max(at - 60, 0):at + 90]!r}\n  ours   {mine[1][max(at - 60, 0):at + 90]!r}")


def value(key):
    return base64.b64decode(etcd("range", {"key": text(key.encode())})["kvs"][0]["value"])


def rewrite():
    """Reads objects through the replica and writes them back as they are: nothing may change in etcd. Those that are valid as they were made."""
    wrong = 0
    hpa = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "rewritten"},
           "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}}
    base = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    status, made = ask(KUBE, base, method="POST", body=json.dumps(hpa).encode())
    made = json.loads(made)
    condition = {"type": "ScalingActive", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "r", "message": "m", "observedGeneration": 5}
    made["status"] = {"currentReplicas": 1, "desiredReplicas": 1, "currentMetrics": None, "conditions": [condition]}
    status, made = ask(KUBE, base + "/rewritten/status", method="PUT", body=json.dumps(made).encode())
    before = value("/registry/horizontalpodautoscalers/default/rewritten")
    for accept in ("application/json", PROTOBUF):
        time.sleep(1)
        status, read = ask(OURS, base + "/rewritten", accept)
        for part in ("", "/status"):
            written, answer = ask(OURS, base + "/rewritten" + part, accept, "PUT", read, kind=accept)
            after = value("/registry/horizontalpodautoscalers/default/rewritten")
            if (written, after) != (200, before):
                wrong += 1
                print(f"read as {accept} and written back{part}: {written}\n  before {before!r}\n  after  {after!r}")
    return wrong


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main())
