#!/usr/bin/env bash
# deploy/deb.sh FOLDER OUT: makes a Debian package in OUT from the unpacked files of a release (deploy/release.sh makes FOLDER).
#
# The package installs the program, manual pages, shell completions and the systemd units. The units are installed and not started: an operator chooses one.
# The same files give the same bytes: file times are SOURCE_DATE_EPOCH. Needs dpkg-deb and coreutils. Prints the name of the package.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
files=$(cd "$1" && pwd)
out=$(cd "$2" && pwd)
# field NAME: a value of [workspace.package] in Cargo.toml.
field() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" "$here/../Cargo.toml" | head -1; }
version=$(field version)
architecture=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

install -D -m 755 "$files/watchcache" "$root/usr/bin/watchcache"
for unit in "$files"/systemd/*.service; do
  install -d "$root/usr/lib/systemd/system"
  sed 's|/usr/local/bin/|/usr/bin/|' "$unit" > "$root/usr/lib/systemd/system/$(basename "$unit")"
done
for page in "$files"/man/*.1; do
  install -d "$root/usr/share/man/man1"
  gzip -9n < "$page" > "$root/usr/share/man/man1/$(basename "$page").gz"
done
install -D -m 644 "$files/completions/watchcache.bash" "$root/usr/share/bash-completion/completions/watchcache"
install -D -m 644 "$files/completions/watchcache.fish" "$root/usr/share/fish/vendor_completions.d/watchcache.fish"
install -D -m 644 "$files/completions/_watchcache" "$root/usr/share/zsh/vendor-completions/_watchcache"
install -d "$root/usr/share/doc/watchcache"
cat "$files/NOTICE" "$files/LICENSE" > "$root/usr/share/doc/watchcache/copyright"
gzip -9n < "$files/THIRD-PARTY-LICENSES" > "$root/usr/share/doc/watchcache/THIRD-PARTY-LICENSES.gz"
gzip -9n < "$files/CHANGELOG.md" > "$root/usr/share/doc/watchcache/changelog.gz"

# Nothing is a conffile: the units are below /usr and are overridden in /etc/systemd/system.
install -d "$root/DEBIAN"
cat > "$root/DEBIAN/control" << CONTROL
Package: watchcache
Version: $version
Architecture: $architecture
Maintainer: watchcache maintainers <maintainers@watchcache.example>
Installed-Size: $(du -k -s "$root/usr" | cut -f1)
Homepage: $(field homepage)
Section: net
Priority: optional
Description: $(sed -n 's/^description = "\(.*\)"/\1/p' "$here/../Cargo.toml" | head -1)
 It answers LIST, GET and WATCH of the Kubernetes API from memory, on an etcd,
 on an embedded store or in front of another API server, and takes writes.
CONTROL
(cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) > "$root/DEBIAN/md5sums"
find "$root" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH:-0}" {} +
chmod -R u+w,go-w,a+rX "$root"
package=watchcache_${version}_$architecture.deb
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-0} dpkg-deb --root-owner-group -Zxz --build "$root" "$out/$package" > /dev/null
echo "$package"
