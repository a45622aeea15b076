package bench

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sandgate/sandgate/confine/proctree"
)

// A Report is the result of `sandgate bench`. Times are milliseconds but where a name
// says otherwise; sizes are kB, streams MB/s.
type Report struct {
	Rounds   int     `json:"rounds"`
	CPUs     int     `json:"cpus"`
	Sessions int     `json:"sessions"` // of the loaded supervisor
	Pending  int     `json:"pending"`
	Files    int     `json:"files"` // in the workspace of Tree
	Decision float64 `json:"decision_us"`
	Ratios   []ratio `json:"ratios"`
	figures          // in an empty workspace
	Tree     figures `json:"tree"`
}

// figures are those of one workspace.
type figures struct {
	Kinds        []kind             `json:"kinds"`
	Throughput   map[string]float64 `json:"per_second"`
	Pipe         float64            `json:"pipe_mb_per_second"`
	Streamed     float64            `json:"streamed_mb_per_second"`
	ServeStart   float64            `json:"serve_start_ms"`
	SupervisorKB int                `json:"supervisor_kb"` // before its first call
	BusyKB       int                `json:"supervisor_after_calls_kb"`
	AnonKB       int                `json:"supervisor_anonymous_kb"`
	SessionKB    float64            `json:"session_kb"`
	WarmKB       int                `json:"warm_kb"`
}

// A ratio compares two medians, or two rates, of this run: in an empty workspace,
// and where that differs in one with many files.
type ratio struct {
	Name  string   `json:"name"`
	Value float64  `json:"value"`
	Tree  *float64 `json:"tree,omitempty"`
	Aim   string   `json:"aim,omitempty"`
	Met   bool     `json:"met"` // in both
}

type kind struct {
	Name   string  `json:"name"`
	Median float64 `json:"median_ms"`
	P99    float64 `json:"p99_ms"`
}

func summaryOf(name string, times []time.Duration) kind {
	slices.Sort(times)
	at := func(q float64) float64 { return times[int(q*float64(len(times)-1))].Seconds() * 1000 }
	return kind{name, at(0.5), at(0.99)}
}

func (r figures) median(name string) float64 {
	for _, k := range r.Kinds {
		if k.Name == name {
			return k.Median
		}
	}
	return 0
}

// compare fills the ratios, each with its aim.
func (r *Report) compare() {
	const most, least = "at most", "at least"
	add := func(name, bound string, aim float64, of func(figures) float64) {
		tree := of(r.Tree)
		x := ratio{Name: name, Value: of(r.figures), Tree: &tree}
		x.judge(bound, aim)
		r.Ratios = append(r.Ratios, x)
	}
	medians := func(of, to string) func(figures) float64 {
		return func(f figures) float64 { return f.median(of) / f.median(to) }
	}
	rates := func(of, to string) func(figures) float64 {
		return func(f figures) float64 { return f.Throughput[of] / f.Throughput[to] }
	}
	add("shell true / bare exec", most, 2, medians(shellTrue, bareExec))
	add("shell true / bare bwrap", most, 0.4, medians(shellTrue, bareBwrap))
	add("sandgate run / bare bwrap", most, 2, medians(runCommand, bareBwrap))
	add("sandgate run / bwrap, its README's line", most, 3, medians(runCommand, shortBwrap))
	add("sandgate run, landlock / bwrap", most, 0.8, medians(runHost, runCommand))
	add("read_file / bare exec", most, 1.2, medians(readFile, bareExec))
	add("calls per second / bare exec", least, 0.4, rates(shellTrue, bareExec))
	add("calls per second / bare bwrap", least, 4, rates(shellTrue, bareBwrap))
	add("shell true, loaded / not", most, 1.1, medians(loadedTrue, shellTrue))
	add("streamed / through a pipe", least, 0.5, func(f figures) float64 { return f.Streamed / f.Pipe })
	add("serve until ready, ms", most, 50, func(f figures) float64 { return f.ServeStart })
	add("supervisor, MB resident", most, 20, func(f figures) float64 { return float64(f.SupervisorKB) / 1024 })
	add("waiting sandbox, MB", most, 3, func(f figures) float64 { return float64(f.WarmKB) / 1024 })
	for _, told := range [][2]string{{unsyncedTrue, bareExec}, {unsyncedRead, bareExec}, {writeFile, bareExec}, {hostTrue, bareBwrap}, {shellInBash, bareBash}, {bareBash, bareExec}} {
		add(told[0]+" / "+told[1], "", 0, medians(told[0], told[1]))
	}
	// What lies in the workspace may not cost anything.
	grown := func(name string, aim float64) {
		x := ratio{Name: name + ", among files / in an empty workspace", Value: r.Tree.median(name) / r.median(name)}
		x.judge(most, aim)
		r.Ratios = append(r.Ratios, x)
	}
	grown(shellTrue, 1.15)
	grown(readFile, 1.15)
	grown(writeFile, 1.15)
	grown(hostTrue, 1.15)
	grown(runCommand, 1.5)
	grown(runHost, 1.5)
	decision := ratio{Name: "a decision, us", Value: r.Decision}
	decision.judge(most, 20)
	r.Ratios = append(r.Ratios, decision)
}

// judge holds x against an aim, "" for none.
func (x *ratio) judge(bound string, aim float64) {
	if bound == "" {
		return
	}
	holds := func(v float64) bool {
		if bound == "at least" {
			return v >= aim
		}
		return v <= aim
	}
	x.Aim = fmt.Sprintf("%s %g", bound, aim)
	x.Met = holds(x.Value) && (x.Tree == nil || holds(*x.Tree))
}

func (r Report) Print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\tempty\t%d files\taim\t\n", r.Files)
	for _, x := range r.Ratios {
		verdict, tree := "", ""
		if x.Aim != "" {
			verdict = map[bool]string{true: "met", false: "not met"}[x.Met]
		}
		if x.Tree != nil {
			tree = fmt.Sprintf("%.2f", *x.Tree)
		}
		fmt.Fprintf(w, "%s\t%.2f\t%s\t%s\t%s\n", x.Name, x.Value, tree, x.Aim, verdict)
	}
	fmt.Fprintf(w, "\nmedian of %d, ms\tempty\tp99\t%d files\tp99\n", r.Rounds, r.Files)
	for i, k := range r.Kinds {
		t := r.Tree.Kinds[i]
		fmt.Fprintf(w, "%s\t%.2f\t%.2f\t%.2f\t%.2f\n", k.Name, k.Median, k.P99, t.Median, t.P99)
	}
	both := func(name, format string, of func(figures) any) {
		fmt.Fprintf(w, "%s\t"+format+"\t\t"+format+"\t\n", name, of(r.figures), of(r.Tree))
	}
	fmt.Fprintf(w, "\non %d processors, per second\t\t\t\t\n", r.CPUs)
	for _, name := range []string{bareExec, bareBwrap, shellTrue} {
		both(name, "%.0f", func(f figures) any { return f.Throughput[name] })
	}
	fmt.Fprintln(w, "\t\t\t\t")
	both("through a pipe, MB/s", "%.0f", func(f figures) any { return f.Pipe })
	both("streamed to the agent, MB/s", "%.0f", func(f figures) any { return f.Streamed })
	both("supervisor, resident, kB", "%d", func(f figures) any { return f.SupervisorKB })
	both("after the calls, kB", "%d", func(f figures) any { return f.BusyKB })
	both("of that, not pages of its program, kB", "%d", func(f figures) any { return f.AnonKB })
	both("an open session, kB", "%.1f", func(f figures) any { return f.SessionKB })
	both("a waiting sandbox, kB", "%d", func(f figures) any { return f.WarmKB })
	fmt.Fprintf(w, "loaded: %d sessions, %d requests that wait\t\t\t\t\n", r.Sessions, r.Pending)
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

// warmKB is the memory that one waiting sandbox of the supervisor adds: the anonymous
// memory of bubblewrap and of init, by smaps_rollup of proc(5). The pages of their
// programs are there once for all of them.
func warmKB(supervisor int) int {
	total, n := 0, 0
	for _, outer := range proctree.Children(supervisor) {
		inner := proctree.Children(outer)
		if len(inner) == 0 {
			continue // the process that ends what a killed supervisor leaves
		}
		n++
		for _, pid := range append(inner, outer) {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid)); err == nil {
				total += fieldKB(string(b), "Pss_Anon:")
			}
		}
	}
	if n == 0 {
		return 0
	}
	return total / n
}
