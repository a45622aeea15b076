// Package confinetest is one list of claims that every backend of package
// confine must keep. A backend's own test calls Run.
//
// Each claim does an act that must be refused, recognises the refusal by what
// the kernel answered, and does the same act where it must succeed.
package confinetest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// Standing says how a backend stands to a claim. There is no other way: a backend that
// cannot keep one refuses, before anything runs, the profiles that it is about, or says
// in each result what does not hold.
type Standing string

const (
	Held     Standing = "held"     // as the claim says
	Stricter Standing = "stricter" // what must be refused is, and so is more
	Refused  Standing = "refused"  // Prepare fails, and names the part
	NotHeld  Standing = "not held" // what enforces says so, for every call
)

// A claim is one thing that a backend promises. host says how one without
// namespaces of its own stands to it; the zero value is: in the same way.
type claim struct {
	name string
	says string
	test func(*testing.T, confine.Confiner)
	host host
}

// host is the standing of a backend in the host's namespaces. test replaces the
// claim's own where that needs what this backend does not give.
type host struct {
	standing Standing
	note     string
	test     func(*testing.T, confine.Confiner)
}

func claims() []claim {
	return []claim{
		{name: "ExitStatusIsExact", says: "The result distinguishes an exit status, a signal and a failed start", test: exitStatus},
		{name: "StartsWhereItSays", says: "A program starts in the directory that the call names, and in none to which a link has come to lead", test: startsWhereItSays},
		{name: "OutputIsExact", says: "Output arrives complete and unchanged", test: output},
		{name: "HeldActionsWait", says: "A held action does not start before it is released, and never if it is refused", test: held, host: host{Held, "", hostHeld}},
		{name: "StdinReachesTheProgram", says: "Standard input arrives, and the program need not read it", test: stdin},
		{name: "WriteOutsideIsRefused", says: "A program can write only what the profile lists", test: writeOutside},
		{name: "UnlistedFilesAreAbsent", says: "Files that the profile does not list cannot be read", test: unlisted},
		{name: "ProtectedIsReadOnly", says: "Protected patterns cannot be written, at any depth", test: protected},
		{name: "HiddenIsUnreadable", says: "Hidden patterns cannot be read, at any depth", test: hidden},
		{name: "ParentsOfProtectedArePinned", says: "Renaming a directory above a protected name does not remove the protection", test: pinned,
			host: host{Held, "a directory may be renamed; what is below it is judged by its new name", hostPinned}},
		{name: "ParentsOfHiddenArePinned", says: "Renaming a directory above a hidden name does not reveal it", test: pinnedHidden, host: host{Held, "it may be renamed but not moved to another parent", hostPinnedHidden}},
		{name: "EnvironmentIsTheAllowList", says: "The environment contains only what the allow-list names, and no other process's environment can be read", test: environment, host: host{Held, "HOME and TMPDIR point to the private directories", hostEnvironment}},
		{name: "DescriptorsAreClosed", says: "A program inherits no descriptors except the standard streams", test: descriptors},
		{name: "HandedFilesAreInherited", says: "A program gets the descriptors that are passed to it, and no others", test: inheritedFiles},
		{name: "NoControllingTerminal", says: "There is no controlling terminal", test: terminal},
		{name: "NoNetwork", says: "Without network nothing gets out", test: network, host: host{Stricter, "datagrams that its programs send each other have at most 65,467 bytes and leave out groups", hostNetwork}},
		{name: "TmpAndHomeArePrivate", says: "/tmp and HOME are private", test: scratch, host: host{Stricter, "contents are private, names are shared: a sandbox can create a few dozen entries directly in /tmp. HOME and TMPDIR are elsewhere. A program that keeps a directory with a fixed name in /tmp (the daemon of Codex) cannot write to the one that it created outside", nil}},
		{name: "HomeHasWhatIsListed", says: "What the profile lists below HOME is there, and what programs create beside it is private", test: listedBelowHome, host: host{Held, "through links in the directory that HOME names", nil}},
		{name: "NothingOutlivesTheCall", says: "When a call ends, all its processes are dead", test: outlives, host: host{Held, "", hostOutlives}},
		{name: "TimeLimitEndsTheTree", says: "A time limit ends the whole tree", test: timeLimit},
		{name: "CancelEndsTheTree", says: "Cancelling ends the whole tree", test: cancel},
		{name: "OutputLimitEndsTheProgram", says: "Too much output ends the program", test: outputLimit},
		{name: "LimitsHold", says: "Memory, processes, file size and descriptors are limited", test: limits},
		{name: "BombsEnd", says: "A call that uses up memory, processes, CPU, files or output ends at the limit, and the result names the limit", test: bombsEnd,
			host: host{Stricter, "no System V objects; private directories are on disk and looked at every 200 ms", hostBombsEnd}},
		{name: "SharedPagesCountOnce", says: "Memory shared by processes counts once", test: sharedOnce},
		{name: "ReservationsAreNoMemory", says: "Reserved but unused memory and file space do not count", test: reserved},
		{name: "FilesAreReadAndWritten", says: "The file tools read and write", test: files},
		{name: "FileOperationsFollowNoLinks", says: "The file tools do not follow links", test: links},
		{name: "FilesAreEdited", says: "The file tools edit", test: edits},
		{name: "EditsOfAnotherVersionAreRefused", says: "An edit applies only to the version that was shown", test: editDrift},
		{name: "ConcurrentEditsLoseNothing", says: "Concurrent edits lose nothing", test: concurrentEdits},
		{name: "FullDiskLeavesTheOldContent", says: "Private directories are limited; if one is full, old content stays", test: fullDisk},
		{name: "OddFilesAreRefused", says: "Pipes, devices and sockets do not block the file tools", test: oddFiles},
		{name: "DevicesAreNoFiles", says: "The file tools refuse devices", test: devices},
		{name: "EndlessFilesEnd", says: "An endless file does not block a file tool", test: endlessFiles},
		{name: "OddNamesAreNames", says: "Names with blanks, control characters and wildcards work as names", test: oddNames},
		{name: "ReadOnlyDiskStaysAsItIs", says: "The file tools change nothing in a read-only directory", test: readOnlyDisk},
		{name: "SearchesStayInside", says: "Searches stay inside", test: searches},
		{name: "SearchesEnd", says: "Searches end", test: searchEnds},
		{name: "SupervisorIsNotReachable", says: "The sandbox's init and the supervisor cannot be traced, read, limited or signalled", test: initSafe, host: host{Held, "", hostInitSafe}},
		{name: "SignalsStartFresh", says: "A program starts with no signal ignored or blocked, and its init leaves no signal at its default action", test: signals, host: host{Held, "init's signal handling is not checked, because no program may signal it", hostSignals}},
		{name: "ProcIsReadOnly", says: "Kernel settings (sysctls) cannot be changed", test: procReadOnly},
		{name: "UnixSocketsAreUnreachable", says: "Unix sockets of the host cannot be reached", test: unixSockets, host: host{Stricter, "its own sockets for datagrams carry no descriptors", hostUnixSockets}},
		{name: "KeysAreUnseen", says: "The user's keys in kernel keyrings cannot be used", test: keys, host: host{Held, "key names can be read in /proc/keys", hostKeys}},
		{name: "ModesOutsideAreKept", says: "Modes, owners and times of read-only files cannot be changed", test: modes,
			host: host{Held, "no extended attributes, not even in the workspace", nil}},
		{name: "DevicesStay", says: "The modes of /dev/null and other host devices cannot be changed, even as root, and programs can write to them", test: devicesStay},
		{name: "OthersGetNoRightToWrite", says: "A program gives other users of the machine no right to write", test: othersWrite},
		{name: "SetIDBits", says: "A directory can get a set-group-ID bit; a file cannot get a set-ID bit", test: setID},
		{name: "CeilingChangesNothing", says: "An action under the ceiling `read` changes nothing in the workspace", test: ceilingChangesNothing},
		{name: "CeilingReadsAndKeepsScratch", says: "Such an action can read and write to private directories, and has no sockets", test: ceilingReadsAndKeepsScratch,
			host: host{Held, "mktemp uses the directory that TMPDIR names", nil}},
		{name: "CeilingStartsOnlyItsPrograms", says: "If a ceiling names programs, no other program can be executed", test: ceilingStartsOnlyItsPrograms},
		{name: "CeilingKeepsHomeEmpty", says: "If a ceiling demands it, nothing can be written to HOME under any name; everywhere else works as before", test: ceilingKeepsHomeEmpty},
		{name: "CeilingsThatNobodyHolds", says: "An action whose ceiling cannot be enforced does not run", test: ceilingsThatNobodyHolds},
		{name: "OtherProcessesAreInvisible", says: "Processes outside cannot be seen", test: invisible,
			host: host{NotHeld, "command lines and states of this user's processes can be read; each result says so in `enforced_by`", hostVisible}},
		{name: "ListedSocketIsReachable", says: "A listed Unix socket can be reached, and no other", test: listedSocket,
			host: host{Stricter, "unless it is a datagram socket", hostListedSocket}},
		{name: "OneWayOut", says: "With an allow-list of hosts, the egress proxy is the only way out", test: oneWayOut},
		{name: "NoWayIn", says: "A server inside cannot be reached from the host and does not occupy a host port", test: noWayIn,
			host: host{NotHeld, "it cannot be reached, but while it listens, or has a UDP socket, no host server can bind its port on all addresses (0.0.0.0); each result says so", hostNoWayIn}},
		{name: "ExposedPortIsReachable", says: "An exposed port can be reached from the host, and no other", test: exposedPort},
		{name: "CarriedWithoutAProxy", says: "With an allow-list of hosts, programs without proxy support can connect too", test: carried,
			host: host{Stricter, "they cannot connect", hostCarried}},
		{name: "NothingLeftInSockets", says: "Connections and data of one action are not attributed to the next", test: nothingLeft, host: host{Held, "", hostNothingLeft}},
	}
}

// Run holds c, a backend with namespaces of its own, against every claim.
func Run(t *testing.T, c confine.Confiner) {
	for _, x := range claims() {
		t.Run(x.name, func(t *testing.T) { x.test(t, c) })
	}
}

// RunOnHost holds c, a backend in the host's namespaces, against every claim: as
// held, in its stricter form, or as refused. None is left out.
func RunOnHost(t *testing.T, c confine.Confiner) {
	for _, x := range claims() {
		test := x.test
		if x.host.test != nil {
			test = x.host.test
		}
		t.Run(x.name, func(t *testing.T) { test(t, c) })
	}
}

// Table is every claim and how each backend stands to it, as Markdown.
func Table() string {
	var b strings.Builder
	b.WriteString("| claim | bwrap | landlock |\n|---|---|---|\n")
	for _, x := range claims() {
		landlock := string(cmp.Or(x.host.standing, Held))
		if x.host.note != "" {
			landlock += ": " + x.host.note
		}
		fmt.Fprintf(&b, "| %s (`%s`) | %s | %s |\n", x.says, x.name, Held, landlock)
	}
	return b.String()
}

// patience is how many times slower than usual this machine may be: one whose processor
// is emulated takes ten seconds to start an interpreter. SANDGATE_TEST_PATIENCE says it.
var patience = func() time.Duration {
	n, err := strconv.Atoi(os.Getenv("SANDGATE_TEST_PATIENCE"))
	if err != nil || n < 1 {
		return 1
	}
	return time.Duration(n)
}()

// Profile grants what programs of the host need, and workspace for writing.
func Profile(t testing.TB, workspace string) sandboxprofile.Profile {
	t.Helper()
	const rx = sandboxprofile.Read | sandboxprofile.Execute
	p := sandboxprofile.Profile{
		Paths: map[string]sandboxprofile.Rights{
			"/usr": rx, "/bin": rx, "/sbin": rx, "/lib": rx, "/lib64": rx, "/lib32": rx,
			"/etc/ld.so.cache": sandboxprofile.Read, "/etc/alternatives": rx, "/etc/passwd": sandboxprofile.Read,
		},
		Scratch: []string{"/tmp", "/home/tool"},
		Env:     sandboxprofile.Env{Names: []string{"PATH", "HOME", "LANG"}},
		Limits: sandboxprofile.Limits{
			Wall: patience * 60 * time.Second, CPU: patience * 20 * time.Second, Memory: 2 << 30, Pids: 256, FileSize: 1 << 30,
			OpenFiles: 256, Output: 1 << 20, Scratch: 64 << 20,
		},
		Protect: []string{".git/hooks"},
		Hide:    []string{".env"},
	}
	if workspace != "" {
		p.Paths[workspace] = rx | sandboxprofile.Write
	}
	return p
}

// Workspace is a fresh directory outside of /tmp, which inside is private.
func Workspace(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandgate-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Outcome is the result of one run.
type Outcome struct {
	confine.Result
	Out, Err string
}

// Shell runs a script with bash under p.
func Shell(t testing.TB, c confine.Confiner, p sandboxprofile.Profile, dir, script string) Outcome {
	t.Helper()
	return Exec(t, context.Background(), c, p, dir, nil, "/bin/bash", "-c", script)
}

// Exec runs one program under p.
func Exec(t testing.TB, ctx context.Context, c confine.Confiner, p sandboxprofile.Profile, dir string, stdin []byte, argv ...string) Outcome {
	t.Helper()
	box, err := c.Prepare(ctx, p)
	if err != nil {
		t.Fatalf("prepare: %v", err)
	}
	defer box.Close()
	return ExecIn(t, ctx, box, dir, stdin, argv...)
}

// ExecIn runs one program in a sandbox that stands.
func ExecIn(t testing.TB, ctx context.Context, box confine.Sandbox, dir string, stdin []byte, argv ...string) Outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	std := confine.Stdio{Stdout: &out, Stderr: &errOut}
	if stdin != nil {
		std.Stdin = bytes.NewReader(stdin)
	}
	r, err := box.Run(ctx, sandboxprofile.Action{Kind: sandboxprofile.Exec, Exec: &sandboxprofile.Program{
		Path: argv[0], Argv: argv, Dir: dir,
		Env: []string{"HOME=/home/tool", "PATH=/usr/bin:/bin", "SECRET_TOKEN=hunter2"},
	}}, std)
	if err != nil {
		t.Fatalf("run %q: %v", argv, err)
	}
	return Outcome{r, out.String(), errOut.String()}
}

// abstractName is this process's own: tests of two packages run at once.
func abstractName() string { return fmt.Sprintf("@sandgate-test-%d", os.Getpid()) }

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func wantOut(t *testing.T, o Outcome, want string) {
	t.Helper()
	if strings.TrimSpace(o.Out) != want {
		t.Errorf("stdout %q, want %q (stderr %q, %+v)", o.Out, want, o.Err, o.Result)
	}
}

// errno makes a python expression print the symbolic errno of an act, or "ok".
func errno(act string) string {
	return "import os,errno,socket\ntry:\n    " + strings.ReplaceAll(act, "\n", "\n    ") + "\n    print('ok')\nexcept OSError as e:\n    print(errno.errorcode[e.errno])\n"
}

// Python runs a statement and gives the errno it met, or "ok".
func Python(t *testing.T, c confine.Confiner, p sandboxprofile.Profile, dir, act string) string {
	t.Helper()
	o := Exec(t, context.Background(), c, p, dir, nil, "/usr/bin/python3", "-c", errno(act))
	if o.ExitCode != 0 {
		t.Fatalf("python: %+v\n%s", o.Result, o.Err)
	}
	return strings.TrimSpace(o.Out)
}
