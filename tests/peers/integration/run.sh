#!/usr/bin/env bash
# run.sh WORK WATCHCACHE SUITE…: Kubernetes' own integration tests on a watchcache, instead of the kube-apiserver that they start inside of themselves.
#
# Suites: apply, webhooks, policies, auth, certificates, dryrun, evictions, garbagecollector, namespace, pods, pvc, quota, serviceaccount, storageclasses
# (of k8s.io/kubernetes), crd, conversion (of k8s.io/apiextensions-apiserver). Each test gets a server of its own
# on an embedded store, at which it looks as at an etcd. Controllers are those that a test starts itself; WATCHCACHE_CONTROLLERS has the server run some, as
# --controllers does. Needs a Go toolchain, a module source, python3; the first run compiles for ten minutes.
set -euo pipefail

version=1.36.3
[ $# -ge 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
work=$(cd "$1" && pwd)
WATCHCACHE=$(realpath "$2")
export WATCHCACHE WATCHCACHE_CONTROLLERS=${WATCHCACHE_CONTROLLERS:-}
shift 2

# What is left out: representations that are off unless a gate is on (CBOR); tests that ask the server's own configuration where its etcd is.
skipped='CBOR|^TestPruningFromStorage$|^TestEtcdStorage$'

# copied MODULE@VERSION FOLDER: a module, as something that may be changed.
copied() {
  [ ! -e "$work/$2" ] || return 0
  local found
  found=$(cd "$work" && go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p')
  cp -r "$found" "$work/$2.part"
  chmod -R u+w "$work/$2.part"
  mv "$work/$2.part" "$work/$2"
}

# put PACKAGE FILE…: our files in a package, under its name.
put() {
  local file
  for file in "${@:2}"; do sed "s/^package integration$/package $(basename "$1")/; s/^Package integration/Package $(basename "$1")/" "$here/$file" > "$work/$1/$file"; done
}

kubernetes() {
  copied "k8s.io/kubernetes@v$version" kubernetes
  cd "$work/kubernetes"
  rm -rf go.work vendor
  sed -i -E "s#=> \./staging/src/(k8s\.io/[a-z0-9-]+)#=> \1 v0.${version#1.}#" go.mod
  put kubernetes/cmd/kube-apiserver/app/testing watchcache.go testserver.go
  put kubernetes/test/integration/framework watchcache.go framework.go
  rm -f test/integration/framework/test_server.go
  # There is no etcd to start, no server inside of the program to leak from, and the store's keys begin as those of a cluster.
  python3 - test/integration/framework/etcd.go test/integration/framework/controlplane_utils.go << 'PY'
import sys
etcd, utils = sys.argv[1:]
text = open(etcd).read()
text = text.replace("stop, err := startEtcd(klog.Background(), false)", "stop, err := func() {}, error(nil)")
open(etcd, "w").write(text.replace("err := goleakFindRetry(goleakOpts...)", "err := func(...any) error { return nil }(goleakOpts)"))
text = open(utils).read()
open(utils, "w").write(text.replace('path.Join(uuid.New().String(), "registry")', 'path.Join("", "registry"+uuid.Nil.String()[:0])'))
PY
  go mod tidy -e > "$work/tidy.log" 2>&1
}

apiextensions() {
  copied "k8s.io/apiextensions-apiserver@v0.${version#1.}" apiextensions
  cd "$work/apiextensions"
  put apiextensions/test/integration/fixtures watchcache.go
  python3 - test/integration << 'PY'
import os, re, sys
folder = sys.argv[1]
server = os.path.join(folder, "fixtures", "server.go")
text = open(server).read()
start, end = text.index("func startDefaultServer("), text.index("// StartDefaultServerWithClients starts")
text = text[:start] + """func startDefaultServer(_ servertesting.Logger, flags ...string) (func(), servertesting.TestServer, error) {
	server, err := startWatchcache(flags, nil)
	if err != nil {
		return nil, servertesting.TestServer{}, err
	}
	server.makeNamespaces()
	options := serveroptions.NewCustomResourceDefinitionsServerOptions(os.Stdout, os.Stderr)
	options.RecommendedOptions.Etcd.StorageConfig.Transport.ServerList = []string{server.etcd()}
	options.RecommendedOptions.Etcd.StorageConfig.Prefix = "/registry"
	return server.stop, servertesting.TestServer{ClientConfig: server.config, ServerOpts: options, TmpDir: server.dir}, nil
}

""" + text[end:]
text = text.replace('\t"github.com/google/uuid"\n', "")
open(server, "w").write(text.replace('\t"strings"\n', "", 1) if text.count("strings.") == 0 else text)
# The store's socket speaks no TLS.
for path, _, names in os.walk(folder):
    for name in (name for name in names if name.endswith(".go")):
        file = os.path.join(path, name)
        text = open(file).read()
        plain = re.sub(r"\n\t+TLS: +tlsConfig,", "", text).replace("tlsConfig, err := tlsInfo", "_, err := tlsInfo")
        plain = re.sub(r"(\berr := [^\n]*\n(?:(?!\nfunc )[\s\S])*?)_, err := tlsInfo", r"\1_, err = tlsInfo", plain)
        if plain != text:
            open(file, "w").write(plain)
PY
}

# run NAME MODULE PACKAGE: its tests; fails with them.
run() {
  cd "$work/$2"
  # The name of the program is that of a field manager that the tests look for.
  mkdir -p "$work/$1"
  go test -c -o "$work/$1/integration.test" "./test/integration/$3" || return 1
  cd "test/integration/$3"
  mkdir -p "$work/$1/tmp"
  TMPDIR=$work/$1/tmp "$work/$1/integration.test" -test.v -test.skip "$skipped" > "$work/$1.log" 2>&1 || true
  rm -rf "$work/$1/tmp"
  echo "$1: $(grep -c '^--- PASS' "$work/$1.log") passed, failed: $(sed -n 's/^--- FAIL: \([^ ]*\).*/\1/p' "$work/$1.log" | tr '\n' ' ')"
  ! grep -q '^--- FAIL\|^panic' "$work/$1.log"
}

failed=0
for suite in "$@"; do
  case $suite in
    apply) kubernetes && run apply kubernetes apiserver/apply || failed=1 ;;
    webhooks) kubernetes && run webhooks kubernetes apiserver/admissionwebhook || failed=1 ;;
    policies) kubernetes && run policies kubernetes apiserver/cel || failed=1 ;;
    auth | certificates | dryrun | evictions | garbagecollector | namespace | pods | pvc | quota | serviceaccount | storageclasses) kubernetes && run "$suite" kubernetes "$suite" || failed=1 ;;
    crd) apiextensions && run crd apiextensions . || failed=1 ;;
    conversion) apiextensions && run conversion apiextensions conversion || failed=1 ;;
    *) echo "unknown suite $suite" >&2; exit 2 ;;
  esac
done
exit "$failed"
