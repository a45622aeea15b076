package learn

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/fragment"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/needs"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
)

// TestOnlyFilesCanBeShown: what is not a file counts as a secret, and reading a FIFO waits for
// nobody; an ordinary file of text can be shown.
func TestOnlyFilesCanBeShown(t *testing.T) {
	dir := t.TempDir()
	fifo, plain := filepath.Join(dir, "fifo"), filepath.Join(dir, "plain")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, []byte("jobs = 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if secretAt(fifo, nobodys) == "" {
		t.Error("a FIFO counts as a file that may be shown")
	}
	if why := secretAt(plain, nobodys); why != "" {
		t.Errorf("a file of settings counts as a secret: %s", why)
	}
}

func nobodys(string) bool { return false }

// TestSecretsThatAreNoPlainText: what is proposed was looked through, all of it: a secret behind a NUL, in two bytes
// a character, far in a file, in a store of keys, or in a directory under any name.
func TestSecretsThatAreNoPlainText(t *testing.T) {
	const secret = "aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYzzzzzzzzzzzz\n"
	wide := "\xff\xfe"
	for _, c := range []byte(secret) {
		wide += string([]byte{c, 0})
	}
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	public := string(x509.MarshalPKCS1PublicKey(&key.PublicKey))
	for name, row := range map[string]struct {
		text string
		want bool
	}{
		"nul":           {"x\x00\n" + secret, true},
		"utf16":         {wide, true},
		"far":           {strings.Repeat("nothing of note\n", 100_000) + secret, true},
		"edge":          {strings.Repeat("nothing\n", searchWindow/8-2) + secret, true},
		"deploy.sh":     {"#!/bin/sh\n" + secret, true},
		"release.jks":   {"\xfe\xed\xfe\xed\x00\x00\x00\x02\x00\x00\x00\x01", true},
		"k.der":         {string(x509.MarshalPKCS1PrivateKey(key)), true},
		"creds.db":      {"SQLite format 3\x00\x10\x00tokenghp_\x00ghp_0123456789abcdefghijABCDEFGHIJ012345\x01", true},
		"config.json":   {`{"auths":{"r.example":{"auth":"dXNlcjpodW50ZXIy"}}}`, true},
		"too-large":     {"", true},
		"commented":     {"# the old one:\n#token=ghp_0123456789abcdefghijABCDEFGHIJ012345\n", true},
		"bom":           {"\ufeffpassword=hunter2hunter2\n", true},
		"wg.conf":       {"[Interface]\nPrivateKey = " + strings.Repeat("a", 43) + "=\n", true},
		"age.txt":       {"AGE-SECRET-KEY-1" + strings.Repeat("Q", 58) + "\n", true},
		"kube.yml":      {"client-key-data: " + base64.StdEncoding.EncodeToString([]byte("-----BEGIN RSA PRIVATE KEY-----\nMII")) + "\n", true},
		"kube-ec.yml":   {"client-key-data: " + base64.StdEncoding.EncodeToString([]byte("-----BEGIN EC PRIVATE KEY-----\nMII")) + "\n", true},
		"gpg.key":       {"Created: 20240101T000000\nKey: (private-key (rsa (n #00#)))\n", true},
		"gpg-old.key":   {"(21:protected-private-key(3:rsa(1:n3:abc)))", true},
		"putty":         {"PuTTY-User-Key-File-3: ssh-ed25519\n", true},
		"jwk":           {`{"kty": "EC", "d": "` + strings.Repeat("x", 43) + `"}`, true},
		"ca.yml":        {"certificate-authority-data: " + base64.StdEncoding.EncodeToString([]byte("-----BEGIN CERTIFICATE-----\nMIIC")) + "\n", false},
		"wg-public":     {"[Peer]\nPublicKey = " + strings.Repeat("a", 43) + "=\n", false},
		"comment":       {"# no token is needed here: password = example\n", false},
		"bom-plain":     {"\ufeffjobs=4\n", false},
		"public.der":    {"0\x82\x01\x0a0\x82\x01\x00" + public, false},
		"binary":        {"\x7fELF\x02\x01\x01\x00" + strings.Repeat("\x00nothing\x01", 1000), false},
		"settings.json": {`{"auth": "basic", "jobs": 4}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, at := range []string{"f", "store/lib/a/b/c/" + name} {
				file := filepath.Join(dir, at)
				if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(row.text), 0o700); err != nil {
					t.Fatal(err)
				}
				if name == "too-large" {
					if err := os.Truncate(file, maxSearched+1); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, path := range []string{dir + "/f", dir + "/store"} {
				if why := secretAt(path, nobodys); (why != "") != row.want {
					t.Errorf("%s, %s: %q", name, filepath.Base(path), why)
				}
			}
			hidden := func(path string) bool { return filepath.Base(path) == "lib" }
			if why := secretAt(dir+"/store", hidden); why != "" {
				t.Errorf("%s, hidden: %s", name, why)
			}
		})
	}
}

// TestADirectoryIsNotProposedForItsFiles: a directory takes the place of files of it that were
// refused, and its name is what a person is asked about; not one that has a secret beside them.
func TestADirectoryIsNotProposedForItsFiles(t *testing.T) {
	for _, key := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(key, t.TempDir())
	}
	cfg, err := settings.Load("", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]int{"": 1, `{"token": "ghp_0123456789abcdefghijABCDEFGHIJ012345"}`: 0} {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		var f fragment.Fragment
		for name, text := range map[string]string{"a.dat": "a", "b.dat": "b", "c.dat": "c", "auth.json": secret} {
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if name != "auth.json" {
				f.Add(needs.Need{Path: file}, "refused before")
			}
		}
		l := &learner{cfg: cfg}
		f, dirs := l.collapsed(f)
		if len(dirs) != want || (len(f.Paths) == 1) != (want == 1) {
			t.Errorf("beside %q: %q is proposed, of %+v", secret, dirs, f.Paths)
		}
	}
}

// TestWhereNothingIsProposedToBeWritten: a program chooses what it says that it was refused. It cannot make learn propose
// to write where programs outside of the sandbox run, or look for their settings, nor to see anybody's whole home.
func TestWhereNothingIsProposedToBeWritten(t *testing.T) {
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	for _, key := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		t.Setenv(key, t.TempDir())
	}
	for _, dir := range []string{"bin", "tool/bin", ".vim/plugin", ".local/bin", ".config/autostart", ".cache/x", "project/.cargo"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", "/usr/bin:"+home+"/bin:"+home+"/tool/bin")
	cfg, err := settings.Load("", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		home + "/bin": false, home + "/tool": false, home + "/.vim/plugin": false, home + "/.local/bin": false, home + "/.config/autostart": false,
		"/var/spool": false, "/var/lib/dpkg": false, home + "/.cache/x": true, home + "/project": true, home + "/project/.cargo": true,
	} {
		n := needs.Need{Path: path, Write: true}
		if why := notProposed(&n, assemble.Derived{}, cfg); (why == "") != want {
			t.Errorf("write %s: %q", path, why)
		}
	}
	for path, want := range map[string]bool{"/home/somebody": false, "/Users/somebody": false, "/root": false, "/home/somebody/project": true} {
		if why := neverShown(path); (why == "") != want {
			t.Errorf("read %s: %q", path, why)
		}
	}
}
