#!/usr/bin/env python3
"""Seeded bugs: each is planted in a copy of the tree, and the simulation must catch it.

Usage: .ci/mutants.py [COPY_DIR]   (default: target/mutants; its build directory is kept between runs)
Ends with 1 when a bug survives, or when a bug's text is no longer in the source (then mend this list).
"""
import os, shutil, subprocess, sys

# (name, file, what stands there, what the bug makes of it)
BUGS = [
    ("a watch below the floor is let in", "src/watch/cache/ring.rs", "if seen < self.floor {", "if seen.next() < self.floor {"),
    ("eviction forgets to raise the floor", "src/watch/cache/ring.rs", "self.floor = oldest.revision;\n", "\n"),
    ("an idle snapshot claims to know what was handed but not applied", "src/watch/cache/view.rs",
     "applied if applied.0 >= handed =>", "applied if applied.0 >= handed || fed > 0 =>"),
    ("a snapshot of an etcd that is no more is taken for fresh", "src/watch/cache/view.rs",
     "_ if view.epoch.0 < void_before => Revision::ZERO,", ""),
    ("an exact read undoes one event too few", "src/watch/cache/view.rs",
     "(self.ring.after(revision)..self.ring.after(from)).rev()", "(self.ring.after(revision) + 1..self.ring.after(from).max(1)).rev()"),
    ("a revision is cut in two by the budget", "src/watch/dispatch/group.rs",
     "if bytes >= budget && frame.revision > *seen {", "if bytes >= budget {"),
    ("a member that fell behind does not notice", "src/watch/dispatch/group.rs", "if cursor < log.first {", "if false {"),
    ("a member sleeps without leaving its waker", "src/watch/dispatch/group.rs", "member.waker = Some(waker.clone());", "let _ = waker;"),
    ("an object that leaves a label's selection is not looked up by its old label", "src/watch/dispatch/interest.rs",
     "labels(old).chain(after)", "labels(old.filter(|_| false)).chain(after)"),
    ("streams live on across a reset", "src/cacher.rs",
     "self.published.publish(self.replica.view());\n                    wakes.push(self.dispatcher.end_all());",
     "self.published.publish(self.replica.view());"),
    ("a fragment's last revision is not held back", "src/watch/feed/machine.rs", "if more && let Some(last)", "if more && events.is_empty() && let Some(last)"),
    ("changes that came during a load are lost", "src/watch/feed/machine.rs",
     "let (ready_at, held) = (*ready_at, std::mem::take(held));", "let (ready_at, held) = (*ready_at, { held.clear(); Vec::<Batch>::new() });"),
    ("fed is the newest of the watches, not the oldest", "src/watch/feed/machine.rs",
     "self.ranges.iter().map(|w| w.at).min()", "self.ranges.iter().map(|w| w.at).max()"),
    ("a compacted watch goes on without a load", "src/watch/feed/machine.rs",
     "let ids: Vec<Vec<u8>> = self.resources.keys().filter(|key| range.contains(key)).cloned().collect();",
     "let ids: Vec<Vec<u8>> = self.resources.keys().filter(|key| range.contains(key) && key.is_empty()).cloned().collect();"),
    ("after a restored backup, smaller revisions are taken for duplicates", "src/watch/feed/machine.rs",
     "resource.upto = Revision::ZERO;\n        out.push(Out::Withhold", "out.push(Out::Withhold"),
    ("a bookmark may be older than the one before", "src/watch/dispatch/subscription.rs", "            self.start = revision;\n", ""),
]


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    copy = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(root, "target", "mutants")
    os.makedirs(copy, exist_ok=True)
    for name in ["src", "tests", "proto", ".cargo"]:
        shutil.rmtree(os.path.join(copy, name), ignore_errors=True)
        shutil.copytree(os.path.join(root, name), os.path.join(copy, name), ignore=shutil.ignore_patterns("target"))
    for name in ["Cargo.toml", "Cargo.lock"]:
        shutil.copy(os.path.join(root, name), copy)
    env = dict(os.environ, WATCHCACHE_SIM_HISTORIES=os.environ.get("WATCHCACHE_MUTANT_HISTORIES", "4000"), RUST_BACKTRACE="0",
               CARGO_TARGET_DIR=os.path.join(copy, "target"), WATCHCACHE_PROTOX_ROOT=os.path.join(root, "target", "protox"))

    def simulate():
        return subprocess.run(["cargo", "test", "--quiet", "--test", "sim"], cwd=copy, env=env, capture_output=True, text=True)

    sound = simulate()
    if sound.returncode != 0:
        sys.exit(f"the simulation fails without any bug:\n{sound.stdout}{sound.stderr}")
    failed = 0
    for name, path, old, new in BUGS:
        file = os.path.join(copy, path)
        with open(file) as f:
            text = f.read()
        if text.count(old) != 1:
            print(f"MISSING  {name}: its text stands {text.count(old)} times in {path}")
            failed += 1
            continue
        with open(file, "w") as f:
            f.write(text.replace(old, new))
        run = simulate()
        with open(file, "w") as f:
            f.write(text)
        said = run.stdout + run.stderr
        if "error: could not compile" in said or "error[E" in said:
            print(f"BROKEN   {name}: does not compile\n{said[-1500:]}")
            failed += 1
        elif run.returncode == 0:
            print(f"SURVIVED {name}")
            failed += 1
        else:
            why = [line for line in said.splitlines() if "history" in line and "broke" in line]
            print(f"caught   {name} ({why[0].strip() if why else 'panicked'})")
        sys.stdout.flush()
    print(f"{len(BUGS) - failed} of {len(BUGS)} seeded bugs caught")
    sys.exit(1 if failed else 0)


main()
