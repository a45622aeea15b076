package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// A step is one recorded call, with what a person would say to it.
type step struct {
	Say  string            `json:"say"`
	Tool protocol.ToolName `json:"tool"`
	Args json.RawMessage   `json:"args"`
	// TimeoutMS shortens the call's time limit, in milliseconds.
	TimeoutMS int64 `json:"timeout_ms"`
	// Answer is the scripted operator's answer to a prompt: allow or deny.
	// Without one, being asked is unexpected.
	Answer   protocol.Verdict `json:"answer"`
	Feedback string           `json:"feedback"`
	// Expect is how the call ends: "exit N", or the code of the error.
	Expect string `json:"expect"`
}

func loadSteps(file string) ([]step, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.DisallowUnknownFields()
	var steps []step
	if err := d.Decode(&steps); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i, s := range steps {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("%s: call %d: %w", file, i+1, err)
		}
	}
	return steps, nil
}

func (s step) check() error {
	switch {
	case s.Tool == "":
		return fmt.Errorf("no tool")
	case s.Expect == "":
		return fmt.Errorf("no expect")
	case s.Answer != "" && s.Answer != protocol.Allow && s.Answer != protocol.Deny:
		return fmt.Errorf("answer %q is neither allow nor deny", s.Answer)
	}
	return nil
}

// line is the call in one line: the command, or the tool and the path.
func (s step) line() string {
	var args struct{ Command, Path string }
	if json.Unmarshal(s.Args, &args) != nil {
		return string(s.Tool)
	}
	if args.Command != "" {
		return "$ " + args.Command
	}
	return strings.TrimSpace(string(s.Tool) + " " + args.Path)
}
