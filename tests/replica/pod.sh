#!/usr/bin/env bash
# pod.sh PEERS WATCHCACHE: from nothing to kubectl through a watchcache that a cluster's kube-apiserver feeds.
#
# PEERS has etcd, kube-apiserver and kubectl. Creates deploy/kubernetes/upstream.yaml on the cluster, and runs the pod's command line as it stands, with the service account's token where a pod has it, in namespaces of its
# own of network and mounts: nothing outside is touched. Prints how long each step took; ends with 1 if kubectl does not show through it what it shows direct, or if that takes a minute. Needs root or user namespaces, openssl, ip.
set -euo pipefail
if [ "${3:-}" != inside ]; then
  exec unshare --mount --net $([ "$(id -u)" = 0 ] || echo --map-root-user) "$0" "$(realpath "$1")" "$(realpath "$2")" inside
fi
peers=$1 watchcache=$2
manifest=$(cd "$(dirname "$0")/../.." && pwd)/deploy/kubernetes/upstream.yaml
ip link set lo up
mount --make-rprivate /
work=$(mktemp -d)
pids=()
finish() {
  kill -KILL "${pids[@]}" 2> /dev/null || true
  wait 2> /dev/null || true
  rm -rf "$work"
}
trap finish EXIT
cd "$work"

openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj /CN=ca -days 3 -out ca.crt 2> openssl.log
openssl genrsa -out sa.key 2048 2>> openssl.log
openssl rsa -in sa.key -pubout -out sa.pub 2>> openssl.log
leaf() { # NAME NAMES
  openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -subj "/CN=$1" -out "$1.csr" 2>> openssl.log
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 3 -extfile <(echo "subjectAltName=$2") -out "$1.crt" 2>> openssl.log
}
leaf apiserver IP:127.0.0.1
leaf listener IP:127.0.0.1,DNS:watchcache.watchcache.svc
echo 'admintoken,admin,1,"system:masters"' > tokens.csv

"$peers/etcd" --data-dir=etcd --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 > etcd.log 2>&1 &
pids+=($!)
"$peers/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --secure-port=443 --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --cert-dir=certs --tls-cert-file=apiserver.crt \
  --tls-private-key-file=apiserver.key --token-auth-file=tokens.csv --service-account-key-file=sa.pub --service-account-signing-key-file=sa.key \
  --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=10.0.0.0/16 --authorization-mode=Node,RBAC > apiserver.log 2>&1 &
pids+=($!)
direct=("$peers/kubectl" --cache-dir=direct --server=https://127.0.0.1:443 --certificate-authority=ca.crt --token=admintoken)
for _ in $(seq 240); do "${direct[@]}" get --raw /readyz > /dev/null 2>&1 && break; sleep 0.5; done
"${direct[@]}" get --raw /readyz > /dev/null

began=$(date +%s%N)
told() { echo "$(( ($(date +%s%N) - began) / 1000000 )) ms: $1"; }
"${direct[@]}" apply -f "$manifest" > applied.log
told "$(wc -l < applied.log) objects of the manifest created"
"${direct[@]}" -n watchcache create secret tls watchcache-listener --cert=listener.crt --key=listener.key > /dev/null

# What the kubelet would do.
account=/var/run/secrets/kubernetes.io/serviceaccount
mount -t tmpfs none /etc/watchcache 2> /dev/null || { mkdir -p "$work/etc" && cp -a /etc/. "$work/etc" 2> /dev/null && mkdir -p "$work/etc/watchcache" && mount --bind "$work/etc" /etc; }
mkdir -p /etc/watchcache/listener && cp listener.crt /etc/watchcache/listener/tls.crt && cp listener.key /etc/watchcache/listener/tls.key
mount -t tmpfs none /var/run
mkdir -p "$account"
"${direct[@]}" -n watchcache create token watchcache > "$account/token"
cp ca.crt "$account/ca.crt" && echo watchcache > "$account/namespace"
mapfile -t command < <("${direct[@]}" -n watchcache get deployment watchcache -o 'jsonpath={range .spec.template.spec.containers[0].args[*]}{@}{"\n"}{end}')
env -i KUBERNETES_SERVICE_HOST=127.0.0.1 KUBERNETES_SERVICE_PORT=443 "$watchcache" "${command[@]}" > watchcache.log 2>&1 &
pids+=($!)
through=("$peers/kubectl" --cache-dir=through --server=https://127.0.0.1:6443 --certificate-authority=ca.crt --token=admintoken)
for _ in $(seq 600); do "${through[@]}" get --raw /readyz > /dev/null 2>&1 && break; sleep 0.1; done
told "ready"

"${through[@]}" create configmap one --from-literal=a=b > /dev/null
"${through[@]}" get configmap one -o yaml > shown.yaml
"${direct[@]}" get configmap one -o yaml | diff - shown.yaml
diff <("${direct[@]}" get namespaces,services,clusterroles -A -o name) <("${through[@]}" get namespaces,services,clusterroles -A -o name)
"${direct[@]}" create serviceaccount nobody > /dev/null
"${through[@]}" --token="$("${direct[@]}" create token nobody)" get configmaps > rights.log 2>&1 && { echo "an account without rights may read"; exit 1; }
grep -q 'is forbidden: User "system:serviceaccount:default:nobody"' rights.log || { cat rights.log; exit 1; }
told "kubectl has created and read through it what it reads direct"
[ "$(( $(date +%s%N) - began ))" -lt 60000000000 ] || { echo "that took a minute"; exit 1; }
grep -iE '"level":"(error)"' watchcache.log && exit 1 || true
