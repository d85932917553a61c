#!/usr/bin/env python3
"""What definitions of real projects take in memory: a watchcache on its embedded store, beside a kube-apiserver and its etcd.

    tests/differential/run.sh PEERS watchcache benches/definitions.py --folders FOLDER… [--counts 28,500]

FOLDERs are searched for YAML files of CustomResourceDefinitions; the first file of each name counts. When there are fewer than a count says, they come again
under other groups. Both servers get them in the same order, one after the other, as YAML.
"""

import argparse
import http.client
import os
import pathlib
import re
import ssl
import time
from urllib.parse import urlsplit

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# How long a server is left alone before its memory is read, seconds.
REST = 15


def documents(folders):
    found = {}
    for folder in folders:
        for file in sorted(pathlib.Path(folder).rglob("*.yaml")):
            for text in re.split(r"(?m)^---.*\n", file.read_text(errors="replace")):
                name = re.search(r"(?m)^  name: *\"?([a-z0-9.-]+)", text)
                if re.search(r"(?m)^kind: CustomResourceDefinition\s*$", text) and name and "{{" not in text:
                    found.setdefault(name[1], text)
    return found


def copies(found, count):
    for turn in range(1 + count // max(len(found), 1)):
        for name, text in found.items():
            group = name.split(".", 1)[1]
            yield text if turn == 0 else text.replace(group, f"copy{turn}.{group}")


class Server:
    def __init__(self, name, url, options, *pids):
        at = urlsplit(url)
        self.client = http.client.HTTPSConnection(at.hostname, at.port, context=ssl.create_default_context(cafile=options.ca), timeout=120)
        self.name, self.token, self.pids = name, options.token, [int(pid) for pid in pids]

    def ask(self, method, path, body=None):
        # `api-approved` is missing in copies of what belongs to Kubernetes' own groups; nobody else is asked.
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/yaml"}
        self.client.request(method, path, body, headers)
        answer = self.client.getresponse()
        return answer.status, answer.read()

    def memory(self, pid, row):
        return next(int(line.split()[1]) / 1024 for line in open(f"/proc/{pid}/status") if line.startswith(row + ":"))

    def report(self, what):
        rows = ", ".join(f"{self.memory(pid, 'VmRSS'):.1f} resident {self.memory(pid, 'RssAnon'):.1f} anonymous" for pid in self.pids)
        print(f"{self.name:16} {what:32} MiB {rows}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for flag in ("ours", "theirs", "ca", "token", "known"):
        arguments.add_argument(f"--{flag}")
    arguments.add_argument("--folders", nargs="+", required=True)
    arguments.add_argument("--counts", default="28,500")
    options = arguments.parse_args()
    found, counts = documents(options.folders), [int(count) for count in options.counts.split(",")]
    texts = list(copies(found, max(counts)))
    print(f"{len(found)} definitions, {sum(map(len, found.values())) / 1e6:.1f} MB of YAML")
    servers = [
        Server("watchcache", options.ours, options, os.environ["WATCHCACHE_PID"]),
        Server("kube-apiserver", options.theirs, options, os.environ["KUBE_APISERVER_PID"], os.environ["ETCD_PID"]),
    ]
    for server in servers:
        time.sleep(REST)
        server.report("empty")
        done = refused = 0
        spent = time.time()
        for text in texts:
            status, answer = server.ask("POST", DEFINITIONS, text.encode())
            if status != 201:
                refused += 1
                print(f"{server.name}: {status} {answer[:300]}")
                continue
            done += 1
            if done in counts:
                took = time.time() - spent
                time.sleep(REST)
                server.report(f"{done} definitions, {took:.1f} s")
                if done == max(counts):
                    break
        print(f"{server.name}: {done} created, {refused} refused")


if __name__ == "__main__":
    main()
