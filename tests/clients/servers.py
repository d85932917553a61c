"""Servers for followers (follow.py): watchcache alone, and a read replica or a fed server in front of a kube-apiserver. Each has doors by which clients come, a writer, and can be killed and started again."""

import http.client
import json
import re
import socket
import ssl
import subprocess
import time

TOKEN = "admintoken"
AUDIT = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, namespaces: [followed], verbs: [list, watch]}
- {level: None}
"""
# How long anything may take on a busy machine, seconds.
PATIENCE = 300


def wait_for(what, question, patience=PATIENCE):
    """The first answer that is true; exits without one."""
    until = time.monotonic() + patience
    while not (answer := question()):
        if time.monotonic() > until:
            raise SystemExit(f"after {patience} s: {what}")
        time.sleep(0.02)
    return answer


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Api:
    """A server as its writer sees it: one connection, made anew when it is lost."""

    def __init__(self, port, authority=None):
        self.port, self.authority, self.connection, self.used = port, authority, None, 0
        self.tls = authority and ssl.create_default_context(cafile=authority)

    def ask(self, method, path, body=None, kind="application/json"):
        """Status and answer; OSError or HTTPException while the server is away."""
        # A server closes a connection that has been idle.
        if self.connection is None or time.monotonic() > self.used + 5:
            self.connection = (http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.tls) if self.tls
                               else http.client.HTTPConnection("127.0.0.1", self.port, timeout=60))
        try:
            self.connection.request(method, path, body and json.dumps(body), {"Content-Type": kind, **({"Authorization": f"Bearer {TOKEN}"} if self.tls else {})})
            answer = self.connection.getresponse()
            text = answer.read()
            self.used = time.monotonic()
        except (OSError, http.client.HTTPException):
            self.connection = None
            raise
        return answer.status, json.loads(text) if text.startswith(b"{") else text.decode()

    def done(self, method, path, body=None, kind="application/json"):
        """The answer to what must succeed."""
        status, answer = self.ask(method, path, body, kind)
        if status not in (200, 201):
            raise SystemExit(f"{method} {path}: {status} {answer}")
        return answer

    def succeeds(self, method, path, body=None):
        """Whether a server that may still be away answers well."""
        try:
            return self.ask(method, path, body)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def is_ready(self):
        # Over a connection of its own: another thread may write meanwhile.
        return type(self)(self.port, self.authority).succeeds("GET", "/readyz")


def kubeconfig(server, user, **cluster):
    return json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "it", "clusters": [{"name": "it", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "it", "user": user}], "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]})


class Server:
    """What all have: a folder, processes, and an audit log that tells what followers asked."""

    def __init__(self, program, there):
        self.program, self.there, self.running, self.beside = program, there, None, []
        (there / "policy.yaml").write_text(AUDIT)

    def spawn(self, name, *command):
        return subprocess.Popen(list(map(str, command)), cwd=self.there, stdout=open(self.there / f"{name}.log", "ab"), stderr=subprocess.STDOUT)

    def serve(self, *flags):
        self.running = self.spawn("server", self.program, "serve", "--audit-policy-file=policy.yaml", "--audit-log-path=audit.log", *flags)

    def kill(self):
        self.running.kill()
        self.running.wait()
        self.running = None

    def end(self):
        for process in [self.running, *self.beside]:
            if process:
                process.kill()
                process.wait()

    def audited(self):
        """The requests of followers, in order."""
        for line in (self.there / "audit.log").read_text().splitlines():
            if line.endswith("}"):
                yield json.loads(line)

    def restrict(self, server, **cluster):
        """A kubeconfig for a service account that may do nothing."""
        self.writer.done("POST", "/api/v1/namespaces", {"metadata": {"name": "restricted"}})
        self.writer.done("POST", "/api/v1/namespaces/restricted/serviceaccounts", {"metadata": {"name": "nobody"}})
        token = self.writer.done("POST", "/api/v1/namespaces/restricted/serviceaccounts/nobody/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
        (self.there / "restricted.conf").write_text(kubeconfig(server, {"token": token}, **cluster))
        return self.there / "restricted.conf"


class Alone(Server):
    """watchcache on its embedded store, as README starts it: a plain listener and one with TLS."""

    # Whether nobody can tell what it has lost.
    forgets = True

    def __init__(self, program, there, _):
        super().__init__(program, there)
        self.plain, secure = free_port(), free_port()
        self.flags = ["--data-dir=data", f"--insecure-port={self.plain}", "--bind-address=127.0.0.1", f"--secure-port={secure}", "--write-admin-kubeconfig=admin.conf"]
        self.writer = Api(self.plain)
        self.start()
        # Without insecure-skip-tls-verify the client of Node takes no plain HTTP.
        (there / "plain.conf").write_text(kubeconfig(f"http://127.0.0.1:{self.plain}", {}, **{"insecure-skip-tls-verify": True}))
        wait_for("admin.conf is not there", (there / "admin.conf").exists)
        authority = re.search(r"certificate-authority-data: *\"?([\w+/=]+)", (there / "admin.conf").read_text())[1]
        restricted = self.restrict(f"https://127.0.0.1:{secure}", **{"certificate-authority-data": authority})
        self.doors = {"plain": (there / "plain.conf", ""), "TLS": (there / "admin.conf", restricted)}

    def start(self):
        self.serve(*self.flags)
        wait_for("the server is not ready", self.writer.is_ready)

    def lose_history(self, change):
        """Makes changes that no follower sees, for this server is elsewhere meanwhile; and compacts, so that nobody can have them later. It ends as it began: not running."""
        elsewhere, writer = free_port(), self.writer
        self.serve("--data-dir=data", f"--insecure-port={elsewhere}", "--etcd-compaction-interval=1s")
        self.writer = Api(elsewhere)
        wait_for("the server is not ready elsewhere", self.writer.is_ready)
        change()
        log = self.there / "server.log"
        before = log.read_text().count("etcd compacted")
        # The second one has all of the changes behind it.
        wait_for("nothing was compacted", lambda: log.read_text().count("etcd compacted") >= before + 2)
        self.kill()
        self.writer = writer


class InFront(Server):
    """watchcache in front of a kube-apiserver, with TLS. The writer speaks to the kube-apiserver."""

    # What it has lost it forwards: the kube-apiserver remembers.
    forgets = False

    def __init__(self, program, there, peers):
        super().__init__(program, there)
        etcd, peer, real, ours = (free_port() for _ in range(4))
        self.make_files()
        url = f"http://127.0.0.1:{etcd}"
        self.beside.append(self.spawn("etcd", peers / "etcd", "--data-dir=etcd", f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--listen-peer-urls=http://127.0.0.1:{peer}",
                                      f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}", f"--initial-cluster=default=http://127.0.0.1:{peer}"))
        self.etcd = Api(etcd)
        # So that revision 1 is too old for the kube-apiserver, whose history begins where etcd is when it starts.
        for _ in range(5):
            wait_for("etcd takes nothing", lambda: self.etcd.succeeds("POST", "/v3/kv/put", {"key": "YQ==", "value": "YQ=="}))
        accounts = ["--service-account-key-file=accounts.pub", "--service-account-issuer=https://kubernetes.default.svc"]
        common = ["--bind-address=127.0.0.1", "--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--token-auth-file=tokens.csv"]
        self.beside.append(self.spawn(
            "kube-apiserver", peers / "kube-apiserver", f"--etcd-servers={url}", f"--secure-port={real}", "--advertise-address=192.0.2.7", "--cert-dir=certs", *common, *accounts,
            "--service-account-signing-key-file=accounts.key", "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC", "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount", "--requestheader-client-ca-file=ca.crt", "--requestheader-allowed-names=front-proxy", "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group", "--requestheader-uid-headers=X-Remote-Uid", "--requestheader-extra-headers-prefix=X-Remote-Extra-"))
        self.flags = self.flags_in_front(url, f"https://127.0.0.1:{real}", [f"--secure-port={ours}", *common], accounts)
        self.writer, self.ours = Api(real, there / "ca.crt"), Api(ours, there / "ca.crt")
        wait_for("the kube-apiserver is not ready", self.writer.is_ready)
        self.start()
        cluster = {"certificate-authority": str(there / "ca.crt")}
        (there / "admin.conf").write_text(kubeconfig(f"https://127.0.0.1:{ours}", {"token": TOKEN}, **cluster))
        self.doors = {self.name: (there / "admin.conf", self.restrict(f"https://127.0.0.1:{ours}", **cluster))}

    def make_files(self):
        def openssl(*arguments):
            subprocess.run(["openssl", *arguments], cwd=self.there, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-subj", "/CN=ca", "-days", "2", "-out", "ca.crt")
        for name, subject, extension in [("server", "server", "subjectAltName=IP:127.0.0.1"), ("proxy", "front-proxy", "extendedKeyUsage=clientAuth")]:
            (self.there / "extension").write_text(f"{extension}\nauthorityKeyIdentifier=keyid\n")
            openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-subj", f"/CN={subject}", "-out", f"{name}.csr")
            openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "extension", "-out", f"{name}.crt")
        openssl("genrsa", "-out", "accounts.key", "2048")
        openssl("rsa", "-in", "accounts.key", "-pubout", "-out", "accounts.pub")
        (self.there / "tokens.csv").write_text(f'{TOKEN},admin,1,"system:masters"\n')

    def start(self):
        self.serve("--insecure-port=0", *self.flags)
        wait_for("the server is not ready", self.ours.is_ready)

    def lose_history(self, change):
        """Makes changes while this server does not run, and has etcd forget what was before the last one."""
        change()
        revision = self.etcd.done("POST", "/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self.etcd.done("POST", "/v3/kv/compaction", {"revision": revision})


class Replica(InFront):
    """On the etcd of the kube-apiserver."""

    name = "replica"

    def flags_in_front(self, etcd, upstream, common, accounts):
        return [f"--etcd-servers={etcd}", *common, *accounts, "--authorization-mode=RBAC", f"--upstream-server={upstream}", "--upstream-cafile=ca.crt",
                "--proxy-client-cert-file=proxy.crt", "--proxy-client-key-file=proxy.key"]


class Fed(InFront):
    """Without an etcd: it follows the kube-apiserver."""

    name = "fed"

    def flags_in_front(self, _, upstream, common, __):
        (self.there / "upstream.conf").write_text(kubeconfig(upstream, {"token": TOKEN}, **{"certificate-authority": str(self.there / "ca.crt")}))
        # Its users are the upstream's.
        common = [flag for flag in common if not flag.startswith("--token-auth-file")]
        return [*common, "--source=upstream", "--upstream-kubeconfig=upstream.conf"]
