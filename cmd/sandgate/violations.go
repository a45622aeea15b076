package main

import (
	"fmt"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/protocol"
)

// printViolations says a line for each thing that the sandbox refused, or that
// the call did against its profile.
func (a *app) printViolations(violations []protocol.Violation) {
	for _, v := range violations {
		text := fmt.Sprintf("%s (%s): %s", violationSubject(v), v.Basis, v.Reason)
		if v.Allow != "" {
			text += "; to allow it: " + v.Allow
		}
		fmt.Fprintf(a.err, "sandgate: violation: %s\n", approval.EscapeLine(text))
	}
}

// printRefusals is printViolations for a command whose own output went to the
// terminal: what was only inferred from that output is one line at its end.
func (a *app) printRefusals(violations []protocol.Violation) {
	var observed []protocol.Violation
	var subjects, flags []string
	for _, v := range violations {
		if v.Basis != protocol.Inferred {
			observed = append(observed, v)
			continue
		}
		subjects = append(subjects, violationSubject(v))
		if flag := runFlag(v); flag != "" {
			flags = append(flags, flag)
		}
	}
	a.printViolations(observed)
	if len(subjects) == 0 {
		return
	}
	text := "the sandbox seems to have refused: " + listed(subjects)
	if len(flags) > 0 {
		text += "; to allow: " + listed(flags)
	}
	fmt.Fprintf(a.err, "sandgate: %s\n", approval.EscapeLine(text))
}

// listed joins the first few.
func listed(list []string) string {
	const most = 4
	if more := len(list) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), more)
	}
	return strings.Join(list, ", ")
}

// violationSubject is what was refused, in a few words.
func violationSubject(v protocol.Violation) string {
	switch {
	case v.Kind == protocol.ViolationNetwork && v.Port != 0:
		return fmt.Sprintf("connect %s:%d", v.Host, v.Port)
	case v.Kind == protocol.ViolationNetwork:
		return "connect " + v.Host + v.Path // a host, or a Unix socket
	case v.SystemCall != "":
		return "system call " + v.SystemCall
	case v.Limit != "":
		return "limit " + v.Limit
	}
	return strings.TrimSpace(string(v.Right) + " " + v.Path)
}

// runFlag is the flag of `sandgate run` that is the violation's line of the
// configuration; "" if there is none.
func runFlag(v protocol.Violation) string {
	switch {
	case strings.HasPrefix(v.Allow, "sandbox.paths.") && v.Right == protocol.RightWrite:
		return "--rw " + shellWord(v.Path)
	case strings.HasPrefix(v.Allow, "sandbox.paths."):
		return "--ro " + shellWord(v.Path)
	case strings.HasPrefix(v.Allow, "shell.network:"):
		return "--network " + v.Host
	}
	return ""
}

// shellWord quotes what a shell would take for more than a word.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:@%="
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
