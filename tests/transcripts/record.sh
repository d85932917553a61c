#!/bin/sh
# record.sh FOLDER: plays the scenarios on kube-apiserver and writes what it answers; FOLDER has etcd and kube-apiserver.
set -eu
[ $# -eq 1 ] || { sed -n 2p "$0" >&2; exit 2; }
WATCHCACHE_TEST_PEERS=$(cd "$1" && pwd)
export WATCHCACHE_TEST_PEERS WATCHCACHE_RECORD=1
cd "$(dirname "$0")/../.."
exec cargo test --test it transcripts::on_etcd -- --include-ignored
