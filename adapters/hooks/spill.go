package hooks

import (
	"path/filepath"
	"strings"
)

// A spill is where a runtime itself puts output that is too long for its model, or that
// comes in the background, and which it tells the model to read. It is a directory of one
// project, below which a file counts if its directory has the given name.
type spill struct{ below, dir string }

// claudeSpills are those of Claude Code: beside the conversation's transcript, and in a
// directory of the user's below /tmp.
func claudeSpills(transcript, scratch string) []spill {
	project := filepath.Dir(transcript)
	return []spill{{project, "tool-results"}, {filepath.Join(scratch, filepath.Base(project)), "tasks"}}
}

// geminiSpills are those of Gemini CLI, beside the directory of its transcripts.
func geminiSpills(transcript, _ string) []spill {
	return []spill{{filepath.Dir(filepath.Dir(transcript)), "tool-outputs"}}
}

// readsSpill reports whether a call reads a file that the runtime has put aside itself.
// Its text is the output of calls that were decided about. Only this user can have put
// it there.
func (h *Hook) readsSpill(e event, requests []request) bool {
	spills := h.Runtime.spills
	if spills == nil || h.Alone == nil || e.Transcript == "" || len(requests) != 1 || requests[0].Tool != "read_file" {
		return false
	}
	path, _ := requests[0].Args["path"].(string)
	if filepath.Clean(path) != path {
		return false
	}
	for _, s := range spills(e.Transcript, h.Scratch) {
		rest, below := strings.CutPrefix(path, s.below+"/")
		if below && strings.Contains("/"+filepath.Dir(rest)+"/", "/"+s.dir+"/") && h.Alone(path) {
			return true
		}
	}
	return false
}
