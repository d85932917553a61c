#!/usr/bin/env python3
"""What lists in gzip leave in memory: objects change and are listed in turns, then nobody asks for anything, then one list more.

    cargo build --profile dist
    python3 benches/gzip_lists.py --etcd etcd target/dist/watchcache [OTHER...] [--objects 20000] [--rounds 30] [--rest 720]

Starts an etcd, a server that writes, and one server of each program, all on loopback; the servers follow the same etcd. Prints the RSS of each in MiB.
"""

import argparse
import random
import tempfile
import time

from processes import ask, etcd, plain, resident, serve

MAPS = "/api/v1/namespaces/default/configmaps"
ETCD, WRITER, FIRST = 26600, 26602, 26603
CHANGED = 200


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--etcd", required=True)
    for name, default in [("objects", 20_000), ("rounds", 30), ("rest", 720)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    chance, running, follow = random.Random(1), [], f"--etcd-servers=http://127.0.0.1:{ETCD}"
    with tempfile.TemporaryDirectory() as directory:
        try:
            running.append(etcd(args.etcd, directory, ETCD))
            running.append(serve(args.programs[0], WRITER, follow, "--allow-writes"))
            writer, servers = plain(WRITER), []

            def write(method, path, nth):
                text = "".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789 ", k=1200))
                assert ask(writer, method, path, {"metadata": {"name": f"c{nth}"}, "data": {"text": text}}) in (200, 201)

            def lists(accept):
                for nth in range(len(servers)):
                    assert ask(plain(FIRST + nth), "GET", f"{MAPS}?resourceVersion=0", headers={"Accept": accept, "Accept-Encoding": "gzip"}) == 200

            def tell(when):
                print(when, *[f"{resident(server):.0f} MiB" for server in servers], flush=True)

            for nth in range(args.objects):
                write("POST", MAPS, nth)
            for nth, program in enumerate(args.programs):
                servers.append(serve(program, FIRST + nth, follow))
                running.append(servers[nth])
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
