#!/usr/bin/env bash
# yaml.sh [FLAG…]: makes thousands of YAML documents and compares how Go's libraries, which kube-apiserver uses, and ours read them (tests/clients/go/yaml): values,
# errors, duplicate keys. FLAG… are flags of that program. WATCHCACHE_TARGET is cargo's folder if that is not target; READ is our program (the example `yaml`), if it is
# there already. Needs a Go toolchain with the modules of tests/clients/go.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${WATCHCACHE_TARGET:-target}
if [ -z "${READ:-}" ]; then
  cargo build --quiet --locked --package watchcache-go --example yaml --target-dir "$target"
  READ=$target/${CARGO_BUILD_TARGET:+$CARGO_BUILD_TARGET/}debug/examples/yaml
fi
mkdir -p "$target/clients"
(cd tests/clients/go && go build -o "$(cd ../../.. && realpath "$target")/clients/yaml" ./yaml)
"$target/clients/yaml" "$@" "$READ"
