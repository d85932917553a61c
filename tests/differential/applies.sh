#!/usr/bin/env bash
# applies.sh FLAG…: whatever applies, one after the other, on the two servers that run.sh has started; the flags are those that run.sh gives.
#
# APPLIES_PEERS is a folder with kubectl and helm, APPLIES_CLIENTS names programs that apply by libraries of others (tests/clients/go/apply, tests/clients/kube-rs).
set -euo pipefail
here=$(realpath "$(dirname "$0")")
"$here/apply.py" "$@" --sequences 60 --seed 7
"$here/tools.py" "$@" --kubectl "$APPLIES_PEERS/kubectl" --helm "$APPLIES_PEERS/helm"
for client in $APPLIES_CLIENTS; do "$client" "$@"; done
