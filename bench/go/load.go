/* SPDX-License-Identifier: BSD-2-Clause */

package main

// S1, S1w, S2, S2w, S2x, S7: as bench/scenarios_load.c and bench/scenarios_churn.c, which say what is measured.

import (
	"math"
	"time"
)

func never() {
	fail("a timeout of another minute ran")
}

func fill(handles []*time.Timer, me *member) {
	for i := me.first; i < me.end; i++ {
		handles[i] = time.AfterFunc(time.Duration(60*s+me.rng.span(60*s)), never)
	}
}

func cancelAll(handles []*time.Timer) int64 {
	cancelled := int64(0)
	for _, handle := range handles {
		if handle.Stop() {
			cancelled++
		}
	}
	return cancelled
}

// The law for a timer that cannot be stopped: what is left must be there to be cancelled.
func demand(what string, got, want int64) {
	if got != want {
		fail("%s: %d instead of %d", what, got, want)
	}
}

func s1(r run, warm bool) []float64 {
	handles := make([]*time.Timer, r.n)
	team := makeTeam(r.producers, r.n, r.seed)
	n := float64(r.n)
	before, cancelNs := int64(0), int64(0)
	if warm {
		phase(team, func(me *member) { fill(handles, me) })
		settle()
		before = live()
		cancelNs = now()
		demand("cancelled", cancelAll(handles), int64(r.n))
		cancelNs = now() - cancelNs
		settle()
	} else {
		before = live()
	}
	used := processCPU()
	elapsed := phase(team, func(me *member) { fill(handles, me) })
	settle()
	used = processCPU() - used
	bytes := float64(live() - before)
	stopNs := now()
	demand("pending", cancelAll(handles), int64(r.n))
	stopNs = now() - stopNs
	last := float64(stopNs) / n
	if warm {
		last = n * 1e3 / float64(cancelNs)
	}
	return []float64{n * 1e3 / float64(elapsed), math.NaN(), float64(used) / n, bytes / n, last}
}

func churn(me *member) {
	cancelled := int64(0)
	for i := me.first; i < me.end; i++ {
		if time.AfterFunc(30*time.Second, never).Stop() {
			cancelled++
		}
	}
	me.cancelled = cancelled
}

func s2(r run) []float64 {
	team := makeTeam(r.producers, r.n, r.seed)
	before, used := rss(), processCPU()
	elapsed := phase(team, churn)
	settle()
	used = processCPU() - used
	demand("cancelled", cancelledBy(team), int64(r.n))
	n := float64(r.n)
	return []float64{n * 1e3 / float64(elapsed), math.NaN(), float64(used) / n, float64(rssPeak()-before) / 1e6}
}

func shuffle(handles []*time.Timer, me *member) {
	for i := me.end; i > me.first+1; i-- {
		other := me.first + me.rng.below(i-me.first)
		handles[i-1], handles[other] = handles[other], handles[i-1]
	}
}

func s2w(r run) []float64 {
	window := 400000
	if r.n < 4000000 {
		window = r.n/10 + 1
	}
	waves := r.n / window
	handles := make([]*time.Timer, window)
	team := makeTeam(r.producers, window, r.seed)
	before, used, fillNs, cancelNs := rss(), processCPU(), int64(0), int64(0)
	for wave := 0; wave < waves; wave++ {
		fillNs += phase(team, func(me *member) { fill(handles, me) })
		sleep(20 * ms)
		shuffling := processCPU()
		phase(team, func(me *member) { shuffle(handles, me) })
		used += processCPU() - shuffling
		cancelNs += phase(team, func(me *member) { me.cancelled += cancelAll(handles[me.first:me.end]) })
	}
	settle()
	used = processCPU() - used
	all := float64(waves * window)
	demand("cancelled", cancelledBy(team), int64(waves*window))
	return []float64{all * 1e3 / float64(cancelNs), math.NaN(), all * 1e3 / float64(fillNs), float64(used) / all,
		float64(rssPeak()-before) / 1e6}
}

func exchange(handles []*time.Timer, me *member, times int) {
	window := uint64(me.end - me.first)
	for i := 0; i < times; i++ {
		which := me.first + int((me.rng.next()>>32)*window>>32)
		if handles[which].Stop() {
			me.cancelled++
		}
		handles[which] = time.AfterFunc(time.Duration(60*s+me.rng.span(60*s)), never)
	}
}

func s2x(r run) []float64 {
	times := r.n / r.producers
	window := times/2 + 1
	if window > 200000 {
		window = 200000
	}
	all := window * r.producers
	handles := make([]*time.Timer, all)
	team := makeTeam(r.producers, all, r.seed)
	before := rss()
	phase(team, func(me *member) { fill(handles, me) })
	settle()
	phase(team, func(me *member) { exchange(handles, me, 2*window) })
	settle()
	used := processCPU()
	elapsed := phase(team, func(me *member) { exchange(handles, me, times) })
	settle()
	used = processCPU() - used
	demand("cancelled", cancelledBy(team), int64((2*window+times)*r.producers))
	peak := float64(rssPeak()-before) / float64(all)
	demand("pending", cancelAll(handles), int64(all))
	n := float64(times * r.producers)
	return []float64{n * 1e3 / float64(elapsed), math.NaN(), float64(used) / n, peak}
}

func s7(r run) []float64 {
	const held = 100000
	handles := make([]*time.Timer, held)
	for i := range handles {
		handles[i] = time.AfterFunc(60*time.Second, never)
	}
	team := makeTeam(r.producers, r.n, r.seed)
	used := processCPU()
	elapsed := phase(team, func(me *member) {
		first, end := held*me.index/r.producers, held*(me.index+1)/r.producers
		at := first
		for i := me.first; i < me.end; i++ {
			if handles[at].Reset(60 * time.Second) {
				me.cancelled++
			}
			if at++; at == end {
				at = first
			}
		}
	})
	settle()
	used = processCPU() - used
	demand("moved", cancelledBy(team), int64(r.n))
	demand("pending", cancelAll(handles), held)
	n := float64(r.n)
	return []float64{n * 1e3 / float64(elapsed), math.NaN(), float64(used) / n}
}
