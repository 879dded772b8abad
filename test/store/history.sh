#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# history.sh: can history.pl fail?  A good history passes; then each rule is broken by hand in one line or two, and it has to say so.
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=test/result.sh
. test/result.sh
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Five timeouts: 1 is done, 2 is cancelled, 3 ran at most once and is FAILED by a crash, 4 had its effect, 5 is left; 6 was refused, 7 is not known.
good() {
	rm -f "$folder"/*
	cat >"$folder/a.log" <<-END
		1000000 put? 1 0 100000
		1001000 put 1 0 11
		1002000 put? 2 0 500000
		1003000 put 2 0 12
		1004000 put? 3 1 100000
		1005000 put 3 0 13
		1006000 put? 4 2 100000
		1007000 put 4 0 14
		1008000 put? 5 0 900000000
		1009000 put 5 0 15
		1010000 put? 6 0 100000
		1011000 put 6 107 0
		1012000 put? 7 0 100000
		1200000 start 1 11 0 1 3 1100500
		1201000 end 1 11 1 3 0 1
		1210000 start 4 14 2 1 3 1106500
		1211000 end 4 14 1 3 0 1
	END
	cat >"$folder/b.log" <<-END
		1020000 cancel? 2 12
		1021000 cancel 2 12 0
		1150000 start 3 13 1 1 7 1104500
	END
	cat >"$folder/nemesis.log" <<-END
		900000 world 2000000 20 10000000
		1160000 kill b
	END
	cat >"$folder/database.tables" <<-END
		row 3 13 1 3 1
		row 5 15 0 1 0
		effect 4
	END
}

# NAME RULE COMMAND: the history after COMMAND breaks RULE, and no other.
broken() {
	good
	(cd "$folder" && eval "$3")
	said=$(perl test/store/history.pl "$folder" 2>&1)
	case $? in
	0) result "$1" "it passed" ;;
	*) result "$1" "$(printf '%s\n' "$said" | grep -q "^# $2: [0-9]*\$" || printf '%s\n' "$said")" ;;
	esac
}

good
result a_good_history_passes "$(perl test/store/history.pl "$folder" >"$folder/said" 2>&1 || cat "$folder/said")"
result it_counts "$(grep -q '^# 5 accepted = 1 done + 0 cancelled' "$folder/said" && cat "$folder/said"
	grep -qF '# 5 accepted = 2 done + 1 cancelled + 1 FAILED + 1 left; 0 lost; 1 refused, 1 unknown' "$folder/said" || cat "$folder/said")"

good
sed -i '$a\
1160000 away kill\
1180000 back' "$folder/nemesis.log"
result it_says_how_long_nothing_ran_around_a_fail_over "$(perl test/store/history.pl "$folder" >"$folder/said" 2>&1
	grep -qF '# kill: another node writes after 0.02 s; nothing ran for 0.04 s, 0.02 s of them beyond that' "$folder/said" || cat "$folder/said")"

broken lost D1 "sed -i '/ 5 15/d' database.tables"
broken lost_although_it_started D1 "sed -i '/end 1 /d' a.log"
broken lost_although_it_failed_and_was_to_be_tried_again D1 "sed -i 's/end 1 11 1 3 0 1/end 1 11 1 3 5 1/' a.log"
broken without_its_effect D1 "sed -i '/effect/d' database.tables"
broken put_by_nobody D1 "echo 'row 9 19 0 1 0' >>database.tables"
broken refused_and_there D1 "echo 'row 6 16 0 1 0' >>database.tables"
broken refused_and_run D1 "echo '1300000 start 6 16 0 1 3 1110000' >>a.log"
broken an_id_is_used_again D1 "sed -i 's/put 5 0 15/put 5 0 11/; s/row 5 15/row 5 11/' a.log database.tables"
broken two_rows D1 "echo 'row 5 15 0 1 0' >>database.tables"
broken two_cancels_succeed D2 "printf '%s\n' '1030000 cancel? 2 12' '1031000 cancel 2 12 0' >>a.log"
broken cancelled_and_left D2 "echo 'row 2 12 0 1 0' >>database.tables"
broken cancelled_and_its_effect_is_there D2 "printf '%s\n' '1090000 cancel? 4 14' '1300000 cancel 4 14 0' >>b.log"
broken done_and_cancelled D2 "printf '%s\n' '5190000 cancel? 1 11' '5200000 cancel 1 11 0' >>b.log"
broken ended_and_started_again D2 "echo '5300000 start 1 11 0 1 4 1100500' >>b.log"
broken FAILED_too_soon D2 "sed -i 's/row 5 15 0 1 0/row 5 15 0 3 2/' database.tables"
broken FAILED_after_a_good_end D2 "echo '1151000 end 3 13 1 7 0 1' >>b.log; sed -i '/kill/d' nemesis.log"
broken FAILED_at_most_once_and_nothing_befell_its_process D2 "sed -i 's/kill b/kill a/' nemesis.log"
broken FAILED_at_most_once_without_a_start_in_a_calm D2 "sed -i '/start 3/d' b.log; sed -i '/kill/d' nemesis.log"
broken FAILED_at_most_once_after_one_run_that_failed D2 "echo '1151000 end 3 13 1 7 5 1' >>b.log; sed -i '/kill/d' nemesis.log"
broken an_effect_and_still_there D2 "echo 'row 4 14 2 1 0' >>database.tables"
broken twice_at_most_once D3 "echo '9000000 start 3 13 1 2 8 1104500' >>a.log"
broken two_effects D3 "echo 'effect 4' >>database.tables"
broken an_effect_without_a_start D3 "sed -i '/ 4 14 /d' a.log"
broken another_kind D3 "sed -i 's/start 1 11 0/start 1 11 2/' a.log"
broken two_effects_in_a_copy D3 "printf '%s\n' 'effect 4' 'effect 4' >1.copy"
broken effect_and_row_in_a_copy D3 "printf '%s\n' 'effect 4' 'row 4 14 2 2 1' >1.copy"
broken early D4 "sed -i 's/^1200000 start/1100499 start/; s/^1201000 end/1100600 end/' a.log"
broken early_by_the_database_s_clock D4 "sed -i '1i -9000000 clock -200000' nemesis.log"
broken due_before_its_time D4 "sed -i 's/1100500/1099999/' a.log"
broken two_processes_under_one_epoch D5 "echo '1199000 start 1 11 0 1 3 1100500' >>b.log"
broken an_older_epoch_begins D5 "sed -i '/kill/d' nemesis.log; printf '%s\n' '1198000 start 1 11 0 1 5 1100500' '1198500 end 1 11 1 5 5 1' >>b.log"
broken its_own_after_another_began_it D5 "echo '1200500 start 1 11 0 2 4 1100500' >>b.log"
broken waited_for_ever D5 "sed -i 's/^1200000 start 1/91200000 start 1/; s/^1201000 end 1/91201000 end 1/' a.log"
second_attempt='1140000 start 1 11 0 1 2 1100500'
broken its_second_attempt_waited_for_ever D5 "echo '$second_attempt' >>b.log
	sed -i 's/^1200000 start 1 11 0 1/91200000 start 1 11 0 2/; s/^1201000 end 1 11 1/91201000 end 1 11 2/' a.log"
broken a_retry_waited_for_ever D5 "printf '%s\\n' '$second_attempt' '1141000 end 1 11 1 2 5 1' >>b.log
	sed -i 's/^1200000 start 1 11 0 1/91200000 start 1 11 0 2/; s/^1201000 end 1 11 1/91201000 end 1 11 2/' a.log"
broken started_after_its_cancel D6 "echo '1503000 start 2 12 0 1 3 1502500' >>a.log"
broken started_before_its_new_time D6 "printf '%s\n' '1090000 move? 1 11 700000' '1091000 move 1 11 700000 0' >>b.log"

# What is no fault: the clock was ahead, the answer to a cancel was lost, a killed process had ended its task, an outage.
fine() {
	good
	(cd "$folder" && eval "$2")
	result "$1" "$(perl test/store/history.pl "$folder" >"$folder/said" 2>&1 || cat "$folder/said")"
}
fine early_on_our_clock_and_not_on_the_database_s "echo '800000 clock 200000' >>nemesis.log; sed -i 's/^1200000 start/1100000 start/' a.log"
fine a_cancel_whose_answer_is_not_known "sed -i '/ 5 15/d' database.tables; echo '1500000 cancel? 5 15' >>a.log"
fine run_again_when_its_process_had_been_killed "printf '%s\n' '1140000 start 1 11 0 1 2 1100500' '1141000 end 1 11 1 2 0 1' >>b.log"
fine a_transaction_that_could_not_be_committed_at_first "printf '%s\n' '1195000 start 4 14 2 1 3 1106500' '1196000 end 4 14 1 3 0 1' >>b.log
	sed -i '/kill/d; /row 3/d; s/ start 4 14 2 1 3 / start 4 14 2 2 4 /; s/end 4 14 1 3/end 4 14 2 4/' nemesis.log a.log database.tables
	echo '1151000 end 3 13 1 7 0 1' >>b.log"
fine FAILED_at_most_once_by_a_death_before_its_start "sed -i '/start 3/d' b.log"
fine FAILED_at_most_once_by_a_death_after_a_run_that_failed "echo '1151000 end 3 13 1 7 5 1' >>b.log; sed -i 's/kill b/kill c/' nemesis.log"
fine taken_over_after_a_lease "echo '1140000 start 1 11 0 1 2 1100500' >>b.log; sed -i 's/^900000 world.*/900000 world 2000000 20 1000000/' nemesis.log
	sed -i 's/^1200000 start 1 11 0 1/3200000 start 1 11 0 2/; s/^1201000 end 1 11 1/3201000 end 1 11 2/' a.log"
fine late_because_nobody_could_work "printf '%s\n' '1050000 away' '91100000 back' >>nemesis.log
	sed -i 's/^1200000 start 1/91200000 start 1/; s/^1201000 end 1/91201000 end 1/' a.log"
finish
