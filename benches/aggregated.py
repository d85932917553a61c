#!/usr/bin/env python3
"""What heavy custom resources cost a cluster, served by an aggregated watchcache and by the cluster itself.

    python3 benches/aggregated.py --etcd etcd --kube-apiserver kube-apiserver --watchcache target/dist/watchcache [--objects 50000] [--watchers 200] [--events 200]

Starts etcd and a kube-apiserver, and watchcache behind an APIService of it. Creates the same objects of two groups through the kube-apiserver: one is ours, the other has a CustomResourceDefinition of the
cluster. Then watches of each, and writes. Prints for each group what the cluster's etcd and the three processes hold more, and the CPU of all processes for each write, list and event. Needs openssl.
"""

import argparse
import base64
import concurrent.futures
import http.client
import json
import os
import subprocess
import tempfile
import threading
import time

import hand_on
import processes

ETCD, API, OURS = 26981, 26983, 26984
JSON = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
CLIENTS = 8


def definition(group):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"reports.{group}"}, "spec": {
        "group": group, "scope": "Namespaced", "names": {"plural": "reports", "kind": "Report", "singular": "report", "listKind": "ReportList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}]}}


def report(group, nth, turn=0):
    return {"apiVersion": f"{group}/v1", "kind": "Report", "metadata": {"name": f"r{nth}", "labels": {"a": str(nth % 7)}}, "spec": {"text": "x" * 900, "turn": turn}}


class Bench(hand_on.Bench):
    def __init__(self, options):
        url = f"http://127.0.0.1:{ETCD}"
        self.etcd = processes.etcd(options.etcd, "etcd", ETCD, "--quota-backend-bytes=8589934592")
        self.running = [self.etcd]
        time.sleep(1)
        remote = [f"--requestheader-{flag}={value}" for flag, value in hand_on.REMOTE] + ["--requestheader-client-ca-file=fp.crt", "--requestheader-allowed-names=proxy"]
        remote += ["--proxy-client-cert-file=proxy.crt", "--proxy-client-key-file=proxy.key"]
        self.api = self.start(options.kube_apiserver, [
            f"--etcd-servers={url}", "--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--token-auth-file=tokens.csv", "--service-account-key-file=sa.pub",
            "--service-account-signing-key-file=sa.key", "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC", "--bind-address=127.0.0.1",
            f"--secure-port={API}", "--cert-dir=certs", "--advertise-address=127.0.0.1", "--service-cluster-ip-range=10.0.0.0/24"] + remote)
        self.context = hand_on.ssl.create_default_context(cafile="ca.crt")
        self.ready(API)
        host = {"clusters": [{"name": "a", "cluster": {"server": f"https://127.0.0.1:{API}", "certificate-authority": os.path.abspath("ca.crt")}}],
                "users": [{"name": "a", "user": {"token": "admintoken"}}], "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}]}
        json.dump(host, open("host.kubeconfig", "w"))
        os.mkdir("definitions")
        json.dump(definition("ours.example"), open("definitions/reports.json", "w"))
        hand_on.shell("printf subjectAltName=DNS:wc.default.svc > wc.ext && openssl req -newkey rsa:2048 -nodes -keyout wc.key -subj /CN=wc -out wc.csr && "
                      "openssl x509 -req -in wc.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 3 -extfile wc.ext -out wc.crt")
        self.ours = self.start(options.watchcache, ["serve", "--data-dir=store", "--kubeconfig=host.kubeconfig", "--definitions=definitions", f"--secure-port={OURS}", "--insecure-port=0",
                                                    "--bind-address=127.0.0.1", "--tls-cert-file=wc.crt", "--tls-private-key-file=wc.key"])
        self.make("/api/v1/namespaces/default/services", {"metadata": {"name": "wc"}, "spec": {"type": "ExternalName", "externalName": "localhost"}})
        bundle = base64.b64encode(open("ca.crt", "rb").read()).decode()
        self.make("/apis/apiregistration.k8s.io/v1/apiservices", {"metadata": {"name": "v1.ours.example"}, "spec": {
            "group": "ours.example", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100, "caBundle": bundle, "service": {"name": "wc", "namespace": "default", "port": OURS}}})
        self.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("theirs.example"))
        for group in ("ours.example", "theirs.example"):
            while self.ask(self.client(API), "GET", f"/apis/{group}/v1/reports") != 200:
                time.sleep(0.2)

    def make(self, path, body):
        status = self.ask(self.client(API), "POST", path, body)
        assert status == 201, (path, status)

    def all(self, work, count):
        """Does work(client, nth) for each number, by some clients at once."""
        def some(part):
            client = self.client(API)
            for nth in range(part, count, CLIENTS):
                work(client, nth)
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(some, range(CLIENTS)))

    def processes(self):
        return {"etcd": self.etcd, "kube-apiserver": self.api, "watchcache": self.ours}

    def held(self):
        """Megabytes: resident of each process, and of the cluster's database."""
        resident = {name: processes.resident(process) for name, process in self.processes().items()}
        return resident | {"database": os.path.getsize("etcd/member/snap/db") / (1 << 20), "our store": sum(os.path.getsize(f"store/{file}") for file in os.listdir("store")) / (1 << 20)}

    def cpu(self):
        return {name: processes.cpu(process) for name, process in self.processes().items()}


def watches(bench, path, count, events):
    """Opens watches, and returns a function that waits until each has seen so many events."""
    done = threading.Barrier(count + 1)
    connections = []
    for _ in range(count):
        client = bench.client(API)
        client.request("GET", f"{path}?watch=1&fieldSelector=metadata.name%3Dr0&resourceVersion=0", headers=JSON)
        connections.append(client.getresponse())

    def read(answer):
        for _ in range(events + 1):
            assert answer.readline()
        done.wait()
    for answer in connections:
        threading.Thread(target=read, args=(answer,), daemon=True).start()
    return done.wait


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for program in ("etcd", "kube-apiserver", "watchcache"):
        arguments.add_argument(f"--{program}", required=True, type=os.path.abspath)
    for flag, default in [("objects", 50_000), ("watchers", 200), ("events", 200), ("lists", 5)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        hand_on.credentials()
        bench = Bench(options)
        rows = []

        def measure(group, what, units, work):
            before, held = bench.cpu(), bench.held()
            work()
            after = bench.cpu()
            rows.append((f"{what}, {group}", {name: (after[name] - before[name]) * 1e6 / units for name in after}))
            return held
        for group in ("ours.example", "theirs.example"):
            path = f"/apis/{group}/v1/namespaces/default/reports"

            def create(client, nth):
                status = bench.ask(client, "POST", path, report(group, nth))
                assert status == 201, status

            def lists():
                client = bench.client(API)
                for _ in range(options.lists):
                    client.request("GET", f"{path}?resourceVersion=0", headers=JSON)
                    answer = client.getresponse()
                    assert answer.status == 200
                    while answer.read(1 << 20):
                        pass

            def events(wait):
                client = bench.client(API)
                for turn in range(options.events):
                    assert bench.ask(client, "PUT", f"{path}/r0", report(group, 0, turn + 1) | {"metadata": {"name": "r0", "resourceVersion": version(client, path)}}) == 200
                wait()
            held = measure(group, "POST", options.objects, lambda: bench.all(create, options.objects))
            time.sleep(5)
            more = {name: size - held[name] for name, size in bench.held().items()}
            print(f"{options.objects} objects of {group}, MB more:", {name: round(size) for name, size in more.items()})
            measure(group, "LIST of 1,000", options.lists * options.objects / 1000, lists)
            wait = watches(bench, path, options.watchers, options.events)
            measure(group, f"PUT with {options.watchers} watches of it", options.events, lambda: events(wait))
        for what, costs in rows:
            print(f"{what:45}", {name: f"{cost:.0f} µs" for name, cost in costs.items()})
        bench.stop()


def version(client, path):
    client.request("GET", f"{path}/r0", headers=JSON)
    return json.loads(client.getresponse().read())["metadata"]["resourceVersion"]


if __name__ == "__main__":
    main()
