#!/usr/bin/env bash
# deploy/container/test.sh OUT [PORT]: checks the output of build.sh. Its digests must be right, and the program must run from the root file
# system alone, and keep an object across a restart.
set -euo pipefail
out=$(cd "$1" && pwd)
port=${2:-18001}
url=http://127.0.0.1:$port
scratch=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2> /dev/null || true; rm -rf "$scratch"' EXIT

mkdir "$scratch/layout" "$scratch/rootfs"
tar -xf "$out/watchcache.tar" -C "$scratch/layout"
(cd "$scratch/layout/blobs/sha256" && for blob in *; do echo "$blob  $blob"; done | sha256sum --quiet -c)
# referred MEDIA_TYPE FILE: the blob of this type that a document names.
referred() {
  grep -o "\"$1\"[^}]*" "$2" | sed -n 's/.*"sha256:\([0-9a-f]\{64\}\)".*/\1/p' | sed "s|^|$scratch/layout/blobs/sha256/|" | grep .
}
type=application/vnd.oci.image
manifest=$(referred "$type.manifest.v1+json" "$scratch/layout/index.json")
layer=$(referred "$type.layer.v1.tar+gzip" "$manifest")
grep -q "sha256:$(gzip -dc "$layer" | sha256sum | cut -d' ' -f1)" "$(referred "$type.config.v1+json" "$manifest")"
# The test runs the layer, not the folder that it was made from. Files belong to the user who runs the test.
tar -xzf "$layer" -C "$scratch/rootfs" --no-same-owner

# within COMMAND…: runs it with the layer as the root directory, as root or as root of a user namespace.
if [ "$(id -u)" = 0 ]; then within=(chroot "$scratch/rootfs"); else within=(unshare --user --map-root-user chroot "$scratch/rootfs"); fi
start() {
  "${within[@]}" /usr/local/bin/watchcache serve --data-dir /var/lib/watchcache/data --insecure-port "$port" 2> "$scratch/log" &
  pid=$!
  for _ in $(seq 600); do
    [ "$(curl -s "$url/readyz")" = ok ] && return
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.1
  done
  cat "$scratch/log" >&2
  return 1
}
stop() {
  kill "$pid"
  wait "$pid"
  pid=
}
start
curl -fsS -o /dev/null "$url/api/v1/namespaces/default/configmaps" -H 'Content-Type: application/json' -d '{"metadata": {"name": "kept"}}'
stop
start
curl -fsS -o /dev/null "$url/api/v1/namespaces/default/configmaps/kept"
stop
# The image's own command, on another port: its kubeconfig is on the volume, and leads in.
secure=$((port + 1))
read -ra command <<< "$(tr -d '\n' < "$(referred "$type.config.v1+json" "$manifest")" | sed -n 's/.*"Cmd": \[\([^]]*\)\].*/\1/p' | tr -d '",' | sed "s/ 6443/ $secure/")"
"${within[@]}" /usr/local/bin/watchcache "${command[@]}" 2> "$scratch/log" &
pid=$!
for _ in $(seq 600); do
  [ "$(curl -sk "https://127.0.0.1:$secure/readyz")" = ok ] && break
  sleep 0.1
done
conf=$scratch/rootfs/var/lib/watchcache/admin.conf
for data in certificate-authority client-certificate client-key; do
  sed -n "s/.*$data-data: *\"\{0,1\}\([A-Za-z0-9+\/=]*\).*/\1/p" "$conf" | base64 -d > "$scratch/$data"
done
curl -fsS -o /dev/null --cacert "$scratch/certificate-authority" --cert "$scratch/client-certificate" --key "$scratch/client-key" \
  "https://127.0.0.1:$secure/api/v1/namespaces/default/configmaps/kept" || { cat "$scratch/log" >&2; exit 1; }
stop
echo "runs from its own root file system and keeps what it was given: $(cd "$scratch/rootfs" && find . -type f -size +0 | grep -cv ./var/) files"
