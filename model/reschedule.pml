/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of another deadline for a timeout that is pending (reschedule.c, worker_slow.c).  For Spin; run.sh runs it.
 *
 * What is modelled
 *
 *   One record, with LIVES timeouts in it, one after the other.  MOVERS threads give it other deadlines, MOVES calls
 *   each; CANCELLERS threads cancel it; one submits it; one worker drains, places, runs, puts off; one thread stops the
 *   timer; with LOOKER one asks for the deadline of what is pending.  Time is the wheel's tick, which the worker raises as it likes, and a deadline is a tick.  The steps name
 *   functions of src/.
 *
 *   One step is one access to something that others may change meanwhile.  What is folded into a step, and why that
 *   hides nothing:
 *
 *     locks          what only a lock's holders touch goes with the next access; so does taking the lock, and
 *                    releasing it with the last.  Who would wait for RESCHEDULING under the lock of its lane takes that
 *                    afterwards.
 *     waiting        for the thread that sets RESCHEDULING is a loop that does nothing but look: one step, when RESCHEDULING has gone.
 *     the guess      whether it is later may be wrong, either way, so the first look may go on either way.
 *     the deadline   of one that is RESCHEDULING nobody else writes: the mover reads it and writes it in one step.
 *     the worker's   wheel, batch and unplaced list are its own, and a place in them is had at once.  A queue of one
 *                    record is a counter.
 *     stop           is set at some moment and read by the worker alone: it may go wherever it looks.  What it knew is
 *                    forgotten then.
 *     home           a record that is sent home can be taken at once.
 *     refusals       calls that get ENOENT, EBUSY or ENOMEM change nothing: none begins with a word that refuses.
 *
 *   Where the model may do more than the code: a drain ends anywhere, with the tick going on; one that is unplaced is
 *   tried again at any time; with OOM there may be memory for a node, or a place in the wheel, or not, decided again each time;
 *   a thread may give up before its last call.
 *
 * What is not
 *
 *   Memory order: steps are sequentially consistent.  Extensions and periods, what follows a run (rearm.pml), the
 *   counters, and the wake-up of a sleeping worker (sleep.pml).  Rounds of the wheel that are cut.
 *
 * Invariants
 *
 *   M1  never early: when it runs, the deadline in force is not after the tick, and nobody is in the middle of a move,
 *       which would return 0 for one that has started.
 *   M2  never late: the worker does not leave a tick behind with an armed timeout whose deadline is not after it,
 *       unless it is being moved, or was when the worker came to it at this very tick, or is in a submitted queue to
 *       be placed again.
 *   M3  a record is in a submitted queue at most once, and not in a cancelled one, too; it does not go home, and is
 *       not taken, while something points at it (R1, R2).  Its place is true where it is used (R3).  Nothing is pushed
 *       on a lane that is closed (L3).
 *   M4  one end: it runs, or one cancel returns 0, or stop gives it back; when all is over, each has had it.
 *   M5  a deadline is written under RESCHEDULING (R4), of the timeout that the mover's handle means, while it is pending.
 *   M6  the end of a move takes RESCHEDULING away, and nothing else: the plain store of a later one, too.
 *   M7  a look finds a deadline that this very timeout has had.
 *
 *   And no process is stuck before its end.
 *
 * Planted faults, each of which must be found
 *
 *   NO_CHECKED            the worker runs it by an exchange on the word as it was when it read the deadline: a later
 *                         move brings back the same word.
 *   MOVING_OVERLOOKED     the worker does not look whether somebody is in the middle of a move.
 *   RUN_UNLOOKED          the worker does not look at the deadline of one that has been moved.
 *   PLACE_BLINDLY         the worker arms one and does not look whether it is RESCHEDULING: a mover that saw QUEUED does not push it.
 *   TAKE_BLINDLY          the same, of taking a requeued one out of the queue: a mover that saw REQUEUED does not push it.
 *   LOOK_BLINDLY          the same, of putting one off: a mover that saw QUEUED is still at it.
 *   URGED_CLEARED_LATE    the worker reads the deadline first, and takes REQUEUED away then.
 *   NOT_URGED             an earlier deadline is written, nothing is pushed.
 *   GUESS_TRUSTED         a mover does not look again under RESCHEDULING whether it is later.
 *   URGE_TWICE            a mover pushes one that is requeued already.
 *   CANCEL_URGED_PUSHES   a cancel of an requeued one pushes it on the cancelled queue, too.
 *   RUN_URGED             an requeued one runs at its old tick, while the queue has it.
 *   PUSH_ON_CLOSED        a mover does not look whether its lane is closed.
 *   TRANSFER_WITH_BATCH   a pass that stop has broken off within a batch is followed by one that drains the queues.
 *   CANCEL_IN_A_MOVE      a cancel does not wait for RESCHEDULING.
 *   GIVE_BACK_IN_A_MOVE   stop does not.
 *   ANY_GENERATION        a mover compares the state only.
 *   DEADLINE_FIRST        a mover writes the deadline before it has set RESCHEDULING.
 *   STORE_QUEUED          a later move of a queued one ends by a plain store: that it was armed is lost.
 *   STORE_URGED           the same of an requeued one: it stays requeued for ever.
 *   LOOK_ONCE             a look does not ask a second time whether it is the same timeout.  With LOOKER.
 */
#ifndef MOVERS /* 1 or 2 */
#define MOVERS 2
#endif
#ifndef MOVES /* of each mover */
#define MOVES 1
#endif
#ifndef CANCELLERS
#define CANCELLERS 1
#endif
#ifndef CANCELS /* of each canceller */
#define CANCELS 1
#endif
#ifndef LIVES
#define LIVES 1
#endif
#ifndef TICKS
#define TICKS 2
#endif
#ifndef LANES /* 1 or 2: of the movers; the submissions go to the first */
#define LANES MOVERS
#endif

/* The state word: generation << 7 | flags | state. */
#define FREE 0
#define QUEUED 1
#define ARMED 2
#define RUNNING 3
#define EXPIRED 4
#define CANCELLED 5
#define LAZY 6
#define RESCHEDULED 8
#define RESCHEDULING 16
#define RESCHEDULE_SEEN 32
#define REQUEUED 64
#define STATE(w) ((w) & 7)
#define GENERATION(w) ((w) >> 7)
#define WITH_STATE(w, s) (((w) & ~7) | (s))
#define WORD(g, s) ((g) << 7 | (s))
#define HAS(w, flags) (((w) & (flags)) != 0)
#define IS_PENDING(w) (STATE(w) == QUEUED || STATE(w) == ARMED)
#define IS_FREE(w) (STATE(w) == FREE || STATE(w) >= EXPIRED)

/* record->place */
#define NOWHERE 0
#define PLACED 1
#define UNPLACED 2

short word;
byte deadline;
byte place;
bit free; /* it has come home */

bit locked[LANES], closed[LANES];
byte submitted[LANES]; /* how often it is in the queue */
byte cancelled;

byte tick; /* the worker's: the next one to expire */
byte at;   /* at which tick the wheel has it; of an unplaced one, when it is looked at */
bit worker_gone;

byte lives; /* begun */

/*
 * Where it is.  The wheel and the batch are the worker's own lists; the others are ghosts: the queues from the won
 * exchange on, the push is certain then.
 */
#define IN_WHEEL 1
#define IN_BATCH 2
#define IN_SUBMITTED 4
#define IN_CANCELLED 8
#define IN_FREE 16
#define IN_UNPROCESSED 32
#define AT_REST 64
byte where = IN_FREE;

/* Bit g: the timeout of generation g has ended. */
byte ended;

/* At this tick the worker has come to it in the middle of a move. */
bit in_a_move;

#ifdef LOOKER
/* Bit d: the timeout of this generation has had the deadline d. */
byte had[LIVES + 1];
#define HAD(generation, d) had[generation] = had[generation] | BIT(d)
#else
#define HAD(generation, d)
#endif

#define BIT(n) (1 << (n))

/* By their names Spin's message tells which invariant has failed.  ONLY=M1: no other is looked at. */
#ifdef ONLY
#define OFF 1
#else
#define OFF 0
#endif
hidden byte M1 = OFF, M2 = OFF, M3 = OFF, M4 = OFF, M5 = OFF, M6 = OFF, M7 = OFF;

#define ENTER(list) where = where | (list)
#define LEAVE(list) where = where & ~(list)

inline enter_queue(queue)
{
	assert(M3 || !HAS(where, IN_SUBMITTED | IN_CANCELLED | IN_FREE));
	ENTER(queue)
}

inline end(generation)
{
	d_step {
		assert(M4 || !HAS(ended, BIT(generation)));
		ended = ended | BIT(generation)
	}
}

/* Any number below n. */
inline any_below(n, number)
{
	number = 0;
	do
	:: number + 1 < n -> number++
	:: break
	od
}

/* hwt_lane_submit */
proctype producer()
{
	do
	/* queue_lock; prepare: closed, pool_pop; record_take, *out: from here on anybody may have the handle */
	:: atomic {
		lives < LIVES && free && !closed[0] && !locked[0] ->
		locked[0] = 1;
		free = 0;
		assert(M3 || where == IN_FREE);
		where = IN_SUBMITTED;
		lives++;
		place = NOWHERE;
		any_below(TICKS, deadline);
		word = WORD(GENERATION(word) + 1, QUEUED);
		HAD(GENERATION(word), deadline)
	}
		/* queue_push, queue_unlock */
		atomic {
			submitted[0]++;
			locked[0] = 0
		}
	:: break
	od
}

/* reschedule.c: refuse */
#ifdef ANY_GENERATION
#define IS_MINE IS_PENDING(word)
#else
#define IS_MINE (IS_PENDING(word) && GENERATION(word) == generation)
#endif

/* must_requeue */
#ifdef PUSH_ON_CLOSED
#define IS_OPEN true
#else
#define IS_OPEN (!closed[me % LANES])
#endif
#if defined(NOT_URGED)
#define HAS_TO_URGE false
#elif defined(URGE_TWICE)
#define HAS_TO_URGE (STATE(seen) == ARMED && IS_OPEN)
#else
#define HAS_TO_URGE (STATE(seen) == ARMED && !HAS(seen, REQUEUED) && IS_OPEN)
#endif

/* begin */
inline begin(flags)
{
	d_step {
		won = word == seen;
		if
		:: won ->
			word = (seen & ~RESCHEDULE_SEEN) | RESCHEDULED | RESCHEDULING | (flags);
			seen = word
		:: else
		fi
	}
}

/* record_set_deadline */
inline set_deadline()
{
	d_step {
		assert(M5 || (HAS(word, RESCHEDULING) && IS_PENDING(word) && GENERATION(word) == generation));
		HAD(generation, to);
		deadline = to
	}
}

inline forget()
{
	d_step {
		seen = 0;
		generation = 0;
		to = 0;
		won = 0;
		urge = 0
	}
}

#if defined(STORE_QUEUED) && defined(STORE_URGED)
#define IS_STORED true
#elif defined(STORE_QUEUED)
#define IS_STORED (!HAS(seen, REQUEUED))
#elif defined(STORE_URGED)
#define IS_STORED (STATE(seen) == ARMED)
#else
#define IS_STORED (STATE(seen) == ARMED && !HAS(seen, REQUEUED))
#endif

proctype mover(byte me)
{
	byte moves, generation, to;
	short seen;
	bit won, urge;

	/* hwt_lane_reschedule: look */
ready:
	if
	:: atomic {
		moves < MOVES && IS_PENDING(word) && !HAS(word, RESCHEDULING) ->
		moves++;
		seen = word;
		generation = GENERATION(seen);
		any_below(TICKS, to);
#ifdef ANY_GENERATION
		if
		:: generation > 1 -> generation--
		:: true
		fi;
#endif
#ifdef DEADLINE_FIRST
		set_deadline();
#endif
		goto later
	}
	:: goto done
	fi;

	/* The same once more. */
again:
	atomic {
		if
		:: IS_MINE && !HAS(word, RESCHEDULING) ->
			seen = word;
			goto later
		:: !IS_MINE ->
			forget();
			goto ready
		fi
	}

	/* hwt_lane_reschedule: begin */
later:
	atomic {
		begin(0);
		if
		:: won -> won = 0
		:: else ->
			seen = 0;
			goto again
		fi
	}
	/* hwt_lane_reschedule: record_deadline, record_set_deadline */
	atomic {
		if
#ifndef GUESS_TRUSTED
		:: to < deadline -> goto not_later
#endif
		:: else -> set_deadline()
		fi
	}
	/* hwt_lane_reschedule: the plain store, or record_end_reschedule */
	atomic {
		if
		:: IS_STORED ->
			assert(M6 || word == seen);
			word = seen & ~RESCHEDULING
		:: else -> word = word & ~RESCHEDULING
		fi;
		forget();
		goto ready
	}

	/* record_end_reschedule: it is earlier */
#ifndef GUESS_TRUSTED
not_later:
	atomic {
		word = word & ~RESCHEDULING;
		seen = 0;
		goto earlier
	}
#endif

	/* urge: queue_lock; reschedule_locked: look, must_requeue */
earlier:
	atomic {
		if
		:: IS_MINE && !HAS(word, RESCHEDULING) && !locked[me % LANES] ->
			locked[me % LANES] = 1;
			seen = word;
			urge = HAS_TO_URGE
		:: !IS_MINE ->
			forget();
			goto ready
		fi
	}
	/* reschedule_locked: begin; or look once more */
begin_earlier:
	atomic {
		begin((urge -> REQUEUED : 0));
		if
		:: won ->
			if
			:: urge -> enter_queue(IN_SUBMITTED)
			:: else
			fi;
			won = 0;
			seen = 0
		:: else ->
			seen = 0;
			urge = 0;
			goto earlier_again
		fi
	}
	/* reschedule_locked: record_set_deadline */
	atomic { set_deadline() }
#ifndef NOT_URGED
	/* push_requeued */
	atomic {
		if
		:: urge ->
			assert(M3 || !closed[me % LANES]);
			submitted[me % LANES]++
		:: else
		fi
	}
#endif
	/* record_end_reschedule, queue_unlock */
	atomic {
		word = word & ~RESCHEDULING;
		locked[me % LANES] = 0;
		forget();
		goto ready
	}

	/* reschedule_locked: look, must_requeue */
earlier_again:
	atomic {
		if
		:: IS_MINE && !HAS(word, RESCHEDULING) ->
			seen = word;
			urge = HAS_TO_URGE;
			goto begin_earlier
		:: !IS_MINE ->
			locked[me % LANES] = 0;
			forget();
			goto ready
		fi
	}

done:
	skip
}

/* record_edge: won, or seen is brought up to date */
inline record_edge(to)
{
	d_step {
		won = word == seen;
		if
		:: won -> word = WITH_STATE(seen, to)
		:: else -> seen = word
		fi
	}
}

#ifdef CANCEL_IN_A_MOVE
#define MAY_CANCEL true
#else
#define MAY_CANCEL (!HAS(word, RESCHEDULING))
#endif
#ifdef CANCEL_URGED_PUSHES
#define IS_QUEUED(w) (STATE(w) == QUEUED)
#else
#define IS_QUEUED(w) (STATE(w) == QUEUED || HAS(w, REQUEUED))
#endif

proctype canceller()
{
	byte cancels, generation;
	short seen;
	bit won;

	/* hwt_lane_cancel: record_word */
ready:
	if
	:: atomic {
		cancels < CANCELS && IS_PENDING(word) && MAY_CANCEL ->
		cancels++;
		seen = word;
		generation = GENERATION(seen)
	}
	:: goto done
	fi;

	/* cancel_edge */
looked:
	if
	/* record_edge: cancel_queued, or requeued */
	:: atomic {
		IS_QUEUED(seen) ->
		record_edge(CANCELLED);
		if
		:: won ->
			end(generation);
			goto over
		:: else ->
			seen = 0;
			goto lost
		fi
	}
	/* cancel_armed: queue_lock, queue_node, record_edge */
	:: atomic {
		!IS_QUEUED(seen) ->
		record_edge(CANCELLED);
		if
		:: won ->
			enter_queue(IN_CANCELLED);
			end(generation);
			seen = 0;
			won = 0
		:: else ->
			seen = 0;
			goto lost
		fi
	}
#ifdef OOM
	/* cancel_armed without a node: cancel_lazy */
	:: atomic {
		!IS_QUEUED(seen) ->
		record_edge(LAZY);
		if
		:: won ->
			end(generation);
			goto over
		:: else ->
			seen = 0;
			goto lost
		fi
	}
#endif
	fi;
	/* cancel_armed: queue_push, queue_unlock */
	atomic {
		cancelled++;
		goto over
	}

	/* cancel_slowly: another word */
lost:
	atomic {
		if
		:: IS_PENDING(word) && GENERATION(word) == generation && MAY_CANCEL ->
			seen = word;
			goto looked
		:: !IS_PENDING(word) || GENERATION(word) != generation -> goto over
		fi
	}

over:
	atomic {
		seen = 0;
		generation = 0;
		won = 0;
		goto ready
	}

done:
	skip
}

#ifdef LOOKER
/* hwt_record_read_deadline */
proctype looker()
{
	byte generation, seen;

	if
	:: atomic {
		IS_PENDING(word) ->
		generation = GENERATION(word)
	}
	:: goto done
	fi;
	seen = deadline;
	atomic {
		if
#ifndef LOOK_ONCE
		:: !IS_PENDING(word) || GENERATION(word) != generation
#endif
		:: else -> assert(M7 || HAS(had[generation], BIT(seen)))
		fi;
		generation = 0;
		seen = 0
	}

done:
	skip
}
#endif

/* lane_return */
inline return_records()
{
	d_step {
		assert(M3 || (where == 0 && submitted[0] == 0 && submitted[LANES - 1] == 0));
		where = IN_FREE;
		free = 1;
		place = NOWHERE;
		at = 0
	}
}

inline through()
{
	d_step {
		seen = 0;
		won = 0;
		put_off = 0;
		due = 0
	}
	goto work
}

/* hwt_wheel_remove */
inline wheel_remove()
{
	d_step {
		if
		:: place == NOWHERE -> return_records()
		:: place == PLACED ->
			/* Or it would write where the record once was. */
			assert(M3 || HAS(where, IN_WHEEL));
			LEAVE(IN_WHEEL);
			return_records()
		/* record_mark_lazy */
		:: place == UNPLACED ->
			assert(M3 || HAS(where, IN_WHEEL));
			word = WITH_STATE(word, LAZY);
			at = tick
		fi
	}
}

/* hwt_wheel_place */
inline to_be_placed()
{
	d_step {
		seen = 0;
		won = 0
	}
	goto place_it
}

/* tick_to_look: hwt_wheel_postpone, to the next tick at the earliest; or one that is unplaced, to this one */
inline to_be_looked_at(later)
{
	d_step {
		put_off = later;
		seen = 0;
		won = 0
	}
	goto look_first
}

#if defined(PLACE_BLINDLY)
#define IS_IN_HANDS (HAS(seen, RESCHEDULING) && STATE(seen) == ARMED)
#elif defined(TAKE_BLINDLY)
#define IS_IN_HANDS (HAS(seen, RESCHEDULING) && STATE(seen) == QUEUED)
#else
#define IS_IN_HANDS HAS(seen, RESCHEDULING)
#endif

/* is_to_be_placed, for the word in seen */
inline place_or_put_off()
{
	if
	:: IS_IN_HANDS ->
		in_a_move = 1;
		to_be_looked_at(1)
	:: else -> to_be_placed()
	fi
}

/* In the unplaced list. */
#define IS_UNPLACED (HAS(where, IN_WHEEL) && place == UNPLACED)

/* hwt_wheel_place, hwt_wheel_postpone, hwt_wheel_take_out */
inline placed()
{
	if
	/* It stays there. */
	:: IS_UNPLACED ->
		if
		:: due < at -> at = due
		:: else
		fi
	:: !IS_UNPLACED ->
		at = due;
		ENTER(IN_WHEEL);
		if
#ifdef OOM
		:: place = UNPLACED
#else
		:: put_off -> place = UNPLACED
#endif
		:: !put_off -> place = PLACED
		fi
	fi;
#ifdef URGED_CLEARED_LATE
	word = word & ~REQUEUED;
#endif
	through()
}

/* hwt_worker_take_slow, for one that is not queued, with the word in seen */
inline take_other()
{
	if
	:: HAS(seen, REQUEUED) -> goto urged
	:: else ->
		assert(M3 || STATE(seen) == CANCELLED);
		wheel_remove();
		through()
	fi
}

/* begin_slow and record_run, for the word in seen */
#ifdef RUN_URGED
#define IS_HELD(w) false
#else
#define IS_HELD(w) HAS(w, REQUEUED)
#endif
#ifdef MOVING_OVERLOOKED
#define IS_MOVING(w) false
#else
#define IS_MOVING(w) HAS(w, RESCHEDULING)
#endif

inline look_at_it()
{
	if
	:: STATE(seen) != ARMED ->
		/* drop_cancelled */
		place = NOWHERE;
		if
		:: STATE(seen) == LAZY -> return_records()
		:: else -> assert(M3 || STATE(seen) == CANCELLED)
		fi;
		through()
	:: STATE(seen) == ARMED && IS_HELD(seen) ->
		place = NOWHERE;
		through()
	:: STATE(seen) == ARMED && !IS_HELD(seen) && IS_MOVING(seen) ->
		in_a_move = 1;
		to_be_looked_at(1)
#ifndef RUN_UNLOOKED
	:: STATE(seen) == ARMED && !IS_HELD(seen) && !IS_MOVING(seen) && HAS(seen, RESCHEDULED) -> goto check
	:: STATE(seen) == ARMED && !IS_HELD(seen) && !HAS(seen, RESCHEDULED) -> goto run_it
#else
	:: STATE(seen) == ARMED && !IS_HELD(seen) && !IS_MOVING(seen) -> goto run_it
#endif
	fi
}

#define IS_SUBMITTED (submitted[0] > 0 || submitted[LANES - 1] > 0)

/* queue_pop of any lane's */
inline pop()
{
	if
	:: submitted[0] > 0 -> submitted[0]--
#if LANES == 2
	:: submitted[0] == 0 -> submitted[1]--
#endif
	fi;
	LEAVE(IN_SUBMITTED)
}

#define HAS_BATCH HAS(where, IN_BATCH)
#define IS_DUE (HAS(where, IN_WHEEL) && at <= tick)

#ifdef TRANSFER_WITH_BATCH
#define MAY_TRANSFER true
#else
#define MAY_TRANSFER (!HAS_BATCH)
#endif

proctype worker()
{
	short seen;
	byte due;    /* at which tick it is to be placed */
	bit put_off; /* not at the present one */
	bit won;

work:
	if
	/* transfer_batch: queue_pop; record_arm: record_word */
	:: atomic {
		MAY_TRANSFER && IS_SUBMITTED ->
		pop();
		seen = word;
		if
		:: STATE(seen) == QUEUED -> goto arm
		:: else -> take_other()
		fi
	}
	/* expire_tick: collect_batch; one that is unplaced only after another look, below, unless it is lazy */
	:: atomic {
		!HAS_BATCH && IS_DUE ->
		LEAVE(IN_WHEEL);
		ENTER(IN_BATCH);
		at = 0;
		goto work
	}
	/* run_batch: stop_requested, next_of_batch; record_run: record_word */
	:: atomic {
		HAS_BATCH ->
		LEAVE(IN_BATCH);
		seen = word;
		look_at_it()
	}
	/* expire: the tick has ended */
	:: atomic {
		!HAS_BATCH && !IS_DUE && tick < TICKS ->
		assert(M2 || STATE(word) != ARMED || HAS(word, RESCHEDULING) || in_a_move || HAS(where, IN_SUBMITTED) ||
		       deadline > tick);
		in_a_move = 0;
		tick++;
		goto work
	}
	/* hwt_wheel_retry_unplaced, collect_unplaced */
	:: atomic {
		!HAS_BATCH && IS_UNPLACED && STATE(word) != LAZY ->
		LEAVE(IN_WHEEL);
		at = 0;
		place = NOWHERE;
		to_be_looked_at(0)
	}
	/* cancel: cancel_batch */
	:: atomic {
		!HAS_BATCH && cancelled > 0 ->
		cancelled--;
		LEAVE(IN_CANCELLED);
		wheel_remove();
		goto work
	}
	/* hwt_worker_run: stop_requested */
	:: atomic {
		true ->
		tick = 0;
		at = 0;
		in_a_move = 0;
		worker_gone = 1;
		goto done
	}
	fi;

	/* record_arm: record_edge */
arm:
	atomic {
		record_edge(ARMED);
		if
		:: won ->
			place_or_put_off()
		:: !won && STATE(seen) == QUEUED -> goto arm
		:: !won && STATE(seen) != QUEUED -> take_other()
		fi
	}

	/* take_requeued: REQUEUED goes; hwt_wheel_take_out or hwt_wheel_remove */
urged:
	atomic {
		seen = word;
#ifdef URGED_CLEARED_LATE
		if
		:: STATE(word) != ARMED -> word = word & ~REQUEUED
		:: else
		fi;
#else
		word = word & ~REQUEUED;
#endif
		if
		:: STATE(seen) == ARMED && place == UNPLACED -> to_be_looked_at(0)
		:: STATE(seen) == ARMED && place != UNPLACED ->
			if
			:: place == PLACED ->
				assert(M3 || HAS(where, IN_WHEEL));
				LEAVE(IN_WHEEL);
				at = 0;
				place = NOWHERE
			:: else
			fi;
			place_or_put_off()
		:: STATE(seen) != ARMED ->
			assert(M3 || STATE(seen) == CANCELLED);
			wheel_remove();
			through()
		fi
	}

	/* tick_to_look: the word */
look_first:
#ifndef LOOK_BLINDLY
	atomic {
		if
		:: HAS(word, RESCHEDULING) ->
			due = tick + put_off;
			placed()
		:: else
		fi
	}
#endif
	/* tick_to_place: the deadline */
place_it:
	atomic {
		due = tick + put_off;
		if
		:: deadline > due -> due = deadline
		:: else
		fi;
		placed()
	}

	/* begin_slow: RESCHEDULE_SEEN */
#ifndef RUN_UNLOOKED
check:
#ifndef NO_CHECKED
	atomic {
		if
		:: word == seen ->
			word = word | RESCHEDULE_SEEN;
			seen = word
		:: else ->
			seen = word;
			look_at_it()
		fi
	}
#endif
	/* begin_slow: record_deadline */
	atomic {
		if
		:: deadline > tick ->
			to_be_looked_at(1)
		:: else -> goto run_it
		fi
	}
#endif

	/* record_run, begin_slow: record_change; run_task: the task */
run_it:
	atomic {
		record_edge(RUNNING);
		if
		:: won ->
			assert(M1 || (deadline <= tick && !HAS(seen, RESCHEDULING)));
			end(GENERATION(seen));
			seen = 0;
			won = 0
		:: else -> look_at_it()
		fi
	}
	/* record_finish, lane_return */
	atomic {
		word = WITH_STATE(word, EXPIRED);
		return_records();
		through()
	}

done:
	skip
}

#ifdef GIVE_BACK_IN_A_MOVE
#define MAY_GIVE_BACK true
#else
#define MAY_GIVE_BACK (!HAS(word, RESCHEDULING))
#endif

proctype stopper()
{
	/* hwt_worker_request_stop, end_passes; give_back_rest: hwt_lane_close */
	atomic {
		worker_gone && !locked[0] ->
		closed[0] = 1
	}
#if LANES == 2
	atomic {
		!locked[1] ->
		closed[1] = 1
	}
#endif

	/* hwt_worker_next_unprocessed: next_left */
surrender:
	atomic {
		if
		:: HAS(where, IN_BATCH | IN_WHEEL) -> LEAVE(IN_BATCH | IN_WHEEL)
		:: !HAS(where, IN_BATCH | IN_WHEEL) && IS_SUBMITTED ->
			pop()
		:: !HAS(where, IN_BATCH | IN_WHEEL) && !IS_SUBMITTED -> goto surrendered
		fi
	}
	/* record_give_back: record_word, record_change, as often as it takes */
	atomic {
		if
		:: IS_PENDING(word) && MAY_GIVE_BACK ->
			word = WITH_STATE(word, CANCELLED);
			end(GENERATION(word));
			ENTER(IN_UNPROCESSED)
		:: !IS_PENDING(word) ->
			if
			:: !HAS(where, IN_UNPROCESSED) -> ENTER(AT_REST)
			:: HAS(where, IN_UNPROCESSED)
			fi
		fi;
		goto surrender
	}

surrendered:
	skip
}

init
{
	atomic {
#ifdef ONLY
		ONLY = 0;
#endif
		free = 1;
		run producer();
		run mover(0);
#if MOVERS == 2
		run mover(1);
#endif
#if CANCELLERS > 0
		run canceller();
#endif
#if CANCELLERS == 2
		run canceller();
#endif
#ifdef LOOKER
		run looker();
#endif
		run worker();
		run stopper()
	}
	/* All is over. */
	d_step {
		_nr_pr == 1 ->
		assert(M4 || ended == BIT(lives + 1) - 2);
		assert(M3 || submitted[0] + submitted[LANES - 1] == 0);
		assert(M3 || HAS(where, IN_FREE | IN_UNPROCESSED | AT_REST | IN_CANCELLED))
	}
}
