#!/usr/bin/env bash
# cel.sh [SEED…]: compares expressions with what cel-go and kube-apiserver's environment make of them (tests/differential/cel): types, estimated and actual cost,
# values and the texts of errors. The expressions are those of cel-spec, those in the tests of cel-go and Kubernetes, and 10,000 random ones for each SEED.
# WATCHCACHE_TARGET is cargo's folder if that is not target. Needs a Go toolchain and python3; prints what differs, and how many do.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$(realpath -m "${WATCHCACHE_TARGET:-target}")
cargo build --quiet --locked --package watchcache-cel --example cel-compare --target-dir "$target"
compare=$target/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}debug/examples/cel-compare
mkdir -p "$target/cel"
cd tests/differential/cel
go build -o "$target/cel/oracle" .
go build -o "$target/cel/spec" ./spec
modules=$(go env GOMODCACHE)
check() {
  echo "$1:"
  "$target/cel/oracle" | "$compare" google.protobuf TestAll
}
"$target/cel/spec" "$modules/cel.dev/expr@v0.25.1/tests/simple/testdata" | check cel-spec
./harvest.py "$modules" | check "tests of cel-go and Kubernetes, in cel-go's environment"
./harvest.py "$modules" kubernetes | check "tests of cel-go and Kubernetes, in kube-apiserver's environment"
for seed in "${@:-1}"; do
  ./random.py "$seed" 10000 | check "random expressions of seed $seed"
done
