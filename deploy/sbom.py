#!/usr/bin/env python3
"""deploy/sbom.py: what the program is made of, as CycloneDX 1.6 in JSON, from `cargo tree`, `cargo metadata` and Cargo.lock.

Crates that only compile (build scripts, macros, and what those use) have the scope "excluded": none of their code is in the program. C sources that a crate
brings along (aws-lc-sys, libmimalloc-sys) are told as that crate. For the platform it runs on; its time is SOURCE_DATE_EPOCH.
"""
import datetime, json, os, subprocess, sys, tomllib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def ask(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def tree(edges):
    """Each crate of the program, as name and version, with those it uses; the program comes first. cargo's own answer, with the features that are built."""
    found, above = {}, []
    for line in ask("cargo", "tree", "--locked", "--package", "watchcache", "--edges", edges, "--prefix", "depth", "--format", " {p}").splitlines():
        depth, name, version, *_ = line.split()
        del above[int(depth):]
        crate = (name, version.removeprefix("v"))
        found.setdefault(crate, set())
        if above:
            found[above[-1]].add(crate)
        above.append(crate)
    return found


def reference(crate):
    return "pkg:cargo/{}@{}".format(*crate)


def main():
    every, linked = tree("normal,build"), tree("normal,no-proc-macro")
    told = json.loads(ask("cargo", "metadata", "--locked", "--format-version", "1"))["packages"]
    licences = {(package["name"], package["version"]): package["license"] for package in told}
    with open(os.path.join(ROOT, "Cargo.lock"), "rb") as f:
        checksums = {(package["name"], package["version"]): package.get("checksum") for package in tomllib.load(f)["package"]}

    def component(crate, **more):
        said = {"bom-ref": reference(crate), "name": crate[0], "version": crate[1], "purl": reference(crate), **more}
        if licences[crate]:
            # Crates from before SPDX expressions have a slash for OR.
            said["licenses"] = [{"expression": licences[crate].replace("/", " OR ")}]
        if checksums[crate]:
            said["hashes"] = [{"alg": "SHA-256", "content": checksums[crate]}]
        return said

    program, *others = every
    when = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), datetime.timezone.utc)
    json.dump({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {"timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"), "component": component(program, type="application")},
        "components": [component(crate, type="library", scope="required" if crate in linked else "excluded") for crate in sorted(others)],
        "dependencies": [{"ref": reference(crate), "dependsOn": sorted(map(reference, every[crate]))} for crate in sorted(every)],
    }, sys.stdout, indent=1)
    print()


main()
