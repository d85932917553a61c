#!/usr/bin/env python3
"""A cluster whose clients all speak to a read replica; or to watchcache alone on an etcd, or fed by the kube-apiserver; or for comparison to a kube-apiserver.

    cluster.py control-plane --peers DIR --watchcache PROGRAM [--on standalone|upstream|kube-apiserver] [--seconds 1800] [--kill-every 300]
    cluster.py e2e --peers DIR --watchcache PROGRAM [--on standalone|upstream|kube-apiserver] [--manager all|workloads|none] [--suite NAME | --focus REGEXP] [--skip REGEXP] [--keep FOLDER]

DIR has what tests/peers/build.sh makes of etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubemark, kubectl and (for e2e) e2e.test. Starts etcd, a
kube-apiserver, the replica, kube-controller-manager with accounts of its own, kube-scheduler and two hollow nodes. Only the replica speaks to the kube-apiserver. Uses a dozen
ports of loopback from --base-port on.

control-plane: Deployments of 1 to 7 Pods are made, scaled and deleted with kubectl, round after round, while the replica is killed now and then. Each round must end with
the wanted Pods; an informer of Pods (list, watch, resume) at the replica must end with what the kube-apiserver lists. Two Leases are renewed as leaders do it, one at the kube-apiserver and
one at the replica: how long the slowest answers took tells who was waited for. Pods that a round makes beyond those that it wants are
counted: compare with a run on the kube-apiserver alone.

e2e: Kubernetes' own end-to-end suites, those specs that specs.txt names; prints which failed. Needs openssl. --manager says who does what a kube-controller-manager does: it all, it but what watchcache
does itself (namespaces, garbage, accounts …), or watchcache alone.
"""

import argparse
import http.client
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time

NODES = ("hollow-0", "hollow-1")
# What watchcache does itself where no kube-controller-manager holds its Lease.
DONE_BY_OURS = ("namespace-controller", "garbage-collector-controller", "serviceaccount-controller", "serviceaccount-token-controller", "root-ca-certificate-publisher-controller",
                "ttl-after-finished-controller", "certificatesigningrequest-cleaner-controller")
REMOTE = [("username-headers", "X-Remote-User"), ("uid-headers", "X-Remote-Uid"), ("group-headers", "X-Remote-Group"), ("extra-headers-prefix", "X-Remote-Extra-")]
# Who is who by a token, which is what clients of a server bring that is fed by the kube-apiserver.
TOKENS = {"admin": ("admin", "system:masters"), "manager": ("system:kube-controller-manager", ""), "scheduler": ("system:kube-scheduler", "")} | {
    node: (f"system:node:{node}", "system:nodes") for node in NODES}


def shell(command):
    subprocess.run(command, shell=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificates():
    client = "extendedKeyUsage=clientAuth"
    leaves = [("server", "ca", "/CN=kube-apiserver", "extendedKeyUsage=serverAuth,clientAuth\nsubjectAltName=IP:127.0.0.1,DNS:localhost"), ("proxy", "fp", "/CN=proxy", client),
              ("admin", "ca", "/O=system:masters/CN=admin", client), ("manager", "ca", "/CN=system:kube-controller-manager", client), ("scheduler", "ca", "/CN=system:kube-scheduler", client)]
    leaves += [(node, "ca", f"/O=system:nodes/CN=system:node:{node}", client) for node in NODES]
    for name in ("ca", "fp"):
        shell(f"openssl req -x509 -newkey rsa:2048 -nodes -keyout {name}.key -subj /CN={name} -days 3 -out {name}.crt")
    shell("openssl genrsa -out sa.key 2048 && openssl rsa -in sa.key -pubout -out sa.pub")
    for name, authority, subject, extension in leaves:
        open(f"{name}.ext", "w").write(extension)
        shell(f"openssl req -newkey rsa:2048 -nodes -keyout {name}.key -subj {subject} -out {name}.csr")
        shell(f"openssl x509 -req -in {name}.csr -CA {authority}.crt -CAkey {authority}.key -CAcreateserial -days 3 -extfile {name}.ext -out {name}.crt")
    with open("tokens.csv", "w") as file:
        file.writelines(f'{name}-token,{user},{name},"{groups}"\n' for name, (user, groups) in TOKENS.items())


class Cluster:
    def __init__(self, options):
        self.options, self.running, self.failed_commands = options, [], []
        self.peers = lambda name: os.path.join(options.peers, name)
        self.etcd, self.peer, self.api, self.ours = range(options.base_port, options.base_port + 4)
        self.front = self.api if options.on == "kube-apiserver" else self.ours
        # Who tells the truth about what is stored.
        self.direct = self.ours if options.on == "standalone" else self.api
        certificates()
        url, peer = f"http://127.0.0.1:{self.etcd}", f"http://127.0.0.1:{self.peer}"
        self.common = [f"--etcd-servers={url}", "--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--client-ca-file=ca.crt", "--service-account-key-file=sa.pub",
                       "--service-account-signing-key-file=sa.key", "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=Node,RBAC", "--bind-address=127.0.0.1"]
        self.begin("etcd", self.peers("etcd"), "--data-dir=etcd", f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--listen-peer-urls={peer}",
                   f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}", "--unsafe-no-fsync", "--watch-progress-notify-interval=5s")
        time.sleep(1)
        if options.on != "standalone":
            remote = [f"--requestheader-{flag}={value}" for flag, value in REMOTE] + ["--requestheader-client-ca-file=fp.crt", "--requestheader-allowed-names=proxy"]
            self.begin("kube-apiserver", self.peers("kube-apiserver"), *options.kube_apiserver_arg, f"--secure-port={self.api}", "--cert-dir=certs", "--advertise-address=127.0.0.1",
                       "--service-cluster-ip-range=10.0.0.0/16", "--allow-privileged", "--token-auth-file=tokens.csv", "--proxy-client-cert-file=proxy.crt", "--proxy-client-key-file=proxy.key", *remote, *self.common)
        self.context = ssl.create_default_context(cafile="ca.crt")
        self.context.load_cert_chain("admin.crt", "admin.key")
        if options.on != "standalone":
            self.ready(self.api)
        if self.front == self.ours:
            self.start_ours()
        for name in ("admin", "manager", "scheduler", *NODES):
            cluster = {"server": f"https://127.0.0.1:{self.front}", "certificate-authority": os.path.abspath("ca.crt")}
            user = {"client-certificate": os.path.abspath(f"{name}.crt"), "client-key": os.path.abspath(f"{name}.key")} if options.on != "upstream" else {"token": f"{name}-token"}
            json.dump({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
                       "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}, open(f"{name}.kubeconfig", "w"))
        if options.manager != "none":
            # Without its Lease watchcache's controllers go on.
            part = ["--leader-elect=false", "--controllers=" + ",".join(["*", *(f"-{name}" for name in DONE_BY_OURS)])] if options.manager == "workloads" else []
            self.begin("kube-controller-manager", self.peers("kube-controller-manager"), "--kubeconfig=manager.kubeconfig", "--use-service-account-credentials", "--root-ca-file=ca.crt",
                       "--service-account-private-key-file=sa.key", "--secure-port=0", "--kube-api-qps=100", "--kube-api-burst=100", "--cluster-signing-cert-file=ca.crt",
                       "--cluster-signing-key-file=ca.key", *part)
        self.begin("kube-scheduler", self.peers("kube-scheduler"), "--kubeconfig=scheduler.kubeconfig", "--secure-port=0", "--kube-api-qps=100", "--kube-api-burst=100")
        for nth, node in enumerate(NODES):
            os.makedirs(f"{node}.root", exist_ok=True)
            self.begin(node, self.peers("kubemark"), "--morph=kubelet", f"--name={node}", f"--kubeconfig={node}.kubeconfig", "--use-host-image-service=false",
                       f"--kubelet-port={options.base_port + 4 + 2 * nth}", f"--kubelet-read-only-port={options.base_port + 5 + 2 * nth}")
        for node in NODES:
            self.until(120, f"{node} is ready", lambda: "True" in self.kubectl("get", "node", node, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}"))
        # Until they are there, asking for them fails.
        self.failed_commands.clear()

    def begin(self, name, *command):
        process = subprocess.Popen(command, stdout=open(f"{name}.log", "ab"), stderr=subprocess.STDOUT)
        process.name = name
        self.running.append(process)
        return process

    def start_ours(self):
        upstream = [f"--upstream-server=https://127.0.0.1:{self.api}", "--upstream-cafile=ca.crt", "--proxy-client-cert-file=proxy.crt", "--proxy-client-key-file=proxy.key"]
        alone = ["--service-cluster-ip-range=10.0.0.0/16", "--advertise-address=127.0.0.1", "--root-ca-file=ca.crt"]
        mode = (upstream if self.options.on == "replica" else alone) + self.common
        if self.options.on == "upstream":
            fed_by = {"server": f"https://127.0.0.1:{self.api}", "certificate-authority": os.path.abspath("ca.crt")}
            with open("upstream.kubeconfig", "w") as file:
                json.dump({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "c", "cluster": fed_by}], "users": [{"name": "u", "user": {"token": "admin-token"}}],
                           "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}, file)
            mode = ["--source=upstream", "--upstream-kubeconfig=upstream.kubeconfig", "--tls-cert-file=server.crt", "--tls-private-key-file=server.key", "--bind-address=127.0.0.1"]
        self.server = self.begin("watchcache", self.options.watchcache, "serve", f"--secure-port={self.ours}", "--insecure-port=0", *mode)
        self.ready(self.ours)

    def kill_ours(self):
        self.server.send_signal(signal.SIGKILL)
        self.server.wait()
        place = self.running.index(self.server)
        self.running.remove(self.server)
        self.start_ours()
        # In the end it goes after its clients: those who lead give up when it is away for ten seconds.
        self.running.insert(place, self.running.pop())

    def stop(self):
        for process in reversed(self.running):
            if process.poll() is not None:
                print(f"{process.name} had ended by itself: {process.returncode}")
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()

    def request(self, port, path, timeout=60):
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=self.context, timeout=timeout)
        connection.request("GET", path, headers={"Authorization": "Bearer admin-token"} if self.options.on == "upstream" else {})
        return connection.getresponse()

    def ready(self, port):
        def asked():
            try:
                return self.request(port, "/readyz").status == 200
            except OSError:
                return False
        self.until(120, f"port {port} is ready", asked)

    def pods(self, port):
        """What is listed there, consistently: name → resourceVersion."""
        listed = json.load(self.request(port, "/api/v1/pods"))
        return {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod["metadata"]["resourceVersion"] for pod in listed["items"]}

    def until(self, seconds, what, condition):
        end = time.time() + seconds
        while not condition():
            if time.time() > end:
                raise SystemExit(f"FAILED: {what}: not within {seconds} s")
            time.sleep(0.2)

    def kubectl(self, *arguments):
        """Its output; empty when it failed, which is counted."""
        done = subprocess.run([self.peers("kubectl"), "--kubeconfig=admin.kubeconfig", "--cache-dir=cache", *arguments], capture_output=True, text=True)
        if done.returncode != 0:
            self.failed_commands.append(f"{' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout


class Informer(threading.Thread):
    """Lists and watches all Pods at a port, resumes where it was, and lists again only after a 410. `pods` is what it believes; `made` counts names that it saw first."""

    def __init__(self, cluster, port):
        super().__init__(daemon=True)
        self.cluster, self.port = cluster, port
        self.pods, self.made, self.lists, self.watches, self.going = {}, set(), 0, 0, True

    def run(self):
        revision = None
        while self.going:
            try:
                if revision is None:
                    listed = json.load(self.cluster.request(self.port, "/api/v1/pods"))
                    self.lists += 1
                    self.pods, revision = {}, listed["metadata"]["resourceVersion"]
                    for pod in listed["items"]:
                        self.see("ADDED", pod)
                self.watches += 1
                stream = self.cluster.request(self.port, f"/api/v1/pods?watch=1&allowWatchBookmarks=1&timeoutSeconds=600&resourceVersion={revision}", timeout=900)
                if stream.status != 200:
                    revision = None if stream.status == 410 else revision
                    time.sleep(0.5)
                    continue
                for line in stream:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        revision = None if event["object"]["code"] == 410 else revision
                        break
                    revision = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self.see(event["type"], event["object"])
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.2)

    def see(self, kind, pod):
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        if kind == "DELETED":
            self.pods.pop(name, None)
        else:
            self.pods[name] = pod["metadata"]["resourceVersion"]
            self.made.add(name)


class Renewer(threading.Thread):
    """Renews a Lease of its own at a port as those do who lead: a GET and a PUT each half second, 5 s for each. Knows how long the slowest answers took, and what failed when."""

    def __init__(self, cluster, port, name):
        super().__init__(daemon=True)
        self.cluster, self.port, self.going, self.connection = cluster, port, True, None
        self.path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        self.lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {"holderIdentity": name}}
        self.took, self.failed = [], []

    def ask(self, method, path, body=None):
        if self.connection is None:
            self.connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=self.cluster.context, timeout=5)
        try:
            headers = {"Content-Type": "application/json"} | ({"Authorization": "Bearer admin-token"} if self.cluster.options.on == "upstream" else {})
            self.connection.request(method, path, body=json.dumps(body) if body else None, headers=headers)
            answer = self.connection.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, ValueError, http.client.HTTPException):
            self.connection.close()
            self.connection = None
            raise

    def run(self):
        name = f"{self.path}/{self.lease['metadata']['name']}"
        while self.going:
            at = time.time()
            try:
                status, lease = self.ask("GET", name)
                if status == 404:
                    status, lease = self.ask("POST", self.path, self.lease)
                elif status == 200:
                    lease["spec"]["renewTime"] = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
                    status, lease = self.ask("PUT", name, lease)
                if status not in (200, 201):
                    self.failed.append((at, f"{status} {lease.get('message', '')[:100]}"))
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.failed.append((at, repr(error)))
            self.took.append((time.time() - at, at))
            time.sleep(0.5)

    def told(self, kills):
        took = sorted(self.took, reverse=True)
        # A server that was killed a moment ago answers nobody.
        unexplained = [(at, why) for at, why in self.failed if not any(0 <= at + 6 - kill <= 16 for kill in kills)]
        slowest = ", ".join(f"{seconds:.1f} s at {at - self.cluster.began:.0f}" for seconds, at in took[:3])
        told = f"{len(took)} renewals, {len(self.failed)} failed, {len(unexplained)} of them not within 10 s of a kill; the slowest {slowest}"
        return told + "".join(f"\n    failed at {at - self.cluster.began:.0f} s: {why}" for at, why in unexplained[:10])


def control_plane(cluster, options):
    # One counts at the kube-apiserver, whatever the clients are pointed at.
    direct, through = Informer(cluster, cluster.direct), Informer(cluster, cluster.front)
    direct.start()
    through.start()
    began, killed, kills, rounds, wanted_in_all = time.time(), time.time(), [], 0, 0
    cluster.began = began
    renewers = [Renewer(cluster, port, name) for port, name in ((cluster.direct, "renewer-direct"), (cluster.front, "renewer-through"))]
    for renewer in renewers:
        renewer.start()
    standing = {}
    available = lambda name: cluster.kubectl("get", "deployment", name, "-o", "jsonpath={.status.availableReplicas}/{.status.replicas}/{.spec.replicas}")
    chance = random.Random(1)
    times = []
    while time.time() - began < options.seconds:
        if cluster.front == cluster.ours and time.time() - killed > options.kill_every:
            threading.Thread(target=cluster.kill_ours).start()
            killed = time.time()
            kills.append(killed)
        name, count, at = f"d-{rounds}", chance.randint(1, 7), time.time()
        # A command in whose middle the replica dies may have been carried out: it is asked again, as a person would.
        cluster.until(60, f"{name} is created", lambda: "created" in cluster.kubectl("create", "deployment", name, "--image=registry.invalid/i:1", f"--replicas={count}")
                      or cluster.kubectl("get", "deployment", name, "-o", "name"))
        cluster.until(120, f"{name} has {count} Pods", lambda: available(name) == f"{count}/{count}/{count}")
        cluster.until(60, f"{name} is scaled", lambda: "scaled" in cluster.kubectl("scale", "deployment", name, "--replicas=1"))
        cluster.until(120, f"{name} has 1 Pod", lambda: available(name) == "1/1/1")
        wanted_in_all += count
        standing[name] = 1
        if len(standing) > 5:
            old = next(iter(standing))
            cluster.until(60, f"{old} is deleted", lambda: cluster.kubectl("delete", "deployment", old, "--ignore-not-found", "-o", "name") or True)
            cluster.until(60, f"{old} is gone", lambda: not cluster.kubectl("get", "deployment", old, "--ignore-not-found", "-o", "name"))
            del standing[old]
        rounds += 1
        times.append(time.time() - at)
    cluster.ready(cluster.front)
    cluster.until(120, "there are as many Pods as the Deployments want", lambda: len(cluster.pods(cluster.direct)) == len(standing))
    cluster.until(60, "informers have what the kube-apiserver lists", lambda: through.pods == direct.pods == cluster.pods(cluster.direct))
    same = cluster.pods(cluster.front) == cluster.pods(cluster.direct)
    for one in (direct, through, *renewers):
        one.going = False
    times.sort()
    print(f"{options.on}: {rounds} rounds in {time.time() - began:.0f} s (median {times[len(times) // 2]:.1f} s, longest {times[-1]:.1f} s), {len(kills)} kills; {wanted_in_all} Pods wanted, "
          f"{len(direct.made)} made, so {len(direct.made) - wanted_in_all} too many; the informer: {len(through.made)} Pods seen, {through.lists} lists, {through.watches} watches; "
          f"lists {'equal' if same else 'DIFFER'}; {len(cluster.failed_commands)} commands of kubectl failed")
    for command in cluster.failed_commands[:20]:
        print("  ", command[:300])
    for renewer, where in zip(renewers, ("direct", "through")):
        print(f"  a Lease, {where}: {renewer.told(kills)}")
    ended = [process.name for process in cluster.running if process.poll() is not None]
    if ended:
        raise SystemExit(f"FAILED: {', '.join(ended)} ended by itself")
    # The informer may miss Pods that came and went while it had to list again; with one list it may not.
    if not same or (through.lists == 1 and direct.lists == 1 and through.made != direct.made):
        raise SystemExit("FAILED: lists or informers differ")


def specs(options):
    """What of specs.txt is run, and what is left out, as regular expressions."""
    sections = {}
    for line in open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "specs.txt")):
        line = line.split(" # ")[0].strip() if not line.startswith("#") else ""
        if line.startswith("[") and line.endswith("]"):
            section = sections.setdefault(line[1:-1], [])
        elif line:
            section.append(line)
    left_out = sections["left out everywhere"] + (sections["left out alone"] if options.on == "standalone" else [])
    return options.focus or "|".join(sections[options.suite]), "|".join([*left_out, *options.skip])


def e2e(cluster, options):
    focus, skip = specs(options)
    report = os.path.join(os.getcwd(), "report.json")
    flags = ["--kubeconfig=admin.kubeconfig", "--provider=skeleton", f"--ginkgo.seed={options.seed}", f"--kubectl-path={cluster.peers('kubectl')}", "--num-nodes=2", "--ginkgo.no-color", "--ginkgo.timeout=3h",
             "--minStartupPods=0", "--allowed-not-ready-nodes=0", f"--ginkgo.json-report={report}", f"--ginkgo.focus={focus}", f"--ginkgo.skip={skip}", "--disable-log-dump", "--delete-namespace=true"]
    flags += [f"--ginkgo.label-filter={options.labels}"] if options.labels else []
    with open("e2e.log", "ab") as log:
        subprocess.run([cluster.peers("e2e.test"), *flags], stdout=log, stderr=subprocess.STDOUT)
    states = {}
    for spec in json.load(open(report))[0]["SpecReports"]:
        if spec["LeafNodeType"] == "It":
            name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
            message = spec.get("Failure", {}).get("Message", "").replace("\n", " ")
            states.setdefault(spec["State"], []).append((name, message, spec["RunTime"] / 1e9))
    print(f"{options.on}: " + ", ".join(f"{len(specs)} {state}" for state, specs in sorted(states.items())))
    for state in ("failed", "panicked", "timedout", "interrupted"):
        for name, message, took in states.get(state, []):
            print(f"{state} after {took:.0f} s: {name}\n    {message[:600]}")
    json.dump(states, open("states.json", "w"), indent=1)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("what", choices=["control-plane", "e2e"])
    arguments.add_argument("--peers", required=True, type=os.path.abspath)
    arguments.add_argument("--watchcache", type=os.path.abspath)
    arguments.add_argument("--on", choices=["replica", "standalone", "upstream", "kube-apiserver"], default="replica")
    arguments.add_argument("--manager", choices=["all", "workloads", "none"], default="all")
    arguments.add_argument("--kube-apiserver-arg", action="append", default=[], help="one more argument for the kube-apiserver")
    arguments.add_argument("--base-port", type=int, default=37950)
    arguments.add_argument("--seconds", type=int, default=1800)
    arguments.add_argument("--kill-every", type=int, default=300, help="seconds")
    arguments.add_argument("--suite", choices=["machinery", "cli", "api"], default="machinery", help="of specs.txt")
    arguments.add_argument("--focus", help="a regular expression in the place of a suite")
    arguments.add_argument("--skip", action="append", default=[], help="a regular expression of what is left out besides")
    arguments.add_argument("--labels", default="")
    arguments.add_argument("--seed", type=int, default=1, help="of the order of the specs")
    arguments.add_argument("--keep", type=os.path.abspath, help="folder for logs and the report")
    options = arguments.parse_args()
    if options.keep:
        os.makedirs(options.keep)
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(options.keep or directory)
        cluster = Cluster(options)
        try:
            (control_plane if options.what == "control-plane" else e2e)(cluster, options)
        finally:
            cluster.stop()
            os.chdir("/")


if __name__ == "__main__":
    sys.exit(main())
