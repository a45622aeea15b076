package broker

import (
	"testing"

	"github.com/sandgate/sandgate/sandboxprofile"
)

// TestSpellingsOfFoldingFileSystems: a name that a file system which folds takes for a
// protected or hidden one is judged as that, and one that only has such letters is not.
func TestSpellingsOfFoldingFileSystems(t *testing.T) {
	r := NewRules(sandboxprofile.Profile{
		Paths:   map[string]sandboxprofile.Rights{"/w": sandboxprofile.Read | sandboxprofile.Write},
		Protect: []string{".bashrc", ".git/hooks", ".git/config", ".vscode"}, Hide: []string{".ssh", ".env"},
	}, nil)
	for name, want := range map[string]Standing{
		"/w/.bashrc": Protected, "/w/.BASHRC": Protected, "/w/.baſhrc": Protected, "/w/.git/hookſ/pre-commit": Protected,
		"/w/.git\u200c/hooks/pre-commit": Protected, "/w/.gIt/con\u00adﬁg": Protected, "/w/.vscode\ufe0f/tasks.json": Protected,
		"/w/.ſſh/key": Hidden, "/w/.ßh/key": Hidden, "/w/.env\u2060": Hidden, "/w/.\u212a": Writable,
		"/w/straße": Writable, "/w/ﬁsh": Writable, "/w/.bash\u0301rc": Writable, "/w/日本": Writable, "/w/a\xffb": Writable,
	} {
		if got := r.Of(name); got != want {
			t.Errorf("%+q stands %v, want %v", name, got, want)
		}
	}
	if !BelowGit("/w/.g\u200dit/x") || BelowGit("/w/git/x") {
		t.Error("a directory of git's is told by one spelling")
	}
}
