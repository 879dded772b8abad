#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# exec.sh [WORD:]...PROGRAM ARGUMENT...: runs a test plainly, or as the words say.
#     hierarchical:  on the hierarchical wheel
#     postgresql:    on a PostgreSQL server of its own
#     partitioned:   the same, with a partitioned table of timeouts
#     weather:       on a machine that seems to be busy: its threads lose their processor (test/weather.c)
# BUILD, HWT_TEST_TIMEOUT: as test/run.sh has them.  HWT_TAP names a folder that keeps what each test prints.
test=$1 program=$1 weather='' on=''
shift
while :; do
	case $program in
	hierarchical:*) export HWT_TEST_WHEEL=hierarchical ;;
	postgresql:*) on=store/test/postgres.sh ;;
	partitioned:*) on=store/test/postgres.sh && export HWT_POSTGRES_PARTITIONED=1 ;;
	weather:*) weather=$PWD/${BUILD:-build}/weather.so ;;
	*) break ;;
	esac
	program=${program#*:}
done
# Only a hang is ended; a script may build and run for hours on a busy machine.
set -- timeout -k 5 "${HWT_TEST_TIMEOUT:-14400}" ${on:+"$on"} ${weather:+env "LD_PRELOAD=$weather"} "$program" "$@"
[ -n "${HWT_TAP:-}" ] || exec "$@"
tap=$HWT_TAP/$(echo "$test" | tr / %)
{
	"$@"
	echo $? >"$tap.status"
} | tee "$tap"
exit "$(cat "$tap.status")"
