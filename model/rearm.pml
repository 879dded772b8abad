/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of the end of a run: a timeout that runs again, the cancel that takes that away, and the waits for the end (worker_slow.c, executor.c,
 * waiters.h, hwt_cancel_sync).  For Spin; run.sh runs it.
 *
 * What is modelled
 *
 *   One timeout that runs up to RUNS times; its task may call hwt_reschedule for itself CALLS times in each run, and
 *   with PERIODIC it runs again anyway.  SYNCS threads call hwt_cancel_sync, CANCELLERS threads call hwt_cancel, one
 *   stops the timer.  The worker runs the task, or with EXECUTOR hands it to a thread of an executor, unless that
 *   refuses.  The steps name functions of src/.
 *
 *   A thread that has changed the word looks whether another waits; a waiter says so, and looks at the word.  Both store first
 *   and load then.  So what a thread stores goes through a buffer, which a process of its own drains when it likes; as
 *   the fences are to hold on any processor, also a read-modify-write that nobody can interfere with goes there: the
 *   counter of those who wait.  Locks, and exchanges that may fail, wait until the buffer is empty.
 *
 *     has_barrier (default)  a waiter calls membarrier: each processor's buffer is emptied at some moment during the
 *                            call.  The system may refuse it, then the wait ends by itself and the waiter looks again.
 *     FENCE                  both sides have a fence.
 *
 *   What is folded into a step, and why that hides nothing:
 *
 *     READY          the hand-over to a job and the begin of the run are one exchange (test/unit_interleave.c has the rest).
 *     the list       of a waiter's record, and the counter of those who wait, are one: both are stored before the fence.
 *     the mutex      of the waiters is taken with the first access under it, and given back with the last.
 *     the wheel      and the unplaced list are the worker's own; that a cancelled record comes out of it by the
 *                    cancelled queue, or when it is due, is one.
 *     handed         is written by the worker, and read when that has gone.
 *     submission     has been: the timeout is in the wheel.
 *
 *   Where the model may do more than the code: it is due at any time, or never again.
 *
 * What is not
 *
 *   Deadlines, queues and memory, the generation: the record serves no other timeout afterwards,
 *   so a waiter sees its last word.  Limits and counters, but that REARMED is counted before a cancel of it; finalisers.
 *
 * Invariants
 *
 *   A1  when hwt_cancel_sync has returned, the task does not run, and never will.
 *   A2  one end: the last run, one cancel that returns 0, or stop; when all is over there has been one, and stop leaves
 *       nothing that is pending.
 *   A3  when stop goes on from waiting for the jobs, and ever after, no job touches anything of the timer (J1).
 *   A4  no lost wake-up: a waiter that sleeps until a wake waits for something that is to come.
 *   A5  after a cancel that returned EBUSY no further run begins.
 *   A6  one that runs again is counted before a cancel of it is.
 *
 *   And no process is stuck before its end.
 *
 * Planted faults, each of which must be found
 *
 *   RETURN_AFTER_BUSY     hwt_cancel_sync does not wait when its cancel has returned EBUSY.
 *   RETURN_AFTER_0        it does not look whether there is a run when its cancel has returned 0.
 *   LAST_UNSAID           a cancel returns EBUSY, and leaves the word as it is.
 *   LAST_OVERLOOKED       the task does not look for LAST before it sets REARMED.
 *   CANCEL_IN_A_MOVE      a cancel does not wait for RESCHEDULING: what it writes is lost.
 *   AGAIN_BLINDLY         the task sets REARMED without looking at the word.  With PERIODIC.
 *   AGAIN_STORED          it looks whether it was cancelled, and stores what it saw with REARMED.  With PERIODIC.
 *   AGAIN_UNCOUNTED       it sets REARMED, and counts that afterwards.
 *   END_BY_STORE          the end of a run sees REARMED and stores ARMED, or QUEUED.
 *   DROPPED_OVERLOOKED    one that was cancelled while it ran ends as one that has expired.
 *   LAST_DROPS            one whose cancel returned EBUSY ends as cancelled.
 *   AGAIN_STAYS           a cancel sets DROPPED and leaves REARMED.
 *   STACK_FORGOTTEN       stop does not look at the stack.  With EXECUTOR.
 *   FINISH_BEFORE_PUSH    a job counts as finished before it pushes on the stack.  With EXECUTOR.
 *   STOP_BEFORE_JOBS      stop does not wait for jobs.  With EXECUTOR.
 *   NO_BARRIER            a waiter does not call membarrier.
 *   NO_WAITER_FENCE       a waiter has no fence.  With FENCE.
 *   NO_END_FENCE          the end of the run has none.  With FENCE.
 *   WAIT_WITHOUT_END      a waiter sleeps without end though membarrier was refused.
 *   TELL_UNLOCKED         the broadcast without the mutex.
 *   TELL_ONE              one of those who wait is told.  With two.
 *   FINISH_UNLOCKED       finished is counted without the mutex.  With EXECUTOR.
 */
#ifndef SYNCS /* 1 or 2 */
#define SYNCS 1
#endif
#ifndef CANCELLERS /* 0 or 1 */
#define CANCELLERS 1
#endif
#ifndef RUNS
#define RUNS 2
#endif
#ifndef CALLS /* in each run */
#define CALLS 1
#endif

/* The state word: flags | state. */
#define QUEUED 1
#define ARMED 2
#define RUNNING 3
#define EXPIRED 4
#define CANCELLED 5
#define REARMED 8
#define DROPPED 16
#define LAST 32
#define RESCHEDULING 64
#define STATE(w) ((w) & 7)
#define WITH_STATE(w, s) (((w) & ~7) | (s))
#define HAS(w, flag) (((w) & (flag)) != 0)
#define IS_PENDING(w) (STATE(w) == QUEUED || STATE(w) == ARMED)

#ifdef PERIODIC
#define BEGUN (RUNNING | REARMED)
#else
#define BEGUN RUNNING
#endif

/* Threads with a buffer: the worker, the executor's, those who wait.  Stop sleeps, too. */
#define WORKER 0
#define JOB 1
#define SYNC(n) (2 + (n))
#define STOP (2 + SYNCS)

/* What a buffered store writes. */
#define SET_WORD 1
#define SET_WAITING 2

byte word = ARMED;
byte waiting;
bit mutex;            /* of the waiters */
bit jobs_mutex;       /* of the jobs */
bit asleep[STOP + 1]; /* in its condition variable */
bit timed[STOP + 1];  /* but not for long */

bit in_wheel = 1; /* the worker's */
bit on_stack;
bit job; /* given to the executor */
byte handed, finished;
bit worker_gone;

chan buffer[STOP] = [1] of { byte, byte };

/* Ghosts. */
byte runs; /* begun */
byte ends;
bit in_task;     /* from the edge run until the task has returned */
bit to_tell[2];  /* between a change of the word and the look whether somebody waits for it */
bit job_at_work; /* from hand_over to the end of finish */
bit returned;    /* a hwt_cancel_sync has */
bit was_busy;    /* a cancel has returned EBUSY */
byte agains;     /* counted: REARMED set */
byte drops;      /* REARMED taken away by a cancel */
byte over;       /* threads that are through */

/* By their names Spin's message tells which invariant has failed.  ONLY=A1: no other is looked at. */
#ifdef ONLY
#define OFF 1
#else
#define OFF 0
#endif
hidden byte A1 = OFF, A2 = OFF, A3 = OFF, A4 = OFF, A5 = OFF, A6 = OFF;

inline ended()
{
	d_step {
		ends++;
		assert(A2 || ends == 1)
	}
}

/* A processor's store buffer. */
proctype memory(byte owner)
{
	byte what, value;

end:
	do
	:: atomic {
		buffer[owner]?what,value ->
		if
		:: what == SET_WORD -> word = value
		:: what == SET_WAITING -> waiting++
		fi;
		what = 0;
		value = 0
	}
	od
}

/* record_edge, record_change: won, or seen is brought up to date */
inline change(to)
{
	d_step {
		won = word == seen;
		if
		:: won -> word = to
		:: else -> seen = word
		fi
	}
}

/* pthread_cond_broadcast; or pthread_cond_signal */
inline broadcast()
{
	d_step {
#ifdef TELL_ONE
		if
		:: asleep[SYNC(0)] -> asleep[SYNC(0)] = 0
		:: else -> asleep[SYNC(1)] = 0
		fi
#else
		asleep[SYNC(0)] = 0;
		asleep[SYNC(SYNCS - 1)] = 0
#endif
	}
}

#ifdef TELL_UNLOCKED
#define MAY_TELL true
#else
#define MAY_TELL (!mutex)
#endif

/* waiters_look: fence_between; the list; the broadcast */
inline waiters_look()
{
#if defined(FENCE) && !defined(NO_END_FENCE)
	empty(buffer[me]);
#endif
	if
	:: atomic {
		waiting == 0 ->
		to_tell[me] = 0
	}
	:: waiting != 0 ->
		atomic {
			empty(buffer[me]) && MAY_TELL ->
			broadcast();
			to_tell[me] = 0
		}
	fi
}

/* hwt_lane_rearm: what is said of a word without REARMED */
#if defined(AGAIN_BLINDLY)
#define IS_REFUSED false
#elif defined(LAST_OVERLOOKED)
#define IS_REFUSED HAS(seen, DROPPED)
#else
#define IS_REFUSED HAS(seen, DROPPED | LAST)
#endif
/* No second one */
#if defined(AGAIN_BLINDLY) || defined(AGAIN_STORED)
#define IS_AGAIN_ALREADY false
#else
#define IS_AGAIN_ALREADY HAS(seen, REARMED)
#endif

/* That of a periodic one finds REARMED or DROPPED. */
#if !defined(PERIODIC) || defined(AGAIN_BLINDLY) || defined(AGAIN_STORED)
#define SETS_AGAIN
#endif

/* The task, at `call`. */
inline task()
{
	if
	/* hwt_lane_rearm: record_word */
	:: atomic {
		calls < CALLS && empty(buffer[me]) ->
		calls++;
#ifndef SETS_AGAIN
		seen = 0
	}
#else
		seen = word
	}
arming:
		atomic {
			if
			:: IS_REFUSED || IS_AGAIN_ALREADY ->
				seen = 0;
				goto call
			:: else
			fi
		}
#if defined(AGAIN_BLINDLY) || defined(AGAIN_STORED)
		/* Without an exchange */
		atomic {
#ifdef AGAIN_BLINDLY
			word = word | REARMED;
#else
			word = seen | REARMED;
#endif
			seen = 0
		}
#else
		/* record_change: RESCHEDULING */
		atomic {
			change(seen | RESCHEDULING);
			if
			:: won -> won = 0
			:: else -> goto arming
			fi
		}
#ifndef AGAIN_UNCOUNTED
		/* rearmed_count */
		agains++;
#endif
		/* REARMED instead of RESCHEDULING: a plain store */
		atomic {
			buffer[me]!SET_WORD,(seen | REARMED);
			seen = 0
		}
#ifdef AGAIN_UNCOUNTED
		empty(buffer[me]);
		agains++;
#endif
#endif
#endif
		goto call
	:: atomic {
		true ->
		calls = 0;
		in_task = 0
	}
	fi
}

#if defined(DROPPED_OVERLOOKED)
#define END EXPIRED
#elif defined(LAST_DROPS)
#define END (HAS(seen, DROPPED | LAST) -> CANCELLED : EXPIRED)
#else
#define END (HAS(seen, DROPPED) -> CANCELLED : EXPIRED)
#endif

/* record_finish, record_end: seen is the state that it comes to */
inline end_of_run(again)
{
	atomic {
		empty(buffer[me]) ->
		seen = word
	}
ending:
	if
	:: atomic {
		HAS(seen, REARMED) ->
#ifdef END_BY_STORE
		word = again;
		won = 1;
#else
		change(again);
#endif
		if
		:: won ->
			won = 0;
			seen = again;
			to_tell[me] = 1
		:: else -> goto ending
		fi
	}
	:: atomic {
		!HAS(seen, REARMED) ->
		seen = END;
		buffer[me]!SET_WORD,seen;
		to_tell[me] = 1;
		if
		:: seen == EXPIRED -> ended()
		:: else
		fi
	}
	fi
}

proctype worker()
{
	byte seen, calls;
	bit won;
	byte me = WORKER;

work:
	if
	/* hwt_worker_pass: collected; record_run: record_word.  A cancelled one is dropped. */
	:: atomic {
		in_wheel && runs < RUNS ->
		in_wheel = 0;
		seen = word;
		if
		:: STATE(seen) == ARMED -> goto run_it
		:: else ->
			seen = 0;
			goto work
		fi
	}
#ifdef EXECUTOR
	/* transfer_rearmed: stack_take_all; record_arm: record_word */
	:: atomic {
		on_stack ->
		on_stack = 0;
		seen = word;
		if
		:: STATE(seen) == QUEUED -> goto arm
		:: else ->
			seen = 0;
			goto work
		fi
	}
#endif
	/* hwt_worker_run: stop_requested */
	:: atomic {
		empty(buffer[me]) ->
		worker_gone = 1;
		goto done
	}
	fi;

#ifdef EXECUTOR
	/* record_arm: record_edge; hwt_wheel_place */
arm:
	atomic {
		change(ARMED);
		in_wheel = won;
		won = 0;
		seen = 0;
		goto work
	}
#endif

	/* record_run, begin_slow: record_change */
run_it:
	atomic {
		empty(buffer[me]) ->
		change(BEGUN);
		seen = 0;
		if
		:: won ->
			won = 0;
			runs++;
			in_task = 1;
			assert(A1 || !returned);
			assert(A5 || !was_busy)
		:: else -> goto work
		fi
	}
#ifdef EXECUTOR
	/* hwt_tasks_execute; refused: here */
	if
	:: atomic {
		true ->
		handed++;
		job = 1;
		job_at_work = 1;
		goto work
	}
	:: true
	fi;
#endif
call:
	task();
	end_of_run(ARMED);
	waiters_look();
	/* end_other: hwt_wheel_postpone, lane_return */
	atomic {
		in_wheel = seen == ARMED;
		seen = 0;
		goto work
	}

done:
	skip
}

#ifdef FINISH_UNLOCKED
#define MAY_FINISH true
#else
#define MAY_FINISH (!jobs_mutex)
#endif

/* run_job: finished */
inline finish()
{
	atomic {
		empty(buffer[me]) && MAY_FINISH ->
		finished++;
		asleep[STOP] = 0;
#ifndef FINISH_BEFORE_PUSH
		job_at_work = 0
#endif
	}
}

#ifdef EXECUTOR
/* tasks.c: run_job */
proctype executor()
{
	byte seen, calls;
	bit won;
	byte me = JOB;

end:
	do
	:: atomic {
		job ->
		job = 0
	}
call:
		task();
		end_of_run(QUEUED);
#ifdef FINISH_BEFORE_PUSH
		finish();
#endif
		/* hwt_lanes_push_rearmed: stack_push; or returned_push */
		atomic {
			empty(buffer[me]) ->
			if
			:: seen == QUEUED -> on_stack = 1
			:: else
			fi;
			seen = 0
		}
		waiters_look();
#ifdef FINISH_BEFORE_PUSH
		job_at_work = 0
#else
		finish()
#endif
	od
}
#endif

#ifdef AGAIN_STAYS
#define WITHOUT_AGAIN (seen | DROPPED)
#else
#define WITHOUT_AGAIN ((seen & ~REARMED) | DROPPED)
#endif
#define IS_AGAIN(w) (STATE(w) == RUNNING && HAS(w, REARMED) && !HAS(w, DROPPED))

#ifdef CANCEL_IN_A_MOVE
#define IS_MOVING(w) false
#else
#define IS_MOVING(w) HAS(w, RESCHEDULING)
#endif
#define MAY_LOOK (!IS_MOVING(word))
/* A periodic one has REARMED or DROPPED. */
#define IS_UNTOLD(w) (STATE(w) == RUNNING && !IS_MOVING(w) && !HAS(w, REARMED | DROPPED | LAST))

/* EBUSY, or ENOENT */
inline too_late()
{
	d_step {
		busy = STATE(seen) == RUNNING && !HAS(seen, DROPPED);
		was_busy = was_busy || busy
	}
}

/* One edge, and the end of all if it is won. */
inline cancel_edge(to)
{
	change(to);
	if
	:: won ->
		won = 0;
		cancelled = 1;
		ended()
	:: else -> goto looked
	fi
}

/* hwt_lane_cancel: busy if it is EBUSY, cancelled if it is 0, neither if it is ENOENT */
inline cancel()
{
	atomic {
		MAY_LOOK ->
		seen = word
	}
looked:
	if
#ifndef CANCEL_IN_A_MOVE
	/* hwt_record_await_mover */
	:: atomic {
		IS_MOVING(seen) && MAY_LOOK ->
		seen = word;
		goto looked
	}
#endif
	:: atomic {
		!IS_MOVING(seen) && IS_PENDING(seen) ->
		cancel_edge(WITH_STATE(seen, CANCELLED))
	}
	:: atomic {
		!IS_MOVING(seen) && IS_AGAIN(seen) ->
		cancel_edge(WITHOUT_AGAIN);
#ifndef PERIODIC
		drops++;
		assert(A6 || drops <= agains)
#endif
	}
#if !defined(LAST_UNSAID) && !defined(PERIODIC)
	/* record_change: LAST */
	:: atomic {
		IS_UNTOLD(seen) ->
		change(seen | LAST);
		if
		:: won ->
			won = 0;
			too_late()
		:: else -> goto looked
		fi
	}
	:: atomic {
		!IS_MOVING(seen) && !IS_PENDING(seen) && !IS_AGAIN(seen) && !IS_UNTOLD(seen) ->
		too_late()
	}
#else
	:: atomic {
		!IS_MOVING(seen) && !IS_PENDING(seen) && !IS_AGAIN(seen) ->
		too_late()
	}
#endif
	fi;
	seen = 0
}

#if CANCELLERS > 0
proctype canceller()
{
	byte seen;
	bit won, busy, cancelled;

	cancel();
	over++
}
#endif

/* waiters.c: runs */
#define RUNS_ON (STATE(word) == RUNNING)

/* hwt_cancel_sync */
proctype sync(byte me)
{
	byte seen;
	bit won, busy, cancelled, refused;

	cancel();
#ifdef RETURN_AFTER_0
	if
	:: cancelled -> goto through
	:: else
	fi;
#endif
#ifdef RETURN_AFTER_BUSY
	if
	:: busy -> goto through
	:: else
	fi;
#endif
	/* is_running */
	if
	:: STATE(word) == RUNNING
	:: STATE(word) != RUNNING -> goto waited
	fi;

	/* hwt_waiters_wait: waiting, hwt_idle_fence_all */
	buffer[me]!SET_WAITING,0;
#ifndef NO_WAITER_FENCE
	empty(buffer[me]);
#endif
#if !defined(FENCE) && !defined(NO_BARRIER)
	if
	:: empty(buffer[WORKER]);
		empty(buffer[JOB])
	:: refused = 1
	fi;
#endif
	/* hwt_waiters_wait: under the mutex */
look:
	atomic {
		!mutex ->
		if
		:: RUNS_ON -> mutex = 1
		:: else -> goto told
		fi
	}
	/* hwt_monitor_wait */
	atomic {
		empty(buffer[me]) ->
		mutex = 0;
		asleep[me] = 1;
#ifndef WAIT_WITHOUT_END
		timed[me] = refused
#endif
	}
	atomic {
		!asleep[me] || timed[me] ->
		asleep[me] = 0;
		timed[me] = 0;
		goto look
	}
told:
	atomic {
		empty(buffer[me]) ->
		waiting--;
		refused = 0
	}

waited:
	/* 0, or ENOENT */
through:
	atomic {
		assert(A1 || !in_task);
		returned = 1;
		over++
	}
}

proctype stopper()
{
	/* end_passes */
	worker_gone;
#if defined(EXECUTOR) && !defined(STOP_BEFORE_JOBS)
	/* hwt_tasks_join */
look:
	atomic {
		!jobs_mutex ->
		if
		:: finished != handed -> jobs_mutex = 1
		:: else -> goto waited
		fi
	}
	atomic {
		jobs_mutex = 0;
		asleep[STOP] = 1
	}
	atomic {
		!asleep[STOP] ->
		goto look
	}
#endif

waited:
	assert(A3 || !job_at_work);
	/* give_back_rest: hwt_worker_next_unprocessed, record_give_back as often as it takes */
	atomic {
		if
#ifndef STACK_FORGOTTEN
		:: (in_wheel || on_stack) && IS_PENDING(word) ->
#else
		:: in_wheel && IS_PENDING(word) ->
#endif
			word = WITH_STATE(word, CANCELLED) | DROPPED;
			ended()
		:: else
		fi;
		assert(A2 || !IS_PENDING(word));
		in_wheel = 0;
		on_stack = 0;
		over++
	}
}

#define NONE_BUFFERED                                                                                                  \
	(empty(buffer[WORKER]) && empty(buffer[JOB]) && empty(buffer[SYNC(0)]) && empty(buffer[SYNC(SYNCS - 1)]))
#define QUIET (!to_tell[WORKER] && !to_tell[JOB] && NONE_BUFFERED)
#define SLEEPS(t) (asleep[t] && !timed[t])

/* These steps can be taken only where an invariant is broken. */
proctype monitor()
{
end:
	if
	:: atomic {
		QUIET && !RUNS_ON && (SLEEPS(SYNC(0)) || SLEEPS(SYNC(SYNCS - 1))) ->
		assert(A4)
	}
	:: atomic {
		QUIET && finished == handed && SLEEPS(STOP) ->
		assert(A4)
	}
	fi
}

init
{
	atomic {
#ifdef ONLY
		ONLY = 0;
#endif
		run memory(WORKER);
#ifdef EXECUTOR
		run memory(JOB);
		run executor();
#endif
		run memory(SYNC(0));
		run sync(SYNC(0));
#if SYNCS == 2
		run memory(SYNC(1));
		run sync(SYNC(1));
#endif
#if CANCELLERS > 0
		run canceller();
#endif
		run worker();
		run stopper();
		run monitor()
	}
	/* All is over. */
	d_step {
		over == SYNCS + CANCELLERS + 1 ->
		assert(A2 || ends == 1)
	}
}
