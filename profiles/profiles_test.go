package profiles

import (
	"errors"
	"strings"
	"testing"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

func TestEveryShippedFileLoads(t *testing.T) {
	for _, want := range []string{"system", "git", "go", "node", "python", "rust", "java", "c", "ruby", "perl", "php", "dotnet"} {
		p, err := Preset(want)
		if err != nil {
			t.Errorf("preset %s: %v", want, err)
		}
		if p.Name != want || len(p.Grants) == 0 {
			t.Errorf("preset %s: got %+v", want, p)
		}
	}
	for _, want := range []string{"read-only", "workspace-write", "hardened", "build"} {
		if reason, err := Reason(want); err != nil || reason == "" {
			t.Errorf("profile %s: reason %q, %v", want, reason, err)
		}
	}
	if len(PresetNames()) < 7 || len(OperatorNames()) < 4 || len(Protect()) == 0 || len(Hide()) == 0 {
		t.Error("a folder is empty")
	}
}

func TestUnknownNamesListTheKnownOnes(t *testing.T) {
	_, presetErr := Preset("golang")
	_, profileErr := Operator("paranoid")
	for _, err := range []error{presetErr, profileErr} {
		var unknown *UnknownError
		if !errors.As(err, &unknown) {
			t.Fatalf("got %v, want an UnknownError", err)
		}
		if !strings.Contains(unknown.Hint(), unknown.Known[0]) {
			t.Errorf("hint %q does not name %s", unknown.Hint(), unknown.Known[0])
		}
	}
}

// TestNoPresetReachesSecrets holds the shipped grants against the shipped hide
// list: what a preset grants by name must not be a secret, and the other way round.
func TestNoPresetReachesSecrets(t *testing.T) {
	secrets := []string{"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_ed25519_key", "/etc/ssl/private/x.key",
		"/h/.ssh/id_rsa", "/h/.git-credentials", "/h/.config/git/credentials", "/h/.cargo/credentials.toml", "/h/.m2/settings.xml",
		"/h/.gradle/gradle.properties", "/h/.npmrc", "/h/.netrc", "/h/.gem/credentials", "/h/.local/share/gem/credentials", "/h/.composer/auth.json", "/h/.config/composer/auth.json",
		"/h/.nuget/NuGet/NuGet.Config", "/h/.conan2/remotes.json", "/h/.cpanel/x", "/h/.pause", "/h/.bash_history", "/root/x", "/home/x", "/etc/machine-id"}
	var needs sp.Needs
	needs.UserHome, needs.Hide = "/h", Hide()
	for _, name := range PresetNames() {
		p, err := Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range p.Grants {
			expanded := strings.Replace(g.Path, "~", "/h", 1)
			for _, pat := range needs.Hide {
				if sp.MatchPattern(pat, expanded) {
					t.Errorf("preset %s grants %s, which %s hides", name, g.Path, pat)
				}
			}
		}
		needs.Presets = append(needs.Presets, p)
	}
	d := sp.Derive(needs)
	for _, s := range secrets {
		if r := d.Rights(s); r != 0 {
			t.Errorf("presets give %v to %s", r, s)
		}
	}
	for _, ok := range []string{"/usr/bin/env", "/etc/ssl/certs/x.pem", "/h/.gitconfig", "/etc/passwd"} {
		if d.Rights(ok)&sp.Read == 0 {
			t.Errorf("%s cannot be read", ok)
		}
	}
}

func TestExamplesAreChecked(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"match":    {`[{pattern: a, reason: r, match: [/b], no_match: [/c]}]`, `does not match its example "/b"`},
		"no_match": {`[{pattern: a, reason: r, match: [/a], no_match: [/x/a]}]`, `matches "/x/a"`},
		"reason":   {`[{pattern: a, match: [/a], no_match: [/b]}]`, "needs a reason"},
		"twice":    {"- {pattern: a, reason: r, match: [/a], no_match: [/b]}\n- {pattern: a, reason: r, match: [/a], no_match: [/b]}", "listed twice"},
	} {
		if _, err := parsePatterns("x.yaml", []byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
