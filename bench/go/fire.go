/* SPDX-License-Identifier: BSD-2-Clause */

package main

// S3, S4, S5, S6: as bench/scenarios_fire.c and bench/scenarios_idle.c.

import (
	"sort"
	"sync/atomic"
	"time"
)

// What tasks leave behind; they run at the same time as each other.
var ran, early, firstNs, lastNs, expected int64

func fired(deadline int64) {
	at := now()
	if at < deadline {
		atomic.AddInt64(&early, 1)
	}
	switch count := atomic.AddInt64(&ran, 1); count {
	case 1:
		atomic.StoreInt64(&firstNs, at)
	case atomic.LoadInt64(&expected):
		atomic.StoreInt64(&lastNs, now())
	}
}

func awaitAll(limit int64) {
	for atomic.LoadInt64(&ran) < expected && now() < limit {
		sleep(2 * ms)
	}
	demand("ran in time", atomic.LoadInt64(&ran), expected)
}

// Holds n and cancels them in random order.  Returns how long scheduling them took.
func scatter(r run, random *rng) int64 {
	handles := make([]*time.Timer, r.n)
	took := now()
	for i := range handles {
		handles[i] = time.AfterFunc(time.Duration(600*s+random.span(60*s)), never)
	}
	took = now() - took
	me := member{end: r.n, rng: *random}
	shuffle(handles, &me)
	demand("cancelled", cancelAll(handles), int64(r.n))
	settle()
	return took
}

func s3(r run, span int64) []float64 {
	random := seeded(r.seed + 1)
	lead := 500*ms + 5*scatter(r, &random)
	expected = int64(r.n)
	deadline := now() + lead
	last := deadline
	same := func() { fired(deadline) }
	for i := 0; i < r.n; i++ {
		one := deadline + random.span(span)
		if one > last {
			last = one
		}
		task := same
		if span != 0 {
			task = func() { fired(one) }
		}
		time.AfterFunc(time.Duration(one-now()), task)
	}
	if now() > deadline-100*ms {
		absent("too slow: the first was due before the last was scheduled")
	}
	sleepUntil(deadline - 5*ms)
	used := processCPU()
	sleepUntil(last + 10*ms)
	awaitAll(last + 20*s)
	used = processCPU() - used
	demand("early", early, 0)
	n := float64(r.n)
	return []float64{n * 1e3 / float64(lastNs-firstNs+1), float64(firstNs-deadline) / 1e6,
		float64(lastNs-last) / 1e6, float64(used) / n}
}

func s4(r run) []float64 {
	span := 5 * s
	if r.quick {
		span = s
	}
	random := seeded(r.seed)
	late := make([]int64, r.n)
	expected = int64(r.n)
	used, begin := processCPU(), now()
	for i := range late {
		delay := random.span(span)
		deadline, at := now()+delay, &late[i]
		time.AfterFunc(time.Duration(delay), func() {
			*at = now() - deadline
			atomic.AddInt64(&ran, 1)
		})
	}
	sleep(span + 20*ms)
	awaitAll(begin + span + 20*s)
	used = processCPU() - used
	elapsed := now() - begin
	sort.Slice(late, func(i, k int) bool { return late[i] < late[k] })
	figures := []float64{}
	for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999, 1} {
		at := int(q * float64(r.n))
		if at >= r.n {
			at = r.n - 1
		}
		figures = append(figures, float64(late[at])/1e6)
	}
	negative := sort.Search(r.n, func(i int) bool { return late[i] >= 0 })
	return append(figures, float64(negative), float64(used)*1e3/float64(elapsed))
}

// n that will not fire while anybody looks.
func wait(r run, from, to int64) []*time.Timer {
	random := seeded(r.seed)
	handles := make([]*time.Timer, r.n)
	for i := range handles {
		handles[i] = time.AfterFunc(time.Duration(from+random.span(to-from)), never)
	}
	settle()
	return handles
}

// CPU ms/s, switches/s.
func watch(window int64) (float64, float64) {
	switched, begin, used := switches(), now(), processCPU()
	sleep(window)
	seconds := float64(now()-begin) / 1e9
	return float64(processCPU()-used) / 1e6 / seconds, float64(switches()-switched-1) / seconds
}

func s5(r run) []float64 {
	handles := wait(r, 3600*s, 3660*s)
	used, switched := watch(r.windowNs)
	demand("pending", cancelAll(handles), int64(r.n))
	return []float64{used, switched}
}

func s6(r run) []float64 {
	var tick func()
	var stop int32
	before := live()
	handles := wait(r, 600*s, 3600*s)
	bytes := live() - before
	idle, switched := watch(r.windowNs)
	tick = func() {
		if atomic.LoadInt32(&stop) == 0 {
			time.AfterFunc(time.Millisecond, tick)
		}
	}
	tick()
	sleep(50 * ms)
	busy, _ := watch(r.windowNs)
	atomic.StoreInt32(&stop, 1)
	demand("pending", cancelAll(handles), int64(r.n))
	each := 0.0
	if r.n > 0 {
		each = float64(bytes) / float64(r.n)
	}
	return []float64{idle, switched, busy, each}
}
