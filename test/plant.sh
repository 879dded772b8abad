# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For the scripts that plant faults, in the folder of a copy of the tree: builds tests and runs them.  What is said goes to the file $log.
# A program may have a word before it, as test/exec.sh has them; SANITIZER is empty, or what `make SAN=` takes.
ulimit -c 0 # most of them crash
log=log

folder() { # SANITIZER
	echo "build${1:+-${1//,/-}}"
}

make_all() { # SANITIZER TARGET...
	make -s SAN="$1" BUILD="$(folder "$1")" OPT=-O1 CC="${CC:-cc}" "${@:2}" >"$log" 2>&1
}

build() { # SANITIZER PROGRAM...
	local targets=("${@:2}") test
	test=$(folder "$1")/test
	targets=("${targets[@]/#*:/}")
	targets=("${targets[@]/#/$test/}")
	make_all "$1" "${targets[@]}"
}

# SANITIZER SECONDS PROGRAM [TEST...]: some ask for memory without end, but sanitizers map more than there is.  The outer redirection: the shell
# tells of each that was killed.
fails() {
	local build program
	build=$(folder "$1")
	program=$build/test/${3#*:}
	[[ $3 = *:* ]] && program=${3%%:*}:$program
	! ([ -n "$1" ] || ulimit -v $((8 << 20))
		BUILD=$build HWT_SEED=20 HWT_TEST_TIMEOUT=$2 test/exec.sh "$program" "${@:4}" >"$log" 2>&1
		exit $?) 2>/dev/null
}
