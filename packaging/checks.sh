# checks.sh - what the checks of installations have in common; sourced by them. Sets $source, and $work, which goes away at the end.
# shellcheck shell=sh

check=$(basename "$0" .sh)
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "$check: $*" >&2
	exit 1
}

step() {
	echo "$check: $*"
}

# have TOOL WHAT: whether the tool is there that checks something. Without it the check fails when everything must be checked, else it
# says in one line what it leaves out.
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
