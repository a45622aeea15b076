package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/sandgate/sandgate/approval"
)

// writerEnv makes the test binary a process that remembers answers until it is killed.
const writerEnv = "STORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(writerEnv); spec != "" {
		writeForever(spec)
	}
	if dir := os.Getenv(waiterEnv); dir != "" {
		waitForever(dir)
	}
	os.Exit(m.Run())
}

// writeForever prints each answer's number once it has been acknowledged.
func writeForever(spec string) {
	name, path, _ := strings.Cut(spec, ":")
	s, err := Open(path)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	list, err := s.List()
	for i := len(list); err == nil; i++ {
		if err = s.Remember(answer(name, i)); err == nil {
			fmt.Println(i)
		}
	}
	fmt.Println("error", err)
	os.Exit(1)
}

func answer(agent string, n int) approval.Memory {
	m := approval.Memory{
		ID: fmt.Sprintf("dec-%s-%d", agent, n), ToolName: "shell", Payload: `{"n":` + strconv.Itoa(n) + `}`,
		Approver: "uid 1000, pid 1", Created: time.Unix(int64(n), 0).UTC(),
		Key: approval.Key{Scope: approval.Agent, Holder: agent, Effect: approval.Deny},
	}
	copy(m.Key.Fingerprint[:], fmt.Sprintf("%d", n))
	return m
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func remember(t *testing.T, s *Store, m approval.Memory) {
	t.Helper()
	if err := s.Remember(m); err != nil {
		t.Fatal(err)
	}
}

func lookup(t *testing.T, s *Store, k approval.Key) (approval.Memory, bool) {
	t.Helper()
	m, ok, err := findOne(s, k)
	if err != nil {
		t.Fatal(err)
	}
	return m, ok
}

// findOne looks one key up.
func findOne(s approval.Store, k approval.Key) (approval.Memory, bool, error) {
	found, err := s.Lookup(k)
	if len(found) == 0 {
		return approval.Memory{}, false, err
	}
	return found[0], true, err
}

func dbPath(t *testing.T) string { return filepath.Join(t.TempDir(), "state", FileName) }

func TestAnswersOutliveTheProcess(t *testing.T) {
	path := dbPath(t)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m := answer("coder", 1)
	m.Connector, m.Feedback = "github", "not today\nthanks \x00"
	m.Boundaries = []string{"{}", "x"}
	remember(t, s, m)
	s.Touch(m.Key, time.Unix(50, 0).UTC())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m.Hits, m.LastUsed = 1, time.Unix(50, 0).UTC()
	if got, ok := lookup(t, open(t, path), m.Key); !ok || !reflect.DeepEqual(got, m) {
		t.Errorf("%t\n got %+v\nwant %+v", ok, got, m)
	}
}

func TestModes(t *testing.T) {
	path := dbPath(t)
	open(t, path)
	for name, want := range map[string]fs.FileMode{path: 0o600, filepath.Dir(path): 0o700 | fs.ModeDir} {
		if st, err := os.Stat(name); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, st.Mode(), err, want)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

// TestAgreesWithMemoryStore: whatever is done, both stores answer the same, also
// when the file is closed and opened between two steps.
func TestAgreesWithMemoryStore(t *testing.T) {
	keys := []approval.Key{}
	for _, scope := range []approval.Scope{approval.Agent, approval.Global} {
		for _, effect := range []approval.Effect{approval.Allow, approval.Deny} {
			for n := range byte(2) {
				keys = append(keys, approval.Key{Scope: scope, Effect: effect, Fingerprint: approval.Fingerprint{n}})
			}
		}
	}
	base := memoryDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			rt.Fatal(err)
		}
		path := filepath.Join(dir, FileName)
		model, s := approval.NewMemoryStore(), open(t, path)
		for i := range rapid.IntRange(1, 12).Draw(rt, "steps") {
			k := rapid.SampledFrom(keys).Draw(rt, "key")
			at := time.Unix(int64(i+1), 0).UTC()
			switch rapid.SampledFrom([]string{"remember", "forget", "touch", "spend", "reopen"}).Draw(rt, "step") {
			case "remember":
				m := approval.Memory{ID: fmt.Sprint("d", i%4), Key: k, Created: at, Payload: "{}", Uses: rapid.IntRange(0, 2).Draw(rt, "uses")}
				if m.Uses > 0 {
					m.Expires, m.Description, m.SessionID = at.Add(time.Hour), "Run go test", "s-1"
					m.Pattern = &approval.Pattern{Kind: approval.ArgvPrefix, Value: "go test"}
				}
				if err := errors.Join(model.Remember(m), s.Remember(m)); err != nil {
					rt.Fatal(err)
				}
			case "forget":
				forgetOne(rt, model, s, k)
			case "spend":
				id := fmt.Sprint("d", rapid.IntRange(0, 3).Draw(rt, "id"))
				want, _ := model.Spend(k, id, at)
				if got, err := s.Spend(k, id, at); got != want || err != nil {
					rt.Fatalf("spend %q: %t, %v; want %t", id, got, err, want)
				}
			case "touch":
				model.Touch(k, at)
				s.Touch(k, at)
			case "reopen":
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				s = open(t, path)
			}
			same(rt, model, s, keys)
		}
	})
}

// memoryDir is a directory where syncing costs nothing, if this host has one.
func memoryDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "store-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// forgetOne forgets the answer for k by its id, where that id is not shared:
// which of two is found first is nobody's promise.
func forgetOne(rt *rapid.T, model, s approval.Store, k approval.Key) {
	m, ok, _ := findOne(model, k)
	list, _ := model.List()
	shared := 0
	for _, other := range list {
		if other.ID == m.ID {
			shared++
		}
	}
	if shared > 1 {
		return
	}
	id := m.ID
	if !ok {
		id = "nothing"
	}
	want, _ := model.Forget(id)
	if got, err := s.Forget(id); got != want || err != nil {
		rt.Fatalf("forget %q: %t, %v; want %t", id, got, err, want)
	}
}

func same(rt *rapid.T, model, s approval.Store, keys []approval.Key) {
	for _, k := range keys {
		want, ok, _ := findOne(model, k)
		if got, found, err := findOne(s, k); !reflect.DeepEqual(got, want) || found != ok || err != nil {
			rt.Fatalf("lookup %+v:\n got %+v %t %v\nwant %+v %t", k, got, found, err, want, ok)
		}
	}
	want, _ := model.List()
	got, err := s.List()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		rt.Fatalf("list: %v\n got %v\nwant %v", err, got, want)
	}
}

// TestForgottenAfterTouch: a count that is not written yet does not bring an
// answer back that another process has forgotten.
func TestForgottenAfterTouch(t *testing.T) {
	path := dbPath(t)
	a, b := open(t, path), open(t, path)
	m := answer("coder", 1)
	remember(t, a, m)
	a.Touch(m.Key, time.Unix(9, 0))
	if found, err := b.Forget(m.ID); !found || err != nil {
		t.Fatal(found, err)
	}
	remember(t, a, answer("coder", 2))
	if _, ok := lookup(t, a, m.Key); ok {
		t.Error("it came back")
	}
}

// TestProcessesShareAnswers: what one supervisor was told binds another at once,
// with no moment in which a stale copy answers.
func TestProcessesShareAnswers(t *testing.T) {
	path := dbPath(t)
	serve, run := open(t, path), open(t, path)
	for i := range 100 {
		m := answer("coder", i)
		if _, ok := lookup(t, run, m.Key); ok {
			t.Fatal("known before it was said")
		}
		remember(t, serve, m)
		if _, ok := lookup(t, run, m.Key); !ok {
			t.Fatalf("answer %d does not bind the other process", i)
		}
		serve, run = run, serve
	}
}

func TestOnlyLastingScopesAreKept(t *testing.T) {
	s := open(t, dbPath(t))
	for _, k := range []approval.Key{{}, {Scope: approval.Session}, {Scope: approval.Once}, {Scope: approval.Agent, Effect: approval.Ask}} {
		if err := s.Remember(approval.Memory{ID: "d", Key: k}); err == nil {
			t.Errorf("%+v was kept", k)
		}
	}
	remember(t, s, approval.Memory{ID: "d", Key: approval.Key{Scope: approval.Global, Effect: approval.Allow}})
}

// TestKilledWritersLoseNothing kills processes in the middle of their work, two
// at a time on the same file, and looks for everything that they acknowledged.
func TestKilledWritersLoseNothing(t *testing.T) {
	path := dbPath(t)
	acked := map[string]int{} // agent -> how many
	for round := range 12 {
		var wg sync.WaitGroup
		results := make([]map[string]int, 2)
		for i := range results {
			name := fmt.Sprintf("w%d-%d", i, round)
			wg.Go(func() { results[i] = map[string]int{name: writeAndKill(t, name, path, 1+(round*7+i*3)%11)} })
		}
		wg.Wait()
		for _, r := range results {
			maps.Copy(acked, r)
		}
		checkAcked(t, path, acked)
	}
}

// writeAndKill has a process write, kills it after it has acknowledged at least
// n answers, and counts all that it had acknowledged by then.
func writeAndKill(t *testing.T, name, path string, n int) (acked int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+name+":"+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return 0
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return 0
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "error") {
			t.Error(name, lines.Text())
		}
		if acked++; acked == n {
			_ = cmd.Process.Kill() // what is in the pipe is still read
		}
	}
	_ = cmd.Wait()
	return acked
}

func checkAcked(t *testing.T, path string, acked map[string]int) {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]int{}
	for _, m := range list {
		there[m.Key.Holder]++
	}
	for agent, n := range acked {
		if got := there[agent]; got < n || got > n+1 { // the last may have been written and not yet acknowledged
			t.Errorf("%s: %d answers are there, %d were acknowledged", agent, got, n)
		}
	}
}

// TestKilledWhileMakingTheFile: what a crash leaves of a new file is not in the way.
func TestKilledWhileMakingTheFile(t *testing.T) {
	path := dbPath(t)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	remember(t, open(t, path), answer("a", 1))
}

func TestManyOpenAtOnce(t *testing.T) {
	path := dbPath(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			s, err := Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(s.Remember(answer("a", i)), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := open(t, path).List(); err != nil || len(list) != 8 {
		t.Errorf("%d answers, %v", len(list), err)
	}
}

// TestDamageIsRefused damages a file in every way that a bad disk or a person
// with an editor would. The twin is the same file undamaged.
func TestDamageIsRefused(t *testing.T) {
	path := dbPath(t)
	s := open(t, path)
	for i := range 3 {
		remember(t, s, answer("coder", i))
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edit := func(f func(tx *bbolt.Tx) error) func(t *testing.T, name string) {
		return func(t *testing.T, name string) { editDB(t, name, f) }
	}
	row := rowKey(answer("coder", 1).Key)
	for name, damage := range map[string]func(t *testing.T, name string){
		"empty":     func(t *testing.T, name string) { truncate(t, name, 0) },
		"head only": func(t *testing.T, name string) { truncate(t, name, 8192) },
		"no database": func(t *testing.T, name string) {
			if err := os.WriteFile(name, bytes.Repeat([]byte("x"), 32768), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"another database": edit(func(tx *bbolt.Tx) error { return tx.DeleteBucket(metaBucket) }),
		"answers gone":     edit(func(tx *bbolt.Tx) error { return tx.DeleteBucket(answersBucket) }),
		"a deny lost":      edit(func(tx *bbolt.Tx) error { return tx.Bucket(answersBucket).Delete(row) }),
		"a deny turned": edit(func(tx *bbolt.Tx) error {
			b := tx.Bucket(answersBucket)
			return b.Put(row, bytes.Replace(b.Get(row), []byte(`"deny"`), []byte(`"allow"`), 1))
		}),
		"another payload": edit(func(tx *bbolt.Tx) error {
			b := tx.Bucket(answersBucket)
			return b.Put(row, bytes.Replace(b.Get(row), []byte("pid 1"), []byte("pid 2"), 1))
		}),
		"no JSON": edit(func(tx *bbolt.Tx) error { return tx.Bucket(answersBucket).Put([]byte("x"), []byte("{")) }),
	} {
		t.Run(name, func(t *testing.T) {
			broken := filepath.Join(t.TempDir(), FileName)
			if err := os.WriteFile(broken, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			if list, err := open(t, broken).List(); err != nil || len(list) != 3 {
				t.Fatalf("undamaged: %v, %v", list, err)
			}
			damage(t, broken)
			_, err := Open(broken)
			hint(t, err, ErrCorrupt, "move the file away")
		})
	}
}

// TestDamageWhileOpen: a store whose file is damaged, or gone, under its hands
// answers nothing, and changes nothing.
func TestDamageWhileOpen(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(path string) error
		want   error
	}{
		"truncated": {func(p string) error { return os.Truncate(p, 8192) }, ErrCorrupt},
		"removed":   {os.Remove, errRemoved},
	} {
		t.Run(name, func(t *testing.T) {
			path := dbPath(t)
			s, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			m := answer("coder", 1)
			remember(t, s, m)
			if _, ok := lookup(t, s, m.Key); !ok {
				t.Fatal("not there")
			}
			if err := c.damage(path); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Lookup(m.Key); !errors.Is(err, c.want) {
				t.Errorf("lookup: %v", err)
			}
			if err := s.Remember(answer("coder", 2)); err == nil {
				t.Error("remembered in a damaged file")
			}
		})
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := dbPath(t)
	open(t, path)
	editDB(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(metaBucket).Put(schemaKey, []byte("2")) })
	_, err := Open(path)
	hint(t, err, errNewer, "use that version")
}

func TestUnsafeFilesAreRefused(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"readable by others":  func(p string) error { return os.Chmod(p, 0o644) },
		"others may write":    func(p string) error { return os.Chmod(filepath.Dir(p), 0o777) },
		"a link":              func(p string) error { return errors.Join(os.Rename(p, p+"2"), os.Symlink(p+"2", p)) },
		"a second name":       func(p string) error { return os.Link(p, p+"2") },
		"a fifo":              func(p string) error { return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o600)) },
		"somebody else's":     func(p string) error { return os.Chown(p, 4242, 4242) },
		"a directory instead": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
	} {
		t.Run(name, func(t *testing.T) {
			if name == "somebody else's" && os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			path := dbPath(t)
			open(t, path)
			if err := prepare(path); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path)
			if name == "a directory instead" {
				if !errors.Is(err, syscall.EISDIR) && !errors.Is(err, errUnsafe) {
					t.Errorf("%v", err)
				}
				return
			}
			hint(t, err, errUnsafe, "mode 0600")
		})
	}
}

// TestAHeldLockIsExplained: a process that does not let go is named as the cause,
// and what cannot be read meanwhile is an error, which approval takes for a deny.
func TestAHeldLockIsExplained(t *testing.T) {
	if testing.Short() {
		t.Skip("waits as long as a supervisor would")
	}
	path := dbPath(t)
	s := open(t, path)
	remember(t, s, answer("a", 1))
	held, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(path)
	hint(t, err, ErrInUse, "fuser")
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if _, ok := lookup(t, s, answer("a", 1).Key); !ok {
		t.Error("nothing there after the lock was let go")
	}
}

// TestUnreadableMemoryDenies: the controller refuses what would otherwise run
// when it cannot tell whether it was denied for good.
func TestUnreadableMemoryDenies(t *testing.T) {
	path := dbPath(t)
	s := open(t, path)
	c := approval.NewController(approval.Options{Store: s, Mode: approval.ApproveAll})
	call := approval.Call{Agent: "coder", Request: &approval.Request{ToolName: "shell", Payload: map[string]any{"command": "ls"}}}
	if _, err := c.Decide(context.Background(), call); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	var denied *approval.DeniedError
	if _, err := c.Decide(context.Background(), call); !errors.As(err, &denied) {
		t.Errorf("decided without its memory: %v", err)
	}
}

// TestADenyHoldsInEveryProcess: what a person denied for good in one supervisor
// is denied in another, also in one that approves all.
func TestADenyHoldsInEveryProcess(t *testing.T) {
	path := dbPath(t)
	call := approval.Call{Agent: "coder", Request: &approval.Request{ToolName: "shell", Payload: map[string]any{"command": "rm"}}}
	run := approval.NewController(approval.Options{Store: open(t, path), Mode: approval.ApproveAll})
	if _, err := run.Decide(context.Background(), call); err != nil {
		t.Fatal(err)
	}
	serve := approval.NewController(approval.Options{Store: open(t, path), Prompter: denyForGood{}})
	if _, err := serve.Decide(context.Background(), call); err == nil {
		t.Fatal("not denied")
	}
	var denied *approval.DeniedError
	if _, err := run.Decide(context.Background(), call); !errors.As(err, &denied) || denied.Decision.Source != approval.SourceRememberedDeny {
		t.Errorf("the other process: %v", err)
	}
}

type denyForGood struct{}

func (denyForGood) Prompt(context.Context, approval.Pending) (approval.Answer, error) {
	return approval.Answer{Scope: approval.Global, Approver: "test"}, nil
}

func TestClosed(t *testing.T) {
	s := open(t, dbPath(t))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lookup(approval.Key{}); !errors.Is(err, ErrClosed) {
		t.Errorf("lookup: %v", err)
	}
	if err := s.Remember(answer("a", 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("remember: %v", err)
	}
}

func TestDefaultPath(t *testing.T) {
	for _, c := range []struct{ state, home, want string }{
		{"/s", "/h", "/s/sandgate/approvals.db"},
		{"relative", "/h", "/h/.local/state/sandgate/approvals.db"},
		{"", "", ""},
	} {
		t.Setenv("XDG_STATE_HOME", c.state)
		t.Setenv("HOME", c.home)
		if got, err := DefaultPath(); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

func hint(t *testing.T, err, want error, text string) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, want) || !strings.Contains(e.Hint(), text) {
		t.Errorf("error %v, want %v with a hint that says %q", err, want, text)
	}
}

func truncate(t *testing.T, name string, size int64) {
	t.Helper()
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
}

func editDB(t *testing.T, name string, f func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(name, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(f), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestADamagedHeadPageLosesNothing: bbolt falls back to the other one.
func TestADamagedHeadPageLosesNothing(t *testing.T) {
	path := dbPath(t)
	remember(t, open(t, path), answer("a", 1))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := range 2 {
		damaged := bytes.Clone(whole)
		damaged[page*os.Getpagesize()+16] ^= 0xff
		name := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(name, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := lookup(t, open(t, name), answer("a", 1).Key); !ok {
			t.Errorf("lost with head page %d", page)
		}
	}
}

// FuzzParseRow: a row is refused, or it is exactly what would be written for the
// answer that it was read as.
func FuzzParseRow(f *testing.F) {
	for _, m := range []approval.Memory{answer("a", 1), {ID: "d", Key: approval.Key{Scope: approval.Global, Effect: approval.Allow}}} {
		value, err := rowValue(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(rowKey(m.Key), value)
	}
	f.Add([]byte(""), []byte("{}"))
	f.Fuzz(func(t *testing.T, name, value []byte) {
		m, err := parseRow(name, value)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("not called damage: %v", err)
			}
			return
		}
		if !bytes.Equal(rowKey(m.Key), name) {
			t.Fatalf("row %q was read as %+v", name, m.Key)
		}
		again, err := rowValue(m)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseRow(name, again); err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, back, m)
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), FileName))
	if err != nil {
		b.Fatal(err)
	}
	for i := range 20 {
		if err := s.Remember(answer("a", i)); err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(tick) // a file that has just been written is read each time
	k := answer("a", 7).Key
	for b.Loop() {
		if _, ok, err := findOne(s, k); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
