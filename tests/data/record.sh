#!/usr/bin/env bash
# record.sh PEERS PART…: record folders beside this script anew. PEERS has etcd and kube-apiserver (tests/peers/build.sh makes it). For each part an empty
# etcd and a kube-apiserver are started on loopback, which stores JSON; README.md tells what each writes. Ports: PORT (default 21210), 6443 for `kubernetes`.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,3s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
peers=$(cd "$1" && pwd)
shift
dir=
children=()
stop() {
  local pid
  # There is nothing to keep, and a kube-apiserver that loses its etcd takes minutes to end by itself.
  for pid in "${children[@]}"; do kill -9 "$pid" 2> /dev/null || true; done
  wait 2> /dev/null || true
  children=()
  rm -rf "$dir"
}
trap stop EXIT

# start PORT MODES FLAG…: etcd on the two ports after PORT, kube-apiserver on PORT.
start() {
  local etcd=http://127.0.0.1:$(($1 + 1)) peer=http://127.0.0.1:$(($1 + 2))
  dir=$(mktemp -d)
  "$peers/etcd" --data-dir "$dir/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" --listen-peer-urls "$peer" \
    --initial-advertise-peer-urls "$peer" --initial-cluster "default=$peer" > "$dir/etcd.log" 2>&1 &
  children=($!)
  openssl genrsa -out "$dir/accounts.key" 2048 2> /dev/null
  echo 'admintoken,admin,1,"system:masters"' > "$dir/tokens.csv"
  start_kube_apiserver "$@"
}

start_kube_apiserver() {
  local port=$1 modes=$2 minor
  shift 2
  # From 1.37 on it announces no loopback address.
  minor=$("$peers/kube-apiserver" --version | sed 's/.*v1\.\([0-9]*\).*/\1/')
  if [ "$minor" -ge 37 ] && [[ " $* " != *" --advertise-address "* ]]; then set -- "$@" --endpoint-reconciler-type none; fi
  "$peers/kube-apiserver" --etcd-servers "http://127.0.0.1:$((port + 1))" --secure-port "$port" --bind-address 127.0.0.1 --advertise-address 127.0.0.1 \
    --cert-dir "$dir/certs" --token-auth-file "$dir/tokens.csv" --service-account-key-file "$dir/accounts.key" \
    --service-account-signing-key-file "$dir/accounts.key" --service-account-issuer https://kubernetes.default.svc --service-cluster-ip-range 10.0.0.0/24 \
    --authorization-mode "$modes" --disable-admission-plugins ServiceAccount --storage-media-type application/json "$@" > "$dir/kube-apiserver.log" 2>&1 &
  children[1]=$!
  for _ in $(seq 600); do
    [ "$(curl -sk -H 'Authorization: Bearer admintoken' "https://127.0.0.1:$port/readyz" || true)" = ok ] && return
    kill -0 "${children[1]}" 2> /dev/null || break
    sleep 0.5
  done
  tail -5 "$dir"/*.log >&2
  return 1
}

for part in "$@"; do
  port=${PORT:-21210}
  modes=RBAC flags=()
  if [ "$part" = kubernetes ]; then port=6443 flags=(--advertise-address 192.0.2.7); fi
  if [ "$part" = authz ]; then modes=Node,RBAC; fi
  start "$port" "$modes" "${flags[@]}"
  script=$here/$part/record.py etcd=http://127.0.0.1:$((port + 1)) kube=https://127.0.0.1:$port
  case $part in
    authz)
      python3 "$script" "$kube" admintoken
      kill -9 "${children[1]}"
      wait "${children[1]}" 2> /dev/null || true
      start_kube_apiserver "$port" "$modes"
      python3 "$script" "$kube" admintoken repaired
      ;;
    autoscaling | codec | definitions | discovery | table) python3 "$script" "$etcd" "$kube" admintoken ;;
    catalogue | defaults | kubernetes | media | openapi | yaml) python3 "$script" "$kube" admintoken ;;
    smp) python3 "$script" "$kube" admintoken > "$dir/cases.json" && mv "$dir/cases.json" "$here/smp/cases.json" ;;
    *) echo "unknown part $part" >&2; exit 2 ;;
  esac
  stop
done
