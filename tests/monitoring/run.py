#!/usr/bin/env python3
"""run.py PROMQL WATCHCACHE: the expressions of the alerts and of the dashboard on what running servers answer.

Starts a server that is alone, one on an etcd (`watchcache store`), a read replica of it and one that it feeds, gives them lists, reads, writes and watches to do, scrapes /metrics of
each three times and has PROMQL (tests/peers/promql) judge: every expression parses, names only metrics and labels that are there, and gives samples. PORT (default 21760) is the
one of `watchcache store` on loopback; the others are any that are free.
"""

import concurrent.futures
import gzip
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CHART = HERE.parent.parent / "deploy/helm/watchcache/monitoring"
PORT = int(os.environ.get("PORT", "21760"))
READY_SECONDS = 120
# What is done to the servers sets these off, and no others:
FIRES = {
    # The log of the audit of `alone` is /dev/full.
    "WatchcacheAuditEventsLost",
    # `fed` has the least budget that there is.
    "WatchcacheLoadsRefused", "WatchcacheHistoryGivenUp", "WatchcacheOverBudget",
    # `replica` forwards to a server that does not answer any more, and `fed` follows that one.
    "WatchcacheUpstreamAway", "WatchcacheForwardedFails", "WatchcacheBehind",
}
# Panels for which they have nothing to show, and why.
EMPTY = set()


class Servers:
    """The programs that run, by name, with the ports of their listeners once they have told them."""

    def __init__(self, program, folder):
        self.program, self.folder, self.running, self.ports = program, folder, {}, {}

    def start(self, name, *arguments):
        log = open(self.folder / f"{name}.log", "w")
        self.running[name] = subprocess.Popen([self.program, *arguments], stdout=log, stderr=log, cwd=self.folder)

    def serve(self, name, *arguments):
        self.start(name, "serve", *arguments, "--insecure-port=auto", f"--port-file={name}.ports")

    def ready(self, name):
        began = time.monotonic()
        while True:
            if self.running[name].poll() is not None or time.monotonic() - began > READY_SECONDS:
                told = (self.folder / f"{name}.log").read_text()[-2000:]
                raise SystemExit(f"{name} is not ready:\n{told}")
            file = self.folder / f"{name}.ports"
            if file.exists() and file.read_text():
                self.ports[name] = {key: int(port) for key, port in (line.split("=") for line in file.read_text().split())}
                return
            time.sleep(0.2)

    def ask(self, name, path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[name]["INSECURE_PORT"], timeout=60)
        try:
            headers = {key.replace("_", "-"): value for key, value in headers.items()}
            connection.request(method, path, json.dumps(body) if isinstance(body, dict) else body, {"Content-Type": "application/json"} | headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except OSError as error:
            return 0, str(error).encode()
        finally:
            connection.close()

    def asked(self, name, path, *more, wanted=(200, 201), **headers):
        status, body = self.ask(name, path, *more, **headers)
        if status not in wanted:
            raise SystemExit(f"{name} {more} {path}: {status} {body[:500]}")
        return body

    def end(self):
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()


def settings(name, size):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"app": "a" if size % 2 else "b"}}, "data": {"text": str(size) * 10_000}}


def write(servers, name, path, first):
    for number in range(first, first + 20):
        servers.asked(name, path, "POST", settings(f"c-{number}", number))
    for number in range(first, first + 10):
        servers.asked(name, f"{path}/c-{number}", "PUT", settings(f"c-{number}", number + 1))
        servers.asked(name, f"{path}/c-{number}", "PATCH", json.dumps({"data": {"more": str(number)}}), Content_Type="application/merge-patch+json")
    for number in range(first, first + 5):
        servers.asked(name, f"{path}/c-{number}", "DELETE")


def read(servers, name, path):
    for query in ["", "?resourceVersion=0", "?limit=5", "?labelSelector=app%3Da", "?limit=5&resourceVersion=0"]:
        servers.asked(name, path + query)
    for _ in range(3):
        # Long enough to be made of pieces.
        assert gzip.decompress(servers.asked(name, path + "?resourceVersion=0", Accept_Encoding="gzip"))
    servers.asked(name, "/api/v1/namespaces/default")
    servers.asked(name, "/api/v1/namespaces/nowhere", wanted=(404,))
    # A page of a revision that memory no longer has is etcd's.
    servers.asked(name, path + "?resourceVersion=1&resourceVersionMatch=Exact", wanted=(200, 410))


def watch(servers, name, path):
    for query in ["sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", "resourceVersion=0", "labelSelector=app%3Da", "resourceVersion=1"]:
        servers.asked(name, f"{path}?watch=true&timeoutSeconds=4&{query}", wanted=(200, 410))


def ask_too_often(port):
    """A stranger has a hundred requests; the server closes the connection then."""
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=ssl._create_unverified_context())
    try:
        for _ in range(200):
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            connection.auto_open = 0
    except (OSError, http.client.HTTPException):
        return
    raise SystemExit("a stranger is let ask for ever")


def policy(folder):
    (folder / "policy.yaml").write_text("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n")
    return ["--audit-policy-file=policy.yaml", "--audit-log-path=/dev/full", "--audit-log-mode=batch"]


def secure(folder):
    """Flags of a listener with TLS, and of its administrator: no credentials go over plain HTTP, and a replica that is nobody compares nothing."""
    names = ["-subj", "/CN=main", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-keyout", "main.key", "-out", "main.crt", *names]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (folder / "tokens.csv").write_text("main-token,main,1,system:masters\n")
    return ["--secure-port=auto", "--bind-address=127.0.0.1", "--tls-cert-file=main.crt", "--tls-private-key-file=main.key", "--token-auth-file=tokens.csv"]


def kubeconfig(folder, port):
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "main.crt"}
    text = {
        "apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {"token": "main-token"}}],
    }
    (folder / "upstream.kubeconfig").write_text(json.dumps(text))
    return "--upstream-kubeconfig=upstream.kubeconfig"


def scrape(servers, folder):
    for name in servers.ports:
        status, text = servers.ask(name, "/metrics")
        if status == 200:
            (folder / f"{name}.{time.time_ns() // 1_000_000}").write_bytes(text)


def start(servers, folder):
    etcd = f"http://127.0.0.1:{PORT}"
    servers.start("etcd", "store", "--data-dir=etcd", f"--listen-client-urls={etcd}")
    servers.serve(
        "alone", "--data-dir=alone", "--quota-backend-bytes=1Gi", "--write-admin-kubeconfig=admin.kubeconfig", "--secure-port=auto", "--bind-address=127.0.0.1", *policy(folder)
    )
    servers.serve("main", f"--etcd-servers={etcd}", *secure(folder))
    servers.ready("alone")
    servers.ready("main")
    upstream = kubeconfig(folder, servers.ports["main"]["SECURE_PORT"])
    servers.serve("replica", f"--etcd-servers={etcd}", upstream)
    # More than three quarters of the budget of `fed`, which is less than it needs for itself.
    for number in range(30):
        large = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"large-{number}"}, "data": {"text": "x" * 900_000}}
        servers.asked("main", "/api/v1/namespaces/kube-public/configmaps", "POST", large)
    servers.serve("fed", "--source=upstream", upstream, "--memory-budget=32Mi")
    servers.ready("replica")
    servers.ready("fed")


def load(servers, folder):
    maps = "/api/v1/namespaces/default/configmaps"
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for turn in range(2):
            scrape(servers, folder)
            watches = [threads.submit(watch, servers, name, maps) for name in ["alone", "main", "replica"]]
            for name, first in [("alone", 100 * turn), ("main", 100 * turn), ("replica", 1000 + 100 * turn)]:
                write(servers, name, maps, first)
                read(servers, name, maps)
            servers.asked("replica", "/apis")
            servers.ask("fed", maps)
            ask_too_often(servers.ports["alone"]["SECURE_PORT"])
            for one in watches:
                one.result()
    scrape(servers, folder)


def lose(servers, folder):
    """The server behind `replica` and `fed` ends: what they say then."""
    servers.running["main"].kill()
    # `fed` counts as behind some seconds after its watches were lost.
    deadline, turns = time.monotonic() + 90, 0
    while turns < 4 or (b"\nwatchcache_feed_up 1" in servers.ask("fed", "/metrics")[1] and time.monotonic() < deadline):
        turns += 1
        for _ in range(30):
            servers.ask("replica", "/api/v1/namespaces/default/configmaps", "POST", settings("lost", 1))
        time.sleep(2.5)
        scrape(servers, folder)


def main():
    promql, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        scrapes = folder / "scrapes"
        scrapes.mkdir()
        servers = Servers(str(pathlib.Path(program).resolve()), folder)
        try:
            start(servers, folder)
            load(servers, scrapes)
            lose(servers, scrapes)
        finally:
            servers.end()
        if keep := os.environ.get("KEEP"):
            subprocess.run(["cp", "-r", folder, keep], check=True)
        command = [promql, "-rules", CHART / "rules.yaml", "-dashboard", CHART / "dashboard.json", "-scrapes", scrapes]
        sys.exit(subprocess.run([*command, "-fires", ",".join(sorted(FIRES)), "-empty", ",".join(sorted(EMPTY))]).returncode)


main()
