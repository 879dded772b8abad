/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of READY: timeouts that are due and wait for a task thread (ready.c, tasks.c, worker_slow.c, stop.c).  For Spin; run.sh runs it.
 *
 * What is modelled
 *
 *   RECORDS timeouts, due at tick 0, and in the wheel.  One worker hands them over, sweeps the queue, and takes in what comes back; THREADS task
 *   threads take, start, send back and end; a mover makes MOVES moves of any of them, a canceller CANCELS cancels; one thread stops the timer.  The
 *   worker raises the tick as it likes, and a deadline is a tick.  The steps name functions of src/.
 *
 *   One step is one access to something that others may change meanwhile.  What is folded into a step, and why that hides nothing:
 *
 *     the mutex      of the queue is held for one look at it, and to sleep gives it back.  A signal comes after the unlock, as in hwt_ready_put.
 *     waiting        for the thread that sets RESCHEDULING: one step, when RESCHEDULING has gone.
 *     the deadline   of one that is RESCHEDULING nobody else writes.
 *     the worker's   wheel, batch and chain are its own.  A cancel of an armed one pushes it in the step of its exchange, under the lock.
 *     stop           is set at some moment and read by the worker alone: it may go wherever it looks.
 *
 *   Where the model may do more than the code: a thread takes any record of the queue; the worker sweeps whenever it has put something; a thread may
 *   give up before its last call.
 *
 * What is not
 *
 *   Memory order: steps are sequentially consistent.  An earlier deadline of an armed timeout (reschedule.pml), what follows a run (rearm.pml), other
 *   lives of a record and queues of lanes (word.pml); marks and statistics; a wall clock that is set back.
 *
 * Invariants
 *
 *   Q1  never early: when a task starts, the deadline in force is not after the tick, and nobody is in the middle of a move.
 *   Q2  one end: a run, one cancel that returns 0, or stop; when all is over, each timeout has had it.
 *   Q3  a record goes home once, when its timeout has ended, and when neither wheel, queue nor stack has it (R1).
 *   Q4  when stop gives back, and ever after, no thread is between hwt_ready_take and the end of a run (T4).
 *   Q5  a deadline is written while the timeout is pending (R4).
 *   Q6  no lost wake-up: a thread sleeps only while the queue is open, and threads enough are on their way to what it holds (T3).
 *
 *   And no process is stuck before its end.
 *
 * Planted faults, each of which must be found
 *
 *   START_BY_STORE        a thread looks whether it is READY, and stores RUNNING.
 *   START_UNLOOKED        it does not look at the deadline of one that has been moved.
 *   START_UNSEEN          it reads the deadline and makes one exchange: a later move in between brings back the same word.
 *   MOVER_OVERLOOKED      it does not wait for a mover.
 *   SEND_BACK_BY_STORE    it stores QUEUED when it sends one back.
 *   CANCEL_PUSHES         a cancel of a READY one pushes it on the cancelled queue.
 *   SWEEP_BLINDLY         the worker takes one out of the queue that was not cancelled.
 *   STOP_BEFORE_JOIN      stop does not wait for the task threads.
 *   STOP_LEAVES_QUEUE     stop does not look at their queue.
 *   STOP_LEAVES_STACK     stop does not look at the stack.
 *   GIVE_BACK_IN_A_MOVE   stop does not wait for RESCHEDULING.
 *   WAKE_ONE              the worker wakes one thread, however many records it has put.
 *   SLEEP_UNLOCKED        a thread gives the mutex back between its look and its sleep.
 *   CLOSE_SILENTLY        stop closes the queue, and wakes nobody.
 */
#ifndef RECORDS /* 1 or 2 */
#define RECORDS 2
#endif
#ifndef THREADS /* 1 or 2 */
#define THREADS 2
#endif
#ifndef MOVES
#define MOVES 1
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#ifndef TICKS
#define TICKS 1
#endif

/* The state word: flags | state. */
#define QUEUED 1
#define ARMED 2
#define RUNNING 3
#define EXPIRED 4
#define CANCELLED 5
#define READY 7
#define RESCHEDULED 8
#define RESCHEDULING 16
#define RESCHEDULE_SEEN 32
#define STATE(w) ((w) & 7)
#define WITH_STATE(w, s) (((w) & ~7) | (s))
#define HAS(w, flags) (((w) & (flags)) != 0)
#define IS_PENDING(w) (STATE(w) == QUEUED || STATE(w) == ARMED || STATE(w) == READY)

/* Where a record is. */
#define WHEEL 1
#define BATCH 2
#define CHAIN 4
#define QUEUE 8
#define HANDS 16 /* of a task thread */
#define STACK 32
#define CANCEL_QUEUE 64
#define HOME 128

byte word[RECORDS] = ARMED;
byte deadline[RECORDS];
byte place[RECORDS]; /* the tick at which the wheel has it */
byte where[RECORDS] = WHEEL;
byte tick;
bit closed, stop, worker_gone;
byte sleeping; /* of the queue: threads that wait, or have been woken and do not have the mutex yet */
bit asleep[THREADS];

/* Ghosts. */
byte ends[RECORDS];
byte length;  /* of the queue */
byte looking; /* threads on their way to look into it */
byte at_work; /* threads between take and the end of a run */
byte gone;    /* task threads */
byte over;    /* mover, canceller and stop */
bit waking;   /* the worker has put something, and not yet woken anybody */

/* By their names Spin's message tells which invariant has failed.  ONLY=Q1: no other is looked at. */
#ifdef ONLY
#define OFF 1
#else
#define OFF 0
#endif
hidden byte Q1 = OFF, Q2 = OFF, Q3 = OFF, Q4 = OFF, Q5 = OFF, Q6 = OFF;

#define ENTER(r, list) where[r] = where[r] | (list)
#define LEAVE(r, list) where[r] = where[r] & ~(list)

/* Chooses a record. */
inline any(r)
{
#if RECORDS == 2
	if
	:: r = 0
	:: r = 1
	fi
#else
	r = 0
#endif
}

/* Chooses one that is in `list`; cannot be taken if there is none. */
inline any_in(r, list)
{
	if
	:: HAS(where[0], list) -> r = 0
#if RECORDS == 2
	:: HAS(where[1], list) -> r = 1
#endif
	fi
}

/* The same of one that is due. */
#define IS_DUE(r) (HAS(where[r], WHEEL) && place[r] <= tick)
inline any_due(r)
{
	if
	:: IS_DUE(0) -> r = 0
#if RECORDS == 2
	:: IS_DUE(1) -> r = 1
#endif
	fi
}

inline ended(r)
{
	d_step {
		ends[r]++;
		assert(Q2 || ends[r] == 1)
	}
}

/* lane_return, hwt_handback_return, by the one that has it in `list` */
inline home(r, list)
{
	d_step {
		LEAVE(r, list);
		assert(Q3 || (where[r] == 0 && !IS_PENDING(word[r]) && STATE(word[r]) != RUNNING));
		ENTER(r, HOME)
	}
}

/* record_edge, record_change: won, or seen is brought up to date */
inline change(r, to)
{
	d_step {
		won = word[r] == seen;
		if
		:: won -> word[r] = to
		:: else -> seen = word[r]
		fi
	}
}

inline postpone(r, at)
{
	LEAVE(r, BATCH);
	place[r] = at;
	ENTER(r, WHEEL)
}

/* One that is asleep wakes up: pthread_cond_signal */
inline signal()
{
	if
	:: asleep[0] ->
		asleep[0] = 0;
		looking++
#if THREADS == 2
	:: asleep[1] ->
		asleep[1] = 0;
		looking++
	:: !asleep[0] && !asleep[1]
#else
	:: !asleep[0]
#endif
	fi
}

proctype worker()
{
	byte r, seen, chain, wakes;
	bit won;

pass:
	if
	:: atomic {
		tick < TICKS ->
		tick++;
		goto pass
	}
	/* transfer_rearmed: stack_take_all; record_arm: record_word */
	:: atomic {
		any_in(r, STACK);
		LEAVE(r, STACK);
		ENTER(r, BATCH);
		seen = word[r]
	}
		goto arm
	/* cancel_batch: hwt_wheel_remove, lane_return */
	:: atomic {
		any_in(r, CANCEL_QUEUE);
		LEAVE(r, CANCEL_QUEUE | WHEEL);
		home(r, 0);
		goto pass
	}
	/* hand_over: hwt_wheel_collect; begin_slow: record_word */
	:: atomic {
		any_due(r);
		LEAVE(r, WHEEL);
		ENTER(r, BATCH);
		seen = word[r]
	}
		goto begin
	:: atomic {
		chain > 0 ->
		skip
	}
		goto put
	/* worker_has_to_stop.  The chain has been put: hand_over does not look for a stop. */
	:: atomic {
		stop && chain == 0 ->
		worker_gone = 1;
		goto done
	}
	fi;

arm:
	if
	:: atomic {
		STATE(seen) == QUEUED ->
		change(r, WITH_STATE(seen, ARMED));
		if
		:: won -> won = 0
		:: else -> goto arm
		fi
	}
	:: atomic {
		STATE(seen) != QUEUED -> /* cancelled while it was there */
		home(r, BATCH);
		seen = 0;
		goto pass
	}
	fi;
	/* is_to_be_placed: RESCHEDULED, and postponed; or hwt_wheel_place */
	atomic {
		if
		:: HAS(seen, RESCHEDULING) ->
			word[r] = word[r] | RESCHEDULED;
			postpone(r, tick + 1)
		:: else -> postpone(r, deadline[r])
		fi;
		seen = 0;
		goto pass
	}

begin:
	if
	:: atomic {
		STATE(seen) != ARMED -> /* drop_cancelled: the canceller has pushed it */
		LEAVE(r, BATCH);
		seen = 0;
		goto pass
	}
	:: atomic {
		STATE(seen) == ARMED && HAS(seen, RESCHEDULED) && !HAS(seen, RESCHEDULING | RESCHEDULE_SEEN) ->
		change(r, seen | RESCHEDULE_SEEN);
		if
		:: won ->
			won = 0;
			seen = seen | RESCHEDULE_SEEN
		:: else
		fi;
		goto begin
	}
	:: atomic {
		STATE(seen) == ARMED && HAS(seen, RESCHEDULING) ->
		postpone(r, tick + 1);
		seen = 0;
		goto pass
	}
	:: atomic {
		STATE(seen) == ARMED && !HAS(seen, RESCHEDULING) && (!HAS(seen, RESCHEDULED) || HAS(seen, RESCHEDULE_SEEN)) ->
		if
		:: deadline[r] > tick ->
			postpone(r, deadline[r]);
			seen = 0;
			goto pass
		:: else
		fi
	}
	fi;
	/* the edge hand_over; ready_chain_append */
	atomic {
		change(r, WITH_STATE(seen, READY));
		if
		:: won ->
			won = 0;
			seen = 0;
			LEAVE(r, BATCH);
			ENTER(r, CHAIN);
			chain++;
			goto pass
		:: else -> goto begin
		fi
	}

put:
	/* hwt_ready_put, under the mutex; sweep */
	atomic {
		for (r : 0 .. RECORDS - 1) {
			if
			:: HAS(where[r], CHAIN) ->
				LEAVE(r, CHAIN);
				ENTER(r, QUEUE);
				length++
			:: else
			fi
		}
		r = 0;
		if
		:: true
		:: for (r : 0 .. RECORDS - 1) {
				if
#ifdef SWEEP_BLINDLY
				:: HAS(where[r], QUEUE) ->
#else
				:: HAS(where[r], QUEUE) && STATE(word[r]) != READY ->
#endif
					length--;
					home(r, QUEUE)
				:: else
				fi
			}
			r = 0
		fi;
#ifdef WAKE_ONE
		wakes = (sleeping > 0 -> 1 : 0);
#else
		wakes = (chain < sleeping -> chain : sleeping);
#endif
		chain = 0;
		waking = wakes > 0
	}
	/* wake */
	do
	:: atomic {
		wakes > 0 ->
		signal();
		wakes--;
		waking = wakes > 0
	}
	:: wakes == 0 -> goto pass
	od;
done:
	skip
}

proctype task_thread(byte me)
{
	byte r, seen, now;
	bit won;

	/* hwt_ready_take, under the mutex */
take:
	if
	:: atomic {
		closed ->
		looking--;
		gone++;
		goto done
	}
	:: atomic {
		!closed && length > 0 ->
		any_in(r, QUEUE);
		LEAVE(r, QUEUE);
		ENTER(r, HANDS);
		length--;
		looking--;
		at_work++
	}
		goto begin
	:: atomic {
		!closed && length == 0 ->
#ifndef SLEEP_UNLOCKED
		looking--;
		sleeping++;
		asleep[me] = 1
#endif
	}
	fi;
#ifdef SLEEP_UNLOCKED
	atomic {
		looking--;
		sleeping++;
		asleep[me] = 1
	}
#endif
	atomic {
		!asleep[me] ->
		sleeping--;
		goto take
	}

begin:
	/* moment: the clock; start: record_word */
	now = tick;
	seen = word[r];

start:
	if
	:: atomic {
		STATE(seen) != READY -> /* cancelled: hwt_handback_return */
		home(r, HANDS);
		goto leave
	}
#ifndef MOVER_OVERLOOKED
	/* hwt_record_await_mover */
	:: atomic {
		STATE(seen) == READY && HAS(seen, RESCHEDULING) && !HAS(word[r], RESCHEDULING) ->
		seen = word[r]
	}
		goto start
#endif
#ifndef START_UNSEEN
	:: atomic {
		STATE(seen) == READY && HAS(seen, RESCHEDULED) && !HAS(seen, RESCHEDULING | RESCHEDULE_SEEN) ->
		change(r, seen | RESCHEDULE_SEEN);
		if
		:: won ->
			won = 0;
			seen = seen | RESCHEDULE_SEEN
		:: else
		fi;
		goto start
	}
#define MAY_LOOK(w) (!HAS(w, RESCHEDULED) || HAS(w, RESCHEDULE_SEEN))
#else
#define MAY_LOOK(w) true
#endif
#ifdef MOVER_OVERLOOKED
	:: atomic {
		STATE(seen) == READY && (HAS(seen, RESCHEDULING) || MAY_LOOK(seen)) ->
#else
	:: atomic {
		STATE(seen) == READY && !HAS(seen, RESCHEDULING) && MAY_LOOK(seen) ->
#endif
#ifndef START_UNLOOKED
		if
		:: deadline[r] > now -> goto back
		:: else
		fi
#endif
	}
	fi;

	/* the edge start */
	atomic {
#ifdef START_BY_STORE
		word[r] = WITH_STATE(seen, RUNNING);
		won = 1;
#else
		change(r, WITH_STATE(seen, RUNNING));
#endif
		if
		:: won ->
			won = 0;
			assert(Q1 || (deadline[r] <= tick && !HAS(word[r], RESCHEDULING)))
		:: else -> goto start
		fi
	}
	/* the task; end: record_end */
	atomic {
		word[r] = EXPIRED;
		ended(r)
	}
	atomic {
		home(r, HANDS);
		goto leave
	}

back:
	/* send_back: record_change */
	atomic {
#ifdef SEND_BACK_BY_STORE
		word[r] = QUEUED | RESCHEDULING;
		won = 1;
#else
		change(r, QUEUED | RESCHEDULING);
#endif
		if
		:: won -> won = 0
		:: else -> goto start
		fi
	}
	/* hwt_lanes_push_rearmed: stack_push; record_end_reschedule */
	atomic {
		LEAVE(r, HANDS);
		ENTER(r, STACK)
	}
	word[r] = word[r] & ~RESCHEDULING;

leave:
	atomic {
		r = 0;
		seen = 0;
		now = 0;
		at_work--;
		looking++;
		goto take
	}
done:
	skip
}

proctype mover()
{
	byte r, seen, to, moves;
	bit won;

	do
	:: atomic {
		moves < MOVES ->
		moves++;
		any(r);
		seen = word[r];
		if
		:: to = 0
		:: to = TICKS
		fi
	}
		/* hwt_lane_reschedule: look, begin.  Of an armed one only a later deadline. */
look:
		atomic {
			if
			:: !IS_PENDING(seen) || (STATE(seen) == ARMED && to < deadline[r]) -> goto next
			:: else
			fi
		}
		atomic {
			!HAS(seen, RESCHEDULING) || !HAS(word[r], RESCHEDULING) ->
			if
			:: HAS(seen, RESCHEDULING) ->
				seen = word[r];
				goto look
			:: else
			fi
		}
		atomic {
			change(r, (seen & ~RESCHEDULE_SEEN) | RESCHEDULED | RESCHEDULING);
			if
			:: won -> won = 0
			:: else -> goto look
			fi
		}
		/* record_set_deadline */
		atomic {
			assert(Q5 || IS_PENDING(word[r]));
			deadline[r] = to
		}
		/* record_end_reschedule; or the store for an ARMED one */
		atomic {
			assert(Q5 || IS_PENDING(word[r]));
			if
			:: STATE(seen) == ARMED -> word[r] = (seen & ~RESCHEDULE_SEEN) | RESCHEDULED
			:: else -> word[r] = word[r] & ~RESCHEDULING
			fi
		}
next:
		atomic {
			r = 0;
			seen = 0;
			to = 0
		}
	:: atomic {
		true ->
		over++;
		break
	}
	od
}

proctype canceller()
{
	byte r, seen, cancels;
	bit won;

	do
	:: atomic {
		cancels < CANCELS ->
		cancels++;
		any(r);
		seen = word[r]
	}
		/* hwt_lane_cancel: cancel_queued, cancel_ready, cancel_armed */
look:
		atomic {
			if
			:: !IS_PENDING(seen) -> goto next
			:: else
			fi
		}
		atomic {
			!HAS(seen, RESCHEDULING) || !HAS(word[r], RESCHEDULING) ->
			if
			:: HAS(seen, RESCHEDULING) ->
				seen = word[r];
				goto look
			:: else
			fi
		}
		atomic {
			change(r, WITH_STATE(seen, CANCELLED));
			if
			:: won ->
				won = 0;
				ended(r);
				if
#ifdef CANCEL_PUSHES
				:: STATE(seen) == ARMED || STATE(seen) == READY -> ENTER(r, CANCEL_QUEUE)
#else
				:: STATE(seen) == ARMED -> ENTER(r, CANCEL_QUEUE)
#endif
				:: else
				fi
			:: else -> goto look
			fi
		}
next:
		atomic {
			r = 0;
			seen = 0
		}
	:: atomic {
		true ->
		over++;
		break
	}
	od
}

#ifdef STOP_LEAVES_QUEUE
#define IS_FOUND(r) HAS(where[r], WHEEL | BATCH | STACK)
#elif defined(STOP_LEAVES_STACK)
#define IS_FOUND(r) HAS(where[r], WHEEL | BATCH | QUEUE)
#else
#define IS_FOUND(r) HAS(where[r], WHEEL | BATCH | QUEUE | STACK)
#endif

proctype stopper()
{
	byte r, seen;
	bit won;

	/* hwt_tasks_stop: hwt_ready_close, with a broadcast */
	atomic {
		closed = 1;
#ifndef CLOSE_SILENTLY
		for (r : 0 .. THREADS - 1) {
			if
			:: asleep[r] ->
				asleep[r] = 0;
				looking++
			:: else
			fi
		}
		r = 0
#endif
	}
	stop = 1;
	/* pthread_join; hwt_tasks_join */
	worker_gone;
#ifndef STOP_BEFORE_JOIN
	gone == THREADS;
#endif
	assert(Q4 || at_work == 0);

	/* hwt_worker_next_unprocessed: record_give_back */
left:
	if
	:: atomic {
		r < RECORDS && IS_FOUND(r) ->
		seen = word[r]
	}
	:: atomic {
		r < RECORDS && !IS_FOUND(r) ->
		r++;
		goto left
	}
	:: atomic {
		r == RECORDS ->
		over++;
		goto done
	}
	fi;
give_back:
	if
	:: atomic {
		!IS_PENDING(seen) ->
		r++;
		goto left
	}
#ifndef GIVE_BACK_IN_A_MOVE
	:: atomic {
		IS_PENDING(seen) && HAS(seen, RESCHEDULING) && !HAS(word[r], RESCHEDULING) ->
		seen = word[r]
	}
		goto give_back
	:: atomic {
		IS_PENDING(seen) && !HAS(seen, RESCHEDULING) ->
#else
	:: atomic {
		IS_PENDING(seen) ->
#endif
		change(r, WITH_STATE(seen, CANCELLED));
		if
		:: won ->
			won = 0;
			ended(r);
			r++;
			goto left
		:: else -> goto give_back
		fi
	}
	fi;
done:
	seen = 0
}

#if THREADS == 2
#define SOME_SLEEP (asleep[0] || asleep[1])
#else
#define SOME_SLEEP (asleep[0])
#endif

/* This step can be taken only where the invariant is broken. */
proctype monitor()
{
end:
	atomic {
		SOME_SLEEP && !waking && (closed || length > looking) ->
		assert(Q6)
	}
}

init
{
	byte r;

	atomic {
#ifdef ONLY
		ONLY = 0;
#endif
		looking = THREADS;
		run worker();
		run task_thread(0);
#if THREADS == 2
		run task_thread(1);
#endif
		run mover();
		run canceller();
		run stopper();
		run monitor()
	}
	/* All is over. */
	d_step {
		over == 3 && gone == THREADS ->
		for (r : 0 .. RECORDS - 1) {
			assert(Q2 || ends[r] == 1)
		}
	}
}
