#!/usr/bin/env bash
# deploy/release.sh [--profile PROFILE] VERSION OUT: makes the files of a release in OUT:
#
# watchcache-VERSION-linux-ARCH.tar.gz    the program linked statically, licences, README, manual pages, completions, systemd units
# watchcache_VERSION_ARCH.deb             the same as a Debian package (deploy/deb.sh)
# watchcache-VERSION-py3-none-*.whl       the program as a Python wheel (deploy/wheel.py)
# watchcache-VERSION-linux-ARCH.oci.tar   the container image (deploy/container)
# watchcache-chart-VERSION.tgz            the Helm chart; IMAGE (a repository without a tag), if set, becomes its default image
# watchcache-VERSION.cdx.json             the crates in the program (CycloneDX)
# SHA256SUMS
#
# VERSION must be that of Cargo.toml, of the chart and of an entry in docs/CHANGELOG.md. The program is built as deploy/container/build.sh does, with the
# profile dist unless another is given. The same program gives the same bytes: file times are SOURCE_DATE_EPOCH, or the time of the last commit.
# Needs GNU tar, gzip, coreutils, dpkg-deb, git and python3.
set -euo pipefail
repository=$(cd "$(dirname "$0")/.." && pwd)
profile=dist
if [ "${1:-}" = --profile ]; then
  profile=$2
  shift 2
fi
[ $# = 2 ] || { sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2; }
version=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
# agrees FILE VERSION: fails unless this is the version of the release.
agrees() { [ "$version" = "$2" ] || { echo "$1 has version $2, not $version" >&2; exit 1; }; }
agrees Cargo.toml "$(sed -n 's/^version = "\(.*\)"/\1/p' "$repository/Cargo.toml" | head -1)"
chart=$repository/deploy/helm/watchcache
for field in version appVersion; do agrees Chart.yaml "$(sed -n "s/^$field: //p" "$chart/Chart.yaml")"; done
grep -q "^## $version" "$repository/docs/CHANGELOG.md" || { echo "docs/CHANGELOG.md has no entry of $version" >&2; exit 1; }
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
install -m 644 "$repository"/{LICENSE,README.md,deploy/NOTICE,docs/CHANGELOG.md} "$folder"
"$repository/deploy/licences.py" > "$folder/THIRD-PARTY-LICENSES"
mkdir -p "$folder"/{man,completions,systemd}
"$program" man > "$folder/man/watchcache.1"
for command in serve store; do "$program" man "$command" > "$folder/man/watchcache-$command.1"; done
"$program" completions bash > "$folder/completions/watchcache.bash"
"$program" completions fish > "$folder/completions/watchcache.fish"
"$program" completions zsh > "$folder/completions/_watchcache"
install -m 644 "$repository"/deploy/*.service "$folder/systemd"
# archive FILE FOLDER NAME: a compressed tar of NAME in FOLDER that depends on the contents alone.
archive() {
  tar --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --mode=u+w,go-w,a+rX --numeric-owner --owner=0 --group=0 -cf - -C "$2" "$3" | gzip -9n > "$1"
}
archive "$out/$name.tar.gz" "$scratch" "$name"
deb=$("$repository/deploy/deb.sh" "$folder" "$out")
wheel=$("$repository/deploy/wheel.py" "$folder" "$out")

# The chart names the project's address and, when a registry is known, the image there.
mkdir "$scratch/chart"
cp -r "$chart" "$scratch/chart"
homepage=$(sed -n 's/^homepage = "\(.*\)"/\1/p' "$repository/Cargo.toml" | head -1)
printf 'home: %s\nsources:\n- %s\n' "$homepage" "$homepage" >> "$scratch/chart/watchcache/Chart.yaml"
[ -z "${IMAGE:-}" ] || sed -i "s|^  repository: watchcache\$|  repository: $IMAGE|" "$scratch/chart/watchcache/values.yaml"
archive "$out/watchcache-chart-$version.tgz" "$scratch/chart" watchcache

"$repository/deploy/sbom.py" > "$out/watchcache-$version.cdx.json"
(cd "$out" && sha256sum "$name.oci.tar" "$name.tar.gz" "$deb" "$wheel" "watchcache-chart-$version.tgz" "watchcache-$version.cdx.json" > SHA256SUMS)
cat "$out/SHA256SUMS"
