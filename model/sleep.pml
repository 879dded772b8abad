/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of how the worker goes to sleep and is woken (idle.h), on a machine with store buffers.  For Spin; run.sh
 * runs it.
 *
 * What is modelled
 *
 *   Before the worker sleeps beyond the next tick it publishes in `wake_for` the last time for which it wants to be
 *   woken, and looks at the lanes once more.  A producer pushes, reads wake_for, looks how much has gathered in its lane,
 *   and wakes the worker if its timeout is due by then, or if the lane has grown long.  Both store first and load then,
 *   and x86 lets a load overtake a store that still waits in the processor's buffer.  So each thread's stores go through
 *   a buffer of two, which a process of its own drains when it likes; a locked instruction waits until it is empty.  Two
 *   ways to make the handshake hold, as in idle.h:
 *
 *     has_barrier (default)  the worker calls membarrier between publishing and looking: each processor's buffer is
 *                            emptied at some moment during the call, one after the other.  Producers do nothing.  The
 *                            system may refuse the call, then there is no sleep.
 *     FENCE                  producer and worker each have a fence between store and load.
 *
 *   wake_for is IDLE_AWAKE, nobody needs to wake; or a time; or IDLE_NAP, published without a barrier: the worker
 *   sleeps to the next tick, and only a long lane matters.  Who changes it from what it has read to IDLE_AWAKE by a
 *   (strong) compare-and-swap is the one to wake.  A thread that fails need not look again: the word changed after its push
 *   could be seen.  A thread that is held up between claim and wake may end a later sleep; that costs a pass.  The steps
 *   name functions of src/ where these are concerned.
 *
 *   PRODUCERS producers with OPERATIONS each: timeouts for any of TICKS ticks, with CANCELS also cancellations; lanes
 *   of their own or, with LANES=1, one.  A thread stops the worker at any moment.  Where the model may do more than
 *   the code: a pass leaves in the lanes what it likes, anything may be due next in the wheel, naps and idle sleeps
 *   come in any order, a sleep may reach its tick at once.
 *
 *   What is_long may find: how many are in the lane, and, once GATHER ever were, also that it is long when it is not.
 *   For drained_told is written once a pass and read when it has gone on, so any older count may be seen, never a
 *   later one.  That it wakes too early is what the model then does.  It also stands for a producer without memory,
 *   which wakes any sleeping worker.
 *
 *   What is folded into a step, and why that hides nothing:
 *
 *     counting a push   it is stored just before the push, by the same thread under the same lock.
 *     is_long           goes with the load of wake_for when the lane is the producer's own: meanwhile the worker can
 *                       only take from it, and an older count may be seen anyway.
 *     a lane's lock     is not needed when the lane is the producer's own.
 *     stop              flag and wake are one: a worker that finds the flag without the wake goes, and needs none.
 *     the end           when the worker has gone, no operation is begun: nothing here depends on it.
 *
 * What is not
 *
 *   Anything of a record but its tick.  A nap that is too short to be published: nobody sees it.  Processors that
 *   order less than x86.
 *
 * Invariants
 *
 *   When no producer is under way, no store is buffered and no wake is pending, then for a worker that sleeps idle
 *
 *   S1  no lost wake-up: nothing in a lane is due by the time that it has published.
 *   S3  no lane holds GATHER operations.  One that two producers share may hold that many, no more: of a submission and
 *       a cancellation at the same moment each may miss the other; the next operation counts both.
 *
 *   and at any time
 *
 *   S2  at most one wake for each sleep published.
 *   S4  only a long lane ends a nap.
 *
 *   And no process is stuck before its end: a worker that sleeps through a stop would be.
 *
 * Planted faults, each of which must be found
 *
 *   NO_FENCE              neither membarrier nor a fence in the producer; the worker has its fence.
 *   NO_WORKER_FENCE       producers have theirs, the worker has none.  With FENCE.
 *   BARRIER_TOO_EARLY     membarrier first, then publish and look.
 *   PUBLISH_AFTER_LOOK    the worker looks first, then publishes, with membarrier, and sleeps.
 *   REFUSAL_OVERLOOKED    it sleeps although membarrier was refused.
 *   LOOK_AT_SUBMITTED     it does not look whether there are cancellations.
 *   EARLIER_ONLY          a timeout that is due at the very time published wakes nobody.
 *   WAKE_NOT_CLAIMED      a thread that finds a reason wakes, without the compare-and-swap.
 *   WAKE_THE_AWAKE        a long lane wakes whatever the word says.
 *   WAKE_FORGOTTEN        the sleeper begins by forgetting earlier wakes.
 *   LONG_LANE_OVERLOOKED  producers look at the time alone.
 *   COUNT_BEFORE_PUSH     a producer counts its lane before its own operation is in it.
 *   TELL_TOO_MUCH         the worker counts as taken one that it leaves in the lane.
 *   NAP_ABOVE_ALL         IDLE_NAP is later than every time instead of earlier.
 */
#ifndef PRODUCERS /* 1 or 2 */
#define PRODUCERS 2
#endif
#ifndef LANES /* 1, or as many as producers */
#define LANES PRODUCERS
#endif
#ifndef OPERATIONS /* of each producer */
#define OPERATIONS 2
#endif
#ifndef TICKS
#define TICKS 2
#endif
#ifndef GATHER /* HWT_GATHER */
#define GATHER 2
#endif

/* Times, in order.  That of a tick stands for all that is due at it; LAST published means that the wheel is empty. */
#define IDLE_AWAKE 0
#define NEXT 2 /* the next tick, to which a nap sleeps */
#define LAST (NEXT + TICKS - 1)
#define CANCEL (LAST + 1) /* in place of a tick: a cancellation */
#ifdef NAP_ABOVE_ALL
#define IDLE_NAP (LAST + 2)
#else
#define IDLE_NAP 1
#endif

#define WORKER PRODUCERS

/* What a buffered store writes. */
#define PUSH 1   /* a queue's tail->next: a timeout of this tick, or a cancellation; counted */
#define UNLOCK 2 /* this bit of `locked` */
#define WAKE_FOR 3

#define SUBMITTED 1
#define CANCELLED 2

#define BIT(tick) (1 << (tick))

/* Memory, as all see it. */
byte submitted[LANES], cancelled[LANES]; /* how many are queued */
byte due[LANES];                         /* the submitted ones' ticks, a bit each */
byte locked;                             /* the locks of the lane that is shared, a bit for each queue */
byte wake_for;
bit stop;
bit woken; /* sleeper->woken, under its mutex */

/* The worker's. */
byte published;
bit asleep; /* idle */
bit gone;

chan buffer[PRODUCERS + 1] = [2] of { byte, byte };

byte operations[PRODUCERS]; /* begun */

/* Ghosts: producers under way, wakes for the sleep that is published. */
byte under_way, wakes;

#ifdef TELL_TOO_MUCH
byte too_much[LANES];
#define TOO_MUCH(l) too_much[l]
#else
#define TOO_MUCH(l) 0
#endif

/* By their names Spin's message tells which invariant has failed.  ONLY=S1: no other is looked at. */
#ifdef ONLY
#define OFF 1
#else
#define OFF 0
#endif
hidden byte S1 = OFF, S2 = OFF, S3 = OFF, S4 = OFF;

#define QUIET (asleep && !woken && under_way == 0 && NONE_BUFFERED)
#define NONE_BUFFERED (empty(buffer[0]) && empty(buffer[PRODUCERS - 1]) && empty(buffer[WORKER]))
#define BY(tick) (BIT(tick + 1) - 1)
#define IN_LANE(l) (submitted[l] + cancelled[l])
#define EVER_IN_LANE(l) (LANES == PRODUCERS -> operations[l] : operations[0] + operations[PRODUCERS - 1])

/* S3 */
#define MOST (GATHER - (LANES == PRODUCERS))

/* A processor's store buffer. */
proctype memory(byte owner)
{
	byte what, value;

end:
	do
	:: atomic {
		buffer[owner]?what,value ->
		if
		:: what == PUSH ->
			if
#ifdef CANCELS
			:: value == CANCEL -> cancelled[owner % LANES]++
#endif
			:: else ->
				submitted[owner % LANES]++;
				due[owner % LANES] = due[owner % LANES] | BIT(value)
			fi
#if LANES < PRODUCERS
		:: what == UNLOCK -> locked = locked & ~value
#endif
		:: what == WAKE_FOR ->
			wake_for = value;
			if
			:: value != IDLE_AWAKE -> wakes = 0
			:: else
			fi
		fi;
		what = 0;
		value = 0
	}
	od
}

#if LANES < PRODUCERS
#define IS_LOCKED(queue) (locked & queue)
#define LOCK(queue) locked = locked | queue
#define UNLOCK_LATER(queue) buffer[me]!UNLOCK,queue
#else
#define IS_LOCKED(queue) false
#define LOCK(queue) skip
#define UNLOCK_LATER(queue) skip
#endif

/* queue_lock, an exchange; queue_push, queue_unlock, its own until they leave the buffer */
inline push(queue)
{
	operations[me] < OPERATIONS && !gone && empty(buffer[me]) && !IS_LOCKED(queue) ->
	LOCK(queue);
	under_way++;
	operations[me]++;
	if
#ifdef CANCELS
	:: queue == CANCELLED -> tick = CANCEL
#endif
	:: queue == SUBMITTED ->
		tick = NEXT;
		do
		:: tick < LAST -> tick++
		:: break
		od
	fi;
	buffer[me]!PUSH,tick;
	UNLOCK_LATER(queue)
}

/* The call is over. */
inline over()
{
	under_way--;
	tick = 0;
	long_lane = 0;
	seen = 0;
	goto ready
}

#ifdef EARLIER_ONLY
#define IS_DUE (tick < seen)
#else
#define IS_DUE (tick <= seen)
#endif
/* Its own push still waits in the buffer. */
#define BUFFERED (len(buffer[me]) == 1 + (LANES < PRODUCERS))
#ifdef LONG_LANE_OVERLOOKED
#define LENGTH_SEEN 0
#elif defined(COUNT_BEFORE_PUSH)
#define LENGTH_SEEN (IN_LANE(me % LANES) - (!BUFFERED))
#else
#define LENGTH_SEEN (IN_LANE(me % LANES) + (BUFFERED) - TOO_MUCH(me % LANES))
#endif
#ifdef WAKE_THE_AWAKE
#define IS_ASLEEP true
#else
#define IS_ASLEEP (seen != IDLE_AWAKE)
#endif

/* cancel_armed looks no further if it is not. */
inline is_long()
{
	if
#ifndef LONG_LANE_OVERLOOKED
	:: EVER_IN_LANE(me % LANES) >= GATHER -> long_lane = 1
#endif
	:: LENGTH_SEEN < GATHER ->
#ifdef CANCELS
		if
		:: tick == CANCEL -> over()
		:: else
		fi
#endif
	fi
}

proctype producer(byte me)
{
	byte tick, seen;
	bit long_lane;

ready:
	if
	:: atomic { push(SUBMITTED) } /* hwt_lane_submit */
#ifdef CANCELS
	:: atomic { push(CANCELLED) } /* cancel_armed */
#endif
	:: operations[me] == OPERATIONS || gone -> goto done
	fi;
#if defined(FENCE) && !defined(NO_FENCE)
	empty(buffer[me]); /* idle_fence */
#endif
#if LANES < PRODUCERS
	atomic { seen = wake_for } /* idle_look */
#endif
	/* notify_submitted, notify_cancelled */
	atomic {
#if LANES == PRODUCERS
		seen = wake_for; /* idle_look */
#endif
		is_long();
		if
		:: IS_DUE || (long_lane && IS_ASLEEP) -> tick = 0
		:: else -> over()
		fi
	}
	/* hwt_idle_wake: compare-and-swap */
	atomic {
		empty(buffer[me]) ->
		if
#ifndef WAKE_NOT_CLAIMED
		:: wake_for != seen -> over()
#endif
		:: else ->
			assert(S4 || seen != IDLE_NAP || long_lane);
#ifndef WAKE_NOT_CLAIMED
			wake_for = IDLE_AWAKE;
#endif
			seen = 0;
			long_lane = 0;
			wakes++;
			assert(S2 || wakes <= 1)
		fi
	}
	/* hwt_sleeper_wake: its mutex is a locked instruction */
	atomic {
		empty(buffer[me]) ->
		woken = 1;
		over()
	}

done:
	skip
}

/* drain */
inline take(l)
{
	if
	:: atomic {
		submitted[l] != 0 ->
		submitted[l] = 0;
		due[l] = 0
	}
#ifdef CANCELS
	:: atomic {
		cancelled[l] != 0 ->
		cancelled[l] = 0
	}
#endif
#ifdef TELL_TOO_MUCH
	:: atomic {
		submitted[l] != 0 ->
		too_much[l] = 1
	}
#endif
	fi;
	goto pass
}

/* queue_is_empty */
inline look(queue)
{
	if
	:: queue == 0
	:: queue != 0 -> goto awake
	fi
}

inline hwt_lanes_are_empty()
{
	look(submitted[0]);
#if LANES > 1
	look(submitted[LANES - 1]);
#endif
#if defined(CANCELS) && !defined(LOOK_AT_SUBMITTED)
	look(cancelled[0]);
#if LANES > 1
	look(cancelled[LANES - 1])
#endif
#endif
}

/* full_fence, or membarrier: one processor after the other; or the system refuses it */
inline barrier()
{
	empty(buffer[WORKER]);
#if !defined(FENCE) && !defined(NO_FENCE)
	if
	:: empty(buffer[0]);
		empty(buffer[PRODUCERS - 1])
#ifdef REFUSAL_OVERLOOKED
	:: true
#else
	:: goto awake
#endif
	fi
#endif
}

proctype worker()
{
	/* hwt_worker_run, hwt_worker_pass: whatever is taken from the lanes */
pass:
	if
	:: stop -> goto done
	:: take(0)
#if LANES > 1
	:: take(LANES - 1)
#endif
	:: !stop -> goto nap
	:: !stop
	fi;

	/* idle: hwt_wheel_next_due, hwt_idle_begin */
#ifdef PUBLISH_AFTER_LOOK
	hwt_lanes_are_empty();
#endif
#ifdef BARRIER_TOO_EARLY
	barrier();
#endif
	atomic {
		published = NEXT;
		do
		:: published < LAST -> published++
		:: break
		od;
		buffer[WORKER]!WAKE_FOR,published
	}
#if !defined(BARRIER_TOO_EARLY) && !defined(NO_WORKER_FENCE)
	barrier();
#endif
#ifndef PUBLISH_AFTER_LOOK
	hwt_lanes_are_empty();
#endif

	/* hwt_idle_sleep: the sleeper's mutex is a locked instruction; a wake that came before ends it at once */
	atomic {
		empty(buffer[WORKER]) ->
#ifdef WAKE_FORGOTTEN
		woken = 0;
#endif
		asleep = 1
	}
	atomic {
		if
		:: woken
		:: published != LAST /* its time has come */
		fi;
		woken = 0;
		asleep = 0
	}

	/* hwt_idle_end */
awake:
	atomic {
		buffer[WORKER]!WAKE_FOR,IDLE_AWAKE;
		published = 0;
		goto pass
	}

	/* hwt_idle_begin_nap, hwt_idle_sleep: woken, or its time has come */
nap:
	buffer[WORKER]!WAKE_FOR,IDLE_NAP;
	atomic {
		empty(buffer[WORKER]) ->
		woken = 0;
		goto awake
	}

done:
	gone = 1
}

/* hwt_worker_request_stop */
proctype stopper()
{
	atomic {
		stop = 1;
		woken = 1
	}
}

/* These steps can be taken only where an invariant is broken. */
proctype monitor()
{
end:
	if
	:: atomic {
		QUIET && ((due[0] | due[LANES - 1]) & BY(published)) ->
		assert(S1)
	}
	:: atomic {
		QUIET && (IN_LANE(0) > MOST || IN_LANE(LANES - 1) > MOST) ->
		assert(S3)
	}
	fi
}

init
{
	atomic {
#ifdef ONLY
		ONLY = 0;
#endif
		run memory(0);
#if PRODUCERS == 2
		run memory(1);
		run producer(1);
#endif
		run memory(WORKER);
		run producer(0);
		run worker();
		run stopper();
		run monitor()
	}
}
