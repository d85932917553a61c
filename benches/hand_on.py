#!/usr/bin/env python3
"""What it costs to go through a read replica: requests that are handed on, and reads that are not, through it and direct.

    python3 benches/hand_on.py --etcd etcd --kube-apiserver kube-apiserver --watchcache target/dist/watchcache [--puts 300] [--gets 600] [--rounds 3]

Starts all three on loopback, the replica as front proxy, and asks direct and through it in turns, one request after the other on one connection. Prints the times that the client saw
and the CPU of both servers for each request. Needs openssl.
"""

import argparse
import http.client
import json
import os
import ssl
import statistics
import subprocess
import tempfile
import time

import processes

ETCD, API, REPLICA = 26971, 26961, 26951
MAPS = "/api/v1/namespaces/default/configmaps"
HEADERS = {"Authorization": "Bearer admintoken", "Content-Type": "application/json"}
REMOTE = [("username-headers", "X-Remote-User"), ("uid-headers", "X-Remote-Uid"), ("group-headers", "X-Remote-Group"), ("extra-headers-prefix", "X-Remote-Extra-")]


def shell(command):
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificates(leaves):
    """Authorities `ca` and `fp` (of front proxies), keys of service accounts, and leaves: each a name, its authority, its subject and extensions."""
    for name in ("ca", "fp"):
        shell(f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -subj /CN={name} -days 3 -out {name}.crt")
    shell("openssl genrsa -out sa.key 2048 && openssl rsa -in sa.key -pubout -out sa.pub")
    for name, authority, subject, extension in leaves:
        open(f"{name}.ext", "w").write(extension)
        shell(f"openssl req -newkey rsa:2048 -nodes -keyout {name}.key -subj {subject} -out {name}.csr")
        shell(f"openssl x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -days 3 -extfile {name}.ext -out {name}.crt")


def credentials():
    """What a server and a front proxy need, and a token of an administrator."""
    certificates([("server", "ca", "/CN=server", "subjectAltName=IP:127.0.0.1"), ("proxy", "fp", "/CN=proxy", "extendedKeyUsage=clientAuth")])
    open("tokens.csv", "w").write('admintoken,admin,1,"system:masters"\n')


class Bench:
    def __init__(self, options):
        url = f"http://127.0.0.1:{ETCD}"
        common = [f"--etcd-servers={url}", "--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--token-auth-file=tokens.csv", "--service-account-key-file=sa.pub"]
        common += ["--service-account-signing-key-file=sa.key", "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC", "--bind-address=127.0.0.1"]
        self.running = [processes.etcd(options.etcd, "etcd", ETCD)]
        time.sleep(1)
        remote = [f"--requestheader-{flag}={value}" for flag, value in REMOTE] + ["--requestheader-client-ca-file=fp.crt", "--requestheader-allowed-names=proxy"]
        self.api = self.start(options.kube_apiserver, [f"--secure-port={API}", "--cert-dir=certs", "--advertise-address=127.0.0.1", "--service-cluster-ip-range=10.0.0.0/24",
                                                       "--disable-admission-plugins=ServiceAccount"] + remote + common)
        self.context = ssl.create_default_context(cafile="ca.crt")
        self.ready(API)
        self.replica = self.start(options.watchcache, ["serve", f"--secure-port={REPLICA}", "--insecure-port=0", f"--upstream-server=https://127.0.0.1:{API}", "--upstream-cafile=ca.crt",
                                                       "--proxy-client-cert-file=proxy.crt", "--proxy-client-key-file=proxy.key"] + common)
        self.ready(REPLICA)

    def start(self, program, flags):
        process = subprocess.Popen([program] + flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.running.append(process)
        return process

    def stop(self):
        for process in reversed(self.running):
            process.terminate()
            process.wait(60)

    def ask(self, client, method, path, body=None):
        client.request(method, path, json.dumps(body) if body else None, HEADERS)
        answer = client.getresponse()
        answer.read()
        return answer.status

    def client(self, port):
        return http.client.HTTPSConnection("127.0.0.1", port, context=self.context)

    def ready(self, port):
        for _ in range(600):
            try:
                if self.ask(self.client(port), "GET", "/readyz") == 200:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise SystemExit(f"nobody is ready at port {port}")

    def measure(self, port, method, path, count):
        """Milliseconds of each request; microseconds of CPU of the kube-apiserver and of the replica for each."""
        clocks = [(~process.pid << 3) | 2 for process in (self.api, self.replica)]
        client, times, before = self.client(port), [], [time.clock_gettime(clock) for clock in clocks]
        for nth in range(count):
            body = {"metadata": {"name": "a"}, "data": {"k": str(time.time())}} if method == "PUT" else None
            began = time.perf_counter()
            assert self.ask(client, method, path, body) == 200
            times.append((time.perf_counter() - began) * 1e3)
        return times, *[(time.clock_gettime(clock) - was) * 1e6 / count for clock, was in zip(clocks, before)]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for program in ("etcd", "kube-apiserver", "watchcache"):
        arguments.add_argument(f"--{program}", required=True, type=os.path.abspath)
    for flag, default in [("puts", 300), ("gets", 600), ("rounds", 3)]:
        arguments.add_argument(f"--{flag}", type=int, default=default)
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        credentials()
        bench = Bench(options)
        assert bench.ask(bench.client(API), "POST", MAPS, {"metadata": {"name": "a"}}) == 201
        found = {}
        for turn in range(options.rounds + 1):
            for unit, request in [("PUT, handed on", ("PUT", f"{MAPS}/a", options.puts)), ("GET /version, handed on", ("GET", "/version", options.gets)),
                                  ("GET resourceVersion=0", ("GET", f"{MAPS}/a?resourceVersion=0", options.gets))]:
                for who, port in [("direct", API), ("through the replica", REPLICA)]:
                    values = bench.measure(port, *request)
                    # The first turn warms them up.
                    found.setdefault((unit, who), []).extend([values] if turn > 0 else [])
        bench.stop()
        print("| request | p50, p99 | CPU of kube-apiserver | of the replica |\n|---|---|---|---|")
        for (unit, who), rounds in found.items():
            times = sorted(value for values in rounds for value in values[0])
            theirs, ours = (statistics.mean(values[column] for values in rounds) for column in (1, 2))
            print(f"| {unit}, {who} | {times[len(times) // 2]:.2f}, {times[len(times) * 99 // 100]:.2f} ms | {theirs:.0f} µs | {ours:.0f} µs |")


if __name__ == "__main__":
    main()
