package linux_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/profiles"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// makings are the ways in which a program gets a name, each with the path in n.
const makings = `
ways = {
    'open': lambda n: os.close(os.open(n, os.O_CREAT | os.O_EXCL | os.O_WRONLY)),
    'open in capitals': lambda n: os.close(os.open(os.path.join(os.path.dirname(n), os.path.basename(n).upper()), os.O_CREAT | os.O_EXCL | os.O_WRONLY)),
    'mkdir': os.mkdir,
    'bind': lambda n: socket.socket(socket.AF_UNIX).bind(n),
    'symlink': lambda n: os.symlink('plain', n),
    'link of a descriptor': lambda n: named(n),
    'rename': lambda n: os.rename(file(), n),
    'rename of the directory above': lambda n: above(n),
}
made = [0]
def fresh(): made[0] += 1; return 'made%d' % made[0]
def file(): n = fresh(); open(n, 'w').close(); return n
def named(n):
    fd = os.open('.', os.O_TMPFILE | os.O_RDWR)
    try: sys_(265, -100, b'/proc/self/fd/%d' % fd, -100, n.encode(), 0x400) # linkat, AT_SYMLINK_FOLLOW
    finally: os.close(fd)
def above(n):
    top, rest = n.split('/', 1)
    d, part = fresh(), rest.split('/')[0]
    os.makedirs(os.path.join(d, os.path.dirname(rest))); open(os.path.join(d, rest), 'w').close()
    os.rename(d + '/' + part, top + '/' + part)
def tries(way, top, rest):
    n = top + '/' + rest
    try:
        os.mkdir(top)
        if way != 'rename of the directory above': os.makedirs(os.path.dirname(n), exist_ok=True)
        ways[way](n)
        return 'ok'
    except OSError as e: return errno.errorcode[e.errno]
`

// TestNoShippedNameComesIntoBeing: whichever way a program goes, it gets no name that the
// shipped list protects, and whatever is done to a file that the other list hides, it is not
// read. Beside each, a name that the list says is none goes. What git's own directory may
// have is decided by its content: TestNothingIsPlanted.
func TestNoShippedNameComesIntoBeing(t *testing.T) {
	t.Parallel()
	l, ws, p := brokered(t)
	p.Protect, p.Hide = profiles.Protect(), profiles.Hide()
	matched := func(patterns []string, name string) bool {
		name = "/d/" + strings.ToLower(name)
		return slices.ContainsFunc(patterns, func(x string) bool { return sandboxprofile.MatchPattern(strings.ToLower(x), name) })
	}
	relative := func(example string) string { return example[strings.IndexByte(example[1:], '/')+2:] }
	gits := func(name string) bool { return strings.Contains("/"+name, "/.git/") }

	var hidden, shown []string
	for i, x := range profiles.HidePatterns() {
		for j, list := range [][]string{x.Match[:1], x.NoMatch} {
			for k, example := range list {
				name := fmt.Sprintf("h%d.%d.%d/%s", i, j, k, relative(example))
				if gits(name) || j == 1 && matched(slices.Concat(p.Protect, p.Hide), relative(example)) {
					continue
				}
				mkdir(t, filepath.Dir(filepath.Join(ws, name)))
				put(t, filepath.Join(ws, name), "TOPSECRET")
				if j == 0 {
					hidden = append(hidden, name)
				} else {
					shown = append(shown, name)
				}
			}
		}
	}
	own(t, ws)
	k := converse(t, l, p, ws)
	k.gets("exec("+strconv.Quote(makings)+", g); open('plain', 'w').close()", "ok")
	ways := strings.Split(k.does("r = '|'.join(ways)"), "|")
	probes := 0
	makes := func(id int, name, want string, ways ...string) {
		t.Helper()
		for i, way := range ways {
			if got := k.does(fmt.Sprintf("r = tries(%q, 'd%d.%d', %q)", way, id, i, name)); got != want {
				t.Errorf("%s by %s: %s, want %s", name, way, got, want)
			}
			probes++
		}
	}
	patterns := profiles.ProtectPatterns()
	for i, x := range patterns {
		if name := relative(x.Match[0]); gits(name) {
			continue
		} else if matched(p.Hide, name) {
			makes(i, name, "EACCES", ways...)
		} else {
			makes(i, name, "EROFS", ways...)
		}
		for j, example := range x.NoMatch {
			if name := relative(example); !gits(name) && !matched(slices.Concat(p.Protect, p.Hide), name) {
				makes(len(patterns)*(j+1)+i, name, "ok", "open")
			}
		}
	}
	makes(-1, "sub/plain.txt", "ok", ways...)
	for act, want := range map[string]string{
		"r = open(%q).read()": "EACCES", "r = open(%q, 'r+').read()": "EACCES", "os.rename(%q, 'out')": "EACCES",
		"os.link(%q, 'out')": "EACCES", "os.symlink(%q, 'out')": "EACCES", "os.truncate(%q, 0)": "EACCES", "os.unlink(%q)": "EACCES", "os.chmod(%q, 0o777)": "EPERM",
	} {
		for _, name := range hidden {
			k.gets(fmt.Sprintf(act, name), want)
			probes++
		}
	}
	for _, name := range shown {
		k.gets(fmt.Sprintf("r = open(%q).read(); open(%q, 'a').close(); os.rename(%q, %q)", name, name, name, name+"2"), "TOPSECRET")
		probes++
	}
	t.Logf("%d probes", probes)
}
