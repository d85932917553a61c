#!/usr/bin/env python3
"""deploy/licences.py: the licence texts of the crates in the program, for a release.

Prints each text once, below the crates that carry it. A crate without a text is listed with its licence expression. The crates are those that are linked
(`deploy/sbom.py`), as cargo has unpacked them; C sources that a crate contains (aws-lc-sys, libmimalloc-sys) bring their own files.
"""
import collections, json, os, re, subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAME = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense|authors)([-._].*)?$", re.I)
# Where a crate may keep the texts of sources that it contains.
DEPTH_MAX = 3


def ask(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def host():
    return re.search("^host: (.*)$", ask("rustc", "-vV"), re.M).group(1)


def texts(folder):
    """The licence files of a crate: path below its folder, text."""
    for where, folders, files in os.walk(folder):
        depth = os.path.relpath(where, folder).count(os.sep) + (where != folder)
        folders[:] = sorted(folders) if depth < DEPTH_MAX else []
        for name in sorted(files):
            path = os.path.join(where, name)
            if NAME.match(name) and not name.endswith((".rs", ".py", ".go", ".toml")):
                with open(path, encoding="utf-8", errors="replace") as f:
                    yield f.read().strip() + "\n"


def main():
    lines = ask("cargo", "tree", "--locked", "--package", "watchcache", "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}").splitlines()
    linked = {(line.split()[0], line.split()[1].removeprefix("v")) for line in lines}
    packages = json.loads(ask("cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", host()))["packages"]
    carriers, printed, without = collections.defaultdict(list), {}, []
    for package in sorted(packages, key=lambda package: package["name"]):
        if (package["name"], package["version"]) not in linked or package["source"] is None:
            continue
        crate = f"{package['name']} {package['version']}"
        # Texts that differ in white space alone are one.
        found = {" ".join(text.split()): text for text in texts(os.path.dirname(package["manifest_path"]))}
        for words, text in found.items():
            carriers[words].append(crate)
            printed.setdefault(words, text)
        if not found:
            without.append(f"{crate}: {package['license']}")
    print("The program contains these libraries. Each licence text stands below the libraries that carry it.")
    if without:
        print("\nThese carry no text; their manifests name the licence:\n")
        print("\n".join(f"  {line}" for line in without))
    for words, crates in sorted(carriers.items(), key=lambda pair: pair[1]):
        print("\n" + "=" * 100 + "\n" + ", ".join(crates) + "\n" + "-" * 100 + "\n" + printed[words], end="")


main()
