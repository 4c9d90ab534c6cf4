#!/bin/sh
# tarball.sh BUILD DIST RELEASE - pack what is built in BUILD so that it works in whatever folder it is unpacked.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$1 dist=$2 release=$3
name=pvm-$release-$(uname -m)-linux
# Found and replaced where a file names the folder it is installed in.
prefix=/opt/pvm-unpacked
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

make --no-print-directory -C "$source" install BUILD="$build" PREFIX=$prefix DESTDIR="$work/stage" >"$work/log" || {
	cat "$work/log" >&2
	exit 1
}
root=$work/stage$prefix
# shellcheck disable=SC2016 # pkg-config replaces ${pcfiledir}
sed -i 's|^prefix=.*|prefix=${pcfiledir}/../..|' "$root/lib/pkgconfig/pvm3.pc"
# A manual page cannot know where it lies, nor a unit of systemd which program is meant.
grep -rlF $prefix "$root/share/man" | xargs -r sed -i "s|$prefix/||g"
rm -r "$root/lib/systemd" "$root/lib/pvm3/conf/created-dirs" "$root/lib/pvm3/conf/manual-pages"
! grep -rIlF $prefix "$root" || {
	echo "tarball.sh: these files name the folder of the build" >&2
	exit 1
}
cp "$source/README.md" "$source/CHANGELOG.md" "$source"/LICENSE-* "$root"
cp -r "$source/examples/c" "$source/examples/fortran" "$root/share/doc/pvm3"
mv "$root" "$work/$name"
mkdir -p "$dist"
tar -C "$work" --owner=0 --group=0 --sort=name -czf "$dist/$name.tar.gz" "$name"
echo "$dist/$name.tar.gz"
