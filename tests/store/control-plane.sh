#!/usr/bin/env bash
# control-plane.sh DIR KUBERNETES WATCHCACHE [SECONDS]: a Kubernetes control plane on `watchcache store`, watched for SECONDS (default 600).
#
# DIR: new folder for data, certificates and logs. KUBERNETES: folder with kube-apiserver, kube-controller-manager, kube-scheduler and kubemark.
# WATCHCACHE: the binary; or the address of an etcd that runs already, http://…, to try the script itself. Needs openssl, curl and kubectl.
# PORT (default 21770) is the first of five ports on loopback; KUBECTL (default kubectl) the client.
#
# kube-apiserver must become ready, a Deployment of 3 replicas Available on a hollow node and stay so, scaling up and down must work, kube-apiserver must
# compact every minute, and nobody's log may speak of a failing store.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir "$1"
dir=$(cd "$1" && pwd) kubernetes=$(cd "$2" && pwd) watchcache=$3 seconds=${4:-600}
[[ $watchcache == http://* ]] || watchcache=$(realpath "$watchcache")
port=${PORT:-21770} kubectl=${KUBECTL:-kubectl}
cd "$dir"

children=()
finish() {
  local at
  # The last started first: kube-apiserver waits long on a store that is gone.
  for ((at = ${#children[@]} - 1; at >= 0; at--)); do
    kill "${children[at]}" 2>/dev/null || continue
    for _ in $(seq 50); do kill -0 "${children[at]}" 2>/dev/null || break; sleep 0.1; done
    kill -9 "${children[at]}" 2>/dev/null || true
  done
}
trap finish EXIT

# begin NAME COMMAND…: start a program with a log of its own.
begin() {
  local name=$1
  shift
  "$@" > "$name.log" 2>&1 &
  children+=($!)
  echo "$!" > "$name.pid"
}

# eventually SECONDS WHAT COMMAND…: wait until the command succeeds.
eventually() {
  local limit=$1 what=$2 began=$SECONDS
  shift 2
  until "$@" > /dev/null 2>&1; do
    [ $((SECONDS - began)) -lt "$limit" ] || { echo "FAILED: $what: not within $limit s" >&2; return 1; }
    sleep 0.5
  done
  echo "$what after $((SECONDS - began)) s"
}

certificates() {
  openssl genrsa -out ca.key 2048
  openssl req -x509 -new -key ca.key -subj /CN=store-test -days 30 -out ca.crt
  openssl genrsa -out sa.key 2048
  openssl rsa -in sa.key -pubout -out sa.pub
  local name subject names
  while read -r name subject names; do
    openssl req -new -newkey rsa:2048 -nodes -keyout "$name.key" -subj "$subject" -out "$name.csr"
    openssl x509 -req -in "$name.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -out "$name.crt" \
      -extfile <(printf 'extendedKeyUsage=serverAuth,clientAuth\n%s\n' "$names")
  done <<'LEAVES'
server /CN=kube-apiserver subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.0.0.1
admin /O=system:masters/CN=admin
LEAVES
}
certificates 2> certificates.log

store="http://127.0.0.1:$port"
if [[ $watchcache == http://* ]]; then
  store=$watchcache
else
  begin store "$watchcache" store --data-dir "$dir/data" --listen-client-urls "$store"
fi

api=$((port + 1))
begin kube-apiserver "$kubernetes/kube-apiserver" --etcd-servers "$store" --etcd-compaction-interval 1m --secure-port "$api" --bind-address 127.0.0.1 \
  --advertise-address 127.0.0.1 --tls-cert-file server.crt --tls-private-key-file server.key --client-ca-file ca.crt --cert-dir certs \
  --service-account-key-file sa.pub --service-account-signing-key-file sa.key --service-account-issuer https://kubernetes.default.svc \
  --service-cluster-ip-range 10.0.0.0/16 --authorization-mode RBAC --disable-admission-plugins ServiceAccount \
  --vmodule compact=4
cat > kubeconfig <<X
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:$api", certificate-authority: "$dir/ca.crt"}}]
users: [{name: u, user: {client-certificate: "$dir/admin.crt", client-key: "$dir/admin.key"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
X
k() { "$kubectl" --kubeconfig "$dir/kubeconfig" --cache-dir "$dir/cache" "$@"; }
ready() { [ "$(k get --raw /readyz)" = ok ]; }
eventually 90 "kube-apiserver is ready" ready

begin kube-controller-manager "$kubernetes/kube-controller-manager" --kubeconfig kubeconfig --service-account-private-key-file sa.key --root-ca-file ca.crt \
  --bind-address 127.0.0.1 --secure-port $((port + 2))
begin kube-scheduler "$kubernetes/kube-scheduler" --kubeconfig kubeconfig --bind-address 127.0.0.1 --secure-port $((port + 3))
begin kubemark "$kubernetes/kubemark" --morph=kubelet --name=hollow-1 --kubeconfig=kubeconfig --use-host-image-service=false
node_ready() { k wait --for=condition=Ready node/hollow-1 --timeout=1s; }
eventually 90 "the hollow node is ready" node_ready

k create deployment web --image=registry.invalid/pause:1 --replicas=3
available() { [ "$(k get deployment web -o 'jsonpath={.status.availableReplicas}/{.status.replicas}')" = "$1/$1" ]; }
eventually 120 "3 replicas are available" available 3

began=$SECONDS
while [ $((SECONDS - began)) -lt "$seconds" ]; do
  k scale deployment web --replicas=5
  eventually 60 "scaled up to 5" available 5
  k scale deployment web --replicas=3
  eventually 60 "scaled down to 3" available 3
  sleep $((seconds < 60 ? 5 : 30))
  available 3 || { echo "FAILED: the Deployment did not stay available" >&2; exit 1; }
  ready || { echo "FAILED: kube-apiserver is no longer ready" >&2; exit 1; }
done

failed=0
# none WHAT FILE PATTERN: no line of a log may match.
none() {
  local count
  count=$(grep -cE "$3" "$2" || true)
  echo "$1: $count"
  [ "$count" = 0 ] || { grep -E "$3" "$2" | head -5; failed=1; }
}
[ ! -f store.log ] || none "error lines of the store" store.log '(^| )ERROR|panicked'
# Its check of its caches reads at revisions that a compaction every minute has taken, also from a real etcd: "failed calculating etcd digest".
none "errors of etcd's client in kube-apiserver" kube-apiserver.log '^[EW].*(etcdserver:|mvcc:|rpc error|retrying of unary invoker failed)'
# Its first tick only notes a revision; the second one compacts.
compactions=$(grep -cE 'etcd: compacted rev' kube-apiserver.log || true)
echo "compactions by kube-apiserver: $compactions"
[ "$seconds" -lt 180 ] || [ "$compactions" -ge $((seconds / 60 - 2)) ] || failed=1
exit "$failed"
