#!/usr/bin/env python3
"""What a write costs with few and with many watches whose label selectors do not match it.

    cargo build --profile dist
    python3 benches/label_watches.py --etcd etcd target/dist/watchcache [--watches 1000 10000] [--writes 1000] [--rounds 5]

Starts an etcd, a server that writes, and the server with the watches, on connections of their own over plain HTTP/1.1; the numbers of watches take turns. Prints the CPU of the server for each of
100 writes a second, less what it takes at rest. Needs as many open files as there are watches.
"""

import argparse
import resource
import socket
import tempfile
import time

from processes import ask, cpu, etcd, plain, serve

MAPS = "/api/v1/namespaces/default/configmaps"
ETCD, WRITER, SERVER = 26700, 26702, 26703
OBJECTS, RATE, SETTLE, REST = 100, 100, 4, 5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--etcd", required=True)
    parser.add_argument("--watches", type=int, nargs="+", default=[1000, 10000])
    for name, default in [("writes", 1000), ("rounds", 5)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    running, watches, follow = [], [], f"--etcd-servers=http://127.0.0.1:{ETCD}"
    with tempfile.TemporaryDirectory() as directory:
        try:
            running.append(etcd(args.etcd, directory, ETCD))
            running.append(serve(args.program, WRITER, follow, "--allow-writes"))
            writer = plain(WRITER)

            def write(method, path, nth, text):
                labels = {"app": f"a{nth}"}
                assert ask(writer, method, path, {"metadata": {"name": f"c{nth}", "labels": labels}, "data": {"text": f"{text:1200}"}}) in (200, 201)

            for nth in range(OBJECTS):
                write("POST", MAPS, nth, "")
            server = serve(args.program, SERVER, follow)
            running.append(server)
            for round in range(args.rounds):
                for count in args.watches:
                    while len(watches) > count:
                        watches.pop().close()
                    while len(watches) < count:
                        watch = socket.create_connection(("127.0.0.1", SERVER))
                        watch.sendall(f"GET {MAPS}?watch=1&resourceVersion=0&labelSelector=app%3Dother{len(watches)} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
                        watches.append(watch)
                    time.sleep(SETTLE)
                    before, began = cpu(server), time.time()
                    time.sleep(REST)
                    rest = (cpu(server) - before) / (time.time() - began)
                    before, began = cpu(server), time.time()
                    for nth in range(args.writes):
                        write("PUT", f"{MAPS}/c{nth % OBJECTS}", nth % OBJECTS, f"{round} {count} {nth}")
                        time.sleep(max(0, began + (nth + 1) / RATE - time.time()))
                    net = cpu(server) - before - rest * (time.time() - began)
                    print(f"{count} watches: {net / args.writes * 1e6:.1f} µs a write; at rest {rest * 1e3:.2f} ms a second", flush=True)
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait(60)


main()
