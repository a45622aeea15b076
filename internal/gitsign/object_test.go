package gitsign

import (
	"strings"
	"testing"
)

const (
	id  = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	who = "A U Thor <a@b.example> 1700000000 +0100"
)

// TestOnlyCommitsAndTagsAreRead: each row is one that git makes, and every other is refused.
func TestOnlyCommitsAndTagsAreRead(t *testing.T) {
	commit := "tree " + id + "\nparent " + id + "\nauthor " + who + "\ncommitter " + who + "\n"
	tag := "object " + id + "\ntype commit\ntag v1\ntagger " + who + "\n"
	for text, want := range map[string]string{
		commit + "\nA message\n": "commit", commit + "\n": "commit",
		"tree " + id + "\nauthor " + who + "\ncommitter " + who + "\n\nx":                                "commit",
		commit + "mergetag object " + id + "\n type commit\n tag v1\n tagger " + who + "\n \n text\n\nx": "commit",
		tag + "\na tag\n": "tag",
		"tree " + strings.Repeat(id[:32], 2) + "\nauthor " + who + "\ncommitter " + who + "\n\nx": "commit",

		"": "", "text": "", "a\n\nb": "",
		commit:                         "", // no empty line
		commit + "encoding UTF-7\n\nx": "",
		"tree " + id[1:] + "\nauthor " + who + "\ncommitter " + who + "\n\nx":     "",
		"tree " + id + "\ncommitter " + who + "\nauthor " + who + "\n\nx":         "",
		"tree " + id + "\nauthor " + who + "\n\nx":                                "",
		"tree " + id + "\nauthor A\ncommitter " + who + "\n\nx":                   "",
		commit + "gpgsig -----BEGIN\n\nx":                                         "",
		commit + "other header\n\nx":                                              "",
		" " + commit + "\nx":                                                      "",
		"object " + id + "\ntype thing\ntag v1\ntagger " + who + "\n\nx":          "",
		"object " + id + "\ntype commit\ntag v1\n\nx":                             "",
		tag + "more x\n\nx":                                                       "",
		commit + "\nx\x00":                                                        "",
		"SSHSIG\x00\x00\x00\x03git":                                               "",
		"\x00\x00\x00\x20" + strings.Repeat("s", 32) + "\x32\x00\x00\x00\x04root": "", // of SSH's authentication
		commit + "\n" + strings.Repeat("x", MaxObject):                            "",
	} {
		o, err := Parse([]byte(text))
		switch {
		case (err == nil) != (want != ""):
			t.Errorf("%.200q: %+v, %v; want %q", text, o, err, want)
		case err == nil && (o.Kind != want || !strings.Contains(o.By, "<a@b.example>")):
			t.Errorf("%.200q: %+v", text, o)
		}
	}
	o, err := Parse([]byte(commit + "\nA message\n\nwith more\n"))
	if want := (Object{Kind: "commit", Of: id, By: "A U Thor <a@b.example>", Text: commit + "\nA message\n\nwith more\n"}); err != nil || o != want {
		t.Errorf("%+v, %v; want %+v", o, err, want)
	}
}
