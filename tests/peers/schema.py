#!/usr/bin/env python3
"""Makes src/codec/proto/schema.txt of the Go types of several releases of Kubernetes: one schema that reads what any of them has stored.

    tests/peers/schema.py schema LAW RELEASE… > src/codec/proto/schema.txt      (LAW is one of the releases: 1.36.3 1.35.4 1.36.3 1.37.2)
    tests/peers/schema.py differences OLD NEW                                  what a message of NEW has that OLD has not, and the other way round
    tests/peers/schema.py differing LAW RELEASE…                               the messages that a release prints otherwise than LAW does
    tests/peers/schema.py golden|filled RELEASE SEED FULLNESS [KIND…]           as `go run . golden` in proto/, with the types of that release

    tests/peers/schema.py encode RELEASE < objects.jsonl                        as `go run . encode` in proto/

Needs a Go toolchain and a module source. A field number is never used again, so fields are joined by number; what speaks against that ends the run: a number
with two names, a name with two numbers, a type that changes, an order of members that is not the same in two releases.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODULES = ["api", "apiextensions-apiserver", "apimachinery", "client-go", "kube-aggregator"]


def run_go(release, arguments, stdin=None):
    """What proto/ says with the modules of a release."""
    with tempfile.TemporaryDirectory() as there:
        there = pathlib.Path(there)
        for file in (HERE / "proto").iterdir():
            shutil.copy(file, there)
        version = "v0." + release.removeprefix("1.")
        edits = [f"-require=k8s.io/{module}@{version}" for module in MODULES]
        subprocess.run(["go", "mod", "edit", *edits], cwd=there, check=True)
        subprocess.run(["go", "mod", "tidy"], cwd=there, check=True, stderr=subprocess.DEVNULL)
        return subprocess.run(["go", "run", ".", *arguments], cwd=there, check=True, stdout=subprocess.PIPE, text=True, stdin=stdin).stdout


class Message:
    def __init__(self, form, kinds):
        self.form, self.kinds, self.fields = form, kinds, []


def read(text):
    """Comments, and the messages of a schema by package and name."""
    head, messages, package = [], {}, ""
    for line in text.splitlines():
        if line.startswith("#"):
            head.append(line)
        elif line.startswith("package "):
            package = line.split()[1]
        elif line.startswith("message "):
            name, *rest = line.split()[1:]
            form = rest[1] if rest[:1] == ["="] else ""
            message = messages[package, name] = Message(form, [] if form else rest)
        else:
            message.fields.append(line.split())
    return head, messages


def name_of(field):
    """A field's number and JSON name; of one that has none its type."""
    return field[0], field[1]


def options_of(field):
    return [word for word in field if word in ("omitempty", "omitzero")]


def type_of(field):
    return [word for word in field if word not in ("omitempty", "omitzero")]


def minor(release):
    return release.split(".")[1]


def suffix(minors, all_minors):
    return "" if minors == all_minors else "@" + ",".join(minors)


def joined(at, versions):
    """The fields of a message in all releases, oldest first, each with the minors that have it."""
    order, found = [], {}
    for release, fields in versions:
        place = 0
        for field in fields:
            key = name_of(field)
            if key in found:
                if type_of(found[key][0]) != type_of(field):
                    sys.exit(f"{at}: {' '.join(found[key][0])} is {' '.join(field)} in {release}")
                if order.index(key) < place:
                    sys.exit(f"{at}: {' '.join(field)} stands in another place in {release}")
                found[key] = (field, found[key][1] + [minor(release)])
                place = order.index(key) + 1
            else:
                order.insert(place, key)
                found[key] = (field, [minor(release)])
                place += 1
    for i in (0, 1):
        names = [key[i] for key in order if key[i] != "inline"]
        again = {name for name in names if names.count(name) > 1}
        if again:
            sys.exit(f"{at}: {again} means two fields: {[' '.join(found[key][0]) for key in order if key[i] in again]}")
    return [found[key] for key in order]


def merge(schemas, minors):
    merged = {}
    for at in sorted({at for _, messages in schemas for at in messages}, key=" ".join):
        has = [(release, messages[at]) for release, messages in schemas if at in messages]
        if len({message.form for _, message in has}) > 1:
            sys.exit(f"{at} has another form in another release")
        kinds = {}
        for release, message in has:
            for kind in message.kinds:
                kinds.setdefault(kind, []).append(minor(release))
        merged[at] = (has[-1][1].form, [kind + suffix(kinds[kind], minors) for kind in sorted(kinds)], joined(at, [(r, m.fields) for r, m in has]))
    return merged


def schema(law, releases):
    releases.sort(key=lambda release: int(minor(release)))
    minors = [minor(release) for release in releases]
    read_all = [(release, *read(run_go(release, ["schema"]))) for release in releases]
    merged = merge([(release, messages) for release, _, messages in read_all], minors)
    for line in read_all[-1][1]:
        line = line.replace("k8s.io/api " + "0.36.3", "Kubernetes " + ", ".join(releases)).replace("tests/peers/proto", "tests/peers/schema.py")
        print(line)
    print(f"# @MINOR,… after a kind or a field: the minors that have it, where not all have. What is printed and taken by default is what 1.{minor(law)} has.")
    package = ""
    for (of, name), (form, kinds, fields) in merged.items():
        if of != package:
            package = of
            print("package", package)
        print(" ".join(["message", name, *(["=", form] if form else kinds)]))
        message_minors = sorted({m for _, has in fields for m in has})
        for field, has in fields:
            mark = suffix(has, message_minors)
            print("", " ".join(field + ([mark] if mark else [])))


def short(at):
    return f"{at[0].removeprefix('k8s.io.api.').removeprefix('k8s.io.')}.{at[1]}"


def differences(old, new):
    """A line for each message or field that one release has and the other has not."""
    (_, before), (_, after) = read(run_go(old, ["schema"])), read(run_go(new, ["schema"]))
    for at in sorted(set(before) | set(after), key=" ".join):
        if at not in after or at not in before:
            kinds = (before.get(at) or after[at]).kinds
            if kinds:
                print("-" if at in before else "+", ", ".join(kinds))
            continue
        for kind in sorted(set(before[at].kinds) ^ set(after[at].kinds)):
            if not kind.endswith("/DeleteOptions"):
                print("-" if kind in before[at].kinds else "+", kind)
        fields = {name_of(field): field for field in before[at].fields}
        for field in after[at].fields:
            was = fields.pop(name_of(field), None)
            if was is None:
                print("+", short(at), " ".join(field))
            elif was != field:
                print("~", short(at), " ".join(was), "→", " ".join(options_of(field)) or "no options")
        for field in fields.values():
            print("-", short(at), " ".join(field))


def always(field, messages, package):
    """Whether JSON or protobuf has the field when the message has not: a value that is no pointer, and is printed or written all the same."""
    shape = field[2] if field[1] != "inline" else field[2]
    if shape[0] in "*[{":
        return "omitempty" not in field
    is_message = shape[0] == "." or (package, shape) in messages
    return is_message or "omitempty" not in field or True


def reaches(messages, at, seen):
    """All messages in a message."""
    if at in seen or at not in messages:
        return seen
    seen.add(at)
    for field in messages[at].fields:
        shape = field[-1] if messages[at].form else field[2]
        shape = shape.lstrip("*[]{}")
        to = tuple(shape[1:].rsplit(".", 1)) if shape.startswith(".") else (at[0], shape)
        reaches(messages, to, seen)
    return seen


def differing(law, releases):
    """The kinds of LAW that another release prints or writes otherwise when the value has nothing of what is new: fields that are there by default."""
    _, ours = read(run_go(law, ["schema"]))
    for release in releases:
        if release == law:
            continue
        _, theirs = read(run_go(release, ["schema"]))
        odd = set()
        for at, message in ours.items():
            if at not in theirs:
                continue
            mine, other = ({name_of(f): f for f in m.fields} for m in (message, theirs[at]))
            for key in set(mine) ^ set(other):
                field = mine.get(key) or other[key]
                if field[2][0] not in "*[{" or not options_of(field):
                    odd.add((at, " ".join(field)))
            for key in set(mine) & set(other):
                if options_of(mine[key]) != options_of(other[key]):
                    odd.add((at, " ".join(mine[key]) + " → " + (" ".join(options_of(other[key])) or "no options")))
        for at, what in sorted(odd):
            kinds = sorted({kind for top, m in ours.items() for kind in m.kinds if at in reaches(ours, top, set())})
            print(release, short(at), what, "in", ", ".join(kinds))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["schema", law, *releases] if releases:
            schema(law, releases)
        case ["differences", old, new]:
            differences(old, new)
        case ["differing", law, *releases] if releases:
            differing(law, releases)
        case ["encode", release]:
            sys.stdout.write(run_go(release, ["encode"], sys.stdin))
        case ["golden" | "filled" as what, release, *rest] if len(rest) >= 2:
            sys.stdout.write(run_go(release, [what, *rest]))
        case _:
            sys.exit(__doc__)
