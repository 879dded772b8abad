#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# hwt-jobs does what its page says, on SQLite, and on PostgreSQL where a server is installed.  Its JSON is read by perl.
# shellcheck disable=SC2016 # what perl reads
set -u
cd "$(dirname "$0")/../.." || exit 1
BUILD=${BUILD:-build}
. test/result.sh
. store/test/with_server.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TZ=Europe/Berlin
unset HWT_STORE_URL NO_COLOR

tool() {
	timeout -k 5 600 "$BUILD/hwt-jobs" -d "$url" "$@"
}

# STATUS ARGS...: it has to end so; prints what it says otherwise.
ends() {
	want=$1
	shift
	tool "$@" >"$work/out" 2>"$work/err"
	rc=$?
	[ $rc -eq "$want" ] || { echo "$*: exit $rc, not $want"; cat "$work/out" "$work/err"; }
}

# ARGS... EXPRESSION: runs the tool, which prints JSON; the Perl expression about it, $j, has to be true.
json() {
	for expression; do :; done
	args=
	while [ $# -gt 1 ]; do
		args="$args '$(printf %s "$1" | sed "s/'/'\\\\''/g")'"
		shift
	done
	eval "tool --json $args" >"$work/json" 2>"$work/err"
	perl -MJSON::PP -MMIME::Base64 -MEncode -e '
		local $/; my $text = <STDIN>;
		my $j = eval { decode_json($text) } // eval { JSON::PP->new->utf8->allow_nonref->decode($text) };
		die "no JSON: $@\n$text" if !defined $j;
		my $ok = eval $ARGV[0];
		print "$ARGV[0] does not hold: $@$text" if !$ok;' "$expression" <"$work/json" 2>&1
	cat "$work/err"
}

says() { # TEXT: on the standard error of the last
	grep -qF -- "$1" "$work/err" || { echo "does not say '$1':"; cat "$work/err"; }
}

put_and_list() {
	json cancel made --all -y '$j->{cancelled} == 1'
	ends 0 remove made
	ends 1 put mail x
	says 'there is no kind "mail"'
	ends 0 put mail 'to: alice' --make --key alice --at 2h --priority 7
	grep -qxE '[0-9]+' "$work/out" || { echo "no id:"; cat "$work/out"; }
	id=$(cat "$work/out")
	ends 1 put mail again --key alice
	says 'alice'
	[ "$(cat "$work/out")" = "$id" ] || echo "not the id of the one that is there"
	ends 0 put mail again --key alice --replace --at 3h
	json list mail "@\$j == 1 && \$j->[0]{id} == $id && \$j->[0]{key} eq 'alice' && \$j->[0]{data} eq 'again' &&
		\$j->[0]{state} eq 'pending' && !defined \$j->[0]{group} && \$j->[0]{priority} == 0"
	json show "$id" "\$j->{id} == $id && \$j->{len} == 5"
	json show mail --key alice "\$j->{id} == $id"
	ends 0 list
	grep -q "^$id *pending *in 3" "$work/out" || cat "$work/out"
	ends 0 put report --make --cron '30 6 * * 1-5' --zone Europe/Berlin --group 'a b' --grace 10m
	json list report '$j->[0]{schedule} eq "30 6 * * 1-5" && $j->[0]{zone} eq "Europe/Berlin" && $j->[0]{group} eq "a b"'
	json list '@$j == 2'
	ends 1 show mail --key nobody
	ends 1 show 12345
}

# JSON has no limit of its own, and what could not be read or written is said.
inputs_and_outputs() {
	"$BUILD/hwt-jobs" -d "$url" put mail - --make <"$work" >"$work/out" 2>"$work/err" && echo "a folder is no data"
	says 'the input: Is a directory'
	json list mail '@$j == 1'
	for i in $(seq 101); do
		ends 0 put row "$i" --make --at 1h --group "g$((i % 2))"
	done
	ends 0 list row
	[ "$(wc -l <"$work/out")" -eq 101 ] || echo "not 100 rows and a head"
	says 'and more'
	json list row '@$j == 101'
	json list row -n 100 '@$j == 100'
	json list '@$j == 103'
	ends 0 put row x --at now
	ends 0 stats row --count
	grep -qE '^row +102 +0 +0$' "$work/out" || cat "$work/out"
	json stats --count '(grep { $_->{kind} eq "row" && $_->{counts}{pending} == 102 && $_->{counts}{running} == 0 && $_->{counts}{failed} == 0 } @$j) == 1'
	json stats row '!exists $j->[0]{counts}'
	tool list --json >/dev/full 2>"$work/err"
	[ $? -eq 3 ] || echo "a full disk: not 3"
	says 'the output: No space left on device'
	ends 0 cancel row --all -y
	ends 0 remove row
	ends 0 --version
	grep -qxE 'hwt-jobs [0-9]+\.[0-9]+\.[0-9]+' "$work/out" || cat "$work/out"
}

# Hostile names: nothing of them acts on a terminal, and JSON has no raw control.  C1, an override, a line separator, an isolate; two columns; none.
hostile_names() {
	evil=$(printf 'e\033[2J\302\233\342\200\256\342\200\250\342\201\246')
	ends 0 put "$evil" x --make --at 1h --key "$evil" --group "$evil"
	tool list --json "$evil" >"$work/json"
	LC_ALL=C grep -qE "$(printf '[\033\302]|\342\200|\342\201')" "$work/json" && cat -v "$work/json"
	grep -qF 'e\u001b[2J\u009b\u202e\u2028\u2066' "$work/json" || cat -v "$work/json"
	json list "$evil" '$j->[0]{key} eq "e\e[2J\x{9b}\x{202e}\x{2028}\x{2066}" && $j->[0]{key} eq $j->[0]{kind}'
	for command in "list" "stats" "stats --prometheus" "top"; do
		# shellcheck disable=SC2086 # words
		tool $command >"$work/out"
		LC_ALL=C grep -qE "$(printf '[\033\302]|\342\200[\250\256]|\342\201\246')" "$work/out" && { echo "$command:"; cat -v "$work/out"; }
	done
	tool list "$evil" | grep -qF 'e?[2J????' || tool list "$evil"
	ends 0 put "$(printf 'e\\x1b[2J')" x --make --at 1h
	tool stats --prometheus >"$work/out"
	grep -qF 'hwt_store_kind_paused{kind="e\\x1b[2J\\xc2\\x9b\\xe2\\x80\\xae' "$work/out" || grep kind_paused "$work/out"
	grep -qF 'hwt_store_kind_paused{kind="e\\x5cx1b[2J"}' "$work/out" || grep kind_paused "$work/out"
	wide=$(printf '\344\270\255\345\234\213\347\232\204\345\220\215\345\255\227\346\230\257') # 7 of two columns
	ends 0 put wide x --make --at 1h --key "$wide$wide" --group 'ab'
	ends 0 put wide x --at 1h --key "$(printf 'e\314\201')" --group "$wide"
	ends 0 list wide # 24 columns of a group, and of a key
	perl -CSD -ne 'chomp; $line = $_; next if !/pending/; $n++; s/\p{Mn}//g; s/\p{East_Asian_Width=W}/xx/g;
		print length, " columns: $line\n" if length != 88; END { print "$n rows\n" if $n != 2 }' "$work/out"
	ends 0 cancel wide --all -y
}

# Whatever bytes it has.
any_bytes() {
	printf 'a\0\001\377"\\\n' >"$work/data"
	ends 0 put bytes - --make --key raw <"$work/data"
	json show bytes --key raw 'decode_base64($j->{data_base64}) eq "a\0\001\xff\"\\\n" && !exists $j->{data}'
	ends 0 show bytes --key raw
	grep -q '61 00 01 ff' "$work/out" || cat "$work/out"
	ends 0 put bytes "$(printf 'q"\\ \t \001 \303\244 \177')" --key "$(printf 'k"\\\n\033[31m\303\244')"
	json list bytes '(grep { defined $_->{key} && $_->{key} eq "k\"\\\n\e[31m\x{e4}" && $_->{data} eq "q\"\\ \t \001 \x{e4} \x7f" } @$j) == 1'
	ends 0 list bytes
	LC_ALL=C grep -q "$(printf '\033')" "$work/out" && echo "a key reaches the terminal"
	ends 0 cancel bytes --all -y
}

all_and_some() {
	for i in 1 2 3 4 5 6; do
		ends 0 put many "x$i" --make --key "k$i" --group "g$((i % 2))" --at 1h
	done
	ends 0 put many x --at 1h
	json cancel many --key k1 --group g1 '$j->{cancelled} == 1'
	ends 1 cancel many --key k1 --group g1
	json cancel many --all -y --no-group '$j->{cancelled} == 1'
	json list many --group g1 '@$j == 2'
	json cancel many --all --group g1 --yes '$j->{cancelled} == 2'
	json move many --all --at 2026-12-01T10:00Z '$j->{moved} == 3'
	json list many '(grep { $_->{due} eq "2026-12-01T10:00:00.000000Z" } @$j) == 3'
	json cancel many --all -y --state failed '$j->{cancelled} == 0'
	json list many -n 2 '@$j == 2'
	ids=$(tool list many | awk '/pending/ { print $1 }')
	# shellcheck disable=SC2086 # words
	json cancel $ids '$j->{cancelled} == 3'
	# shellcheck disable=SC2086
	ends 1 cancel $ids
	json list many '@$j == 0'
	ends 0 remove many
	ends 1 remove many
}

# TIME and when that is, as perl has it: within a minute.
at() {
	ends 0 put time x --make --at "$1"
	json show "$(cat "$work/out")" "abs(\$j->{due_us} / 1e6 - ($2)) < 60"
}

times_as_written() {
	at 90s 'time + 90'
	at 'in 2h30m' 'time + 9000'
	at '2 days' 'time + 172800'
	at now time
	at '@4102444800' 4102444800
	at 2099-07-01T10:00Z 4086583200
	at 2099-07-01T10:00+02:00 4086576000
	at 2099-07-01T10:00 4086576000 # summer in Berlin
	at '2099-12-01 10:00:30' 4099798830
	at 2099-12-01 4099762800
	# shellcheck disable=SC2030,SC2031 # for that line alone
	# calendars.md: the first of two, and where there is none, when the gap begins.
	at '2099-10-25 02:30' 4096571400
	at '2099-10-25 02:00' 4096569600
	at '2099-10-25 02:59:59' 4096573199
	at '2099-10-25 03:00' 4096576800
	at '2099-03-29 02:30' 4078429200
	at '2099-03-29 03:00' 4078429200
	at '2099-03-29 01:59:59' 4078429199
	(export TZ=Africa/Cairo; at 2099-04-24 4080664800)   # no midnight that day
	(export TZ=America/Havana; at 2099-11-01 4097188800) # two
	(export TZ=Australia/Lord_Howe; at '2099-04-05 01:45' 4078997100)
	at 'tomorrow 9:00' 'do { my @t = localtime(time + 86400); require POSIX; POSIX::mktime(0, 0, 9, @t[3, 4, 5]) }'
	for wrong in '' x 90 90x 25:00 2026-02-30 2026-13-01 '2026-12-01 10' '10:61' 2026-12-01T10:00+99:00 'in tomorrow' -5s 200000d; do
		ends 2 put time x --at "$wrong"
	done
	ends 2 put time x --every 5
	ends 0 put time --data later --in 1h30m --key in
	json show time --key in 'abs($j->{due_us} / 1e6 - time - 5400) < 600 && $j->{data} eq "later"'
	ends 0 move time --key in --in 2d
	json show time --key in 'abs($j->{due_us} / 1e6 - time - 2 * 86400) < 600'
	for wrong in tomorrow 18:00 '' 5; do
		ends 2 put time x --in "$wrong"
	done
	ends 2 put time x --in 1h --at 18:00
	ends 2 put time x --data y
	ends 0 put time nightly --every 1d --at 1h --key nightly --keep-due
	ends 0 put time nightly --every 2d --key nightly --keep-due
	json show time --key nightly '$j->{period_ns} == 2 * 86400 * 1e9'
	ends 2 put time x --key nightly --keep-due
	ends 2 cancel time --all
	says '--yes'
	json show time --key in '$j->{state} eq "pending"'
	ends 0 cancel time --all -y
	ends 0 remove time
}

# The program of the example runs its kind, "job".
failed_ones() {
	"$BUILD/examples/jobs" -d "$url" add 0 'exit 3' -k bad >/dev/null
	"$BUILD/examples/jobs" -d "$url" run -x -a 1 -l 600 -t 600 -e >/dev/null 2>&1
	json list job --state failed '@$j == 1 && $j->[0]{attempt} == 1 && length $j->[0]{error}'
	json stats job '@$j == 1 && $j->[0]{failed} == 1 && $j->[0]{processes} == 0 && !$j->[0]{paused}'
	tool stats --prometheus | grep -qx 'hwt_store_kind_failed{kind="job"} 1' || echo "Prometheus has no failed one"
	ends 2 move job --all
	json move job --all --at 1h '$j->{moved} == 0'
	json retry job --all '$j->{retried} == 1'
	json list job '$j->[0]{state} eq "pending" && $j->[0]{attempt} == 0'
	json retry job --all '$j->{retried} == 0'
	ends 1 retry job --key bad
	says 'or in another state'
	ends 0 cancel job --key bad
}

wrong_use() {
	ends 2
	ends 2 lst
	says 'did you mean "list"?'
	ends 2 put mail x --evry 5s
	says 'did you mean --every?'
	ends 2 list --key x
	says 'no option --key'
	ends 2 put mail --key
	says 'needs a value'
	ends 2 list mail --state sleeping
	ends 2 list mail report
	ends 2 show x
	ends 2 cancel
	ends 2 cancel mail
	ends 1 list mial
	says 'did you mean "mail"?'
	ends 2 put mail x --priority 200
	says 'no number from -100 to 100'
	ends 2 put mail x --replace
	says 'need --key'
	ends 2 put mail x --zone UTC
	says '--zone needs --cron'
	ends 2 put mail x --spread 1h
	says '--spread needs --every or --cron'
	ends 2 put mail x --every 1h --cron '@daily'
	says '--every and --cron'
	ends 2 limit mail --burst 3
	says '--burst needs --every'
	timeout 600 "$BUILD/hwt-jobs" --help >/dev/full 2>"$work/err"
	[ $? -eq 3 ] || echo "help on a full disk: not 3"
	timeout 600 "$BUILD/hwt-jobs" list >/dev/null 2>"$work/err"
	[ $? -eq 2 ] || echo "without a database: not 2"
	says HWT_STORE_URL
	timeout 600 "$BUILD/hwt-jobs" -d "sqlite:$work/typo.db" list >/dev/null 2>"$work/err"
	[ $? -eq 3 ] || echo "without a file: not 3"
	says 'no file'
	[ ! -e "$work/typo.db" ] || echo "a list makes a file"
	timeout 600 "$BUILD/hwt-jobs" -d "sqlite:$work/none/x.db" --json list >/dev/null 2>"$work/err"
	[ $? -eq 3 ] || echo "without a folder: not 3"
	perl -MJSON::PP -e 'local $/; exit !length decode_json(<STDIN>)->{error}' <"$work/err" || cat "$work/err"
	for word in "$(printf '\377\033[31m\n"\\')" "$(printf '\303')"; do
		tool --json list "$word" 2>"$work/err" && echo 'lists what is no name'
		perl -MJSON::PP -e 'local $/; exit !length decode_json(<STDIN>)->{error}' <"$work/err" || cat -v "$work/err"
		tool list "$word" 2>"$work/err" && echo 'lists what is no name'
		LC_ALL=C grep -q "$(printf '[\033\377]')" "$work/err" && cat -v "$work/err"
	done
	for word in @nan @1e300 @inf @-1 1e400s nan; do
		ends 2 put mail x --at "$word"
	done
	ends 2 put mail x --every 0s
	ends 2 cancel 12345 --group a
	says '--all'
	ends 2 show 12345 --group a
	ends 2 cancel mail --all --group a --no-group
	ends 2 cancel mail --al -y # the beginning of a name is none
	says '--all'
	ends 2 put mail x --prio 3
	ends 2 --data sqlite:x list
	ends 0 list mail --state=failed
	ends 2 list mail --group a --no-group
	ends 2 cancel mail --key x --no-group
	ends 2 top --interval 100000
}

# Each command has its own, with an example, for the options that it takes.
help_of_each() {
	tool --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' | sort -u >"$work/commands"
	[ "$(wc -l <"$work/commands")" -ge 10 ] || cat "$work/commands"
	while read -r command; do
		tool "$command" --help >"$work/out" || echo "$command --help: exit $?"
		grep -q "^  hwt-jobs $command" "$work/out" || { echo "$command has no example:"; cat "$work/out"; }
		tool help "$command" | cmp -s - "$work/out" || echo "help $command is another text"
		grep -q "^\.It Ic $command" store/doc/hwt-jobs.1 || echo "hwt-jobs.1 does not know $command"
	done <"$work/commands"
}

pages() {
	json top '@{$j->{kinds}} >= 2 && @{$j->{groups}} >= 1 && ref $j->{processes}'
	ends 0 top
	for word in mail 'a b'; do grep -q "$word" "$work/out" || cat "$work/out"; done
	json vacuum 'ref $j->{advice} eq "ARRAY"'
	ends 0 vacuum
}

# On a terminal, which script(1) makes: INPUT ARGS...
on_terminal() {
	input=$1
	shift
	printf '%s' "$input" | TERM=xterm timeout -k 5 600 script -qec "$BUILD/hwt-jobs -d '$url' $*" /dev/null >"$work/tty" 2>&1
}

on_terminal_of() {
	TERM=xterm timeout -k 5 600 script -qefc "$BUILD/hwt-jobs -d '$url' $*" "$work/tty" >/dev/null 2>&1
}

terminals() {
	escape=$(printf '\033')
	on_terminal q top
	for word in "$escape\[?1049h" KIND; do grep -q "$word" "$work/tty" || cat -v "$work/tty"; done
	tail -1 "$work/tty" | grep -q "$escape\[?25h$escape\[?1049l" || echo "q does not give the screen back"
	printf '' | TERM=xterm timeout -k 5 600 script -qec "timeout --foreground -s TERM 2 $BUILD/hwt-jobs -d '$url' top" /dev/null \
		>"$work/tty" 2>&1
	tail -1 "$work/tty" | grep -q "$escape\[?25h$escape\[?1049l" || { echo "a signal does not give the screen back"; cat -v "$work/tty"; }
	on_terminal '' list
	grep -q "$escape\[1m" "$work/tty" || echo "no colours on a terminal"
	NO_COLOR=1 on_terminal '' list
	grep -q "$escape\[[0-9]*m" "$work/tty" && echo "colours in spite of NO_COLOR"
	on_terminal '' list --no-color
	grep -q "$escape\[[0-9]*m" "$work/tty" && echo "colours in spite of --no-color"
	tool list | grep -q "$escape" && echo "colours in a pipe"
	ends 0 put asked x --make --at 1h
	on_terminal 'n
' cancel asked --all
	grep -q 'cancel 1 timeouts of asked? \[y/N\]' "$work/tty" || cat -v "$work/tty"
	json list asked '@$j == 1'
	on_terminal 'y
' cancel asked --all
	json list asked '@$j == 0'
}

# The old page stays until the new one has been read.
top_keeps_its_page() {
	mkfifo "$work/keys" "$work/sql"
	"$HWT_STORE_PG_BIN/psql" -qAtd "$url" <"$work/sql" >"$work/locked" &
	psql=$!
	on_terminal_of top -i 1 <"$work/keys" &
	top=$!
	exec 8>"$work/keys" 9>"$work/sql"
	until grep -q KIND "$work/tty" 2>/dev/null; do sleep 0.1; done
	echo "begin; lock table hwt_kind in access exclusive mode; select 'locked';" >&9
	until "$HWT_STORE_PG_BIN/psql" -qAtd "$url" -c "select 'waits' from pg_locks where not granted and relation = 'hwt_kind'::regclass" |
		grep -q waits; do sleep 0.1; done
	tr '\n' ' ' <"$work/tty" | sed 's/.*'"$(printf '\033')"'\[2J//' | grep -q KIND || { echo "the page is gone:"; cat -v "$work/tty"; }
	echo "commit;" >&9
	printf q >&8
	exec 8>&- 9>&-
	wait $psql $top
}

# EXPECTED ARGS...: the tool comes to say this.
comes() {
	want=$1 tries=0
	shift
	until tool "$@" | grep -q "$want"; do
		tries=$((tries + 1))
		[ $tries -lt 3000 ] || { echo "$*: never says $want"; tool "$@"; return; }
		sleep 0.1
	done
}

why_it_waits() {
	"$BUILD/examples/jobs" -d "$url" add 0 'exit 3' -k bad >/dev/null
	"$BUILD/examples/jobs" -d "$url" run -x -a 1 -l 600 -t 600 -e >/dev/null 2>&1
	"$BUILD/examples/jobs" -d "$url" add 0 'exit 0' -k late >/dev/null
	ends 0 pause job
	"$BUILD/examples/jobs" -d "$url" run >/dev/null 2>&1 &
	runner=$!
	for command in 'stats job' 'stats' 'list job' 'list' 'list job --state pending' 'show job --key late' top; do
		# shellcheck disable=SC2086 # words
		comes '^  job: 1 wait, the oldest for .*: paused (unchanged for .*) -> hwt-jobs resume goes on$' $command
	done
	comes '"waiting": {"pause": {"count": 1, "oldest_ns": [1-9][0-9]*}}, "waiting_age_ns": [1-9]' --json stats job
	comes '^hwt_store_kind_waiting{kind="job",reason="pause"} 1$' stats --prometheus
	kill $runner
	wait $runner
	comes 'job: 1 wait, the oldest for .*: no process runs it -> start one; if one should run, .*$' stats job
	ends 0 put job x --at 1h --key far
	ends 0 show job --key far
	grep 'wait' "$work/out"
	ends 0 list job --state failed,running
	grep -q 'failed' "$work/out" || { echo "nothing failed:"; cat "$work/out" "$work/err"; }
	grep 'wait' "$work/out"
	ends 0 put other x --make --at 1h --group listed
	ends 0 list --group listed
	grep -q 'pending' "$work/out" || cat "$work/out" "$work/err"
	grep 'wait' "$work/out"
	ends 0 cancel other --group listed --all -y
	ends 0 remove other
	ends 0 cancel job --key bad
	ends 0 cancel job --key far
	ends 0 cancel job --key late
	ends 0 resume job
}

rules() {
	json stats mail '!$j->[0]{paused} && $j->[0]{each_group}{running} == 0'
	json pause mail '$j->{paused} == 1'
	ends 0 limit mail --running 3 --every 200ms --burst 10
	json stats mail '$j->[0]{paused} && $j->[0]{each_group}{running} == 3 && $j->[0]{each_group}{burst} == 10 &&
		$j->[0]{each_group}{start_every_ns} == 200_000_000'
	ends 0 stats mail
	for word in paused '3 running, a start every 200 ms, burst 10'; do grep -q "$word" "$work/out" || cat "$work/out"; done
	ends 0 resume mail
	ends 0 limit mail --unset
	json stats mail '!$j->[0]{paused} && $j->[0]{each_group}{running} == 0'
	ends 0 pause mail --group 'tenant 9'
	ends 0 limit mail --group 'tenant 9' --running 1
	ends 0 limit mail --group 'tenant 9' --unset
	ends 0 resume mail --group 'tenant 9'
	ends 2 limit mail
	ends 2 limit mail --burst 3
	ends 2 limit mail --running 3 --unset
	ends 2 limit mail --running x
	ends 2 limit mail --running -1
	ends 0 limit mail --group 'tenant 9' --running 0
	ends 0 limit mail --group 'tenant 9' --unset
	ends 2 pause
	ends 1 pause nobody
	ends 0 put mail ruled --group paused --key ruled --at 1h
	ends 0 groups mail
	says 'no group of it is paused'
	json groups mail '@$j == 0'
	ends 0 pause mail --group paused
	ends 0 limit mail --group limited --every 2s
	ends 0 limit mail --group free --running 0
	json groups mail '@$j == 3 && $j->[0]{group} eq "free" && $j->[0]{limits}{running} == 0 && !$j->[0]{paused} &&
		$j->[1]{limits}{start_every_ns} == 2_000_000_000 && $j->[2]{group} eq "paused" && $j->[2]{paused} && !defined $j->[2]{limits}'
	ends 0 groups mail
	for word in 'paused  *paused$' 'limited  *a start every 2 s, burst 1' 'free  *no limits'; do
		grep -q "$word" "$work/out" || cat "$work/out"
	done
	json stats mail '$j->[0]{paused_groups} == 1 && $j->[0]{limited_groups} == 2'
	for command in 'list mail' 'list' 'stats' 'stats mail' top; do
		# shellcheck disable=SC2086 # words
		ends 0 $command
		grep -q 'mail: 1 group is paused (paused), 2 with limits of their own: hwt-jobs groups mail' "$work/out" || { echo "$command:"; cat "$work/out"; }
	done
	ends 0 stats mail
	grep -q '^mail .* nobody ' "$work/out" || cat "$work/out"
	ends 0 show mail --key ruled --group paused
	grep -qx 'rules     paused' "$work/out" || cat "$work/out"
	ends 0 resume mail --group paused
	ends 0 limit mail --group limited --unset
	ends 0 limit mail --group free --unset
	ends 0 cancel mail --key ruled --group paused
	ends 1 groups nobody
	ends 2 groups
}

# Also makes the file, and a kind that the first test removes.
has_engine() {
	! "$BUILD/hwt-jobs" -d "$1" put made x --make --at 1h 2>&1 | grep -q 'built without the engine'
}

if [ ! -x "$BUILD/hwt-jobs" ]; then
	skip hwt_jobs "$BUILD/hwt-jobs was not built"
	finish
fi
for engine in sqlite postgresql; do
	url=${HWT_STORE_PG_URL:-}
	[ $engine = postgresql ] || url=sqlite:$work/jobs.db
	if [ -z "$url" ] || ! has_engine "$url"; then
		skip "hwt_jobs_$engine" "there is no such engine here"
		continue
	fi
	result "put_and_list_$engine" "$(put_and_list)"
	result "inputs_and_outputs_$engine" "$(inputs_and_outputs)"
	result "hostile_names_$engine" "$(hostile_names)"
	result "any_bytes_$engine" "$(any_bytes)"
	result "all_and_some_$engine" "$(all_and_some)"
	result "times_as_written_$engine" "$(times_as_written)"
	result "failed_ones_$engine" "$(failed_ones)"
	result "why_it_waits_$engine" "$(why_it_waits)"
	result "rules_$engine" "$(rules)"
	result "wrong_use_$engine" "$(wrong_use)"
	result "pages_$engine" "$(pages)"
	if script -qec true /dev/null >/dev/null 2>&1; then
		result "terminals_$engine" "$(terminals)"
		[ $engine = sqlite ] || result top_keeps_its_page "$(top_keeps_its_page)"
	else
		skip "terminals_$engine" "script(1) gets no terminal here"
	fi
done
result help_of_each "$(help_of_each)"
finish
