#!/usr/bin/env python3
"""Starts pairs of etcd and kube-apiserver as envtest does, and reports how long they take and what they hold.

    measure.py ASSETS [--pairs 20] [--rounds 1] [--rest 3]

ASSETS is a folder for KUBEBUILDER_ASSETS. A round starts all pairs at once, waits until each answers /healthz, lets them rest, and stops them with SIGTERM. Printed for each round: seconds until
etcd and then the API server are ready (median and most over the pairs), memory of a pair at rest (RSS, and PSS, which counts shared pages once) in MB, seconds until a pair has ended, and what is
left of ports and files.
"""

import argparse
import contextlib
import http.client
import os
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import tempfile
import threading
import time


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_healthy(port, path, tls):
    connect = http.client.HTTPSConnection if tls else http.client.HTTPConnection
    connection = connect("127.0.0.1", port, timeout=5, **({"context": ssl._create_unverified_context()} if tls else {}))
    with contextlib.closing(connection):
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except OSError:
            return False


def memory(pid):
    """RSS and PSS in MB."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        lines = dict(line.split(":", 1) for line in file if line.startswith(("Rss:", "Pss:")))
    return [int(lines[name].split()[0]) / 1024 for name in ("Rss", "Pss")]


class Pair:
    def __init__(self, assets, home, keys):
        self.assets, self.home, self.keys, self.programs = assets, home, keys, []
        self.etcd, self.peer, self.server = free_port(), free_port(), free_port()

    def start(self, name, flags):
        with open(os.path.join(self.home, f"{name}.log"), "w") as log:
            program = subprocess.Popen([os.path.join(self.assets, name), *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home)
        self.programs.append(program)
        return program

    def wait(self, program, port, path, tls):
        deadline = time.monotonic() + 120
        while not is_healthy(port, path, tls):
            if program.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{program.args[0]} is not ready: {os.listdir(self.home)}")
            time.sleep(0.005)

    def run(self):
        began = time.monotonic()
        url = f"http://127.0.0.1:{self.etcd}"
        etcd = self.start("etcd", [f"--advertise-client-urls={url}", f"--data-dir={self.home}/etcd", f"--listen-client-urls={url}",
                                   f"--listen-peer-urls=http://127.0.0.1:{self.peer}", "--unsafe-no-fsync=true"])
        self.wait(etcd, self.etcd, "/health", False)
        self.etcd_ready = time.monotonic() - began
        server = self.start("kube-apiserver", [
            "--allow-privileged=true", "--authorization-mode=RBAC", "--bind-address=127.0.0.1", f"--cert-dir={self.home}/certs",
            "--disable-admission-plugins=ServiceAccount", f"--etcd-servers={url}", f"--secure-port={self.server}", f"--service-account-issuer=https://127.0.0.1:{self.server}/",
            f"--service-account-key-file={self.keys}", f"--service-account-signing-key-file={self.keys}", "--service-cluster-ip-range=10.0.0.0/24"])
        self.wait(server, self.server, "/healthz", True)
        self.ready = time.monotonic() - began

    def stop(self):
        began = time.monotonic()
        # The API server first, as envtest does.
        for program in reversed(self.programs):
            program.send_signal(signal.SIGTERM)
            program.wait(timeout=60)
        self.stopped = time.monotonic() - began


def together(pairs, what):
    failures = []

    def one(pair):
        try:
            what(pair)
        except Exception as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=one, args=(pair,)) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def told(name, values):
    return f"{name} {statistics.median(values):.2f} (most {max(values):.2f})"


def round_of(assets, count, rest, keys):
    home = tempfile.mkdtemp(prefix="envtest-")
    homes = [os.path.join(home, str(number)) for number in range(count)]
    for folder in homes:
        os.mkdir(folder)
    pairs = [Pair(assets, folder, keys) for folder in homes]
    try:
        failures = together(pairs, Pair.run)
        time.sleep(rest)
        held = [[sum(part) for part in zip(*(memory(program.pid) for program in pair.programs))] for pair in pairs if len(pair.programs) == 2]
        failures += together(pairs, Pair.stop)
        left = [port for pair in pairs for port in (pair.etcd, pair.server) if not free(port)]
        ready = [pair for pair in pairs if hasattr(pair, "stopped") and hasattr(pair, "ready")]
        print(f"{count} pairs, {len(failures)} failures {failures or ''}:", told("etcd ready", [pair.etcd_ready for pair in ready]) + ",", told("ready", [pair.ready for pair in ready]) + ",",
              told("RSS", [rss for rss, _ in held]) + ",", told("PSS", [pss for _, pss in held]) + ",", told("stopped", [pair.stopped for pair in ready]) + ",", f"ports left {left}")
    finally:
        for pair in pairs:
            for program in pair.programs:
                if program.poll() is None:
                    program.kill()
                    program.wait()
        shutil.rmtree(home, ignore_errors=True)
    return failures


def free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("assets")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--rest", type=float, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        keys = os.path.join(folder, "accounts.key")
        subprocess.run(["openssl", "genrsa", "-out", keys, "2048"], check=True, capture_output=True)
        failures = [failure for _ in range(asked.rounds) for failure in round_of(os.path.abspath(asked.assets), asked.pairs, asked.rest, keys)]
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
