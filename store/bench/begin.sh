# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=sh disable=SC2034,SC2154 # the scripts that read this set $name, $engines, $out and $BUILD, and use the rest
# begin.sh: what run.sh and scale.sh begin and end with.  They read it, and call begin once their options are known.

# The script runs once more from its start, with a server around it, when $engines names PostgreSQL and no server is there.
# Sets $bench, $status and $folder, which is removed at the end.
begin() { # THE SCRIPT'S ARGUMENTS...
	case $engines in
	*postgres*)
		if [ -z "${HWT_STORE_PG_URL:-}" ]; then
			store/test/store_pg.sh run "$0" "$@"
			rc=$?
			[ $rc -eq 77 ] || exit $rc
			echo "$name: no PostgreSQL server is installed"
			engines=sqlite
		fi ;;
	esac
	bench=$BUILD/bench/store_bench status=0
	folder=$(mktemp -d "${HWT_BENCH_DIR:-${TMPDIR:-/tmp}}/hwt-bench-XXXXXX") || exit 1
	trap 'rm -rf "$folder"' EXIT
	trap 'exit 130' INT TERM
	: >"$out"
}

machine() {
	echo "$(nproc) x $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), Linux $(uname -r), $(df --output=fstype "$folder" | tail -1) in $folder"
}
