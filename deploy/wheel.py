#!/usr/bin/env python3
"""deploy/wheel.py FOLDER OUT: makes a Python wheel in OUT from the unpacked files of a release (deploy/release.sh makes FOLDER).

The wheel has no Python code: `pip install` puts the program among the scripts of an environment, for tests that need an API server. The program is linked
statically, so the tag is that of the oldest manylinux of its architecture. The same files give the same bytes: file times are SOURCE_DATE_EPOCH.
Prints the name of the wheel.
"""
import base64, hashlib, os, platform, sys, time, tomllib, zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    folder, out = sys.argv[1:]
    with open(os.path.join(ROOT, "Cargo.toml"), "rb") as f:
        manifest = tomllib.load(f)
    shared, package = manifest["workspace"]["package"], manifest["package"]
    # Python's versions have no hyphen: 1.0.0-rc.1 is 1.0.0rc1.
    version = shared["version"].replace("-rc.", "rc").replace("-beta.", "b").replace("-alpha.", "a")
    machine = platform.machine()
    tag = f"py3-none-manylinux2014_{machine}.manylinux_2_17_{machine}"
    info, name = f"watchcache-{version}.dist-info", f"watchcache-{version}-{tag}.whl"

    def read(path):
        with open(os.path.join(folder, path), "rb") as f:
            return f.read()

    entries = [
        (f"watchcache-{version}.data/scripts/watchcache", read("watchcache"), 0o755),
        (f"{info}/licenses/LICENSE", read("LICENSE"), 0o644),
        (f"{info}/licenses/NOTICE", read("NOTICE"), 0o644),
        (f"{info}/licenses/THIRD-PARTY-LICENSES", read("THIRD-PARTY-LICENSES"), 0o644),
        (f"{info}/METADATA", "\n".join([
            "Metadata-Version: 2.4", "Name: watchcache", f"Version: {version}", f"Summary: {package['description']}", f"Home-page: {shared['homepage']}",
            f"License-Expression: {shared['license']}", "License-File: LICENSE", "License-File: NOTICE", "License-File: THIRD-PARTY-LICENSES",
            "Requires-Python: >=3.8", "Description-Content-Type: text/markdown", "", read("README.md").decode()]).encode(), 0o644),
        (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: deploy/wheel.py\nRoot-Is-Purelib: false\n{''.join(f'Tag: py3-none-{part}' + chr(10) for part in tag.removeprefix('py3-none-').split('.'))}".encode(), 0o644),
    ]
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n" for path, data, _ in entries)
    entries.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), 0o644))
    # A zip file knows no time before 1980.
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]
    with zipfile.ZipFile(os.path.join(out, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data, mode in entries:
            entry = zipfile.ZipInfo(path, when)
            entry.external_attr, entry.compress_type, entry.create_system = (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED, 3
            wheel.writestr(entry, data)
    print(name)


main()
