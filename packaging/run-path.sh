#!/bin/sh
# run-path.sh FOLDER - print the linker's option by which programs find libpvm3.so.3 in FOLDER; nothing if the loader looks there by
# itself, and in no folder before it that has a libpvm3.so.3 (Debian's PVM may be installed as well).
folder=$1
PATH=$PATH:/sbin:/usr/sbin

real() {
	(cd "$1" 2>/dev/null && pwd -P) || echo "$1"
}

# The loader's own folders, in its order.
searched() {
	ldconfig -v -N -X 2>/dev/null | sed -n 's|^\(/[^:]*\):.*|\1|p'
}

found=$(searched | while read -r dir; do
	if [ "$(real "$dir")" = "$(real "$folder")" ]; then
		echo yes
	elif [ ! -e "$dir/libpvm3.so.3" ]; then
		continue
	fi
	break
done)
# shellcheck disable=SC2016 # pkg-config replaces ${libdir}
[ -n "$found" ] || printf '%s' '-Wl,-rpath,${libdir} '
