#!/usr/bin/env python3
"""What reads cost one build of the server and another: GET, and lists in JSON and in protobuf, over HTTP/1.1 without TLS.

    python3 benches/reads.py OLD/watchcache NEW/watchcache [--objects 4000] [--gets 4000] [--lists 20] [--rounds 6]

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

PORT = 36820
MAPS = "/api/v1/namespaces/default/configmaps"
FORMS = {"JSON": "application/json", "protobuf": "application/vnd.kubernetes.protobuf"}


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
            body = {"metadata": {"name": f"m{nth}", "labels": {"a": str(nth % 7)}}, "data": {"k": "x" * 900, "l": "y" * 300}}
            client.request("POST", MAPS, json.dumps(body), {"Content-Type": "application/json"})
            answer = client.getresponse()
            assert answer.read() and answer.status == 201, answer.status

    def client(self):
        return http.client.HTTPConnection("127.0.0.1", self.port)

    def ask(self, client, path, accept="application/json"):
        client.request("GET", path, headers={"Accept": accept, "Accept-Encoding": "identity"})
        answer = client.getresponse()
        while answer.read(1 << 20):
            pass
        return answer.status

    def cost(self, paths, accept, units):
        """Microseconds of the server's CPU for each unit."""
        client, clock = self.client(), (~self.process.pid << 3) | 2
        before = time.clock_gettime(clock)
        for path in paths:
            assert self.ask(client, path, accept) == 200, path
        return (time.clock_gettime(clock) - before) * 1e6 / units


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("programs", nargs="+")
    for flag, default in [("objects", 4000), ("gets", 4000), ("lists", 20), ("rounds", 6)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        servers = [Server(program, PORT + nth, directory, options.objects) for nth, program in enumerate(options.programs)]
        costs = {}
        for turn in range(options.rounds + 1):
            for server in servers:
                gets = [f"{MAPS}/m{nth % options.objects}?resourceVersion=0" for nth in range(options.gets)]
                found = {"GET": server.cost(gets, FORMS["JSON"], options.gets)}
                for form, accept in FORMS.items():
                    lists = [f"{MAPS}?resourceVersion=0"] * options.lists
                    found[f"LIST of 1,000 objects in {form}"] = server.cost(lists, accept, options.lists * options.objects / 1000)
                for unit, cost in found.items():
                    # The first turn warms them up.
                    costs.setdefault((unit, server.name), []).extend([cost] if turn > 0 else [])
        for (unit, name), all_of_them in sorted(costs.items()):
            print(f"{unit:34} {statistics.median(all_of_them):8.1f} µs  {[round(cost, 1) for cost in all_of_them]}  {name}")
        for server in servers:
            server.process.terminate()
            server.process.wait(20)


if __name__ == "__main__":
    main()
