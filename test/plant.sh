# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For the scripts that plant faults, in the folder of a copy of the tree: builds tests and runs them.  What is said goes to the file `log`.
ulimit -c 0 # most of them crash

make_all() { # SANITIZER TARGET...
	make -s SAN="$1" BUILD="build$1" OPT=-O1 CC="${CC:-cc}" "${@:2}" >log 2>&1
}

build() { # SANITIZER [hierarchical:|perturbed:]PROGRAM...
	local targets=("${@:2}")
	targets=("${targets[@]/#*:/}")
	targets=("${targets[@]/#/build$1/test/}")
	[[ " ${*:2}" = *' perturbed:'* ]] && targets+=(perturbed)
	make_all "$1" "${targets[@]}"
}

# SANITIZER SECONDS [hierarchical:|perturbed:]PROGRAM [TEST...]: some ask for memory without end, but ThreadSanitizer maps more than there is.  The
# outer redirection: the shell tells of each that was killed.
fails() {
	local program=build$1/test/${3#*:}
	[[ $3 = *:* ]] && program=${3%%:*}:$program
	! ([ -n "$1" ] || ulimit -v $((8 << 20))
		BUILD=build$1 HWT_SEED=20 HWT_TEST_TIMEOUT=$2 test/exec.sh "$program" "${@:4}" >log 2>&1
		exit $?) 2>/dev/null
}
