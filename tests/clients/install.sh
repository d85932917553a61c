#!/usr/bin/env bash
# install.sh PART…: gets what clients are made of from package registries into target/clients, anew only when the list of it has changed. Nothing else is touched.
#
# A part is curl, python, node, java, client-java, page or operators (run.sh says what they are). Their programs that must be compiled or lie beside what they need are put
# there too. All at once, for they wait for the network more than they compute; what cannot be had fails. Who comes while another installs waits for it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
built=$(cd "$here/../.." && pwd)/target/clients
mkdir -p "$built"
exec {installing}> "$built/installing"
flock "$installing"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# fresh PART FILE…: whether the part was installed from these very files.
fresh() { cat "${@:2}" | cmp -s - "$built/$1.from"; }
installed() { cat "${@:2}" > "$built/$1.from"; }

install_curl() { curl --version > /dev/null && openssl version > /dev/null; }
install_python() {
  fresh python "$here/python/requirements.txt" && return
  rm -rf "$built/python" && python3 -m venv "$built/python" && "$built/python/bin/pip" install --quiet --no-compile --no-deps -r "$here/python/requirements.txt" &&
    installed python "$here/python/requirements.txt"
}

# packages PART PROGRAM…: those of Node that the part's lock names, and its programs beside them.
packages() {
  local part=$1 files=("$here/$1/package.json" "$here/$1/package-lock.json")
  mkdir -p "$built/$part" && cp --update "${@:2}" "$built/$part" # a program that is as it was may be running
  fresh "$part" "${files[@]}" && return
  cp "${files[@]}" "$built/$part" && (cd "$built/$part" && npm ci --no-audit --no-fund --loglevel error) && installed "$part" "${files[@]}"
}
install_node() { packages node "$here/node/checks.mjs" "$here/node/follower.mjs"; }
install_page() { "${CHROMIUM:-chromium}" --version > /dev/null && packages page "$here/page/"*.mjs; }

# jars PART PROGRAM…: what the part's pom.xml names, and its programs compiled. Its packages are kept by Maven for everybody, which wants one at a time.
jars() {
  local part=$1 pom=$here/$1/pom.xml
  if ! fresh "$part" "$pom"; then
    rm -rf "${built:?}/$part" && flock "$built/maven" mvn --quiet --batch-mode --file "$pom" dependency:copy-dependencies "-DoutputDirectory=$built/$part" && installed "$part" "$pom" || return 1
  fi
  fresh "$part-classes" "$pom" "${@:2}" && return
  javac -d "$built/$part-classes" -cp "$built/$part/*" "${@:2}" && installed "$part-classes" "$pom" "${@:2}"
}
install_java() { jars java "$here/java/Checks.java" "$here/java/Follower.java" "$here/java/Fabric8Follower.java"; }
install_client-java() { jars client-java "$here/java/Follower.java" "$here/client-java/OfficialFollower.java"; }

install_operators() {
  local operator
  for operator in $WATCHCACHE_OPERATORS; do [ -x "$operator" ] || { echo "$operator is not there" && return 1; }; done
}

installs=()
for part in "$@"; do
  ("install_$part" > "$logs/$part" 2>&1 && echo "-- $part is there after $SECONDS s" || { cat "$logs/$part" && exit 1; }) &
  installs+=($!)
done
for install in "${installs[@]}"; do wait "$install"; done
