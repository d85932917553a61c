#!/usr/bin/env python3
"""Runs guides as they stand, and fails where a command prints something else than the page shows.

    run.py --watchcache PROGRAM --peers DIR [--at-once 2] [--write] [GUIDE…]

A GUIDE is a Markdown file; without one, all of docs/guides. Its ```console blocks are one session of bash, in an empty folder, with `watchcache` and the programs of DIR (tests/peers/build.sh makes
them) in PATH. A line that begins with `$ ` is a command, which goes on as bash reads it (a `\\` at the end of a line, a here-document, a loop); the lines up to the next command are what it prints, standard
error included. In them `…` stands for any text of a line, and a line `…` for any number of lines. A command that prints nothing must succeed.

What a guide leaves running with `&` is ended after it, with the whole session. Ports that it names (`127.0.0.1:8080`, `--secure-port 6443`) are replaced by free ones, in commands and back in what they
print, so guides run at once and beside anything else. A page that has the line `<!-- runs on: a cluster -->` gets KUBECONFIG for a cluster of its own: etcd, kube-apiserver and
kube-controller-manager, without nodes.

--write puts what was printed into the pages, where it is not as shown: read the difference, and put `…` for what changes. Needs bash, openssl, curl and jq, and what the guides use.
"""

import argparse
import concurrent.futures
import difflib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

# A command that takes longer hangs; so does a cluster that is not ready.
COMMAND_SECONDS = 60
CLUSTER_SECONDS = 120
# More output than this of one command is no page of a book.
OUTPUT_BYTES_MAX = 1 << 20
CLUSTER = "<!-- runs on: a cluster -->"
PORT = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):(\d{4,5})\b|--[a-z-]*port[= ](\d{4,5})\b")
TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Step:
    """A command, the line of the page on which it stands, and what the page says that it prints: lines from `begin` up to `end`."""

    def __init__(self, number, command, begin):
        self.number, self.command, self.begin, self.end, self.shown = number, command, begin, begin, []


def is_whole(command):
    """Whether bash would run this, and not ask for more."""
    if command.endswith("\\"):
        return False
    read = subprocess.run(["bash", "-n"], input=command + "\n", capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"})
    # The end of a here-document that is missing is only warned of.
    return not any(more in read.stderr for more in ("unexpected EOF", "unexpected end of file", "delimited by end-of-file"))


def steps(lines):
    """Returns the commands of a page, in their order."""
    found, at = [], 0
    while at < len(lines):
        if lines[at].strip() != "```console":
            at += 1
            continue
        indent = len(lines[at]) - len(lines[at].lstrip())
        strip = lambda line: line[indent:] if line[:indent].strip() == "" else line
        at += 1
        last = None
        while strip(lines[at]).rstrip() != "```":
            line = strip(lines[at])
            if line.startswith("$ "):
                first, command = at, [line[2:]]
                at += 1
                while not is_whole("\n".join(command)):
                    command.append(strip(lines[at]))
                    at += 1
                last = Step(first + 1, "\n".join(command), at)
                found.append(last)
            elif last is None:
                raise ValueError(f"line {at + 1}: a block begins with a command")
            else:
                last.shown.append(line)
                at += 1
                last.end = at
    return found


def fits(shown, printed):
    """Whether lines are as the page shows them."""
    if not shown:
        return not printed
    if shown[0].strip() == "…":
        return any(fits(shown[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    if not printed:
        return False
    pattern = ".*".join(re.escape(part) for part in shown[0].rstrip().split("…"))
    return re.fullmatch(pattern, printed[0].rstrip()) is not None and fits(shown[1:], printed[1:])


class Ports:
    """Free ports, each given once in this run."""

    def __init__(self, first, last):
        self.left, self.lock = iter(range(first, last + 1)), threading.Lock()

    def free(self):
        with self.lock:
            for port in self.left:
                with socket.socket() as probe:
                    try:
                        probe.bind(("127.0.0.1", port))
                        return port
                    except OSError:
                        continue
        raise RuntimeError("no port is free")


class Session:
    """One bash, whose processes end with it."""

    def __init__(self, folder, environment):
        self.process = subprocess.Popen(["bash", "--norc", "--noprofile"], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        start_new_session=True)
        self.mark = f"--- end of a command {os.urandom(8).hex()}"
        self.said, self.ended = bytearray(), threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while chunk := os.read(self.process.stdout.fileno(), 65536):
            with self.ended:
                self.said += chunk
                self.ended.notify()
        with self.ended:
            self.said += f"\n{self.mark} 255\n".encode()
            self.ended.notify()

    def run(self, command):
        """Returns what a command prints, and its status."""
        self.process.stdin.write(f"{command}\nprintf '\\n%s %d\\n' '{self.mark}' \"$?\"\n".encode())
        self.process.stdin.flush()
        deadline = time.monotonic() + COMMAND_SECONDS
        end = re.compile(rf"\n{self.mark} (\d+)\n".encode())
        with self.ended:
            while not (found := end.search(self.said)):
                if len(self.said) > OUTPUT_BYTES_MAX or not self.ended.wait(max(0, deadline - time.monotonic())):
                    said = self.said.decode(errors="replace")[-2000:]
                    raise TimeoutError(f"did not end within {COMMAND_SECONDS} s, or printed without end: …{said}")
            printed, status = bytes(self.said[:found.start()]), int(found.group(1))
            del self.said[:found.end()]
        return TERMINAL.sub("", printed.decode(errors="replace")), status

    def end(self):
        """Ends all that was started: asks first, so that servers clean up."""
        for ask, seconds in ((signal.SIGCONT, 0), (signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            deadline = time.monotonic() + seconds
            try:
                os.killpg(self.process.pid, ask)
                while time.monotonic() < deadline:
                    # The shell is to be waited for, or its group would stay.
                    self.process.poll()
                    os.killpg(self.process.pid, 0)
                    time.sleep(0.05)
            except ProcessLookupError:
                break
        self.process.wait()


class Cluster:
    """etcd, kube-apiserver and kube-controller-manager, and an administrator's kubeconfig file."""

    def __init__(self, folder, peers, ports):
        self.folder, self.peers, self.running = folder, peers, []
        self.etcd, self.peer, self.api, self.manager = (ports.free() for _ in range(4))
        self.certificates()
        url, peer, api = f"http://127.0.0.1:{self.etcd}", f"http://127.0.0.1:{self.peer}", f"https://127.0.0.1:{self.api}"
        user = {"client-certificate-data": self.base64("admin.crt"), "client-key-data": self.base64("admin.key")}
        self.kubeconfig = os.path.join(folder, "kubeconfig")
        with open(self.kubeconfig, "w") as file:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "cluster", "users": [{"name": "admin", "user": user}],
                       "clusters": [{"name": "cluster", "cluster": {"server": api, "certificate-authority-data": self.base64("ca.crt")}}],
                       "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "admin"}}]}, file)
        self.begin(os.path.join(peers, "etcd"), "--data-dir=etcd", f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--listen-peer-urls={peer}",
                   f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}", "--unsafe-no-fsync", "--watch-progress-notify-interval=5s")
        self.begin(os.path.join(peers, "kube-apiserver"), f"--etcd-servers={url}", f"--secure-port={self.api}", "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--cert-dir=certs",
                   "--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--client-ca-file=ca.crt", "--service-account-key-file=sa.pub", "--service-account-signing-key-file=sa.key",
                   "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.0.0.0/16", "--proxy-client-cert-file=proxy.crt",
                   "--proxy-client-key-file=proxy.key", "--requestheader-client-ca-file=proxy-ca.crt", "--requestheader-allowed-names=proxy", "--requestheader-username-headers=X-Remote-User",
                   "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-")

    def base64(self, name):
        import base64
        with open(os.path.join(self.folder, name), "rb") as file:
            return base64.b64encode(file.read()).decode()

    def certificates(self):
        key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
        script = ["set -e", "openssl genrsa -out sa.key 2048", "openssl rsa -in sa.key -pubout -out sa.pub"]
        script += [f"openssl req -x509 {key} -keyout {name}.key -subj /CN={name} -days 2 -out {name}.crt" for name in ("ca", "proxy-ca")]
        for name, authority, subject, extension in [("server", "ca", "/CN=kube-apiserver", "subjectAltName=IP:127.0.0.1"), ("admin", "ca", "/O=system:masters/CN=admin", "extendedKeyUsage=clientAuth"),
                                                    ("proxy", "proxy-ca", "/CN=proxy", "extendedKeyUsage=clientAuth")]:
            script.append(f"openssl req {key} -keyout {name}.key -subj {subject} -out {name}.csr")
            script.append(f"openssl x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -days 2 -extfile <(echo {extension}) -out {name}.crt")
        subprocess.run(["bash", "-c", "\n".join(script)], cwd=self.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def begin(self, program, *arguments):
        with open(os.path.join(self.folder, os.path.basename(program) + ".log"), "ab") as log:
            self.running.append(subprocess.Popen([program, *arguments], cwd=self.folder, stdout=log, stderr=log, start_new_session=True))

    def ready(self, kubectl):
        """Waits until a Pod could be created: its namespace has its ServiceAccount."""
        deadline = time.monotonic() + CLUSTER_SECONDS
        self.until(deadline, [kubectl, "--kubeconfig", self.kubeconfig, "get", "--raw", "/healthz"])
        # It ends when the API server is not healthy within ten seconds, which takes longer on a busy machine.
        self.begin(os.path.join(self.peers, "kube-controller-manager"), f"--kubeconfig={self.kubeconfig}", "--root-ca-file=ca.crt", "--service-account-private-key-file=sa.key", "--leader-elect=false",
                   f"--secure-port={self.manager}", "--bind-address=127.0.0.1", "--cert-dir=manager")
        self.until(deadline, [kubectl, "--kubeconfig", self.kubeconfig, "get", "serviceaccount", "default"])

    def until(self, deadline, ask):
        while subprocess.run(ask, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            ended = [process.args[0] for process in self.running if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"the cluster is not ready; ended: {ended}; its logs: {self.tails()}")
            time.sleep(0.3)

    def tails(self):
        logs = [os.path.join(self.folder, name) for name in sorted(os.listdir(self.folder)) if name.endswith(".log")]
        return "\n".join(f"{log}:\n" + subprocess.run(["tail", "-n", "5", log], capture_output=True, text=True).stdout for log in logs)

    def end(self):
        # Without its etcd a kube-apiserver would take a minute to end.
        for process in self.running:
            process.kill()
            process.wait()


def moved(text, ports):
    return re.sub(r"(?<![\w.-])(\d{4,5})(?![\w.-])", lambda found: str(ports.get(found.group(1), found.group(1))), text)


def run(guide, options, free):
    """Runs one guide; returns how it went, and whether all was as shown."""
    began = time.monotonic()
    with open(guide, encoding="utf-8") as file:
        text = file.read()
    lines = text.split("\n")
    commands = steps(lines)
    if not commands:
        return f"{guide}: no command", False
    ports = {number: free.free() for number in sorted({one or other for step in commands for one, other in PORT.findall(step.command)})}
    back = {str(there): here for here, there in ports.items()}
    home = tempfile.mkdtemp(prefix="guide-")
    cluster = session = None
    wrong, changed = [], []
    try:
        folder = os.path.join(home, "here")
        programs = os.path.join(home, "bin")
        for made in (folder, programs):
            os.mkdir(made)
        os.symlink(os.path.realpath(options.watchcache), os.path.join(programs, "watchcache"))
        environment = {"PATH": f"{programs}:{options.peers}:{os.environ['PATH']}", "HOME": home, "LANG": "C.UTF-8", "TZ": "UTC"}
        if CLUSTER in text:
            os.mkdir(os.path.join(home, "cluster"))
            cluster = Cluster(os.path.join(home, "cluster"), options.peers, free)
            cluster.ready(os.path.join(options.peers, "kubectl"))
            environment["KUBECONFIG"] = cluster.kubeconfig
        ready = time.monotonic() - began
        session = Session(folder, environment)
        for step in commands:
            asked = time.monotonic()
            try:
                printed, status = session.run(moved(step.command, ports))
            except (TimeoutError, OSError) as error:
                wrong.append(f"{guide}:{step.number}: $ {step.command}\n  {error}")
                break
            printed = moved(printed, back).strip("\n")
            printed = printed.split("\n") if printed else []
            if options.times:
                print(f"{guide}:{step.number}: {time.monotonic() - asked:.1f} s: {step.command.splitlines()[0]}", flush=True)
            if not fits(step.shown, printed):
                changed.append((step, printed))
                difference = list(difflib.unified_diff(step.shown, printed, "the page shows", "was printed", lineterm=""))
                wrong.append(f"{guide}:{step.number}: $ {step.command}\n" + "\n".join(difference))
            elif not printed and status != 0:
                wrong.append(f"{guide}:{step.number}: $ {step.command}\n  ended with status {status}")
        if wrong:
            logs = [name for name in sorted(os.listdir(folder)) if name.endswith(".log")]
            wrong += [f"{name}:\n" + subprocess.run(["tail", "-n", "8", name], cwd=folder, capture_output=True, text=True).stdout for name in logs]
    finally:
        if session:
            session.end()
        if cluster:
            cluster.end()
        shutil.rmtree(home, ignore_errors=True)
    if options.write and changed:
        for step, printed in reversed(changed):
            lines[step.begin:step.end] = printed
        with open(guide, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    took = f"{time.monotonic() - began:.0f} s" + (f", {ready:.0f} of them for its cluster" if cluster else "")
    told = f"{guide}: {len(commands)} commands, {took}: " + ("not as shown" if wrong else "as shown")
    return "\n".join([*wrong, told]), not wrong


def check_itself():
    """What this program lets pass, and what not."""
    assert fits(["a…c", "…", "z"], ["abc", "1", "2", "z"]) and fits(["…"], []) and fits([], [])
    assert not fits(["a…c"], ["abd"]) and not fits(["a"], []) and not fits([], ["a"]) and not fits(["…", "z"], ["y"]) and not fits(["a.c"], ["abc"])
    page = ["```console", "$ cat <<'E' \\", "  - > x", "a\\", "E", "$ b \\", "  c", "said", "$ for n in 1; do", "  x 'y", "z'", "done", "1", "```", "```sh", "$ no", "```"]
    found = steps(page)
    assert [(step.command, step.shown) for step in found] == [("cat <<'E' \\\n  - > x\na\\\nE", []), ("b \\\n  c", ["said"]), ("for n in 1; do\n  x 'y\nz'\ndone", ["1"])], found
    assert moved("127.0.0.1:8080 80801 8080s v8080 --port 8080", {"8080": 9}) == "127.0.0.1:9 80801 8080s v8080 --port 9"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--watchcache", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--first-port", type=int, default=20800)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--times", action="store_true", help="how long each command takes")
    parser.add_argument("guides", nargs="*")
    options = parser.parse_args()
    options.peers = os.path.realpath(options.peers)
    check_itself()
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/guides")
    guides = options.guides or [os.path.relpath(os.path.join(here, name)) for name in sorted(os.listdir(here)) if name.endswith(".md")]
    free = Ports(options.first_port, options.first_port + 199)
    well = True
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, guide, options, free) for guide in guides]):
            told, passed = future.result()
            print(told, flush=True)
            well &= passed
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
