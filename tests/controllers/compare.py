#!/usr/bin/env python3
"""What kube-controller-manager cleans up, done by it on a kube-apiserver and by watchcache alone: the same stories and the same random graphs of owners on both, and what
is left must be the same.

    tests/controllers/compare.py PEERS WATCHCACHE [--stories] [--story NAME]… [--graphs N [--begin N]] [--seed S] [--kill] [--hand-overs N] [--beside SECONDS] [--record FILE | --recorded FILE]
                                 [--flag FLAG]

PEERS has etcd, kube-apiserver and kube-controller-manager, as tests/peers/build.sh makes them. Needs openssl. PORT (default 21890) is the first of five on loopback.

--stories     those of stories.py, all at once; --story: this one, by its name
--graphs      so many graphs of twelve objects (ConfigMaps, Secrets, custom resources in two namespaces and in none) that own each other, in circles too, whose owners are
            partly not there, of another namespace or of another uid; some have finalizers, some of them are deleted in one of the three ways, in two steps. Compared are
            the survivors, with their owners and finalizers. --begin: the first of them is this one of its seed
--hand-overs  a kube-controller-manager's Lease is taken and released so often: nothing is done while it is held
--beside      for so long, a kube-controller-manager is started on watchcache and stopped, killed, told to end or left to work, again and again: nothing is done here while it
              has its Lease, be it silent, and all of it once, by one of the two
--record FILE what kube-apiserver's side came to is written there; --recorded FILE: that is compared with, and only watchcache is started
--kill        kill -9 for watchcache in the middle of each step, and a start again
Left out are uids, revisions and times."""

import argparse
import concurrent.futures
import http.client
import json
import os
import random
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time

from stories import CORE, STORIES, named, owner

PORT = int(os.environ.get("PORT", "21890"))
ETCD, PEER, THEIRS, OURS, MANAGER = range(PORT, PORT + 5)
TOKEN = "admintoken"
MERGE = "application/merge-patch+json"
BATCH = 50
OBJECTS = 12
# How often a graph is done that differs.
ATTEMPTS = 6
# What a server does later than this it does not do.
PATIENCE = int(os.environ.get("PATIENCE", "90"))
# Nothing has changed for so long: nothing will.
QUIET = 2.5

CONTROLLERS = ",".join([f"{name}-controller" for name in [
    "namespace", "garbage-collector", "serviceaccount", "serviceaccount-token", "ttl-after-finished", "certificatesigningrequest-cleaner", "token-cleaner", "bootstrap-signer",
    "pod-garbage-collector"]] + ["root-ca-certificate-publisher-controller"])

DEFINITIONS = [
    {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.ex.io"}, "spec": {
        "group": "ex.io", "scope": scope, "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}
    for plural, kind, scope in [("things", "Thing", "Namespaced"), ("worlds", "World", "Cluster")]]
# Path of the collection, apiVersion, kind.
KINDS = {
    "configmaps": ("/api/v1/namespaces/{}/configmaps", "v1", "ConfigMap"),
    "secrets": ("/api/v1/namespaces/{}/secrets", "v1", "Secret"),
    "things": ("/apis/ex.io/v1/namespaces/{}/things", "ex.io/v1", "Thing"),
    "worlds": ("/apis/ex.io/v1/worlds", "ex.io/v1", "World"),
}


class Server:
    """One of the two, as a client sees it."""

    def __init__(self, name, port, authority):
        self.name, self.port, self.authority, self.connection = name, port, authority, None
        self.tls = ssl.create_default_context(cafile=authority)

    def ask(self, method, path, body=None, kind="application/json"):
        """Status and answer; waits for a server that is being started."""
        deadline = time.time() + 60
        while True:
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.tls, timeout=60)
                headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
                self.connection.request(method, path, None if body is None else json.dumps(body), headers)
                answer = self.connection.getresponse()
                text = answer.read()
                return answer.status, json.loads(text) if text.startswith(b"{") else text.decode()
            except (OSError, http.client.HTTPException):
                self.connection = None
                if time.time() > deadline:
                    raise
                time.sleep(0.05)

    def made(self, path, body):
        status, answer = self.ask("POST", path, body)
        if status not in (200, 201):
            raise SystemExit(f"{self.name}: POST {path}: {status} {answer}")
        return answer

    def patched(self, path, patch, kind=MERGE):
        status, answer = self.ask("PATCH", path, patch, kind)
        if status != 200:
            raise SystemExit(f"{self.name}: PATCH {path}: {status} {answer}")
        return answer

    def deleted(self, path, propagation=None, **options):
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        if propagation:
            body["propagationPolicy"] = propagation
        return self.ask("DELETE", path, body)[0]

    def until(self, path, is_right, patience=PATIENCE):
        """The object when it is so; none when it is gone."""
        deadline = time.time() + patience
        while True:
            status, answer = self.ask("GET", path)
            found = answer if status == 200 else None
            if is_right(found):
                return found
            if time.time() > deadline:
                raise SystemExit(f"{self.name}: {path} is after {patience} s: {json.dumps(found)}")
            time.sleep(0.05)

    def listed(self, path):
        """The objects; a server that has just begun may not serve custom resources yet."""
        return self.until(path, lambda found: found is not None)["items"]

    def gone(self, path, patience=PATIENCE):
        self.until(path, lambda found: found is None, patience)


def story_on(story, server):
    since = time.time()
    try:
        seen = story(Server(server.name, server.port, server.authority))
    except SystemExit as end:
        seen = f"it does not come to its end: {end}"
    return seen, time.time() - since


def compared(begun, known):
    """How many stories differ."""
    wrong = 0
    for story, both in begun:
        (ours, took), *other = (one.result() for one in both)
        (theirs, needed), = other or [known["stories"][story.__name__]]
        known["stories"][story.__name__] = theirs, needed
        is_right = ours == theirs and isinstance(ours, list)
        wrong += not is_right
        print(f"{story.__name__}: {'the same' if is_right else 'differs'}, {took:.1f} s and {needed:.1f} s", flush=True)
        if not is_right:
            print(f"  ours   {json.dumps(ours)}\n  theirs {json.dumps(theirs)}")
    return wrong


def hand_overs(stage, server, count):
    """While a kube-controller-manager holds its Lease nothing is done, and all of it afterwards: of so many hand-overs, each with an object whose owner is not there, one whose
    deletion is to go first to its dependents, and a namespace."""
    maps, wrong, began = f"{CORE}/default/configmaps", 0, time.time()
    for number in range(count):
        stage.hold(server, f"host_{number}", "controllers/left-to-kube-controller-manager")
        missing = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": f"no-{number}"}
        server.made(maps, named(f"lost-{number}", [missing]))
        top = server.made(maps, named(f"first-{number}"))
        server.made(maps, named(f"then-{number}", [owner(top, blockOwnerDeletion=True)]))
        server.deleted(f"{maps}/first-{number}", "Foreground")
        server.made(CORE, named(f"space-{number}"))
        time.sleep(0.02)
        left = [server.ask("GET", path)[0] for path in [f"{maps}/lost-{number}", f"{maps}/first-{number}", f"{maps}/then-{number}"]]
        account = server.ask("GET", f"{CORE}/space-{number}/serviceaccounts/default")[0]
        if left != [200] * 3 or account != 404:
            wrong += 1
            print(f"hand-over {number}: {left}, {account}: something was done while the Lease was held")
        stage.hold(server, "", "controllers")
        for name in ["lost", "first", "then"]:
            server.gone(f"{maps}/{name}-{number}")
        server.until(f"{CORE}/space-{number}/serviceaccounts/default", lambda found: found)
        server.deleted(f"{CORE}/space-{number}")
    if count:
        for number in range(count):
            server.gone(f"{CORE}/space-{number}")
        print(f"{count} hand-overs, {wrong} wrong, {time.time() - began:.0f} s", flush=True)
    return wrong


def beside(stage, server, seconds, seed):
    """A kube-controller-manager comes and goes: whoever has the Lease does what is to be done, and nobody else does."""
    rng, maps, wrong, began, done = random.Random(f"{seed}/beside"), f"{CORE}/default/configmaps", 0, time.time(), dict.fromkeys(["works", "silent", "killed", "told to end", "too late to tell"], 0)
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager"
    number = 0
    while seconds and time.time() - began < seconds:
        way = rng.choice(list(done)[:4])
        done[way] += 1
        before = (server.until(lease, lambda found: True) or {}).get("spec", {}).get("holderIdentity")
        manager = stage.manage("beside", OURS)
        server.until(lease, lambda found: found and found["spec"].get("holderIdentity") not in (None, "", before))
        stage.says(server, "controllers/left-to-kube-controller-manager")
        # Its Lease lasts 15 s, and was renewed 2 s ago at most.
        held_until = time.time() + 12
        if way == "silent":
            manager.send_signal(signal.SIGSTOP)
        numbers = range(number, number + 5)
        number += 5
        for each in numbers:
            missing = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": f"beside-{each}"}
            server.made(maps, named(f"alone-{each}", [missing]))
            top = server.made(maps, named(f"top-{each}"))
            server.made(maps, named(f"child-{each}", [owner(top, blockOwnerDeletion=True)]))
            server.deleted(f"{maps}/top-{each}", "Foreground")
            server.made(CORE, named(f"beside-{each}"))
        if way == "silent":
            time.sleep(1)
            paths = [f"{maps}/{name}-{each}" for each in numbers for name in ["alone", "top", "child"]]
            statuses = [server.ask("GET", path)[0] for path in paths] + [404 - server.ask("GET", f"{CORE}/beside-{each}/serviceaccounts/default")[0] for each in numbers]
            if time.time() > held_until:
                done["silent"] -= 1
                done["too late to tell"] += 1
            elif set(statuses) != {200, 0}:
                wrong += 1
                print(f"something was done while the Lease was held: {statuses}")
        if way != "works":
            manager.send_signal(signal.SIGTERM if way == "told to end" else signal.SIGKILL)
            manager.wait()
        accounts = {}
        for each in numbers:
            for name in ["alone", "top", "child"]:
                server.gone(f"{maps}/{name}-{each}")
            for kind, name in [("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")]:
                path = f"{CORE}/beside-{each}/{kind}/{name}"
                accounts[path] = server.until(path, lambda found: found)["metadata"]
        if way == "works":
            stage.says(server, "controllers/left-to-kube-controller-manager")
            manager.kill()
            manager.wait()
        stage.says(server, "controllers")
        for path, metadata in accounts.items():
            now = server.until(path, lambda found: found)["metadata"]
            if (now["uid"], now["resourceVersion"]) != (metadata["uid"], metadata["resourceVersion"]):
                wrong += 1
                print(f"{path} was written twice")
        for each in numbers:
            server.deleted(f"{CORE}/beside-{each}")
    for each in range(number):
        server.gone(f"{CORE}/beside-{each}")
    if seconds:
        print(f"a kube-controller-manager beside it for {time.time() - began:.0f} s: {done}, {wrong} wrong", flush=True)
    return wrong


# Random graphs.

class Graph:
    """Objects that own each other, and what is done to them."""

    def __init__(self, number, rng):
        self.spaces = [f"g{number}-a", f"g{number}-b"]
        self.number, self.nodes, self.steps = number, [], []
        for index in range(OBJECTS):
            kind = rng.choice(["configmaps", "configmaps", "secrets", "things", "things", "worlds"])
            space = rng.choice([self.spaces[0]] * 4 + [self.spaces[1]])
            owners = []
            for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3])):
                lie = rng.choices(["", "uid", "name", "kind"], [20, 1, 1, 1])[0]
                owners.append((rng.randrange(OBJECTS), rng.choice([True, False, None]), lie))
            finalizers = rng.choices([[], ["ex.io/hold"], ["foregroundDeletion"], ["orphan"]], [16, 3, 1, 1])[0]
            self.nodes.append((kind, space, f"g{number}-n{index}", owners, finalizers))
        for _ in range(2):
            deleted = [(rng.randrange(OBJECTS), rng.choice(["Background", "Foreground", "Orphan"])) for _ in range(rng.choice([1, 1, 2]))]
            self.steps.append(deleted)

    def path(self, index):
        kind, space, name, *_ = self.nodes[index]
        return f"{KINDS[kind][0].format(space)}/{name}"

    def make(self, server):
        """All objects first, and then who owns whom: only then can there be circles."""
        made = []
        for kind, space, name, _, finalizers in self.nodes:
            path, version, of = KINDS[kind]
            made.append(server.made(path.format(space), {"apiVersion": version, "kind": of, **named(name, finalizers=finalizers)}))
        for index, (*_, owners, _) in enumerate(self.nodes):
            references, uids = [], set()
            for of, blocks, lie in owners:
                kind = KINDS[self.nodes[of][0]]
                reference = {"apiVersion": kind[1], "kind": kind[2], "name": self.nodes[of][2], "uid": made[of]["metadata"]["uid"]}
                reference |= {"uid": {"uid": f"wrong-{of}"}, "name": {"name": "nobody"}, "kind": {"kind": "Secret", "apiVersion": "v1"}, "": {}}[lie]
                if blocks is not None:
                    reference["blockOwnerDeletion"] = blocks
                if reference["uid"] not in uids and of != index:
                    references.append(reference)
                    uids.add(reference["uid"])
            if references:
                server.ask("PATCH", self.path(index), {"metadata": {"ownerReferences": references}}, MERGE)

    def left(self, server):
        """The survivors: with whom they name, in which words, and what holds them."""
        left = {}
        for index, (*_, name, _, _) in enumerate(self.nodes):
            status, found = server.ask("GET", self.path(index))
            if status == 200:
                metadata = found["metadata"]
                told = ([o["name"], o["uid"] if o["uid"].startswith("wrong") else "", o.get("blockOwnerDeletion")] for o in metadata.get("ownerReferences", []))
                owners = sorted(told, key=json.dumps)
                left[f"{self.path(index)}"] = [owners, sorted(metadata.get("finalizers", [])), "deletionTimestamp" in metadata]
        return left

    def release(self, server):
        for index, (*_, finalizers) in enumerate(self.nodes):
            if finalizers == ["ex.io/hold"]:
                status, found = server.ask("GET", self.path(index))
                left = [f for f in found["metadata"].get("finalizers", []) if f != "ex.io/hold"] if status == 200 else []
                if status == 200:
                    server.ask("PATCH", self.path(index), {"metadata": {"finalizers": left}}, MERGE)


def state(server):
    """All revisions there are of the objects of graphs."""
    lists = ["/api/v1/configmaps", "/api/v1/secrets", "/apis/ex.io/v1/things", "/apis/ex.io/v1/worlds"]
    items = [[item["metadata"] for item in server.listed(path)] for path in lists]
    return [sorted((m["uid"], m["resourceVersion"]) for m in some if m["name"].startswith("g") and "-n" in m["name"]) for some in items]


def quiet(servers):
    since, before = time.time(), [state(server) for server in servers]
    deadline = since + PATIENCE
    while time.time() - since < QUIET:
        time.sleep(0.3)
        now = [state(server) for server in servers]
        if now != before:
            since, before = time.time(), now
        if time.time() > deadline:
            raise SystemExit("there is no end of it")


def run(stage, servers, batch, kill):
    """What is left on each server after each step of each graph."""
    left = [{graph.number: [] for graph in batch} for _ in servers]
    stage.pause(servers)
    for server in servers:
        for graph in batch:
            for space in graph.spaces:
                server.made(CORE, named(space))
            graph.make(server)
    stage.resume(servers)
    quiet(servers)
    for step in range(3):
        for server in servers:
            for graph in batch:
                if step == 2:
                    graph.release(server)
                    continue
                for index, propagation in graph.steps[step]:
                    server.deleted(graph.path(index), propagation)
            if kill and server.name == "watchcache":
                stage.kill()
        quiet(servers)
        for of, server in zip(left, servers):
            for graph in batch:
                of[graph.number].append(graph.left(server))
    for server in servers:
        for path in ["/apis/ex.io/v1/worlds"] + [f"{KINDS[kind][0].format(space)}" for graph in batch for space in graph.spaces for kind in list(KINDS)[:3]]:
            for item in server.listed(path):
                if item["metadata"].get("finalizers"):
                    server.ask("PATCH", f"{path}/{item['metadata']['name']}", {"metadata": {"finalizers": None}}, MERGE)
            if path.endswith("worlds"):
                server.ask("DELETE", path, {"propagationPolicy": "Background"})
        for graph in batch:
            for space in graph.spaces:
                server.deleted(f"{CORE}/{space}")
    for server in servers:
        for graph in batch:
            for space in graph.spaces:
                server.gone(f"{CORE}/{space}")
    return left


def graphs(stage, servers, begin, count, seed, kill, known):
    """What comes first when much happens at once is chance, on both: what differs is done again, and one outcome at least must be of both."""
    wrong, again = 0, 0
    for first in range(begin, begin + count, BATCH):
        batch = [Graph(number, random.Random(f"{seed}/{number}")) for number in range(first, min(first + BATCH, begin + count))]
        outcomes = {graph.number: ([], known["graphs"].setdefault(f"{seed}/{graph.number}", [])) for graph in batch}
        left = batch
        for attempt in range(ATTEMPTS):
            if not left:
                break
            again += len(left) if attempt else 0
            for of, seen in enumerate(run(stage, servers, left, kill)):
                for number, outcome in seen.items():
                    outcomes[number][of].append(outcome)
            left = [graph for graph in left if not any(outcome in outcomes[graph.number][1] for outcome in outcomes[graph.number][0])]
        for graph in left:
            wrong += 1
            ours, theirs = outcomes[graph.number]
            print(f"graph {graph.number} of seed {seed}:\n  nodes {graph.nodes}\n  steps {graph.steps}\n  ours   {ours[0]}\n  theirs {theirs[0]}")
        print(f"{first + len(batch) - begin} graphs, {again} done again, {wrong} differ", flush=True)
    return wrong


# The servers.

def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stderr=subprocess.DEVNULL)


class Stage:
    """Everything that runs."""

    def __init__(self, peers, watchcache, flags):
        self.peers, self.watchcache, self.flags = peers, watchcache, flags
        self.dir, self.children, self.ours, self.manager = tempfile.mkdtemp(), [], None, None

    def path(self, name):
        return os.path.join(self.dir, name)

    def start(self, name, *command):
        log = open(self.path(f"{name}.log"), "ab")
        child = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.dir)
        self.children.append(child)
        return child

    def certificates(self):
        os.chdir(self.dir)
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-subj", "/CN=controllers-ca", "-days", "2", "-out", "ca.crt")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "srv.key", "-subj", "/CN=controllers-server", "-out", "srv.csr")
        with open("srv.ext", "w") as file:
            file.write("subjectAltName=IP:127.0.0.1")
        openssl("x509", "-req", "-in", "srv.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-out", "srv.crt", "-extfile", "srv.ext")
        openssl("genrsa", "-out", "sa.key", "2048")
        openssl("rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub")
        with open("tokens.csv", "w") as file:
            file.write(f'{TOKEN},admin,1,"system:masters"\n')
        for port in [OURS, THEIRS]:
            with open(f"kubeconfig-{port}", "w") as file:
                json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                           "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority": self.path("ca.crt")}}],
                           "users": [{"name": "u", "user": {"token": TOKEN}}]}, file)

    def begin(self, is_recorded):
        """Starts the servers; when the other side is recorded only ours."""
        self.certificates()
        self.tls = ["--tls-cert-file=srv.crt", "--tls-private-key-file=srv.key", "--bind-address=127.0.0.1", "--token-auth-file=tokens.csv", "--authorization-mode=RBAC"]
        self.serve()
        servers = [Server("watchcache", OURS, self.path("ca.crt"))]
        if not is_recorded:
            self.serve_theirs()
            servers.append(Server("kube-apiserver", THEIRS, self.path("ca.crt")))
        for server in servers:
            deadline = time.time() + 180
            while server.ask("GET", "/readyz")[1] != "ok":
                if time.time() > deadline:
                    raise SystemExit(f"{server.name} is not ready")
                time.sleep(0.1)
            for definition in DEFINITIONS:
                server.made("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            for plural in ["things", "worlds"]:
                server.until(f"/apis/ex.io/v1/{plural}", lambda found: found)
        if not is_recorded:
            self.manager = self.manage("kube-controller-manager", THEIRS, "--leader-elect=false")
        for server in servers:
            server.until(f"{CORE}/default/serviceaccounts/default", lambda found: found)
        return servers

    def serve_theirs(self):
        url, peer = f"http://127.0.0.1:{ETCD}", f"http://127.0.0.1:{PEER}"
        self.start("etcd", f"{self.peers}/etcd", "--data-dir=etcd", f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--listen-peer-urls={peer}",
                   f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}")
        self.start("kube-apiserver", f"{self.peers}/kube-apiserver", *self.tls, f"--etcd-servers={url}", f"--secure-port={THEIRS}", "--advertise-address=127.0.0.1",
                   "--service-account-key-file=sa.pub", "--service-account-signing-key-file=sa.key", "--service-account-issuer=https://kubernetes.default.svc",
                   "--service-cluster-ip-range=10.0.0.0/16", "--enable-priority-and-fairness=false", "--disable-admission-plugins=ServiceAccount", "--cert-dir=certs")

    def manage(self, name, server, *flags):
        """Starts a kube-controller-manager for the server at this port."""
        return self.start(name, f"{self.peers}/kube-controller-manager", f"--kubeconfig=kubeconfig-{server}", "--root-ca-file=ca.crt",
                          f"--secure-port={MANAGER if server == THEIRS else 0}", "--bind-address=127.0.0.1", "--service-account-private-key-file=sa.key", "--kube-api-qps=2000",
                          "--kube-api-burst=2000", "--cert-dir=manager", f"--controllers={CONTROLLERS}", *flags)

    def serve(self):
        self.ours = self.start("watchcache", self.watchcache, "serve", *self.tls, "--insecure-port=0", f"--secure-port={OURS}", "--data-dir=store", "--root-ca-file=ca.crt",
                               "--service-account-key-file=sa.pub", "--service-account-signing-key-file=sa.key", "--service-account-issuer=https://kubernetes.default.svc",
                               f"--controllers={CONTROLLERS}", "--disable-admission-plugins=ServiceAccount", *self.flags)

    def kill(self):
        self.ours.send_signal(signal.SIGKILL)
        self.ours.wait()
        self.serve()

    def pause(self, servers):
        """Nobody acts: graphs are made whole first. Ours believes that a kube-controller-manager holds its Lease."""
        if self.manager:
            self.manager.send_signal(signal.SIGSTOP)
        self.hold(servers[0], "compare", "controllers/left-to-kube-controller-manager")

    def resume(self, servers):
        self.hold(servers[0], "", "controllers")
        if self.manager:
            self.manager.send_signal(signal.SIGCONT)

    def hold(self, server, holder, check):
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        lease = {"metadata": {"name": "kube-controller-manager"}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 3600}}
        if server.ask("POST", path, lease)[0] != 201:
            server.patched(f"{path}/kube-controller-manager", lease)
        self.says(server, check)

    def says(self, server, check):
        """Waits until the server says so of its controllers."""
        deadline = time.time() + PATIENCE
        while f"[+]{check} ok" not in server.ask("GET", "/readyz?verbose")[1]:
            if time.time() > deadline:
                raise SystemExit(f"/readyz does not say {check}")
            time.sleep(0.02)

    def end(self):
        for child in self.children:
            child.kill()
            child.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers")
    parser.add_argument("watchcache")
    parser.add_argument("--stories", action="store_true")
    parser.add_argument("--story", action="append", default=[], choices=[story.__name__ for story in STORIES])
    parser.add_argument("--graphs", type=int, default=0)
    parser.add_argument("--begin", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--hand-overs", type=int, default=0)
    parser.add_argument("--beside", type=int, default=0)
    parser.add_argument("--record", type=os.path.abspath)
    parser.add_argument("--recorded", type=os.path.abspath)
    parser.add_argument("--flag", action="append", default=[], help="one more flag of watchcache")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))
    stage = Stage(os.path.abspath(options.peers), os.path.abspath(options.watchcache), options.flag)
    known = {"stories": {}, "graphs": {}}
    if options.recorded:
        with open(options.recorded) as file:
            known = json.load(file)
    try:
        servers = stage.begin(options.recorded)
        wrong = 0
        # All at once, for most of the time kube-controller-manager waits.
        threads = concurrent.futures.ThreadPoolExecutor(2 * len(STORIES))
        begun = [(story, [threads.submit(story_on, story, server) for server in servers]) for story in STORIES if options.stories or story.__name__ in options.story]
        if options.kill or options.hand_overs or options.beside:
            wrong += compared(begun, known)
            begun = []
        wrong += hand_overs(stage, servers[0], options.hand_overs)
        wrong += beside(stage, servers[0], options.beside, options.seed)
        wrong += graphs(stage, servers, options.begin, options.graphs, options.seed, options.kill, known)
        wrong += compared(begun, known)
        if options.record:
            with open(options.record, "w") as file:
                json.dump(known, file)
        if wrong:
            raise SystemExit(f"{wrong} differ")
    except SystemExit:
        for name in ["watchcache", "kube-controller-manager"][:1 if options.recorded else 2]:
            with open(stage.path(f"{name}.log"), errors="replace") as file:
                print(f"{name}:", *(line[:300] for line in file.read().splitlines()[-5:]), sep="\n ", file=sys.stderr)
        raise
    finally:
        stage.end()


if __name__ == "__main__":
    main()
