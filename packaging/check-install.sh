#!/bin/sh
# check-install.sh [VARIABLE=value…] - install into temporary folders, use what is there, uninstall, look what is left.
# The arguments go to make. Run `make` first.
set -eu

. "$(dirname "$0")/checks.sh"
arch=$("$source/packaging/pvmgetarch")

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
	for name in pvm3.h pvm3x.h pvmtev.h pvmproto.h fpvm3.h; do
		[ -f "$1/include/$name" ] || fail "include/$name is missing"
		cmp -s "$1/include/$name" "$1/lib/pvm3/include/$name" || fail "PVM_ROOT/include has no $name"
	done
	[ "$1/bin/pvmd" -ef "$1/bin/pvm" ] || fail "bin/pvmd is not the same file as bin/pvm"
	[ "$(stat -c %s "$1/bin/pvm-task-manager")" -lt "$(stat -c %s "$1/bin/pvm")" ] || fail "bin/pvm-task-manager is not small"
	for name in libpvm3.so.3 libpvm3.so libgpvm3.so.3 libfpvm3.so.3 libpvm3.a pkgconfig/pvm3.pc; do
		[ -f "$1/lib/$name" ] || fail "lib/$name is missing"
	done
	link_to "$1/lib/libgpvm3.so" libgpvm3.so.3
	link_to "$1/lib/libfpvm3.so" libfpvm3.so.3
	link_to "$1/lib/pvm3/bin/$arch/pvmgs" ../../../../bin/pvm
	for name in libpvm3 libgpvm3 libfpvm3; do
		link_to "$1/lib/pvm3/lib/$arch/$name.a" "../../../$name.a"
	done
	link_to "$1/lib/libgpvm3.a" libpvm3.a
	link_to "$1/lib/libfpvm3.a" libpvm3.a
	link_to "$1/lib/pvm3/include" ../../include
	link_to "$1/lib/pvm3/lib/pvm" ../../../bin/pvm
	link_to "$1/lib/pvm3/lib/pvmd" ../../../bin/pvmd
	[ -d "$1/lib/pvm3/bin/$arch" ] || fail "PVM_ROOT/bin/$arch is missing"
	[ -f "$1/lib/pvm3/conf/$arch.def" ] || fail "PVM_ROOT/conf/$arch.def is missing"
	[ -x "$1/lib/pvm3/kubernetes/pod.sh" ] || fail "PVM_ROOT/kubernetes/pod.sh is missing"
	[ -f "$1/lib/pvm3/kubernetes/pvm.yaml" ] || fail "PVM_ROOT/kubernetes/pvm.yaml is missing"
	[ "$("$1/lib/pvm3/lib/pvmgetarch")" = "$arch" ] || fail "PVM_ROOT/lib/pvmgetarch disagrees with $arch"
}

# check_shells PREFIX: each shell completes `pvm hal` with what is installed for it.
check_shells() {
	share=$1/share
	# shellcheck disable=SC2016 # bash expands it
	ask='. "$0" && COMP_WORDS=(pvm hal) COMP_CWORD=1 && _pvm pvm hal pvm && echo "${COMPREPLY[@]}"'
	if have bash "completions of bash"; then
		[ "$(bash -c "$ask" "$share/bash-completion/completions/pvm")" = halt ] || fail "bash does not complete"
	fi
	# shellcheck disable=SC2016 # zsh expands it
	ask='fpath=($0 $fpath); autoload -U compinit && compinit -D -u && [[ $_comps[pvm] == _pvm ]] && autoload +X -U _pvm'
	if have zsh "completions of zsh"; then
		zsh -fc "$ask" "$share/zsh/site-functions" || fail "zsh does not complete"
		zsh -n "$share/zsh/site-functions/_pvm" || fail "zsh cannot read its completions"
	fi
	if have fish "completions of fish"; then
		fish --no-config -c "source $share/fish/vendor_completions.d/pvm.fish; complete -C 'pvm hal'" | grep -q '^halt' ||
			fail "fish does not complete"
	fi
}

# check_unit PREFIX: systemd understands the unit, and the program in it is there.
check_unit() {
	have systemd-analyze "the unit of systemd" || return 0
	XDG_RUNTIME_DIR="$work" systemd-analyze --user --man=no verify "$1/lib/systemd/user/pvmd.service" >"$work/said" 2>&1 || fail "the unit: $(cat "$work/said")"
	[ ! -s "$work/said" ] || fail "the unit: $(cat "$work/said")"
}

# check_module PREFIX: environment modules find everything by the modulefile, wherever it lies.
check_module() {
	initialise=/usr/share/modules/init/sh
	if [ ! -f $initialise ]; then
		have modulecmd "the modulefile" || return 0
	fi
	cat >"$work/module" <<END
. $initialise
module use "$1/share/modulefiles"
module load pvm
[ "\$(command -v pvm)" = "$1/bin/pvm" ] && [ "\$PVM_ROOT" = "$1/lib/pvm3" ] && pkg-config --exists pvm3 || exit 1
module unload pvm
[ -z "\$PVM_ROOT" ]
END
	env -i PATH="$PATH" HOME="$work" sh "$work/module" >"$work/said" 2>&1 || fail "the modulefile does not lead to $1: $(cat "$work/said")"
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
	for file in $(grep -rhoE '[^ ()\\]*\.md' "$1/share/man" | sort -u); do
		# What stands in "fB…" is bold.
		file=${file#fB}
		[ -f "$1/share/doc/pvm3/${file##*/}" ] || fail "a manual page cites $file, which is not installed"
		[ "${file%/*}" = "${2:-$1}/share/doc/pvm3" ] || fail "a manual page cites $file, in no folder of this installation"
	done
	have mandoc "manual pages" || return 0
	(cd "$1/share/man" && mandoc -T lint -W error man1/*.1 man3/*.3) || fail "a manual page has mistakes"
}

check_names_inside() {
	for name in libpvm3.so.3 libgpvm3.so.3 libfpvm3.so.3; do
		[ "$(dynamic "$1/lib/$name" SONAME)" = $name ] || fail "$name has another SONAME"
	done
	[ "$(dynamic "$1/lib/libpvm3.so" SONAME)" = libpvm3.so.3 ] || fail "libpvm3.so is not for libpvm3.so.3"
	for name in libgpvm3.so.3 libfpvm3.so.3; do
		dynamic "$1/lib/$name" NEEDED | grep -qx libpvm3.so.3 || fail "$name does not need libpvm3.so.3"
	done
	[ -z "$(dynamic "$1/lib/libpvm3.so.3" NEEDED | grep pvm)" ] || fail "libpvm3.so.3 needs another PVM library"
}

check_stripped() {
	for name in bin/pvm bin/pvm-task-manager lib/libpvm3.so.3; do
		! readelf -S "$1/$name" | grep -qE '\.(debug_info|symtab)' || fail "$name is not stripped"
	done
	! readelf -S "$1/lib/libpvm3.a" 2>/dev/null | grep -q '\.debug_info' || fail "libpvm3.a is not stripped"
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

# check_named PROGRAM LIBRARY…: the PVM libraries that a program names, in any order.
check_named() {
	program=$1
	shift
	[ "$(dynamic "$program" NEEDED | grep pvm | sort | tr '\n' ' ')" = "$* " ] ||
		fail "$program should name $*, but names $(dynamic "$program" NEEDED | tr '\n' ' ')"
}

# A program names each library whose calls it makes, whatever the order of the libraries, and no other.
check_linking() {
	have "${CC:-cc}" "names of libraries in programs" || return 0
	echo 'int main(void) { return pvm_gsize("g") + pvm_mytid() + pvm_exit(); }' >"$work/g.c"
	echo 'int main(void) { return pvm_mytid() + pvm_exit(); }' >"$work/p.c"
	for libraries in "-lgpvm3 -lpvm3" "-lpvm3 -lgpvm3" "-lfpvm3 -lgpvm3 -lpvm3"; do
		# shellcheck disable=SC2086 # several flags
		${CC:-cc} -w -include "$1/include/pvm3.h" "$work/g.c" -o "$work/g" -Wl,--as-needed -L"$1/lib" $libraries
		check_named "$work/g" libgpvm3.so.3 libpvm3.so.3
		# shellcheck disable=SC2086 # several flags
		${CC:-cc} -w -include "$1/include/pvm3.h" "$work/p.c" -o "$work/p" -Wl,--as-needed -L"$1/lib" $libraries
		check_named "$work/p" libpvm3.so.3
	done
	# Programs linked before the libraries had names of their own name libpvm3.so.3 only.
	${CC:-cc} -w -include "$1/include/pvm3.h" "$work/g.c" -o "$work/g" "$1/lib/libpvm3.so.3"
	check_named "$work/g" libpvm3.so.3
	check_shared "$work/g" "$1"
	have pkg-config "pvm3.pc" || return 0
	flags=$(PKG_CONFIG_PATH="$1/lib/pkgconfig" pkg-config --cflags --libs pvm3)
	for file in g p; do
		# shellcheck disable=SC2086 # several flags
		${CC:-cc} -w -include pvm3.h "$work/$file.c" -o "$work/$file" $flags
		# Whatever other PVM is installed: no setting is needed to get this one.
		(unset LD_LIBRARY_PATH && ldd -r "$work/$file") >"$work/ldd" 2>&1
		! grep pvm3 "$work/ldd" | grep -v " => $1/lib/lib[gf]*pvm3.so.3 " || fail "pvm3.pc leads to another PVM"
	done
}

# check_group_server PREFIX: `configure` scripts look for a pvmgs. Started by hand it says what it is; spawned it ends.
check_group_server() {
	"$1/lib/pvm3/bin/$arch/pvmgs" </dev/null >"$work/said" || fail "pvmgs fails"
	grep -q "^pvmgs: the daemon" "$work/said" || fail "pvmgs does not say what it is: $(cat "$work/said")"
	have "${CC:-cc}" "spawning pvmgs" || return 0
	cat >"$work/gs.c" <<'END'
#include <stdio.h>
#include <pvm3.h>
int main(void)
{
	int tid, started;
	pvm_catchout(stdout);
	started = pvm_spawn("pvmgs", NULL, PvmTaskDefault, "", 1, &tid);
	if (started == 1) {
		pvm_notify(PvmTaskExit, 1, 1, &tid);
		pvm_recv(-1, 1);
	}
	pvm_catchout(0);
	printf("%d started, group member %d\n", started, pvm_joingroup("g"));
	return pvm_exit();
}
END
	${CC:-cc} -I"$1/include" "$work/gs.c" -o "$work/gs" -L"$1/lib" -lgpvm3 -lpvm3 -Wl,-rpath,"$1/lib"
	PVM_PATH=$1/lib/pvm3/bin/$arch says "^1 started, group member 0$" "$work/gs" "$1"
	[ "$(grep -vcE '\] (BEGIN|EOF)$' "$work/said")" = 1 ] || fail "pvmgs is not quiet when spawned: $(cat "$work/said")"
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

# says TEXT PROGRAM PREFIX [INPUT]: the program, on a virtual machine of its own by what is installed there, says that.
says() {
	text=$1 program=$2 prefix_bin=$3/bin
	printf '%b' "${4:-}" | PVM_TMP="$work" PVM_ALLOW_ROOT=1 PVM_ROOT='' "$prefix_bin/pvm" run "$program" >"$work/said" 2>&1 || true
	grep -q "$text" "$work/said" || fail "$program does not say \"$text\": $(cat "$work/said")"
}

# Programs with a Makefile.aimk as people wrote them, with groups, linked with the archives and the shared libraries.
compile_with_aimk() {
	have "${CC:-cc}" "aimk" || return 0
	mkdir "$work/aimk"
	cat >"$work/aimk/Makefile.aimk" <<'END'
CFLAGS	=	$(ARCHCFLAGS) -I$(PVM_ROOT)/include
FFLAGS	=	$(ARCHFFLAGS) -I$(PVM_ROOT)/include
STATIC	=	-L$(PVM_ROOT)/lib/$(PVM_ARCH)
SHARED	=	-L$(PVM_ROOT)/..
CLIBS	=	-lgpvm3 -lpvm3 $(ARCHLIB)
FLIBS	=	-lfpvm3 $(CLIBS)
c:
	$(CC) $(CFLAGS) -o static $(AIMK_SRC)/member.c $(STATIC) $(CLIBS)
	$(CC) $(CFLAGS) -o shared $(AIMK_SRC)/member.c $(SHARED) $(CLIBS)
fortran:
	gfortran $(FFLAGS) -o fstatic $(AIMK_SRC)/member.f $(STATIC) $(FLIBS)
	gfortran $(FFLAGS) -o fshared $(AIMK_SRC)/member.f $(SHARED) $(FLIBS)
END
	cat >"$work/aimk/member.c" <<'END'
#include <stdio.h>
#include "pvm3.h"
int main()
{
	int me = pvm_joingroup("aimk"), sum = 40;
	pvm_reduce(PvmSum, &sum, 1, PVM_INT, 1, "aimk", me);
	printf("member %d of %d, %d\n", me, pvm_gsize("aimk"), sum);
	pvm_lvgroup("aimk");
	return pvm_exit();
}
END
	cat >"$work/aimk/member.f" <<'END'
      program member
      include 'fpvm3.h'
      integer me, n, info
      call pvmfjoingroup('aimk', me)
      call pvmfgsize('aimk', n)
      call pvmfbarrier('aimk', 1, info)
      print '(A,I1,A,I1,A,I1)', 'member ', me, ' of ', n, ', ', info
      call pvmflvgroup('aimk', info)
      call pvmfexit(info)
      end
END
	with_aimk "$1" "$work/aimk" c
	check_static "$work/aimk/$arch/static"
	check_shared "$work/aimk/$arch/shared" "$1"
	says "member 0 of 1, 40" "$work/aimk/$arch/static" "$1"
	LD_LIBRARY_PATH="$1/lib" says "member 0 of 1, 40" "$work/aimk/$arch/shared" "$1"
	have gfortran "aimk with Fortran programs" || return 0
	with_aimk "$1" "$work/aimk" fortran
	check_static "$work/aimk/$arch/fstatic"
	check_shared "$work/aimk/$arch/fshared" "$1"
	says "member 0 of 1, 0" "$work/aimk/$arch/fstatic" "$1"
	LD_LIBRARY_PATH="$1/lib" says "member 0 of 1, 0" "$work/aimk/$arch/fshared" "$1"
}

# with_aimk PREFIX FOLDER ARGUMENTS…: aimk of an installation in a folder.
with_aimk() {
	root=$1/lib/pvm3 folder=$2
	shift 2
	(cd "$folder" && PVM_ROOT="$root" PVM_ARCH='' "$root/lib/aimk" -s "$@") >"$work/aimk.log" 2>&1 ||
		fail "aimk $* in $folder failed: $(cat "$work/aimk.log")"
}

# PVM's own examples, from their sources with their own makefiles, where these look for them: beside PVM_ROOT/include.
compile_old_sources() {
	sources=/usr/share/doc/pvm-examples
	have gfortran "PVM's own examples" || return 0
	if [ ! -f $sources/examples.tar.gz ]; then
		[ "${PVM_TEST_FULL:-}" != 1 ] || fail "$sources is missing, and PVM_TEST_FULL=1 wants PVM's own examples checked"
		echo "not checked: the sources of PVM's own examples ($sources is missing)" >&2
		return 0
	fi
	cp -r "$1" "$work/old"
	root=$work/old/lib/pvm3
	for name in examples gexamples; do
		tar -xzf $sources/$name.tar.gz -C "$root"
		rm -rf "$root/$name/$arch"
		# Their C is of before 1989.
		with_aimk "$work/old" "$root/$name" CFLOPTS="-std=gnu89 -w" all
	done
	for file in "$root"/gexamples/*.c; do
		[ -x "$root/bin/$arch/$(basename "$file" .c)" ] || fail "aimk did not build $file"
	done
	says "hello, world from" "$root/bin/$arch/hello" "$work/old"
	says "I got *100.0* from" "$root/bin/$arch/fmaster1" "$work/old" '3\n'
	says "Test OK: Sum of Squares" "$root/bin/$arch/trsg" "$work/old" '4\n5\n'
	# It adds to a variable that it never sets: what is left there is often what the loader has looked up last.
	export LD_BIND_NOW=1
	says "Test OK: Sum of Squares" "$root/bin/$arch/frsg" "$work/old" '4\n5\n'
	unset LD_BIND_NOW
}

# Programs that Debian compiled years ago.
load_old_programs() {
	have hello.pvm "loading Debian's PVM programs with this library" || return 0
	have dpkg "loading Debian's PVM programs with this library" || return 0
	for program in $(dpkg -L pvm-examples netpipe-pvm 2>/dev/null | grep '^/usr/bin/.'); do
		check_shared "$program" "$1"
	done
}

step "install and use"
prefix=$work/prefix
run_make install PREFIX="$prefix" "$@"
check_layout "$prefix"
check_names_inside "$prefix"
check_stripped "$prefix"
check_shells "$prefix"
check_unit "$prefix"
check_module "$prefix"
check_manual "$prefix"
check_linking "$prefix"
check_group_server "$prefix"
compile_c "$prefix"
compile_fortran "$prefix"
compile_with_aimk "$prefix"
compile_old_sources "$prefix"
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
check_manual "$work/stage/opt/pvm" /opt/pvm
! grep -r "$work" "$work/stage/opt/pvm/lib/pkgconfig" "$work/stage/opt/pvm/lib/pvm3/conf" || fail "DESTDIR got into a file"
run_make uninstall PREFIX=/opt/pvm DESTDIR="$work/stage" "$@"
[ -z "$(find "$work/stage" ! -type d)" ] && [ ! -e "$work/stage/opt/pvm" ] || fail "left behind: $(find "$work/stage")"

step "all right"
