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
	read := 0
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
		cmd.Stdin = strings.NewReader(text)
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

// TestWorktreesStayInside: a work tree lies where the tool may write, whatever becomes of
// the names on the way.
func TestWorktreesStayInside(t *testing.T) {
	inside := func(name string) bool { return name == "/w" || strings.HasPrefix(name, "/w/") }
	for value, want := range map[string]bool{
		"../../../sub": true, "/w/sub": true, "../../..": true,
		".": false, "../..": false, "/w/.git/hooks": false, "/w/sub/.GIT": false,
		"../../../..": false, "/home/x": false, "../../../sub/../../out": false, "../../../sub/up/../out": false, "/w/up/../out": false, "": false,
	} {
		text := "[core]\n\tworktree = " + value + "\n"
		if got := mayBecome("", text, "/w/.git/modules/sub", inside); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}
