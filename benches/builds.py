#!/usr/bin/env python3
"""What requests cost one build of the server and another: GET and lists in JSON and in protobuf, Tables, gzip, initial events, and PUT, over HTTP/1.1 without TLS.

    python3 benches/builds.py OLD/watchcache NEW/watchcache [--objects 4000] [--gets 4000] [--lists 20] [--puts 1000] [--rounds 6]

Starts all programs on loopback, each on an embedded store of its own, and asks one after the other, A B A B. Prints the CPU of the server for each unit of work: the median
of the rounds, and all of them. The client is slow, which does not matter: only the server's CPU is told.
"""

import argparse
import http.client
import json
import statistics
import subprocess
import tempfile
import time

PORT = 26820
MAPS = "/api/v1/namespaces/default/configmaps"
FORMS = {"JSON": "application/json", "protobuf": "application/vnd.kubernetes.protobuf"}
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
INITIAL = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=60"


class Server:
    def __init__(self, program, port, directory, objects):
        self.name, self.port, self.objects = program, port, objects
        command = [program, "serve", "--data-dir", f"{directory}/{port}", f"--insecure-port={port}"]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                if self.ask(self.client(), "/readyz") == 200:
                    break
            except OSError:
                time.sleep(0.05)
        client = self.client()
        for nth in range(objects):
            self.write(client, "POST", MAPS, nth, 0)

    def client(self):
        return http.client.HTTPConnection("127.0.0.1", self.port)

    def write(self, client, method, path, nth, turn):
        body = {"metadata": {"name": f"m{nth}", "labels": {"a": str(nth % 7)}}, "data": {"k": "x" * 900, "l": f"{turn:300}"}}
        client.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
        answer = client.getresponse()
        assert answer.read() and answer.status in (200, 201), answer.status

    def ask(self, client, path, accept="application/json", encoding="identity"):
        client.request("GET", path, headers={"Accept": accept, "Accept-Encoding": encoding})
        answer = client.getresponse()
        while answer.read(1 << 20):
            pass
        return answer.status

    def cost(self, work, units):
        """Microseconds of the server's CPU for each unit."""
        client, clock = self.client(), (~self.process.pid << 3) | 2
        before = time.clock_gettime(clock)
        work(client)
        return (time.clock_gettime(clock) - before) * 1e6 / units

    def get(self, count, accept):
        def work(client):
            for nth in range(count):
                assert self.ask(client, f"{MAPS}/m{nth % self.objects}?resourceVersion=0", accept) == 200
        return self.cost(work, count)

    def list(self, count, accept, encoding="identity"):
        def work(client):
            for _ in range(count):
                assert self.ask(client, f"{MAPS}?resourceVersion=0", accept, encoding) == 200
        return self.cost(work, count * self.objects / 1000)

    def tables(self, count):
        """All pages, as kubectl asks for them."""
        def work(client):
            for _ in range(count):
                rows, token = 0, ""
                while token is not None:
                    client.request("GET", f"{MAPS}?limit=500&continue={token}", headers={"Accept": TABLE, "Accept-Encoding": "identity"})
                    table = json.loads(client.getresponse().read())
                    rows, token = rows + len(table["rows"]), table["metadata"].get("continue")
                assert rows == self.objects, rows
        return self.cost(work, count * self.objects / 1000)

    def initial_events(self, count, accept):
        def work(_):
            for _ in range(count):
                client, read = self.client(), b""
                client.request("GET", f"{MAPS}?{INITIAL}", headers={"Accept": accept})
                answer = client.getresponse()
                while b"k8s.io/initial-events-end" not in read:
                    # The mark may come in two pieces.
                    piece = answer.read1(1 << 20)
                    assert piece, "the watch ended"
                    read = read[-64:] + piece
                client.close()
        return self.cost(work, count * self.objects / 1000)

    def put(self, count, turn):
        def work(client):
            for nth in range(count):
                self.write(client, "PUT", f"{MAPS}/m{nth % self.objects}", nth % self.objects, turn)
        return self.cost(work, count)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("programs", nargs="+")
    for flag, default in [("objects", 4000), ("gets", 4000), ("lists", 20), ("puts", 1000), ("rounds", 6)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        servers = [Server(program, PORT + nth, directory, options.objects) for nth, program in enumerate(options.programs)]
        costs = {}
        for turn in range(options.rounds + 1):
            for server in servers:
                found = {"PUT": server.put(options.puts, turn + 1)}
                for form, accept in FORMS.items():
                    found[f"GET in {form}"] = server.get(options.gets, accept)
                    # What a write left to be made is made once.
                    found[f"first LIST of 1,000 after PUT, {form}"] = server.list(1, accept)
                    found[f"LIST of 1,000 objects in {form}"] = server.list(options.lists, accept)
                    server.list(1, accept, "gzip")
                    found[f"LIST of 1,000, gzip again, {form}"] = server.list(options.lists, accept, "gzip")
                    found[f"initial events of 1,000, {form}"] = server.initial_events(options.lists, accept)
                found["Tables of 1,000, pages of 500"] = server.tables(options.lists)
                for unit, cost in found.items():
                    # The first turn warms them up.
                    costs.setdefault((unit, server.name), []).extend([cost] if turn > 0 else [])
        for (unit, name), all_of_them in sorted(costs.items()):
            print(f"{unit:38} {statistics.median(all_of_them):8.1f} µs  {[round(cost, 1) for cost in all_of_them]}  {name}")
        for server in servers:
            server.process.terminate()
            server.process.wait(20)


if __name__ == "__main__":
    main()
