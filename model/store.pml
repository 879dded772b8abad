/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A model of libhwt-store: who may begin a row, who may end it, and what a process that died leaves behind (share.c,
 * beginner.c, tasks.c, ender.c, and the statements of both engines).  For Spin; run.sh runs it.
 *
 * What is modelled
 *
 *   One shard, one row in it, PROCESSES processes of four threads each, and callers that cancel and reschedule.  A
 *   statement is sent, executed by the server, answered.  Whatever comes in between may take any time, so a process
 *   that is stopped and wakes is one whose next step comes late; a process may also die, and up to LOST requests or
 *   replies are lost with their connection.  What a dead process has sent may still be executed.
 *
 *   Time is ticks.  A lease lasts LEASE of them on the database's clock.  A process counts on its own clock, which goes
 *   as fast and says nothing else, from when it sent the renewal; the margin that lease * 5/6 leaves is not needed.
 *   The row is due when its ticks are over.  Up to TICKS of them pass at any moment; later ones when nothing else can
 *   happen, so that what waits for a lease or a due time gets it.
 *
 *   MODE: 0 at least once, 1 at most once, 2 transaction.
 *
 *   PostgreSQL (default)  a statement reads the clock and what others have committed, then waits for the locks of the
 *                         rows that it writes, reads these rows again, and commits.  begin, take and renewal are cut
 *                         there.
 *   ONE_WRITER            SQLite: each is one step, for the write lock comes before the clock.
 *
 *   Where the model may do more than the code: a process begins a row VAIN times before it is due; it marks the shard
 *   as giving, and takes the mark back, as it likes; it gives what a lost lease has left it, or takes it.
 *
 * What is not
 *
 *   Marks, news, horizons: a look finds what may be begun in the shard.  Memory that runs out, periods, several rows:
 *   rows do not touch each other.  Power cuts.
 *
 * Invariants
 *
 *   V1  at most once: a row starts once, unless its task has returned and asked for more, or somebody has rescheduled
 *       what had failed.
 *   V2  after a cancel with 0 no start comes.
 *   V3  never early: a row that starts is due on the database's clock.
 *   V4  one end: it is that of the latest begin.
 *   V5  two runs of a row at once: only if the lease of the first was over meanwhile.
 *   V6  nothing is left behind: when nothing can happen any more the row is done, cancelled or FAILED, unless every
 *       process has died.
 *   V7  a process that starts a row holds its shard: nobody has taken it.
 *   V8  transaction: the effects are there once, and if and only if the row is done.
 *
 *   And no process is stuck before its end.
 *
 * Planted faults, each of which must be found
 *
 *   NO_FENCE_IN_END        an end does not name its epoch.
 *   NO_FENCE_IN_CLOSE      nor does the end in the transaction of a run.
 *   CLOSE_UNCHECKED        a transaction commits although its end has found no row.
 *   CLOSE_BELIEVED         a commit whose reply is lost is taken for done.
 *   BEGIN_UNFENCED         a begin asks neither for the owner nor for the epoch of the shard.
 *   BEGIN_WITHOUT_OWNER    a begin asks for the epoch alone.
 *   BEGIN_WITHOUT_LOCK     a begin does not lock the shard.
 *   BEGIN_EARLY            a begin does not compare with the database's clock.
 *   BEGIN_OLD              at most once: a begin takes over what ran under an old epoch.
 *   AGAIN_LEFT_OUT         what a begin with a lost reply has begun is not begun again.
 *   TRUST_TOO_LONG         a process trusts its lease for longer than it lasts.
 *   TRUST_FROM_REPLY       it counts from the reply to the renewal.
 *   START_UNTRUSTED        a row that was begun is started without a look at the lease.
 *   DROP_UNTRUSTED         a row that was begun in vain is dropped, not given back.
 *   GIVE_BEFORE_THE_END    a shard is given while something runs in it.
 *   TAKE_ANYWAY            a look and a take do not ask for the lease of the owner.
 *   TAKE_THE_SAME_EPOCH    a take leaves the epoch as it is.
 *   TAKE_UNFENCED          a take does not compare the epoch with the one that was read.
 *   TAKE_BESIDE_A_RENEWAL  a take does not wait for a renewal of the owner that is under way.
 *   FAIL_TOO_SOON          at most once: a take makes FAILED what ran before it waited for the shard.
 *   FAIL_FORGOTTEN         at most once: a take leaves what runs as it is.
 *   RENEW_WHAT_IS_OVER     a renewal does not look whether the lease was over.
 *   OLD_OVERLOOKED         a look does not see what runs under an old epoch.
 *   CANCEL_RUNNING         a cancel does not look whether the row runs.
 */
#ifndef PROCESSES
#define PROCESSES 2
#endif
#ifndef MODE
#define MODE 0
#endif
#ifndef LEASE
#define LEASE 1
#endif
#ifndef TICKS /* at any moment */
#define TICKS 1
#endif
#ifndef DUE /* ticks until the row is due at first */
#define DUE 0
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef LOST /* replies or requests */
#define LOST 0
#endif
#ifndef GIVES
#define GIVES 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef RESCHEDULES
#define RESCHEDULES 0
#endif
#ifndef RETRIES /* runs that fail and are tried again */
#define RETRIES 0
#endif
#ifndef VAIN
#define VAIN 0
#endif
#ifdef TRUST_TOO_LONG
#define TRUST (LEASE + 1)
#else
#define TRUST LEASE
#endif
#define AT_MOST_ONCE 1
#define TRANSACTION 2

/* By their names Spin's message tells which invariant has failed.  ONLY=V1: no other is looked at. */
#ifdef ONLY
#define OFF 1
#else
#define OFF 0
#endif
hidden byte V1 = OFF, V2 = OFF, V3 = OFF, V4 = OFF, V5 = OFF, V6 = OFF, V7 = OFF, V8 = OFF;

#define NOBODY 255

/*
 * The database
 */

#define NONE 0
#define PENDING 1
#define RUNNING 2
#define FAILED 3
byte state = PENDING;
byte row_epoch;
byte due = DUE; /* ticks until then */

byte epoch;
byte owner = NOBODY;
byte lease[PROCESSES]; /* ticks left; 0: over */
byte sharers;	       /* of the shard's row: begins */
bit member_locked[PROCESSES];
bit is_over[PROCESSES]; /* so says its row, whatever the time */

#define IS_FREE (owner == NOBODY || lease[owner] == 0)
#define MAY_BEGIN(e) (state == PENDING || (state == RUNNING && row_epoch < e && NOT_OVERLOOKED))
/* At most once no begin has it, so nobody goes on looking. */
#ifdef OLD_OVERLOOKED
#define NOT_OVERLOOKED 0
#else
#ifdef BEGIN_OLD
#define NOT_OVERLOOKED 1
#else
#define NOT_OVERLOOKED (MODE != AT_MOST_ONCE)
#endif
#endif

/*
 * A process
 */

/* An exchange. */
#define IDLE 0
#define SENT 1
#define UNDER_WAY 2 /* the server has read, and waits for locks or commits */
#define DONE 3
#define COMMITS 4

bit dead[PROCESSES];
byte trust[PROCESSES];
bit held[PROCESSES], giving[PROCESSES];
byte held_epoch[PROCESSES];

/* Control: one exchange at a time. */
#define LOOK 0
#define TAKE 1
#define GIVE 2
#define JOIN 3
byte control[PROCESSES], asks[PROCESSES] = JOIN; /* what is asked, or is to be asked next */
byte trust_sent[PROCESSES];			 /* what is left of the trust that a renewal will give */
byte lease_read[PROCESSES];			 /* and of the lease */
byte asked_epoch[PROCESSES];
bit locks[PROCESSES]; /* the take has locked the row of the other member */
bit answer[PROCESSES], answer_mine[PROCESSES], answer_free[PROCESSES], answer_row[PROCESSES];

/* The window: one entry. */
#define UNKNOWN 0
#define ARMED 1 /* or due */
#define BEGUN 2
byte entry[PROCESSES];
bit unsure[PROCESSES], again[PROCESSES];

/* The beginner. */
#define HAD 0
#define NOT_HAD 1
#define NEVER 2
byte begin[PROCESSES], begin_epoch[PROCESSES], begun[PROCESSES];
bit begin_again[PROCESSES];

/* The row that was begun, until its end is committed. */
#define NO 0
#define QUEUED 1
#define RUNS 2
#define CLOSES 3
#define ENDS 4
byte run_is[PROCESSES], run_epoch[PROCESSES], how[PROCESSES];
byte close[PROCESSES], end[PROCESSES];
bit hit[PROCESSES];

/* How it ends. */
#define REMOVE 0
#define BACK 1
#define RETRY 2
#define FAIL 3

#define IS_ACTIVE(p) (begin[p] != IDLE || run_is[p] != NO)
#ifdef GIVE_BEFORE_THE_END
#define MAY_GIVE(p) 1
#else
#define MAY_GIVE(p) (!IS_ACTIVE(p))
#endif
#ifdef START_UNTRUSTED
#define IS_MINE(p) 1
#else
#define IS_MINE(p) (trust[p] > 0 && held[p] && held_epoch[p] == run_epoch[p])
#endif

/*
 * Ghosts
 */

byte kills = KILLS, lost = LOST, gives = GIVES, retries = RETRIES, vain = VAIN, ticks = TICKS;
byte cancels = CANCELS, reschedules = RESCHEDULES;
bit cancelled, done;
bit started;		/* and not asked for more */
byte effects;
bit lapsed[PROCESSES];	/* its lease was over since it began its row */
byte latest = NOBODY;	/* the process that has begun the row last */

inline forget_shard(p)
{
	held[p] = 0;
	giving[p] = 0;
	held_epoch[p] = 0;
	if
	:: entry[p] == ARMED -> entry[p] = UNKNOWN
	:: else
	fi
}

inline lose(p)
{
	forget_shard(p);
	if
	:: run_is[p] == QUEUED ->
		run_is[p] = ENDS;
		how[p] = BACK
	:: else
	fi
}

/* What is not used any more is 0, so that there are fewer states. */
inline forget_answer(p)
{
	answer[p] = 0;
	answer_mine[p] = 0;
	answer_free[p] = 0;
	answer_row[p] = 0;
	asked_epoch[p] = 0;
	trust_sent[p] = 0;
	lease_read[p] = 0
}

inline forget_begin(p)
{
	begin[p] = IDLE;
	begin_epoch[p] = 0;
	begin_again[p] = 0;
	begun[p] = 0
}

inline forget_run(p)
{
	run_is[p] = NO;
	run_epoch[p] = 0;
	how[p] = 0;
	hit[p] = 0;
	lapsed[p] = 0
}

inline forget_row()
{
	row_epoch = 0;
	latest = NOBODY
}

/* hwts_finished */
inline finished(p)
{
	entry[p] = (held[p] && (again[p] || (hit[p] && (how[p] == BACK || how[p] == RETRY))) -> ARMED : UNKNOWN);
	again[p] = 0;
	forget_run(p)
}

/* A look, which comes each third of a lease, would change something. */
#define IS_NEW(p)                                                                                                      \
	(lease[p] < LEASE || trust[p] < LEASE || (!held[p] && (IS_FREE || owner == p)) ||                              \
	 (held[p] && (owner != p || epoch != held_epoch[p])) ||                                                        \
	 (held[p] && entry[p] == UNKNOWN && MAY_BEGIN(held_epoch[p])))

hidden byte asked;

proctype control_thread(byte p)
{
end_control:
	do
	/* hwts_share_look */
	:: atomic {
		!dead[p] && control[p] == IDLE && asks[p] == LOOK && !answer[p] && IS_NEW(p) ->
		control[p] = SENT;
		trust_sent[p] = TRUST
	}
	:: atomic {
		!dead[p] && control[p] == DONE && asks[p] == LOOK ->
		control[p] = IDLE;
		if
		:: answer[p] ->
#ifdef TRUST_FROM_REPLY
			trust[p] = TRUST;
#else
			trust[p] = trust_sent[p];
#endif
			trust_sent[p] = 0;
			lease_read[p] = 0;
			if
			:: held[p] && answer_row[p] && entry[p] == UNKNOWN -> entry[p] = ARMED
			:: held[p] && answer_row[p] && entry[p] == BEGUN -> again[p] = 1
			:: else
			fi
		:: else ->
			trust[p] = 0;
			lose(p);
			forget_answer(p);
			asks[p] = JOIN
		fi
	}
	/* check_held, in a step of its own, as act comes after renewed. */
	:: atomic {
		!dead[p] && control[p] == IDLE && asks[p] == LOOK && answer[p] ->
		if
		:: held[p] && (!answer_mine[p] || asked_epoch[p] != held_epoch[p]) ->
			assert(V7 || run_is[p] != QUEUED); /* of a renewed lease nothing was taken that was begun */
			forget_shard(p)
		:: else
		fi;
		if
		:: !held[p] && (answer_mine[p] || answer_free[p]) -> asks[p] = TAKE
		:: !held[p] && answer_mine[p] -> asks[p] = GIVE
		:: else
		fi;
		asked = (asks[p] == LOOK -> 0 : asked_epoch[p]);
		forget_answer(p);
		asked_epoch[p] = asked;
		asked = 0
	}
	/* hwts_share_join */
	:: atomic {
		!dead[p] && control[p] == IDLE && asks[p] == JOIN ->
		control[p] = SENT
	}
	:: atomic {
		!dead[p] && control[p] == DONE && asks[p] == JOIN ->
		control[p] = IDLE;
		asks[p] = LOOK
	}
	/* take_all: what it has read is in asked_epoch. */
	:: atomic {
		!dead[p] && control[p] == IDLE && asks[p] == TAKE ->
		control[p] = SENT
	}
	:: atomic {
		!dead[p] && control[p] == DONE && asks[p] == TAKE ->
		control[p] = IDLE;
		asks[p] = LOOK;
		if
		:: answer[p] ->
			held[p] = 1;
			giving[p] = 0;
#ifdef TAKE_THE_SAME_EPOCH
			held_epoch[p] = asked_epoch[p];
#else
			held_epoch[p] = asked_epoch[p] + 1;
#endif
		:: else
		fi;
		forget_answer(p)
	}
	/* give_some, and what balance takes back */
	:: atomic {
		!dead[p] && gives > 0 && held[p] && !giving[p] ->
		gives--;
		giving[p] = 1;
		if
		:: run_is[p] == QUEUED ->
			run_is[p] = ENDS;
			how[p] = BACK
		:: else
		fi
	}
	:: atomic {
		!dead[p] && control[p] == IDLE && asks[p] == LOOK && !answer[p] && giving[p] ->
		giving[p] = 0
	}
	/* hwts_share_give */
	:: atomic {
		!dead[p] && control[p] == IDLE && asks[p] == LOOK && !answer[p] && giving[p] && MAY_GIVE(p) ->
		asks[p] = GIVE;
		asked_epoch[p] = held_epoch[p]
	}
	:: atomic {
		!dead[p] && control[p] == IDLE && asks[p] == GIVE ->
		control[p] = SENT
	}
	:: atomic {
		!dead[p] && control[p] == DONE && asks[p] == GIVE ->
		control[p] = IDLE;
		asks[p] = LOOK;
		if
		:: held[p] -> forget_shard(p) /* and nothing is queued */
		:: else
		fi;
		forget_answer(p)
	}
	/* A broken connection: what had been asked is looked at again. */
	:: atomic {
		lost > 0 && !dead[p] && (control[p] == SENT || control[p] == DONE) ->
		lost--;
		control[p] = IDLE;
		asks[p] = (asks[p] == JOIN -> JOIN : LOOK);
		forget_answer(p)
	}
	od
}

#ifdef RENEW_WHAT_IS_OVER
#define RENEWS_ANYWAY 1
#else
#define RENEWS_ANYWAY 0
#endif
#ifdef TAKE_ANYWAY
#define LOOKS_FREE 1
#define MAY_TAKE(p) 1
#else
#define LOOKS_FREE IS_FREE
#define MAY_TAKE(p) (owner == p || IS_FREE)
#endif

/*
 * The renewal and the look as one step.  The look of the code is a statement behind the renewal's: it reads later, and
 * the epoch in a begin refuses what it read of a shard that was lost in between.
 */
inline read_look(p)
{
	answer[p] = lease[p] > 0 || RENEWS_ANYWAY;
	lease_read[p] = LEASE;
	asked_epoch[p] = epoch;
	answer_mine[p] = owner == p;
	answer_free[p] = LOOKS_FREE;
	answer_row[p] = MAY_BEGIN(held_epoch[p]) && owner == p
}

inline take_shard(p)
{
#ifdef TAKE_THE_SAME_EPOCH
	skip;
#else
	epoch++;
#endif
	owner = p;
	answer[p] = 1
}

#ifdef TAKE_UNFENCED
#define IS_ASKED(p) 1
#else
#define IS_ASKED(p) (epoch == asked_epoch[p])
#endif
#ifdef TAKE_BESIDE_A_RENEWAL
#define CAN_LOCK(p) 1
#define LOCKS_MEMBER 0
#else
#define CAN_LOCK(p) (owner == NOBODY || owner == p || !member_locked[owner])
#define LOCKS_MEMBER 1
#endif

#ifdef FAIL_TOO_SOON
#define FAIL_IN_TIME 0
#else
#define FAIL_IN_TIME 1
#endif
#ifdef FAIL_FORGOTTEN
#define FAILS_RUNNING 0
#else
#define FAILS_RUNNING (MODE == AT_MOST_ONCE)
#endif
inline fail_running()
{
	if
	:: FAILS_RUNNING && state == RUNNING ->
		state = FAILED;
		forget_row()
	:: else
	fi
}

#ifdef BEGIN_UNFENCED
#define BEGIN_FENCE(p) 1
#else
#ifdef BEGIN_WITHOUT_OWNER
#define BEGIN_FENCE(p) (epoch == begin_epoch[p])
#else
#define BEGIN_FENCE(p) (owner == p && epoch == begin_epoch[p])
#endif
#endif
#ifdef BEGIN_WITHOUT_LOCK
#define SHARES 0
#else
#define SHARES 1
#endif
#ifdef NO_FENCE_IN_END
#define END_FENCE(p) 1
#else
#define END_FENCE(p) (row_epoch == run_epoch[p])
#endif
#ifdef NO_FENCE_IN_CLOSE
#define CLOSE_FENCE(p) 1
#else
#define CLOSE_FENCE(p) (row_epoch == run_epoch[p])
#endif
#ifdef CLOSE_UNCHECKED
#define UNCHECKED 1
#else
#define UNCHECKED 0
#endif
#ifdef CANCEL_RUNNING
#define CANCELS_RUNNING 1
#else
#define CANCELS_RUNNING 0
#endif
#ifdef AGAIN_LEFT_OUT
#define TO_EPOCH(p) begin_epoch[p]
#else
#define TO_EPOCH(p) (begin_epoch[p] + begin_again[p])
#endif
#ifdef BEGIN_OLD
#define FROM_EPOCH(p) 0
#else
#define FROM_EPOCH(p) (MODE == AT_MOST_ONCE -> begin_epoch[p] : 0)
#endif
#ifdef BEGIN_EARLY
#define IS_DUE 1
#else
#define IS_DUE (due == 0)
#endif

/* Two may run at once only if the lease of the first was over meanwhile. */
inline check_other(p, q)
{
	assert(V5 || p == q || dead[q] || run_is[q] != RUNS || run_epoch[q] != row_epoch || lapsed[q])
}

inline begin_row(p)
{
	begin[p] = DONE;
	if
	:: IS_DUE && (state == PENDING || (state == RUNNING && row_epoch >= FROM_EPOCH(p) && row_epoch < TO_EPOCH(p))) ->
		if
		:: state == RUNNING ->
			check_other(p, 0);
			check_other(p, 1);
			/* Nor does it run here. */
			assert(V5 || run_is[p] == NO)
		:: else
		fi;
		state = RUNNING;
		row_epoch = begin_epoch[p];
		latest = p;
		lapsed[p] = (lease[p] == 0);
		begun[p] = HAD
	:: else ->
		begun[p] = (state == PENDING -> NOT_HAD : NEVER)
	fi
}

inline end_row(p)
{
	if
	:: how[p] == REMOVE ->
		state = NONE;
		done = 1
	:: how[p] == BACK -> state = PENDING
	:: how[p] == RETRY ->
		state = PENDING;
		due = 1;
		started = 0
	:: how[p] == FAIL -> state = FAILED
	fi;
	forget_row()
}

proctype server_thread(byte p)
{
end_server:
	do
#ifdef ONE_WRITER
	:: atomic {
		control[p] == SENT && asks[p] == LOOK ->
		control[p] = DONE;
		read_look(p);
		if
		:: answer[p] -> lease[p] = LEASE
		:: else
		fi
	}
	:: atomic {
		control[p] == SENT && asks[p] == TAKE ->
		control[p] = DONE;
		if
		:: IS_ASKED(p) && MAY_TAKE(p) ->
			take_shard(p);
			fail_running()
		:: else
		fi
	}
#else
	/* An update of the member's row: it reads, locks, and looks once more at what it has locked. */
	:: atomic {
		control[p] == SENT && asks[p] == LOOK ->
		control[p] = UNDER_WAY;
		read_look(p)
	}
	:: atomic {
		control[p] == UNDER_WAY && asks[p] == LOOK && !answer[p] ->
		control[p] = DONE
	}
	:: atomic {
		control[p] == UNDER_WAY && asks[p] == LOOK && answer[p] && !member_locked[p] ->
		if
		:: is_over[p] && !RENEWS_ANYWAY ->
			answer[p] = 0
		:: else ->
			member_locked[p] = 1;
			control[p] = COMMITS
		fi
	}
	:: atomic {
		control[p] == COMMITS && asks[p] == LOOK ->
		member_locked[p] = 0;
		control[p] = DONE;
		lease[p] = lease_read[p]
	}
	/* A take notes in the row of a member whose lease is over that it is, and then takes the shard. */
	:: atomic {
		control[p] == SENT && asks[p] == TAKE && CAN_LOCK(p) ->
		control[p] = UNDER_WAY;
		answer_free[p] = MAY_TAKE(p);
		answer_row[p] = (state == RUNNING);
		if
		:: answer_free[p] && owner != NOBODY && owner != p ->
			locks[p] = LOCKS_MEMBER;
			member_locked[owner] = member_locked[owner] || locks[p];
			is_over[owner] = locks[p]
		:: else
		fi
	}
	:: atomic {
		control[p] == UNDER_WAY && asks[p] == TAKE && sharers == 0 ->
		control[p] = DONE;
		if
		:: locks[p] ->
			locks[p] = 0;
			member_locked[1 - p] = 0
		:: else
		fi;
		if
		:: IS_ASKED(p) && answer_free[p] ->
			take_shard(p);
			if
			:: answer_row[p] || FAIL_IN_TIME -> fail_running()
			:: else
			fi
		:: else
		fi;
		answer_free[p] = 0;
		answer_row[p] = 0
	}
#endif
	:: atomic {
		control[p] == SENT && asks[p] == JOIN && !member_locked[p] ->
		control[p] = DONE;
		lease[p] = LEASE;
		is_over[p] = 0
	}
	:: atomic {
		control[p] == SENT && asks[p] == GIVE ->
		control[p] = DONE;
		if
		:: owner == p && epoch == asked_epoch[p] -> owner = NOBODY
		:: else
		fi
	}
	/* A begin: the fence with its lock, then the row. */
	:: atomic {
		begin[p] == SENT ->
		if
		:: BEGIN_FENCE(p) ->
#ifdef ONE_WRITER
			begin_row(p)
#else
			begin[p] = UNDER_WAY;
			sharers = sharers + SHARES
#endif
		:: else ->
			begun[p] = NEVER;
			begin[p] = DONE
		fi
	}
#ifndef ONE_WRITER
	:: atomic {
		begin[p] == UNDER_WAY ->
		sharers = sharers - SHARES;
		begin_row(p)
	}
#endif
	/* An end. */
	:: atomic {
		end[p] == SENT ->
		end[p] = DONE;
		hit[p] = 0;
		if
		:: state == RUNNING && END_FENCE(p) ->
			hit[p] = 1;
			assert(V4 || latest == p);
			end_row(p)
		:: else
		fi
	}
	:: atomic {
		close[p] == SENT ->
		close[p] = DONE;
		hit[p] = 0;
		if
		:: state == RUNNING && CLOSE_FENCE(p) ->
			hit[p] = 1;
			effects++;
			assert(V4 || latest == p);
			state = NONE;
			done = 1;
			forget_row()
		:: else -> effects = effects + UNCHECKED
		fi;
		assert(V8 || effects <= done)
	}
	od
}

proctype beginner_thread(byte p)
{
end_beginner:
	do
	:: atomic {
		!dead[p] && begin[p] == IDLE && entry[p] == ARMED && !held[p] ->
		entry[p] = UNKNOWN
	}
	:: atomic {
		!dead[p] && begin[p] == IDLE && entry[p] == ARMED && held[p] && !giving[p] && trust[p] > 0 &&
		    (due == 0 || vain > 0 || state != PENDING) ->
		if
		:: due > 0 && state == PENDING -> vain--
		:: else
		fi;
		entry[p] = BEGUN;
		begin[p] = SENT;
		begin_epoch[p] = held_epoch[p];
		begin_again[p] = unsure[p]
	}
	:: atomic {
		!dead[p] && begin[p] == DONE ->
		unsure[p] = 0;
		if
		:: begun[p] == HAD ->
			run_epoch[p] = begin_epoch[p];
			if
			:: trust[p] > 0 -> run_is[p] = QUEUED
			:: else ->
#ifdef DROP_UNTRUSTED
				finished(p)
#else
				run_is[p] = ENDS;
				how[p] = BACK
#endif
			fi
		:: begun[p] == NOT_HAD || (begun[p] == NEVER && again[p]) ->
			entry[p] = ARMED;
			again[p] = 0
		:: else ->
			entry[p] = UNKNOWN
		fi;
		forget_begin(p)
	}
	:: atomic {
		lost > 0 && !dead[p] && (begin[p] == SENT || begin[p] == DONE) ->
		lost--;
		forget_begin(p);
		entry[p] = ARMED;
		unsure[p] = 1
	}
	od
}

proctype task_thread(byte p)
{
end_task:
	do
	:: atomic {
		!dead[p] && run_is[p] == QUEUED ->
		if
		:: IS_MINE(p) ->
			run_is[p] = RUNS;
			assert(V1 || MODE != AT_MOST_ONCE || !started);
			assert(V2 || !cancelled);
			assert(V3 || due == 0);
			assert(V7 || epoch == run_epoch[p]);
			started = (MODE == AT_MOST_ONCE)
		:: else ->
			run_is[p] = ENDS;
			how[p] = BACK
		fi
	}
	/* A task that returns 0. */
	:: atomic {
		!dead[p] && run_is[p] == RUNS ->
		how[p] = REMOVE;
		if
		:: MODE == TRANSACTION ->
			run_is[p] = CLOSES;
			close[p] = SENT
		:: else -> run_is[p] = ENDS
		fi
	}
	/* One that fails. */
	:: atomic {
		!dead[p] && run_is[p] == RUNS && retries > 0 ->
		retries--;
		run_is[p] = ENDS;
		if
		:: how[p] = RETRY
		:: how[p] = FAIL
		fi
	}
	:: atomic {
		!dead[p] && close[p] == DONE ->
		close[p] = IDLE;
		finished(p)
	}
	:: atomic {
		lost > 0 && !dead[p] && (close[p] == SENT || close[p] == DONE) ->
		lost--;
		close[p] = IDLE;
#ifdef CLOSE_BELIEVED
		hit[p] = 1;
		finished(p)
#else
		run_is[p] = ENDS;
		how[p] = RETRY
#endif
	}
	od
}

proctype ender_thread(byte p)
{
end_ender:
	do
	:: atomic {
		!dead[p] && run_is[p] == ENDS && end[p] == IDLE ->
		end[p] = SENT
	}
	:: atomic {
		!dead[p] && end[p] == DONE ->
		end[p] = IDLE;
		finished(p)
	}
	:: atomic {
		lost > 0 && !dead[p] && (end[p] == SENT || end[p] == DONE) ->
		lost--;
		end[p] = IDLE
	}
	od
}

/* What it has sent may be executed, or not. */
proctype death_thread(byte p)
{
end_death:
	do
	:: atomic {
		kills > 0 && !dead[p] && p == 0 ->
		kills--;
		dead[p] = 1;
		trust[p] = 0;
		held[p] = 0;
		giving[p] = 0;
		held_epoch[p] = 0;
		entry[p] = 0;
		unsure[p] = 0;
		again[p] = 0;
		if
		:: end[p] == IDLE && close[p] == IDLE -> forget_run(p)
		:: else
		fi
	}
	:: atomic {
		dead[p] && (control[p] == SENT || control[p] == DONE) ->
		control[p] = IDLE;
		asks[p] = 0;
		forget_answer(p)
	}
	:: atomic {
		dead[p] && (begin[p] == SENT || begin[p] == DONE) ->
		forget_begin(p)
	}
	:: atomic {
		dead[p] && (end[p] == SENT || end[p] == DONE) ->
		end[p] = IDLE;
		forget_run(p)
	}
	:: atomic {
		dead[p] && (close[p] == SENT || close[p] == DONE) ->
		close[p] = IDLE;
		forget_run(p)
	}
	od
}

proctype callers()
{
end_callers:
	do
	:: atomic {
		cancels > 0 && state != NONE && (state != RUNNING || CANCELS_RUNNING) ->
		cancels--;
		state = NONE;
		due = 0;
		cancelled = 1;
		forget_row()
	}
	:: atomic {
		reschedules > 0 && (state == PENDING || state == FAILED) ->
		reschedules--;
		if
		:: state == FAILED -> started = 0
		:: else
		fi;
		state = PENDING;
		due = 1
	}
	od
}

inline less(counter)
{
	if
	:: counter > 0 -> counter--
	:: else
	fi
}

inline tick_of(p)
{
	less(lease[p]);
	less(trust[p]);
	less(trust_sent[p]);
	less(lease_read[p]);
	if
	:: lease[p] == 0 && (run_is[p] != NO || begin[p] != IDLE) -> lapsed[p] = 1
	:: else
	fi
}

inline tick()
{
	tick_of(0);
	tick_of(1);
	less(due)
}

#define ALL_DEAD (dead[0] && dead[1])
#define IS_LEFT (owner != NOBODY && dead[owner] && lease[owner] > 0)

active proctype time()
{
#ifdef ONLY
	ONLY = 0;
#endif
	atomic {
		run control_thread(0);
		run control_thread(1);
		run beginner_thread(0);
		run beginner_thread(1);
		run task_thread(0);
		run task_thread(1);
		run ender_thread(0);
		run ender_thread(1);
		run server_thread(0);
		run server_thread(1);
		run death_thread(0);
		run death_thread(1);
		run callers()
	}
	do
	:: atomic {
		ticks > 0 ->
		ticks--;
		tick()
	}
	:: atomic {
		timeout && (IS_LEFT || (due > 0 && state == PENDING)) ->
		tick()
	}
	:: atomic {
		timeout && !(IS_LEFT || (due > 0 && state == PENDING)) ->
		assert(V6 || ALL_DEAD || state == NONE || state == FAILED);
		assert(V6 || dead[0] || run_is[0] == NO);
		assert(V6 || dead[1] || run_is[1] == NO);
		assert(V8 || MODE != TRANSACTION || effects == done);
		break
	}
	od
}
