#!/usr/bin/env bash
# chains.sh: makes chains of certificates anew, asks Go about each, and has the test of src/x509 compare. Needs go and cargo.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
file=$(mktemp)
trap 'rm -f "$file"' EXIT
go -C "$here/chains" run . > "$file"
cd "$here/../.."
WATCHCACHE_TEST_CHAINS=$file cargo test --package watchcache-x509 --lib -- chains_are_judged_as_go_judges_them
