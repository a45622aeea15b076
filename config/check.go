package config

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/tools/manifest"
	"github.com/sandgate/sandgate/tools/mcp"
)

// A checker looks at a decoded Config: what single values cannot show, and what
// the disk says.
type checker struct {
	c    *Config
	d    *decoder
	base string // where relative paths start
	env  Env
}

func (k *checker) all() {
	if k.c.Version != 1 {
		k.problem("version", fmt.Sprintf("unknown version %d", k.c.Version), "use version: 1")
	}
	k.files()
	k.paths()
	k.workdir()
	k.sandbox()
	k.network("shell.network", k.c.Shell.Network)
	k.credentials("shell.credentials", k.c.Shell.Credentials, "shell.network", k.c.Shell.Network)
	k.rules()
	for i := range k.c.Tools {
		k.tool(&k.c.Tools[i])
	}
	for i := range k.c.MCP.Servers {
		k.server(&k.c.MCP.Servers[i])
	}
	k.approval()
	k.redact()
}

// position is where a field is set, or else the nearest part of the file around it.
func (k *checker) position(field string) Position {
	for ; field != ""; field = fieldParent(field) {
		if p, ok := k.c.Origins[field]; ok {
			return p
		}
	}
	if k.d.file == "" {
		return Position{}
	}
	return Position{k.d.file, 1, 1}
}

// problem reports a value, unless something is known to be wrong with it.
func (k *checker) problem(field, text, hint string) {
	if !k.d.bad[field] {
		k.force(field, text, hint)
		k.d.bad[field] = true
	}
}

// force reports a field whatever else is wrong with it, and leaves what lies in
// it to be judged.
func (k *checker) force(field, text, hint string) {
	k.d.problems = append(k.d.problems, Problem{k.position(field), field, text, hint})
}

func (k *checker) notice(field, text string) {
	k.c.Notices = append(k.c.Notices, Notice{k.position(field), field, text})
}

// unusable reports whether a field, or something it lies in, has a problem, so
// that what refers to it cannot be judged.
func (k *checker) unusable(field string) bool {
	for ; field != ""; field = fieldParent(field) {
		if k.d.bad[field] {
			return true
		}
	}
	return false
}

func (k *checker) paths() {
	seen := map[string]string{}
	for i := range k.c.Sandbox.Paths {
		p := &k.c.Sandbox.Paths[i]
		field := fieldKey("sandbox.paths", p.Name)
		k.name(field, p.Name)
		k.suffixes(fieldKey(field, "suffixes"), p.Suffixes)
		if k.unusable(field + ".root") {
			continue
		}
		k.root(field+".root", p)
		if other, ok := seen[p.Root]; ok {
			k.problem(field+".root", fmt.Sprintf("the same directory as that of %s", quote(other)), "remove one of the two")
		}
		seen[p.Root] = p.Name
	}
}

// identifier is the form of the names of paths, tools and servers.
var identifier = lazily(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

func (k *checker) name(field, name string) {
	if !identifier().MatchString(name) {
		k.force(field, quote(name)+" is not a name", "use letters, digits, _ and -, at most 64")
	}
}

// root makes p.Root absolute and free of links, so that every later layer speaks
// of one and the same directory.
func (k *checker) root(field string, p *Path) {
	path, err := expand(p.Root, k.base, k.env.Home)
	if err != nil {
		k.problem(field, err.Error(), "")
		return
	}
	given := p.Root
	p.Root = path
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		k.problem(field, fmt.Sprintf("%s: %s", quote(path), cause(err)), k.missingHint(given, path))
		return
	}
	p.Root = resolved
	if resolved != path {
		k.notice(field, fmt.Sprintf("%s is a symbolic link or is below one; the real directory is %s", quote(path), quote(resolved)))
	}
	if info, err := os.Stat(resolved); err != nil {
		k.problem(field, fmt.Sprintf("%s: %s", quote(resolved), cause(err)), "")
	} else if p.IsFile = info.Mode().IsRegular(); p.IsFile && p.Mode == ReadOnly && !p.ReadApproval && len(p.Suffixes) == 0 {
		return // no more than this one
	} else if !info.IsDir() {
		k.problem(field, quote(resolved)+" is not a directory", "name the directory that contains it and choose files with suffixes; a single file needs mode: ro")
	} else {
		k.ownFiles(p)
	}
}

// ownFiles speaks up when files of sandgate itself lie where tools write. A configuration does so
// as a rule, and people expect that tools cannot change it.
func (k *checker) ownFiles(p *Path) {
	if p.Mode != ReadWrite {
		return
	}
	for _, file := range k.c.OwnFiles() {
		if slices.Contains(k.c.Files(), file) {
			continue
		}
		if rel, err := filepath.Rel(p.Root, file); err == nil && filepath.IsLocal(rel) {
			k.notice(fieldKey("sandbox.paths", p.Name)+".root",
				fmt.Sprintf("%s is inside it; tools cannot reach that part", quote(file)))
		}
	}
}

// cause is the innermost reason of a file system error, without its path.
func cause(err error) string {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err.Error()
		}
		err = inner.Unwrap()
	}
}

func (k *checker) missingHint(given, path string) string {
	if strings.Contains(given, "$") {
		return "variables are not expanded; write ~/ for the home directory"
	}
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return "create the directory, or correct the path"
	}
	var dirs []string
	for _, n := range names {
		if n.Name() == filepath.Base(path) {
			return "it exists: give this user access to it, or mount its file system again"
		}
		if n.IsDir() {
			dirs = append(dirs, n.Name())
		}
	}
	if s := suggest(filepath.Base(path), dirs); s != "" {
		return "did you mean " + quote(filepath.Join(filepath.Dir(path), s)) + "?"
	}
	return "run `mkdir -p`, or correct the path"
}

func (k *checker) suffixes(field string, list []string) {
	for i, s := range list {
		at := fieldIndex(field, i)
		switch {
		case strings.HasPrefix(s, "*"):
			k.problem(at, quote(s)+" is a pattern, not a suffix", "write "+quote(strings.TrimLeft(s, "*")))
		case strings.Trim(s, ".") == "":
			k.problem(at, quote(s)+" is not a suffix", `write the dot and what follows it: ".txt"`)
		case s[0] != '.':
			k.problem(at, quote(s)+" does not start with a dot", "write "+quote("."+s))
		case strings.ContainsAny(s, "/\x00"):
			k.problem(at, quote(s)+" is not the end of a file name", "")
		}
	}
	k.unique(field, list)
}

func (k *checker) unique(field string, list []string) {
	for i, s := range list {
		if first := slices.Index(list, s); first < i {
			k.problem(fieldIndex(field, i), quote(s)+" is given twice", "remove one of the two")
		}
	}
}

// oneOf checks names against the known ones; nil knowns leave them unchecked.
func (k *checker) oneOf(field, what string, names, known []string) {
	for i, name := range names {
		if known != nil && !slices.Contains(known, name) {
			k.problem(fieldIndex(field, i), "unknown "+what+" "+quote(name), didYouMean(name, known))
		}
	}
	k.unique(field, names)
}

func (k *checker) sandbox() {
	s := &k.c.Sandbox
	presets := k.env.Presets
	if presets != nil {
		presets = append(slices.Clone(presets), DetectPreset)
	}
	k.oneOf("sandbox.presets", "preset", s.Presets, presets)
	k.patterns("sandbox.protect", s.Protect)
	k.patterns("sandbox.hide", s.Hide)
	for i, name := range s.Env.Allow {
		if !envName().MatchString(name) {
			k.problem(fieldIndex("sandbox.env.allow", i), quote(name)+" is not the name of an environment variable", envHint(name))
		}
	}
	k.unique("sandbox.env.allow", s.Env.Allow)
	k.variables("sandbox.env.set", s.Env.Set)
	if k.c.Set("sandbox.require_os_sandbox") && !s.RequireOSSandbox {
		k.notice("sandbox.require_os_sandbox", "tools run unconfined if no operating-system sandbox works; for development only")
	}
	k.profile()
}

var envName = lazily(`^[A-Za-z_][A-Za-z0-9_]*$`)

func envHint(name string) string {
	if before, _, ok := strings.Cut(name, "="); ok {
		return "values belong in sandbox.env.set: {" + before + ": ...}"
	}
	return "list each name; patterns are not allowed"
}

func (k *checker) patterns(field string, list []string) {
	k.unique(field, list)
	if k.c.Set(field) && !slices.Contains(list, DefaultList) {
		k.notice(field, "this replaces the shipped patterns; add default to keep them")
	}
	for i, p := range list {
		at := fieldIndex(field, i)
		if p == "" || strings.ContainsRune(p, 0) {
			k.problem(at, quote(p)+" is not a pattern", "")
		} else if p != DefaultList && k.env.CheckPattern != nil {
			if err := k.env.CheckPattern(p); err != nil {
				k.problem(at, quote(p)+": "+err.Error(), "")
			}
		}
	}
}

// profile tells a file from a shipped name by its look: a file has a slash or
// an extension.
func (k *checker) profile() {
	s := &k.c.Sandbox
	const field = "sandbox.profile"
	switch {
	case s.Profile == "":
	case isProfileFile(s.Profile):
		s.Profile = k.file(field, s.Profile)
	case k.env.Profiles != nil && !slices.Contains(k.env.Profiles, s.Profile):
		k.problem(field, "unknown profile "+quote(s.Profile), k.profileHint(s.Profile))
	}
}

func isProfileFile(name string) bool {
	return strings.ContainsRune(name, '/') || filepath.Ext(name) != ""
}

func (k *checker) profileHint(name string) string {
	if s := suggest(name, k.env.Profiles); s != "" {
		return "did you mean " + quote(s) + "?"
	}
	return "use one of " + strings.Join(k.env.Profiles, ", ") + ", or a file: " + quote("./"+name)
}

// file resolves the path of a file that must be there.
func (k *checker) file(field, given string) string {
	path, err := expand(given, k.base, k.env.Home)
	if err != nil {
		k.problem(field, err.Error(), "")
		return given
	}
	if info, err := os.Stat(path); err != nil {
		k.problem(field, quote(path)+": "+cause(err), "")
	} else if !info.Mode().IsRegular() {
		k.problem(field, quote(path)+" is not a file", "")
	}
	return path
}

func (k *checker) network(field string, nw Network) {
	k.unique(field+".allow", nw.Hosts())
	k.services(field+".services", nw.Services)
	k.expose(field+".expose", nw.Expose)
	switch {
	case nw.Mode == NetworkAllow && len(nw.Allow) == 0 && len(nw.Services) == 0 && !nw.Ask && !k.unusable(field+".allow") && !k.unusable(field+".expose"):
		k.problem(field+".allow", "the list is empty and ask is off: nothing can be reached", nw.withoutAllow())
	case nw.Mode == NetworkHost:
		k.notice(field, HostNetwork)
	}
}

// path looks a name up in `sandbox.paths`.
func (k *checker) path(field, name string) *Path {
	if k.unusable("sandbox.paths") {
		return nil
	}
	names := []string{}
	for i := range k.c.Sandbox.Paths {
		if k.c.Sandbox.Paths[i].Name == name {
			return &k.c.Sandbox.Paths[i]
		}
		names = append(names, k.c.Sandbox.Paths[i].Name)
	}
	k.problem(field, quote(name)+" is not in sandbox.paths", didYouMean(name, names))
	return nil
}

func (k *checker) server(s *MCPServer) {
	field := fieldKey("mcp.servers", s.Name)
	k.serverName(field, s)
	if !k.unusable(field + ".command") {
		k.faults(field, manifest.CheckProgram(s.Command))
	}
	t := s.Tool() // it shares the server's lists
	k.toolSandbox(field+".sandbox", &t.Sandbox)
	k.network(field+".network", s.Network)
	k.secrets(field+".secrets", &t)
	k.credentials(field+".credentials", s.Credentials, field+".network", s.Network)
	k.oneValue(field+".credentials", &t)
	for _, glob := range slices.Sorted(maps.Keys(s.Approval.Tools)) {
		if glob == "" {
			k.problem(fieldKey(field+".approval.tools", glob), "the tool name is empty", "")
		}
	}
}

// serverName keeps the tools of a server, SERVER_TOOL, apart from all others.
func (k *checker) serverName(field string, s *MCPServer) {
	if !mcp.ValidServerName(s.Name) {
		k.force(field, quote(s.Name)+" is not a name for an MCP server",
			fmt.Sprintf("use at most %d letters, digits and -; no _, which separates SERVER from TOOL in tool names", mcp.MaxServerName))
		return
	}
	for _, other := range k.c.MCP.Servers {
		if other.Name < s.Name && strings.EqualFold(other.Name, s.Name) {
			k.problem(field, quote(s.Name)+" differs from "+quote(other.Name)+" in case only", "choose another name")
		}
	}
	names := slices.Clone(k.env.ReservedTools)
	for _, t := range k.c.Tools {
		names = append(names, t.Name)
	}
	for _, name := range names {
		if mcp.ServerOf(name) == s.Name {
			k.problem(field, fmt.Sprintf("a tool of this server could get the name %s, which another tool has", quote(name)), "choose another name")
		}
	}
}

func (k *checker) approval() {
	a := &k.c.Approval
	if a.DenyCache < 0 {
		k.problem("approval.deny_cache", "the time cannot be negative", "write 0s for no cache")
	}
	if a.Mode == ApproveAll && k.c.Set("approval.mode") {
		k.notice("approval.mode", "every request is approved without asking anyone")
	}
	if a.Elicitation {
		k.notice("approval.elicitation", "MCP clients can allow their own calls once: their answer counts as their user's")
	}
	k.toolNames("approval.safe_tools", a.SafeTools)
	k.toolNames("approval.dangerous_tools", a.DangerousTools)
	for i, name := range a.SafeTools {
		if slices.Contains(a.DangerousTools, name) {
			k.contradiction(i, name)
		}
	}
}

// contradiction reports a tool in both lists, at a list that the file sets.
func (k *checker) contradiction(safe int, name string) {
	field := fieldIndex("approval.safe_tools", safe)
	if !k.c.Set("approval.safe_tools") {
		field = fieldIndex("approval.dangerous_tools", slices.Index(k.c.Approval.DangerousTools, name))
	}
	k.problem(field, quote(name)+" is in both safe_tools and dangerous_tools", "remove it from one of the two")
}

func (k *checker) toolNames(field string, names []string) {
	for i, name := range names {
		if name == "" {
			k.problem(fieldIndex(field, i), "the tool name is empty", "")
		}
	}
	k.unique(field, names)
}

// files makes the paths of files that need not be there yet absolute.
func (k *checker) files() {
	k.futureFile("audit.path", &k.c.Audit.Path)
	k.futureFile("http.token_file", &k.c.HTTP.TokenFile)
	k.futureFile("egress.upstream_user", &k.c.Egress.UpstreamUser)
	k.repositories()
	k.listen()
}

func (k *checker) futureFile(field string, path *string) {
	if *path == "" {
		return
	}
	full, err := expand(*path, k.base, k.env.Home)
	if err != nil {
		k.problem(field, err.Error(), "")
		return
	}
	*path = full
	if info, err := os.Stat(full); err == nil && !info.Mode().IsRegular() {
		k.problem(field, quote(full)+" is not a file", "give the path of a file")
	}
}

// repositories makes the directories of git.repositories absolute and free of links. A
// directory that does not exist yet does not count.
func (k *checker) repositories() {
	const field = "git.repositories"
	for i, given := range k.c.Git.Repositories {
		dir, err := expand(given, k.base, k.env.Home)
		if err != nil {
			k.problem(fieldIndex(field, i), err.Error(), "")
			continue
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		k.c.Git.Repositories[i] = filepath.Clean(dir)
	}
	k.unique(field, k.c.Git.Repositories)
}

// listen admits loopback only: the token crosses the connection in the clear.
func (k *checker) listen() {
	if k.c.HTTP.Listen == "" {
		return
	}
	const field, hint = "http.listen", `write "127.0.0.1:8642"`
	addr, err := netip.ParseAddrPort(strings.Replace(k.c.HTTP.Listen, "localhost:", "127.0.0.1:", 1))
	switch {
	case err != nil:
		k.problem(field, quote(k.c.HTTP.Listen)+" is not an address and port", hint)
	case !addr.Addr().IsLoopback():
		k.problem(field, quote(k.c.HTTP.Listen)+" is not a loopback address", hint)
	}
}
