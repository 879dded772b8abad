#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh [--long]: checks the models with Spin, in a temporary folder: 2 minutes and 700 MB, with --long 8 and 2 GB.
#
# A check is passed when all states have been searched, none breaks an invariant, and no statement of the model has
# never been executed.  Worlds are checks of one model that need not execute all of it, but together they must.  A planted fault is passed when Spin finds it, as a breach of the invariant named here.
set -u
cd "$(dirname "$0")" || exit 1
. ../test/result.sh
CC=${CC:-cc}
seconds=${HWT_MODEL_TIMEOUT:-3600}

for tool in spin "${CC%% *}"; do
	if ! command -v "$tool" >/dev/null 2>&1; then
		skip model "$tool is not installed"
		finish
	fi
done

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM
cp sleep.pml store.pml "$dir" && cd "$dir" || exit 1

# OPTIMISATION MODEL OPTIONS...: makes ./pan, runs it, leaves what it says in `log`.
search() {
	optimisation=$1 model=$2
	shift 2
	rm -f pan ./pan.* ./*.trail log
	spin -P"$CC -E -x c" -a "$@" "$model" >log 2>&1 || return
	$CC -w "$optimisation" -DSAFETY -DMEMLIM="$memory" -o pan pan.c >>log 2>&1 || return
	# shellcheck disable=SC2086 # a list
	timeout "$seconds" ./pan -m100000 $pan_options >log 2>&1
}

size() {
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' log)
	took=$(sed -n 's/^pan: elapsed time \([0-9.e-]*\) seconds/\1/p' log)
	used=$(sed -n 's/^ *\([0-9]*\)[0-9.]*.total actual memory usage/\1/p' log)
	echo "$states states, $took s, $used MB"
}

failed() { # NAME
	result "$1" "$(grep -v '^Depth=' log | tail -n 40)"
}

# NAME MODEL OPTIONS...: leaves what has never been executed in `unreached`.
explore() {
	name=$1 model=$2
	shift 2
	pan_options='-w23'
	search -O1 "$model" "$@"
	sed -n '/"-end-"/d; s/^.*\.pml:\([0-9]*\), state [0-9]*, /\1 /p' log | sort -u >unreached
	grep -q 'errors: 0$' log && grep -q '^pan: elapsed time' log && [ ! -e "$model.trail" ] &&
		! grep -q -e 'too small' -e 'not completed' -e 'out of memory' -e 'DMEMLIM' log
}

explain() { # OPTIONS...
	[ -e "$model.trail" ] && spin -P"$CC -E -x c" -k "$model.trail" -p "$@" "$model" | tail -n 60
	failed "$name"
}

# NAME MODEL OPTIONS...
check() {
	if explore "$@" && [ ! -s unreached ]; then
		result "$name ($(size))" ""
		return
	fi
	shift 2
	explain "$@"
}

# NAME MODEL OPTIONS...
world() {
	if explore "$@"; then
		if [ -e never ]; then comm -12 never unreached >both; else mv unreached both; fi
		mv both never
		result "$name ($(size))" ""
		return
	fi
	shift 2
	explain "$@"
}

# NAME: the worlds so far have executed all.
worlds_end() {
	result "$1" "$(cat never)"
	rm -f never
}

# FAULT INVARIANT MODEL OPTIONS...
fault() {
	fault=$1 invariant=$2 model=$3
	shift 3
	pan_options='-w18 -E' # no other breach: not that a process is stuck, either
	search -O0 "$model" "-D$fault" "-DONLY=$invariant" "$@"
	if grep -q "assertion violated (*${invariant}[ |]" log && [ -e "$model.trail" ]; then
		result "fault_$fault ($invariant, $(size))" ""
	else
		failed "fault_$fault"
	fi
}

memory=2500
check sleep_membarrier sleep.pml
check sleep_membarrier_cancels sleep.pml -DTICKS=1 -DCANCELS
check sleep_membarrier_one_lane sleep.pml -DLANES=1 -DTICKS=1
check sleep_membarrier_one_lane_two_queues sleep.pml -DLANES=1 -DOPERATIONS=1 -DCANCELS
check sleep_membarrier_four_operations sleep.pml -DPRODUCERS=1 -DOPERATIONS=4 -DGATHER=3 -DCANCELS
check sleep_fence sleep.pml -DFENCE

store_world() { # NAME WHAT HAPPENS, HOW OFTEN...
	name=$1
	shift
	world "store_$name" store.pml "$@"
}
store_world renewals -DLEASE=2 -DTICKS=3
store_world one_writer -DONE_WRITER -DKILLS=1 -DLOST=1 -DRETRIES=1
store_world gives -DLOST=1 -DGIVES=1
store_world callers -DDUE=1 -DVAIN=1 -DCANCELS=1 -DRESCHEDULES=1 -DRETRIES=1
store_world at_most_once -DMODE=1 -DKILLS=1 -DLOST=1 -DRESCHEDULES=1
store_world transaction -DMODE=2 -DKILLS=1 -DLOST=1
worlds_end store_all_statements

sleep_fault() {
	fault=$1 invariant=$2
	shift 2
	fault "$fault" "$invariant" sleep.pml -DPRODUCERS=1 "$@"
}
sleep_fault NO_FENCE S1
sleep_fault NO_WORKER_FENCE S1 -DFENCE
sleep_fault BARRIER_TOO_EARLY S1
sleep_fault PUBLISH_AFTER_LOOK S1
sleep_fault REFUSAL_OVERLOOKED S1
sleep_fault LOOK_AT_SUBMITTED S3 -DCANCELS
sleep_fault EARLIER_ONLY S1
sleep_fault WAKE_NOT_CLAIMED S2
sleep_fault WAKE_THE_AWAKE S2
sleep_fault WAKE_FORGOTTEN S1
sleep_fault LONG_LANE_OVERLOOKED S3
sleep_fault COUNT_BEFORE_PUSH S3
sleep_fault TELL_TOO_MUCH S3 -DOPERATIONS=3
sleep_fault NAP_ABOVE_ALL S4
store_fault() {
	fault=$1 invariant=$2
	shift 2
	fault "$fault" "$invariant" store.pml "$@"
}
store_fault NO_FENCE_IN_END V4
store_fault NO_FENCE_IN_CLOSE V4 -DMODE=2
store_fault CLOSE_UNCHECKED V8 -DMODE=2
store_fault CLOSE_BELIEVED V6 -DMODE=2 -DLOST=1
store_fault BEGIN_UNFENCED V6 -DMODE=1 -DKILLS=1
store_fault BEGIN_WITHOUT_OWNER V5 -DLOST=1 -DGIVES=1
store_fault BEGIN_WITHOUT_LOCK V6 -DMODE=1 -DKILLS=1
store_fault BEGIN_EARLY V3 -DDUE=1 -DVAIN=1
store_fault BEGIN_OLD V1 -DMODE=1 -DFAIL_FORGOTTEN
store_fault AGAIN_LEFT_OUT V6 -DLOST=1
store_fault TRUST_TOO_LONG V7
store_fault TRUST_FROM_REPLY V7
store_fault START_UNTRUSTED V2 -DCANCELS=1 -DRETRIES=1
store_fault DROP_UNTRUSTED V6 -DLEASE=2 -DTICKS=2
store_fault GIVE_BEFORE_THE_END V5 -DGIVES=1
store_fault TAKE_ANYWAY V5 -DDUE=1
store_fault TAKE_THE_SAME_EPOCH V6 -DKILLS=1
store_fault TAKE_UNFENCED V7 -DDUE=1
store_fault TAKE_BESIDE_A_RENEWAL V7 -DLEASE=2 -DTICKS=3
store_fault FAIL_TOO_SOON V6 -DMODE=1 -DKILLS=1
store_fault FAIL_FORGOTTEN V6 -DMODE=1 -DKILLS=1
store_fault RENEW_WHAT_IS_OVER V7
store_fault OLD_OVERLOOKED V6 -DKILLS=1
store_fault CANCEL_RUNNING V2 -DCANCELS=1

if [ "${1:-}" = --long ]; then
	memory=4000
	check sleep_three_ticks sleep.pml -DTICKS=3
	check sleep_fence_three_ticks sleep.pml -DTICKS=3 -DFENCE
	check sleep_fence_cancels sleep.pml -DFENCE -DTICKS=1 -DCANCELS
	check sleep_one_lane_cancels sleep.pml -DLANES=1 -DTICKS=1 -DCANCELS
	check sleep_one_lane_two_ticks sleep.pml -DLANES=1
	store_world gives_and_deaths -DKILLS=1 -DLOST=1 -DGIVES=1
	store_world two_lost_replies -DKILLS=1 -DLOST=2
	store_world two_leases -DLEASE=2 -DTICKS=4 -DKILLS=1
	rm -f never
fi
finish
