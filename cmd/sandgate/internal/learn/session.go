package learn

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/audit"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/fragment"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/needs"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/settings"
	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/supervisor/history"
)

// learnSession proposes what people allowed a session, beside what is in use. What it was
// refused without a question is named, and proposed only if the person says so: an agent
// chooses by itself what it is refused.
func learnSession(a *cli.App, f learnFlags) error {
	cfg, err := settings.LoadAndWarn(a, f.box.Config, "")
	if err != nil {
		return err
	}
	l := &learner{App: a, learnFlags: f, cfg: cfg}
	s, err := l.readSession()
	if err != nil {
		return err
	}
	out := learnt{Why: "a session's calls are not run again", Fragment: fragment.Of(cfg, "in the configuration in use"), Refused: []refusal{}}
	for _, at := range s.allowed {
		out.Fragment.Add(at.Need, at.reason)
	}
	for _, r := range s.refused {
		var left []needs.Need
		for _, n := range r.Needs {
			switch {
			case s.denied[n.String()]:
				r.Why = "a person denied it"
			case f.yes:
				out.Fragment.Add(n, "refused: "+r.Subject)
				continue
			default:
				r.Why = "no one was asked; --yes proposes it"
			}
			left = append(left, n)
		}
		if r.Needs = left; len(left) > 0 || r.Why != "" {
			out.Refused = append(out.Refused, r)
		}
	}
	if out.Fragment.Rules, err = l.sessionRules(); err != nil {
		return err
	}
	return l.end(out)
}

// A seen session is what the log says that it was refused and allowed.
type seen struct {
	allowed []allowedNeed
	denied  map[string]bool
	refused []refusal
}

type allowedNeed struct {
	needs.Need
	reason string
}

// readSession reads answers about hosts and paths, and violations.
func (l *learner) readSession() (s seen, err error) {
	kept, err := assemble.PresentOwnPaths(l.cfg)
	if err != nil {
		return s, err
	}
	d, err := assemble.Derive(l.cfg, kept, "")
	if err != nil {
		return s, err
	}
	s.denied = map[string]bool{}
	entries, told := 0, map[string]bool{}
	log, err := l.sessionLog()
	if err != nil {
		return s, err
	}
	for e, err := range audit.Query(log, audit.Filter{Session: l.session}) {
		var bad *audit.ChainError
		switch {
		case errors.As(err, &bad):
			continue // verify tells about bad lines
		case err != nil:
			return s, cli.WithHint(cli.WithStatus(cli.ExitInternal, err), "no call has been logged there yet; name another log with --log")
		}
		entries++
		switch e.Kind {
		case audit.KindAnswer:
			s.answer(e, d, l.cfg)
		case audit.KindEnd:
			var end struct {
				Violations []protocol.Violation `json:"violations"`
			}
			if json.Unmarshal(e.Data, &end) != nil {
				continue
			}
			for _, v := range end.Violations {
				r := refusal{Subject: needs.Subject(v), Why: v.Reason}
				if told[r.Subject] {
					continue
				}
				told[r.Subject] = true
				for _, n := range needs.Of(v, d) {
					r.propose(n, d, l.cfg)
				}
				s.refused = append(s.refused, r)
			}
		}
	}
	if entries == 0 {
		return s, cli.WithHint(cli.WithStatus(cli.ExitFound, fmt.Errorf("learn: the log has no session %q", l.session)), "list sessions with `sandgate audit query --json`")
	}
	return s, nil
}

// answer reads what came of a question about a host or a path.
func (s *seen) answer(e audit.Entry, d assemble.Derived, cfg *config.Config) {
	var in struct {
		Decision approval.Decision `json:"decision"`
		Args     struct {
			Host    string         `json:"host"`
			Port    int            `json:"port"`
			Service string         `json:"service"`
			Path    string         `json:"path"`
			Right   protocol.Right `json:"right"`
			Lifted  []string       `json:"protected"`
		} `json:"args"`
	}
	if json.Unmarshal(e.Data, &in) != nil {
		return
	}
	var n needs.Need
	switch {
	case in.Args.Host != "" && in.Args.Service == "":
		n.Host = net.JoinHostPort(in.Args.Host, strconv.Itoa(in.Args.Port))
	case in.Args.Path != "" && len(in.Args.Lifted) == 0:
		n.Path, n.Write = in.Args.Path, in.Args.Right == protocol.RightWrite
	default:
		return
	}
	switch action := in.Decision.Action; {
	case action.State() == approval.StateApproved:
		r := refusal{}
		if r.propose(n, d, cfg); r.Why != "" {
			s.refused = append(s.refused, refusal{Subject: n.String(), Why: r.Why})
			return
		}
		s.allowed = append(s.allowed, allowedNeed{r.Needs[0], "a person was asked and allowed it: " + n.String()})
	case action == approval.Denied:
		s.denied[n.String()] = true
	}
}

func (l *learner) sessionLog() (string, error) {
	if l.log != "" {
		return l.log, nil
	}
	return assemble.LogPath(l.cfg)
}

// sessionRules are rules for the commands that people allowed in the session.
func (l *learner) sessionRules() (rules []fragment.Rule, err error) {
	log, err := l.sessionLog()
	if err != nil {
		return nil, err
	}
	sc, err := assemble.Policy(l.cfg, assemble.Memory{})
	if err != nil {
		return nil, err
	}
	survey, err := sc.Rules.Suggest(history.Decisions(audit.Query(log, audit.Filter{Session: l.session, Kinds: []audit.Kind{audit.KindDecision}})), 1)
	if err != nil {
		return nil, cli.WithStatus(cli.ExitInternal, err)
	}
	for _, g := range survey.Suggestions {
		if strings.TrimSpace(g.Rule.Pattern) != "" {
			rules = append(rules, fragment.AllowedRule(g.Rule.Pattern, g.Rule.Exact, g.Saved))
		}
	}
	return rules, nil
}
