package hooks

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// A spill is where a runtime itself puts output that is too long for its model, or that
// comes in the background, and which it tells the model to read. It is a directory of one
// project, below which a file counts if its directory has the given name.
type spill struct{ below, dir string }

// claudeSpills are those of Claude Code: beside the conversation's transcript, and in a
// directory of the user's below /tmp.
func claudeSpills(e event) []spill {
	if e.Transcript == "" {
		return nil
	}
	project := filepath.Dir(e.Transcript)
	tmp := os.Getenv("CLAUDE_CODE_TMPDIR")
	if tmp == "" {
		tmp = "/tmp"
	}
	of := filepath.Join(tmp, "claude-"+strconv.Itoa(os.Getuid()), filepath.Base(project))
	return []spill{{project, "tool-results"}, {of, "tasks"}}
}

// geminiSpills are those of Gemini CLI, beside the directory of its transcripts.
func geminiSpills(e event) []spill {
	if e.Transcript == "" {
		return nil
	}
	return []spill{{filepath.Dir(filepath.Dir(e.Transcript)), "tool-outputs"}}
}

// readsSpill reports whether a call reads a file that the runtime has put aside itself.
// Its text is the output of calls that were decided about. The file, and every directory
// on the way, belongs to this user or to root, and nobody else can put another in its place.
func (r *Runtime) readsSpill(e event, requests []request) bool {
	if r.spills == nil || len(requests) != 1 || requests[0].Tool != "read_file" {
		return false
	}
	path, _ := requests[0].Args["path"].(string)
	if filepath.Clean(path) != path {
		return false
	}
	for _, s := range r.spills(e) {
		rest, below := strings.CutPrefix(path, s.below+"/")
		if below && strings.Contains("/"+filepath.Dir(rest)+"/", "/"+s.dir+"/") && onlyOurs(path) {
			return true
		}
	}
	return false
}

// onlyOurs reports whether a path is a regular file by a way without links, which
// only this user and root can change.
func onlyOurs(path string) bool {
	for at := path; ; at = filepath.Dir(at) {
		fi, err := os.Lstat(at)
		if err != nil {
			return false
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		mode := fi.Mode()
		switch {
		case !ok || st.Uid != 0 && int(st.Uid) != os.Getuid():
			return false
		case at == path && !mode.IsRegular(), at != path && !mode.IsDir():
			return false
		case mode.Perm()&0o022 != 0 && mode&os.ModeSticky == 0:
			return false
		case at == "/":
			return true
		}
	}
}
