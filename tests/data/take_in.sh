#!/usr/bin/env bash
# take_in.sh PEERS RELEASE FOLDER: record all that a kube-apiserver of another release says, into FOLDER, and what differs from what is here. PEERS has etcd and that
# kube-apiserver (KUBE=RELEASE tests/peers/build.sh PEERS etcd kube-apiserver). FOLDER gets
#   tree/           the recorded data in the places where it is here, and log/ of each part
#   schema.txt      the messages of that release alone
#   fields          what its messages have that ours have not, and the other way round; `otherwise`: which of them are printed by default
#   differences/    a diff for each part; ids, times and revisions are taken out first
# Parts that fail are told at the end and do not stop the others. PARTS: which ones (default: all). Ports: PORT (default 21210).
set -euo pipefail
[ $# -eq 3 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
peers=$(cd "$1" && pwd)
release=$2
mkdir -p "$3"
out=$(cd "$3" && pwd)
parts=${PARTS:-catalogue discovery table defaults autoscaling codec definitions media openapi smp yaml authz kubernetes}
law=$(sed -n 's/^const KUBERNETES: &str = "v\(.*\)";/\1/p' "$root/src/catalogue/discovery.rs")

"$peers/kube-apiserver" --version | grep -qF "v$release" || { echo "$peers has another kube-apiserver" >&2; exit 1; }
mkdir -p "$out/tree/tests" "$out/tree/src" "$out/log" "$out/differences"
cp -r "$root/tests/data" "$root/tests/peers" "$out/tree/tests/"
for folder in catalogue catalogue/openapi codec/table auth/authz/bootstrap; do
  mkdir -p "$out/tree/src/$folder"
  find "$root/src/$folder" -maxdepth 1 -type f ! -name '*.rs' -exec cp {} "$out/tree/src/$folder/" \;
done

"$root/tests/peers/schema.py" schema "$release" "$release" > "$out/schema.txt"
"$root/tests/peers/schema.py" differences "$law" "$release" > "$out/fields"
"$root/tests/peers/schema.py" differing "$law" "$release" > "$out/otherwise"

failed=()
for part in $parts; do
  "$out/tree/tests/data/record.sh" "$peers" "$part" > "$out/log/$part" 2>&1 || failed+=("$part")
done

# plain FILE: without what is another one each time.
plain() {
  { if [[ $1 == *.json.gz ]]; then zcat "$1" | python3 -m json.tool; else cat "$1"; fi; } | sed -E 's/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/UID/g; s/20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/TIME/g
    s/\\?"resourceVersion\\?": ?\\?"[0-9]+\\?"/"resourceVersion":"N"/g; s/10\.0\.[0-9]+\.[0-9]+/IP/g'
}

for part in $parts src; do
  here=$root/tests/data/$part there=$out/tree/tests/data/$part
  if [ "$part" = src ]; then here=$root/src there=$out/tree/src; fi
  (cd "$there" && find . -type f ! -name '*.py' | sort) | while read -r file; do
    cmp -s "$here/$file" "$there/$file" || diff -u --label "$law/$file" --label "$release/$file" <(plain "$here/$file" 2> /dev/null) <(plain "$there/$file") || true
  done > "$out/differences/$part.diff"
done
wc -l "$out"/differences/* "$out/fields" "$out/otherwise"
[ ${#failed[@]} -eq 0 ] || { echo "not recorded: ${failed[*]} (see $out/log)" >&2; exit 1; }
