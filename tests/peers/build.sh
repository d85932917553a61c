#!/usr/bin/env bash
# build.sh OUT [part…]: build the real programs that the live tests run against, from their Go modules, into OUT.
#
# KUBE is another release of Kubernetes (1.37.2), for a folder of its own. Parts: etcd, etcdctl, kube-apiserver, kube-controller-manager, kubectl,
# oidc-provider, helm, haproxy, h2spec, prometheus (promtool, and promql, which judges expressions by scrapes), protoc (default: all of these);
# kube-scheduler, kubemark, e2e.test (Kubernetes' own end-to-end suites of API machinery and kubectl), flags (what the command line of kube-apiserver
# takes: OUT/flags prints src/config/kube_apiserver/recorded.txt). A part that OUT already has at the wanted version is left alone. Needs a Go
# toolchain and a module source (`go env GOPROXY`); a cold build takes several minutes and about 3 GB of Go caches. haproxy and protoc are those of the
# Debian or Ubuntu that this runs on: their packages are unpacked, not installed.
# etcd-3.6 and etcd-3.5 are older releases of etcd, each in a folder of its name (OUT/etcd-3.5/etcd).
set -euo pipefail

etcd_version=v3.7.3
etcd_3_6_version=v3.6.16
etcd_3_5_version=v3.5.35
kube_version=${KUBE:-1.36.3}
oidc_version=v3.51.17
helm_version=v4.3.1
# That is 3.16.0.
prometheus_version=v0.316.0
# That is 2.6.0: its tags are not of its module path.
h2spec_version=v0.0.0-20200804131034-70ac22940108

[ $# -ge 1 ] || { echo "usage: build.sh OUT [part…]" >&2; exit 2; }
sources=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(etcd etcdctl kube-apiserver kube-controller-manager kubectl oidc-provider helm haproxy h2spec prometheus protoc)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# wanted PART: the version a part is built at.
wanted() {
  case $1 in
  etcd | etcdctl) echo "$etcd_version" ;;
  etcd-3.6) echo "$etcd_3_6_version" ;;
  etcd-3.5) echo "$etcd_3_5_version" ;;
  oidc-provider) echo "$oidc_version" ;;
  helm) echo "$helm_version" ;;
  # What stands beside this file is a part of it.
  prometheus) echo "$prometheus_version $(cksum < "$sources/promql/main.go")" ;;
  h2spec) echo "$h2spec_version" ;;
  haproxy | protoc) echo "of the system" ;;
  *) echo "v$kube_version" ;;
  esac
}

program_of() { case $1 in prometheus) echo promtool ;; *) echo "$1" ;; esac; }
# built PART: whether OUT has it at that version.
built() { [ -e "$out/$(program_of "$1")" ] && [ "$(cat "$out/.$1.version" 2>/dev/null)" = "$(wanted "$1")" ]; }

# program DIR IMPORT CALL: a main package around a Kubernetes command, as the project's own cmd/ folders have it.
program() {
  mkdir -p "$work/kubernetes/$1"
  cat > "$work/kubernetes/$1/main.go" <<GO
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"$2"
)

func main() { os.Exit(cli.Run($3)) }
GO
}

# build_etcd VERSION PROGRAM
build_etcd() {
  rm -rf "$work/etcd"
  mkdir -p "$work/etcd" "$(dirname "$2")"
  cd "$work/etcd"
  printf 'module peer/etcd\n\ngo 1.26.0\n\nrequire go.etcd.io/etcd/server/v3 %s\n' "$1" > go.mod
  printf 'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n' > main.go
  quietly go mod tidy
  quietly go build -ldflags "-s -w" -o "$2" .
}

# The example server of zitadel/oidc, a certified OpenID provider; what is around it stands beside this file.
build_oidc_provider() {
  mkdir -p "$work/oidc"
  cd "$work/oidc"
  printf 'module peer/oidc\n\ngo 1.26.0\n\nrequire github.com/zitadel/oidc/v3 %s\n' "$oidc_version" > go.mod
  cp "$sources/oidc/main.go" .
  quietly go mod tidy
  quietly go build -ldflags "-s -w" -o "$out/oidc-provider" .
  echo "$oidc_version" > "$out/.oidc-provider.version"
}

build_helm() {
  cd "$work"
  GOBIN=$out quietly go install -ldflags "-s -w" "helm.sh/helm/v4/cmd/helm@$helm_version"
  echo "$helm_version" > "$out/.helm.version"
}

# Without the discovery of targets, which would have its makers' SDKs compiled: promtool is asked about files alone.
build_prometheus() {
  mkdir -p "$work/prometheus"
  cd "$work/prometheus"
  printf 'module peer/prometheus\n\ngo 1.26.0\n\nrequire github.com/prometheus/prometheus %s\n' "$prometheus_version" > go.mod
  printf '//go:build tools\n\npackage main\n\nimport _ "github.com/prometheus/prometheus/cmd/promtool"\n' > tools.go
  cp "$sources/promql/main.go" .
  quietly go mod tidy
  quietly go build -tags remove_all_sd -ldflags "-s -w" -o "$out/promql" .
  quietly go build -tags remove_all_sd -ldflags "-s -w" -o "$out/promtool" github.com/prometheus/prometheus/cmd/promtool
  wanted prometheus > "$out/.prometheus.version"
}

build_h2spec() {
  cd "$work"
  GOBIN=$out quietly go install -ldflags "-s -w" "github.com/summerwind/h2spec/cmd/h2spec@$h2spec_version"
  echo "$h2spec_version" > "$out/.h2spec.version"
}

build_etcdctl() {
  mkdir -p "$work/etcdctl"
  cd "$work/etcdctl"
  printf 'module peer/etcdctl\n\ngo 1.26.0\n\nrequire go.etcd.io/etcd/etcdctl/v3 %s\n' "$etcd_version" > go.mod
  printf 'package main\n\nimport "go.etcd.io/etcd/etcdctl/v3/ctlv3"\n\nfunc main() { ctlv3.MustStart() }\n' > main.go
  quietly go mod tidy
  quietly go build -ldflags "-s -w" -o "$out/etcdctl" .
}

# unpack NAME PROGRAM FLAG PACKAGE…: what apt would install for the packages, unpacked beside a program that runs PROGRAM of them, as it does with FLAG.
unpack() {
  local name=$1 program=$2 packages root=$out/$1.root
  mkdir -p "$work/packages/$name"
  cd "$work/packages/$name"
  apt-cache show "${@:4}" > /dev/null 2>&1 || quietly apt-get update
  packages=$(apt-get install --reinstall --print-uris --no-install-recommends -qq "${@:4}" | cut -d' ' -f2 | cut -d_ -f1)
  # Lists may be older than what the mirror has.
  quietly apt-get download $packages 2> /dev/null || { quietly apt-get update && quietly apt-get download $packages; }
  rm -rf "$root"
  for package in *.deb; do dpkg -x "$package" "$root"; done
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$(echo "$root"/usr/lib/*-linux-gnu)" "$root/$program" > "$out/$name"
  chmod +x "$out/$name"
  quietly "$out/$name" "$3"
  echo "of the system" > "$out/.$name.version"
}
unpack_haproxy() { unpack haproxy usr/sbin/haproxy -v haproxy; }
# With the messages that others are made of, which it finds beside itself.
unpack_protoc() { unpack protoc usr/bin/protoc --version protobuf-compiler libprotobuf-dev; }

# The staging modules are published under their own versions; the kubernetes module itself names them by folder, so its own
# replace lines tell which ones there are.
kubernetes_module() {
  cd "$work/kubernetes"
  local source
  source=$(cd "$work" && go mod download -json "k8s.io/kubernetes@v$kube_version" | sed -n 's/^\t"GoMod": "\(.*\)",\{0,1\}$/\1/p')
  {
    printf 'module peer/kubernetes\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n\n' "$kube_version"
    grep -oE 'k8s\.io/[a-z0-9-]+ => \./staging' "$source" | cut -d' ' -f1 | sort -u |
      while read -r module; do printf 'replace %s => %s v0.%s\n' "$module" "$module" "${kube_version#1.}"; done
  } > go.mod
  quietly go mod tidy
}

# quietly COMMAND…: print its output only when it fails.
quietly() { "$@" > "$work/log" 2>&1 || { tail -20 "$work/log" >&2; return 1; }; }

kubernetes=()
for part in "${parts[@]}"; do
  if built "$part"; then
    echo "$part $(wanted "$part") is there"
    continue
  fi
  case $part in
  etcd) build_etcd "$etcd_version" "$out/etcd"; echo "$etcd_version" > "$out/.$part.version"; echo "$part $etcd_version built" ;;
  etcdctl) build_etcdctl; echo "$etcd_version" > "$out/.$part.version"; echo "$part $etcd_version built" ;;
  etcd-3.?) build_etcd "$(wanted "$part")" "$out/$part/etcd"; wanted "$part" > "$out/.$part.version"; echo "$part $(wanted "$part") built" ;;
  oidc-provider) build_oidc_provider; echo "$part $oidc_version built" ;;
  helm) build_helm; echo "$part $helm_version built" ;;
  prometheus) build_prometheus; echo "$part $prometheus_version built" ;;
  h2spec) build_h2spec; echo "$part $h2spec_version built" ;;
  haproxy) unpack_haproxy; echo "$part $("$out/haproxy" -v | head -1 | cut -d' ' -f3) unpacked" ;;
  protoc) unpack_protoc; echo "$part $("$out/protoc" --version | cut -d' ' -f2) unpacked" ;;
  kube-apiserver) program kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver/app 'app.NewAPIServerCommand()' && kubernetes+=("$part") ;;
  kube-controller-manager)
    program kube-controller-manager k8s.io/kubernetes/cmd/kube-controller-manager/app 'app.NewControllerManagerCommand()' && kubernetes+=("$part")
    ;;
  kube-scheduler) program kube-scheduler k8s.io/kubernetes/cmd/kube-scheduler/app 'app.NewSchedulerCommand()' && kubernetes+=("$part") ;;
  kubemark) program kubemark k8s.io/kubernetes/cmd/kubemark/app 'app.NewHollowNodeCommand()' && kubernetes+=("$part") ;;
  kubectl) program kubectl k8s.io/kubectl/pkg/cmd 'cmd.NewDefaultKubectlCommand()' && kubernetes+=("$part") ;;
  flags) mkdir -p "$work/kubernetes/flags" && cp "$sources/flags/main.go" "$work/kubernetes/flags/" && kubernetes+=("$part") ;;
  e2e.test) mkdir -p "$work/kubernetes/e2e.test" && cp "$sources/e2e/main.go" "$work/kubernetes/e2e.test/" && kubernetes+=("$part") ;;
  *) echo "unknown part $part" >&2; exit 2 ;;
  esac
done

[ ${#kubernetes[@]} -gt 0 ] || exit 0
kubernetes_module
stamp="-X k8s.io/component-base/version.gitVersion=v$kube_version"
stamp="$stamp -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=${kube_version#1.}"
stamp="${stamp%.*}"
# One build: what the programs share is compiled once, and one is compiled while another is linked. Nobody debugs them: -s and -w leave out what that needs.
cd "$work/kubernetes"
quietly go build -ldflags "-s -w $stamp" -o "$out/" "${kubernetes[@]/#/./}"
for part in "${kubernetes[@]}"; do
  echo "v$kube_version" > "$out/.$part.version"
  echo "$part v$kube_version built"
done
