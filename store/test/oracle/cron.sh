#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# cron.sh BUILD [YEARS] [ZONE...]: ten years of 200 cron lines in all zones of the tz database against croner and cron-parser,
# which npm installs into BUILD.  Of zones that are the same under several names one is taken.  store/doc/calendars.md says what
# the differences in the hours of a change mean.  Half an hour; exit 77: no npm.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$1
years=${2:-10}
[ $# -lt 2 ] || shift
shift
command -v npm >/dev/null 2>&1 || { echo "cron.sh: no npm (apt-get install npm)"; exit 77; }
modules=$build/oracle
if [ ! -d "$modules/node_modules/cron-parser" ]; then
	mkdir -p "$modules"
	(cd "$modules" && npm install --no-audit --no-fund --silent --prefix . croner@11.0.1 cron-parser@5.10.5 luxon@3.7.2)
fi
folder=${TZDIR:-/usr/share/zoneinfo}
[ $# -gt 0 ] || set -- $(awk '$1 == "Z" { print $2 } $1 == "L" { print $3 }' "$folder/tzdata.zi" | sort |
	while read -r zone; do [ ! -e "$folder/$zone" ] || echo "$(cksum <"$folder/$zone") $zone"; done |
	awk '!seen[$1 $2]++ && $3 != "Factory" { print $3 }')
echo "$# zones, $years years"
rc=0
# As many processes as there are cores, each with a share of the zones.
jobs=${HWT_JOBS:-$(nproc 2>/dev/null || echo 1)}
i=0
while [ $i -lt "$jobs" ]; do
	n=0 share=''
	for zone; do
		[ $((n % jobs)) -ne $i ] || share="$share $zone"
		n=$((n + 1))
	done
	# shellcheck disable=SC2086 # words
	("$build/test/cron_times" "$years" $share | node "$here/cron.mjs" "$(cd "$modules" && pwd)") >"$build/oracle/$i.out" 2>&1 &
	pids="${pids:-} $!"
	i=$((i + 1))
done
for pid in $pids; do wait "$pid" || rc=1; done
cat "$build"/oracle/*.out
exit $rc
