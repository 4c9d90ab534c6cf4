#!/bin/sh
# filter.sh LIBRARY NAME FILTEE OUTPUT PATTERN… - build a library that only names symbols of LIBRARY: those that match a pattern, and
# none of those before it that begin with "!".
#
# All calls are in libpvm3.so.3, with the state they share. But a program names the libraries it was linked with, so the group and
# Fortran calls have libraries of their own for the linker, as PVM has. The loader looks for their definitions in the FILTEE first. Where
# that is another PVM's libpvm3.so.3, which has no such symbols, the definitions here are called, and say so.
set -eu

library=$1 name=$2 filtee=$3 output=$4
shift 4
source=$output.c
trap 'rm -f "$source"' EXIT

# matches SYMBOL PATTERN…
matches() {
	symbol=$1
	shift
	for pattern in "$@"; do
		# shellcheck disable=SC2254 # it is a pattern
		case $symbol in ${pattern#!}) [ "$pattern" = "${pattern#!}" ] && return 0 || return 1 ;; esac
	done
	return 1
}

cat >"$source" <<'END'
#include <stdlib.h>
#include <unistd.h>
static void missing(void)
{
	static const char text[] =
		NAME ": the loader found the libpvm3.so.3 of another PVM: set LD_LIBRARY_PATH to the folder of " NAME "\n";
	if (write(2, text, sizeof text - 1) < 0)
		abort();
	_exit(127);
}
END
${NM:-nm} -D -S --defined-only "$library" | while read -r _ size kind symbol; do
	matches "$symbol" "$@" || continue
	case $kind in
	T) echo "void $symbol(void) { missing(); }" ;;
	*) echo "char $symbol[0x$size] __attribute__((aligned(8)));" ;;
	esac
done >>"$source"
# Whatever needs this library also gets libpvm3.so.3, from the same folder; but libpvm3.so stands for that library itself.
case $name in
libpvm3.so.3) needed='' ;;
*) needed=$library ;;
esac
# Two segments, and nothing to do at its start: each task of a spawn loads it.
# shellcheck disable=SC2016,SC2086 # the loader replaces $ORIGIN; a library or none
${CC:-cc} -shared -fPIC -O1 -w -nostartfiles -fno-asynchronous-unwind-tables -DNAME="\"$name\"" -Wl,-soname,"$name" -Wl,--filter="$filtee" -Wl,--enable-new-dtags \
	-Wl,-rpath,'$ORIGIN' -Wl,--no-as-needed -Wl,-z,noseparate-code,-z,norelro,--build-id=none -s -o "$output" "$source" $needed
