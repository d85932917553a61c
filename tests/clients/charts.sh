#!/usr/bin/env bash
# charts.sh PEERS SERVER KWOK [CHART…]: `helm install --wait` of public charts on a server that is alone; by hand. Without CHART: all of the table below.
#
# Beside the server run kube-controller-manager and kube-scheduler (PEERS, of tests/peers/build.sh) and KWOK (`go install sigs.k8s.io/kwok/cmd/kwok@v0.7.0`), which plays the
# kubelet: Pods become Ready and nothing runs in them. Charts come from Go modules. Ports of loopback are fixed: run it alone, or in a network of its own.
set -euo pipefail
peers=$(realpath "$1") server=$(realpath "$2") kwok=$(realpath "$3")
shift 3
dir=$(mktemp -d)
pids=()
end() {
  [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2> /dev/null || true
  wait
  [ -n "${KEEP:-}" ] || rm -rf "$dir"
}
trap end EXIT

# name, module, folder of the chart in it, flags of helm
charts() {
  cat << 'TABLE'
metrics-server    sigs.k8s.io/metrics-server@v0.9.0                              charts/metrics-server
descheduler       sigs.k8s.io/descheduler@v0.36.0                                charts/descheduler                        --set=kind=Deployment
sealed-secrets    github.com/bitnami-labs/sealed-secrets@v0.40.0                 helm/sealed-secrets
ingress-nginx     k8s.io/ingress-nginx@v0.0.0-20240708192948-52c50467d67d        charts/ingress-nginx                      --set=controller.service.type=NodePort
kueue             sigs.k8s.io/kueue@v0.17.0                                      charts/kueue
blackbox          github.com/prometheus-community/helm-charts@v0.0.0-20260828105119-ed5d7d9b5933 charts/prometheus-blackbox-exporter
kube-state-metrics github.com/prometheus-community/helm-charts@v0.0.0-20260828105119-ed5d7d9b5933 charts/kube-state-metrics
TABLE
}

# begin NAME COMMAND…: until the end, with its output in a file.
begin() {
  "${@:2}" > "$dir/$1.log" 2>&1 &
  pids+=($!)
}
# until_true COMMAND…: for a minute.
until_true() {
  for _ in $(seq 300); do
    "$@" > /dev/null 2>&1 && return
    sleep 0.2
  done
  echo "it never came: $*" >&2
  return 1
}

cd "$dir"
begin server "$server" serve --data-dir data --insecure-port 0 --bind-address 127.0.0.1 --secure-port 21743 --write-admin-kubeconfig admin.conf
until_true test -s admin.conf
export KUBECONFIG=$dir/admin.conf HELM_CACHE_HOME=$dir/helm HELM_CONFIG_HOME=$dir/helm HELM_DATA_HOME=$dir/helm
until_true "$peers/kubectl" get --raw /readyz
begin manager "$peers/kube-controller-manager" --kubeconfig admin.conf --secure-port 0 --leader-elect=false --use-service-account-credentials=false
begin scheduler "$peers/kube-scheduler" --kubeconfig admin.conf --secure-port 0 --leader-elect=false
begin kwok "$kwok" --kubeconfig admin.conf --manage-all-nodes --config /dev/null
"$peers/kubectl" apply -f - << 'NODE' > /dev/null
apiVersion: v1
kind: Node
metadata: {name: pretended, labels: {kubernetes.io/os: linux, kubernetes.io/arch: amd64}}
status: {allocatable: {cpu: "64", memory: 256Gi, pods: "500"}, capacity: {cpu: "64", memory: 256Gi, pods: "500"}}
NODE
"$peers/kubectl" patch node pretended --subresource=status --type=merge -p '{"status":{"allocatable":{"cpu":"64","memory":"256Gi","pods":"500"},"capacity":{"cpu":"64","memory":"256Gi","pods":"500"}}}' > /dev/null

code=0
mkdir charts
while read -r name module folder flags; do
  if [ $# -gt 0 ] && [[ " $* " != *" $name "* ]]; then continue; fi
  (cd charts && go mod download -json "$module") > charts/found.json
  chart=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' charts/found.json)/$folder
  cp -r "$chart" "charts/$name" && chmod -R u+w "charts/$name"
  began=$SECONDS
  # shellcheck disable=SC2086
  if "$peers/helm" install "$name" "charts/$name" --namespace "$name" --create-namespace --wait --timeout 120s $flags > "$name.log" 2>&1; then
    "$peers/helm" upgrade "$name" "charts/$name" --namespace "$name" --wait --timeout 120s $flags >> "$name.log" 2>&1 &&
      "$peers/helm" uninstall "$name" --namespace "$name" --wait --timeout 120s >> "$name.log" 2>&1 &&
      echo "ok: $name: installed, upgraded, uninstalled, $((SECONDS - began)) s" && continue
  fi
  echo "FAILED: $name after $((SECONDS - began)) s" && tail -5 "$name.log" && code=1
  "$peers/kubectl" get pods,services -A 2>&1 | grep "$name" | head -10
done < <(charts)
exit $code
