/* SPDX-License-Identifier: BSD-2-Clause */
/* The promises of each call on virtual time, as scripts; script.h has their language. */
#include "script.h"

/* The caller's loop */

TEST(an_advance_says_when_there_is_work_again)
{
	play("new a 10; at b 20+1; new c 3600000; advance 10-1 = 10; ran a 0; advance 10 = 21; ran a 1;"
	     "advance 21-1 = 21; ran b 0; advance 25 = 3600000; ran b 1; pending 1;"
	     "cancel c; advance 26 = never; advance 3600001 = never; ran c 0; stat runs 2; stat ticks 2");
}

TEST(after_cancels_the_answer_is_the_next_of_what_is_left)
{
	play("new a 10; new b 11; new c 12; new d 600; new e 5000; advance 1 = 10; cancel a; cancel b; cancel d;"
	     "advance 2 = 12; advance 12 = 5000; cancel e; advance 13 = never; advance 10000 = never; stat ticks 1");
}

TEST(time_that_goes_back_runs_nothing)
{
	play("advance 10000; advance 5000 = never; new a 1000; advance 5000 = 11000; left a 1000;"
	     "advance 11000-1 = 11000; ran a 0; advance 11000; ran a 1");
}

TEST(a_virtual_clock_begins_at_0_and_has_no_time_below)
{
	play("unstarted; advance -1 = EINVAL; next = never; new a 10; advance 0 = 10; advance ever = EINVAL;"
	     "advance 0-1 = EINVAL; advance 0 = 10; stat wakeups 2; advance 10 = never; ran a 1; stop 0;"
	     "advance -1 = ECANCELED; advance 11 = ECANCELED");
	play("unstarted; new a 10; advance 1000000000 = never; ran a 1");
	play("unstarted; start; new a 10; advance 1 = 10");
}

TEST(the_next_time_is_asked_for_without_running_anything)
{
	play("unstarted; next = never; in a 1 { next = EBUSY; advance 50 = EBUSY; left a EBUSY; stop = EDEADLK };"
	     "new a 10; next = 10; advance 3 = 10; next = 10; move a 5; next = 8; advance 3 = 8; next = 8; ran a 0;"
	     "thread { next = 8 }; advance 8 = never; ran a 1; next = never; stop 0; next = ECANCELED");
}

TEST(the_next_time_is_the_least_of_the_answer_and_of_what_has_come)
{
	/* The answer is on the grid; a deadline later than the answer changes nothing. */
	play("at a 500; next = 500; advance 0 = 500; next = 500; at b 700; next = 500; at c 490-1; next = 490;"
	     "move a 600; next = 490; at d 480+1; next = 481; thread { at e 470; next = 470 }; advance 0+1 = 470;"
	     "next = 470");
	/* A timeout is moved earlier: in the wheel, in a queue, by another thread; and later again. */
	play("at a 500; at b 800; advance 0 = 500; place b 300; next = 300; place b 200; next = 200;"
	     "thread { place b 100; next = 100 }; place b 900; next = 100; advance 0+1 = 500; next = 500");
	play("at a 500; advance 0 = 500; at b 400; thread { place b 300 }; next = 300; advance 100; next = 300");
	/* The earliest timeout is cancelled. */
	play("at a 500; at b 600; advance 0 = 500; cancel a; next = 500; at c 400; cancel c; next = 400;"
	     "advance 1 = 600; next = 600; cancel b; next = 600; advance 2 = never; next = never");
	play("every p 10 10; at a 500; advance 0 = 10; cancel p; next = 10; advance 1 = 500; next = 500");
	/* "At once": due when it came, a finaliser, 4096 operations. */
	play("at a 500; advance 20 = 500; at b 20; next = 20; advance 20 = 21; next = 21; advance 21; ran b 1");
	play("at a 500; new B 600; advance 20 = 500; cancel B; next = 20; advance 20 = 500; released B 1; next = 500");
	play("at a 500; advance 20 = 500; times 4095 { new z 600 }; next = 500; new z 600; next = 20;"
	     "advance 20 = 500; next = 500");
	/* A timeout that a task of the advance moved, and then cancelled or moved back, has not come since. */
	play("at a 1; at b 500; at c 600; advance 0 = 1; in a 1 { place c 50; cancel c; place b 40; place b 700 };"
	     "advance 1 = 700; next = 700");
	/* A bound has left tasks to run at once. */
	play("bound 1; at a 1; at b 1; at c 500; advance 0 = 1; advance 1 = 1; next = 1; advance 1 = 500; next = 500");
	/* A timer that nobody has advanced. */
	play("unstarted; start; next = never; new a 10; next = 10; cancel a; next = 10; advance 0 = never");
}

/* The pass that runs the task takes the record back. */
TEST(a_cancel_that_hurried_keeps_no_loop_awake)
{
	play("in P 1 { cancel P }; every P 10 10; advance 10 = never; next = never; released P 1; advance 11 = never;"
	     "next = never");
}

/* The answer is not the deadline of another timeout, which the last advance took out of the queue. */
TEST(the_next_time_after_a_move_is_that_of_the_move)
{
	play("at a 100; at b 10000; advance 0 = 100; advance 100 = 10000; place b 5000; next = 5000; place b 4000;"
	     "next = 4000; advance 100+1 = 4000");
}

/* However far the worker has to catch up, and on whichever thread the task runs. */
TEST(a_task_that_re_arms_itself_for_the_past_runs_once_in_an_advance)
{
	play("at a 1; in a 9 { place a 2 }; at b 50; advance 0 = 1; advance 100 = 101; ran a 1; ran b 1;"
	     "advance 101 = 102; ran a 2; advance 1000 = 1001; ran a 3");
	play("bound 2; at a 1; in a 9 { place a 2 }; at b 2; at c 3; advance 0 = 1; advance 100 = 3; ran a 1; ran b 1;"
	     "advance 100 = 101; ran c 1; stat runs 4; advance 101 = 102; ran a 3");
	play("parked; at a 1; in a 9 { place a 2 }; advance 0 = 1; advance 100; work 1; advance 100; ran a 1;"
	     "advance 101; work 1; ran a 2");
	/* A timeout that is cancelled while another list holds it. */
	play("bound 1; at a 1; at b 1; in a 1 { place a 2 }; advance 0 = 1; advance 100; cancel a; advance 100;"
	     "ran b 1; advance 101 = never; ran a 1");
}

/* Whichever thread runs the task, and at any time. */
TEST(a_task_in_a_pool_may_not_drive_its_timer)
{
	play("parked; at a 1; in a 1 { advance 5 = EBUSY; next = EBUSY; trim = EBUSY }; advance 1; work 1; ran a 1;"
	     "advance 5 = never; next = never");
}

/* The reader loses its processor between the ends and the begins. */
TEST(counts_are_of_one_moment_though_others_come_and_go_meanwhile)
{
	play("advance 0; at z 900; meanwhile pending-count { times 50 { new a 1; cancel a } }; pending 1;"
	     "meanwhile begins-count { times 50 { new a 1; cancel a } }; stat pending 1; stat cancelled 100");
	play("limit 1; advance 0; meanwhile pending-count { times 50 { new a 1; cancel a } }; pending 0;"
	     "meanwhile begins-count { times 50 { new a 1; cancel a } }; stat pending 0");
}

/* Another thread's call, between the publication and the last look, while a job is out. */
TEST(what_comes_before_the_last_look_is_to_be_done_at_once)
{
	play("told; parked; at a 1; advance 0 = 1; meanwhile idle-published { at b 500 }; advance 5 = 5; advance 5 = 6;"
	     "work 1; ran a 1; advance 5 = 500");
}

/* The answer for a timeout that a job sends back is its tick, not "at once". */
TEST(the_next_time_knows_what_runs_again_in_a_pool)
{
	play("parked; at a 1; at b 500; advance 0 = 1; in a 1 { move a 100 }; advance 1 = 2; next = 2; work 1;"
	     "next = 2; advance 2 = 101; next = 101; in a 1 { move a 50 }; advance 101 = 102; advance 102 = 103;"
	     "work 1; advance 103 = 152; next = 152");
}

/* In the middle of a tick an advance may leave operations in the lanes that can wait. */
TEST(the_earliest_of_what_has_come_is_in_the_answer)
{
	play("at a 500; advance 0 = 500; at b 700; at c 490; at d 800; advance 0+1 = 490; at e 900; advance 0+2 = 490;"
	     "at f 200; at g 300; advance 0+3 = 200; thread { at h 0 }; advance 0+4 = 1");
	play("at a 500; advance 0 = 500; thread { at b 700; at c 490; at d 800 }; advance 0+1 = 490;"
	     "thread { at e 900 }; advance 0+2 = 490; thread { at f 200; at g 300 }; advance 0+3 = 200");
	play("at a 500; advance 0 = 500; at b 499; advance 0+1 = 499");
}

TEST(a_finaliser_does_not_wait_for_the_end_of_the_tick)
{
	play("new A 50; times 4096 { new z 60 }; advance 0 = 50; cancel A; released A 0; advance 0+1; released A 1;"
	     "new A 50; advance 0+2; cancel A; advance 0+3; released A 2");
}

TEST(what_is_cancelled_waits_in_a_busy_tick_only)
{
	play("at a 50; at b 51; advance 0 = 50; cancel a; advance 0+1 = 51; times 4096 { at z 60 }; advance 0+2;"
	     "cancel b; advance 0+3 = 51; advance 1 = 60");
}

TEST(a_long_lane_is_emptied_in_the_middle_of_a_tick)
{
	play("at a 50; advance 0; times 4095 { at z 60 }; advance 0+1; stat transfers 1; at z 60; advance 0+2;"
	     "stat transfers 4097");
}

/*
 * The time of the day, which goes back
 */

TEST(row31_a_loop_follows_a_step_back)
{
	play("day 5000000; advance 5000000 = never; at a 5000001; advance 5000000 = 5000001; day 1400000; new b 5;"
	     "advance 1400000 = 1400005; new c 1; next = 1400001; in b 1 { ran c 1 }; advance 1400006 = 5000001;"
	     "ran b 1; ran a 0; advance 5000002 = never; ran a 1");
}

/* The rest of a tick, which the bound had cut, is placed again. */
TEST(a_step_back_between_two_parts_of_a_tick_loses_nothing)
{
	play("bound 2; day 5000000; advance 5000000; at a 5000001; at b 5000001; at c 5000001; at d 5000001;"
	     "at e 5000001; at f 5000001; advance 5000002; stat runs 2; advance 4990000; stat runs 2;"
	     "in c 1 { ran b 1; ran d 0 }; in d 1 { ran c 1; ran e 0 }; in e 1 { ran d 1; ran f 0 };"
	     "times 3 { advance 5000002 }; stat runs 6");
}

TEST(what_is_left_is_told_by_the_timers_own_clock)
{
	play("left a ENOENT; new a 10; every b 20 30; at c never; new d 10; left a 10; advance 4; left a 6; left b 16;"
	     "left c never; move a 40; left a 40; place a -5; left a -9; cancel d; left d ENOENT;"
	     "in a 1 { left a EBUSY }; advance 21; left a ENOENT; left b 29; ran a 1; ran b 1; stop 2; left b ENOENT");
}

TEST(a_timeout_goes_from_pending_to_its_end_and_is_retired)
{
	play("state a NONE; in a 1 { state a RUNNING; pending 0; cancel a = EBUSY }; new a 5; state a PENDING; advance "
	     "1;"
	     "state a PENDING; advance 5; state a EXPIRED; cancel a = ENOENT; new b 99; cancel b; state b CANCELLED;"
	     "advance 6; times 3000 { new c 99; cancel c }; advance 7; times 3000 { new d 99 }; state a RETIRED;"
	     "state b RETIRED; cancel a = ENOENT; cancel b = ENOENT; move b 1 = ENOENT; stop 3000; state b RETIRED");
}

TEST(times_beyond_all_bounds)
{
	play("advance 5; new a ever; at b ever; new c 0; at d 5; at e 4-1; advance 6 = never; stat runs 5; new f never;"
	     "at g never; at h 4294967296000; new i 4294967296000; at j 9223372036854; advance 999999; advance 6; ran "
	     "f 0;"
	     "stat runs 5; pending 5; cancel f; cancel g; cancel h; cancel i; cancel j; pending 0");
}

TEST(the_grid_begins_with_the_start)
{
	play("unstarted; grid = ENOENT; stop 0; grid = ENOENT; start = ECANCELED; trim = ECANCELED");
	play("unstarted; grid = ENOENT; start; grid = 0; start; none; new a 5; none; stop 1; grid = 0; back a 5; none");
	play("advance 5; grid = 0; trim; new a 1; trim");
}

/*
 * A bound on the tasks of an advance
 */

TEST(tasks_of_one_tick_run_in_parts)
{
	play("bound 3; new a 5; new b 5; new c 5; new d 5; new e 5; new f 5; new g 5; new h 7;"
	     "advance 5 = 5; stat runs 3; ran d 0; advance 4 = 5; stat runs 3; advance 5 = 5; stat runs 6;"
	     "advance 5 = 7; stat runs 7; stat ticks 1; advance 7 = never; stat runs 8");
}

TEST(memory_is_used_again_however_often_the_bound_cuts)
{
	play("bound 1; in a 9000 { move a 0; cancel z; new z 9999; }; in b 9000 { move b 0 }; in c 9000 { move c 0 };"
	     "new z 9999; new a 0; new b 0; new c 0; walk 6000; stat runs 6000; most records 300");
}

TEST(what_is_handed_to_an_executor_counts)
{
	play("parked; bound 2; new a 5; new b 5; new c 5; advance 5 = 5; work 2; ran c 0; advance 5; work 1; ran c 1");
}

/* Batches: HWT_COLLECT */

TEST(what_is_due_comes_in_the_order_of_ticks_and_has_ended)
{
	play("collect; wheel 16; at a 7; at b 3; at c 3; at d 90; at e 5; at f 3; at g 7; at h 5; advance 2 = 3; fired "
	     "-;"
	     "room 3; advance 90 = 90; fired bcf; state b EXPIRED; cancel b = ENOENT; sync b = ENOENT; move b 1 = "
	     "ENOENT;"
	     "advance 90 = 90; fired eha; advance 90 = never; fired gd; advance 91 = never; fired -");
}

/* Also when a due timeout has been collected already, and waits. */
TEST(without_room_nothing_fires_and_nothing_is_lost)
{
	play("collect; room 0; at a 5; at b 5; at c 5; advance 4 = 5; times 3 { advance 6 = 6 }; pending 3;"
	     "state a PENDING; room 1; advance 6 = 6; fired a; room 0; advance 6 = 6; room 1; advance 6 = 6; fired b;"
	     "room 0; advance 6 = 6; room 1; advance 6 = never; fired c; room 0; advance 6 = never;"
	     "room 30; new d 0; advance 7 = never; fired d");
}

TEST(a_periodic_one_is_pending_again)
{
	play("collect; every a 5 10; advance 5 = 15; fired a; missed a 0; state a PENDING; advance 48 = 55; fired a;"
	     "missed a 3; place a 51; advance 51 = 61; fired a; missed a 0; stat merged_periods 3; stat runs 3; cancel "
	     "a;"
	     "advance 99; fired -; stat completed 0");
}

TEST(the_bound_on_tasks_bounds_a_batch)
{
	play("collect; bound 3; room 20; at a 5; at b 5; at c 5; at d 5; at e 5; at f 5; at g 5; at h 5; advance 7 = "
	     "7; fired "
	     "abc;"
	     "room 2; advance 7 = 7; fired de; room 30; advance 7 = never; fired fgh");
}

/* A timeout waits for room. */
TEST(a_stop_hands_out_the_rest_without_tasks)
{
	play(
	    "collect; wheel 16; at a 5; at b 5; at c 5; at d 50; every e 50 1; room 2; advance 5 = 5; fired ab; stop 3;"
	    "cancel c = ENOENT; cancel e = ENOENT; advance 50 = ECANCELED; new g 0 = ECANCELED; stat refused_stopped "
	    "1");
	play("collect; at a 5; at b 5; room 1; advance 5 = 5; stop 1; back b 5; none");
}

/*
 * Another deadline
 */

TEST(it_runs_at_the_new_deadline_and_not_at_the_old_one)
{
	play("new a 10; place a 20; advance 19; ran a 0; walk 30; ran a 1; at-time a 20; stat rescheduled 1");
	play("new a 50; advance 1; place a 20; advance 19 = 20; walk 60; ran a 1; at-time a 20; stat completed 1");
	play("new a 10; advance 1; place a 10+1; walk 20; ran a 1; at-time a 11");
	play("new a 1300; advance 1; place a 600; advance 2 = 600; walk 1400; ran a 1; at-time a 600");
	play("new a 600; advance 1; move a 1300; advance 1300; ran a 0; walk 1400; ran a 1; at-time a 1301");
	play("new a 50; advance 5; place a -5000; walk 9; ran a 1; at-time a 6");
	play("new a 50; place a 20; place a 80; advance 1; place a 30; place a 60; walk 99; ran a 1; at-time a 60");
	play("new a 10; advance 1; place a 100000; advance 99000 = 100000; ran a 0; move a 3000;"
	     "advance 102000-1 = 102000; ran a 0; advance 1000000 = never; ran a 1");
	play("advance 1000; new a 10; move a never; walk 1100; ran a 0; place a ever; walk 1102; at-time a 1101");
}

/* The worker comes by while a thread looks at the first timeout of a tick. */
TEST(a_look_changes_no_order)
{
	play("at a 5; at b 5; in b 1 { ran a 1 }; advance 1; meanwhile look { advance 5 }; left a ENOENT; ran b 1");
	play("at a 5; at b 5; in b 1 { ran a 1 }; meanwhile look { advance 5 }; left a ENOENT; ran b 1");
	play("at a 5; at b 5; in b 1 { ran a 1 }; meanwhile look { advance 1 }; left a 4; walk 5; ran b 1");
}

TEST(a_look_at_one_that_is_not_pending_finds_nothing)
{
	play("new a 5; left a 5; meanwhile look { cancel a }; left a ENOENT; left a ENOENT");
}

TEST(what_has_ended_is_not_moved)
{
	play("move a 0 = ENOENT; place a 0 = ENOENT; new a 0; advance 1; state a EXPIRED; move a 5 = ENOENT;"
	     "new b 5; cancel b; place b 6 = ENOENT; times 300 { new c 3600000; cancel c }; advance 2; new c 3600000;"
	     "move a 0 = ENOENT; place b 0 = ENOENT; advance 1000; ran c 0; stop 1; move c 0 = ENOENT; stat "
	     "rescheduled 0");
}

TEST(a_move_later_makes_no_queue_operation_and_earlier_ones_make_one)
{
	play("new a 100; advance 1; times 1000 { move a 100 }; advance 2; stat transfers 1; stat rescheduled 1000;"
	     "times 1000 { move a 50; move a 40; move a 60 }; advance 3; stat transfers 2; ran a 0; walk 99;"
	     "ran a 1; at-time a 62");
}

TEST(a_task_arms_its_own_timeout_again)
{
	play("in a 3 { pending 0; stat running 1; move a 7; pending 1; state a RUNNING; stat pending 1; stat running 0 "
	     "};"
	     "new a 5; walk 11; ran a 1; state a PENDING; walk 100; ran a 4; at-time a 26; state a EXPIRED;"
	     "move a 0 = ENOENT; stat completed 1; stat runs 4; stat rescheduled 3; stat accepted 1");
	play("in a 1 { move a 9; move a 4; place a 11 }; new a 5; walk 50; ran a 2; at-time a 11; stat rescheduled 3");
	play("in a 50 { move a -1000 }; new a 0; advance 1 = 2; ran a 1; advance 2 = 3; ran a 2; walk 51; ran a 51");
	play("in a 1 { move a 3; cancel a; cancel a = ENOENT; move a 1 = ENOENT; state a RUNNING; pending 0 }; new a 5;"
	     "walk 50; ran a 1; state a CANCELLED; stat cancelled 1; stat runs 1");
	play("in a 1 { move a 3; sync a = EDEADLK }; new a 5; walk 50; ran a 2");
	play("in a 1 { cancel a = EBUSY; move a 3 = ENOENT }; new a 5; walk 50; ran a 1; state a EXPIRED");
	play("in a 1 { thread { move a 3 = EBUSY; cancel a = EBUSY }; move a 3 = ENOENT }; new a 5; walk 9; state a "
	     "EXPIRED");
	play("in a 1 { move a 3; thread { move a 9 = EBUSY; cancel a; cancel a = ENOENT } }; new a 5; walk 9;"
	     "state a CANCELLED; ran a 1");
}

TEST(at_the_limit_a_task_needs_a_free_place)
{
	play("limit 1; in a 1 { move a 5; new b 0 = ENOBUFS; move a 6 }; new a 5; move a 6; walk 11; new b 0 = ENOBUFS;"
	     "in a 1 { new b 1; move a 5 = ENOBUFS; cancel b; thread { move a 5 = EBUSY }; move a 5; cancel a; new b 1 "
	     "};"
	     "walk 50; ran a 2; ran b 1; pending 0; stat refused_limit 2; new b 0");
}

TEST(a_task_moves_others)
{
	play("in a 1 { move b 10; state b PENDING }; new a 10; new b 10; walk 50; ran b 1; at-time b 20");
	play("in a 1 { place b 0; cancel c; cancel d; cancel e }; new a 10; new b 50; new c 10; new d 50; new e 50;"
	     "place e 10; walk 60; at-time b 11; ran c 0; ran d 0; ran e 0; stat cancelled 3");
}

/*
 * Again and again
 */

TEST(a_periodic_one_runs_on_its_grid)
{
	play("every a 5 10; walk 5; ran a 1; walk 24; ran a 2; walk 105; ran a 11; missed a 0; at-time a 105; pending "
	     "1");
	play("every a 0+1000 1; advance 1+50000 = 2; missed a 0; advance 2+50000 = 3; ran a 2; missed a 0;"
	     "advance 8+50000 = 9; ran a 3; missed a 5");
	play("every a 10 10; advance 10; advance 55 = 60; ran a 2; missed a 3; stat merged_periods 3; advance 60 = 70;"
	     "missed a 0; advance 80-1 = 80; missed a 0; advance 90 = 100; missed a 1; advance 86400000 = 86400010;"
	     "ran a 6; missed a 8639990; stat runs 6");
	play("advance 1000; every a -25 10; every b never 10; every c 5 never; advance 1001; ran a 1; at-time a 1001;"
	     "walk 1034; ran a 4; at-time a 1025; ran c 1; advance 1000000000; ran b 0; ran c 1; pending 3");
	play("every a 5 0-1 = EINVAL; every a 5 1-1 = EINVAL; every A 5 -3 = EINVAL; pending 0; new a 1; stop 1;"
	     "every b 5 5 = ECANCELED; stat refused_stopped 1");
}

TEST(a_cancel_ends_it)
{
	play("every a 5 10; cancel a; walk 30; ran a 0; state a CANCELLED; sync a = ENOENT; pending 0");
	play(
	    "every a 5 10; walk 17; cancel a; move a 0 = ENOENT; walk 50; ran a 2; stat cancelled 1; stat completed 0");
	play("in a 2 { stat pending 1; pending 1; state a RUNNING; sync a = EDEADLK }; every a 5 10; walk 17;"
	     "in a 1 { cancel a; pending 0; cancel a = ENOENT; move a 1 = ENOENT }; walk 99; ran a 3; state a "
	     "CANCELLED");
	play("every a 5 10; walk 16; stop 1; back a 25; none; state a CANCELLED; stat returned 1; pending 0");
}

TEST(a_move_moves_the_grid)
{
	play("every a 10 10; walk 21; place a 37; walk 36; ran a 2; walk 38; ran a 3; place a 41; walk 41; ran a 4;"
	     "in a 1 { move a 3 }; walk 51; ran a 5; walk 53; ran a 5; walk 54; ran a 6; walk 64; ran a 7; missed a 0");
}

TEST(it_is_one_pending_timeout_all_the_time)
{
	play("limit 1; every a 5 5; times 9 { new b 0 = ENOBUFS; every b 0 1 = ENOBUFS; pending 1; walk 33 };"
	     "cancel a; every b 9999 1; new a 0 = ENOBUFS; stat refused_limit 19");
}

/*
 * Finalisers
 */

TEST(a_finaliser_is_called_once_however_the_timeout_ends)
{
	play("new A 5; walk 4; released A 0; walk 5; ran A 1; released A 1; walk 20; released A 1");
	play("new A 500; at B 500; walk 2; cancel A; cancel B; released A 0; walk 4; released A 1; released B 1;"
	     "walk 900; ran A 0; released A 1");
	play("in A 2 { released A 0; move A 5 }; new A 5; walk 30; ran A 3; released A 1");
	play(
	    "in B 1 { cancel B; released B 0 }; every A 5 5; every B 5 5; walk 22; ran A 4; released A 0; released B 1;"
	    "cancel A; walk 24; released A 1");
	play("limit 1; new A 5; new B 5 = ENOBUFS; released B 0; stop 1; back A 5; released A 0; new B 1 = ECANCELED;"
	     "released B 0");
	play("in A 0 { new b 3; stop = EDEADLK; advance 99 = EBUSY; cancel A = ENOENT; new C 1 }; new A 5; walk 20;"
	     "ran b 1; at-time b 8; released C 1");
	play("new A 500; cancel A; stop 0; released A 1");
}

/*
 * Memory while the loop is in a slow task, or does not come by
 */

TEST(what_is_cancelled_and_waits_for_the_worker_is_bounded_by_a_limit)
{
	play("limit 16; full 64; in a 1 { crowd b 99999; thread { crowd d 99999 }; new c 9 = ENOBUFS; most records "
	     "1024 };"
	     "new a 1; advance 1; ran a 1; advance 2; new b 3; new c 3; advance 9; ran b 1; ran c 1");
	play(
	    "limit 16; full 64; in a 1 { crowd B 99999; new C 9 = ENOBUFS; released B 0 }; new a 1; advance 1; ran a 1;"
	    "advance 2; new B 3; new c 3; advance 9; ran B 1; ran c 1");
}

TEST(a_limit_refuses_no_finaliser_for_a_worker_that_comes_late)
{
	play("limit 1; times 200000 { new A 9; cancel A }; walk 90; released A 200000");
}

TEST(who_schedules_and_cancels_needs_few_records_while_the_worker_comes_by)
{
	play("times 5000 { new a 70; cancel a; state a CANCELLED; cancel a = ENOENT;"
	     "move a 0 = ENOENT; new b 70; cancel b; advance 1 }; most records 300; stat runs 0");
}

TEST(one_with_an_extension_is_left_to_the_worker)
{
	play("times 100 { every a 5 5; cancel a; new A 5; cancel A; new b 5; cancel b }; released A 0;"
	     "advance 1; released A 100; stat transfers 300; advance 9; stat runs 0");
}

TEST(a_trim_gets_the_record_of_a_cancelled_timeout)
{
	play("new a 9; cancel a; trim; advance 1; trim; stat records 0");
	play("new a 9; cancel a; advance 1; trim; trim; stat records 0");
}

/* Handles to memory that was given back, and that serves again, match nothing. */
TEST(handles_to_memory_that_was_given_back_are_harmless)
{
	play("times 90000 { new z 1 }; new a 1; new B 1; walk 4; trim; walk 6; trim; most records 50000; cancel a = "
	     "ENOENT;"
	     "sync a = ENOENT; move a 1 = ENOENT; place a 1 = ENOENT; left a ENOENT; cancel B = ENOENT; move B 1 = "
	     "ENOENT;"
	     "cancel z = ENOENT; sync z = ENOENT; pending 0");
	play("new a 9; cancel a; advance 1; trim; trim; stat records 0; cancel a = ENOENT; sync a = ENOENT;"
	     "move a 1 = ENOENT; place a 1 = ENOENT; left a ENOENT; stat cancelled 1; pending 0");
}

TEST(memory_that_serves_again_begins_above_all_its_generations)
{
	play("new a 9; cancel a; advance 1; trim; trim; stat records 0; new b 9; state a RETIRED; state b PENDING");
	play("new a 9; advance 1; cancel a; advance 2; new a 9; advance 3; cancel a; advance 4; new a 9; advance 5;"
	     "cancel a; advance 6; trim; trim; stat records 0; new b 9; times 9 { cancel a = ENOENT; state a RETIRED;"
	     "cancel b; new b 9 }");
}

TEST(in_an_advance_nothing_is_trimmed)
{
	play("times 90000 { new z 1 }; walk 2; in a 1 { trim = EBUSY; thread { trim = EBUSY } }; new a 1; advance 4;"
	     "ran a 1; trim; most records 50000");
}

/*
 * A stop in the middle
 */

TEST(row28_what_was_cancelled_in_the_batch_of_a_stop_is_released)
{
	play("in a 1 { cancel B }; in c 1 { halt }; new a 5; new B 5; new c 5; advance 5 = ECANCELED; ran a 1; ran c 1;"
	     "ran B 0; released B 0; stop 0; released B 1");
}

/* Once, cancels of collected records were looked up at places that other records had taken by then. */
TEST(row28_a_stop_in_the_middle_of_a_batch_with_cancelled_ones_in_it)
{
	play("wheel 8; in a 1 { cancel b; cancel d; cancel f; cancel h; halt }; new a 1; new b 1; new c 9; new d 1;"
	     "new e 9; new f 1; new g 9; new h 1; new i 9; advance 0; advance 1 = ECANCELED; stat runs 1; stop 4; "
	     "pending 0");
}

TEST(a_stop_in_the_middle_of_those_without_a_place_hands_out_the_rest)
{
	play("times 1000 { new a 7 }; in c 1 { halt }; times 299 { new b 5 }; new c 5; times 700 { new b 5 };"
	     "no-memory; advance 0; advance 5 = ECANCELED; ran b 299; ran c 1; stop 1700");
}

/*
 * Lanes
 */

TEST(a_thread_that_only_runs_tasks_makes_no_lane)
{
	play("parked; new a 1; advance 1; thread { work 1 }; ran a 1; lanes 1");
	play("parked; every a 1 1; advance 1; thread { work 1 }; ran a 1; lanes 1");
	play("parked; in a 1 { move a 1 }; new a 1; advance 1; thread { work 1 }; ran a 1; lanes 2");
}

TEST(a_thread_without_memory_for_its_lane_can_cancel_and_move)
{
	play("at a 50; at b 50; at c 50; advance 1 = 50; at d 50; thread { no-memory; new e 5 = ENOMEM;"
	     "every f 5 5 = ENOMEM; cancel a; cancel a = ENOENT; cancel d; place b 60; place c 2; lanes 1; memory;"
	     "place b 90; lanes 2 }; pending 2; stat refused_memory 2; advance 5; at-time c 5; walk 99; at-time b 90");
	for (const char *const *fails = (const char *const[]){ "0 1", "1 2", "2 3", NULL }; *fails != NULL; fails++) {
		char text[160]; /* the lane, its two queues */

		(void)snprintf(text, sizeof(text),
			       "thread { no-memory %s; new a 5 = ENOMEM; memory; new b 5 };"
			       "stat refused_memory 1; advance 5; ran b 1",
			       *fails);
		play(text);
	}
}

TEST(unplaced_ones_are_placed_when_memory_is_back_and_keep_their_turn)
{
	play("at a 30; at b 30; at c 33; at d 36; no-memory; advance 1; memory; at e 30; in b 1 { ran a 1 };"
	     "in e 1 { ran b 1 }; advance 2; walk 29; stat runs 0; walk 40; ran e 1; at-time c 33; at-time d 36");
}

TEST(stop_gives_unplaced_ones_back)
{
	play("times 7 { new a 30 }; new b 30; no-memory; advance 1; cancel b; stop 7");
}

/*
 * An executor
 */

TEST(what_waits_in_an_executor_is_pending)
{
	play("parked; new a 10; walk 10; state a PENDING; pending 1; stat executor_refusals 0; work 1; ran a 1;"
	     "state a EXPIRED; pending 0");
	play("parked; new a 10; new B 10; walk 10; cancel a; cancel a = ENOENT; cancel B; released B 0; walk 12;"
	     "work 2; ran a 0; ran B 0; released B 1; stat cancelled 2");
	play("parked; new a 10; walk 10; move a 10; walk 15; work 1; ran a 0; walk 19; ran a 0; walk 20; work 1; ran a "
	     "1");
	play("parked; new a 10; refuse 1; walk 10; ran a 1; stat executor_refusals 1; stat completed 1");
	play("parked; in a 1 { move a 10; state a RUNNING; pending 1 }; new a 10; walk 12; work 1; walk 21; pending 1;"
	     "walk 23; work 1; ran a 2; state a EXPIRED");
	play("parked; in a 1 { thread { move a 1 = EBUSY; cancel a = EBUSY }; move a 1 = ENOENT }; new a 10; walk 10; "
	     "work 1;"
	     "walk 30; ran a 1");
	play("parked; every a 10 10; walk 47; missed a 0; ran a 0; work 1; ran a 1; missed a 3; walk 50; work 1; "
	     "missed a 0;"
	     "walk 61; cancel a; work 1; ran a 2; walk 99; stat runs 2; stat merged_periods 3; stat cancelled 1");
	play("parked; every a 50 50; advance 0 = 50; advance 50 = 51; advance 55+1 = 56; work 1; advance 56 = 100;"
	     "advance 100 = 101; cancel a; work 1; advance 101 = never");
	play("parked; in a 1 { move a 25 }; new a 50; at b 55; advance 50 = 51; advance 51 = 52; work 1; advance 52 = "
	     "55;"
	     "advance 55 = 56; advance 60+5 = 61; work 1; ran b 1; advance 70 = 76; advance 76 = 77; work 1; advance "
	     "78 = never");
	play("parked; new a 15; advance 20; advance 75; stat runs 0; stat ticks 1; work 1; stat lateness_max_ns "
	     "60000000");
	play("parked; refuse 5; every a 10 10; walk 55; ran a 5; missed a 0; stat executor_refusals 5");
}

/*
 * on_earlier
 */

TEST(the_loop_is_told_of_what_is_earlier_once)
{
	play("told; rings 0; new a 10; rings 1; new b 5; rings 0; advance 1 = 5; new c 9; new d 4; rings 0; new e 3; "
	     "rings 1;"
	     "advance 99 = never; new f 10; rings 1; stop 1; rings 0");
	play("told; new a 100; new B 100; rings 1; advance 0 = 100; move a 300; rings 0; move a 30; rings 1; advance 0 "
	     "= 30;"
	     "cancel B; rings 1; advance 0 = 30; released B 1; in a 1 { new b 2; rings 0 }; advance 50 = 52; stop 1; "
	     "rings 1");
	play("told; new a 10; rings 1; thread { new b 9 }; advance 0 = 9; rings 0; thread { new c 8; rings 1 }");
}

/*
 * Statistics
 */

TEST(each_end_is_counted_where_it_belongs)
{
	play(
	    "limit 5; new a 0; new b 0; new c 999; new d 999; new e 999; advance 1; stat ticks 1; new f 999; new g 999;"
	    "times 3 { new h 999 = ENOBUFS }; cancel c; cancel c = ENOENT; stat accepted 7; stat completed 2; stat "
	    "runs 2;"
	    "stat cancelled 1; stat pending 4; pending 4; stat refused_limit 3; stat wakeups 2; stop 4;"
	    "times 2 { new h 0 = ECANCELED }; stat returned 4; stat pending 0; stat refused_stopped 2; stat "
	    "refused_memory 0");
	play("times 5000 { new a 9999 }; advance 1; stat transfers 5000; stat backlog_max 5000; cancel a; new b 9999;"
	     "advance 2; stat transfers 5002; stat backlog_max 5000; in b 1 { stat running 1; stat pending 0 }; stat "
	     "wakeups 3;"
	     "in a 1 { stat running 1; stat completed 0 }; advance 9999; stat completed 4999");
}

TEST(lateness_is_sorted_by_powers_of_two)
{
	play("new a 5; advance 5; late 0 1; new b 5; advance 10+999; late 0 2; at c 20; advance 20+1000; late 1 1;"
	     "at d 30; advance 30+2000; late 2 1; at e 40; at f 40-1; advance 40+4000; late 3 2; stat lateness_max_ns "
	     "4001;"
	     "at g ever; advance 50; late 31 1");
	play("every a 10 10; at b 10; at c 15; advance 30; late 15 2; late 14 1; stat runs 3; advance 40+1024000; late "
	     "11 1");
}

TEST(each_task_of_a_burst_is_counted_when_it_starts)
{
	play(
	    "in a 1 { late 7 1 }; in b 1 { late 7 2; stat lateness_max_ns 70000 }; in c 1 { late 7 3; late 0 0 };"
	    "in d 2 { late 7 4; stat lateness_max_ns 71000 }; in e 1 { late 9 1; late 7 4 }; at a 10; at b 10; at c 10;"
	    "at d 10-1000; at e 10-230000; advance 10+70000; in f 1 { late 7 5; late 9 1 }; in g 1 { late 0 1; late 7 "
	    "5 };"
	    "in h 1 { late 7 6; late 0 1 }; every f 2-70000 7; advance 12+70000; at g 13; advance 13; at h 14; advance "
	    "14+70000");
}

/* Tasks end in the middle of a snapshot. */
TEST(what_has_ended_has_begun_in_the_same_snapshot)
{
	play("meanwhile stats-count { new a 1000; cancel a }; stat accepted 1; stat cancelled 1; stat running 0");
}

TEST(what_is_pending_is_never_less_than_nothing)
{
	play("meanwhile pending-count { new a 1000; cancel a }; pending 0; pending 0");
}

TEST(a_task_that_has_run_often_since_is_one_timeout_all_the_same)
{
	play("in a 99 { move a 1 }; new a 1; meanwhile stats-count { walk 4 }; stat running 0; ran a 4;"
	     "meanwhile stats-count { walk 8 }; stat pending 1");
	play("in a 99 { move a 1 }; new a 1; meanwhile stats-count { walk 4 }; stat pending 1");
}

/* The reader of an open bin must not count runs of other bins. */
TEST(lateness_is_read_while_tasks_of_another_lateness_run)
{
	play("times 40 { at z 10 }; advance 10; meanwhile counts-late { times 5 { at z 20 }; advance 20+5000 };"
	     "late 0 40 3 5; times 40 { at z 30 }; advance 30;"
	     "meanwhile counts-late { times 5 { at z 40 }; advance 40+5000; times 40 { at z 50 }; advance 50 };"
	     "late 0 120 3 10");
}

TEST(a_burst_fills_its_place_and_leaves_it)
{
	play("times 50 { at z 10; at z 30 }; in y 1 { late 7 51; late 0 0; stat lateness_max_ns 70000 };"
	     "in x 1 { late 7 52; stat lateness_max_ns 71000 }; in w 1 { late 9 1 }; at y 10; advance 10+70000;"
	     "at x 20-1000; times 20 { at z 20-1000 }; advance 20+70000; late 7 72; at w 30-300000; advance 30; late 0 "
	     "50;"
	     "late 9 1; times 40 { at v 40 }; times 9 { at v 40-2000000 }; advance 40+70000; late 7 112; late 12 9");
}

/* Behaviours that the tests of other timers check, by their numbers in behaviours.md */

TEST(row02_a_stop_returns_what_is_pending)
{
	play("new a 0; new b 1; new c 2; advance 2; stop 0; none; state a EXPIRED");
	play("new a 0; new b 9; new c 9999; advance 2; cancel c; stop 1; back b 9; none; state b CANCELLED; state c "
	     "CANCELLED;"
	     "cancel b = ENOENT; stop 0");
}

TEST(row03_refused_after_a_stop_and_not_counted)
{
	play("limit 10; new a 99; stop 1; times 20 { new b 0 = ECANCELED }; pending 0; stat refused_stopped 20");
}

TEST(row04_a_task_re_arms_itself)
{
	play("in a 99 { new a 2 }; new a 0; walk 100; ran a 50; stop 1; back a 101; none");
}

/* A limit of 0 or below is none. */
TEST(without_a_limit_any_number_is_accepted)
{
	play("limit 0; times 100 { new a 9 }; pending 100");
	play("limit -1; times 100 { new a 9 }; pending 100");
	play("limit -0x7fffffffffffffff; times 100 { new a 9 }; pending 100");
}

TEST(row07_the_count_follows_each_end)
{
	play("new a 5; new b 5; new c 5; pending 3; cancel a; cancel b; pending 1; in c 1 { pending 0; cancel c = "
	     "EBUSY; pending 0 };"
	     "advance 5; pending 0; cancel c = ENOENT; pending 0");
}

TEST(row09_a_task_of_an_executor_runs_there_and_a_refused_one_is_not_lost)
{
	play("parked; new a 1; advance 1; ran a 0; work 1; ran a 1; refuse 1; new b 1; advance 3; ran b 1;"
	     "stat executor_refusals 1; stat completed 2");
}

TEST(row11_negative_delays_run_and_to_add_a_pending_one_again_moves_it)
{
	play("advance 1000; new a -1; new b -5; advance 1001; ran a 1; ran b 1");
	play("new a 10; times 9 { move a 20; pending 1; move a 50 }; pending 1; advance 49; ran a 0; advance 50; ran a "
	     "1;"
	     "pending 0");
	play("wheel 4; at a never; at b 10; at c 11; at d 12; at e 13; at f 17; at g 19; advance 0; place b 22; place "
	     "c 25;"
	     "place d 40; place e 33; place f 18; place g 47; walk 60; at-time b 22; at-time c 25; at-time d 40; "
	     "at-time e 33;"
	     "at-time f 18; at-time g 47; stat runs 6; ran a 0");
}

TEST(row12_the_ith_run_lies_at_the_sum_of_the_first_i_intervals)
{
	play(
	    "every a 1 1; every b 4 4; every c 50 50; every d 400 400; walk 399; ran a 399; ran b 99; ran c 7; ran d 0;"
	    "walk 2000; ran a 2000; ran b 500; ran c 40; ran d 5; missed a 0; missed d 0; stat merged_periods 0");
}

TEST(row14_many_skipped_ticks_bring_the_old_ones_in_tick_order)
{
	play("wheel 64; times 99 { at z 36901 }; at f 36963; at e 36926; at d 1480; at c 74; at b 37; at a 1;"
	     "in b 1 { ran a 1 }; in c 1 { ran b 1 }; in d 1 { ran c 1 }; in e 1 { ran d 1 }; in f 1 { ran e 1 };"
	     "advance 1099511627776; ran f 1; stat ticks 7");
}

TEST(row21_an_entry_behind_one_of_a_later_round_is_not_late)
{
	play(
	    "wheel 16; times 60 { at z 36; at z 52; at z 68; at z 84; at z 100; at z 116; at z 132; at z 148 }; at a 4;"
	    "times 60 { at z 36; at z 52; at z 68; at z 84; at z 100; at z 116; at z 132; at z 148 }; advance 1;"
	    "advance 4; ran a 1; ran z 0; advance 1000; ran z 960");
}

TEST(rounds_beyond_31_bits_come_at_their_tick_and_keep_their_turn)
{
	static const int64_t far[] = { INT32_MAX - 2,          INT32_MAX - 1,    INT32_MAX,        INT64_C(1) << 31,
				       (INT64_C(1) << 31) + 1, INT64_C(1) << 32, INT64_C(1) << 33, INT64_C(1) << 40 };
	char text[256];

	for (size_t i = 0; i < 2 * sizeof(far) / sizeof(far[0]); i++) {
		int64_t tick = far[i / 2];

		(void)snprintf(text, sizeof(text),
			       "wheel %zu; at a %" PRId64 "; advance %" PRId64 "; ran a 0; at b %" PRId64
			       "; in b 1 { ran a 1 }; advance %" PRId64 "; ran a 0; advance %" PRId64 "; ran b 1",
			       i % 2 + 1, tick, tick / 2, tick, tick - 1, tick);
		play(text);
	}
}

TEST(row17_a_task_cancels_others)
{
	play("in b 1 { new c 0; cancel a; cancel c; cancel d; state c CANCELLED; cancel b = EBUSY }; new d 3600000; "
	     "new b 1;"
	     "new a 1; advance 7200000; ran b 1; ran a 0; ran c 0; ran d 0");
}

TEST(row33_a_cancel_while_it_moves_between_wheels_is_a_cancel)
{
	play("wheel 8; at a 599; at b 600; at c 600; at d 600; at e 600; at f 600; at g 600; at h 600; at i 601; "
	     "advance 1;"
	     "cancel b; walk 512; cancel c; walk 575; cancel d; walk 576; cancel e; walk 591; cancel f; walk 592; "
	     "cancel g;"
	     "walk 599; cancel h; ran a 1; walk 700; ran i 1; stat runs 2; stat cancelled 7");
}

TEST(row34_a_task_inserts_into_the_bucket_that_it_comes_from)
{
	play("wheel 4; in a 9 { new a 4; new b 0; new c 4; cancel c }; new a 4; walk 41; ran a 10; ran b 9; ran c 0");
}

TEST(row01_not_before_its_tick)
{
	play("new a 10-500000; walk 10-1; ran a 0; state a PENDING; walk 10; ran a 1; state a EXPIRED");
}

TEST(row06_at_the_limit_a_task_can_schedule_itself)
{
	play("limit 1; in a 99 { new a 1 }; new a 1; new b 1 = ENOBUFS; walk 100; ran a 100; pending 0");
}

TEST(row08_the_largest_delay_never_runs_and_can_be_cancelled)
{
	play("advance 1000; new a never; at b never; new c never; advance 1100; advance 31536000000; ran a 0; ran b 0;"
	     "cancel a; cancel b; pending 1; advance 31536001000; stop 1; back c never");
}

TEST(row13_edges_of_ticks_and_rounds)
{
	play("wheel 16; at a 1; at b 16; at c 17; at d 63; at e 127; at f 5; at g 5; at h 21; walk 140; at-time a 1;"
	     "at-time b 16; at-time c 17; at-time d 63; at-time e 127; at-time f 5; at-time g 5; at-time h 21;"
	     "at i 3; walk 150; at-time i 141");
}

TEST(row19_what_re_arms_itself_does_not_drift)
{
	play("wheel 8; in a 99 { new a 1000 }; new a 1000; walk 100500; ran a 100; at-time a 100000");
}

TEST(row20_multiples_of_the_span_come_at_their_tick)
{
	play("wheel 8; in a 19 { new a 8 }; new a 8; at b 16; at c 64; at d 512; at e 4096; walk 5000; at-time a 160;"
	     "at-time b 16; at-time c 64; at-time d 512; at-time e 4096");
}

TEST(row30_a_task_cancels_those_due_behind_it_in_its_own_tick)
{
	play("wheel 8; in a 1 { cancel b; cancel c; cancel d; pending 0 }; new a 1; new b 1; new c 1; new d 1; pending "
	     "4;"
	     "walk 20; ran b 0; ran c 0; ran d 0; state b CANCELLED; state d CANCELLED");
}

TEST(row37_a_jump_of_hours_runs_what_is_due_in_order_and_nothing_early)
{
	play("wheel 8; in b 1 { state a PENDING; new d 1000 }; at a 5000000; at b 4000000; at c 9000000; advance 1;"
	     "advance 6000000; ran a 1; ran b 1; advance 6001000-1; ran d 0; advance 6001000; ran d 1; ran c 0;"
	     "advance 6307200000000; ran c 1");
}

TEST(row35_a_stale_handle_cancels_nobody)
{
	play("new A 9; cancel A; advance 1; new b 9; cancel A = ENOENT; move A 1 = ENOENT; state b PENDING; walk 20; "
	     "ran b 1");
}

TEST(row36_to_wait_for_oneself_is_an_error_and_no_deadlock)
{
	play("in a 1 { sync a = EDEADLK; move a 5; sync a = EDEADLK; sync b; sync c = ENOENT }; new b 99; new c 0; "
	     "advance 1;"
	     "new a 3; walk 20; ran a 2; state b CANCELLED");
}

TEST_MAIN()
