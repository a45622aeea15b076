package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// A benchReport is what `sandgate bench` measured. Times are milliseconds but
// where a name says otherwise; sizes are kB, streams MB/s.
type benchReport struct {
	Rounds       int                `json:"rounds"`
	CPUs         int                `json:"cpus"`
	Sessions     int                `json:"sessions"` // of the loaded supervisor
	Pending      int                `json:"pending"`
	Ratios       []benchRatio       `json:"ratios"`
	Kinds        []benchKind        `json:"kinds"`
	Throughput   map[string]float64 `json:"per_second"`
	Pipe         float64            `json:"pipe_mb_per_second"`
	Streamed     float64            `json:"streamed_mb_per_second"`
	Decision     float64            `json:"decision_us"`
	ServeStart   float64            `json:"serve_start_ms"`
	SupervisorKB int                `json:"supervisor_kb"` // before its first call
	BusyKB       int                `json:"supervisor_after_calls_kb"`
	AnonKB       int                `json:"supervisor_anonymous_kb"`
	SessionKB    float64            `json:"session_kb"`
	CellKB       int                `json:"cell_kb"`
}

// A benchRatio compares two medians, or two rates, of this run.
type benchRatio struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Aim   string  `json:"aim,omitempty"`
	Met   bool    `json:"met"`
}

type benchKind struct {
	Name   string  `json:"name"`
	Median float64 `json:"median_ms"`
	P99    float64 `json:"p99_ms"`
}

func benchSummary(name string, times []time.Duration) benchKind {
	slices.Sort(times)
	at := func(q float64) float64 { return times[int(q*float64(len(times)-1))].Seconds() * 1000 }
	return benchKind{name, at(0.5), at(0.99)}
}

func (r *benchReport) median(name string) float64 {
	for _, k := range r.Kinds {
		if k.Name == name {
			return k.Median
		}
	}
	return 0
}

// compare fills the ratios, each with its aim.
func (r *benchReport) compare() {
	atMost := func(name string, v, aim float64) {
		r.Ratios = append(r.Ratios, benchRatio{name, v, fmt.Sprintf("at most %g", aim), v <= aim})
	}
	atLeast := func(name string, v, aim float64) {
		r.Ratios = append(r.Ratios, benchRatio{name, v, fmt.Sprintf("at least %g", aim), v >= aim})
	}
	medians := func(of, to string) float64 { return r.median(of) / r.median(to) }
	told := func(of, to string) {
		r.Ratios = append(r.Ratios, benchRatio{Name: of + " / " + to, Value: medians(of, to)})
	}
	atMost("shell true / bare exec", medians(shellTrue, bareExec), 1.5)
	atMost("shell true / bare bwrap", medians(shellTrue, bareBwrap), 0.4)
	atMost("sandgate run / bare bwrap", medians(runCommand, bareBwrap), 1.5)
	atMost("read_file / bare exec", medians(readFile, bareExec), 0.15)
	atLeast("calls per second / bare exec", r.Throughput[shellTrue]/r.Throughput[bareExec], 0.7)
	atLeast("calls per second / bare bwrap", r.Throughput[shellTrue]/r.Throughput[bareBwrap], 4)
	atMost("shell true, loaded / not", medians(loadedTrue, shellTrue), 1.1)
	atLeast("streamed / through a pipe", r.Streamed/r.Pipe, 0.5)
	atMost("a decision, us", r.Decision, 20)
	atMost("serve until ready, ms", r.ServeStart, 50)
	atMost("supervisor, MB resident", float64(r.SupervisorKB)/1024, 20)
	atMost("waiting cell, MB", float64(r.CellKB)/1024, 3)
	told(unsyncedTrue, bareExec)
	told(unsyncedRead, bareExec)
	told(writeFile, bareExec)
	told(shellInBash, bareBash)
	told(bareBash, bareExec)
}

func (r benchReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tmeasured\taim\t\n")
	for _, x := range r.Ratios {
		verdict := "met"
		if !x.Met {
			verdict = "not met"
		}
		if x.Aim == "" {
			verdict = ""
		}
		fmt.Fprintf(w, "%s\t%.2f\t%s\t%s\n", x.Name, x.Value, x.Aim, verdict)
	}
	fmt.Fprintf(w, "\nmedian of %d\tms\tp99\t\n", r.Rounds)
	for _, k := range r.Kinds {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t\n", k.Name, k.Median, k.P99)
	}
	fmt.Fprintf(w, "\non %d processors\tper second\t\t\n", r.CPUs)
	for _, name := range []string{bareExec, bareBwrap, shellTrue} {
		fmt.Fprintf(w, "%s\t%.0f\t\t\n", name, r.Throughput[name])
	}
	fmt.Fprintf(w, "\nthrough a pipe\t%.0f MB/s\t\t\n", r.Pipe)
	fmt.Fprintf(w, "streamed to the agent\t%.0f MB/s\t\t\n", r.Streamed)
	fmt.Fprintf(w, "supervisor, resident\t%d kB\t\t\n", r.SupervisorKB)
	fmt.Fprintf(w, "after the calls\t%d kB\t\t\n", r.BusyKB)
	fmt.Fprintf(w, "of that, not pages of its program\t%d kB\t\t\n", r.AnonKB)
	fmt.Fprintf(w, "an open session\t%.1f kB\t\t\n", r.SessionKB)
	fmt.Fprintf(w, "a waiting cell\t%d kB\t\t\n", r.CellKB)
	fmt.Fprintf(w, "loaded: %d sessions, %d requests that wait\t\t\t\n", r.Sessions, r.Pending)
	return w.Flush()
}

// residentKB is VmRSS of proc(5): the pages of the program itself that have been
// touched are two thirds of it.
func residentKB(pid int) int { return statusKB(pid, "VmRSS:") }

func statusKB(pid int, field string) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return fieldKB(string(b), field)
}

func fieldKB(text, field string) int {
	for _, line := range strings.Split(text, "\n") {
		if rest, ok := strings.CutPrefix(line, field); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), " kB"))
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}

// cellKB is what one waiting sandbox of the supervisor adds to the memory of the
// machine: the anonymous memory of bubblewrap and of init, by smaps_rollup of proc(5).
// The pages of their programs are there once for all of them.
func cellKB(supervisor int) int {
	total, cells := 0, 0
	for _, outer := range childrenOf(supervisor) {
		cells++
		for _, pid := range append(childrenOf(outer), outer) {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
				total += fieldKB(string(b), "Pss_Anon:")
			}
		}
	}
	if cells == 0 {
		return 0
	}
	return total / cells
}

func childrenOf(pid int) []int {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var pids []int
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		for _, s := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(s); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}
