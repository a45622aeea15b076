package main

import (
	"os/exec"
	"testing"
)

// TestPageAgentsOnATerminal: the screens of agent programs, as npm installs them for `make page`, come up in a
// sandbox with each backend, take keys, and leave the terminal as it was.
func TestPageAgentsOnATerminal(t *testing.T) {
	for _, backend := range []string{"bwrap", "landlock"} {
		for name, use := range map[string]func(d terminalDay){
			"codex": func(d terminalDay) { // @openai/codex
				d.see("> 1. Sign in with ChatGPT")
				d.press("3", "> 1. Use an OpenAI API key")
				d.keys("C-c")
			},
			"gemini": func(d terminalDay) { // @google/gemini-cli
				d.see("1. Trust folder")
				d.press("Escape", "Exiting since escape was pressed")
			},
		} {
			t.Run(backend+"/"+name, func(t *testing.T) {
				needsScreens(t)
				if _, err := exec.LookPath(name); err != nil {
					t.Fatalf("no %s on the PATH: `make page` installs it", name)
				}
				d := newTerminalDay(t)
				// In a CI job these agents ask nothing, and it may be one that runs this.
				d.types("env -u CI -u CONTINUOUS_INTEGRATION sandgate run --backend " + backend + " -- " + name + map[string]string{"codex": " --no-daemon"}[name]) // which would lie in /tmp, shared with what runs outside
				use(d)
				d.prompt()
				d.types("stty -a | grep -o ' ican''on'; echo typed'' again")
				d.see("icanon typed again")
			})
		}
	}
}
