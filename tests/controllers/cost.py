#!/usr/bin/env python3
"""What the controllers of a server that is alone cost: at rest, and when there is much to clean up.

    tests/controllers/cost.py WATCHCACHE DIR [--objects 100000] [--rest SECONDS]

Fills DIR with so many objects, ConfigMaps that Secrets own, unless it is there, then starts WATCHCACHE on it with its controllers and without, and prints: how long until
/readyz, processor time at rest, resident memory; then, with the controllers, how long it takes, and how much processor time, until a namespace with 10,000 objects is gone,
and an owner of 10,000 objects with them, in the background and in the foreground. PORT (default 21895) is on loopback."""

import argparse
import http.client
import json
import multiprocessing
import os
import subprocess
import time

PORT = int(os.environ.get("PORT", "21895"))
WRITERS = 8
EACH = 10_000
SPACES = 20


class Client:
    def __init__(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)

    def ask(self, method, path, body=None):
        self.connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else text.decode()

    def made(self, path, body):
        status, answer = self.ask("POST", path, body)
        if status != 201:
            raise SystemExit(f"POST {path}: {status} {answer}")
        return answer


def owner(of, kind):
    return {"apiVersion": "v1", "kind": kind, "name": of["metadata"]["name"], "uid": of["metadata"]["uid"], "blockOwnerDeletion": True}


def make(arguments):
    """Makes objects of these numbers, each ConfigMap owned by this Secret."""
    space, of, numbers = arguments
    client = Client()
    for number in numbers:
        metadata = {"name": f"m-{number}", "ownerReferences": [owner(of, "Secret")], "labels": {"app": f"a-{number % 50}"}}
        client.made(f"/api/v1/namespaces/{space}/configmaps", {"metadata": metadata, "data": {"text": "x" * 200}})


def fill(space, count, pool):
    client = Client()
    client.made("/api/v1/namespaces", {"metadata": {"name": space}})
    top = client.made(f"/api/v1/namespaces/{space}/secrets", {"metadata": {"name": "top"}})
    pool.map(make, [(space, top, range(of, count, WRITERS)) for of in range(WRITERS)])


class Server:
    def __init__(self, program, data, *flags):
        began = time.time()
        self.log = open(f"{data}.log", "ab")
        self.child = subprocess.Popen([program, "serve", f"--data-dir={data}", f"--insecure-port={PORT}", *flags], stdout=self.log, stderr=self.log)
        while True:
            try:
                if Client().ask("GET", "/readyz")[1] == "ok":
                    break
            except OSError:
                pass
            time.sleep(0.005)
        self.ready = time.time() - began

    def cpu(self):
        fields = open(f"/proc/{self.child.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss(self):
        return next(int(line.split()[1]) >> 10 for line in open(f"/proc/{self.child.pid}/status") if line.startswith("VmRSS"))

    def end(self):
        self.child.terminate()
        self.child.wait()


def timed(server, what, begin, path):
    client, cpu, began = Client(), server.cpu(), time.time()
    begin(client)
    while client.ask("GET", path)[0] != 404:
        time.sleep(0.05)
    print(f"{what}: gone after {time.time() - began:.1f} s, {server.cpu() - cpu:.1f} s of processor time", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("watchcache")
    parser.add_argument("dir")
    parser.add_argument("--objects", type=int, default=100_000)
    parser.add_argument("--rest", type=int, default=60)
    options = parser.parse_args()
    pool = multiprocessing.Pool(WRITERS)
    if not os.path.exists(options.dir):
        server = Server(options.watchcache, options.dir)
        began = time.time()
        for number in range(SPACES):
            fill(f"rest-{number}", options.objects // SPACES, pool)
        for name in ["space", "background", "foreground"]:
            fill(name, EACH, pool)
        print(f"filled in {time.time() - began:.0f} s", flush=True)
        server.end()
    if options.rest:
        for name, flags in [("with the controllers", []), ("without", ["--controllers="])] * 2:
            server = Server(options.watchcache, options.dir, *flags)
            time.sleep(10)
            cpu = server.cpu()
            time.sleep(options.rest)
            print(f"{name}: ready after {server.ready:.2f} s, {cpu:.2f} s of processor time until 10 s after it, {server.cpu() - cpu:.2f} s in {options.rest} s at rest, {server.rss()} MB", flush=True)
            server.end()
        server = Server(options.watchcache, options.dir)
        for name in ["space", "background", "foreground"]:
            maps = f"/api/v1/namespaces/{name}/configmaps?limit=1"
            secret = f"/api/v1/namespaces/{name}/secrets/top"
            if name == "space":
                timed(server, f"a namespace with {EACH} objects", lambda client: client.ask("DELETE", "/api/v1/namespaces/space"), "/api/v1/namespaces/space")
                continue
            policy = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": name.capitalize()}
            client, cpu, began = Client(), server.cpu(), time.time()
            client.ask("DELETE", secret, policy)
            # Each namespace has kube-root-ca.crt only where an authority is known.
            while client.ask("GET", maps)[1]["items"] or client.ask("GET", secret)[0] != 404:
                time.sleep(0.05)
            print(f"an owner of {EACH} objects ({name}): they are gone after {time.time() - began:.1f} s, {server.cpu() - cpu:.1f} s of processor time", flush=True)
        server.end()


if __name__ == "__main__":
    main()
