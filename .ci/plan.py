#!/usr/bin/env python3
"""plan.py [all | ROOM… | PHASE…]: the phases that .ci/run runs, one a line, in order; why, on standard error.

Without an argument: those that the change can break. The change is what has come since the merge base with origin/main, with all that is not committed; where
that is nothing, as in a fresh clone of main, what has come since the commit in .ci/proven, which has passed `.ci/run all`. When that is not known either,
all rooms have changed.

A room is a path of .ci/rooms, or a folder below one. The rows of .ci/phases and .ci/rooms say what they mean.
"""
import pathlib, subprocess, sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
# Above so many rooms a change is proved by each proof once, in its short form.
FEW = 3


def table(name, columns):
    """The rows of a table of this folder, of which the last column may have spaces."""
    lines = (HERE / name).read_text().splitlines()
    return [line.split(maxsplit=columns - 1) for line in lines if line.strip() and not line.startswith("#")]


def names(cell):
    return [] if cell == "-" else cell.split(",")


PHASES = {name: (how, names(needs)) for name, how, _, needs, _ in table("phases", 5)}
ROOMS = {room: (names(phases), names(more)) for room, phases, more in table("rooms", 3)}


def git(*arguments):
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def base():
    """The commit since which the change is, and how it was found."""
    head, main = git("rev-parse", "HEAD"), git("merge-base", "HEAD", "origin/main")
    if main and (main != head or git("status", "--porcelain")):
        return main, "the merge base with origin/main"
    proven = HERE / "proven"
    commit = proven.read_text().split()[0] if proven.exists() else None
    if commit and git("merge-base", "--is-ancestor", commit, "HEAD") is not None:
        return commit, "the last commit that passed everything"
    return None, "an unknown commit"


def room_of(path):
    """The room of a file."""
    fitting = [room for room in ROOMS if path == room or path.startswith(room + "/") or path == room + ".rs"]
    return max(fitting, key=len, default=".")


def changed():
    """The rooms that have changed, and a sentence on it."""
    commit, what = base()
    files = None if commit is None else git("diff", "--name-only", commit)
    if files is None:
        return [room for room in ROOMS if room != "always"], f"all rooms have changed since {what}"
    others = git("ls-files", "--others", "--exclude-standard") or ""
    paths = [path for path in (files + "\n" + others).splitlines() if path and path not in {".ci/proven", ".ci/times"}]
    rooms = sorted({room_of(path) for path in paths})
    return rooms, f"{len(paths)} files in {len(rooms)} rooms have changed since {what}: {' '.join(rooms)}"


def proofs(rooms):
    """The phases that show that these rooms are right."""
    is_short = len(rooms) > FEW
    wanted = set()
    for room in ["always", *rooms]:
        phases, more = ROOMS[room]
        wanted.update(phases, [] if is_short else more)
    return wanted


def with_needs(wanted):
    """These phases and those that must come before them, in the table's order."""
    ahead, found = list(wanted), set()
    while ahead:
        phase = ahead.pop()
        if phase not in found:
            found.add(phase)
            ahead.extend(PHASES[phase][1])
    return [phase for phase in PHASES if phase in found]


def chosen(arguments):
    """The phases that are asked for, and a sentence on it."""
    if arguments == ["all"]:
        return [phase for phase, (how, _) in PHASES.items() if how != "build"], "everything"
    if not arguments:
        rooms, why = changed()
        return proofs(rooms), why
    unknown = [name for name in arguments if name not in PHASES and name not in ROOMS and not (ROOT / name).exists()]
    if unknown:
        sys.exit(f"neither a room nor a phase: {' '.join(unknown)}\n\n{__doc__}")
    phases = {name for name in arguments if name in PHASES}
    rooms = sorted({room_of(name.rstrip("/")) for name in arguments if name not in PHASES})
    return phases | (proofs(rooms) if rooms else set()), "asked for"


def main():
    wanted, why = chosen(sys.argv[1:])
    print(f"== {why}", file=sys.stderr)
    print("\n".join(with_needs(wanted)))


if __name__ == "__main__":
    main()
