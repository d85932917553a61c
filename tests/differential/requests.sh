#!/usr/bin/env bash
# requests.sh PEERS WATCHCACHE [--count N] [--seed N]: random certificate requests as dry runs to both servers; codes and messages must be equal (requests/main.go).
#
# PEERS is a folder with etcd and kube-apiserver. Needs go, openssl and curl. PORT (default 21830) is the first of four on loopback.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
go -C "$here/requests" build -o "$folder/requests" .
OFF=ServiceAccount ON=NodeRestriction AUTHORIZATION=Node,RBAC "$here/run.sh" "$1" "$2" "$folder/requests" "${@:3}"
