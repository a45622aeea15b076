package supervisor

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// texts gives the content of a result by its stream.
func texts(r protocol.CallResult) map[protocol.Stream]string {
	text := map[protocol.Stream]string{}
	for _, c := range r.Content {
		text[c.Stream] += string(c.Bytes())
	}
	return text
}

func TestFileToolsAnswerInWords(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	writeFile(t, f.ws+"/a.txt", "one\ntwo\nthree\n")
	writeFile(t, f.ws+"/odd\nname", "two\n")
	writeFile(t, f.ws+"/bin", "two\x00")
	writeFile(t, f.ws+"/utf16", "\xff\xfea\x00\n\x00b\x00\n\x00")
	writeFile(t, f.ws+"/.gitignore", "*.log\n")
	writeFile(t, f.ws+"/x.log", "two\n")
	f.answers(t, []fileCase{
		{tool: "list_files", args: `{}`, stdout: ".gitignore\na.txt\nbin\n\"odd\\nname\"\nutf16\nx.log\n"},
		{tool: "glob", args: `{"pattern": "*.txt"}`, stdout: "a.txt\n", stderr: "sandgate: 1 path left out because of .gitignore; ignored: true includes them\n"},
		{tool: "glob", args: `{"pattern": "*.c", "ignored": true}`, stderr: "sandgate: nothing found\n"},
		{tool: "grep", args: `{"pattern": "two", "context": 1, "ignored": true}`, stderr: "sandgate: 2 binary files not searched\n",
			stdout: "a.txt-1-one\na.txt:2:two\na.txt-3-three\n--\n\"odd\\nname\":1:two\n--\nx.log:1:two\n"},
		{tool: "grep", args: `{"pattern": "two", "files_only": true, "glob": "*.txt", "ignored": true}`, stdout: "a.txt\n"},
		{tool: "grep", args: `{"pattern": "e", "path": "a.txt", "limit": 1}`, stdout: "a.txt:1:one\n", stderr: "sandgate: there is more: narrow the search, or raise limit\n"},
		{tool: "edit_file", args: `{"path": "a.txt", "old_string": "t", "new_string": "T", "replace_all": true}`, stdout: "replaced 2 occurrences in WS/a.txt\n",
			structured: `"replaced":2`},
		{tool: "edit_file", args: `{"path": "a.txt", "old_string": "t", "new_string": "T"}`, code: 1, structured: `"edit":{"edit":1,"edits":1,"found":0,"want":1}`,
			stderr: "edit_file: WS/a.txt: old_string does not occur in the file; read the file again, and copy the text exactly, with indentation and line endings\n"},
		{tool: "multi_edit", args: `{"path": "a.txt", "edits": [{"old_string": "one", "new_string": "1"}, {"old_string": "T", "new_string": ""}]}`, code: 1,
			stderr: "multi_edit: WS/a.txt: edit 2 of 2: old_string occurs 2 times in the file; it must be unique; add lines around it until it occurs once, or set replace_all or expected_count\n"},
		{tool: "read_file", args: `{"path": "a.txt"}`, stdout: "one\nTwo\nThree\n", structured: `"sha256":"edceba1a1687ea809bbae0f2dbdc901483a2cda7e341a8613a82be0c78ded110"`},
		{tool: "read_file", args: `{"path": "utf16", "encoding": "utf-16", "offset": 2}`, stdout: "b\n", structured: `"truncated":false`},
		{tool: "list_files", args: `{"path": "a.txt"}`, code: 1, stderr: "list_files: WS/a.txt: is not a directory\n"},
		{tool: "edit_file", args: `{"path": "missing", "old_string": "t", "new_string": "T"}`, code: 1, stderr: "edit_file: WS/missing: no such file or directory; glob finds files by name\n"},
	})
}

// TestReadsSayHowToGoOn: a read that was cut names the line to go on with, and a cut
// within a character leaves a text a text. Errors say what to do.
func TestReadsSayHowToGoOn(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	writeFile(t, f.ws+"/lines", "l1\nl2\nl3\nl4 \u20ac\u20ac\nl5 \u20ac")
	writeFile(t, f.ws+"/image", "\x89PNG\r\n\x1a\n\x00\x00")
	longName := strings.Repeat("n", 256)
	f.answers(t, []fileCase{
		{tool: "read_file", args: `{"path": "lines", "max_bytes": 12}`, stdout: "l1\nl2\nl3\nl4 ", structured: `"next_offset":4`,
			stderr: "sandgate: cut after 12 bytes of a file of 25; go on with offset 4\n"},
		{tool: "read_file", args: `{"path": "lines", "max_bytes": 12, "offset": 4}`, stdout: "l4 \u20ac\u20ac\nl5", structured: `"truncated":true`,
			stderr: "sandgate: cut after 12 bytes of a file of 25; go on with offset 5\n"},
		{tool: "read_file", args: `{"path": "lines", "max_bytes": 5, "offset": 4}`, stdout: "l4 ", structured: `"truncated":true`,
			stderr: "sandgate: cut after 5 bytes of a file of 25, within line 4; raise max_bytes, or use the shell for a part of a line\n"},
		{tool: "read_file", args: `{"path": "lines", "offset": 5, "limit": 9}`, stdout: "l5 \u20ac", structured: `"truncated":false`},
		{tool: "read_file", args: `{"path": "lines", "offset": 6}`, structured: `"truncated":false`, stderr: "sandgate: the file has fewer than 6 lines\n"},
		{tool: "read_file", args: `{"path": "image", "max_bytes": 7}`, stdout: "\x89PNG\r\n\x1a", structured: `"truncated":true`,
			stderr: "sandgate: cut after 7 bytes of a file of 10; go on with offset 2\n"},
		{tool: "read_file", args: `{"path": "."}`, code: 1, stderr: "read_file: WS: is a directory; list_files shows what is in it\n"},
		{tool: "write_file", args: `{"path": "no/such/file", "content": ""}`, code: 1,
			stderr: "write_file: WS/no/such/file: a directory on the way does not exist; set make_parents to create it\n"},
		{tool: "write_file", args: `{"path": "` + longName + `", "content": ""}`, code: 1,
			stderr: "write_file: WS/" + longName + ": a name on the way is longer than the file system takes, mostly 255 bytes\n"},
	})
}

// A fileCase is a call of a file tool and what it answers. WS is the workspace.
type fileCase struct {
	tool, args     string
	stdout, stderr string
	code           int
	structured     string // is in it
}

func (f *fixture) answers(t *testing.T, cases []fileCase) {
	t.Helper()
	for _, x := range cases {
		r, e := f.call(context.Background(), x.tool, x.args)
		if e != nil {
			t.Errorf("%s %s: %v (%s)", x.tool, x.args, e, e.HintText)
			continue
		}
		text := texts(r)
		out, errOut := strings.ReplaceAll(x.stdout, "WS", f.ws), strings.ReplaceAll(x.stderr, "WS", f.ws)
		if text[""] != out || text[protocol.Stderr] != errOut || r.ExitCode != x.code {
			t.Errorf("%s %s: status %d\n%q\n%q\nwant %d\n%q\n%q", x.tool, x.args, r.ExitCode, text[""], text[protocol.Stderr], x.code, out, errOut)
		}
		if !json.Valid(r.Structured) || !strings.Contains(string(r.Structured), x.structured) {
			t.Errorf("%s %s: %s lacks %s", x.tool, x.args, r.Structured, x.structured)
		}
	}
}

// TestAnEditIsOfTheFileThatWasShown: the file changes between the question and
// the answer, and the answer no longer counts.
func TestAnEditIsOfTheFileThatWasShown(t *testing.T) {
	const act = `{"path": "a.txt", "old_string": "one", "new_string": "1"}`
	for changed, code := range map[bool]protocol.Code{true: protocol.CodeDenied, false: ""} {
		f := newFixture(t, setup{})
		writeFile(t, f.ws+"/a.txt", "one two\n")
		f.answer(t, func(p approval.Pending) {
			if changed {
				writeFile(t, f.ws+"/a.txt", "one TWO\n")
			}
			f.mustAnswer(t, p, approval.Answer{Allow: true, Approver: "test"})
		})
		r, e := f.call(context.Background(), "edit_file", act)
		want := "1 two\n"
		if changed {
			want = "one TWO\n"
		}
		got, err := os.ReadFile(f.ws + "/a.txt")
		if err != nil || string(got) != want {
			t.Errorf("changed %v: the file holds %q, %v", changed, got, err)
		}
		if (e == nil) != (code == "") || e != nil && (e.Code != code || !strings.Contains(e.Message, "changed between approval and start")) {
			t.Errorf("changed %v: %v, %+v", changed, e, r)
		}
	}
}

// TestTheLogHoldsNoEdits: what is written into a file does not go into the log,
// and its digest does.
func TestTheLogHoldsNoEdits(t *testing.T) {
	f := newFixture(t, setup{mode: approval.ApproveAll})
	writeFile(t, f.ws+"/a.txt", "marmalade\n")
	if r, e := f.call(context.Background(), "edit_file", `{"path": "a.txt", "old_string": "marmalade", "new_string": "honeycake"}`); e != nil || r.ExitCode != 0 {
		t.Fatalf("%+v, %v", r, e)
	}
	log, err := os.ReadFile(f.logPath)
	if err != nil {
		t.Fatal(err)
	}
	for text, in := range map[string]bool{"marmalade": false, "honeycake": false, `"sha256":`: true, `"edit_file"`: true} {
		if strings.Contains(string(log), text) != in {
			t.Errorf("%q is in the log: %v, want %v", text, !in, in)
		}
	}
}
