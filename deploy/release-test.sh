#!/usr/bin/env bash
# deploy/release-test.sh [--profile PROFILE] OUT: makes a release in OUT, twice, and checks its files.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
profile=dist
if [ "${1:-}" = --profile ]; then
  profile=$2
  shift 2
fi
[ $# = 1 ] || { sed -n '2s/^# \{0,1\}//p' "$0" >&2; exit 2; }
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../Cargo.toml" | head -1)
rm -rf "$1"
mkdir -p "$1/again"
out=$(cd "$1" && pwd)
fail() { echo "release: $*" >&2; exit 1; }

"$here/release.sh" --profile "$profile" "$version" "$out" > /dev/null
(cd "$out" && sha256sum --quiet -c SHA256SUMS)
"$here/release.sh" --profile "$profile" "$version" "$out/again" > /dev/null
cmp "$out/SHA256SUMS" "$out/again/SHA256SUMS" || fail "the same program gave other bytes"
if "$here/release.sh" --profile "$profile" 99.0.0 "$out/again" 2> /dev/null; then fail "a version that is not ours was taken"; fi

tarball=$(cd "$out" && echo watchcache-*.tar.gz)
name=${tarball%.tar.gz}
expected="$name/
$name/CHANGELOG.md
$name/LICENSE
$name/NOTICE
$name/README.md
$name/THIRD-PARTY-LICENSES
$name/completions/
$name/completions/_watchcache
$name/completions/watchcache.bash
$name/completions/watchcache.fish
$name/man/
$name/man/watchcache-serve.1
$name/man/watchcache-store.1
$name/man/watchcache.1
$name/systemd/
$name/systemd/watchcache-etcd.service
$name/systemd/watchcache.service
$name/watchcache"
diff <(echo "$expected") <(tar -tzf "$out/$tarball") || fail "other files than these"
if tar -tvzf "$out/$tarball" --numeric-owner | grep -v ' 0/0 '; then fail "somebody owns a file"; fi

tar -xzf "$out/$tarball" -C "$out" --no-same-owner
folder=$out/$name
[ "$("$folder/watchcache" --version)" = "watchcache $version" ] || fail "another version"
if ldd "$folder/watchcache" 2> /dev/null | grep -q '=>'; then fail "the program needs libraries"; fi
for flag in etcd-servers data-dir secure-port v; do
  sed 's/\\-/-/g' "$folder/man/watchcache-serve.1" | grep -- "--$flag" > /dev/null || fail "the manual lacks --$flag"
done
grep -q '^\.TH watchcache 1' "$folder/man/watchcache.1" || fail "no page of the program"
bash -n "$folder/completions/watchcache.bash"
grep -q '^#compdef watchcache' "$folder/completions/_watchcache" || fail "zsh would not know its file"
grep -q '^complete -c watchcache' "$folder/completions/watchcache.fish" || fail "fish would not know its file"

# The packages have the same program; each is unpacked and run.
deb=$(cd "$out" && echo watchcache_*.deb)
dpkg-deb --extract "$out/$deb" "$out/deb"
cmp "$out/deb/usr/bin/watchcache" "$folder/watchcache" || fail "the Debian package has another program"
(cd "$out/deb" && dpkg-deb --info "$out/$deb" md5sums | md5sum --quiet -c) || fail "the Debian package has wrong sums"
grep -q '^ExecStart=/usr/bin/watchcache ' "$out/deb/usr/lib/systemd/system/watchcache.service" || fail "the unit starts another program"
for page in "$out"/deb/usr/share/man/man1/*.gz; do gzip -t "$page"; done
python3 -m venv "$out/venv"
"$out/venv/bin/pip" install --quiet --no-index --no-deps --disable-pip-version-check "$out"/watchcache-*.whl
[ "$("$out/venv/bin/watchcache" --version)" = "watchcache $version" ] || fail "the wheel has another version"
"$out/venv/bin/pip" show --files watchcache | grep THIRD-PARTY-LICENSES > /dev/null || fail "the wheel has no licences"
for licence in "tokio 1" "aws-lc-sys 0" "GNU C Library"; do
  grep --quiet "$licence" "$folder/THIRD-PARTY-LICENSES" "$folder/NOTICE" || fail "no licence of $licence"
done
tar -xzf "$out/watchcache-chart-$version.tgz" -C "$out"
grep -q '^home: ' "$out/watchcache/Chart.yaml" || fail "the chart names no home"

# The program names the crate of each place that may panic: all of them must be in the list, as linked.
grep -ao 'registry/src/[^/]*/[A-Za-z0-9_-]*-[0-9][^/]*' "$folder/watchcache" | sed 's|.*/||' | sort -u > "$out/seen"
python3 - "$out/watchcache-$version.cdx.json" "$out/seen" << 'PY'
import json, sys
told = json.load(open(sys.argv[1]))
seen = open(sys.argv[2]).read().split()
linked = {f"{crate['name']}-{crate['version']}" for crate in told["components"] if crate["scope"] == "required"}
known = {crate["bom-ref"] for crate in [told["metadata"]["component"], *told["components"]]}
lost = sorted(set(seen) - linked)
dangling = {to for edge in told["dependencies"] for to in [edge["ref"], *edge["dependsOn"]]} - known
unlicensed = [crate["name"] for crate in told["components"] if "licenses" not in crate]
if lost or dangling or unlicensed or len(seen) < 50:
    sys.exit(f"release: seen in the program but not in the list: {lost}; used but not there: {dangling}; without a licence: {unlicensed}; {len(seen)} crates seen")
PY
echo "$tarball: $(du -h "$out/$tarball" | cut -f1), $deb and a wheel of it; the same bytes twice; the list of its crates has the $(wc -l < "$out/seen") that the program names"
