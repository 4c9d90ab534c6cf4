#!/bin/sh
# check-install.sh [VARIABLE=value…] - install into temporary folders, use what is there, uninstall, look what is left.
# The arguments go to make. Run `make` first.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
arch=$("$source/packaging/pvmgetarch")

fail() {
	echo "check-install: $*" >&2
	exit 1
}

step() {
	echo "check-install: $*"
}

# What needs a tool that is not here fails when everything must be checked, else says so in one line.
have() {
	command -v "$1" >/dev/null && return
	[ "${PVM_TEST_FULL:-}" != 1 ] || fail "$1 is missing, and PVM_TEST_FULL=1 wants $2 checked"
	echo "not checked: $2 ($1 is missing)" >&2
	return 1
}

run_make() {
	make --no-print-directory -C "$source" "$@" >"$work/make.log" 2>&1 || {
		cat "$work/make.log" >&2
		fail "make $* failed"
	}
}

# link_to PATH TARGET: PATH is a link with exactly that text, and leads somewhere.
link_to() {
	[ "$(readlink "$1")" = "$2" ] || fail "$1 should be a link to $2"
	[ -e "$1" ] || fail "$1 leads nowhere"
}

dynamic() {
	readelf -d "$1" | sed -n "s/.*($2).*\[\(.*\)\]/\1/p"
}

# check_layout PREFIX: each path that programs and people rely on.
check_layout() {
	for name in pvm pvmd pvm-task-manager; do
		[ -x "$1/bin/$name" ] || fail "bin/$name is missing"
	done
	for name in pvm3.h pvmtev.h pvmproto.h fpvm3.h; do
		[ -f "$1/include/$name" ] || fail "include/$name is missing"
		cmp -s "$1/include/$name" "$1/lib/pvm3/include/$name" || fail "PVM_ROOT/include has no $name"
	done
	for name in libpvm3.so.3 libgpvm3.so.3 libpvm3.a pkgconfig/pvm3.pc; do
		[ -f "$1/lib/$name" ] || fail "lib/$name is missing"
	done
	for name in libpvm3 libgpvm3 libfpvm3; do
		link_to "$1/lib/$name.so" libpvm3.so.3
		link_to "$1/lib/pvm3/lib/$arch/$name.a" "../../../$name.a"
	done
	link_to "$1/lib/libgpvm3.a" libpvm3.a
	link_to "$1/lib/libfpvm3.a" libpvm3.a
	link_to "$1/lib/pvm3/include" ../../include
	link_to "$1/lib/pvm3/lib/pvm" ../../../bin/pvm
	link_to "$1/lib/pvm3/lib/pvmd" ../../../bin/pvmd
	[ -d "$1/lib/pvm3/bin/$arch" ] || fail "PVM_ROOT/bin/$arch is missing"
	[ -f "$1/lib/pvm3/conf/$arch.def" ] || fail "PVM_ROOT/conf/$arch.def is missing"
	[ "$("$1/lib/pvm3/lib/pvmgetarch")" = "$arch" ] || fail "PVM_ROOT/lib/pvmgetarch disagrees with $arch"
}

# check_manual PREFIX: a page for each command and function, and none that man cannot show.
check_manual() {
	for page in man1/pvm.1 man1/pvmd.1 man1/pvm-run.1 man1/pvm-task-manager.1 man3/pvm_spawn.3 man3/pvmfspawn.3; do
		[ -f "$1/share/man/$page" ] || fail "share/man/$page is missing"
	done
	for name in $(sed -n 's/^int \(pvm_[a-z]*\)(.*/\1/p' "$1/include/pvm3.h"); do
		case $name in *mwid) continue ;; esac
		[ -f "$1/share/man/man3/$name.3" ] || fail "$name has no manual page"
	done
	have mandoc "manual pages" || return 0
	(cd "$1/share/man" && mandoc -T lint -W error man1/*.1 man3/*.3) || fail "a manual page has mistakes"
}

check_names_inside() {
	[ "$(dynamic "$1/lib/libpvm3.so.3" SONAME)" = libpvm3.so.3 ] || fail "libpvm3.so.3 has another SONAME"
	[ "$(dynamic "$1/lib/libgpvm3.so.3" SONAME)" = libgpvm3.so.3 ] || fail "libgpvm3.so.3 has another SONAME"
	[ "$(dynamic "$1/lib/libgpvm3.so.3" NEEDED)" = libpvm3.so.3 ] || fail "libgpvm3.so.3 does not need libpvm3.so.3"
	[ -z "$(dynamic "$1/lib/libpvm3.so.3" NEEDED | grep pvm)" ] || fail "libpvm3.so.3 needs another PVM library"
}

# check_shared PROGRAM PREFIX, check_static PROGRAM: which libpvm a program got.
check_shared() {
	LD_LIBRARY_PATH="$2/lib" ldd -r "$1" >"$work/ldd" 2>&1 || fail "$1 does not load: $(cat "$work/ldd")"
	grep -q "libpvm3.so.3 => $2/lib/libpvm3.so.3" "$work/ldd" || fail "$1 does not use $2/lib/libpvm3.so.3"
	! grep -E "not found|undefined symbol|different size" "$work/ldd" || fail "$1 does not load"
}

check_static() {
	! dynamic "$1" NEEDED | grep pvm || fail "$1 should need no shared PVM library"
}

# The examples, built as a user would who copied them elsewhere.
compile_c() {
	have "${CC:-cc}" "C programs against the installed library" || return 0
	cp -r "$source/examples/c" "$work/c"
	for file in "$work"/c/*.c; do
		name=$(basename "$file" .c)
		${CC:-cc} -Wall -Wextra -Werror -I"$1/include" "$file" -o "$work/$name.plain" -L"$1/lib" -lpvm3
		check_shared "$work/$name.plain" "$1"
		${CC:-cc} -I"$1/lib/pvm3/include" "$file" -o "$work/$name.old" -L"$1/lib/pvm3/lib/$arch" -lgpvm3 -lpvm3
		check_static "$work/$name.old"
		${CC:-cc} -I"$1/include" "$file" -o "$work/$name.archive" "$1/lib/libpvm3.a"
		check_static "$work/$name.archive"
		if have pkg-config "pvm3.pc"; then
			flags=$(PKG_CONFIG_PATH="$1/lib/pkgconfig" pkg-config --cflags --libs pvm3)
			# shellcheck disable=SC2086 # several flags
			${CC:-cc} "$file" -o "$work/$name.pc" $flags
			check_shared "$work/$name.pc" "$1"
			flags=$(PKG_CONFIG_PATH="$1/lib/pkgconfig" pkg-config --static --cflags --libs pvm3)
			# shellcheck disable=SC2086 # several flags
			${CC:-cc} -static "$file" -o "$work/$name.static" $flags 2>"$work/static.log" ||
				fail "no static program: $(cat "$work/static.log")"
		fi
	done
	PKG_CONFIG_PATH="$1/lib/pkgconfig" make -s -C "$work/c" PVM_ROOT=
	ldd "$work/c/hello" | grep -q "=> $1/lib/libpvm3.so.3" || fail "the examples' makefile sets no run path"
	make -s -C "$work/c" clean
	make -s -C "$work/c" PVM_ROOT="$1/lib/pvm3"
}

compile_fortran() {
	have gfortran "Fortran programs against the installed library" || return 0
	cp -r "$source/examples/fortran" "$work/fortran"
	for file in "$work"/fortran/*.f90; do
		name=$(basename "$file" .f90)
		gfortran -fallow-argument-mismatch -w -I"$1/include" "$file" -o "$work/$name.f" -L"$1/lib" -lfpvm3 -lgpvm3 -lpvm3
		check_shared "$work/$name.f" "$1"
		gfortran -fallow-argument-mismatch -w -I"$1/lib/pvm3/include" "$file" -o "$work/$name.fold" \
			-L"$1/lib/pvm3/lib/$arch" -lfpvm3 -lgpvm3 -lpvm3
		check_static "$work/$name.fold"
	done
}

# A program with a Makefile.aimk, in the manner of PVM's own examples.
compile_with_aimk() {
	have "${CC:-cc}" "aimk" || return 0
	mkdir "$work/aimk"
	cp "$source/examples/c/hello.c" "$work/aimk"
	cat >"$work/aimk/Makefile.aimk" <<'END'
hello: $(AIMK_SRC)/hello.c
	$(CC) $(ARCHCFLAGS) -I$(PVM_ROOT)/include -o $@ $< -L$(PVM_ROOT)/lib/$(PVM_ARCH) -lpvm3 $(ARCHLIB)
END
	(cd "$work/aimk" && PVM_ROOT="$1/lib/pvm3" PVM_ARCH='' "$1/lib/pvm3/lib/aimk" -s hello >/dev/null)
	[ -x "$work/aimk/$arch/hello" ] || fail "aimk built nothing"
}

# PVM's own example programs, as Debian compiled them years ago.
load_old_programs() {
	have hello.pvm "loading Debian's PVM programs with this library" || return 0
	for name in hello.pvm hello_other master1 slave1 spmd timing timing_slave gexample fgexample hitc hitc_slave; do
		check_shared "$(command -v "$name")" "$1"
	done
}

step "install and use"
prefix=$work/prefix
run_make install PREFIX="$prefix" "$@"
check_layout "$prefix"
check_names_inside "$prefix"
check_manual "$prefix"
compile_c "$prefix"
compile_fortran "$prefix"
compile_with_aimk "$prefix"
load_old_programs "$prefix"

step "install once more, uninstall"
find "$prefix" | sort >"$work/once"
run_make install PREFIX="$prefix" "$@"
find "$prefix" | sort | cmp - "$work/once" || fail "a second install is not the same"
run_make uninstall PREFIX="$prefix" "$@"
[ ! -e "$prefix" ] || fail "left behind: $(find "$prefix")"

step "uninstall beside other people's files"
mkdir -p "$prefix/bin" "$prefix/include"
echo other >"$prefix/bin/other"
run_make install PREFIX="$prefix" "$@"
echo mine >"$prefix/lib/pvm3/bin/$arch/mine"
run_make uninstall PREFIX="$prefix" "$@"
(cd "$prefix" && find . | sort) >"$work/left"
for path in . ./bin ./bin/other ./include ./lib ./lib/pvm3 ./lib/pvm3/bin "./lib/pvm3/bin/$arch" "./lib/pvm3/bin/$arch/mine"; do
	echo "$path"
done | sort | diff - "$work/left" || fail "not what should be left"

step "install for a package"
run_make install PREFIX=/opt/pvm DESTDIR="$work/stage" "$@"
check_layout "$work/stage/opt/pvm"
check_manual "$work/stage/opt/pvm"
! grep -r "$work" "$work/stage/opt/pvm/lib/pkgconfig" "$work/stage/opt/pvm/lib/pvm3/conf" || fail "DESTDIR got into a file"
run_make uninstall PREFIX=/opt/pvm DESTDIR="$work/stage" "$@"
[ -z "$(find "$work/stage" ! -type d)" ] && [ ! -e "$work/stage/opt/pvm" ] || fail "left behind: $(find "$work/stage")"

step "all right"
