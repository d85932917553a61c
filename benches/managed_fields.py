#!/usr/bin/env python3
"""What Pods that a control plane wrote cost in memory, and lists of them in CPU, by builds of the server.

    python3 benches/managed_fields.py http://127.0.0.1:2379 OLD/watchcache NEW/watchcache [--pods 20000] [--rounds 6]

The etcd has running Pods in the namespace `default`, which a kube-apiserver with `--storage-media-type=application/json`, kube-controller-manager, kube-scheduler and (hollow)
kubelets have written; nothing writes to it any more. They are multiplied: other names, uids, owners, addresses, times. Then each build follows this etcd, A B A B."""

import argparse
import base64
import http.client
import json
import random
import re
import statistics
import subprocess
import time
import urllib.request
import uuid

LISTS = {
    "LIST of all, JSON": ("/api/v1/pods?resourceVersion=0", "application/json"),
    "metadata of all": ("/api/v1/pods?resourceVersion=0", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
    "Table of 500": ("/api/v1/pods?limit=500", "application/json;as=Table;v=v1;g=meta.k8s.io"),
}
PORT = 26840


class Etcd:
    def __init__(self, url):
        self.url = url

    def ask(self, what, **members):
        body = json.dumps({name: base64.b64encode(value.encode()).decode() for name, value in members.items()}).encode()
        request = urllib.request.Request(f"{self.url}/v3/kv/{what}", body, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))

    def running(self):
        found = self.ask("range", key="/registry/pods/default/", range_end="/registry/pods/default0").get("kvs", [])
        pods = [base64.b64decode(one["value"]).decode() for one in found]
        return [pod for pod in pods if '"phase":"Running"' in pod]

    def multiply(self, count):
        """Bytes of JSON, and of them managed fields."""
        chance, pods, written, managed = random.Random(1), self.running(), 0, 0
        address = lambda: f"10.{chance.randrange(250)}.{chance.randrange(250)}.{chance.randrange(250)}"
        for nth in range(count):
            text = pods[nth % len(pods)]
            metadata, status = json.loads(text)["metadata"], json.loads(text)["status"]
            name, namespace, ip, new = f"{metadata['name']}-{nth}", f"pods-{nth % 10}", status["podIP"], address()
            text = text.replace(metadata["name"], name).replace(metadata["uid"], str(uuid.UUID(int=chance.getrandbits(128))))
            text = text.replace(metadata["ownerReferences"][0]["uid"], str(uuid.UUID(int=nth // 50 + 10**30)))
            text = text.replace(f'"{ip}"', f'"{new}"').replace(f'\\"{ip}\\"', f'\\"{new}\\"').replace('"namespace":"default"', f'"namespace":"{namespace}"')
            text = re.sub(r'(T\d\d):\d\d:\d\dZ"', lambda hour: f'{hour[1]}:{chance.randrange(60):02}:{chance.randrange(60):02}Z"', text)
            self.ask("put", key=f"/registry/pods/{namespace}/{name}", value=text)
            written, managed = written + len(text), managed + len(json.dumps(metadata["managedFields"], separators=(",", ":")))
        return written, managed


class Server:
    def __init__(self, program, port, etcd):
        self.name, self.port, began = program, port, time.time()
        self.process = subprocess.Popen([program, "serve", f"--etcd-servers={etcd}", f"--insecure-port={port}"], stderr=subprocess.DEVNULL)
        while self.ask("/readyz", "*/*") != 200:
            time.sleep(0.05)
        self.ready = time.time() - began

    def ask(self, path, accept):
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        try:
            client.request("GET", path, headers={"Accept": accept, "Accept-Encoding": "identity"})
            answer = client.getresponse()
            while answer.read(1 << 20):
                pass
            return answer.status
        except OSError:
            return None
        finally:
            client.close()

    def cpu(self):
        return time.clock_gettime((~self.process.pid << 3) | 2)

    def anonymous(self):
        """MB."""
        status = dict(line.split(":", 1) for line in open(f"/proc/{self.process.pid}/status"))
        return int(status["RssAnon"].split()[0]) / 1000


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("etcd")
    arguments.add_argument("programs", nargs="+")
    for flag, default in [("pods", 20000), ("rounds", 6)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    options = arguments.parse_args()
    written, managed = Etcd(options.etcd).multiply(options.pods)
    print(f"{options.pods} Pods, {written / 1e6:.1f} MB of JSON, of them {managed / 1e6:.1f} MB managed fields")
    servers = [Server(program, PORT + nth, options.etcd) for nth, program in enumerate(options.programs)]
    time.sleep(10)
    for server in servers:
        print(f"{server.name}: ready after {server.ready:.1f} s, {server.cpu():.2f} s CPU; {server.anonymous():.0f} MB anonymous")
    costs = {}
    for turn in range(options.rounds + 1):
        for server in servers:
            for what, (path, accept) in LISTS.items():
                before = server.cpu()
                assert server.ask(path, accept) == 200
                # The first turn warms them up.
                costs.setdefault((what, server.port), []).extend([(server.cpu() - before) * 1e3] if turn else [])
    for what in LISTS:
        for server in servers:
            rounds = costs[what, server.port]
            print(f"{what:20} {statistics.median(rounds):8.1f} ms CPU  {[round(cost, 1) for cost in rounds]}  {server.name}")
    for server in servers:
        print(f"{server.name}: {server.anonymous():.0f} MB anonymous after lists")
        server.process.terminate()
        server.process.wait(20)


if __name__ == "__main__":
    main()
