/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of how an idle worker goes to sleep and is woken, on a machine with store buffers.  For Spin; run.sh runs it.
 *
 * What is modelled
 *
 *   The idle worker publishes the tick up to which it is going to sleep, looks at the lanes once more, and sleeps.  A
 *   producer enqueues, then reads the published tick, and wakes the worker if its own is earlier.  Both store first
 *   and load then, and x86 lets a load overtake a store that still waits in the processor's buffer.  So each thread's
 *   stores go through a buffer of two, which a process of its own drains when it likes; a locked instruction waits
 *   until it is empty.  Two ways to make the handshake hold:
 *
 *     MEMBARRIER (default)  the worker calls membarrier between publishing and looking: each processor's buffer is
 *                           emptied at some moment during the call, one after the other.  Producers do nothing.
 *     FENCE                 producer and worker each have a fence between store and load.
 *
 *   The word `wake_at`: AWAKE, nobody needs to wake, or the tick up to which the worker sleeps.  Who changes it from
 *   the tick that it has read to AWAKE by a (strong) compare-and-swap is the one to wake.  One who fails need not look
 *   again: whatever came between was published after its push could be seen.  One who is held up between claim and
 *   wake may end a later sleep; that costs a pass.  The steps name functions of src/ where these are concerned.
 *
 *   PRODUCERS producers with TIMEOUTS each, of any of the ticks 1 .. LAST; lanes of their own or, with LANES=1, one.
 *   Where the model may do more than the code will: a pass leaves in the lanes what it likes, anything may be due next
 *   in the wheel, a sleep may reach its tick at once.  A thread stops the worker at any moment.
 *
 * What is not
 *
 *   Anything of a record but its tick.  The wake-up when a lane has grown long.  Processors that order less than x86.
 *
 * Invariants
 *
 *   S1  no lost wake-up: when no producer is under way, no store is buffered and no wake is pending, then nothing in a
 *       lane is due before the tick up to which the worker sleeps.
 *   S2  one wake at the most for each sleep published.
 *
 *   And no process is stuck before its end: a worker that sleeps through a stop would be.
 *
 * Planted faults, each of which must be found
 *
 *   NO_FENCE            neither membarrier nor a fence in the producer; the worker has its fence.
 *   NO_WORKER_FENCE     producers have theirs, the worker has none.  With FENCE.
 *   BARRIER_TOO_EARLY   membarrier first, then publish and look.
 *   PUBLISH_AFTER_LOOK  the worker looks first, then publishes, with membarrier, and sleeps.
 *   WAKE_NOT_CLAIMED    who reads a later tick wakes, without the compare-and-swap.
 *   WAKE_FORGOTTEN      the sleeper begins by forgetting earlier wakes.
 */
#ifndef PRODUCERS /* 1 or 2 */
#define PRODUCERS 2
#endif
#ifndef LANES /* 1, or as many as producers */
#define LANES PRODUCERS
#endif
#ifndef TIMEOUTS /* of each producer */
#define TIMEOUTS 2
#endif
#ifndef LAST
#define LAST 2
#endif

#define AWAKE 0
#define NEVER (LAST + 1)
#define WORKER PRODUCERS

/* What a buffered store writes. */
#define PUSH 1   /* the lane's tail->next: a timeout of this tick */
#define UNLOCK 2 /* the lane's lock */
#define WAKE_AT 3

#define BIT(tick) (1 << (tick))

/* Memory, as all see it. */
byte lane[LANES]; /* the ticks that are queued, a bit each */
bit locked[LANES];
byte wake_at;
bit stop;
bit woken; /* sleeper->woken, under its mutex */

/* The worker's. */
byte until;
bit asleep;

chan buffer[PRODUCERS + 1] = [2] of { byte, byte };

/* Ghosts: producers under way, wakes for the tick that is published. */
byte under_way, wakes;

/* By their names Spin's message tells which invariant has failed.  ONLY=S1: no other is looked at. */
#ifdef ONLY
#define OFF 1
#else
#define OFF 0
#endif
hidden byte S1 = OFF, S2 = OFF;

#define NONE_BUFFERED (empty(buffer[0]) && empty(buffer[PRODUCERS - 1]) && empty(buffer[WORKER]))
#define EARLIER(tick) (BIT(tick) - 1)

/* A processor's store buffer. */
proctype memory(byte owner)
{
	byte what, value;

end:
	do
	:: atomic {
		buffer[owner]?what,value ->
		if
		:: what == PUSH -> lane[owner % LANES] = lane[owner % LANES] | BIT(value)
		:: what == UNLOCK -> locked[owner % LANES] = 0
		:: what == WAKE_AT ->
			wake_at = value;
			if
			:: value != AWAKE -> wakes = 0
			:: else
			fi
		fi;
		what = 0;
		value = 0
	}
	od
}

/* The call is over. */
inline over()
{
	under_way--;
	tick = 0;
	seen = 0;
	goto ready
}

proctype producer(byte me)
{
	byte timeouts, tick, seen;

ready:
	if
	/* hwt_lane_submit: queue_lock, an exchange; queue_push, queue_unlock, its own until they leave the buffer */
	:: atomic {
		timeouts < TIMEOUTS && !locked[me % LANES] && empty(buffer[me]) ->
		locked[me % LANES] = 1;
		under_way++;
		timeouts++;
		tick = 1;
		do
		:: tick < LAST -> tick++
		:: break
		od;
		buffer[me]!PUSH,tick;
		buffer[me]!UNLOCK,0
	}
	:: timeouts == TIMEOUTS -> goto done
	fi;
#if defined(FENCE) && !defined(NO_FENCE)
	empty(buffer[me]);
#endif
	/* Does the worker sleep for longer? */
	atomic {
		seen = wake_at;
		if
		:: tick < seen -> tick = 0
		:: else -> over()
		fi
	}
#ifdef WAKE_NOT_CLAIMED
	atomic {
		wakes++;
		assert(S2 || wakes <= 1)
	}
#else
	/* claim: compare-and-swap */
	atomic {
		empty(buffer[me]) ->
		if
		:: wake_at == seen ->
			wake_at = AWAKE;
			seen = 0;
			wakes++;
			assert(S2 || wakes <= 1)
		:: else -> over()
		fi
	}
#endif
	/* hwt_sleeper_wake: its mutex is a locked instruction */
	atomic {
		empty(buffer[me]) ->
		woken = 1;
		over()
	}

done:
	skip
}

/* queue_is_empty */
inline look(l)
{
	if
	:: lane[l] == 0
	:: lane[l] != 0 -> goto awake
	fi
}

inline look_at_lanes()
{
	look(0);
	look(LANES - 1)
}

inline barrier()
{
	empty(buffer[WORKER]);
#if !defined(FENCE) && !defined(NO_FENCE)
	/* membarrier: one processor after the other */
	empty(buffer[0]);
	empty(buffer[PRODUCERS - 1]);
#endif
}

proctype worker()
{
	/* hwt_worker_run, hwt_worker_pass, and sleeps of a tick at the most: whatever is taken from the lanes */
pass:
	if
	:: stop -> goto done
	:: atomic {
		lane[0] != 0 ->
		lane[0] = 0;
		goto pass
	}
	:: atomic {
		lane[LANES - 1] != 0 ->
		lane[LANES - 1] = 0;
		goto pass
	}
	:: !stop
	fi;

	/* going idle: hwt_wheel_next_due */
#ifdef PUBLISH_AFTER_LOOK
	look_at_lanes();
#endif
#ifdef BARRIER_TOO_EARLY
	barrier();
#endif
	atomic {
		until = 1;
		do
		:: until < NEVER -> until++
		:: break
		od;
		buffer[WORKER]!WAKE_AT,until
	}
#if !defined(BARRIER_TOO_EARLY) && !defined(NO_WORKER_FENCE)
	barrier();
#endif
#ifndef PUBLISH_AFTER_LOOK
	look_at_lanes();
#endif

	/* hwt_sleeper_sleep_until: its mutex is a locked instruction; a wake that came before ends it at once */
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
		:: until != NEVER /* its time has come */
		fi;
		woken = 0;
		asleep = 0
	}

awake:
	atomic {
		buffer[WORKER]!WAKE_AT,AWAKE;
		until = 0;
		goto pass
	}

done:
	skip
}

/* hwt_worker_request_stop */
proctype stopper()
{
	stop = 1;
	woken = 1
}

/* S1: this step can be taken only where it is broken. */
proctype monitor()
{
end:
	atomic {
		asleep && !woken && under_way == 0 && NONE_BUFFERED && ((lane[0] | lane[LANES - 1]) & EARLIER(until)) ->
		assert(S1)
	}
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
