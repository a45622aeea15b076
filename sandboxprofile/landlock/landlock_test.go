package landlock

import (
	"strings"
	"testing"

	ll "github.com/landlock-lsm/go-landlock/landlock"
	"pgregory.net/rapid"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// TestVersionsAgreeWithGoLandlock holds our table against the one of the library
// that applies the rules.
func TestVersionsAgreeWithGoLandlock(t *testing.T) {
	configs := []ll.Config{ll.V1, ll.V2, ll.V3, ll.V4, ll.V5, ll.V6, ll.V7, ll.V8, ll.V9, ll.V10, ll.V11}
	if len(configs) != len(Versions()) {
		t.Fatalf("%d versions here, %d there", len(Versions()), len(configs))
	}
	for i, v := range Versions() {
		if v.ABI != i+1 {
			t.Errorf("entry %d is ABI %d", i, v.ABI)
		}
		if ll.AccessFSSet(v.Access) != configs[i].HandledAccessFS {
			t.Errorf("ABI %d: %v here, %v there", v.ABI, v.Access, configs[i].HandledAccessFS)
		}
		if ll.AccessNetSet(1<<v.Net-1) != configs[i].HandledAccessNet {
			t.Errorf("ABI %d: %d net rights here, %v there", v.ABI, v.Net, configs[i].HandledAccessNet)
		}
		if v.Scope != (configs[i].Scoped != 0) {
			t.Errorf("ABI %d: scope %v here, %v there", v.ABI, v.Scope, configs[i].Scoped)
		}
		if v.Access.String() != configs[i].HandledAccessFS.String() {
			t.Errorf("ABI %d: %v here, %v there", v.ABI, v.Access, configs[i].HandledAccessFS)
		}
	}
}

func TestHandled(t *testing.T) {
	for abi, want := range map[int]int{1: 1, 7: 7, 11: 11, 99: 11} {
		if v, err := Handled(abi); err != nil || v.ABI != want {
			t.Errorf("Handled(%d): got ABI %d, %v; want %d", abi, v.ABI, err, want)
		}
	}
	for _, abi := range []int{0, -1} {
		if _, err := Handled(abi); err == nil || !strings.Contains(err.Error(), "5.13") {
			t.Errorf("Handled(%d): got %v, want the kernel that is needed", abi, err)
		}
	}
}

func TestAccessText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := AccessFS(rapid.Uint64Range(0, 1<<len(accessNames)-1).Draw(t, "access"))
		b, err := a.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back AccessFS
		if err := back.UnmarshalText(b); err != nil || back != a {
			t.Fatalf("%v -> %s -> %v, %v", a, b, back, err)
		}
	})
	for _, bad := range []string{"", "read_file", "{read_file", "{read_files}", "{read_file,}"} {
		var a AccessFS
		if a.UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestRulesGrantNoMoreThanTheProfile checks, for a profile without nesting, that
// what the rules allow at a path is what its rights say. Nested entries are the
// mounts' to keep apart.
func TestRulesGrantNoMoreThanTheProfile(t *testing.T) {
	const never = MakeChar | MakeBlock
	rapid.Check(t, func(t *rapid.T) {
		p := sp.Profile{Limits: sp.NoLimits(), Paths: map[string]sp.Rights{}}
		f := sp.Facts{Kinds: map[string]sp.FileKind{}}
		for _, k := range []string{"/a", "/b", "/c"} {
			p.Paths[k] = sp.Rights(rapid.IntRange(0, 7).Draw(t, "rights"))
			f.Kinds[k] = sp.FileKind(rapid.IntRange(0, 4).Draw(t, "kind"))
		}
		rules, err := Compile(p, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rules {
			if r.Access&never != 0 {
				t.Fatalf("%v creates device nodes", r)
			}
			rights, ok := p.Paths[r.Path]
			if !ok {
				continue
			}
			if !r.Access.SubsetOf(access(rights)) {
				t.Fatalf("%v is more than %v", r, rights)
			}
			if k := f.Kinds[r.Path]; k == sp.Missing || k == sp.Symlink || (k != sp.Dir && !r.Access.SubsetOf(forFiles)) {
				t.Fatalf("%v is a rule for a path that is %v", r, k)
			}
		}
	})
}
