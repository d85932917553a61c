#!/usr/bin/env python3
"""Whether a long answer that a read replica hands on takes memory: gigabytes of a log through it, also with a client that rests.

    python3 benches/stream.py --etcd etcd --watchcache target/dist/watchcache [--gigabytes 10]

Starts etcd, a server in this program that answers as no API server would but without an end, and a replica in front of it; reads, rests for ten seconds in the middle, and reads on. Prints the memory of the replica
before, at most and after, and its CPU for each gigabyte.
"""

import argparse
import http.server
import os
import socket
import subprocess
import tempfile
import threading
import time

import processes

ETCD, UPSTREAM, REPLICA = 26901, 26903, 26904
PIECE = b"x" * (1 << 20)
LOG = "/api/v1/namespaces/default/pods/p/log?follow=true"


class Endless(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        if not self.path.startswith("/api/"):
            self.send_header("Content-Length", "2")
            self.end_headers()
            return self.wfile.write(b"{}")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while True:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(PIECE), PIECE))
        except OSError:
            self.close_connection = True

    def log_message(self, *_):
        pass


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for program in ("etcd", "watchcache"):
        arguments.add_argument(f"--{program}", required=True, type=os.path.abspath)
    arguments.add_argument("--gigabytes", type=int, default=10)
    options = arguments.parse_args()
    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", UPSTREAM), Endless)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        etcd = processes.etcd(options.etcd, "etcd", ETCD)
        replica = subprocess.Popen([options.watchcache, "serve", f"--etcd-servers=http://127.0.0.1:{ETCD}", f"--insecure-port={REPLICA}", f"--upstream-server=http://127.0.0.1:{UPSTREAM}"], stderr=subprocess.DEVNULL)
        try:
            for _ in range(200):
                try:
                    client = socket.create_connection(("127.0.0.1", REPLICA))
                    client.sendall(b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                    if client.recv(100).startswith(b"HTTP/1.1 200"):
                        break
                except OSError:
                    pass
                time.sleep(0.2)
            before, cpu, most, read, wanted, rested = processes.resident(replica), processes.cpu(replica), 0, 0, options.gigabytes << 30, False
            client = socket.create_connection(("127.0.0.1", REPLICA))
            client.sendall(f"GET {LOG} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            buffer, looked = memoryview(bytearray(1 << 20)), 0
            while read < wanted:
                read += client.recv_into(buffer) or exit("the stream has ended")
                if read - looked > 64 << 20:
                    looked, most = read, max(most, processes.resident(replica))
                if not rested and read > wanted // 2:
                    time.sleep(10)
                    rested, most = True, max(most, processes.resident(replica))
            cpu = processes.cpu(replica) - cpu
            client.close()
            time.sleep(5)
            print(f"{options.gigabytes} GB: {before:.0f} MB before, {most:.0f} MB at most, {processes.resident(replica):.0f} MB after; CPU of the replica {cpu / options.gigabytes:.2f} s for each GB")
        finally:
            replica.terminate()
            etcd.terminate()
            replica.wait(30)
            etcd.wait(30)


if __name__ == "__main__":
    main()
