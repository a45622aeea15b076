package broker

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxConfig bounds a git configuration that is judged.
const maxConfig = 256 << 10

// A setting is one variable of a git configuration, as git-config(1) names it.
type setting struct {
	section, name string // without letter case: section and the variable's name
	sub           string // the subsection, byte for byte
	value         string
}

var (
	sectionLine  = lazily(`^[ \t]*\[([A-Za-z0-9-]+)(?:[ \t]+"([^"\\\]\x00-\x1f]*)")?\][ \t]*$`)
	variableLine = lazily(`^[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*(.*?)[ \t]*$`)
	plainValue   = lazily(`^[^"\\#;\x00-\x1f\x7f]*$`)
	commentLine  = lazily(`^[ \t]*(?:[#;].*)?$`)
)

// lazily compiles an expression when it is first needed: most sandboxes need none, and this
// package starts with each.
func lazily(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}

// settings reads a configuration in the plainest form of git's grammar, the one that
// git itself writes: a section on a line, a variable on a line, a value without quotes,
// escapes, comments or control characters. Anything else is not read at all, so what is
// read here means the same to git (a test holds it against `git config --list`).
func settings(text string) ([]setting, bool) {
	var list []setting
	var section, sub string
	for line := range strings.SplitSeq(text, "\n") {
		if commentLine().MatchString(line) {
			continue
		}
		if m := sectionLine().FindStringSubmatch(line); m != nil {
			section, sub = strings.ToLower(m[1]), m[2]
			continue
		}
		m := variableLine().FindStringSubmatch(line)
		if m == nil || section == "" || !plainValue().MatchString(m[2]) {
			return nil, false
		}
		list = append(list, setting{section: section, sub: sub, name: strings.ToLower(m[1]), value: m[2]})
	}
	return list, true
}

// harmless are the variables that name no program, no file and no further
// configuration, by section (git-config(1)). A promisor remote is not among them: git
// fetches from it whenever an object is missing, in any command.
var harmless = map[string][]string{
	"core": {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks",
		"autocrlf", "eol", "safecrlf", "quotepath", "longpaths", "sparsecheckout", "sparsecheckoutcone", "untrackedcache", "trustctime"},
	"remote":      {"url", "pushurl", "fetch", "tagopt", "prune"},
	"branch":      {"remote", "merge", "rebase", "description"},
	"user":        {"name", "email", "useconfigonly", "signingkey"},
	"author":      {"name", "email"},
	"committer":   {"name", "email"},
	"extensions":  {"objectformat", "refstorage", "worktreeconfig"},
	"init":        {"defaultbranch", "defaultobjectformat"},
	"submodule":   {"url", "active", "branch", "recurse", "shallow", "fetchjobs"},
	"index":       {"sparse", "version", "threads"},
	"pull":        {"rebase", "ff"},
	"push":        {"default", "autosetupremote", "followtags"},
	"fetch":       {"prune", "prunetags", "parallel", "recursesubmodules"},
	"gc":          {"auto", "autodetach"},
	"commit":      {"gpgsign"}, // by the program that the user's own configuration names
	"tag":         {"gpgsign"},
	"maintenance": {"auto", "strategy"},
	"merge":       {"conflictstyle", "ff", "renames", "log"},
	"rebase":      {"autostash", "autosquash", "updaterefs"},
	"rerere":      {"enabled", "autoupdate"},
	"advice":      {"detachedhead", "defaultbranchname", "addignoredfile"},
	"color":       {"ui", "status", "diff", "branch"},
	"status":      {"showuntrackedfiles", "submodulesummary", "short", "branch"},
	"diff":        {"renames", "algorithm", "colormoved", "submodule"},
	"log":         {"date", "decorate"},
}

// HarmlessKey reports whether a variable of a git configuration is one of those, by the
// names of its section and of itself without letter case.
func HarmlessKey(section, name string) bool { return slices.Contains(harmless[section], name) }

// SharesWithGroup reports whether a variable is one that `git init --shared` writes, with a
// value that lets the group write or everybody read, but never everybody write: another
// user who could write a configuration could run programs as the user who uses it. It is
// harmless only in a repository that did not exist before.
func SharesWithGroup(section, name, value string) bool {
	value = strings.ToLower(value)
	switch section + "." + name {
	case "receive.denynonfastforwards":
		return value == "true" || value == "false"
	case "core.sharedrepository":
		switch value {
		case "0", "1", "2", "false", "true", "umask", "group", "all", "world", "everybody":
			return true
		}
		mode, err := strconv.ParseUint(value, 8, 16)
		return err == nil && mode&0o600 == 0o600 && mode&^0o664 == 0
	}
	return false
}

// isNew reports whether a configuration says no more than `git init` writes.
func isNew(had []setting) bool {
	return !slices.ContainsFunc(had, func(s setting) bool {
		return s.section != "core" && s.section != "extensions" && !SharesWithGroup(s.section, s.name, s.value)
	})
}

// harmlessSetting reports whether nothing that git does with s runs a program or leads
// out of the repository. dir is the directory of the configuration, writable what may
// be written: a submodule's worktree has to lie there.
func harmlessSetting(s setting, dir string, writable func(name string) bool) bool {
	if strings.Contains(s.value, "::") { // ext::COMMAND, a remote that is a program (gitremote-helpers(7))
		return false
	}
	if s.section == "core" && s.sub == "" && s.name == "worktree" {
		target, ok := textOf(dir, s.value)
		return ok && s.value != "" && writable(target) && !BelowGit(target) && below([]string{besideGit(dir)}, target)
	}
	if !HarmlessKey(s.section, s.name) {
		return false
	}
	switch s.section {
	case "remote", "branch", "submodule": // submodule.recurse and the like have no subsection; url has
		return true
	}
	return s.sub == ""
}

// BelowGit reports whether a path has a component .git. Git writes nothing there when it
// checks out files, whatever names a commit has (read-cache.c, verify_path). So a git
// directory that is below one is safe from the user's own checkout, and only such a one
// has a work tree elsewhere: a checkout into any other would write hooks and settings.
func BelowGit(name string) bool {
	return slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return fold(part) == ".git" })
}

// besideGit is the directory that has the .git which name lies below, "" for none. What lies there
// moves with it: a text that leads there leads there from each name that it gets.
func besideGit(name string) string {
	for i, part := 0, ""; i < len(name); i += len(part) + 1 {
		part, _, _ = strings.Cut(name[i:], "/")
		if fold(part) == ".git" {
			return path.Clean(name[:i])
		}
	}
	return ""
}

// isElsewhere reports whether an address that git is given is of another machine (connect.c,
// url_is_local_not_ssh; transport-helper.c): in a directory of this one, hooks run at each push.
func isElsewhere(url string) bool {
	if scheme, _, ok := strings.Cut(url, "://"); ok {
		return slices.Contains([]string{"https", "http", "ssh", "git", "ftp", "ftps", "git+ssh", "ssh+git"}, scheme)
	}
	host, _, ok := strings.Cut(url, ":")
	return ok && host != "" && !strings.Contains(host, "/")
}

// maxText is PATH_MAX: no program follows a longer path.
const maxText = 4096

// textOf gives the place that a path written in dir leads to, by its text alone. It fails
// where ".." comes after a name: that may be a link, now or later.
func textOf(dir, to string) (string, bool) {
	if len(to) >= maxText {
		return "", false
	}
	if !SaysWhere(to) {
		return "", false
	}
	if strings.HasPrefix(to, "/") {
		return path.Clean(to), true
	}
	return path.Join(dir, to), true
}

// SaysWhere reports whether the text of a path tells where it leads: ".." comes after no name
// and no root. Names that the kernel accepts as names (path_resolution(7)): "..." is one.
func SaysWhere(to string) bool {
	named := strings.HasPrefix(to, "/")
	for part := range strings.SplitSeq(to, "/") {
		switch part {
		case "", ".":
		case "..":
			if named {
				return false
			}
		default:
			named = true
		}
	}
	return true
}

// mayBecome reports whether a git configuration in dir may hold text where a person had was,
// which is "" for a repository of a program's own: the person's settings remain, in order,
// except those that programs may set as they like, and new ones are harmless. What cannot be
// read as git does is neither. It is never asked about what a program made of was: three
// commands of git's would take a remote away and bring another one by its name.
func mayBecome(was, text, dir string, writable func(name string) bool) bool {
	had, readable := settings(was)
	have, ok := settings(text)
	if !ok || !readable {
		return was != "" && was == text
	}
	// Both may have thousands, and others wait meanwhile: none is compared with all.
	before, known, followed, fresh := map[setting]bool{}, map[[2]string]bool{}, map[string]bool{}, isNew(had)
	for _, h := range had {
		before[h], known[[2]string{h.section, h.sub}] = true, true
	}
	for _, s := range have {
		followed[s.sub] = followed[s.sub] || s.section == "remote"
	}
	stays := func(s setting) bool { return !s.isFree(known) }
	var staying []setting
	for _, s := range have {
		shares := s.sub == "" && SharesWithGroup(s.section, s.name, s.value) && fresh
		switch {
		case !before[s] && !shares && (!harmlessSetting(s, dir, writable) || redirects(known, followed, s)):
			return false
		case stays(s) && before[s]:
			staying = append(staying, s)
		}
	}
	return slices.Equal(staying, slices.DeleteFunc(had, func(s setting) bool { return !stays(s) }))
}

// isFree reports whether a setting that was there may be set otherwise, or taken away: it is
// harmless, and not about a remote, a branch or a submodule of before.
func (s setting) isFree(known map[[2]string]bool) bool {
	switch {
	case !HarmlessKey(s.section, s.name):
		return false
	case s.section == "branch" && (s.name == "rebase" || s.name == "description"):
		return true
	case s.section == "remote" || s.section == "branch" || s.section == "submodule" && s.sub != "":
		return !known[[2]string{s.section, s.sub}]
	}
	return s.sub == ""
}

// redirects reports whether s changes where a remote, submodule or branch of before goes:
// the user's next push would send the work there, or, to a directory, run what it has for
// hooks. A new branch may follow a remote by
// its name, which is not an address.
func redirects(known map[[2]string]bool, remotes map[string]bool, s setting) bool {
	if len(known) == 0 {
		return false
	}
	there := known[[2]string{s.section, s.sub}]
	switch {
	case s.section == "remote" || s.section == "submodule" && s.name == "url":
		return there || strings.HasSuffix(s.name, "url") && !isElsewhere(s.value)
	case s.section == "branch" && s.name == "remote":
		return there || s.value != "." && !remotes[s.value]
	case s.section == "branch" && s.name == "merge":
		return there
	}
	return false
}
