/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of memory that is given back (trim.c, sorter.c, pool.c, submit.c, cancel.c, hwt_timeout_timer).  For Spin; run.sh runs it.
 *
 * What is modelled
 *
 *   One slab of RECORDS records, two lanes, and TRIMS trims by the worker.  Two producers, each on its lane, TAKE records: out of the free list, out of
 *   what came back, the slab, the other lane, the worker's hands, or a slab that left.  Each record becomes a timeout or an extension, or goes back
 *   unused.  A timeout ends by a run, or by a canceller, which takes CALLS handles of any age, keeps them as long as it likes, and cancels or asks for
 *   the timer.  What has ended comes back to the lane of its record.  The steps name functions of src/.
 *
 *   One step is one access to something that others may change meanwhile.  What is folded into a step, and why that hides nothing:
 *
 *     the lock       of a lane is a variable: a producer keeps it for many steps, the worker for one.  What the worker changes under it nobody else
 *                    touches without it, or without the mutex.
 *     the mutex      of the sorter is held for one step, which is all that its holders do under it.
 *     a list         is a set: it is popped in any order.  A whole list is taken by one store or exchange.
 *     a push         comes with the word: a cancel in between finds the record in the queue, as one after it.
 *     head of slab   its list and its numbers are under the mutex or its owner's.  Only its lane is read without: it goes and comes in steps of its
 *                    own.  A slab that serves again changes one lane for another, both of the same timer.
 *
 *   Where the model may do more than the code: any thread ends and returns a timeout, at any moment of a trim; the system clears the head, each word and
 *   each lane in any order (a record may lie on two pages), or nothing; a slice sorts one record; a thief may overlook a list.
 *
 * What is not
 *
 *   Memory order: steps are sequentially consistent.  New slabs: a producer that finds nothing gives up.  Nodes and chunks; reserves (a record of one
 *   is out); states between QUEUED and the end (word.pml), moves (reschedule.pml): all of them are exchanges on the exact word.  When to trim.
 *
 * Invariants
 *
 *   T1  the exchange of a stale handle fails: one that succeeds ends the handle's own timeout, which was pending.
 *   T2  if the word shows the generation of a handle, the timeout has ended, or it is pending and the lane that was loaded before is there.
 *   T3  the timer of any handle is known: a lane is found.
 *   T4  of a slab that left, no record is in a list, in a thread's hands or out, and none enters one (S2).
 *   T5  a record is in one list, or in the hands of one thread, or out (S1).
 *   T6  a generation that a record has given out is never given out again (S3).
 *   T7  nothing is lost: after a trim nothing is in the worker's hands; in the end every record is somewhere, and a slab that left is hinted at (S4).
 *
 *   And no process is stuck before its end.
 *
 * Planted faults, each of which must be found
 *
 *   FLOOR_NOT_NOTED       sorting does not note the generation.
 *   FLOOR_FROM_NOW        each trim notes it from the beginning: what has not been carved since is forgotten.
 *   FLOOR_CLEARED         it is cleared with the head of the slab, and not written again.
 *   ADOPT_AT_FLOOR        records of a slab that serves again begin at the highest generation, not above it.
 *   CARVE_KEEPS_WORD      a record that is carved keeps its word.
 *   GENERATION_FROM_0     the first timeout of a record has the generation 0.
 *   TAKE_BEFORE_LANE      a producer writes the word before the lane.
 *   WORD_FIRST            a canceller loads the word before the lane.
 *   EXCHANGE_BLINDLY      a canceller looks at the word and then stores.
 *   HEAD_NOT_AWAITED      hwt_timeout_timer takes the lane in the head as it is.
 *   TAKE_UNLOCKED         the worker takes a free list without the lock.
 *   LEAVE_WITH_ONE_OUT    a slab leaves when all but one of its records are sorted.
 *   REST_UNLOCKED         the worker looks without the lock how many records have not been carved.
 *   COUNT_UNLOCKED        the worker looks without the mutex how many records are sorted.
 *   UNCARVED_OVERLOOKED   a slab that leaves stays open: its lane still carves from it.
 *   PUT_BACK_BLINDLY      the worker puts back what was sorted when it looked without the mutex.
 *   PUT_BACK_ONCE         it tries only once, and drops what it holds.
 *   END_BEFORE_REST       it ends without what it found of slabs that are not in the table.
 *   TAKE_BACK_UNLOCKED    a producer takes records out of the worker's hands without the mutex.
 *   ADOPT_UNLOCKED        a producer takes a slab without the mutex.
 *   GIVE_BACK_LISTED      the worker gives back a slab that is still in the list of those that left.
 *   HINT_FORGOTTEN        it does not say that there is a slab, when one has been given back.
 *   HINT_UNLOCKED         a producer that has found none says so after it has unlocked the mutex.
 */
#define RECORDS 2
#ifndef TAKES
#define TAKES 1
#endif
#ifndef TRIMS
#define TRIMS 1
#endif
#ifndef CALLS
#define CALLS 1
#endif
#ifndef PRODUCERS /* 1 or 2; lanes are 2 in any case */
#define PRODUCERS 2
#endif

/* The word: generation | state. */
#define FREE 0
#define PENDING 1
#define ENDED 2
#define STATE(w) ((w) & 3)
#define GENERATION(w) ((w) >> 2)
#define WORD(g, s) ((g) << 2 | (s))
#define HAS(w, flags) (((w) & (flags)) != 0)

/* Where a record is. */
#define POOL(l) (1 << (l))     /* the free list of a lane */
#define RETURNED(l) (4 << (l)) /* what came back to it */
#define UNSORTED 16
#define REST 32
#define SORTED 64
#define HANDS 128 /* of a producer */
#define OUT 256
#define UNCARVED 512

/* Where the slab is: with a lane, 0 or 1, or here. */
#define LEAVING 2
#define GIVING 3 /* in the worker's hands */
#define GIVEN 4
#define HAS_LEFT (slab >= LEAVING)

/* Lanes are 0 and 1, a lane in memory 1 and 2, 0: NULL. */
byte word[RECORDS], lane[RECORDS];
short where[RECORDS];
byte slab, head_lane = 1, floor, carve; /* floor: hwt_record_slab.generation */
bit lock[2];
bit named;                      /* the table has the slab */
bit holds_records, holds_slabs; /* the hints */

/* Ghosts. */
byte last[RECORDS]; /* the last generation that was given out */
byte over;          /* producers and worker */

/* By their names Spin's message tells which invariant has failed.  ONLY=T1: no other is looked at. */
#ifdef ONLY
#define OFF 1
#else
#define OFF 0
#endif
hidden byte T1 = OFF, T2 = OFF, T3 = OFF, T4 = OFF, T5 = OFF, T6 = OFF, T7 = OFF;

#define SOME(list) HAS(where[0] | where[1], list)
#define COUNT(list) (HAS(where[0], list) + HAS(where[1], list))

/* Chooses a record of a list; cannot be taken if there is none. */
inline any_in(r, list)
{
	if
	:: HAS(where[0], list) -> r = 0
	:: HAS(where[1], list) -> r = 1
	fi
}

inline enter(r, list)
{
	assert(T5 || where[r] == 0);
	assert(T4 || !HAS_LEFT);
	where[r] = where[r] | (list)
}

inline move(r, from, to)
{
	where[r] = where[r] & ~(from);
	enter(r, to)
}

/* Moves a whole list. */
inline move_all(from, to)
{
	for (i : 0 .. RECORDS - 1) {
		if
		:: HAS(where[i], from) -> move(i, from, to)
		:: else
		fi
	}
	i = 0
}

/* hwt_pool_adopt */
inline adopt(me)
{
	slab = me;
	head_lane = me + 1;
#ifdef ADOPT_AT_FLOOR
	carve = floor;
#else
	carve = floor + 1;
#endif
	for (i : 0 .. RECORDS - 1) {
		enter(i, UNCARVED)
	}
	i = 0
}

proctype producer(byte me)
{
	byte r, i, takes;

next:
	if
	:: atomic {
		takes < TAKES && !lock[me] ->
		takes++;
		lock[me] = 1
	}
	:: atomic {
		true ->
		takes = 0;
		over++;
		goto done
	}
	fi;

	/* take_record: pool_pop, in two steps under the lock; find_record: returned_take_all */
find:
	if
	:: atomic {
		SOME(POOL(me)) ->
		any_in(r, POOL(me))
	}
		atomic {
			move(r, POOL(me), HANDS);
			goto found
		}
	:: atomic {
		!SOME(POOL(me)) ->
		if
		:: SOME(RETURNED(me)) ->
			move_all(RETURNED(me), POOL(me));
			goto find
		:: else
		fi
	}
	fi;
	/* pool_carve */
	atomic {
		if
		:: slab == me && SOME(UNCARVED) ->
			any_in(r, UNCARVED);
			move(r, UNCARVED, HANDS);
#ifndef CARVE_KEEPS_WORD
			word[r] = WORD(carve, FREE);
#endif
			goto found
#ifdef UNCARVED_OVERLOOKED
		:: slab != me && SOME(UNCARVED) && head_lane == me + 1 ->
			any_in(r, UNCARVED);
			move(r, UNCARVED, HANDS);
			word[r] = WORD(carve, FREE);
			goto found
#endif
		:: else
		fi
	}
	/* hwt_lane_steal_records */
	if
	:: atomic {
		SOME(RETURNED(1 - me)) ->
		move_all(RETURNED(1 - me), POOL(me));
		goto find
	}
	:: atomic {
		SOME(POOL(1 - me)) && !lock[1 - me] ->
		move_all(POOL(1 - me), POOL(me));
		goto find
	}
	:: true
	fi;
	/* hwt_sorter_take_back */
#ifdef TAKE_BACK_UNLOCKED
	if
	:: holds_records && SOME(SORTED) -> any_in(r, SORTED)
		atomic {
			move(r, SORTED, HANDS);
			goto found
		}
	:: !holds_records || !SOME(SORTED)
	fi;
#endif
	atomic {
		if
		:: holds_records && SOME(UNSORTED) ->
			move_all(UNSORTED, POOL(me));
			goto find
		:: holds_records && !SOME(UNSORTED) && SOME(REST) ->
			move_all(REST, POOL(me));
			goto find
		:: holds_records && !SOME(UNSORTED) && !SOME(REST) && SOME(SORTED) ->
			move_all(SORTED, POOL(me));
			goto find
		:: else
		fi
	}
	/* hwt_sorter_grow: take_slab */
#ifdef ADOPT_UNLOCKED
	if
	:: holds_slabs && (slab == LEAVING || slab == GIVEN)
		atomic {
			adopt(me);
			goto find
		}
	:: !(holds_slabs && (slab == LEAVING || slab == GIVEN))
	fi;
#endif
	atomic {
		if
		:: holds_slabs && (slab == LEAVING || slab == GIVEN) ->
			adopt(me);
			goto find
#ifdef HINT_UNLOCKED
		:: holds_slabs && !(slab == LEAVING || slab == GIVEN) -> goto clear_hint
#else
		:: holds_slabs && !(slab == LEAVING || slab == GIVEN) -> holds_slabs = 0
#endif
		:: !holds_slabs
		fi;
		lock[me] = 0; /* ENOMEM */
		goto next
	}

#ifdef HINT_UNLOCKED
clear_hint:
	atomic {
		holds_slabs = 0;
		lock[me] = 0;
		goto next
	}
#endif

found:
	if
#ifndef TAKE_BEFORE_LANE
		/* accept */
	:: lane[r] = me + 1
#else
	:: true
#endif
		/* record_take: the word; queue_push; queue_unlock */
		atomic {
			word[r] = WORD(GENERATION(word[r]) + 1, PENDING);
			assert(T6 || GENERATION(word[r]) > last[r]);
			last[r] = GENERATION(word[r]);
			move(r, HANDS, OUT)
		}
#ifdef TAKE_BEFORE_LANE
		lane[r] = me + 1
#endif
		/* make_extension: its word stays */
	:: atomic {
		true ->
		lane[r] = me + 1;
		move(r, HANDS, OUT)
	}
		/* hwt_reserve_return: pool_push */
	:: move(r, HANDS, POOL(me))
	fi;
	atomic {
		r = 0;
		lock[me] = 0;
		goto next
	}
done:
	skip
}

/* The worker's pass, executor and task threads, and producers that reclaim. */
proctype ender()
{
	byte r;

end:
	do
		/* the edges run and finish */
	:: atomic {
		any_in(r, OUT);
		if
		:: STATE(word[r]) == PENDING -> word[r] = WORD(GENERATION(word[r]), ENDED)
			/* lane_return, returned_push */
		:: STATE(word[r]) != PENDING && lane[r] != 0 -> move(r, OUT, RETURNED(lane[r] - 1))
		fi;
		r = 0
	}
	od
}

proctype canceller()
{
	byte r, generation, home, seen, calls;

next:
	if
	:: atomic {
		calls < CALLS ->
		calls++;
		if
		:: r = 0
		:: r = 1
		fi;
		generation = last[r]
	}
		goto call
	:: goto done
	fi;

call:
	if
		/* hwt_cancel: record_lane; hwt_lane_cancel: record_word */
#ifdef WORD_FIRST
	:: seen = word[r];
		home = lane[r];
#else
	:: home = lane[r];
		seen = word[r];
#endif
		atomic {
			if
			:: GENERATION(seen) != generation -> goto over_now
			:: else
			fi;
			assert(T2 || STATE(seen) == ENDED || (STATE(seen) == PENDING && home != 0));
			if
			:: STATE(seen) != PENDING -> goto over_now
			:: else
			fi
		}
		/* record_edge */
		atomic {
#ifdef EXCHANGE_BLINDLY
			if
			:: true ->
#else
			if
			:: word[r] == seen ->
#endif
				assert(T1 || (word[r] == WORD(generation, PENDING) && generation == last[r]));
				word[r] = WORD(generation, ENDED)
			:: word[r] != seen
			fi
		}
		/* hwt_timeout_timer: record_lane; hwt_sorter_lane */
	:: home = lane[r];
		atomic {
			if
			:: home != 0 -> goto over_now
			:: else
			fi
		}
#ifndef HEAD_NOT_AWAITED
		atomic {
			head_lane != 0 ->
			home = head_lane
		}
#else
		home = head_lane;
#endif
		assert(T3 || home != 0)
	fi;
over_now:
	atomic {
		r = 0;
		generation = 0;
		home = 0;
		seen = 0;
		goto next
	}
done:
	calls = 0
}

#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* hwt_sorter_sort, by slices of one record */
inline sort_one()
{
	if
	:: named ->
		move(r, UNSORTED, SORTED);
#ifndef FLOOR_NOT_NOTED
		floor = MAX(floor, GENERATION(word[r]))
#endif
	:: !named -> move(r, UNSORTED, REST)
	fi;
	r = 0
}

/* hwt_slabs_take_out, hwt_sorter_leave */
inline leave()
{
	for (i : 0 .. RECORDS - 1) {
#ifndef UNCARVED_OVERLOOKED
		where[i] = where[i] & ~(SORTED | UNCARVED);
		assert(T4 || where[i] == 0)
#else
		where[i] = where[i] & ~SORTED
#endif
	}
	i = 0;
	slab = LEAVING;
	holds_slabs = 1
}

#ifdef LEAVE_WITH_ONE_OUT
#define ENOUGH(uncarved) (COUNT(SORTED) + (uncarved) >= RECORDS - 1)
#else
#define ENOUGH(uncarved) (COUNT(SORTED) + (uncarved) == RECORDS)
#endif

proctype worker()
{
	byte r, i, l, trims, kept, kept_lane;
	byte noted;   /* for faults: what was so at an earlier moment */
	byte cleared; /* bits: the head, words, lanes */

trim:
	if
		/* hwt_trim_begin, hwt_sorter_begin */
	:: atomic {
		trims < TRIMS ->
		trims++;
		holds_records = 1;
#ifdef FLOOR_FROM_NOW
		floor = 0;
#endif
		goto name
	}
	:: atomic {
		true ->
		trims = 0;
		over++;
		goto done
	}
	fi;

	/* name */
name:
	atomic {
		if
		:: !lock[l] && slab == l -> named = 1
		:: else
		fi;
		l++;
		if
		:: l < 2 -> goto name
		:: else -> l = 0
		fi
	}

	/* take_free; returned_take_all; hwt_sorter_put */
sort:
	atomic {
		if
#ifdef TAKE_UNLOCKED
		:: true -> move_all(POOL(l), UNSORTED)
#else
		:: !lock[l] -> move_all(POOL(l), UNSORTED)
		:: lock[l]
#endif
		fi
	}
	do
	:: atomic {
		SOME(UNSORTED) ->
		any_in(r, UNSORTED);
		sort_one()
	}
	:: atomic {
		!SOME(UNSORTED) ->
		break
	}
	od;
	atomic {
		move_all(RETURNED(l), UNSORTED)
	}
	do
	:: atomic {
		SOME(UNSORTED) ->
		any_in(r, UNSORTED);
		sort_one()
	}
	:: atomic {
		!SOME(UNSORTED) ->
		break
	}
	od;
	/* put_rest */
	atomic {
#ifndef END_BEFORE_REST
		!lock[l] ->
		move_all(REST, POOL(l));
#endif
		l++;
		if
		:: l < 2 -> goto sort
		:: else -> l = 0
		fi
	}

	/* take_out */
take_out:
#ifdef REST_UNLOCKED
	noted = (slab == l -> COUNT(UNCARVED) : 0);
#endif
#ifdef COUNT_UNLOCKED
	noted = (slab == l && ENOUGH(COUNT(UNCARVED)));
#endif
	atomic {
		if
#ifdef REST_UNLOCKED
		:: !lock[l] && slab == l && ENOUGH(noted) -> leave()
#elif defined(COUNT_UNLOCKED)
		:: !lock[l] && slab == l && noted -> leave()
#else
		:: !lock[l] && slab == l && ENOUGH(COUNT(UNCARVED)) -> leave()
#endif
		:: else
		fi;
		noted = 0;
		l++;
		if
		:: l < 2 -> goto take_out
		:: else -> l = 0
		fi
	}

	/* put_back: record_slab_lane; hwt_sorter_return */
	l = head_lane - 1;
#ifdef PUT_BACK_BLINDLY
	noted = HAS(where[0], SORTED) | HAS(where[1], SORTED) << 1;
	atomic {
		!lock[l] ->
		for (i : 0 .. RECORDS - 1) {
			if
			:: HAS(noted, 1 << i) -> move(i, SORTED, POOL(l))
			:: else
			fi
		}
		i = 0;
		noted = 0
	}
#elif defined(PUT_BACK_ONCE)
	atomic {
		if
		:: !lock[l] -> move_all(SORTED, POOL(l))
		:: else
		fi
	}
#else
	atomic {
		!lock[l] ->
		move_all(SORTED, POOL(l))
	}
#endif
	/* hwt_sorter_end */
	atomic {
		assert(T7 || !SOME(UNSORTED | REST | SORTED));
		l = 0;
		named = 0;
		holds_records = 0
	}

	/* hwt_sorter_give_back */
	atomic {
		if
		:: slab != LEAVING -> goto trim
		:: else
#ifndef GIVE_BACK_LISTED
			-> slab = GIVING
#endif
		fi;
		kept = floor;
		kept_lane = head_lane
	}
	/* hwt_mem_give_back */
	do
	:: atomic {
		!HAS(cleared, 1) ->
		head_lane = 0;
		floor = 0;
		cleared = cleared | 1
	}
	:: atomic {
		!HAS(cleared, 2) ->
		r = 0;
		goto clear_word
	}
	:: atomic {
		!HAS(cleared, 4) ->
		r = 1;
clear_word:
		assert(T4 || where[r] == 0);
		word[r] = 0;
		cleared = cleared | 2 << r;
		r = 0
	}
	:: atomic {
		!HAS(cleared, 8) ->
		r = 0;
		goto clear_lane
	}
	:: atomic {
		!HAS(cleared, 16) ->
		r = 1;
clear_lane:
		assert(T4 || where[r] == 0);
		lane[r] = 0;
		cleared = cleared | 8 << r;
		r = 0
	}
	:: cleared == 31 -> break
	:: cleared == 0 -> break /* not this system */
	od;
	/* give_back: the generation before the lane, release */
	atomic {
#ifndef FLOOR_CLEARED
		floor = kept;
#endif
		head_lane = kept_lane;
		cleared = 0;
		kept = 0;
		kept_lane = 0
	}
	atomic {
#ifndef GIVE_BACK_LISTED
		slab = GIVEN;
#endif
#ifndef HINT_FORGOTTEN
		holds_slabs = 1;
#endif
		goto trim
	}
done:
	skip
}

init
{
	byte i;

	atomic {
#ifdef ONLY
		ONLY = 0;
#endif
		lane[0] = 1;
		lane[1] = 2;
		where[0] = POOL(0);
		where[1] = RETURNED(1);
#ifndef GENERATION_FROM_0
		last[0] = 2;
		last[1] = 1;
		/* Or the slab has served before, and the second record has not been carved since. */
		if
		:: floor = 1;
			carve = 2;
			last[0] = 3;
			where[1] = UNCARVED
		:: true
		fi;
#endif
		word[0] = WORD(last[0], ENDED);
		word[1] = WORD(last[1], ENDED);
		run worker();
		run producer(0);
#if PRODUCERS == 2
		run producer(1);
#endif
		run ender();
		run canceller()
	}
	/* All is over. */
	d_step {
		over == PRODUCERS + 1 ->
		for (i : 0 .. RECORDS - 1) {
			assert(T7 || HAS_LEFT || where[i] != 0)
		}
		assert(T7 || !HAS_LEFT || holds_slabs)
	}
}
