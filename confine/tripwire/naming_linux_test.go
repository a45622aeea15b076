package tripwire

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestProgramsThatConfigurationsName: what a configuration of a person's has git run is found in it, whichever
// variable says so; what it does not run is not.
func TestProgramsThatConfigurationsName(t *testing.T) {
	for _, x := range []struct {
		config string
		named  bool
	}{
		{"[core]\n\tsshCommand = scripts/x", true},
		{"[pager]\n\tlog = scripts/x", true},
		{"[pager] log = scripts/x", true},
		{"[interactive]\n\tdiffFilter = scripts/x --color", true},
		{"[gc]\n\trecentObjectsHook = scripts/x", true},
		{"[uploadpack]\n\tpackObjectsHook = scripts/x", true},
		{"[core]\n\talternateRefsCommand = scripts/x", true},
		{"[submodule \"s\"]\n\tupdate = !scripts/x", true},
		{"[sendemail]\n\tsmtpServer = scripts/x", true},
		{"[sendemail]\n\ttoCmd = scripts/x", true},
		{"[gpg \"ssh\"]\n\tdefaultKeyCommand = sh scripts/x", true},
		{"[difftool \"d\"]\n\tcmd = scripts/x $LOCAL", true},
		{"[core]\n\teditor = vi\n[pager]\n\tblame = scripts/x", true},
		{"[diff]\n\texternal = scripts/x", true},
		{"[diff]\n\texternal = sh scripts/x", true},
		{"[init]\n\ttemplateDir = scripts/x", true},
		{"[imap]\n\ttunnel = ssh host scripts/x", true},
		{"[later]\n\tversion = scripts/x --of git", true},
		{"[tool \"t\"]\n\trun = scripts/x", true},
		{"[tool \"t\"]\n\tplace = .git", false},
		{"[tool \"t\"]\n\tplace = ./.git", false},
		{"[safe]\n\tdirectory = scripts/x", false},
		{"[gitflow \"prefix\"]\n\tfeature = scripts/x", false},
		{"[branch \"b\"]\n\tvscode-merge-base = scripts/x", false},
		{"[maintenance]\n\trepo = .git/", false},
		{"[core]\n\texcludesFile = scripts/x", false},
		{"[remote \"origin\"]\n\turl = scripts/x", false},
		{"[format]\n\toutputDirectory = scripts/x", false},
		{"[alias]\n\tpager = !scripts/x", false},
		{"[submodule \"s\"]\n\tupdate = rebase", false},
	} {
		dir := t.TempDir()
		config := filepath.Join(dir, ".git", "config")
		if err := os.Mkdir(filepath.Dir(config), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, []byte(x.config+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := namedBy(config); slices.Contains(got, filepath.Join(dir, "scripts/x")) != x.named || !x.named && len(got) > 0 {
			t.Errorf("%q names %q", x.config, got)
		}
	}
}

// TestConfigurationsBesideTheRepositorys: what a configuration names that git reads because the
// environment says so is protected like what the user's usual one names.
func TestConfigurationsBesideTheRepositorys(t *testing.T) {
	for _, variable := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "HOME"} {
		dir, ws := t.TempDir(), t.TempDir()
		config := filepath.Join(dir, ".gitconfig")
		if err := os.WriteFile(config, []byte("[core]\n\thooksPath = .own-hooks\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		names := func() bool { return slices.Contains(newOuterNames(ws).names, ".own-hooks") }
		if names() {
			t.Fatal("it is named before")
		}
		t.Run(variable, func(t *testing.T) {
			if t.Setenv(variable, config); variable == "HOME" {
				t.Setenv(variable, dir)
			}
			if !names() {
				t.Errorf("%q", newOuterNames(ws).names)
			}
		})
	}
}
