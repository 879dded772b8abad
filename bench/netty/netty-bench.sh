#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Netty's HashedWheelTimer as a subject.
#
# The parallel collector has the cheapest write barriers and allocation.  Where memory is not the figure, the heap is
# large enough, touched beforehand and of huge pages, so that neither the collector nor page faults are measured; in S2
# it grows as it must, and in S9 it is collected as it must.
heap='-XX:MaxRAMPercentage=50'
case $1 in
S2* | S8.S2 | --version) ;;
S9) heap="$heap -Xms1g -Xmn768m -XX:+AlwaysPreTouch -XX:+UseTransparentHugePages" ;;
*)
	young=$((256 + $3 / 5000)) # MB: 200 bytes a timeout
	heap="$heap -Xms$((young + 128 + $3 / 10000))m -Xmn${young}m -XX:+AlwaysPreTouch -XX:+UseTransparentHugePages"
	;;
esac
# shellcheck disable=SC2086 # a list of words
exec java -XX:+UseParallelGC $heap -XX:-UsePerfData -cp "$(dirname "$0")/netty:@JARS@" NettyBench "$@"
