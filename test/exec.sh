#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# exec.sh [hierarchical:|perturbed:|postgresql:]PROGRAM ARGUMENT...: runs a test on the hierarchical wheel, or with the test build of the
# library that perturbs its threads, or on a PostgreSQL server of its own; plainly without such a word.  BUILD, HWT_TEST_TIMEOUT: as test/run.sh has them.
case $1 in
hierarchical:*) export HWT_TEST_WHEEL=hierarchical ;;
perturbed:*)
	export LD_LIBRARY_PATH="$BUILD/perturbed"
	# Minutes otherwise.  A tenth is what test/races.sh needs to see each race that it plants.
	[ "${SAN:-}" != thread ] || export HWT_SCALE="${HWT_SCALE:-10}"
	;;
postgresql:*) on=test/postgres.sh ;;
esac
program=${1#*:}
shift
exec timeout -k 5 "${HWT_TEST_TIMEOUT:-600}" ${on:+"$on"} "$program" "$@"
