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
// where a name says otherwise; sizes are kB.
type benchReport struct {
	Rounds       int                `json:"rounds"`
	CPUs         int                `json:"cpus"`
	Ratios       []benchRatio       `json:"ratios"`
	Kinds        []benchKind        `json:"kinds"`
	Throughput   map[string]float64 `json:"per_second"`
	Decision     float64            `json:"decision_us"`
	ServeStart   float64            `json:"serve_start_ms"`
	SupervisorKB int                `json:"supervisor_kb"`
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
	atMost := func(name, of, to string, aim float64) {
		v := r.median(of) / r.median(to)
		r.Ratios = append(r.Ratios, benchRatio{name, v, fmt.Sprintf("at most %g", aim), v <= aim})
	}
	atLeast := func(name, of, to string, aim float64) {
		v := r.Throughput[of] / r.Throughput[to]
		r.Ratios = append(r.Ratios, benchRatio{name, v, fmt.Sprintf("at least %g", aim), v >= aim})
	}
	atMost("shell true / bare exec", "shell true", "bare exec", 1.5)
	atMost("shell true / bare bwrap", "shell true", "bare bwrap", 0.4)
	atMost("run true / bare exec", "run true", "bare exec", 1.5)
	atMost("sandgate run / bare bwrap", "sandgate run", "bare bwrap", 1.5)
	atMost("read_file / bare exec", "read_file 4 KiB", "bare exec", 0.15)
	atLeast("calls per second / bare exec", "shell true", "bare exec", 0.7)
	atLeast("calls per second / bare bwrap", "shell true", "bare bwrap", 4)
}

func (r benchReport) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "ratio\tmeasured\taim\t\n")
	for _, x := range r.Ratios {
		verdict := "met"
		if !x.Met {
			verdict = "not met"
		}
		fmt.Fprintf(w, "%s\t%.2f\t%s\t%s\n", x.Name, x.Value, x.Aim, verdict)
	}
	fmt.Fprintf(w, "\nmedian of %d\tms\tp99\t\n", r.Rounds)
	for _, k := range r.Kinds {
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t\n", k.Name, k.Median, k.P99)
	}
	fmt.Fprintf(w, "\non %d processors\tper second\t\t\n", r.CPUs)
	for _, name := range []string{"bare exec", "bare bwrap", "shell true"} {
		fmt.Fprintf(w, "%s\t%.0f\t\t\n", name, r.Throughput[name])
	}
	fmt.Fprintf(w, "\na decision\t%.1f us\t\t\n", r.Decision)
	fmt.Fprintf(w, "serve, from start to ready\t%.0f ms\t\t\n", r.ServeStart)
	fmt.Fprintf(w, "supervisor, resident\t%d kB\t\t\n", r.SupervisorKB)
	fmt.Fprintf(w, "a waiting cell\t%d kB\t\t\n", r.CellKB)
	return w.Flush()
}

// residentKB is VmRSS of proc(5).
func residentKB(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	return fieldKB(string(b), "VmRSS:")
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

// cellKB is what one waiting sandbox of the supervisor keeps for itself: the
// private memory of bubblewrap and of init, by smaps_rollup of proc(5).
func cellKB(supervisor int) int {
	total, cells := 0, 0
	for _, outer := range childrenOf(supervisor) {
		cells++
		for _, pid := range append(childrenOf(outer), outer) {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
				total += fieldKB(string(b), "Private_Dirty:") + fieldKB(string(b), "Private_Clean:")
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
