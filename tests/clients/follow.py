#!/usr/bin/env python3
"""Informers of every language follow 10,000 objects while a server is killed and loses its history: what they hold must be what is there.

    follow.py SERVER SUBJECT [--peers DIR] [--only LANGUAGE,…] [--add LANGUAGE=PROGRAM]… [--keep DIR]

SUBJECT is `alone` (each client comes twice, without and with TLS), `replica` or `fed`: the last two want etcd and kube-apiserver in the folder --peers. What clients are made
of is got by install.sh; programs that are built otherwise come with --add: `go` (tests/clients/go/follower) and `kube-rs` (tests/clients/kube-rs). Needs what those need, and
openssl.

All followers, one for each client and door, live through the same: the server's restarts are shared. Each is a program that takes KUBECONFIG RESTRICTED NAME NAMESPACE,
and words on its standard input; what it answers ends with a line `done`:

  answers   Lists in pages: `paged COUNT DIFFERENT-NAMES`. Has the server refuse it this and that in the namespace NAME, where a Pod `guarded` may not be evicted, with
            RESTRICTED (empty: not) as a user who may do nothing, and applies: `ok WHAT` or `FAILED WHAT` for each
  late      Watches from revision 1: `ok 410` if that ends as the client says that a revision is too old
  follow    Starts an informer of the ConfigMaps in NAMESPACE with the label selector follower!=NAME, by which the server's audit log tells who asks. From now on come
            lines `put NAME REVISION` and `gone NAME` as its handlers are called, and `anew` when handlers are told all again without what is gone
  held      Tells the informer's cache: `held NAME REVISION` for each object

It ends when its input does. One line for each check, exit status 1 when one fails."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

from servers import PATIENCE, Alone, Fed, Replica

HERE = pathlib.Path(__file__).resolve().parent
BUILT = HERE.parent.parent / "target" / "clients"
NAMESPACE = "followed"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
OBJECTS = int(os.environ.get("OBJECTS", "10000"))
WRITERS = 8
# Changes while nothing breaks, and while nobody sees them.
CHANGES, UNSEEN = 300, 100
MERGE = "application/merge-patch+json"

JAVA = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp"]
COMMANDS = {
    "python": [BUILT / "python/bin/python", HERE / "python/follower.py"],
    "node": ["node", BUILT / "node/follower.mjs"],
    "fabric8": [*JAVA, f"{BUILT}/java/*:{BUILT}/java-classes", "Fabric8Follower"],
    "client-java": [*JAVA, f"{BUILT}/client-java/*:{BUILT}/client-java-classes", "OfficialFollower"],
}
failed = []


def check(who, what, held):
    """Anything but True is a failure."""
    print(f"ok: {who}: {what}" if held is True else f"FAILED: {who}: {what}: {str(held)[:2000]}", flush=True)
    if held is not True:
        failed.append(what)


class Follower:
    """One client at one door, and what its handlers were told."""

    def __init__(self, language, command, door, conf, restricted, there):
        self.language, self.who, self.name = language, f"{language}, {door}", f"{language}-{door}".lower()
        # The names of objects that handlers were told, in order; what that adds up to; the newest revision of each object; what they must not be told.
        self.events, self.state, self.newest, self.backward = [], {}, {}, []
        self.answer, self.answered = [], threading.Event()
        self.log = open(there / f"{self.name}.log", "wb")
        self.process = subprocess.Popen([*map(str, command), str(conf), str(restricted), self.name, NAMESPACE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            word, *rest = line.rstrip("\n").split(" ")
            if word == "put":
                name, revision = rest[0], int(rest[1])
                if revision < self.newest.get(name, 0):
                    self.backward.append((name, self.newest[name], revision))
                self.newest[name] = self.state[name] = revision
                self.events.append((name, revision))
            elif word == "gone":
                self.state.pop(rest[0], None)
                self.events.append((rest[0], None))
            elif word == "anew":
                self.state.clear()
            elif word == "done":
                self.answered.set()
            else:
                self.answer.append((word, *rest))

    def ask(self, word):
        self.answer, self.answered = [], threading.Event()
        try:
            self.process.stdin.write(f"{word}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass # whoever waits for the answer finds that it has ended

    def told(self, word, patience=PATIENCE):
        """The lines that answer what was asked."""
        until = time.monotonic() + patience
        while not self.answered.wait(0.2) and time.monotonic() < until and self.process.poll() is None:
            pass
        if not self.answered.is_set():
            check(self.who, word, f"no answer within {patience} s, exit status {self.process.poll()}; it said {self.answer[-3:]}; its log ends {self.log_end()}")
        return self.answer

    def log_end(self):
        return pathlib.Path(self.log.name).read_text()[-1500:]

    def end(self):
        self.process.kill()
        self.process.wait()


class Writes:
    """The changes, one after the other, and what they came to."""

    def __init__(self, server):
        self.server, self.count = server, 0

    def begin(self):
        def create(first):
            api = type(self.server.writer)(self.server.writer.port)
            api.tls = self.server.writer.tls
            for number in range(first, OBJECTS, WRITERS):
                api.done("POST", PATH, {"metadata": {"name": f"cm-{number:05}"}, "data": {"text": f"<{number}>&é\u2028"}})

        self.server.writer.done("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        threads = [threading.Thread(target=create, args=(first,)) for first in range(WRITERS)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]

    def change(self):
        """One change: an update, every fifth time a deletion, of what is not there a creation. Returns what followers must be told."""
        self.count += 1
        name = f"cm-{self.count * 7_919 % OBJECTS:05}"
        api = self.server.writer
        if self.count % 5 == 0:
            status, _ = api.ask("DELETE", f"{PATH}/{name}")
            if status == 200:
                return name, None
        status, answer = api.ask("PATCH", f"{PATH}/{name}", {"data": {"text": f"change {self.count}"}}, MERGE)
        if status == 404:
            answer = api.done("POST", PATH, {"metadata": {"name": name}, "data": {"text": f"change {self.count}"}})
        return name, int(answer["metadata"]["resourceVersion"])

    def make(self, count=CHANGES):
        return [self.change() for _ in range(count)]

    def truth(self):
        return {it["metadata"]["name"]: int(it["metadata"]["resourceVersion"]) for it in self.server.writer.done("GET", PATH)["items"]}


def differs(found, truth):
    """How two maps of names and revisions differ, in short."""
    wrong = [(name, found.get(name), truth.get(name)) for name in found.keys() | truth.keys() if found.get(name) != truth.get(name)]
    return f"{len(found)} objects, {len(truth)} in truth; {len(wrong)} differ: (name, found, true) {sorted(wrong)[:3]}" if wrong else None


def prepare(server, namespace):
    """A follower's own namespace, with a Pod that may not be evicted."""
    api = server.writer
    api.done("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    api.done("POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": "guarded", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0}})
    api.done("PATCH", f"/api/v1/namespaces/{namespace}/pods/guarded/status", {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}, MERGE)
    budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    made = api.done("POST", budgets, {"metadata": {"name": "budget"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}})
    status = {"observedGeneration": made["metadata"]["generation"], "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    api.done("PATCH", f"{budgets}/budget/status", {"status": status}, MERGE)


def reach(followers, what, truth, patience=PATIENCE):
    """Waits until what handlers were told adds up to the truth."""
    began, until = time.monotonic(), time.monotonic() + patience
    for one in followers:
        while (difference := differs(one.state, truth)) and time.monotonic() < until:
            time.sleep(0.05)
        check(one.who, f"{what} ({time.monotonic() - began:.1f} s)", difference or True)


def compare(followers, truth):
    """The caches, by the clients' own words."""
    for one in followers:
        one.ask("held")
    for one in followers:
        held = {line[1]: int(line[2]) for line in one.told("held") if line[0] == "held"}
        check(one.who, "its cache is what a LIST shows", differs(held, truth) or True)
        check(one.who, "no object's revision went back", one.backward[:3] or True)


def asked(server, follower, since):
    """What a follower's informer asked after this number of requests: (verb, code) of each. A watch that begins with a list is a list."""
    for event in list(server.audited())[since:]:
        query = urllib.parse.parse_qs(urllib.parse.urlparse(event["requestURI"]).query)
        if query.get("labelSelector") == [f"follower!={follower.name}"]:
            yield "list" if query.get("sendInitialEvents") == ["true"] else event["verb"], event["responseStatus"]["code"]


def answers(followers, count):
    for one in followers:
        one.ask("answers")
    for one in followers:
        for word, *rest in one.told("answers"):
            if word == "paged":
                check(one.who, "a list in pages", rest == [str(count)] * 2 or rest)
            else:
                check(one.who, " ".join(rest), word == "ok" or " ".join([word, *rest]))


def late(followers):
    for one in followers:
        one.ask("late")
    for one in followers:
        told = one.told("late")
        check(one.who, "410 of a watch that comes too late", told == [("ok", "410")] or told)


class Clock:
    """Prints how long each part took."""

    def __init__(self):
        self.began = self.last = time.monotonic()

    def tell(self, what):
        now = time.monotonic()
        print(f"-- {what}: {now - self.last:.1f} s", flush=True)
        self.last = now


def story(server, followers, clock):
    writes = Writes(server)
    writes.begin()
    for one in followers:
        prepare(server, one.name)
    clock.tell(f"{OBJECTS} objects")
    answers(followers, len(writes.truth()))
    clock.tell("answers")

    for one in followers:
        one.ask("follow")
    reach(followers, f"an informer has {OBJECTS} objects", writes.truth())
    clock.tell("informers")

    marks = [len(one.events) for one in followers]
    made = writes.make()
    reach(followers, "it hears of changes", writes.truth())
    for one, mark in zip(followers, marks):
        seen = one.events[mark:]
        wrong = next((number for number, pair in enumerate(zip(seen, made)) if pair[0] != pair[1]), min(len(seen), len(made)))
        check(one.who, f"{CHANGES} changes, each once and in order", seen == made or f"{len(seen)} told, the first other one: {seen[wrong:wrong + 2]}, made {made[wrong:wrong + 2]}")
    clock.tell("changes")

    restart(server, writes)
    reach(followers, "after kill -9 and a start, while a writer goes on", writes.truth())
    compare(followers, writes.truth())
    clock.tell("restart")

    server.kill()
    server.lose_history(lambda: writes.make(UNSEEN))
    since = len(list(server.audited()))
    server.start()
    reach(followers, "after changes that it could not see, and a compaction", writes.truth())
    writes.make(20)
    reach(followers, "it goes on", writes.truth())
    for one in followers:
        requests = list(asked(server, one, since))
        if server.forgets:
            check(one.who, "it lists anew of its own accord", ("list", 200) in requests or requests)
        if one.language == "fabric8":
            check(one.who, "its watches are WebSockets", ("watch", 101) in requests or requests)
    compare(followers, writes.truth())
    clock.tell("history lost")
    late(followers)
    clock.tell("late watches")


def restart(server, writes):
    """Kills the server and starts it, while a writer goes on as far as it can."""
    over = threading.Event()

    def write():
        while not over.is_set():
            try:
                writes.change()
            except (OSError, ValueError, SystemExit):
                time.sleep(0.01)
            except Exception:
                server.writer.connection = None

    writer = threading.Thread(target=write)
    writer.start()
    time.sleep(0.5)
    server.kill()
    time.sleep(0.2)
    server.start()
    time.sleep(0.5)
    over.set()
    writer.join()
    writes.make(20)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("server", type=pathlib.Path)
    parser.add_argument("subject", choices=["alone", "replica", "fed"])
    parser.add_argument("--peers", type=pathlib.Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--add", action="append", default=[], metavar="LANGUAGE=PROGRAM")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for logs and data, which stay")
    given = parser.parse_args()
    commands = {**COMMANDS, **{name: [command] for name, command in (one.split("=", 1) for one in given.add)}}
    subprocess.run([HERE / "install.sh", "python", "node", "java", "client-java"], check=True)
    with tempfile.TemporaryDirectory() as there:
        there = given.keep or pathlib.Path(there)
        there.mkdir(exist_ok=True)
        clock = Clock()
        server = {"alone": Alone, "replica": Replica, "fed": Fed}[given.subject](given.server.resolve(), there.resolve(), given.peers and given.peers.resolve())
        followers = []
        try:
            clock.tell("servers")
            for language, command in commands.items():
                if not given.only or language in given.only.split(","):
                    followers += [Follower(language, command, door, *files, there) for door, files in server.doors.items()]
            story(server, followers, clock)
        finally:
            for one in followers:
                one.end()
            server.end()
    print(f"{'FAILED' if failed else 'ok'}: {given.subject}: {len(followers)} followers, {time.monotonic() - clock.began:.0f} s")
    sys.exit(1 if failed else 0)


main()
