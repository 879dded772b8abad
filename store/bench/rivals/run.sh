#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# run.sh BUILD [-q]: libhwt-store beside graphile-worker, pg-boss and BullMQ on the same PostgreSQL, BullMQ on Redis, and
# beanstalkd: each scenario of rivals.mjs for each subject in turn, at most half an hour.  -q: a smoke run with little load.
#
# It installs what it needs: the packages of package-lock.json by npm into BUILD/bench/rivals, a Node 22 if the one that is
# installed is older, and as root on Debian redis-server and beanstalkd.  A rival that is not there is left out, and it
# says so.  Servers are private: a socket or a port of the loopback, data in TMPDIR, which should be on a disk.
#
# BUILD/bench/rivals.csv: subject,scenario,figure,unit,value,load; then the tables.
set -u
export HWT_POSTGRES_FSYNC=on # as users have it: a commit is on the disk
cd "$(dirname "$0")/../../.." || exit 1
newer_node() { # a package that holds it, where it is needed
	[ "$(node -p 'parseInt(process.versions.node)' 2>/dev/null || echo 0)" -ge 22 ] ||
		echo "node-linux-$(uname -m | sed 's/x86_64/x64/; s/aarch64/arm64/')@22"
}
if [ "${1:-}" != inside ]; then
	BUILD=$1
	out=$BUILD/bench/rivals.csv
	mkdir -p "$BUILD/bench/rivals"
	for package in redis-server beanstalkd; do
		command -v $package >/dev/null 2>&1 || [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1 ||
			DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $package >/dev/null 2>&1
	done
	if command -v npm >/dev/null 2>&1; then
		cp store/bench/rivals/*.json store/bench/rivals/*.mjs "$BUILD/bench/rivals" || exit 1
		# shellcheck disable=SC2046 # none or one
		cmp -s store/bench/rivals/package-lock.json "$BUILD/bench/rivals/installed" ||
			(cd "$BUILD/bench/rivals" && npm install --no-save --omit=optional --ignore-scripts --no-audit --no-fund \
				--silent $(newer_node) && cp package-lock.json installed) || exit 1
	else
		echo 'bench-store-rivals: npm is not installed: the rivals are left out'
	fi
	timeout 1800 store/test/store_pg.sh run "$0" inside "$@"
	rc=$?
	[ $rc -ne 77 ] || echo 'bench-store-rivals: no PostgreSQL server is installed'
	[ $rc -ne 124 ] || echo 'bench-store-rivals: stopped after half an hour'
	[ ! -s "$out" ] || { echo; store/bench/rivals/table.sh "$out"; }
	exit $rc
fi

BUILD=$2
late=4000 lives=20000 far=100000 ours_lives=50000 killed=4000 KILLS=20
capped=5000 caps=20000 ours_caps=8000 flood=50000 ours_flood=1000000 RIVAL_SECONDS=8
if [ "${3:-}" = -q ]; then
	late=200 lives=1000 far=2000 ours_lives=2000 killed=600 KILLS=2
	capped=1000 caps=2000 ours_caps=2000 flood=10000 ours_flood=100000 RIVAL_SECONDS=2
fi
out=$BUILD/bench/rivals.csv
: >"$out"
folder=$(mktemp -d "${HWT_BENCH_DIR:-${TMPDIR:-/tmp}}/hwt-rivals-XXXXXX") || exit 1
redis='' beanstalkd='' status=0
clean_up() {
	for pid in $redis $beanstalkd; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
	rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

PGURL=$(echo "$HWT_STORE_PG_URL" | sed 's,/postgres?,/bench?,')
PGLOG=${PGURL#*host=} # what follows the folder are other words of the url
PGLOG=${PGLOG%%&*}/log.server
REDIS_PORT=$((20000 + $$ % 20000)) BEANSTALKD_PORT=$((20001 + $$ % 20000))
export PGURL PGLOG REDIS_PORT BEANSTALKD_PORT SERVER_PID KILLS RIVAL_SECONDS
newer=$(cd "$BUILD"/bench/rivals/node_modules/node-linux-*/bin 2>/dev/null && pwd) && PATH=$newer:$PATH
postgres=$("$HWT_STORE_PG_BIN/psql" -qAt -d "$HWT_STORE_PG_URL" -c "select (regexp_split_to_array(pg_read_file('postmaster.pid'), '\n'))[1]")

if command -v redis-server >/dev/null 2>&1; then
	mkdir "$folder/redis"
	redis-server --bind 127.0.0.1 --port "$REDIS_PORT" --dir "$folder/redis" --appendonly yes --appendfsync everysec \
		--maxmemory-policy noeviction --save '' >"$folder/redis.log" 2>&1 &
	redis=$!
fi
if command -v beanstalkd >/dev/null 2>&1; then
	mkdir "$folder/beanstalkd"
	beanstalkd -l 127.0.0.1 -p "$BEANSTALKD_PORT" -b "$folder/beanstalkd" >"$folder/beanstalkd.log" 2>&1 &
	beanstalkd=$!
fi
sleep 1

note() { # SUBJECT SCENARIO: lines FIGURE UNIT VALUE
	read -r load _ </proc/loadavg
	while read -r figure unit value; do
		case $figure in
		'#') echo "$1, $2: $unit $value" ;;
		*) echo "$1,$2,$figure,$unit,$value,$load" | tee -a "$out" ;;
		esac
	done
}

wrong() { # SUBJECT SCENARIO
	echo "bench-store-rivals: $1, $2: wrong"
	head -n 5 "$folder/errors"
	status=1
}

fresh() { # a database that holds nothing of those before
	"$HWT_STORE_PG_BIN/psql" -q -d "$HWT_STORE_PG_URL" -c 'set client_min_messages = warning' \
		-c 'drop database if exists bench with (force)' -c 'create database bench' >/dev/null
}

ours() { # ENGINE SCENARIO ARGS...
	engine=$1 scenario=$2
	shift 2
	fresh
	url=$PGURL
	[ "$engine" = postgresql ] || url=sqlite:$folder/$scenario.db
	if timeout 100 "$BUILD/bench/store_bench" -u "$url" -S "b_$scenario" "$@" >"$folder/figures" 2>"$folder/errors"; then
		note "hwt-$engine" "$scenario" <"$folder/figures"
	else
		wrong "hwt-$engine" "$scenario"
	fi
}

log_statements() { # all | none
	"$HWT_STORE_PG_BIN/psql" -q -d "$HWT_STORE_PG_URL" -c "alter system set log_statement = '$1'" -c 'select pg_reload_conf()' >/dev/null
}
# The statements of all sessions, by the server's log.
statements() {
	grep -c ' LOG:  \(statement\|execute [^:]*\): ' "$PGLOG"
}
cpu_of() { # PID: in hundredths of a second, with its children
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v pid="$1" '{ line = $0; sub(/^.*\) /, "", line); split(line, f, " "); split($0, g, " ")
		if (g[1] == pid) sum += f[12] + f[13] + f[14] + f[15]; else if (f[2] == pid) sum += f[12] + f[13] }
		END { print sum + 0 }'
}

ours_idle() { # ENGINE
	fresh
	url=$PGURL
	[ "$1" = postgresql ] || url=sqlite:$folder/idle.db
	"$BUILD/bench/store_bench" -u "$url" -S b_idle -n "$far" fill >/dev/null 2>"$folder/errors" || wrong "hwt-$1" idle
	"$BUILD/bench/store_bench" -u "$url" -S b_idle idle >/dev/null 2>&1 &
	pid=$!
	sleep 5
	before=$(statements) own=$(cpu_of $pid) server=$(cpu_of "$postgres")
	sleep 12
	own=$(($(cpu_of $pid) - own)) server=$(($(cpu_of "$postgres") - server))
	after=$(statements)
	{
		[ "$1" != postgresql ] || awk "BEGIN { print \"idle_statements 1/s\", ($after - $before) / 12 }"
		awk "BEGIN { print \"idle_worker_cpu ms/s\", $own * 10 / 12 }"
		[ "$1" != postgresql ] || awk "BEGIN { print \"idle_server_cpu ms/s\", $server * 10 / 12 }"
	} | note "hwt-$1" idle
	kill -9 $pid
	wait $pid 2>/dev/null
}

rival() { # SUBJECT SCENARIO N
	case $1 in
	bullmq) SERVER_PID=$redis ;;
	beanstalkd) SERVER_PID=$beanstalkd ;;
	*) SERVER_PID=$postgres ;;
	esac
	[ -n "$SERVER_PID" ] && [ -d "$BUILD/bench/rivals/node_modules" ] || return 0
	fresh
	[ "$1" != bullmq ] || redis-cli -p "$REDIS_PORT" flushall >/dev/null
	if (cd "$BUILD/bench/rivals" && timeout 180 node rivals.mjs "$@") >"$folder/figures" 2>"$folder/errors"; then
		note "$1" "$2" <"$folder/figures"
	else
		wrong "$1" "$2"
	fi
}

rivals=${HWT_RIVALS-'graphile pgboss bullmq bullmqpg beanstalkd'}
for scenario in $(echo "${HWT_RIVALS_SCENARIOS:-late lives kill kill_shortest kills groups idle}" |
	sed 's/groups\( \|$\)/groups_capped groups_cap groups_flood groups_rate\1/'); do
	case $scenario in
	late) ours_args="-n $late late" args=$late ;;
	lives) ours_args="-n $ours_lives lives" args=$lives ;;
	kill) ours_args=kill args='' ;;
	kill_shortest) ours_args='-l 1000 kill' args='' ;;
	kills) ours_args="-n $killed -k $KILLS kills" args=$killed ;;
	groups_capped) ours_args="-n $ours_lives grouped" args=$capped ;;
	groups_cap) ours_args="-n $ours_caps -T $RIVAL_SECONDS group_caps" args=$caps ;;
	groups_flood) ours_args="-n $ours_flood -T $RIVAL_SECONDS group_flood" args=$flood ;;
	groups_rate) ours_args="-T $RIVAL_SECONDS group_rate" args=$((200 * RIVAL_SECONDS)) ;;
	idle) ours_args='' args=$far ;; # last: nothing removes beanstalkd's far ones
	*) echo "bench-store-rivals: no scenario $scenario"; exit 2 ;;
	esac
	[ "$scenario" != idle ] || log_statements all
	for engine in sqlite postgresql; do
		if [ "$scenario" = idle ]; then
			ours_idle $engine
		else
			# shellcheck disable=SC2086 # several arguments
			ours $engine "$scenario" $ours_args
		fi
	done
	for subject in $rivals; do
		# shellcheck disable=SC2086 # none or one
		rival "$subject" "$scenario" $args
	done
done
exit $status
