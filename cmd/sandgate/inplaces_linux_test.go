//go:build cgo

package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/barred"
)

// TestDoctorAndRunAgree: in each place, what doctor says of `run` is what run does, and it
// says what it has found there. That nothing can confine is scripted (doctor_agrees).
func TestDoctorAndRunAgree(t *testing.T) {
	const filter, keys, masked = "a container's system call filter refuses user namespaces, and the use of keys", "a system call filter refuses the use of keys", "/proc is masked"
	container := []string{filter, masked}
	found := map[string][]string{
		"restricted": container, "read-only": container, "bare-root": container, "docker": container, "old-docker": container, "old-docker-user": container, "nested": container,
		"no-userns": nil, "no-mounts": nil, "half-keys": nil, "masked": {masked},
	}
	for _, p := range barred.Places() {
		t.Run(p.Name, func(t *testing.T) {
			if p.NeedsRoot() && os.Geteuid() != 0 {
				t.Skipf("only root can make the place %s", p.Name)
			}
			want, known := found[p.Name]
			if !known {
				t.Fatal("what is found there is not listed")
			}
			if os.Geteuid() != 0 { // who is not root keeps its /proc
				want = slices.DeleteFunc(slices.Clone(want), func(s string) bool { return s == masked })
			}
			h := newEverydayHost(t, p.Name)
			ran := h.in("repo", h.sandgate, "run", "--", "sh", "-c", "echo made > new && cat new")
			report := h.in("repo", h.sandgate, "doctor", "--json")
			var r doctorReport
			if err := json.Unmarshal([]byte(report.out), &r); err != nil {
				t.Fatalf("%v: %s%s", err, report.out, report.errs)
			}
			works := ran.status == 0 && ran.out == "made\n"
			if r.Ready != works || r.Run.Works != works || (report.status == 0) != works {
				t.Errorf("run: %+v\ndoctor: %+v status %d", ran, r.Report.Backends, report.status)
			}
			if p.Name == "half-keys" {
				if works || !strings.Contains(ran.errs, "keyring") || !strings.Contains(r.Run.Error, "keyring") {
					t.Errorf("run: %+v\ndoctor: %+v", ran, r.Run)
				}
			} else if !works || r.Chosen != "landlock" || r.Run.EnforcedBy == nil || r.Run.EnforcedBy.Backend != "landlock" {
				t.Errorf("run: %+v\ndoctor: %+v", ran, r)
			}
			for _, b := range r.Backends {
				if !b.Works && (b.Reason == "" || b.Remedy == "") {
					t.Errorf("barred without a reason or a remedy: %+v", b)
				}
			}
			if p.Name != "no-userns" && p.Name != "no-mounts" && !slices.Equal(r.Found, want) {
				t.Errorf("found %q, want %q", r.Found, want)
			}
			var said strings.Builder
			if err := printReport(newApp(nil, &said, io.Discard), r, false); err != nil {
				t.Fatal(err)
			}
			_, verdict, _ := strings.Cut(said.String(), "\n\n")
			if n := strings.Count(strings.TrimSpace(verdict), "\n"); n > 5 { // with one empty line
				t.Errorf("%d lines:\n%s", n, verdict)
			}
		})
	}
}

// TestWaysInInPlaces: each way in runs what it is given, with no flag, as root of a plain
// container and under Kubernetes' restricted standard with a read-only image. The script is
// that of the real ones (scripts/containers).
func TestWaysInInPlaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make these places")
	}
	script, err := filepath.Abs("../../scripts/containers.d/inside")
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"docker", "read-only"} {
		t.Run(place, func(t *testing.T) {
			h := newEverydayHost(t, place)
			programs := filepath.Join(h.dir, "programs")
			if err := os.Mkdir(programs, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"sandgate", "sandgate.test"} {
				if err := os.Link(h.sandgate, filepath.Join(programs, name)); err != nil {
					t.Fatal(err)
				}
			}
			cmd := h.command("bash", script, "ways")
			cmd.Env = append(cmd.Env, "PROGRAMS="+programs)
			out, err := cmd.CombinedOutput()
			if steps := strings.Count("\n"+string(out), "\nok "); err != nil || steps != 8 {
				t.Errorf("%d steps held: %v\n%s", steps, err, out)
			}
		})
	}
}

// A ranIn is what a program came to.
type ranIn struct {
	out, errs string
	status    int
}

// in runs a program in a directory of the place.
func (h everydayHost) in(dir, name string, args ...string) ranIn {
	var out, errs strings.Builder
	cmd := h.command(name, args...)
	cmd.Dir = filepath.Join(h.dir, dir)
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // its status tells
	return ranIn{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}
