package broker

import (
	"os/exec"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSettingsAreGits: what this reader accepts of a configuration, git reads the same.
func TestSettingsAreGits(t *testing.T) {
	words := []string{"[core]\n", "[remote \"a b\"]\n", "[a.b]\n", "[Core]\n", "bare = true\n", "Url = x\n", "url=a=b\n", "x\n", "\tname =  v w \n", "k = \n",
		"# c\n", ";\n", "[core] a = b\n", "a = b # c\n", "a = \"b\"\n", "a = b\\\n", "\n", "\r\n", "a = b\r\n", " ", "\t", "[", "]", "\"", "=", "a-b = 1\n", "1a = 2\n", "[user]", "\ufeff"}
	read, nowhere := 0, t.TempDir() // a repository that git finds and refuses would fail it
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 8).Draw(t, "text"), "")
		list, ok := settings(text)
		if !ok {
			return
		}
		var want strings.Builder
		for _, s := range list {
			want.WriteString(s.section + ".")
			if s.sub != "" {
				want.WriteString(s.sub + ".")
			}
			want.WriteString(s.name + "\n" + s.value + "\x00")
		}
		cmd := exec.Command("git", "config", "--file", "-", "--list", "-z")
		cmd.Dir, cmd.Stdin = nowhere, strings.NewReader(text)
		out, err := cmd.Output()
		if err != nil || string(out) != want.String() {
			t.Fatalf("%q: git reads %q (%v), we %q", text, out, err, want.String())
		}
		read++
	})
	if read == 0 {
		t.Error("nothing was accepted")
	}
}

// TestSharedRepositories: what `git init --shared` writes may stand in a new repository, and
// in none that says more; nothing lets everybody write.
func TestSharedRepositories(t *testing.T) {
	inside := func(string) bool { return true }
	const fresh = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
	for text, want := range map[string]bool{
		"[core]\n\tsharedrepository = 1\n": true, "[core]\n\tsharedRepository = GROUP\n": true, "[core]\n\tsharedrepository = 0660\n": true,
		"[core]\n\tsharedrepository = 0664\n": true, "[receive]\n\tdenyNonFastforwards = true\n": true, "[core]\n\tsharedrepository = all\n": true,
		"[core]\n\tsharedrepository = 0666\n": false, "[core]\n\tsharedrepository = 0662\n": false, "[core]\n\tsharedrepository = 0777\n": false,
		"[core]\n\tsharedrepository = x\n": false, "[core \"1\"]\n\tsharedrepository = 1\n": false, "[receive]\n\tdenyNonFastforwards = ../x\n": false,
		"[core]\n\tsharedrepository = 1\n\tfsmonitor = x\n": false,
	} {
		if got := mayBecome(fresh, fresh+text, "/w/sub/.git", inside); got != want {
			t.Errorf("%q in a new one: %v", text, got)
		}
		const used = fresh + "[remote \"origin\"]\n\turl = x\n"
		if mayBecome(used, used+text, "/w/sub/.git", inside) {
			t.Errorf("%q in one that is in use", text)
		}
	}
}

// TestWorktreesStayInside: a work tree lies where the tool may write, whatever becomes of
// the names on the way.
func TestWorktreesStayInside(t *testing.T) {
	inside := func(name string) bool { return name == "/w" || strings.HasPrefix(name, "/w/") }
	for value, want := range map[string]bool{
		"../../../sub": true, "/w/sub": true, "../../..": true, "../../../../w/sub": true,
		".": false, "../..": false, "/w/.git/hooks": false, "/w/sub/.GIT": false,
		"../../../..": false, "/home/x": false, "../../../sub/../../out": false, "../../../sub/up/../out": false, "/w/up/../out": false, "": false,
	} {
		text := "[core]\n\tworktree = " + value + "\n"
		if got := mayBecome("", text, "/w/.git/modules/sub", inside); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

// TestSettingsOfAPersonStay: a configuration that was there keeps what it says, however many
// steps a program takes; what programs may set as they like they set otherwise.
func TestSettingsOfAPersonStay(t *testing.T) {
	const was = "[core]\n\tbare = false\n\thooksPath = mine\n[include]\n\tpath = a\n[remote \"origin\"]\n\turl = good\n\tfetch = +x:y\n" +
		"[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\trebase = true\n[user]\n\tname = me\n[transfer]\n\tfsckObjects = true\n"
	inside := func(string) bool { return true }
	for _, x := range []struct {
		out, in string // what is taken away of it, and put in its place
		want    bool
	}{
		{"", "", true},
		{"[user]\n\tname = me\n", "", true},
		{"\tname = me\n", "\tname = you\n\temail = x\n", true},
		{"\tbare = false\n", "\tbare = false\n\tautocrlf = input\n", true},
		{"\trebase = true\n", "\trebase = false\n\tdescription = x\n", true},
		{"[user]", "[remote \"fork\"]\n\turl = host:other\n[branch \"new\"]\n\tremote = fork\n\tmerge = refs/heads/new\n[user]", true},
		{"[remote \"origin\"]\n\turl = good\n\tfetch = +x:y\n", "", false},
		{"\turl = good\n", "\turl = evil\n", false},
		{"\turl = good\n", "\turl = good\n\turl = good\n", false},
		{"\turl = good\n", "\turl = good\n\tpushurl = evil\n", false},
		{"\tmerge = refs/heads/main\n", "\tmerge = refs/heads/evil\n", false},
		{"\tremote = origin\n", "", false},
		{"\thooksPath = mine\n", "", false},
		{"[include]\n\tpath = a\n", "", false},
		{"\thooksPath = mine\n[include]\n\tpath = a\n", "[include]\n\tpath = a\n[core]\n\thooksPath = mine\n", false},
		{"\tfsckObjects = true\n", "", false},
		{"[user]\n\tname = me\n", "[core]\n\tsharedRepository = group\n", false},
		{"[user]", "[branch \"new\"]\n\tremote = nowhere\n[user]", false},
		{"[user]", "[remote \"fork\"]\n\turl = https://x/y\n[user]", true},
		{"[user]", "[remote \"fork\"]\n\turl = /tmp/y\n[user]", false},
		{"[user]", "[remote \"fork\"]\n\turl = ../y:z\n[user]", false},
		{"[user]", "[remote \"fork\"]\n\turl = file:///tmp/y\n[user]", false},
		{"[user]", "[remote \"fork\"]\n\tpushurl = y\n[user]", false},
	} {
		text := strings.Replace(was, x.out, x.in, 1)
		if got := mayBecome(was, text, "/w/.git", inside); got != x.want {
			t.Errorf("%q for %q: %v", x.in, x.out, got)
		}
	}
	const unread = "[alias]\n\tx = \"!f\"\n"
	if !mayBecome(unread, unread, "/w/.git", inside) || mayBecome(unread, "[core]\n\tbare = false\n", "/w/.git", inside) {
		t.Error("one that is not read was replaced by another one, or not by itself")
	}
}
