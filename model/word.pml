/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of the state word: submission, cancel, expiry, the way home, stop.  For Spin; run.sh runs it.
 *
 * What is modelled
 *
 *   CLIENTS threads that submit and cancel in any order and at the end take what was given back, one worker, one thread
 *   that stops the timer, and with READER one that reads the pending count.  There are fewer records than timeouts, so
 *   each is used again and again.  A cancel takes any handle ever given out to any thread, old ones included.  Every
 *   step names the functions of src/ that it mirrors.
 *
 *   One step is one access to something that others may change meanwhile.  What is folded into a step, and why that
 *   hides nothing:
 *
 *     locks          what only a lock's holders touch goes with the next access; so does taking the lock, and
 *                    releasing it with the last (Lipton: these commute with all that others can do).
 *     the worker's   its wheel, batch and home chains are its own, and nobody can tell when it pops a queue.
 *     loops          one that does nothing but try until it succeeds is one step (returned_splice, take_limit); a look
 *                    whether an exchange is worth it is part of it (returned_take_all).
 *     counters       an end is counted as early, a begin as late as can be; that is the worst for I8.  With LIMIT each
 *                    at its own place.
 *     stop           is set once and read by the worker alone: goes with the load that follows.
 *     record->lane   a stale handle only asks it for what all lanes share: goes with the word.
 *     refusals       a submission that gets ECANCELED, ENOMEM or ENOBUFS and a cancel that gets ENOENT or EBUSY change
 *                    nothing, so they use up none of a client's calls.
 *
 *   Where the model may do more than the code: a drain ends anywhere, as if its budget were used up; what is in the
 *   wheel may be due at any time; the worker goes from phase to phase in any order, as long as no batch is under way;
 *   clients do not look whether the timer is started, only the lane's word counts; with OOM there may be a node, or a
 *   place in the wheel, or not, decided again each time.
 *
 * What is not
 *
 *   Memory order: steps are sequentially consistent.  Which load sees which store is argued at the named edges of the
 *   sources and watched by ThreadSanitizer.  The nodes of queues and their recycling (queue.h), ticks and buckets,
 *   order within a list (sets here), new slabs, start, several threads that stop at once.  Tasks do nothing: what they
 *   would do the clients do meanwhile.  That something happens in time, or again and again: safety only.
 *
 * Invariants
 *
 *   I1  one end: a timeout runs, or one cancel returns 0, or it is reported unprocessed; never two of these (G1).
 *   I2  nothing is lost: when all is over each timeout accepted has ended, and each record is somewhere.
 *   I3  a record is in one place: free, submitted, wheel, batch, unprocessed; or in the cancelled queue, alone or
 *       besides wheel or batch (R1); or in one thread's hands.  Its place is true where it is used (R3).
 *   I4  no record is taken, or sent home, while a queue, the wheel or the batch points at it (R2).
 *   I5  a cancel never hits a stranger: the word it changes has its handle's generation.
 *   I6  every edge is one of the automaton's (record.h).
 *   I7  a thread that sees EXPIRED finds the task done ([end]).
 *   I8  pending is never negative, and 0 when all is over (L1).
 *   I9  pending <= limited <= max_pending at any moment (L2).  With LIMIT.
 *
 *   And no process is stuck before its end.
 *
 * Planted faults, each of which must be found
 *
 *   PUSH_TWICE            a cancel of a queued timeout pushes it on the cancelled queue, too.
 *   RECYCLE_WHILE_QUEUED  such a cancel sends the record home itself.
 *   NO_GENERATION         a cancel compares the state only.
 *   STOP_WITHOUT_CLOSE    the timer's state is looked at first, nothing under the lock: Netty's order.
 *   RUN_WITHOUT_CAS       the worker sees ARMED and stores RUNNING.
 *   EXPIRE_SENDS_HOME     a cancelled record goes home when it comes up, though the cancelled queue has it.
 *   CANCEL_WITH_BATCH     a pass that stop has broken off within a batch goes on to the cancelled queues (P3).
 *   FINISH_BEFORE_RUN     EXPIRED first, then the task.
 *   COUNT_LATE            accepted is counted after the push.
 *   COUNT_TWICE           a cancel that lost the race counts, too.
 *   NO_DEFER              a cancelled record goes home though it is in the unplaced list.  With OOM.
 *   NODE_AFTER_WORD       CANCELLED first, and then no memory for the node.  With OOM.
 *   LIMIT_BEFORE_COUNT    a cancel makes room first and counts then.  With LIMIT.
 *   READ_BEGINS_FIRST     hwt_pending_timeouts reads accepted before the ends.  With READER.
 *
 * References: G. Holzmann, "The Spin Model Checker", 2003; R. Lipton, "Reduction", CACM 18 (1975), for folded steps.
 */
#ifndef RECORDS
#define RECORDS 2
#endif
#ifndef LANES /* 1 or 2 */
#define LANES 2
#endif
#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef SUBMITS /* of each client */
#define SUBMITS 2
#endif
#ifndef CANCELS /* of each client */
#define CANCELS 2
#endif

/* The state word: generation << 3 | state. */
#define FREE 0
#define QUEUED 1
#define ARMED 2
#define RUNNING 3
#define EXPIRED 4
#define CANCELLED 5
#define LAZY 6
#define STATE(w) ((w) & 7)
#define GENERATION(w) ((w) >> 3)
#define WITH_STATE(w, s) (((w) & 248) | (s))
#define WORD(g, s) ((g) << 3 | (s))
#define IS_PENDING(w) (STATE(w) == QUEUED || STATE(w) == ARMED)
#define IS_FREE(w) (STATE(w) == FREE || STATE(w) >= EXPIRED)

/* record->place */
#define NOWHERE 0
#define PLACED 1
#define UNPLACED 2

/* timer->state */
#define STARTED 0
#define STOPPING 1
#define STOPPED 2

/* Sets of records are bit masks. */
#define BIT(r) (1 << (r))
#define ADD(set, r) set = set | BIT(r)
#define REMOVE(set, r) set = set & ~BIT(r)

byte word[RECORDS];
byte place[RECORDS];
byte lane_of[RECORDS]; /* record->lane */

bit locked[LANES], closed[LANES]; /* the submit lock; under it closed and pool */
byte pool[LANES], returned[LANES];
bit cancel_locked[LANES];
chan submitted[LANES] = [RECORDS + 1] of { byte };
chan cancelled[LANES] = [RECORDS + 1] of { byte };
byte accepted[LANES], cancelled_count[LANES];
byte limited;

byte home[LANES], wheel, unplaced, batch; /* the worker's */
byte expired;
bit stop, worker_gone;

byte timer_state;
byte unprocessed;
byte given_back;

/*
 * Ghosts.  where: the places a record is in; the cancelled queue from the won CAS on, the push is certain then.
 * ended: bit g of a record is set when its timeout of generation g has ended.
 */
#define IN_HANDS 0
#define IN_FREE 1
#define IN_SUBMITTED 2
#define IN_WHEEL 4
#define IN_BATCH 8
#define IN_CANCELLED 16
#define IN_UNPROCESSED 32
#define AT_REST 64 /* reported, or met by stop when it had ended: until destroy */
byte where[RECORDS];
byte ended[RECORDS];

/* By their names Spin's message tells which invariant has failed.  ONLY=I1: no other is looked at. */
#ifdef ONLY
#define OFF 1
#else
#define OFF 0
#endif
hidden byte I1 = OFF, I2 = OFF, I3 = OFF, I4 = OFF, I5 = OFF, I6 = OFF, I7 = OFF, I8 = OFF, I9 = OFF;

#define ONE_PLACE(w) (((w) & (w) - 1) == 0 || w == (IN_WHEEL | IN_CANCELLED) || w == (IN_BATCH | IN_CANCELLED))

inline move(r, from, to)
{
	d_step {
		assert(I3 || (where[r] & (from)) == (from));
		where[r] = (where[r] & ~(from)) | (to);
		assert(I3 || ONE_PLACE(where[r]))
	}
}

inline end(r, generation)
{
	d_step {
		assert(I1 || (ended[r] & BIT(generation)) == 0);
		ADD(ended[r], generation)
	}
}

#define SUM(counter) (counter[0] + counter[LANES - 1] * (LANES - 1))
#define BEGINS SUM(accepted)
#define ENDS (SUM(cancelled_count) + expired + given_back)

inline check_counts()
{
	d_step {
#ifdef LIMIT
		assert(I9 || (BEGINS <= ENDS + limited && limited <= LIMIT));
#endif
		assert(I8 || ENDS <= BEGINS)
	}
}

/* A member of a set that is not empty: the first, any. */
inline first_of(set, r)
{
	d_step {
		r = 0;
		do
		:: (set) & BIT(r) -> break
		:: else -> r++
		od
	}
}

inline any_of(set, r)
{
	r = 0;
	do
	:: (set) >> (r + 1) != 0 -> r++
	:: (set) & BIT(r) -> break
	od
}

/* record_edge: won, or seen is brought up to date */
inline record_edge(to)
{
	d_step {
		won = word[record] == seen;
		if
		:: won ->
			assert(I6 || IS_PENDING(seen));
			word[record] = WITH_STATE(seen, to)
		:: else -> seen = word[record]
		fi
	}
}

inline forget()
{
	d_step {
		record = 0;
		seen = 0;
		generation = 0;
		won = 0
	}
}

/* Under the mutex. */
inline next_unprocessed()
{
	first_of(unprocessed, record);
	REMOVE(unprocessed, record);
	move(record, IN_UNPROCESSED, AT_REST);
	end(record, GENERATION(word[record]));
	record = 0
}

#ifdef STOP_WITHOUT_CLOSE
#define IS_OPEN(l) (timer_state == STARTED)
#else
#define IS_OPEN(l) (!closed[l])
#endif

/* What hwt_lane_cancel looks for. */
#ifdef NO_GENERATION
#define IS_MINE IS_PENDING(seen)
#else
#define IS_MINE (IS_PENDING(seen) && GENERATION(seen) == generation)
#endif
#define SEES_THE_END (GENERATION(seen) == generation && STATE(seen) == EXPIRED)

/* hwt_lane_cancel: after a lost race the loop looks again; EBUSY, ENOENT */
inline lost()
{
	assert(I7 || !SEES_THE_END || ended[record] & BIT(generation));
	if
	:: IS_MINE -> goto looked
	:: else ->
#ifdef COUNT_TWICE
		cancelled_count[lane]++;
		check_counts();
#endif
		forget();
		goto idle
	fi
}

/* hwt_lane_cancel: cancelled_count, return 0 */
inline counted()
{
	assert(I5 || GENERATION(seen) == generation);
	cancelled_count[lane]++;
	check_counts();
	end(record, generation)
}

proctype client(byte lane)
{
	byte submits, cancels;
	byte record, seen, generation;
	bit won;

idle:
	if
	/* hwt_lane_submit: queue_lock; prepare: closed, pool->free */
	:: atomic {
		submits < SUBMITS && IS_OPEN(lane) && !locked[lane] && pool[lane] != 0 ->
		locked[lane] = 1;
		goto found
	}
	/* find_record: returned_take_all */
	:: atomic {
		submits < SUBMITS && IS_OPEN(lane) && !locked[lane] && pool[lane] == 0 && returned[lane] != 0 ->
		locked[lane] = 1;
		pool[lane] = returned[lane];
		returned[lane] = 0;
		goto found
	}
#if LANES == 2
	/* steal_records: the chain of another, or its list if its lock can be had at once */
	:: atomic {
		submits < SUBMITS && IS_OPEN(lane) && !locked[lane] && pool[lane] == 0 && returned[1 - lane] != 0 ->
		locked[lane] = 1;
		pool[lane] = returned[1 - lane];
		returned[1 - lane] = 0;
		goto found
	}
	:: atomic {
		submits < SUBMITS && IS_OPEN(lane) && !locked[lane] && pool[lane] == 0 && pool[1 - lane] != 0 &&
			!locked[1 - lane] ->
		locked[lane] = 1;
		pool[lane] = pool[1 - lane];
		pool[1 - lane] = 0;
		goto found
	}
#endif
	/* hwt_lane_cancel: record_word.  Any handle there is; the one before the last stands for all old ones. */
	:: atomic {
		cancels < CANCELS ->
		any_of(BIT(RECORDS) - 1, record);
		seen = word[record];
		generation = GENERATION(seen);
		if
		:: generation > 0
		:: generation > 1 -> generation--
		:: generation == 0 -> goto idle
		fi;
		if
		:: IS_MINE -> goto looked
		:: else ->
			assert(I7 || !SEES_THE_END || ended[record] & BIT(generation));
			forget();
			goto idle
		fi
	}
	/* hwt_timer_next_unprocessed */
	:: atomic {
		timer_state == STOPPED && unprocessed != 0 ->
		next_unprocessed();
		goto idle
	}
	:: timer_state == STOPPED && unprocessed == 0 -> goto done
	fi;

found:
#ifdef OOM
	/* prepare: no node, pool_push */
	if
	:: atomic {
		true ->
		locked[lane] = 0;
		goto idle
	}
	:: true
	fi;
#endif
#ifdef LIMIT
	/* prepare: take_limit */
	atomic {
		if
		:: limited < LIMIT ->
			limited++;
			check_counts()
		:: else ->
			locked[lane] = 0;
			goto idle
		fi
	}
#endif
	/* hwt_lane_submit: pool_pop, accepted, record_take, *out: from here on anybody may have the handle */
	atomic {
		first_of(pool[lane], record);
		REMOVE(pool[lane], record);
		assert(I4 || where[record] == IN_FREE);
		move(record, IN_FREE, IN_HANDS);
#ifndef COUNT_LATE
		accepted[lane]++;
		check_counts();
#endif
		assert(I6 || IS_FREE(word[record]));
		lane_of[record] = lane;
		place[record] = NOWHERE;
		word[record] = WORD(GENERATION(word[record]) + 1, QUEUED);
		submits++
	}
	/* queue_push, queue_unlock */
	atomic {
		submitted[lane]!record;
		move(record, IN_HANDS, IN_SUBMITTED);
		forget();
#ifndef COUNT_LATE
		locked[lane] = 0;
		goto idle
#endif
	}
#ifdef COUNT_LATE
	atomic {
		accepted[lane]++;
		locked[lane] = 0;
		goto idle
	}
#endif

	/* hwt_lane_cancel: the loop, with a word that says pending */
looked:
	if
	/* record_edge: cancel_queued */
	:: atomic {
		STATE(seen) == QUEUED ->
		record_edge(CANCELLED);
		if
		:: won ->
#ifdef PUSH_TWICE
			cancelled[lane]!record;
			move(record, IN_HANDS, IN_CANCELLED);
#endif
#ifdef RECYCLE_WHILE_QUEUED
			ADD(returned[lane], record);
#endif
			goto won_it
		:: else -> lost()
		fi
	}
	/* cancel_armed: queue_lock, queue_node, record_edge */
	:: atomic {
		STATE(seen) == ARMED && !cancel_locked[lane] ->
		record_edge(CANCELLED);
		if
		:: won ->
			move(record, IN_HANDS, IN_CANCELLED);
			cancel_locked[lane] = 1
		:: else -> lost()
		fi
	}
#ifdef OOM
	/* cancel_armed without a node: cancel_lazy */
	:: atomic {
		STATE(seen) == ARMED && !cancel_locked[lane] ->
#ifdef NODE_AFTER_WORD
		record_edge(CANCELLED);
#else
		record_edge(LAZY);
#endif
		if
		:: won -> goto won_it
		:: else -> lost()
		fi
	}
#endif
	fi;
	/* cancel_armed: queue_push, queue_unlock */
	atomic {
		cancelled[lane]!record;
		cancel_locked[lane] = 0
	}
won_it:
#if defined(LIMIT) && defined(LIMIT_BEFORE_COUNT)
	atomic {
		limited--;
		check_counts()
	}
#endif
	atomic {
		counted();
		cancels++;
#if !defined(LIMIT) || defined(LIMIT_BEFORE_COUNT)
		forget();
		goto idle
#endif
	}
#if defined(LIMIT) && !defined(LIMIT_BEFORE_COUNT)
	/* lanes_release_limit */
	atomic {
		limited--;
		check_counts();
		forget();
		goto idle
	}
#endif

done:
	skip
}

/* lane_return, chain_append.  What take is going to overwrite is forgotten, to have fewer states. */
inline return_records()
{
	d_step {
		assert(I4 || where[record] == IN_HANDS);
		where[record] = IN_FREE;
		ADD(home[lane_of[record]], record);
		lane_of[record] = 0;
		place[record] = NOWHERE;
		record = 0;
		seen = 0;
		won = 0
	}
}

/* hwt_wheel_place */
inline wheel_place()
{
	if
	:: unplaced == 0 ->
		ADD(wheel, record);
		place[record] = PLACED
#ifdef OOM
	:: ADD(unplaced, record);
		place[record] = UNPLACED
#endif
	fi;
	move(record, IN_HANDS, IN_WHEEL);
	record = 0;
	seen = 0;
	won = 0
}

/* collect_batch, hwt_wheel_collect: any may be due */
inline collect()
{
	record = 0;
	do
	:: record < RECORDS && ((wheel | unplaced) & BIT(record)) ->
		REMOVE(wheel, record);
		REMOVE(unplaced, record);
		ADD(batch, record);
		move(record, IN_WHEEL, IN_BATCH);
		record++
	:: record < RECORDS -> record++
	:: record == RECORDS -> break
	od;
	record = 0
}

/* expire_one: cancelled */
inline not_run()
{
	d_step {
		place[record] = NOWHERE;
#ifndef EXPIRE_SENDS_HOME
		if
		:: STATE(seen) == LAZY ->
			return_records()
		:: else ->
			assert(I6 || STATE(seen) == CANCELLED);
			record = 0;
			seen = 0;
			won = 0
		fi
#else
		return_records()
#endif
	}
}

/* cancel_batch, hwt_wheel_remove */
inline wheel_remove()
{
	d_step {
		move(record, IN_CANCELLED, IN_HANDS);
		if
		:: place[record] == NOWHERE ->
			return_records()
		:: place[record] == PLACED ->
			/* Or it would write where the record once was. */
			assert(I3 || where[record] == IN_WHEEL);
			REMOVE(wheel, record);
			move(record, IN_WHEEL, IN_HANDS);
			return_records()
		:: place[record] == UNPLACED ->
#ifdef NO_DEFER
			return_records()
#else
			/* record_mark_lazy */
			assert(I6 || STATE(word[record]) == CANCELLED);
			word[record] = WITH_STATE(word[record], LAZY);
			record = 0
#endif
		fi
	}
}

#define ANY(queue) (nempty(queue[0]) || nempty(queue[LANES - 1]))
#define NONE(queue) (empty(queue[0]) && empty(queue[LANES - 1]))

/* queue_pop of any lane's */
#define POP(queue)                                                                                                     \
	if                                                                                                             \
	:: queue[0]?record                                                                                             \
	:: queue[LANES - 1]?record                                                                                     \
	fi

proctype worker()
{
	byte record, seen;
	bit won;

work:
	if
	/* transfer_batch: queue_pop; record_arm: record_word */
	:: atomic {
		batch == 0 && ANY(submitted) ->
		POP(submitted);
		move(record, IN_SUBMITTED, IN_HANDS);
		seen = word[record];
		if
		:: STATE(seen) == QUEUED -> goto arm
		:: else ->
			assert(I6 || STATE(seen) == CANCELLED);
			return_records();
			goto work
		fi
	}
	/* expire: collect_batch */
	:: atomic {
		batch == 0 && (wheel | unplaced) != 0 ->
		collect();
		goto work
	}
	/* run_batch: stop_requested, next_of_batch; record_run: record_word */
	:: atomic {
		batch != 0 && !stop ->
		any_of(batch, record);
		REMOVE(batch, record);
		move(record, IN_BATCH, IN_HANDS);
		seen = word[record];
		if
		:: STATE(seen) == ARMED -> goto run_it
		:: else ->
			not_run();
			goto work
		fi
	}
	/* cancel: cancel_batch.  Not with records left in the batch, their places are stale: P3. */
	:: atomic {
#ifdef CANCEL_WITH_BATCH
		(batch == 0 || stop) && ANY(cancelled) ->
#else
		batch == 0 && ANY(cancelled) ->
#endif
		POP(cancelled);
		wheel_remove();
		goto work
	}
	/* return_records: lane_splice_returned, returned_splice */
	:: atomic {
		batch == 0 && SUM(home) != 0 ->
		if
		:: home[0] != 0 ->
			returned[0] = returned[0] | home[0];
			home[0] = 0
		:: home[LANES - 1] != 0 ->
			returned[LANES - 1] = returned[LANES - 1] | home[LANES - 1];
			home[LANES - 1] = 0
		fi;
		goto work
	}
#ifdef OOM
	/* transfer: hwt_wheel_retry_unplaced, one more for which there is memory */
	:: atomic {
		batch == 0 && unplaced != 0 ->
		any_of(unplaced, record);
		if
		:: STATE(word[record]) != LAZY ->
			REMOVE(unplaced, record);
			ADD(wheel, record);
			place[record] = PLACED
		:: else
		fi;
		record = 0;
		goto work
	}
#endif
	/* hwt_worker_run: stop_requested */
	:: atomic {
		stop ->
		worker_gone = 1;
		goto done
	}
	fi;

	/* record_arm: record_edge; hwt_wheel_place or lane_return */
arm:
	atomic {
		record_edge(ARMED);
		if
		:: won -> wheel_place()
		:: else -> return_records()
		fi;
		goto work
	}

	/* record_run: record_edge; run_task: expired */
run_it:
	atomic {
#ifdef RUN_WITHOUT_CAS
		word[record] = WITH_STATE(seen, RUNNING);
#else
		record_edge(RUNNING);
		if
		:: won
		:: else ->
			not_run();
			goto work
		fi;
#endif
#ifdef LIMIT
	}
	atomic {
#endif
		expired++;
		check_counts()
	}
#ifdef LIMIT
	/* lanes_release_limit */
	atomic {
		limited--;
		check_counts()
	}
#endif
	/* run_task: the task */
	atomic {
#ifdef FINISH_BEFORE_RUN
		word[record] = WITH_STATE(seen, EXPIRED)
	}
	atomic {
#endif
		end(record, GENERATION(seen))
	}
	/* record_finish, lane_return */
	atomic {
		word[record] = WITH_STATE(seen, EXPIRED);
		return_records();
		goto work
	}

done:
	skip
}

proctype stopper()
{
	byte record, seen, count;
	bit won;

	/* hwt_timer_stop, hwt_worker_request_stop */
	timer_state = STOPPING;
	stop = 1;
	/* pthread_join */
	worker_gone;
#ifndef STOP_WITHOUT_CLOSE
	/* give_back_rest: hwt_lane_close */
	atomic {
		!locked[0] ->
		closed[0] = 1
	}
	atomic {
		!locked[LANES - 1] ->
		closed[LANES - 1] = 1
	}
#endif

	/* hwt_worker_next_unprocessed: next_left; record_give_back: record_word */
surrender:
	atomic {
		if
		:: batch != 0 ->
			first_of(batch, record);
			REMOVE(batch, record);
			move(record, IN_BATCH, IN_HANDS)
		/* hwt_wheel_sweep */
		:: batch == 0 && (wheel | unplaced) != 0 ->
			first_of(wheel | unplaced, record);
			REMOVE(wheel, record);
			REMOVE(unplaced, record);
			move(record, IN_WHEEL, IN_HANDS)
		:: batch == 0 && (wheel | unplaced) == 0 && ANY(submitted) ->
			POP(submitted);
			move(record, IN_SUBMITTED, IN_HANDS)
		:: batch == 0 && (wheel | unplaced) == 0 && NONE(submitted) -> goto surrendered
		fi;
		seen = word[record]
	}
	/* record_give_back: record_edge; give_back_rest: record->link */
give_back:
	atomic {
		if
		:: IS_PENDING(seen) ->
			record_edge(CANCELLED);
			if
			:: won ->
				move(record, IN_HANDS, IN_UNPROCESSED);
				ADD(unprocessed, record);
				count++
			:: else -> goto give_back
			fi
		:: else ->
			assert(I6 || STATE(seen) == CANCELLED || STATE(seen) == LAZY);
			if
			:: where[record] == IN_HANDS -> move(record, IN_HANDS, AT_REST)
			:: else /* in the cancelled queue, where it stays */
			fi
		fi;
		record = 0;
		seen = 0;
		won = 0;
		goto surrender
	}

surrendered:
	/* give_back_rest: given_back */
	atomic {
		given_back = count;
		check_counts()
	}
	/* finish_stop */
	timer_state = STOPPED
}

#ifdef READER
/* hwt_pending_timeouts */
proctype reader()
{
	byte begins, ends;

#ifdef READ_BEGINS_FIRST
	begins = accepted[0];
	begins = begins + accepted[LANES - 1] * (LANES - 1);
#endif
	ends = expired;
	ends = ends + given_back;
	ends = ends + cancelled_count[0];
	ends = ends + cancelled_count[LANES - 1] * (LANES - 1);
#ifndef READ_BEGINS_FIRST
	begins = accepted[0];
	begins = begins + accepted[LANES - 1] * (LANES - 1);
#endif
	assert(I8 || ends <= begins)
}
#endif

#define ALL_FREE (pool[0] | pool[LANES - 1] | returned[0] | returned[LANES - 1] | home[0] | home[LANES - 1])

init
{
	byte i;

	atomic {
#ifdef ONLY
		ONLY = 0;
#endif
		/* All carved already: each lane has some. */
		do
		:: i < RECORDS ->
			ADD(pool[i % LANES], i);
			where[i] = IN_FREE;
			i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < CLIENTS ->
			run client(i % LANES);
			i++
		:: else -> break
		od;
		i = 0;
		run worker();
		run stopper();
#ifdef READER
		run reader()
#endif
	}
	/* All is over. */
	d_step {
		_nr_pr == 1 ->
		do
		:: i < RECORDS ->
			assert(I2 || ended[i] == BIT(GENERATION(word[i]) + 1) - 2);
			assert(I2 || where[i] != IN_HANDS);
			assert(I3 || (where[i] == IN_FREE) == ((ALL_FREE & BIT(i)) != 0));
			i++
		:: else -> break
		od;
		assert(I8 || ENDS == BEGINS)
	}
}
