#!/usr/bin/env python3
"""Seeded bugs: each is planted in a copy of the tree, and the simulation must catch it.

Usage: .ci/mutants.py [COPY_DIR]   (default: target/mutants)
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
     "if bytes >= budget && frame.revision > *seen {", "if bytes >= budget && (BUG || frame.revision > *seen) {"),
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

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def asked(number):
    """The Rust expression that says whether a bug is the one to show."""
    return ('(*{ static SEEDED: std::sync::OnceLock<bool> = std::sync::OnceLock::new(); '
            f'SEEDED.get_or_init(|| std::env::var("WATCHCACHE_SEEDED_BUG").as_deref() == Ok("{number}")) }})')


def plant(copy):
    """Copies the tree with all bugs in it."""
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
    for number, (name, path, old, new) in enumerate(BUGS):
        file = os.path.join(copy, path)
        with open(file) as f:
            text = f.read()
        if text.count(old) != 1:
            sys.exit(f"{name}: its text stands {text.count(old)} times in {path}")
        with open(file, "w") as f:
            f.write(text.replace(old, new.replace("BUG", asked(number))))


def build(copy):
    """Compiles the simulation of the copy; its program. What it depends on is shared with the project's own builds, what it makes is not."""
    env = dict(os.environ, CARGO_TARGET_DIR=os.path.join(copy, "target"), CARGO_BUILD_BUILD_DIR=os.path.join(ROOT, "target"))
    run = subprocess.run(["cargo", "test", "--quiet", "--locked", "--no-run", "--test", "sim", "--message-format", "json-render-diagnostics"], cwd=copy, env=env,
                         stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit("the copy with the bugs does not compile")
    return next(made["executable"] for made in map(json.loads, run.stdout.splitlines()) if made.get("executable") and made["target"]["name"] == "sim")


def simulate(program, bug=""):
    """Runs the simulation with one bug, or with none."""
    env = dict(os.environ, WATCHCACHE_SIM_HISTORIES=os.environ.get("WATCHCACHE_MUTANT_HISTORIES", "4000"), WATCHCACHE_SEEDED_BUG=str(bug), RUST_BACKTRACE="0")
    return subprocess.run([program], env=env, capture_output=True, text=True, timeout=900)


def main():
    copy = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(ROOT, "target", "mutants")
    plant(copy)
    program = build(copy)
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
