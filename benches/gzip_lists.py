#!/usr/bin/env python3
"""What lists in gzip leave in memory: objects change and are listed in turns, then nobody asks for anything, then one list more.

    cargo build --profile dist
    python3 benches/gzip_lists.py --etcd etcd target/dist/watchcache [OTHER...] [--objects 20000] [--rounds 30] [--rest 720]

Starts an etcd, a server that writes, and one server of each program, all on loopback; the servers follow the same etcd. Prints the RSS of each in MB.
"""

import argparse
import http.client
import json
import random
import subprocess
import tempfile
import time

MAPS = "/api/v1/namespaces/default/configmaps"
PORT = 26600  # below the ports of outgoing connections
CHANGED = 200


def start(program, port, etcd, *more):
    process = subprocess.Popen([program, "serve", f"--insecure-port={port}", f"--etcd-servers={etcd}", *more], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            if ask(http.client.HTTPConnection("127.0.0.1", port), "GET", "/readyz") == 200:
                return process
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit("a server is not ready")


def ask(connection, method, path, body=None, **headers):
    connection.request(method, path, json.dumps(body) if body else None, headers | ({"Content-Type": "application/json"} if body else {}))
    answer = connection.getresponse()
    while answer.read(1 << 20):
        pass
    return answer.status


def resident(process):
    pages = int(open(f"/proc/{process.pid}/statm").read().split()[1])
    return pages * 4096 // 1_000_000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--etcd", required=True)
    for name, default in [("objects", 20_000), ("rounds", 30), ("rest", 720)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    chance, running = random.Random(1), []
    with tempfile.TemporaryDirectory() as directory:
        url, peer = f"http://127.0.0.1:{PORT}", f"http://127.0.0.1:{PORT + 1}"
        running.append(subprocess.Popen([args.etcd, "--data-dir", f"{directory}/etcd", f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--listen-peer-urls={peer}",
                                         f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}", "--unsafe-no-fsync"], stderr=subprocess.DEVNULL))
        try:
            running.append(start(args.programs[0], PORT + 2, url, "--allow-writes"))
            writer = http.client.HTTPConnection("127.0.0.1", PORT + 2)

            def write(method, path, nth):
                text = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789 ", k=1200))
                assert ask(writer, method, path, {"metadata": {"name": f"c{nth}"}, "data": {"text": text}}) in (200, 201)

            for nth in range(args.objects):
                write("POST", MAPS, nth)
            servers = [start(program, PORT + 3 + nth, url) for nth, program in enumerate(args.programs)]
            running += servers

            def lists(accept):
                for nth in range(len(servers)):
                    connection = http.client.HTTPConnection("127.0.0.1", PORT + 3 + nth)
                    assert ask(connection, "GET", f"{MAPS}?resourceVersion=0", **{"Accept": accept, "Accept-Encoding": "gzip"}) == 200
                    connection.close()

            def tell(when):
                print(when, *[f"{resident(server)} MB" for server in servers], flush=True)

            tell("at the start:")
            for done in range(1, args.rounds + 1):
                for nth in chance.sample(range(args.objects), CHANGED):
                    write("PUT", f"{MAPS}/c{nth}", nth)
                time.sleep(0.5)
                lists("application/json")
                lists("application/vnd.kubernetes.protobuf")
                if done % 5 == 0:
                    tell(f"after {done} rounds:")
            time.sleep(args.rest)
            tell(f"after {args.rest} s without requests:")
            lists("application/json")
            tell("after one list more:")
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait(60)


main()
