package bounds

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

// Set gives a proposal that runs without a prompt its ceiling, and every plan its
// class. A call that a person allows has no ceiling: it does what its profile says. A
// call that runs without a prompt has the ceiling of the tool, which knows what its
// answer rests on. For a tool without a ceiling, the configuration has allowed the
// call, with all that its profile gives. unkept: nothing is recorded of what it changes.
func Set(p *tools.Proposal, unkept bool) {
	a := &p.Plan.Action
	has := sandboxprofile.ClassOf(p.Plan.Profile, *a)
	if l := a.Ceiling; p.Request == nil && p.Unheld != nil && l != nil && l.Class == sandboxprofile.ClassWorkspace && (unkept || has > l.Class) {
		why := has.Can()
		if unkept {
			why = tools.WhyUnkept
		}
		p.Request = unheld(p, why)
	}
	if len(p.Changeable) > 0 && has == sandboxprofile.ClassBeyond {
		p.Reach.Exact = tools.Beyond(p.Changeable)
	}
	p.Plan.Class = has
	if len(p.Apart) > 0 && p.Request != nil && namesLeft(p.Plan) {
		q := *p.Request
		q.Once = found
		p.Request, p.Cautions = &q, append(slices.Clone(p.Cautions), found)
	}
	p.Request, p.Unheld = InProfile(p.Request, &p.Plan), InProfile(p.Unheld, &p.Plan)
	switch {
	case p.Request != nil, p.Plan.Kind == tools.ByServer, a.Kind == "":
		a.Ceiling = nil
		return
	case a.Ceiling == nil:
		a.Ceiling = &sandboxprofile.Ceiling{Class: has, AnyProgram: true}
	}
	p.Plan.Class = min(has, a.Ceiling.Class)
}

const found = "it names /tmp, where calls that ran without a prompt may have left files"

// Shares says which calls of a session have one /tmp: those with the same words. A call that runs without a prompt,
// and that no rule covers, may leave anything there, and a program with more rights would carry it out. So a call
// that is apart shares the /tmp of the calls that the same rules let run, or that were answered in the same words.
// A question about a command that names /tmp says what it finds there.
func Shares(p tools.Proposal, d approval.Decision, mode approval.Mode) string {
	wide := d.Source == approval.SourceAllowRule || d.Pattern != nil && d.Pattern.Kind == approval.WholeTool
	told := p.Request != nil && (wide || d.Source != approval.SourceRememberedAllow) && namesLeft(p.Plan)
	if len(p.Apart) == 0 || mode == approval.ApproveAll || told {
		return ""
	}
	words := []string{string(d.Source), p.Plan.Tool}
	for _, s := range p.Apart {
		words = append(words, s.Words)
	}
	slices.Sort(words)
	if words = slices.Compact(words); p.Request != nil && !wide {
		words = append(words, p.Plan.Action.Exec.Argv...)
	}
	return strings.Join(words, "\x00")
}

// namesLeft reports whether a command names a private directory in which calls find what others have left.
func namesLeft(plan tools.Plan) bool {
	e, fleeting := plan.Action.Exec, plan.Profile.Fleeting()
	if e == nil {
		return false
	}
	words := strings.FieldsFunc(strings.Join(append([]string{e.Dir}, e.Argv...), "\n"), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+@~", r)
	})
	return slices.ContainsFunc(words, func(word string) bool {
		return slices.ContainsFunc(plan.Profile.Scratch, func(dir string) bool {
			path := filepath.Clean(word[max(0, strings.IndexByte(word, '/')):]) // -I/tmp; a root of the profile's own may lie below it
			return !slices.Contains(fleeting, dir) && sandboxprofile.Contains(dir, path) && plan.Profile.Rights(path) == 0
		})
	})
}

// InProfile is a question about a program with what it reaches in its payload: an answer
// that is remembered for a program without network is not one for the same program with
// it. A request is the plan's alone; its payload may be shared.
func InProfile(r *approval.Request, plan *tools.Plan) *approval.Request {
	if r == nil || plan.Action.Exec == nil {
		return r
	}
	q := *r
	q.Payload = maps.Clone(r.Payload)
	if q.Payload == nil {
		q.Payload = map[string]any{}
	}
	q.Payload["network"], q.Payload["class"] = plan.Profile.Network.Mode.String(), plan.Class.String()
	return &q
}

// unheld is the question about a call that nothing holds to its ceiling.
func unheld(p *tools.Proposal, why string) *approval.Request {
	r := *p.Unheld
	r.Description = strings.ToUpper(why[:1]) + why[1:] + ": " + r.Description // a command ends its line
	return &r
}

// Withhold takes from a program that runs without a prompt everything that needs an approval before it
// is read or changed. No reading of its command line is needed for that, and none can be wrong: `grep
// -r`, a pattern, a script find nothing there. The file tools say which file they read, and read no
// other.
func Withhold(p *tools.Proposal, mode approval.Mode) {
	if p.Request != nil || mode == approval.ApproveAll || p.Plan.Action.Exec == nil || p.Plan.Kind != tools.Sandboxed {
		return
	}
	for _, dir := range p.Withheld {
		if l := p.Plan.Action.Ceiling; l != nil && p.Plan.Profile.Rights(dir) != 0 {
			l.Withheld = append(slices.Clone(l.Withheld), dir)
		}
	}
	p.Plan.Profile = Unasked(p.Plan.Profile, *p)
	if p.EmptyHome {
		l := sandboxprofile.Ceiling{Class: p.Plan.Class, AnyProgram: true}
		if under := p.Plan.Action.Ceiling; under != nil {
			l = *under
		}
		l.EmptyHome = true
		p.Plan.Action.Ceiling = &l
	}
	if len(p.Unasked) > 0 {
		program, env := *p.Plan.Action.Exec, &p.Plan.Profile.Env
		program.Env = tools.WithEnv(program.Env, p.Unasked)
		env.Names = slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(env.Names), maps.Keys(p.Unasked)))))
		p.Plan.Action.Exec = &program
	}
}

// Unasked is the part of a profile that a program keeps if its proposal runs without a
// prompt.
func Unasked(profile sandboxprofile.Profile, p tools.Proposal) sandboxprofile.Profile {
	paths := maps.Clone(profile.Paths)
	for _, dir := range p.Kept { // no entry of the profile says so where the directory around it had the same rights
		if r := profile.Rights(dir); r != 0 && slices.ContainsFunc(p.Unchanged, func(around string) bool { return sandboxprofile.Contains(around, dir) }) {
			paths[dir] = r
		}
	}
	for _, dir := range p.Unchanged {
		if r := profile.Rights(dir); r&sandboxprofile.Write != 0 {
			paths[dir] = r &^ sandboxprofile.Write
		}
	}
	for _, dir := range p.Withheld {
		if profile.Rights(dir) != 0 {
			paths[dir] = 0
		}
	}
	profile.Paths = paths
	return profile
}

// Freeze says that a plan's frozen files need a sandbox of their own; if no person is
// asked, or nothing here runs the plan, no file is frozen.
func Freeze(p *tools.Proposal, mode approval.Mode) {
	frozen := mode != approval.ApproveAll && p.Request != nil && p.Plan.Kind == tools.Sandboxed
	for i := range p.Plan.Pins {
		pin := &p.Plan.Pins[i]
		pin.Frozen = pin.Frozen && frozen
		p.Plan.Profile.Fresh = p.Plan.Profile.Fresh || pin.Frozen
	}
}
