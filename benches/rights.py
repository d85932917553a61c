#!/usr/bin/env python3
"""What it costs the server to decide who may: RBAC and tokens of service accounts beside AlwaysAllow and the token file.

    cargo build --profile dist
    python3 benches/rights.py target/dist/watchcache [--objects 5000] [--gets 10000] [--lists 20] [--watchers 1000] [--events 100] [--rounds 3] [--etcd etcd --kube-apiserver kube-apiserver]

Starts one server after the other on loopback, A B A B, each on an embedded store of its own behind TLS, and prints the CPU of the server for each unit of work. Needs openssl. The client is slow, which does not matter: only the server's CPU is told.
"""

import argparse
import base64
import http.client
import json
import os
import selectors
import shutil
import ssl
import subprocess
import tempfile
import threading
import time

import processes

MAPS = "/api/v1/namespaces/default/configmaps"
PORT = 26500


class Server:
    def __init__(self, program, directory, rbac):
        self.dir, self.rbac = directory, rbac
        command = [program, "serve", "--data-dir", f"{directory}/data", "--bind-address=127.0.0.1", f"--secure-port={PORT}", f"--insecure-port={PORT + 1}"]
        command += ["--tls-cert-file", f"{directory}/../tls.crt", "--tls-private-key-file", f"{directory}/../tls.key"]
        command += ["--token-auth-file", f"{directory}/../tokens.csv", f"--authorization-mode={'Node,RBAC' if rbac else 'AlwaysAllow'}"]
        self.process = subprocess.Popen(command, stderr=open(f"{directory}/log", "w"))
        self.wait()
        self.token = self.account() if rbac else "filetoken"

    def wait(self):
        for _ in range(2400):  # two minutes: kube-apiserver takes 20 s and more on two cores
            try:
                if self.plain("GET", "/readyz")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise SystemExit(f"the server is not ready: {open(f'{self.dir}/log').read()[-2000:]}")

    def plain(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", PORT + 1)
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def make(self, path, body):
        status, answer = self.plain("POST", path, body)
        assert status == 201, answer
        return json.loads(answer)

    def account(self):
        """A service account that may read ConfigMaps, and its token."""
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        self.make("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "reader"}})
        self.make(f"{rbac}/clusterroles", {"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]})
        self.make(f"{rbac}/namespaces/default/rolebindings", {
            "metadata": {"name": "reader"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}]})
        time.sleep(1)
        return self.make("/api/v1/namespaces/default/serviceaccounts/reader/token", {"spec": {"expirationSeconds": 7200}})["status"]["token"]

    def cpu(self):
        return processes.cpu(self.process)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


class Peer(Server):
    """A kube-apiserver in the same place, with RBAC and the token of a service account."""

    def __init__(self, programs, directory):
        self.dir, self.rbac = directory, True
        url = f"http://127.0.0.1:{PORT + 2}"
        self.etcd = processes.etcd(programs[0], f"{directory}/etcd", PORT + 2)
        subprocess.run(f"openssl genrsa -out {directory}/sa.key 2048 && openssl rsa -in {directory}/sa.key -pubout -out {directory}/sa.pub", shell=True, check=True, stderr=subprocess.DEVNULL)
        open(f"{directory}/tokens.csv", "w").write('admintoken,admin,1,"system:masters"\n')
        time.sleep(1)
        self.process = subprocess.Popen([
            programs[1], f"--etcd-servers={url}", f"--secure-port={PORT}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--cert-dir={directory}/certs",
            f"--tls-cert-file={directory}/../tls.crt", f"--tls-private-key-file={directory}/../tls.key", f"--token-auth-file={directory}/tokens.csv", "--authorization-mode=Node,RBAC",
            f"--service-account-key-file={directory}/sa.pub", f"--service-account-signing-key-file={directory}/sa.key", "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24"], stderr=open(f"{directory}/log", "w"))
        self.wait()
        self.token = self.account()

    def plain(self, method, path, body=None):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", PORT, context=context)
        connection.request(method, path, json.dumps(body) if body else None, {"Authorization": "Bearer admintoken"} | ({"Content-Type": "application/json"} if body else {}))
        answer = connection.getresponse()
        return answer.status, answer.read()

    def stop(self):
        super().stop()
        self.etcd.terminate()
        self.etcd.wait(20)


def client(context):
    return http.client.HTTPSConnection("127.0.0.1", PORT, context=context)


def gets(server, context, count, objects):
    def some(part):
        connection = client(context)
        for nth in range(part):
            connection.request("GET", f"{MAPS}/m{nth % objects}?resourceVersion=0", headers={"Authorization": f"Bearer {server.token}"})
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
    before = server.cpu()
    threads = [threading.Thread(target=some, args=(count // 2,)) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return (server.cpu() - before) / count


def lists(server, context, count):
    connection, before = client(context), server.cpu()
    for _ in range(count):
        connection.request("GET", f"{MAPS}?resourceVersion=0", headers={"Authorization": f"Bearer {server.token}", "Accept-Encoding": "identity"})
        answer = connection.getresponse()
        assert answer.status == 200
        while answer.read(1 << 20):
            pass
    return (server.cpu() - before) / count


def fan_out(server, context, watchers, events):
    """CPU for each event of each watch; every event is seen by every watch."""
    selector, seen = selectors.DefaultSelector(), {}
    request = f"GET {MAPS}?watch=1&resourceVersion=0&fieldSelector=metadata.name%3Dbusy HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode()
    import socket
    for _ in range(watchers):
        connection = context.wrap_socket(socket.create_connection(("127.0.0.1", PORT)))
        connection.sendall(request)
        connection.setblocking(False)
        seen[connection] = 0
        selector.register(connection, selectors.EVENT_READ)

    def read_until(wanted):
        ready = sum(count >= wanted for count in seen.values())
        end = time.time() + 120
        while ready < watchers:
            assert time.time() < end, f"{ready} of {watchers} watches saw {wanted} events"
            for key, _ in selector.select(1):
                connection = key.fileobj
                had = seen[connection]
                try:
                    while data := connection.recv(65536):
                        seen[connection] += data.count(b'{"type":')
                except (ssl.SSLWantReadError, BlockingIOError):
                    pass
                ready += had < wanted <= seen[connection]

    server.make(MAPS, {"metadata": {"name": "busy"}, "data": {"n": ""}})
    read_until(1)
    before = server.cpu()
    for nth in range(events):
        status, answer = server.plain("PUT", f"{MAPS}/busy", {"metadata": {"name": "busy"}, "data": {"n": "x" * 1000 + str(nth)}})
        assert status == 200, answer
        read_until(2 + nth)
    cost = (server.cpu() - before) / (watchers * events)
    for connection in seen:
        connection.close()
    server.plain("DELETE", f"{MAPS}/busy")
    time.sleep(1)
    return cost


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    for name, default in [("objects", 5000), ("gets", 10000), ("lists", 20), ("watchers", 1000), ("events", 100), ("rounds", 3)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    for name in ("etcd", "kube-apiserver"):
        parser.add_argument(f"--{name}")
    args = parser.parse_args()
    directory = tempfile.mkdtemp()
    try:
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                        "-keyout", f"{directory}/tls.key", "-out", f"{directory}/tls.crt"], check=True, stderr=subprocess.DEVNULL)
        open(f"{directory}/tokens.csv", "w").write("filetoken,reader,1\n")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        costs = {}
        for round in range(args.rounds):
            for rbac in (False, True, *(["peer"] if args.kube_apiserver else [])):
                own = f"{directory}/{round}{rbac}"
                os.mkdir(own)
                server = Peer((args.etcd, args.kube_apiserver), own) if rbac == "peer" else Server(args.program, own, rbac)
                try:
                    for nth in range(args.objects):
                        server.make(MAPS, {"metadata": {"name": f"m{nth}"}, "data": {"text": base64.b64encode(os.urandom(750)).decode()}})
                    gets(server, context, 500, args.objects)
                    for name, cost in [("GET", gets(server, context, args.gets, args.objects)), ("LIST", lists(server, context, args.lists)),
                                       ("event to a watch", fan_out(server, context, args.watchers, args.events))]:
                        costs.setdefault(name, {}).setdefault(rbac, []).append(cost)
                finally:
                    server.stop()
        print("| unit of work | AlwaysAllow, token file | RBAC, service account | ratio | kube-apiserver, RBAC, service account |\n|---|---|---|---|---|")
        for name, both in costs.items():
            mean = {rbac: sum(all) / len(all) * 1e6 for rbac, all in both.items()}
            spread = {rbac: f"{mean[rbac]:.1f} ({min(all) * 1e6:.1f}–{max(all) * 1e6:.1f}) µs" for rbac, all in both.items()}
            print(f"| {name} | {spread[False]} | {spread[True]} | {mean[True] / mean[False]:.3f} | {spread.get('peer', '')} |")
    finally:
        shutil.rmtree(directory)


main()
