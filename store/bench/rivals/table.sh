#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# table.sh FILE: the figures of run.sh as the tables of store/bench/README.md, a row a figure, a column a subject.  What was
# measured several times is shown by its mean.
awk -F, '
	function head() {
		printf "\n| |"
		for (j = 1; j <= m; j++) printf " %s |", subjects[j] in name ? name[subjects[j]] : subjects[j]
		printf "\n|---|"
		for (j = 1; j <= m; j++) printf "---|"
		print ""
	}
	# Two or three digits, and a comma before the last three of thousands.
	function number(value, text, at) {
		text = sprintf(value < 100 ? "%.2g" : "%.3g", value) + 0 ""
		for (at = text ~ /\./ ? 0 : length(text) - 3; at > 0; at -= 3) text = substr(text, 1, at) "," substr(text, at + 1)
		return text
	}
	FILENAME == "-" && /^@/ { name[substr($1, 2)] = substr($0, index($0, ",") + 1); next }
	FILENAME == "-" { rows[++n] = $1; label[n] = substr($0, index($0, ",") + 1); next }
	!/^#/ {
		if (!($1 in seen)) { seen[$1] = 1; subjects[++m] = $1 }
		sum[$2 " " $3, $1] += $5
		count[$2 " " $3, $1]++
		has[$2 " " $3] = 1
	}
	END {
		for (i = 1; i <= n; i++) {
			if (!(rows[i] in has)) continue
			table = rows[i] ~ /^groups/ ? 2 : 1
			if (table != last) head()
			last = table
			printf "| %s |", label[i]
			for (j = 1; j <= m; j++)
				printf " %s |", ((rows[i], subjects[j]) in sum) ? number(sum[rows[i], subjects[j]] / count[rows[i], subjects[j]]) : "-"
			print ""
		}
	}' - "$1" <<'END'
@hwt-sqlite,hwt, SQLite
@hwt-postgresql,hwt, PostgreSQL
@graphile,graphile-worker
@pgboss,pg-boss
@bullmq,BullMQ
@bullmqpg,BullMQ, PostgreSQL
late late_p50,lateness p50, ms
late late_p99,p99, ms
late late_max,max, ms
lives lives,jobs a second, added and run
kill wait_after_kill,wait after kill -9, by default, s
kill_shortest wait_after_kill,at the shortest setting, s
kills kills_lost,20 kills: lost
kills kills_kept_back,kept back
kills kills_begun_again,begun again
kills kills_done_twice,done twice
kills kills_settled,all had run after, s
idle idle_statements,idle: statements a second
idle idle_worker_cpu,worker's processor time, ms a second
idle idle_server_cpu,server's processor time, ms a second
groups_capped grouped,100 groups without a cap, jobs a second
groups_capped grouped_capped,with a cap that does not bind
groups_capped capped_ratio,with / without
groups_cap caps_ran,a cap of 3: runs
groups_cap caps_full,starts beside two others
groups_cap caps_fourth,beside three others
groups_flood flood_late_p50,100 a second beside a flood: p50, ms
groups_flood flood_late_p99,p99, ms
groups_flood flood_late_max,max, ms
groups_flood flood_ran,of the flood has run meanwhile
groups_flood flood_left,of the flood is left
groups_rate rate,at most 100 a second: starts a second
groups_rate rate_most,the most in one second
END
