#!/usr/bin/env bash
# run.sh SERVER PART…: runs the projects of this folder on this watchcache. A part is go (controller-runtime's envtest of this minor), go-previous,
# python or java; rust is `cargo test` in tests/envtest/rust, with WATCHCACHE=SERVER. With KUBEBUILDER_ASSETS, go runs on the programs that are there.
# Needs Go, Python, a JDK and Maven, as far as the parts use them, package registries, and a kubectl on the path for java; what cannot be had fails.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
built=$here/../../target/clients
server=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

assets() { "$server" setup-envtest "$1"; }

# Of two minors at once: what one leaves must not be in the other's way.
run_go() {
  local assets=${KUBEBUILDER_ASSETS:-$(assets "$work/assets")}
  (cd "$here/go" && KUBEBUILDER_ASSETS=$assets go test -count=1 -v -modfile="$1" ./...)
}

run_python() {
  "$here/../clients/install.sh" python
  local site=$built/pytest
  cmp -s "$here/python/requirements.txt" "$site.from" || {
    rm -rf "$site"
    "$built/python/bin/pip" install --quiet --no-compile --no-deps --target "$site" -r "$here/python/requirements.txt"
    cp "$here/python/requirements.txt" "$site.from"
  }
  WATCHCACHE=$server PYTHONPATH=$site PYTHONDONTWRITEBYTECODE=1 "$built/python/bin/python" -m pytest -q -p no:cacheprovider "$here/python"
}

# fabric8 looks for the programs in a folder named after version, system and architecture.
run_java() {
  local jars=$built/envtest-java system=linux-amd64
  [ "$(uname -m)" = aarch64 ] && system=linux-arm64
  mkdir -p "$built"
  if ! cmp -s "$here/java/pom.xml" "$jars.from"; then
    rm -rf "$jars"
    flock "$built/maven" mvn --quiet --batch-mode --file "$here/java/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$jars"
    cp "$here/java/pom.xml" "$jars.from"
  fi
  javac -d "$work/classes" -cp "$jars/*" "$here/java/PairTest.java"
  assets "$work/java/k8s/1.36.3-$system"
  java -cp "$work/classes:$jars/*" PairTest "$work/java" 1.36.3
}

for part in "$@"; do
  began=$SECONDS
  case $part in
  go) run_go go.mod ;;
  go-previous) run_go previous.mod ;;
  python) run_python ;;
  java) run_java ;;
  *) echo "unknown part $part" >&2; exit 2 ;;
  esac
  echo "-- $part passed after $((SECONDS - began)) s"
done
