#!/usr/bin/env bash
# run.sh SERVER [PART…]: curl and clients of other languages against the server, without and with TLS, and a browser on its page, without; a part is curl, python, node, java or
# page, all without one; or operators: those that WATCHCACHE_OPERATORS names, programs that get a kubeconfig (tests/clients/go/operator).
#
# Each prints one line for each check. What the clients are made of is got by install.sh. Needs bash, curl, openssl, python3, npm, a JDK of 17 or later, Maven and Chromium
# (CHROMIUM, or `chromium`). The server is started twice on free ports of loopback: as README does, and with --secure-port and --write-admin-kubeconfig. Informers over many
# objects, restarts and what a server refuses are follow.py's.
set -euo pipefail
server=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- curl python node java page
here=$(cd "$(dirname "$0")" && pwd)
built=$(cd "$here/../.." && pwd)/target/clients
dir=$(mktemp -d)
pid=
end() {
  [ -z "$pid" ] || kill -9 "$pid" 2> /dev/null || true
  rm -rf "$dir"
}
trap end EXIT

# --- the servers

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# start NAME READY FLAG…: the server in a folder of its own, until READY succeeds.
start() {
  local name=$1 ready=$2
  (cd "$dir/$name" && exec "$server" serve --data-dir data "${@:3}" >> log 2>&1) &
  pid=$!
  for _ in $(seq 300); do
    "$ready" && return
    kill -0 "$pid" || break
    sleep 0.1
  done
  echo "the server is not ready" >&2 && tail -20 "$dir/$name/log" >&2
  return 1
}
# On a store whose history was compacted: so there is a revision that is too old for a watch.
start_again() {
  start "$@" --etcd-compaction-interval 1s
  for _ in $(seq 300); do
    ! grep -q "etcd compacted" "$dir/$1/log" || break
    sleep 0.1
  done
  stop
  start "$@"
}
stop() {
  kill "$pid"
  wait "$pid" || echo "the server ended with $?" >&2
  pid=
}

plain_ready() { [ "$(curl --silent --max-time 2 "http://127.0.0.1:$port/readyz")" = ok ]; }
secure_ready() { [ -f "$dir/tls/admin.conf" ] && [ "$(curl --silent --max-time 2 --insecure "https://127.0.0.1:$port/readyz")" = ok ]; }

kubeconfig_of() {
  cat << CONFIG
apiVersion: v1
kind: Config
clusters:
- name: plain
  cluster:
    server: $1
    insecure-skip-tls-verify: true # without it the client of Node takes no plain HTTP
users:
- name: nobody
  user: {}
contexts:
- name: plain
  context:
    cluster: plain
    user: nobody
current-context: plain
CONFIG
}

# --- the checks

run_curl() { "$here/curl/checks.sh" "$1"; }
run_python() {
  local program code=0
  for program in checks asyncio_checks operator_checks; do
    PYTHONPYCACHEPREFIX=$built/pycache "$built/python/bin/python" "$here/python/$program.py" "$1" 2> "$dir/errors" || { code=1 && cat "$dir/errors"; }
  done
  return $code
}
run_node() { (cd "$built/node" && node checks.mjs "$1"); }
# A browser has no token: behind TLS it is `kubectl proxy` that brings the page.
run_page() {
  grep -q 'server: http:' "$1" || return 0
  local port fed code=0
  port=$(free_port)
  # The source must be somebody, though the plain listener takes everybody for the same.
  sed 's/user: {}/user: {token: anybody}/' "$1" > "$dir/fed.kubeconfig"
  (cd "$dir" && exec "$server" serve --source=upstream --upstream-kubeconfig fed.kubeconfig --insecure-port "$port" > "$dir/fed.log" 2>&1) &
  fed=$!
  (cd "$built/page" && CHROMIUM=$(command -v "${CHROMIUM:-chromium}") node checks.mjs "$1" "http://127.0.0.1:$port") || code=1
  kill "$fed" && wait "$fed" || { code=1 && cat "$dir/fed.log"; }
  return $code
}
run_operators() {
  local operator code=0
  for operator in $WATCHCACHE_OPERATORS; do "$operator" "$1" || code=1; done
  return $code
}
run_java() { java -cp "$built/java/*:$built/java-classes" Checks "$1"; }

failed=0
# all NAME KUBECONFIG PART…
all() {
  local part
  for part in "${@:3}"; do
    echo "-- $part, $1"
    timeout 420 bash -c "$(declare -f free_port "run_$part"); here=$here built=$built dir=$dir server=$server; run_$part $2" || { echo "FAILED: $part, $1" && failed=1; }
  done
}

"$here/install.sh" "$@"
mkdir "$dir/plain" "$dir/tls"

port=$(free_port)
start_again plain plain_ready --insecure-port "$port"
kubeconfig_of "http://127.0.0.1:$port" > "$dir/plain/kubeconfig"
all "plain HTTP" "$dir/plain/kubeconfig" "$@"
stop

port=$(free_port)
start_again tls secure_ready --insecure-port 0 --bind-address 127.0.0.1 --secure-port "$port" --write-admin-kubeconfig admin.conf
all "TLS" "$dir/tls/admin.conf" "$@"
stop

exit $failed
