package sbpl_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	sp "github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/sandboxprofile/sbpl"
)

// A pick chooses a number below n. The properties run with rapid's, which
// shrinks, and the broken compilers with a generator of fixed seed.
type pick func(what string, n int) int

func rapidPick(t *rapid.T) pick {
	return func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(t, what) }
}

func oneOf[T any](p pick, what string, from []T) T { return from[p(what, len(from))] }

func pickPath(p pick, top []string) string {
	name := oneOf(p, "top", top)
	for range p("depth", 4) {
		name += "/" + oneOf(p, "component", []string{"a", "b", ".git", "hooks", ".env", "sk"})
	}
	return name
}

var (
	tops     = []string{"/w", "/w", "/v", "/etc", "/tmp", "/usr"}
	patterns = []string{".git/hooks", ".env", "*", "a/b", ".*", "a?", "s[a-k]", "*/hooks", ".git/*/a", "??", "h*s"}
)

func pickProfile(p pick, tops []string) sp.Profile {
	profile := sp.Profile{Paths: map[string]sp.Rights{}, Limits: sp.NoLimits()}
	for range p("keys", 6) {
		profile.Paths[pickPath(p, tops)] = sp.Rights(p("rights", 8))
	}
	if p("root", 4) == 0 {
		profile.Paths["/"] = sp.Rights(p("rights", 8))
	}
	for range p("scratch", 3) {
		profile.Scratch = append(profile.Scratch, pickPath(p, tops))
	}
	for range p("protect", 3) {
		profile.Protect = append(profile.Protect, oneOf(p, "pattern", patterns))
	}
	for range p("hide", 3) {
		profile.Hide = append(profile.Hide, oneOf(p, "pattern", patterns))
	}
	return profile
}

// expected is what a path may be used for: the profile's rights, and in a system
// tree that can be written without what the patterns cover.
func expected(p sp.Profile, name string) sp.Rights {
	r := p.Rights(name)
	for _, tree := range sp.SystemTrees() {
		if !sp.Contains(tree, name) || !writableIn(p, tree) {
			continue
		}
		if slices.ContainsFunc(p.Hide, func(pat string) bool { return sp.MatchPattern(pat, name) }) {
			return 0
		}
		if slices.ContainsFunc(p.Protect, func(pat string) bool { return sp.MatchPattern(pat, name) }) {
			r &^= sp.Write
		}
	}
	return r
}

func writableIn(p sp.Profile, tree string) bool {
	bare := sp.Profile{Paths: p.Paths, Scratch: p.Scratch}
	if bare.Rights(tree)&sp.Write != 0 {
		return true
	}
	for k := range p.Paths {
		if sp.Contains(tree, k) && bare.Rights(k)&sp.Write != 0 {
			return true
		}
	}
	return false
}

// disagreement compares each operation of each right with the profile.
func disagreement(p sp.Profile, pol *sbpl.Policy, name string) error {
	want, kernel := expected(p, name), sbpl.Resolve(name)
	if got := pol.Rights(kernel); got != want {
		return fmt.Errorf("%s: the profile says %v, the text %v", name, want, got)
	}
	for op, right := range map[string]sp.Rights{
		"file-read-xattr": sp.Read, "file-test-existence": sp.Read,
		"file-write-mode": sp.Write, "file-write-owner": sp.Write, "file-write-flags": sp.Write, "file-write-xattr": sp.Write, "file-write-times": sp.Write,
		"file-map-executable": sp.Execute, "process-exec-interpreter": sp.Execute,
	} {
		allowed := pol.Decide(sbpl.Request{Op: op, Path: kernel}).Allowed
		if onTheWay := op == "file-test-existence" && allowed; !onTheWay && allowed != (want&right != 0) {
			return fmt.Errorf("%s: the profile says %v, and %s is allowed: %v", name, want, op, allowed)
		}
	}
	for _, op := range []string{"file-write-create", "file-write-unlink", "file-link", "file-clone", "file-write-setugid"} {
		if want&sp.Write == 0 && pol.Decide(sbpl.Request{Op: op, Path: kernel}).Allowed {
			return fmt.Errorf("%s: the profile says %v, and %s is allowed", name, want, op)
		}
	}
	return nil
}

// TestTextAgreesWithRights: for random profiles and paths, what the text of what
// two profiles allow allows, is what both say.
func TestTextAgreesWithRights(t *testing.T) {
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		if !textAgrees(t) {
			refused++
		}
	})
	t.Logf("%d profiles were refused", refused)
}

// FuzzTextAgreesWithRights lets coverage choose the trees.
func FuzzTextAgreesWithRights(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		seed := make([]byte, 800)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { textAgrees(t) }))
}

// textAgrees is false if the profile is refused.
func textAgrees(t *rapid.T) bool {
	pick := rapidPick(t)
	a, b := pickProfile(pick, tops), sp.Top()
	if pick("meet", 2) == 0 {
		b = pickProfile(pick, tops)
	}
	p := sp.Intersect(a, b)
	text, err := sbpl.Compile(p, sp.Facts{}, vars(p))
	if err != nil {
		return false
	}
	pol, err := sbpl.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		name := pickPath(pick, tops)
		if p.Rights(name) != a.Rights(name)&b.Rights(name) {
			t.Fatalf("%s: both allow %v, the meet %v", name, a.Rights(name)&b.Rights(name), p.Rights(name))
		}
		if err := disagreement(p, pol, name); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	return true
}

// TestNoSpellingGetsMore: another case, or a character that folds to a letter,
// never gives more than the spelling of the profile.
func TestNoSpellingGetsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := rapidPick(t)
		p := pickProfile(pick, []string{"/w"})
		p.Scratch = nil
		p.Hide = append(p.Hide, oneOf(pick, "negated", []string{"[^a]", "b[^g-z]", ".env"}))
		p.Paths["/w"] = rwx
		for _, k := range sorted(p) { // only what takes away: what is granted has one spelling
			p.Paths[k] &= p.Paths["/w"]&sp.Profile{Paths: p.Paths}.Rights(path.Dir(k)) | map[bool]sp.Rights{true: rwx}[k == "/w"]
		}
		delete(p.Paths, "/")
		text, err := sbpl.Compile(p, sp.Facts{}, vars(p))
		if err != nil {
			return
		}
		pol, err := sbpl.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			name := pickPath(pick, []string{"/w"})
			other := "/w" + respell(pick, strings.TrimPrefix(name, "/w"))
			if got, limit := pol.Rights(other), p.Rights(name); !got.SubsetOf(limit) {
				t.Fatalf("%s has %v, and as %s it has %v\n%s", name, limit, other, got, text)
			}
		}
	})
}

func sorted(p sp.Profile) []string {
	return slices.DeleteFunc(p.Keys(), func(k string) bool { return k == "/" })
}

// respell changes some letters to others that fold to the same.
func respell(p pick, name string) string {
	var b strings.Builder
	for _, r := range name {
		s := string(r)
		forms := []string{s, strings.ToUpper(s)}
		switch r {
		case 's':
			forms = append(forms, "\u017f")
		case 'k':
			forms = append(forms, "\u212a")
		}
		b.WriteString(oneOf(p, "form", forms))
	}
	return b.String()
}

// A disk is a model of a file system under attack. Names are the kernel's.
type disk map[string]*inode

// An inode knows where it lay at first, what could be read there, and whether
// the attacker has written it.
type inode struct {
	dir    bool
	origin string // "" for what the attacker made
	evil   bool
}

// newDisk has a file or directory at every path of a small world.
func newDisk(p sp.Profile, private []string) disk {
	d := disk{"/": {dir: true, origin: "/"}}
	var grow func(dir string, depth int)
	grow = func(dir string, depth int) {
		d[dir] = &inode{dir: true, origin: dir}
		d[dir+"/.env"] = &inode{origin: dir + "/.env"}
		d[dir+"/f"] = &inode{origin: dir + "/f"}
		if depth < 2 {
			grow(dir+"/a", depth+1)
			grow(dir+"/.git", depth+1)
			grow(dir+"/hooks", depth+1)
		}
	}
	grow("/w", 0)
	grow("/v", 1)
	for _, dir := range private {
		for ; dir != "/"; dir = path.Dir(dir) {
			d[dir] = &inode{dir: true}
		}
	}
	for k := range p.Paths {
		for dir := path.Dir(k); dir != "/" && d[dir] == nil; dir = path.Dir(dir) {
			d[dir] = &inode{dir: true, origin: dir}
		}
	}
	return d
}

// attack does one random step as far as the policy lets it.
func (d disk) attack(p pick, pol *sbpl.Policy, names []string) {
	may := func(op, name string) bool { return pol.Decide(sbpl.Request{Op: op, Path: name}).Allowed }
	from, to := oneOf(p, "from", names), oneOf(p, "to", names)
	if p("deeper", 3) > 0 {
		to = path.Dir(to) + "/" + oneOf(p, "name", []string{".git", "a", "x", "hooks", ".env", "f"})
	}
	parent := d[path.Dir(to)]
	fits := parent != nil && parent.dir && to != "/"
	switch step := p("step", 7); step {
	case 0: // write
		if n := d[from]; n != nil && !n.dir && may("file-write-data", from) {
			n.evil = true
		}
	case 1, 2: // make a file or directory
		if d[to] == nil && fits && may("file-write-create", to) {
			d[to] = &inode{dir: step == 1, evil: true}
		}
	case 3: // remove
		if n := d[from]; n != nil && from != "/" && may("file-write-unlink", from) && len(d.below(from)) == 1 {
			delete(d, from)
		}
	case 4, 5: // rename
		if d[from] == nil || !fits || sp.Contains(from, to) || !may("file-write-unlink", from) || !may("file-write-create", to) {
			return
		}
		if d[to] != nil && (d[to].dir || d[from].dir || !may("file-write-unlink", to)) {
			return
		}
		d.move(from, to)
	case 6: // link or clone
		if n := d[from]; n != nil && !n.dir && d[to] == nil && fits && may("file-write-create", to) && (may("file-link", from) || may("file-clone", from)) {
			d[to] = n
		}
	}
}

func (d disk) below(dir string) []string {
	var names []string
	for name := range d {
		if sp.Contains(dir, name) {
			names = append(names, name)
		}
	}
	return names
}

func (d disk) move(from, to string) {
	for _, name := range d.below(from) {
		n := d[name]
		delete(d, name)
		d[to+strings.TrimPrefix(name, from)] = n
	}
}

// harm says what the attack has reached that the profile keeps from it.
func (d disk) harm(p sp.Profile, pol *sbpl.Policy, private []string, before disk) error {
	own := func(name string) bool {
		return slices.ContainsFunc(private, func(dir string) bool { return sp.Contains(dir, name) })
	}
	for name, n := range d {
		if n.origin != "" && !n.dir && p.Rights(n.origin)&sp.Read == 0 && pol.Rights(name)&sp.Read != 0 {
			return fmt.Errorf("%s can be read as %s", n.origin, name)
		}
		if n.evil && !own(name) && p.Rights(name)&sp.Write == 0 {
			return fmt.Errorf("%s was planted", name)
		}
	}
	now := make(map[string]string) // by origin, where it lies
	for name, n := range d {
		now[n.origin] = name
	}
	trees := sp.Profile{Paths: p.Paths, Scratch: p.Scratch}
	for name := range before {
		switch at, there := now[name]; {
		case before[name].origin == "" || p.Rights(name)&sp.Write != 0:
		case !there || d[at].evil:
			return fmt.Errorf("%s was changed or removed", name)
		case at != name && trees.Rights(name)&sp.Write == 0:
			return fmt.Errorf("%s was moved to %s", name, at)
		case pol.Rights(at)&sp.Write != 0: // what a pattern covers may move along with what holds it
			return fmt.Errorf("%s can be written as %s", name, at)
		}
	}
	return nil
}

// mustParse panics: a text that does not parse proves nothing about a property.
func mustParse(text string) *sbpl.Policy {
	pol, err := sbpl.Parse(text)
	if err != nil {
		panic(err)
	}
	return pol
}

// siege attacks a random disk under a random profile.
func siege(p pick, mangle func(string) string) error {
	profile := pickProfile(p, []string{"/w", "/w", "/v"})
	profile.Paths["/w"] = rwx
	profile.Hide = append(profile.Hide, ".env")
	profile.Protect = append(profile.Protect, ".git/hooks")
	v := vars(profile)
	text, err := sbpl.Compile(profile, sp.Facts{}, v)
	if err != nil {
		return nil
	}
	pol := mustParse(mangle(text))
	var private []string
	for _, dir := range v.Scratch {
		private = append(private, dir)
	}
	slices.Sort(private)
	before, d := newDisk(profile, private), newDisk(profile, private)
	for range 60 {
		names := make([]string, 0, len(d))
		for name := range d {
			names = append(names, name)
		}
		slices.Sort(names)
		d.attack(p, pol, names)
	}
	if err := d.harm(profile, pol, private, before); err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}

// TestRenamesOpenNothing: whatever is moved, made, linked and removed, nothing
// that the profile keeps becomes readable or is replaced.
func TestRenamesOpenNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if err := siege(rapidPick(t), func(s string) string { return s }); err != nil {
			t.Fatal(err)
		}
	})
}

// TestABrokenCompilerIsCaught breaks the text in ways that a compiler could, and
// expects the properties above to notice each.
func TestABrokenCompilerIsCaught(t *testing.T) {
	drop := func(expression string) func(string) string {
		re := regexp.MustCompile(`(?m)` + expression)
		return func(s string) string { return re.ReplaceAllString(s, "") }
	}
	agrees := func(p pick, mangle func(string) string) error {
		profile := pickProfile(p, tops)
		text, err := sbpl.Compile(profile, sp.Facts{}, vars(profile))
		if err != nil {
			return nil
		}
		pol := mustParse(mangle(text))
		for i := 0; err == nil && i < 20; i++ {
			err = disagreement(profile, pol, pickPath(p, tops))
		}
		return err
	}
	for name, c := range map[string]struct {
		mangle   func(string) string
		property func(pick, func(string) string) error
	}{
		"rules in another order":      {reverseRules, agrees},
		"everything by default":       {drop(`^\(deny default.*\n`), agrees},
		"no patterns":                 {func(s string) string { return strings.ReplaceAll(s, `      (regex #"/`, `      (regex #"^never/`) }, agrees},
		"patterns of the last name":   {func(s string) string { return strings.ReplaceAll(s, `(/.*)?$`, `$`) }, agrees},
		"nothing taken away in trees": {drop(`^\(deny [^\n]*\n  \(subpath [^\n]*\n  \(regex [^\n]*\n  \(with[^\n]*\n`), agrees},
		"no denial of links":          {func(s string) string { return strings.ReplaceAll(s, "(deny file-link", "(allow file-link") }, agrees},
		"patterns not in scratch": {func(s string) string {
			return s + strings.Join(regexp.MustCompile(`(?m)^\(allow [^\n]*\(subpath "/private/scratch[^\n]*\n`).FindAllString(s, -1), "")
		}, siege},
		"no pins of paths": {drop(`^\(deny file-write-unlink file-write-create\n(  .*\n)*`), siege},
		"no pins of names": {drop(`^\(deny file-write-unlink file-write-create \(.*\n`), siege},
		"pins that let things appear": {func(s string) string {
			return strings.ReplaceAll(s, "(deny file-write-unlink file-write-create", "(deny file-write-unlink")
		}, siege},
		"pins that let things go": {func(s string) string {
			return strings.ReplaceAll(s, "(deny file-write-unlink file-write-create", "(deny file-write-create")
		}, siege},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			p := func(_ string, n int) int { return r.IntN(n) }
			for i := range 5_000 {
				whole := c.property(p, func(s string) string { return s })
				if whole != nil {
					t.Fatalf("the whole text fails: %v", whole)
				}
				if err := c.property(p, keepModifier(c.mangle)); err != nil {
					t.Logf("after %d profiles: %s", i, strings.SplitN(err.Error(), "\n", 2)[0])
					return
				}
			}
			t.Error("nothing noticed")
		})
	}
}

// keepModifier takes the message off what was turned into an allow.
func keepModifier(mangle func(string) string) func(string) string {
	return func(s string) string {
		s = mangle(s)
		return strings.ReplaceAll(s, `(allow file-link file-clone (with message "test"))`, "(allow file-link file-clone)")
	}
}

// reverseRules keeps the first line and turns the order of the rest around.
func reverseRules(text string) string {
	var rules []string
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, ";") || strings.TrimSpace(line) == "" || strings.HasPrefix(line, "(version"):
		case strings.HasPrefix(line, " "):
			rules[len(rules)-1] += line
		default:
			rules = append(rules, line)
		}
	}
	slices.Reverse(rules[1:]) // (deny default) stays in front
	return "(version 1)\n" + strings.Join(rules, "")
}
