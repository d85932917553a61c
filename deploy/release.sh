#!/usr/bin/env bash
# deploy/release.sh [--profile PROFILE] VERSION OUT: makes the files of a release in OUT:
#
# watchcache-VERSION-linux-ARCH.tar.gz    the program linked statically, licence, README, pages of the manual, completions, systemd units
# watchcache-VERSION-linux-ARCH.oci.tar   the container image (deploy/container)
# watchcache-VERSION.cdx.json             the crates in the program (CycloneDX)
# SHA256SUMS
#
# VERSION must be that of Cargo.toml. The program is built as deploy/container/build.sh does, with the profile dist unless told otherwise. The same program
# gives the same bytes: file times are SOURCE_DATE_EPOCH, or the time of the last commit. Needs GNU tar, gzip, coreutils, git and python3.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
profile=dist
if [ "${1:-}" = --profile ]; then
  profile=$2
  shift 2
fi
[ $# = 2 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
version=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
told=$(sed -n 's/^version = "\(.*\)"/\1/p' "$repository/Cargo.toml" | head -1)
[ "$version" = "$told" ] || { echo "Cargo.toml has version $told, not $version" >&2; exit 1; }
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$repository" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
case $(uname -m) in x86_64) architecture=amd64 ;; aarch64) architecture=arm64 ;; *) architecture=$(uname -m) ;; esac
name=watchcache-$version-linux-$architecture

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$repository/deploy/container/build.sh" --profile "$profile" "$scratch/image" > /dev/null
mv "$scratch/image/watchcache.tar" "$out/$name.oci.tar"

folder=$scratch/$name
program=$scratch/image/rootfs/usr/local/bin/watchcache
install -D -m 755 "$program" "$folder/watchcache"
install -m 644 "$repository/LICENSE" "$repository/README.md" "$folder"
mkdir -p "$folder"/{man,completions,systemd}
"$program" man > "$folder/man/watchcache.1"
for command in serve store; do "$program" man "$command" > "$folder/man/watchcache-$command.1"; done
"$program" completions bash > "$folder/completions/watchcache.bash"
"$program" completions fish > "$folder/completions/watchcache.fish"
"$program" completions zsh > "$folder/completions/_watchcache"
install -m 644 "$repository"/deploy/*.service "$folder/systemd"
tar --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --mode=u+w,go-w,a+rX --numeric-owner --owner=0 --group=0 -cf - -C "$scratch" "$name" | gzip -9n > "$out/$name.tar.gz"

"$repository/deploy/sbom.py" > "$out/watchcache-$version.cdx.json"
(cd "$out" && sha256sum "$name.oci.tar" "$name.tar.gz" "watchcache-$version.cdx.json" > SHA256SUMS)
cat "$out/SHA256SUMS"
