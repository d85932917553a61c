#!/usr/bin/env bash
# deploy/container/build.sh [--profile PROFILE] [--binary FILE] OUT: a container image without a daemon.
#
# OUT/rootfs          the root file system: the program, its user, its data directory, nothing else
# OUT/watchcache.tar  the same as an OCI image layout (for `podman load`, `skopeo copy oci-archive:…`, `ctr image import`)
#
# Without --binary the program is built here (profile dist unless told otherwise), with glibc's static library. A --binary that is linked
# dynamically gets its libraries copied in. Needs GNU tar, gzip and coreutils.
set -euo pipefail
repository=$(cd "$(dirname "$0")/../.." && pwd)
uid=65532 # no user of a host; the number that images without a shell commonly use
profile=dist
binary=
while [ $# -gt 1 ]; do
  case $1 in
    --profile) profile=$2 ;;
    --binary) binary=$2 ;;
    *) echo "unknown: $1" >&2; exit 2 ;;
  esac
  shift 2
done
[ $# = 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
out=$1
rootfs=$out/rootfs

if [ -z "$binary" ]; then
  target=$(rustc -vV | sed -n 's/^host: //p')
  built=${CARGO_TARGET_DIR:-$repository/target/static}
  # With --target the flags are not those of build scripts and macros, which must stay dynamic. The second one: without a dynamic loader the crate would not
  # find libc's getrandom, and ask for /dev/urandom, which a bare root file system does not have.
  RUSTFLAGS=$(cat "$repository/deploy/container/rustflags") cargo build --quiet --locked --profile "$profile" --bin watchcache \
    --manifest-path "$repository/Cargo.toml" --target "$target" --target-dir "$built"
  binary=$built/$target/${profile/#dev/debug}/watchcache
fi

rm -rf "$rootfs"
mkdir -p "$rootfs"/{etc,usr/local/bin,var/lib/watchcache}
install -m 755 "$binary" "$rootfs/usr/local/bin/watchcache"
strip --strip-debug "$rootfs/usr/local/bin/watchcache" 2> /dev/null || true
echo "watchcache:x:$uid:$uid::/var/lib/watchcache:/usr/local/bin/watchcache" > "$rootfs/etc/passwd"
echo "watchcache:x:$uid:" > "$rootfs/etc/group"
chmod 700 "$rootfs/var/lib/watchcache"
# `ldd` fails, or says so, when there is nothing to load; else each path that it names is a file to take along, the loader too.
if libraries=$(ldd "$binary" 2> /dev/null); then
  { grep -o '/[^ ]*' <<< "$libraries" || true; } | while read -r library; do install -D "$library" "$rootfs$library"; done
fi

# The image: one layer, a configuration, a manifest, each named by its digest.
layout=$out/layout
rm -rf "$layout"
mkdir -p "$layout/blobs/sha256"
# archive FILE OWNER ARGUMENT…: a tar that depends on nothing but the contents. Appends when the file is there.
archive() {
  local file=$1 owner=$2 mode=-cf
  shift 2
  [ -e "$file" ] && mode=-rf
  tar --sort=name --format=ustar --mtime="@${SOURCE_DATE_EPOCH:-0}" --numeric-owner --owner="$owner" --group="$owner" "$mode" "$file" "$@"
}
# blob FILE: moves it to its digest's name; prints `"digest": …, "size": …`.
blob() {
  local digest size
  digest=$(sha256sum "$1" | cut -d' ' -f1)
  size=$(stat -c %s "$1")
  mv "$1" "$layout/blobs/sha256/$digest"
  echo "\"digest\": \"sha256:$digest\", \"size\": $size"
}
case $(uname -m) in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; *) architecture=$(uname -m) ;; esac
layer=$out/layer.tar
rm -f "$layer" "$layer.gz"
archive "$layer" 0 -C "$rootfs" --exclude ./var/lib/watchcache .
archive "$layer" "$uid" -C "$rootfs" ./var/lib/watchcache
# The configuration names the layer as it is, the manifest as it is sent. Some tools read no layer that is not compressed.
diff_id=sha256:$(sha256sum "$layer" | cut -d' ' -f1)
gzip -n "$layer"
layer=$(blob "$layer.gz")
cat > "$out/config.json" << JSON
{
  "architecture": "$architecture",
  "os": "linux",
  "config": {
    "User": "$uid:$uid",
    "Entrypoint": ["/usr/local/bin/watchcache"],
    "Cmd": ["serve", "--data-dir", "/var/lib/watchcache/data", "--insecure-port", "0", "--secure-port", "6443",
            "--write-admin-kubeconfig", "/var/lib/watchcache/admin.conf"],
    "ExposedPorts": {"6443/tcp": {}},
    "Volumes": {"/var/lib/watchcache": {}},
    "WorkingDir": "/var/lib/watchcache"
  },
  "rootfs": {"type": "layers", "diff_ids": ["$diff_id"]},
  "history": [{"created_by": "deploy/container/build.sh"}]
}
JSON
config=$(blob "$out/config.json")
cat > "$out/manifest.json" << JSON
{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.manifest.v1+json",
  "config": {"mediaType": "application/vnd.oci.image.config.v1+json", $config},
  "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", $layer}]
}
JSON
manifest=$(blob "$out/manifest.json")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$repository/Cargo.toml" | head -1)
cat > "$layout/index.json" << JSON
{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.index.v1+json",
  "manifests": [{
    "mediaType": "application/vnd.oci.image.manifest.v1+json", $manifest,
    "platform": {"architecture": "$architecture", "os": "linux"},
    "annotations": {"org.opencontainers.image.ref.name": "$version"}
  }]
}
JSON
echo '{"imageLayoutVersion": "1.0.0"}' > "$layout/oci-layout"
rm -f "$out/watchcache.tar"
archive "$out/watchcache.tar" 0 -C "$layout" blobs index.json oci-layout
rm -rf "$layout"
echo "$out/watchcache.tar: $(du -h "$out/watchcache.tar" | cut -f1)"
