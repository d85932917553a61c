#!/usr/bin/env bash
# run.sh PEERS WATCHCACHE PROGRAM [ARGUMENT…]: start etcd and kube-apiserver (of the folder PEERS) and watchcache on its embedded store, compare, end all.
#
# The arguments go to PROGRAM (watchcache-differential): --seed, --objects, --resources, --requests. PORT (default 21830) is the first of four on loopback.
# OFF and ON are admission plugins of kube-apiserver, AUTHORIZATION the modes of both, RANGE and NODE_PORTS the ranges of Services on both.
# Needs openssl and curl.
set -euo pipefail
peers=$(cd "$1" && pwd) watchcache=$(realpath "$2") program=$(realpath "$3") known=$(realpath "$(dirname "$0")/known.txt")
shift 3
port=${PORT:-21830} range=${RANGE:-10.0.0.0/16} node_ports=${NODE_PORTS:-30000-32767}
dir=$(mktemp -d)
cd "$dir"
children=()
finish() {
  local pid
  # Without its etcd a kube-apiserver would take a minute to end.
  for pid in "${children[@]}"; do kill -KILL "$pid" 2> /dev/null || true; done
  wait 2> /dev/null || true
  rm -rf "$dir"
}
trap finish EXIT

openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj /CN=differential-ca -days 2 -out ca.crt 2> /dev/null
openssl req -newkey rsa:2048 -nodes -keyout srv.key -subj /CN=differential-server -out srv.csr 2> /dev/null
openssl x509 -req -in srv.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -out srv.crt \
  -extfile <(echo "subjectAltName=IP:127.0.0.1") 2> /dev/null
openssl genrsa -out sa.key 2048 2> /dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2> /dev/null
# The same user on both: requests for certificates name him.
echo 'admintoken,admin,1,"system:masters"' > tokens.csv

"$peers/etcd" --data-dir etcd --listen-client-urls "http://127.0.0.1:$port" --advertise-client-urls "http://127.0.0.1:$port" \
  --listen-peer-urls "http://127.0.0.1:$((port + 1))" --initial-advertise-peer-urls "http://127.0.0.1:$((port + 1))" \
  --initial-cluster "default=http://127.0.0.1:$((port + 1))" > etcd.log 2>&1 &
children+=($!)
export ETCD_PID=$!
# What admission changes or refuses is no matter of strategies; random flow schemas would queue the requests.
off=ServiceAccount,CertificateApproval,CertificateSigning,CertificateSubjectRestriction,ClusterTrustBundleAttest,DefaultIngressClass,DefaultStorageClass
off+=,DefaultTolerationSeconds,LimitRanger,MutatingAdmissionPolicy,MutatingAdmissionWebhook,PersistentVolumeClaimResize,PodSecurity,PodTopologyLabels,Priority
off+=,ResourceQuota,RuntimeClass,StorageObjectInUseProtection,ValidatingAdmissionPolicy,ValidatingAdmissionWebhook
off=${OFF:-$off} modes=${AUTHORIZATION:-RBAC}
"$peers/kube-apiserver" --etcd-servers "http://127.0.0.1:$port" --secure-port $((port + 2)) --bind-address 127.0.0.1 --advertise-address 127.0.0.1 \
  --tls-cert-file srv.crt --tls-private-key-file srv.key --token-auth-file tokens.csv --authorization-mode "$modes" --service-cluster-ip-range "$range" --service-node-port-range "$node_ports" \
  --service-account-key-file sa.pub --service-account-signing-key-file sa.key --service-account-issuer https://kubernetes.default.svc \
  --enable-priority-and-fairness=false --disable-admission-plugins "$off" ${ON:+--enable-admission-plugins "$ON"} --cert-dir certs > kube-apiserver.log 2>&1 &
children+=($!)
export KUBE_APISERVER_PID=$!
"$watchcache" serve --controllers= --enable-priority-and-fairness=false --insecure-port 0 --secure-port $((port + 3)) --bind-address 127.0.0.1 --tls-cert-file srv.crt --tls-private-key-file srv.key \
  --token-auth-file tokens.csv --authorization-mode "$modes" --data-dir store --advertise-address 127.0.0.1 --service-cluster-ip-range "$range" --service-node-port-range "$node_ports" \
  --disable-admission-plugins "$off" ${ON:+--enable-admission-plugins "$ON"} > watchcache.log 2>&1 &
children+=($!)
export WATCHCACHE_PID=$!

ready() { curl -sf --cacert ca.crt -H "Authorization: Bearer admintoken" "https://127.0.0.1:$1/readyz" > /dev/null; }
for _ in $(seq 900); do
  ready $((port + 2)) && ready $((port + 3)) && break
  sleep 0.2
done
"$program" --ours "https://127.0.0.1:$((port + 3))" --theirs "https://127.0.0.1:$((port + 2))" --ca ca.crt --token admintoken --known "$known" "$@" || {
  tail -n 3 watchcache.log kube-apiserver.log >&2
  exit 1
}
