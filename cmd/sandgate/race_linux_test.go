package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/protocol"
)

// raceTime is how long TestSwappersLeadNobodyAstray races: long where it is
// continuous integration that waits. SANDGATE_RACE_TIME sets another: 1m.
func raceTime(t *testing.T) time.Duration {
	t.Helper()
	s := os.Getenv("SANDGATE_RACE_TIME")
	switch {
	case s == "" && os.Getenv("CI") != "":
		return 10 * time.Second
	case s == "":
		return 3 * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatalf("SANDGATE_RACE_TIME: %v", err)
	}
	return d
}

const raceSecret = "hunter2-9f31c0"

// raceConfig has a root for each way in which a path can be allowed less: not at
// all (outside), for reading only (ro), for some names only (notes).
const raceConfig = `version: 1
sandbox:
  paths:
    workspace: {root: ws, mode: rw, write_approval: false}
    ro: {root: ro, mode: ro}
    notes: {root: notes, mode: rw, write_approval: false, suffixes: [".md"]}
shell: {default: {allowed: true, approval: false}}
approval: {mode: approve_all, store: memory}
`

// raceTree is a workspace in which names lead inside one moment and astray the
// next, and the places where they lead, which hold what must not be read or written.
type raceTree struct {
	dir string
	// swaps are pairs of names that change places.
	swaps [][2]string
	// canaries are directories in which nothing may change.
	canaries []string
}

func newRaceTree(t *testing.T) raceTree {
	t.Helper()
	tree := raceTree{dir: t.TempDir()}
	write := func(name, text string, mode fs.FileMode) {
		name = filepath.Join(tree.dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("sandgate.yaml", raceConfig, 0o600)
	for _, to := range []string{"outside", "ro", "notes"} {
		text := raceSecret
		if to == "ro" {
			text = "readable"
		}
		write(to+"/f.txt", text+"\n", 0o644)
		write(to+"/sub/g.txt", text+"\n", 0o644)
		write(to+"/prog", "#!/bin/sh\necho "+text+"\n", 0o755)
		write("ws/"+to+"/f.txt", "inside\n", 0o644)
		write("ws/"+to+"/sub/g.txt", "inside\n", 0o644)
		write("ws/"+to+"/prog", "#!/bin/sh\necho inside\n", 0o755)
		write("ws/"+to+".txt", "inside\n", 0o644)
		for link, target := range map[string]string{to + ".link": "../" + to, to + ".txt.link": "../" + to + "/f.txt"} {
			if err := os.Symlink(target, filepath.Join(tree.dir, "ws", link)); err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(link, ".link")
			tree.swaps = append(tree.swaps, [2]string{name, link})
		}
		tree.canaries = append(tree.canaries, filepath.Join(tree.dir, to))
	}
	return tree
}

// swap exchanges the pairs from two threads until stop is closed.
func (r raceTree) swap(stop <-chan struct{}, done *sync.WaitGroup) {
	for half := range 2 {
		done.Go(func() {
			runtime.LockOSThread()
			for {
				for i, pair := range r.swaps {
					if i%2 == half {
						a, b := filepath.Join(r.dir, "ws", pair[0]), filepath.Join(r.dir, "ws", pair[1])
						_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
					}
				}
				select {
				case <-stop:
					return
				case <-time.After(pause()):
				}
			}
		})
	}
}

// pause makes swaps fall into every phase of a call, and lets some calls pass
// between two swaps.
func pause() time.Duration {
	if rand.N(12) == 0 {
		return rand.N(12 * time.Millisecond)
	}
	return rand.N(300 * time.Microsecond)
}

// state is what must not change: every name with its mode, times and content.
func (r raceTree) state(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{}
	for _, dir := range r.canaries {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(path, &st); err != nil {
				return err
			}
			sum := ""
			if d.Type().IsRegular() {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				sum = fmt.Sprintf("%x", sha256.Sum256(b))
			}
			state[path] = fmt.Sprintf("ino %d mode %o uid %d mtime %v ctime %v %s", st.Ino, st.Mode, st.Uid, st.Mtim, st.Ctim, sum)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return state
}

// lead follows a name like a program that trusts it, and counts how often that
// ended outside.
func (r raceTree) lead() int {
	astray := 0
	for range 20_000 {
		if b, err := os.ReadFile(filepath.Join(r.dir, "ws/outside/f.txt")); err == nil && strings.Contains(string(b), raceSecret) {
			astray++
		}
		if b, err := os.ReadFile(filepath.Join(r.dir, "ws/outside.txt")); err == nil && strings.Contains(string(b), raceSecret) {
			astray++
		}
	}
	return astray
}

// A racer is a call with a path in it. It is made for each place that the path may
// lead to.
type racer struct {
	tool, args string // TO is the place
}

var racers = []racer{
	{tool: "read_file", args: `{"path": "TO/f.txt"}`},
	{tool: "read_file", args: `{"path": "TO.txt"}`},
	{tool: "read_file", args: `{"path": "TO/sub/g.txt"}`},
	{tool: "write_file", args: `{"path": "TO/f.txt", "content": "inside, again\n"}`},
	{tool: "write_file", args: `{"path": "TO/new/deep.txt", "content": "inside, new\n"}`},
	{tool: "write_file", args: `{"path": "TO.txt", "content": "inside, again\n"}`},
	{tool: "edit_file", args: `{"path": "TO/sub/g.txt", "old_string": "\n", "new_string": " \n", "replace_all": true}`},
	{tool: "edit_file", args: `{"path": "TO.txt", "old_string": "\n", "new_string": " \n", "replace_all": true}`},
	{tool: "multi_edit", args: `{"path": "TO/f.txt", "edits": [{"old_string": "inside", "new_string": "x"}, {"old_string": "x", "new_string": "inside"}]}`},
	{tool: "list_files", args: `{"path": "TO", "depth": 3}`},
	{tool: "list_files", args: `{"path": ".", "depth": 3}`},
	{tool: "glob", args: `{"pattern": "**/*.txt", "path": "TO"}`},
	{tool: "grep", args: `{"pattern": "hunter|inside", "path": "TO"}`},
	{tool: "grep", args: `{"pattern": "hunter|inside", "path": "TO/f.txt"}`},
	{tool: "grep", args: `{"pattern": "hunter|inside"}`},
	{tool: "shell", args: `{"command": "cat f.txt sub/g.txt; echo x > planted; rm -f planted", "dir": "TO"}`},
	{tool: "shell", args: `{"command": "cat TO/f.txt TO.txt; echo x >> TO/f.txt; mv TO/f.txt TO/f2.txt; mv TO/f2.txt TO/f.txt; chmod 600 TO/prog; chmod 755 TO/prog; touch TO.txt"}`},
	{tool: "shell", args: `{"command": "./TO/prog"}`},
	{tool: "run", args: `{"argv": ["./TO/prog"]}`},
	{tool: "run", args: `{"argv": ["./prog"], "dir": "TO"}`},
	{tool: "run", args: `{"argv": ["/bin/sh", "TO/prog"]}`},
	{tool: "run", args: `{"argv": ["/bin/sh", "-c", "cat f.txt; echo x > sub/planted; rm sub/planted"], "dir": "TO"}`},
}

// TestSwappersLeadNobodyAstray makes every call with a path in it while two
// threads exchange directories and files of the workspace for links that lead out
// of it. No secret from outside may come back, and nothing there may change.
func TestSwappersLeadNobodyAstray(t *testing.T) {
	tree := newRaceTree(t)
	race := startRace(t, tree)
	before := tree.state(t)
	stop := make(chan struct{})
	var swapping, calling sync.WaitGroup
	tree.swap(stop, &swapping)
	if astray := tree.lead(); astray == 0 {
		t.Error("a program that trusts names was never led astray: the race was not run")
	} else {
		t.Logf("a program that trusts names was led astray %d times in 40000", astray)
	}
	deadline := time.Now().Add(raceTime(t))
	for range 2 {
		calling.Go(func() { race.call(deadline) })
	}
	calling.Wait()
	close(stop)
	swapping.Wait()

	after := tree.state(t)
	for path, want := range before {
		if after[path] != want {
			t.Errorf("changed: %s\n\tbefore %s\n\tafter  %s", path, want, after[path])
		}
	}
	for path := range after {
		if before[path] == "" {
			t.Errorf("made: %s", path)
		}
	}
	race.report()
	searchSecret(t, filepath.Join(tree.dir, "ws"))
}

// searchSecret looks for the secret in what the calls left in the workspace.
func searchSecret(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), raceSecret) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A raceRun is a supervisor as `sandgate serve` builds it, and a tally of its calls.
type raceRun struct {
	t  *testing.T
	sv *assemble.Running

	mu      sync.Mutex
	made    map[string]int // by tool
	done    map[string]int
	refused map[string]int // by code
	next    atomic.Int64
}

func startRace(t *testing.T, tree raceTree) *raceRun {
	t.Helper()
	t.Setenv("XDG_STATE_HOME", filepath.Join(tree.dir, "state"))
	t.Chdir(filepath.Join(tree.dir, "ws"))
	cfg, err := settings.Load(filepath.Join(tree.dir, "sandgate.yaml"), "")
	if err != nil {
		t.Fatal(err)
	}
	sv, err := assemble.Start(cfg, assemble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sv.Close() })
	return &raceRun{t: t, sv: sv, made: map[string]int{}, done: map[string]int{}, refused: map[string]int{}}
}

// call makes one call after another in a session of its own.
func (r *raceRun) call(deadline time.Time) {
	peer := assemble.Self()
	opened, err := r.sv.OpenSession(peer, protocol.SessionOpen{Agent: "racer", Mode: approval.ApproveAll})
	if err != nil {
		r.t.Error(err)
		return
	}
	// "notes" is the name of a path too: it leads there, or is refused as ambiguous.
	places := []string{"outside", "./ro", "./notes", "notes"}
	for time.Now().Before(deadline) || r.lacking() && time.Now().Before(deadline.Add(time.Minute)) {
		n := int(r.next.Add(1))
		x := racers[n%len(racers)]
		args := strings.ReplaceAll(x.args, "TO", places[n/len(racers)%len(places)])
		result, err := r.sv.Call(context.Background(), peer, protocol.ToolsCall{
			SessionID: opened.SessionID, CallID: protocol.CallID(fmt.Sprint(n)), Tool: protocol.ToolName(x.tool), Args: json.RawMessage(args),
		}, nil)
		r.look(x.tool, args, result, err)
	}
}

// lacking says that some tool has not done its work yet: on a loaded machine that
// takes longer.
func (r *raceRun) lacking() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(racers, func(x racer) bool { return r.done[x.tool] == 0 })
}

// look searches everything that an agent is told for the secret.
func (r *raceRun) look(tool, args string, result protocol.CallResult, err error) {
	told, jsonErr := json.Marshal(result)
	text := string(told)
	for _, c := range result.Content {
		text += string(c.Bytes())
	}
	if err != nil {
		text += err.Error()
	}
	if strings.Contains(text, raceSecret) || jsonErr != nil {
		r.t.Errorf("%s %s was led astray: %.500s %v", tool, args, text, jsonErr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made[tool]++
	var e *protocol.Error
	switch {
	case errors.As(err, &e):
		r.refused[tool+" "+string(e.Code)]++
	case err == nil && result.ExitCode == 0:
		r.done[tool]++
	}
}

// report fails for a tool that never did its work: a race that refuses everything
// shows nothing.
func (r *raceRun) report() {
	for _, x := range racers {
		if r.done[x.tool] == 0 {
			r.t.Errorf("%s: none of %d calls did its work", x.tool, r.made[x.tool])
		}
	}
	r.t.Logf("made %v, done %v, refused %v", r.made, r.done, r.refused)
}
