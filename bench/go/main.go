/* SPDX-License-Identifier: BSD-2-Clause */

// Go's time.AfterFunc as a subject of the bench; bench/program.c says how it is called and what it prints.
//
// Configuration: as a Go program has it.  There is no timer to create or stop, no tick and no worker: timers lie in a
// heap for each processor and are run by the scheduler, each function in a goroutine.  So producers' CPU time cannot be
// told from the others', and a figure of the process holds both.
package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

type run struct {
	scenario     string
	producers, n int
	windowNs     int64
	seed         uint64
	quick        bool
}

var scenarios = map[string]func(run) []float64{
	"S1": func(r run) []float64 { return s1(r, false) }, "S1t": func(r run) []float64 { return s1(r, false) },
	"S8.P": func(r run) []float64 { return s1(r, false) }, "S8.S1": func(r run) []float64 { return s1(r, false) },
	"S1w": func(r run) []float64 { return s1(r, true) },
	"S2": s2, "S8.S2": s2, "S2w": s2w, "S2x": s2x, "S7": s7,
	"S3":        func(r run) []float64 { return s3(r, 0) },
	"S3.spread": func(r run) []float64 { return s3(r, 100*ms) },
	"S4":        s4, "S5": s5, "S6": s6,
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		fail("not a number: %s", text)
	}
	return value
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		fmt.Println(runtime.Version(), "time.AfterFunc")
		return
	}
	r := run{scenario: os.Args[1], producers: int(number(os.Args[2])), n: int(number(os.Args[3])),
		windowNs: number(os.Args[6]), seed: uint64(number(os.Args[7])), quick: os.Args[8] == "1"}
	scenario, found := scenarios[r.scenario]
	if !found {
		absent("not written for Go")
	}
	debug.FreeOSMemory()
	figures := scenario(r)
	fmt.Print("outcome")
	for _, figure := range figures {
		if math.IsNaN(figure) {
			fmt.Print(" -")
		} else {
			fmt.Printf(" %.6g", figure)
		}
	}
	fmt.Println()
}
