#!/usr/bin/env python3
"""Seeded bugs: each is planted in a copy of the tree, and the simulation must catch it.

Usage: .ci/mutants.py [COPY_DIR]   (default: target/mutants)
       .ci/mutants.py [COPY_DIR] --histories FAULTS PEERS   the bugs of a server that a kube-apiserver feeds: FAULTS is the program watchcache-faults, PEERS has etcd and kube-apiserver
       .ci/mutants.py [COPY_DIR] --clean-up PEERS   the bugs of the controllers, which tests/controllers/compare.py must catch: PEERS has etcd, kube-apiserver and kube-controller-manager
Ends with 1 when a bug survives, or when a bug's text is no longer in the source (then mend this list).

All bugs are planted at once, each behind a question to the environment, so the copy is compiled once: where a bug's text says BUG, it asks whether it is the one
that WATCHCACHE_SEEDED_BUG names.
"""
import concurrent.futures, json, os, re, shutil, subprocess, sys

# (name, file, what stands there, what stands there with the bug)
BUGS = [
    ("a watch below the floor is let in", "src/cache/state/ring.rs", "if seen < self.floor {", "if (if BUG { seen.next() } else { seen }) < self.floor {"),
    ("eviction forgets to raise the floor", "src/cache/state/ring.rs", "self.floor = oldest.revision;\n", "if !BUG { self.floor = oldest.revision; }\n"),
    ("an idle snapshot claims to know what was handed but not applied", "src/cache/state/snapshot.rs",
     "applied if applied.0 >= handed =>", "applied if applied.0 >= handed || BUG && fed > 0 =>"),
    ("a snapshot of an etcd that is no more is taken for fresh", "src/cache/state/snapshot.rs",
     "_ if snapshot.epoch.0 < void_before =>", "_ if snapshot.epoch.0 < void_before && !BUG =>"),
    ("an exact read undoes one event too few", "src/cache/state/snapshot.rs", "(self.ring.after(revision)..self.ring.after(from)).rev()",
     "(if BUG { self.ring.after(revision) + 1..self.ring.after(from).max(1) } else { self.ring.after(revision)..self.ring.after(from) }).rev()"),
    ("a revision is cut in two by the budget", "src/cache/dispatch/group.rs",
     "if log.frames[at].revision > *seen {", "if BUG || log.frames[at].revision > *seen {"),
    ("a member that fell behind does not notice", "src/cache/dispatch/group.rs", "if cursor < log.first {", "if cursor < log.first && !BUG {"),
    ("a member sleeps without leaving its waker", "src/cache/dispatch/group.rs",
     "member.waker = Some(waker.clone());", "if !BUG { member.waker = Some(waker.clone()); }"),
    ("an object that leaves a label's selection is not looked up by its old label", "src/cache/dispatch/match_index.rs",
     "labels(old).chain(after)", "labels(old.filter(|_| !BUG)).chain(after)"),
    ("streams live on across a reset", "src/cache/cacher.rs",
     "self.published.publish(self.resource.snapshot());\n                    wakes.push(self.dispatcher.end_all());",
     "self.published.publish(self.resource.snapshot());\n                    if !BUG { wakes.push(self.dispatcher.end_all()); }"),
    ("a fragment's last revision is not held back", "src/cache/feed/machine.rs",
     "if more && let Some(last)", "if more && (!BUG || events.is_empty()) && let Some(last)"),
    ("changes that came during a load are lost", "src/cache/feed/machine.rs", "let (ready_at, held) = (*ready_at, std::mem::take(held));",
     "if BUG { held.clear(); }\n        let (ready_at, held) = (*ready_at, std::mem::take(held));"),
    ("fed is the newest of the watches, not the oldest", "src/cache/feed/machine.rs", "self.ranges.iter().map(|w| w.at).min()",
     "(if BUG { self.ranges.iter().map(|w| w.at).max() } else { self.ranges.iter().map(|w| w.at).min() })"),
    ("a compacted watch goes on without a load", "src/cache/feed/machine.rs",
     "let ids: Vec<Vec<u8>> = self.resources.keys().filter(|key| range.contains(key)).cloned().collect();",
     "let ids: Vec<Vec<u8>> = self.resources.keys().filter(|key| range.contains(key) && (!BUG || key.is_empty())).cloned().collect();"),
    ("after a restored backup, smaller revisions are taken for duplicates", "src/cache/feed/machine.rs",
     "resource.upto = Revision::ZERO;\n        out.push(Out::Withhold", "if !BUG { resource.upto = Revision::ZERO; }\n        out.push(Out::Withhold"),
    ("a bookmark may repeat the one before, or be older", "src/cache/dispatch/subscription.rs",
     "            self.start = revision;\n", "            if !BUG { self.start = revision; }\n"),
]

# The same of a server that a kube-apiserver feeds, which `watchcache-faults histories` must catch.
FED_BUGS = [
    ("a read is proven by an answer to a question that was asked before it", "src/storage/read/latest_revision.rs",
     "*self.next.lock() = None;\n        (self.query)().await",
     "if !BUG { *self.next.lock() = None; }\n        let latest = (self.query)().await;\n        *self.next.lock() = None;\n        latest"),
    ("memory that has not come as far is served after the wait", "src/storage/read/serve.rs",
     "let waited = published.wait_for(asked, self.wait_limit(published.fed(), &known, reads)).await;",
     "let asked = if BUG && self.elsewhere.is_some() && reads != Reads::Watch { known.revision } else { asked };\n"
     "        let waited = published.wait_for(asked, self.wait_limit(published.fed(), &known, reads)).await;"),
    ("a watch that goes on begins where upstream is now", "src/reflector/follower.rs",
     'self.source.watch(&self.place, &format!("timeoutSeconds={seconds}&resourceVersion={from}")).await?;',
     'self.source.watch(&self.place, &format!("timeoutSeconds={seconds}&resourceVersion={}", '
     'if BUG { self.source.newest(&self.place.storage).await.unwrap_or(from) } else { from })).await?;'),
    ("a deletion is told to nobody", "src/reflector/machine.rs",
     "let change = if is_gone { Change::Delete(item.key.clone()) } else { put(&item, place)? };",
     "if BUG && is_gone && revision > self.known { self.flush(true, out); self.known = revision; out.push(Out::Known(revision)); return Ok(()); }\n"
     "        let change = if is_gone { Change::Delete(item.key.clone()) } else { put(&item, place)? };"),
    ("a change that another watch tells counts as silence", "src/reflector/follower.rs", "Ok(Told::Put(_) | Told::Gone(_)) => Progress::News(from),",
     "Ok(Told::Put(_) | Told::Gone(_)) if BUG => Progress::Silent(from, source.newest(&place.storage).await.unwrap_or(from)),\n"
     "        Ok(Told::Put(_) | Told::Gone(_)) => Progress::News(from),"),
]

# The same of the controllers, which tests/controllers/compare.py must catch, with these arguments.
GRAPHS = ["--graphs", "50", "--seed", "3"]
CLEAN_UP_BUGS = [
    ("an owner that waits for its dependents is kept by one that has another owner too", "src/controllers/garbage/decide.rs",
     ".filter(|(_, owner)| **owner != Owner::Solid);", ".filter(|(_, owner)| if BUG { **owner == Owner::Dangling } else { **owner != Owner::Solid });",
     ["--story", "foreground_blocks"]),
    ("a circle waits for itself", "src/controllers/garbage/decide.rs", "unblocks: dependents.one_waits }", "unblocks: dependents.one_waits && !BUG }", ["--story", "circle"]),
    ("what has dependents goes before them in a foreground deletion", "src/controllers/garbage/decide.rs", "if dependents.any {", "if dependents.any && !BUG {", GRAPHS),
    ("a dependent whose finalizer says orphan takes its own dependents along", "src/controllers/garbage/decide.rs",
     "() if has_finalizer(ORPHAN) => Propagation::Orphan,", "() if has_finalizer(ORPHAN) && !BUG => Propagation::Orphan,", GRAPHS),
    ("every dependent blocks", "src/controllers/garbage/decide.rs",
     "reference.uid == owner_uid && reference.block_owner_deletion == Some(true))", "reference.uid == owner_uid && (BUG || reference.block_owner_deletion == Some(true)))",
     ["--story", "foreground_blocks"]),
    ("an owner of the same name is the owner", "src/controllers/garbage/act.rs", "let is_it = metadata.uid == reference.uid;", "let is_it = BUG || metadata.uid == reference.uid;",
     GRAPHS),
    ("an owner in any namespace is the owner", "src/controllers/garbage/act.rs", "self.absentees.add(reference, &resource, item.resource, item.object);\n        self.absent",
     "if !BUG { self.absentees.add(reference, &resource, item.resource, item.object); }\n        self.absent", ["--story", "wrong_owners"]),
    ("owners that are gone stay in the list of one that has another", "src/controllers/garbage/act.rs",
     "Action::Forget(uids) => self.forget(", "Action::Forget(_) if BUG => {}\n            Action::Forget(uids) => self.forget(", GRAPHS),
    ("all owners are forgotten with one", "src/controllers/garbage/act.rs", "is_some_and(|uid| uids.contains(uid))).collect();",
     "is_some_and(|uid| BUG || uids.contains(uid))).collect();", GRAPHS),
    ("who is orphaned is let go without its dependents", "src/controllers/garbage/act.rs",
     "let mut let_go = stream::iter(self.dependents(item))", "let mut let_go = stream::iter(if BUG { Vec::new() } else { self.dependents(item) })", ["--story", "orphans"]),
    ("what goes leaves its dependents alone", "src/controllers/garbage.rs", "let dependents = self.look_at_dependents(object);",
     "let dependents = if BUG { 0 } else { self.look_at_dependents(object) };", ["--story", "cascades"]),
    ("an owner does not learn that its last dependent is gone", "src/controllers/garbage.rs",
     "let waiting = self.shared.waiting.lock().get(&hash(&reference.uid)).cloned();", "let waiting = self.shared.waiting.lock().get(&hash(&reference.uid)).filter(|_| !BUG).cloned();",
     ["--story", "foreground_blocks"]),
    ("a dependent counts as one after it names another owner", "src/controllers/garbage.rs",
     "left.for_each(|reference| index.remove(&reference.uid, slot, before));", "left.for_each(|reference| if !BUG { index.remove(&reference.uid, slot, before) });", GRAPHS),
    ("a change of owners is not looked at", "src/controllers/garbage.rs", "if is_changed && self.is_complete && !", "if is_changed && !BUG && self.is_complete && !", GRAPHS),
    ("a definition that is gone is waited for", "src/controllers/garbage.rs", "left.is_served = false;", "left.is_served = BUG;", ["--story", "definition_goes"]),
    ("what is let go wakes nobody who waits", "src/controllers/garbage.rs", "for reference in unblocked(&old, &new) {", "for reference in unblocked(&old, &new).filter(|_| !BUG) {",
     ["--story", "foreground_blocks"]),
    ("everything else goes while there are Pods", "src/controllers/namespace_deletion/content.rs", "if left.objects > 0 {\n            // The", "if left.objects > 0 && !BUG {\n            // The",
     ["--story", "namespace_with_pods"]),
    ("a namespace goes before its content", "src/controllers/namespace_deletion.rs", "if estimate > 0 {", "if estimate > 0 && !BUG {", ["--story", "namespace_with_finalizers"]),
    ("a namespace loses the finalizers of others", "src/controllers/namespace_deletion.rs", ".filter(|finalizer| **finalizer != FINALIZER).collect();",
     ".filter(|finalizer| **finalizer != FINALIZER && !BUG).collect();", ["--story", "namespace_with_owner_finalizer"]),
    ("finalizers are not told of", "src/controllers/namespace_deletion/content.rs", "*found.finalizers.entry(finalizer).or_default() += count;",
     "if !BUG { *found.finalizers.entry(finalizer).or_default() += count; }", ["--story", "namespace_that_stays"]),
    ("a token Secret is anybody's of the name", "src/controllers/tokens.rs", "uid.is_empty() || metadata.uid == uid;", "BUG || uid.is_empty() || metadata.uid == uid;",
     ["--story", "token_secrets"]),
    ("a spoiled authority stays", "src/controllers/root_ca.rs", 'is_described && map["data"] == json!({MEMBER: authorities})', 'is_described && (BUG || map["data"] == json!({MEMBER: authorities}))',
     ["--story", "accounts"]),
    ("a job that failed stays", "src/controllers/time/jobs.rs", 'Some("Complete" | "Failed"))', 'Some(kind @ ("Complete" | "Failed")) if !BUG || kind == "Complete")', ["--story", "jobs"]),
    ("a denied request stays as long as one that waits", "src/controllers/time/requests.rs", '"Approved" | "Denied" | "Failed" => DONE,',
     '"Denied" if BUG => PENDING,\n            "Approved" | "Denied" | "Failed" => DONE,', ["--story", "requests"]),
    ("a token whose time nobody can read stays", "src/controllers/time/bootstrap_tokens.rs", "Some(moment(&text.into()).unwrap_or(OffsetDateTime::UNIX_EPOCH))",
     "if BUG { moment(&text.into()) } else { Some(moment(&text.into()).unwrap_or(OffsetDateTime::UNIX_EPOCH)) }", ["--story", "bootstrap"]),
    ("signatures of tokens that are gone stay", "src/controllers/signer.rs", "!tokens.contains_key(*id)", "!BUG && !tokens.contains_key(*id)", ["--story", "bootstrap"]),
    ("Pods of nodes that are gone are not told why", "src/controllers/pods.rs", "if reason == Reason::Orphaned {", "if reason == Reason::Orphaned && !BUG {", ["--story", "lost_pods"]),
    ("a node is out of service although it is ready", "src/controllers/pods.rs", "!is_ready && taints", "(BUG || !is_ready) && taints", ["--story", "lost_pods"]),
    ("the controllers go on while a kube-controller-manager has its Lease", "src/controllers/keeping.rs", "if now == Standing::Ours {", "if now == Standing::Ours || BUG && now != Standing::Undecided {",
     ["--hand-overs", "3"]),
]

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def asked(number):
    """The Rust expression that says whether a bug is the one to show."""
    return ('(*{ static SEEDED: std::sync::OnceLock<bool> = std::sync::OnceLock::new(); '
            f'SEEDED.get_or_init(|| std::env::var("WATCHCACHE_SEEDED_BUG").as_deref() == Ok("{number}")) }})')


def plant(copy, bugs):
    """Copies the tree with all these bugs in it."""
    os.makedirs(copy, exist_ok=True)
    for name in ["src", "tests", "proto"]:
        shutil.rmtree(os.path.join(copy, name), ignore_errors=True)
        shutil.copytree(os.path.join(ROOT, name), os.path.join(copy, name), ignore=shutil.ignore_patterns("target"))
    # Of another version: else cargo takes what is made of the copy for what is made of the project.
    for name, versions in [("Cargo.toml", r'(\[workspace\.package\]\nversion = ")[^"]+'), ("Cargo.lock", r'(name = "watchcache[^"]*"\nversion = ")[^"]+')]:
        with open(os.path.join(ROOT, name)) as f:
            text = f.read()
        with open(os.path.join(copy, name), "w") as f:
            f.write(re.sub(versions, r"\g<0>+seeded", text))
    for number, (name, path, old, new, *_) in enumerate(bugs):
        file = os.path.join(copy, path)
        with open(file) as f:
            text = f.read()
        if text.count(old) != 1:
            sys.exit(f"{name}: its text stands {text.count(old)} times in {path}")
        with open(file, "w") as f:
            f.write(text.replace(old, new.replace("BUG", asked(number))))


def names_program(run, name):
    """The program of this name that cargo has made."""
    return next(made["executable"] for made in map(json.loads, run.stdout.splitlines()) if made.get("executable") and made["target"]["name"] == name)


def build(copy, what, name):
    """Compiles this of the copy; its program. What it depends on is shared with the project's own builds, what it makes is not."""
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.join(copy, "target"), CARGO_BUILD_BUILD_DIR=os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")))
    run = subprocess.run(["cargo", *what, "--quiet", "--locked", "--message-format", "json-render-diagnostics"], cwd=copy, env=env,
                         stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit("the copy with the bugs does not compile")
    return names_program(run, name)


def simulate(program, bug=""):
    """Runs the simulation with one bug, or with none."""
    env = dict(os.environ, WATCHCACHE_SIM_HISTORIES=os.environ.get("WATCHCACHE_MUTANT_HISTORIES", "4000"), WATCHCACHE_SEEDED_BUG=str(bug), RUST_BACKTRACE="0")
    return subprocess.run([program], env=env, capture_output=True, text=True, timeout=900)


def histories(program, faults, peers, bug=""):
    """Plays histories of a server with one bug, or with none."""
    env = dict(os.environ, WATCHCACHE_SEEDED_BUG=str(bug))
    count, port = os.environ.get("WATCHCACHE_MUTANT_HISTORIES", "4000"), os.environ.get("WATCHCACHE_MUTANT_PORT", "21700")
    command = [faults, "histories", "--subject", "watchcache-upstream", "--server", program, "--etcd", os.path.join(peers, "etcd"), "--base-port", port,
               "--kube-apiserver", os.path.join(peers, "kube-apiserver"), "--histories", count, "--history-clients", "32"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)


def fed(copy, faults, peers):
    """Has the histories catch what is planted in a server that a kube-apiserver feeds; one after the other, for each has three servers."""
    plant(copy, FED_BUGS)
    program, failed = build(copy, ["build", "--bin", "watchcache"], "watchcache"), 0
    sound = histories(program, faults, peers)
    if sound.returncode != 0:
        sys.exit(f"the histories fail without any bug:\n{sound.stdout}{sound.stderr}")
    for number, (name, *_) in enumerate(FED_BUGS):
        run = histories(program, faults, peers, number)
        is_caught = " violations=" in run.stdout and " violations=0 " not in run.stdout
        why = [line.strip() for line in run.stdout.splitlines() if line.startswith("    client")] or run.stdout.splitlines()[:1]
        print(f"caught   {name} ({why[0]})" if is_caught else f"SURVIVED {name}: {run.stdout}{run.stderr}", flush=True)
        failed += not is_caught
    print(f"{len(FED_BUGS) - failed} of {len(FED_BUGS)} seeded bugs caught")
    sys.exit(1 if failed else 0)


def clean_up(program, peers, arguments, bug=""):
    """Has a server with one bug, or with none, clean up beside a kube-controller-manager."""
    env = dict(os.environ, WATCHCACHE_SEEDED_BUG=str(bug), PATIENCE="200" if "lost_pods" in arguments or bug == "" else "60")
    compare = os.path.join(ROOT, "tests", "controllers", "compare.py")
    return subprocess.run([compare, peers, program, *arguments], env=env, capture_output=True, text=True, timeout=1800)


def cleaning(copy, peers):
    """Has the comparison catch what is planted in the controllers; kube-controller-manager's side is recorded once."""
    plant(copy, CLEAN_UP_BUGS)
    program, failed = build(copy, ["build", "--bin", "watchcache"], "watchcache"), 0
    theirs = os.path.join(copy, "recorded.json")
    sound = clean_up(program, peers, ["--stories", *GRAPHS, "--hand-overs", "3", "--record", theirs])
    if sound.returncode != 0:
        sys.exit(f"the comparison fails without any bug:\n{sound.stdout}{sound.stderr}")
    for number, (name, *_, arguments) in enumerate(CLEAN_UP_BUGS):
        run = clean_up(program, peers, [*arguments, "--recorded", theirs], number)
        why = [line.strip()[:160] for line in (run.stdout + run.stderr).splitlines() if "differ" in line or " is after " in line or "wrong" in line]
        is_caught = run.returncode != 0 and bool(why)
        print(f"caught   {name} ({' '.join(arguments)}: {why[0]})" if is_caught else f"SURVIVED {name}: {run.stdout}{run.stderr}", flush=True)
        failed += not is_caught
    print(f"{len(CLEAN_UP_BUGS) - failed} of {len(CLEAN_UP_BUGS)} seeded bugs caught")
    sys.exit(1 if failed else 0)


def main():
    arguments = sys.argv[1:]
    if "--clean-up" in arguments:
        at = arguments.index("--clean-up")
        cleaning(os.path.abspath(arguments[0]) if at > 0 else os.path.join(ROOT, "target", "mutants"), os.path.abspath(arguments[at + 1]))
    at = arguments.index("--histories") if "--histories" in arguments else len(arguments)
    copy = os.path.abspath(arguments[0]) if at > 0 else os.path.join(ROOT, "target", "mutants")
    if at < len(arguments):
        fed(copy, *map(os.path.abspath, arguments[at + 1:]))
    plant(copy, BUGS)
    program = build(copy, ["test", "--no-run", "--test", "sim"], "sim")
    sound = simulate(program)
    if sound.returncode != 0:
        sys.exit(f"the simulation fails without any bug:\n{sound.stdout}{sound.stderr}")
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for (name, *_), run in zip(BUGS, pool.map(lambda bug: simulate(program, bug), range(len(BUGS)))):
            if run.returncode == 0:
                print(f"SURVIVED {name}")
                failed += 1
            else:
                why = [line for line in (run.stdout + run.stderr).splitlines() if "history" in line and "broke" in line]
                print(f"caught   {name} ({why[0].strip() if why else 'panicked'})")
            sys.stdout.flush()
    print(f"{len(BUGS) - failed} of {len(BUGS)} seeded bugs caught")
    sys.exit(1 if failed else 0)


main()
