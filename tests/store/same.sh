#!/usr/bin/env bash
# same.sh ETCD WATCHCACHE TESTS [OPERATIONS [SEED]]: start an empty etcd and an empty store, compare their answers, end both.
#
# ETCD, WATCHCACHE and TESTS are the binaries. PORT (default 21780) is the first of three ports on loopback.
set -euo pipefail
etcd=$1 watchcache=$2 tests=$3 operations=${4:-20000} seed=${5:-}
port=${PORT:-21780}
dir=$(mktemp -d)
children=()
finish() {
  local pid
  for pid in "${children[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$dir"
}
trap finish EXIT

"$etcd" --data-dir "$dir/etcd" --listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
  --listen-peer-urls "http://127.0.0.1:$((port + 1))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" \
  --initial-cluster "default=http://127.0.0.1:$((port + 1))" > "$dir/etcd.log" 2>&1 &
children+=($!)
"$watchcache" store --data-dir "$dir/store" --listen-client-urls "http://127.0.0.1:$((port + 2))" > "$dir/store.log" 2>&1 &
children+=($!)

# open PORT: whether something listens there.
open() { (: < "/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
for _ in $(seq 600); do
  open "$port" && open "$((port + 2))" && break
  sleep 0.1
done
sleep 1
"$tests" same --etcd "http://127.0.0.1:$port" --store "http://127.0.0.1:$((port + 2))" --operations "$operations" ${seed:+--seed "$seed"} || {
  tail -5 "$dir/store.log" >&2
  exit 1
}
