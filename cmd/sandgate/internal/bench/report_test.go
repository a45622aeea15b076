package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// figuresOf are figures in which each kind takes its own number of milliseconds.
func figuresOf(ms map[string]float64) figures {
	f := figures{Throughput: map[string]float64{bareExec: 100, bareBwrap: 10, shellTrue: 90}, Pipe: 100, Streamed: 60, SupervisorKB: 1024, WarmKB: 1024}
	for _, name := range []string{bareExec, bareBash, bareBwrap, shortBwrap, runCommand, runHost, shellTrue, hostTrue, loadedTrue, unsyncedTrue, shellInBash, readFile, unsyncedRead, writeFile} {
		f.Kinds = append(f.Kinds, kind{Name: name, Median: ms[name], P99: ms[name]})
	}
	return f
}

// TestAimsHoldInEveryWorkspace: an aim that holds in an empty workspace and not among many
// files is not met, and neither is what grows with them.
func TestAimsHoldInEveryWorkspace(t *testing.T) {
	good := map[string]float64{bareExec: 1, bareBash: 1, bareBwrap: 10, shortBwrap: 5, runCommand: 12, runHost: 9, shellTrue: 1.2, hostTrue: 5, loadedTrue: 1.2, readFile: 0.1, writeFile: 0.2, unsyncedTrue: 1, unsyncedRead: 1, shellInBash: 1}
	slow := map[string]float64{}
	for name, ms := range good {
		slow[name] = ms
	}
	slow[shellTrue], slow[runCommand] = 25, 140
	for _, x := range []struct {
		tree  map[string]float64
		unmet []string
	}{
		{good, nil},
		{slow, []string{
			"shell true / bare exec", "shell true / bare bwrap", "sandgate run / bare bwrap", "sandgate run / bwrap, its README's line",
			"shell true, among files / in an empty workspace", "sandgate run, among files / in an empty workspace",
		}},
	} {
		r := Report{Files: 57_000, Decision: 1, figures: figuresOf(good), Tree: figuresOf(x.tree)}
		r.compare()
		var unmet []string
		for _, ratio := range r.Ratios {
			if ratio.Aim != "" && !ratio.Met {
				unmet = append(unmet, ratio.Name)
			}
		}
		if strings.Join(unmet, "; ") != strings.Join(x.unmet, "; ") {
			t.Errorf("not met: %q, want %q", unmet, x.unmet)
		}
		var out bytes.Buffer
		if err := r.Print(&out); err != nil || !strings.Contains(out.String(), "57000 files") || strings.Count(out.String(), "not met") != len(x.unmet) {
			t.Errorf("%v\n%s", err, &out)
		}
	}
}

// TestPlantedTree: as many files as are asked for, and directories in proportion.
func TestPlantedTree(t *testing.T) {
	dir := t.TempDir()
	if err := plantTree(dir, 1140); err != nil {
		t.Fatal(err)
	}
	files, directories := 0, 0
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if err == nil && info.IsDir() {
			directories++
		} else {
			files++
		}
		return err
	})
	if err != nil || files != 1140 || directories != 110+2 { // the root and node_modules
		t.Errorf("%d files in %d directories, %v", files, directories, err)
	}
}

// TestWorksAreHeldAgainstTheirAims: of each backend's own, and one without is no verdict.
func TestWorksAreHeldAgainstTheirAims(t *testing.T) {
	r := WorkReport{Rounds: 3, Files: 10, Works: []workRow{
		{Name: "met", Medians: []float64{1, 2, 2.5}, CPU: []float64{4, 10, 14}, Aims: [2]float64{2, 2.5}},
		{Name: "one", Medians: []float64{1, 2, 2.6}, CPU: []float64{4, 10, 14}, Aims: [2]float64{2, 2.5}},
		{Name: "none", Medians: []float64{1, 9, 9}, CPU: []float64{4, 10, 14}},
		{Name: "absent", Lacks: "node"},
	}}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string][2]int{"met ": {2, 0}, "one ": {2, 1}, "none ": {0, 0}, "absent ": {0, 0}} {
		for text := range strings.Lines(out.String()) {
			if strings.HasPrefix(text, line) && (strings.Count(strings.ReplaceAll(text, "met  1000", ""), " met") != want[0] || strings.Count(text, "not met") != want[1]) {
				t.Errorf("%q", text)
			}
		}
	}
	if len(regexp.MustCompile(` 2\.50 +3\.50 *\n`).FindAllString(out.String(), -1)) != 3 { // each has its processor time beside it
		t.Errorf("%s", &out)
	}
	if !strings.Contains(out.String(), "not measured: this host has no node") {
		t.Errorf("%s", &out)
	}
}
