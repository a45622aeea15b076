package present

import (
	"slices"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// A Consequence is one slot of the strip below a request. The slots are always the same,
// in the same order, so that an eye that has learned them finds what differs.
type Consequence struct {
	Label string `json:"label"` // writes, network, secrets, undo
	Text  string `json:"text"`  // in a few words, escaped
	// Careful: this speaks against the request.
	Careful bool `json:"careful,omitempty"`
}

// classOf is the effect class of the plan: read, workspace, beyond; "" is none.
func classOf(a *protocol.Approval) string {
	class, _, _ := strings.Cut(a.Details["class"], ":")
	return class
}

// Strip says what a call can do at most: what it writes, what it reaches, what it sees of
// secrets, and whether it can be taken back. It goes by the class of the plan and by what
// the sandbox allows, and not by what the text of the call seems to say: a call that only
// reads writes nothing, whatever its profile would let be written, and one of the class
// beyond never looks harmless.
func Strip(a *protocol.Approval) []Consequence {
	strip := stripOf(a)
	switch {
	case Unshown(a) == "":
	case isKeep(a):
		strip[0] = Consequence{"writes", "more than is shown", true}
	case a.Details["path"] != "": // what a program can do is what its sandbox allows, whatever it holds
		strip[0] = Consequence{"writes", "what is not shown", true}
	}
	return strip
}

func stripOf(a *protocol.Approval) []Consequence {
	if isKeep(a) {
		return []Consequence{
			{Label: "writes", Text: "what is shown, where it lies"}, {Label: "network", Text: "none"},
			{Label: "secrets", Text: "none"}, {Label: "undo", Text: "only with undo.enabled"},
		}
	}
	network, known := a.Details["network"]
	if !known {
		return []Consequence{
			{"writes", "not sandboxed", true}, {"network", "not sandboxed", true},
			{"secrets", "not sandboxed", true}, {"undo", "not known", true},
		}
	}
	if classOf(a) == "read" {
		return []Consequence{{Label: "writes", Text: "nothing"}, {Label: "network", Text: "none"}, secretsSlot(a), {Label: "undo", Text: "nothing to undo"}}
	}
	writes := Consequence{Label: "writes", Text: "nothing"}
	if where := a.Details["may write"]; where != "" {
		writes.Text = shortList(holderFirst(where, a.Details["directory"]))
	}
	if path := a.Details["path"]; path != "" && writes.Text != "nothing" {
		writes.Text = approval.EscapeName(path)
	}
	strip := []Consequence{writes, networkSlot(network, a.Details["reaches"]), secretsSlot(a), undoSlot(a, network)}
	if outside := a.Details["outside"]; outside != "" && !strip[1].Careful {
		text := shortList(outside)
		if strip[1].Text != "none" {
			text = strip[1].Text + ", " + text
		}
		strip[1] = Consequence{"network", text, true}
	}
	if classOf(a) == "beyond" && !strip[1].Careful && !strip[2].Careful {
		strip[1] = Consequence{"network", "beyond the workspace", true}
	}
	return strip
}

// isKeep reports whether what is asked is whether a draft is kept. No tool has that name.
func isKeep(a *protocol.Approval) bool {
	return a.Tool == "review" && a.Connector == "" && a.Details["changes"] != ""
}

func networkSlot(mode, reaches string) Consequence {
	switch mode {
	case "none", "":
		return Consequence{Label: "network", Text: "none"}
	case "proxied":
		_, hosts, _ := strings.Cut(reaches, ": ")
		hosts, _, _ = strings.Cut(hosts, ", no Unix")
		if hosts == "" {
			hosts = "listed hosts"
		}
		return Consequence{Label: "network", Text: shortList(hosts)}
	}
	return Consequence{"network", "everything this machine reaches", true}
}

func secretsSlot(a *protocol.Approval) Consequence {
	switch {
	case a.Details["is given"] != "":
		return Consequence{"secrets", "is given " + shortList(a.Details["is given"]), true}
	case a.Details["is told"] == "every environment variable":
		return Consequence{"secrets", "sees every variable", true}
	case a.Details["and never sees"] != "":
		return Consequence{Label: "secrets", Text: "hidden"}
	}
	return Consequence{"secrets", "none is hidden", true}
}

func undoSlot(a *protocol.Approval, network string) Consequence {
	switch lost := lasting(a); {
	case lost:
		return Consequence{"undo", "cannot be undone", true}
	case a.Details["outside"] != "":
		return Consequence{"undo", "not of what is sent", true}
	case a.Details["may write"] == "" && (network == "none" || network == ""):
		return Consequence{Label: "undo", Text: "nothing to undo"}
	case network != "none" && network != "" && a.Details["undo"] != "":
		return Consequence{Label: "undo", Text: "files, not what is sent"}
	case network != "none" && network != "":
		return Consequence{Label: "undo", Text: "not of what is sent"}
	}
	if a.Details["undo"] != "" {
		return Consequence{Label: "undo", Text: "files can be put back"}
	}
	return Consequence{Label: "undo", Text: "sandgate keeps no copy"}
}

// lasting reports whether something in the text of a command cannot be taken back.
func lasting(a *protocol.Approval) bool {
	for _, r := range Risks(a) {
		if r.lasting {
			return true
		}
	}
	return false
}

// holderFirst is a list of paths, the one first that holds a directory: of all that a
// command may write a person knows the workspace, and not the caches of its tools.
func holderFirst(list, dir string) string {
	parts := strings.Split(list, ", ")
	for i, p := range parts {
		if dir == p || strings.HasPrefix(dir, strings.TrimSuffix(p, "/")+"/") {
			return strings.Join(slices.Insert(slices.Delete(parts, i, i+1), 0, p), ", ")
		}
	}
	return list
}

// shortList is the first of a list of the supervisor's, and how many more there are.
func shortList(list string) string {
	parts := strings.Split(list, ", ")
	text := End(parts[0])
	if len(parts) > 1 {
		text += Say(" and %d more", len(parts)-1)
	}
	return string(text)
}

// Headline says in a few words, escaped, who wants what.
func Headline(a *protocol.Approval) (agent, wants string) {
	agent = string(Name(a.Agent))
	if a.Agent == "" {
		agent = "an agent without a name"
	}
	if p := a.Presentation; p != nil && p.Type == approval.Command {
		wants = "wants to run a command"
		if a.Tool != "shell" {
			wants += string(Say(" by %s", a.Tool))
		}
		return agent, wants
	}
	// A built-in tool says in words of ours what it is about to do.
	if verb, rest, ok := strings.Cut(a.Description, " "); ok && (isKeep(a) || a.Details["path"] != "" && a.Connector == "") {
		return agent, "wants to " + line(strings.ToLower(verb)+" "+rest)
	}
	return agent, "wants: " + string(Title(a))
}

// Kind is what sort of act a request asks for: run, change or use.
func Kind(a *protocol.Approval) string {
	_, shell := a.Details["program"]
	_, file := a.Details["path"]
	switch {
	case a.Details["may write"] != "" && file:
		return "change"
	case shell:
		return "run"
	}
	return "use"
}

// Changes reports whether a call can change or reach anything: whether it is beyond the
// class of those that only read. What is not known does.
func Changes(a *protocol.Approval) bool {
	network, known := a.Details["network"]
	return classOf(a) != "read" && (!known || network != "none" || a.Details["may write"] != "")
}
