"""What benches have in common: an etcd, a server on it, and the CPU and memory of a process. Ports of benches are below those of outgoing connections."""

import http.client
import json
import subprocess
import time


def etcd(program, directory, port, *flags):
    """An etcd that forgets at a crash, on this port and, for its peers, the next one; its URL is `http://127.0.0.1:PORT`."""
    url, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"
    return subprocess.Popen([program, "--data-dir", directory, f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--listen-peer-urls={peer}",
                             f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}", "--unsafe-no-fsync", *flags], stderr=subprocess.DEVNULL)


def serve(program, port, *flags):
    """A watchcache that is ready, over plain HTTP."""
    process = subprocess.Popen([program, "serve", f"--insecure-port={port}", *flags], stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            if ask(plain(port), "GET", "/readyz") == 200:
                return process
        except OSError:
            pass
        time.sleep(0.1)
    process.kill()
    raise SystemExit(f"nobody is ready at port {port}")


def plain(port):
    return http.client.HTTPConnection("127.0.0.1", port)


def ask(client, method, path, body=None, headers=None):
    """The status; the answer is read and dropped."""
    client.request(method, path, json.dumps(body) if body else None, (headers or {}) | ({"Content-Type": "application/json"} if body else {}))
    answer = client.getresponse()
    while answer.read(1 << 20):
        pass
    return answer.status


def cpu(process):
    """Seconds, by clock_getcpuclockid(3)."""
    return time.clock_gettime((~process.pid << 3) | 2)


def resident(process):
    """RSS in MiB."""
    line = next(line for line in open(f"/proc/{process.pid}/status") if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024
