#!/bin/sh
# deb.sh BUILD DIST RELEASE - pack what is built in BUILD as Debian packages. MAINTAINER="Name <address>" is the address for questions about them.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
build=$1 dist=$2 release=$3
command -v dh >/dev/null || {
	echo "deb.sh: debhelper is missing; on Debian: apt-get install debhelper" >&2
	exit 1
}
: "${MAINTAINER:=$(id -un) <$(id -un)@$(uname -n)>}"
export MAINTAINER
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

folder=$work/pvm-rs-$release
mkdir "$folder"
cp -r "$source/packaging/debian" "$folder/debian"
sed -i "s|@MAINTAINER@|$MAINTAINER|" "$folder/debian/control"
cat >"$folder/debian/changelog" <<END
pvm-rs ($release) unstable; urgency=medium

  * See /usr/share/doc/pvm3/release-notes.md (pvm-rs-doc).

 -- $MAINTAINER  $(date -R ${SOURCE_DATE_EPOCH:+-d "@$SOURCE_DATE_EPOCH"})
END
build=$(cd "$build" && pwd)
(cd "$folder" && PVM_SOURCE=$source PVM_BUILD=$build DEB_BUILD_OPTIONS=noautodbgsym \
	dpkg-buildpackage --build=binary --unsigned-changes --unsigned-buildinfo) >"$work/log" 2>&1 || {
	cat "$work/log" >&2
	exit 1
}
mkdir -p "$dist"
mv "$work"/*.deb "$dist"
ls "$dist"/*_"$release"_*.deb
