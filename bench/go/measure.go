/* SPDX-License-Identifier: BSD-2-Clause */

package main

// What the scenarios measure with, as bench/measure.c.

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	ms = int64(1e6)
	s  = int64(1e9)
)

func fail(format string, args ...any) {
	fmt.Printf("wrong "+format+"\n", args...)
	os.Exit(0)
}

func absent(why string) {
	fmt.Println("absent " + why)
	os.Exit(0)
}

var started = time.Now()

// Nanoseconds on the monotonic clock.
func now() int64 {
	return int64(time.Since(started))
}

func sleepUntil(when int64) {
	time.Sleep(time.Duration(when - now()))
}

func sleep(ns int64) {
	time.Sleep(time.Duration(ns))
}

func field(path, name string) int64 {
	text, _ := os.ReadFile(path) // a thread that has ended has none
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, name) {
			value, _ := strconv.ParseInt(strings.Fields(line)[1], 10, 64)
			return value
		}
	}
	return 0
}

func cpu(folder string) int64 {
	text, _ := os.ReadFile(folder + "/schedstat")
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return 0
	}
	value, _ := strconv.ParseInt(words[0], 10, 64)
	return value
}

func overTasks(sum func(folder string) int64) int64 {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		fail("%v", err)
	}
	all := int64(0)
	for _, task := range tasks {
		all += sum("/proc/self/task/" + task.Name())
	}
	return all
}

// CPU time of the process.  Go's timers run on whatever thread is at hand, so none is left out.
func processCPU() int64 {
	return overTasks(cpu)
}

func switches() int64 {
	return overTasks(func(folder string) int64 { return field(folder+"/status", "voluntary_ctxt_switches:") })
}

func rss() int64 {
	return field("/proc/self/status", "VmRSS:") * 1024
}

func rssPeak() int64 {
	return field("/proc/self/status", "VmHWM:") * 1024
}

// Bytes of the heap that are in use; what is not reachable has been collected.
func live() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func settle() {
	limit := now() + 5*s
	sleep(12 * ms)
	for quiet := 0; quiet < 2 && now() < limit; {
		begin, used := now(), processCPU()
		sleep(20 * ms)
		if processCPU()-used < (now()-begin)/5 {
			quiet++
		} else {
			quiet = 0
		}
	}
}

// xorshift64*.
type rng struct {
	state uint64
}

func seeded(seed uint64) rng {
	return rng{(seed+1)*0x9E3779B97F4A7C15 | 1}
}

func (r *rng) next() uint64 {
	r.state ^= r.state >> 12
	r.state ^= r.state << 25
	r.state ^= r.state >> 27
	return r.state * 0x2545F4914F6CDD1D
}

func (r *rng) span(ns int64) int64 {
	return int64(r.next()>>40*(uint64(ns)>>4)) >> 20
}

func (r *rng) below(limit int) int {
	return int(r.next() % uint64(limit))
}

// One producer and its share.
type member struct {
	index, first, end int
	rng               rng
	cancelled         int64
	beginNs, endNs    int64
	_                 [64]byte // no two of them in one line
}

func makeTeam(size, count int, seed uint64) []member {
	team := make([]member, size)
	for i := range team {
		team[i] = member{index: i, first: count * i / size, end: count * (i + 1) / size,
			rng: seeded(seed*1000 + uint64(i))}
	}
	return team
}

// All members do their share at once; returns the time from the first one's begin to the last one's end.
func phase(team []member, work func(me *member)) int64 {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(len(team))
	done.Add(len(team))
	for i := range team {
		go func(me *member) {
			ready.Done()
			<-start
			me.beginNs = now()
			work(me)
			me.endNs = now()
			done.Done()
		}(&team[i])
	}
	ready.Wait()
	close(start)
	done.Wait()
	begin, end := team[0].beginNs, team[0].endNs
	for i := range team {
		if team[i].beginNs < begin {
			begin = team[i].beginNs
		}
		if team[i].endNs > end {
			end = team[i].endNs
		}
	}
	return end - begin
}

func cancelledBy(team []member) int64 {
	all := int64(0)
	for i := range team {
		all += team[i].cancelled
	}
	return all
}
