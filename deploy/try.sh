#!/usr/bin/env bash
# deploy/try.sh: brings up an etcd with a few objects, changes one of them every second, and serves it on http://127.0.0.1:8001 until Ctrl-C.
#
# etcd is the one named by $ETCD, else the one on PATH, else it is built from its Go module into target/peers (needs Go, once).
set -euo pipefail
cd "$(dirname "$0")/.."
etcd=${ETCD:-$(command -v etcd || true)}
if [ -z "$etcd" ]; then
  tests/peers/build.sh target/peers etcd
  etcd=target/peers/etcd
fi
cargo build --release --quiet
port=${ETCD_PORT:-12379}
dir=$(mktemp -d)
"$etcd" --data-dir "$dir/etcd" --listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
  --listen-peer-urls "http://127.0.0.1:$((port + 1))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" \
  --initial-cluster "default=http://127.0.0.1:$((port + 1))" > "$dir/etcd.log" 2>&1 &
pids=($!)
trap 'kill "${pids[@]}" 2>/dev/null; wait 2>/dev/null; rm -rf "$dir"' EXIT
for _ in $(seq 50); do curl -fs "http://127.0.0.1:$port/health" > /dev/null && break; sleep 0.1; done

# put KEY VALUE: as a kube-apiserver with --storage-media-type=application/json stores it.
put() {
  curl -fs "http://127.0.0.1:$port/v3/kv/put" -d "{\"key\":\"$(printf %s "$1" | base64 -w0)\",\"value\":\"$(printf '%s\n' "$2" | base64 -w0)\"}" > /dev/null
}
config() { # config NAME UID DATA
  put "/registry/configmaps/default/$1" "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"$1\",\"namespace\":\"default\",\"uid\":\"00000000-0000-4000-8000-00000000000$2\",\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{\"app\":\"$1\"}},\"data\":{\"value\":\"$3\"}}"
}
put /registry/namespaces/default '{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"default","uid":"00000000-0000-4000-8000-000000000000","creationTimestamp":"2026-01-01T00:00:00Z","labels":{"kubernetes.io/metadata.name":"default"}},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}'
config greeting 1 hello
config clock 2 0
(n=0; while sleep 1; do n=$((n + 1)); config clock 2 $n || exit 0; done) &
pids+=($!)
echo "try:  curl -N 'http://127.0.0.1:8001/api/v1/configmaps?watch=true'"
target/release/watchcache serve --etcd-servers "http://127.0.0.1:$port" &
pids+=($!)
wait "${pids[2]}"
