#!/usr/bin/env bash
# run.sh [short | TEXT…]: has client-go and ours read hundreds of kubeconfig files and compares what comes of them (tests/clients/go/kubeconfig); short: every fifth.
# TEXT… are flags of that program. WATCHCACHE_TARGET is cargo's folder if that is not target; ASK is our program (the example `ask`), if it is there already.
# Needs a Go toolchain with the modules of tests/clients/go.
set -euo pipefail
cd "$(dirname "$0")/../../.."
target=${WATCHCACHE_TARGET:-target}
flags=("$@")
[ "${1:-}" != short ] || flags=(--every 5)
if [ -z "${ASK:-}" ]; then
  cargo build --quiet --locked --package watchcache-client --example ask --target-dir "$target"
  ASK=$target/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}debug/examples/ask
fi
mkdir -p "$target/clients"
(cd tests/clients/go && go build -o "$(cd ../../.. && realpath "$target")/clients/kubeconfig" ./kubeconfig)
"$target/clients/kubeconfig" "${flags[@]}" "$ASK"
