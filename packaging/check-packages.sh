#!/bin/sh
# check-packages.sh [VARIABLE=value…] - make the tarball and the Debian packages, use what is in them, remove it, look what is left.
# The arguments go to make. Run `make` first. Packages are installed in a copy of this system that goes away afterwards.
set -eu

. "$(dirname "$0")/checks.sh"

# hello PREFIX: a C program built with what is there runs on two hosts of its own.
hello() {
	flags=$(PKG_CONFIG_PATH="$1/lib/pkgconfig" pkg-config --cflags --libs pvm3)
	# shellcheck disable=SC2086 # several flags
	cc "$source/examples/c/hello.c" -o "$work/hello" $flags
	(unset LD_LIBRARY_PATH && PATH="$1/bin:$PATH" PVM_TMP="$work" PVM_ROOT='' pvm run --hosts 2 "$work/hello") >"$work/said" 2>&1 ||
		fail "hello fails: $(cat "$work/said")"
	grep -q "hello from" "$work/said" || fail "hello says: $(cat "$work/said")"
}

check_tarball() {
	step "a tarball in whatever folder"
	run_make tarball "$@" DIST="$work/dist"
	mkdir "$work/first"
	tar -xzf "$work"/dist/pvm-*.tar.gz -C "$work/first"
	mv "$work/first"/pvm-* "$work/moved"
	have cc "programs with the tarball" || return 0
	have pkg-config "programs with the tarball" || return 0
	hello "$work/moved"
}

# Scripts for a copy of this system. over: in the places of Debian's packages, whose programs stay and run.
over() {
	cat <<'END'
apt-get -qq install /packages/*.deb
for package in pvm libpvm3 pvm-dev; do
	! dpkg -s $package 2>/dev/null | grep '^Status: .* installed'
done
dpkg --verify $ours
ldd /usr/bin/hello.pvm | grep -q '=> [/usr]*/lib/libpvm3.so.3'
cc /packages/hello.c -o /tmp/hello $(pkg-config --cflags --libs pvm3)
ldd /tmp/hello | grep -q '=> [/usr]*/lib/libpvm3.so.3'
pvm run --hosts 2 /tmp/hello | grep "hello from"
man -w pvm_spawn pvm
bash -c '. /usr/share/bash-completion/completions/pvm; complete -p pvm'
END
}

# fresh: nothing is left of them, after an installation over themselves either.
fresh() {
	cat <<'END'
listed() {
	find /etc /opt /usr /var \( -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/log -o -path /var/cache -o -path /etc/ld.so.cache \) \
		-prune -o -print | sort
}
for package in pvm pvm-dev libpvm3 pvm-examples netpipe-pvm $ours; do
	! dpkg -s $package >/dev/null 2>&1 || dpkg --purge --force-depends $package
done
listed >/tmp/before
apt-get -qq install /packages/*.deb
apt-get -qq install --reinstall /packages/*.deb
pvm run --hosts 2 true
apt-get -qq purge $ours
listed | diff /tmp/before -
END
}

# image: the steps of the Containerfile, but for lists of packages, which this system has; then a pod of it, alone on its network.
image() {
	cat <<'END'
mkdir /tmp/packages
cp /packages/*.deb /tmp/packages
if getent passwd 1000; then userdel "$(id -un 1000)"; fi
if getent group 1000; then groupdel "$(getent group 1000 | cut -d : -f 1)"; fi
sed -n '/^RUN /,/[^\\]$/p' /packages/Containerfile | sed 's/^RUN apt-get update/true/' >/packages/steps
grep -q useradd /packages/steps
sh -ex /packages/steps
[ ! -e /etc/ssh/ssh_host_ed25519_key ]
ssh-keygen -q -t ed25519 -N '' -f /packages/key
mkdir -p /run/secrets/pvm-ssh
install -m 440 -g pvm /packages/key /run/secrets/pvm-ssh/ssh-privatekey
echo '127.0.0.1 pvm' >>/etc/hosts
hostname pvm-0
ip link set lo up
user='setpriv --reuid pvm --regid pvm --init-groups --no-new-privs env -i PATH=/usr/bin:/bin HOME=/home/pvm POD_IP=127.0.0.1'
cd /home/pvm
$user /usr/lib/pvm3/kubernetes/pod.sh &
for _ in $(seq 100); do
	if $user pvm conf; then break; fi
	sleep 0.2
done
$user pvm conf | grep pvm-0
kill $!
wait $!
END
}

# in_copy SCRIPT [OPTIONS]: in a copy of this system in memory; what happens in it stays there. The options, of unshare, say what else is apart.
in_copy() {
	mkdir -p "$work/copy"
	{
		echo 'set -eux; export DEBIAN_FRONTEND=noninteractive PVM_TMP=/tmp PVM_ALLOW_ROOT=1'
		echo 'ours="pvm-rs libpvm3-rs pvm-rs-dev pvm-rs-doc"'
		"$1"
	} >"$work/script"
	cat >"$work/enter" <<END
set -eu
mount -t tmpfs none "$work/copy"
mkdir "$work/copy/upper" "$work/copy/work" "$work/copy/system"
mount -t overlay overlay -o lowerdir=/,upperdir="$work/copy/upper",workdir="$work/copy/work" "$work/copy/system"
cp -r "$work/dist" "$work/copy/system/packages"
cp "$work/script" "$source/examples/c/hello.c" "$source/packaging/Containerfile" "$work/copy/system/packages"
cd "$work/copy/system"
mount -t proc none proc
mount --rbind /dev dev
mount -t tmpfs none tmp
exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root sh /packages/script
END
	# shellcheck disable=SC2086 # several options
	unshare ${2:-} --mount --pid --fork sh "$work/enter" >"$work/said" 2>&1 || fail "$1, in a copy of this system: $(cat "$work/said")"
}

check_deb() {
	step "Debian packages"
	have dh "Debian packages" || return 0
	# To compress them well would take a minute.
	DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1 run_make deb "$@" DIST="$work/dist"
	if ! unshare --mount true 2>/dev/null; then
		[ "${PVM_TEST_FULL:-}" != 1 ] || fail "mounting is not allowed here, and PVM_TEST_FULL=1 wants the packages installed"
		echo "not checked: installing the Debian packages (mounting is not allowed here)" >&2
		return 0
	fi
	step "Debian packages without a trace"
	in_copy fresh
	step "the image and a pod of it"
	if have ip "a pod of the image"; then
		in_copy image "--net --uts"
	fi
	step "Debian packages in the places of Debian's own"
	if [ -x /usr/bin/hello.pvm ] || have hello.pvm "Debian packages in the places of Debian's own"; then
		in_copy over
	fi
}

check_tarball "$@"
check_deb "$@"
step "all right"
