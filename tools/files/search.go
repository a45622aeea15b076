package files

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/tools"
)

const (
	// maxFound bounds the text of a search's result, in bytes: what a model can
	// make use of.
	maxFound = 256 << 10
	// searchTime is how long a search may take. It gives what it has until then.
	searchTime = 20 * time.Second
)

const searchPathSchema = `"path": {
      "type": "string",
      "minLength": 1,
      "description": "%s, relative to the workspace or absolute. Default: the workspace.",
      "examples": ["src", "."]
    }`

const ignoredSchema = `"ignored": {
      "type": "boolean",
      "description": "Include files that .gitignore excludes, such as build results and installed dependencies."
    }`

// A bound is a number that an agent may choose up to a maximum.
type bound struct{ fallback, maximum int64 }

// schema describes the bound as the argument "limit".
func (b bound) schema(what string) string {
	return fmt.Sprintf(`"limit": {
      "type": "integer",
      "minimum": 1,
      "maximum": %d,
      "description": "Maximum number of %s to return. Default: %d. The result says if there are more."
    }`, b.maximum, what, b.fallback)
}

// limits gives the bound of each kind of search.
func limits(kind sandboxprofile.Kind) bound {
	if kind == sandboxprofile.GrepFiles {
		return bound{200, 5000}
	}
	return bound{1000, 20_000}
}

var listDefinition = tools.Definition{
	Name: "list_files",
	Description: "List a directory: one name per line, directories with a slash at the end. Links are listed but not followed. " +
		"With a depth, subdirectories are listed too, except .git and directories that .gitignore excludes.",
	InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    ` + fmt.Sprintf(searchPathSchema, "The directory") + `,
    "depth": {
      "type": "integer",
      "minimum": 1,
      "maximum": 128,
      "description": "How many levels to list. Default: 1, the directory itself.",
      "examples": [3]
    },
    ` + ignoredSchema + `,
    ` + limits(sandboxprofile.ListFiles).schema("names") + `
  }
}`),
	Annotations: tools.Annotations{Title: "List a directory", ReadOnlyHint: true, IdempotentHint: true},
}

var globDefinition = tools.Definition{
	Name: "glob",
	Description: "Find files by name: one path per line, sorted, in the form that other tools accept. " +
		"Skips .git and files that .gitignore excludes. The results do not include directories.",
	InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["pattern"],
  "properties": {
    "pattern": {
      "type": "string",
      "minLength": 1,
      "maxLength": 1024,
      "description": "Pattern for the path below the directory: * and ? within a name, [a-z], ** for any number of directories, {a,b} for alternatives.",
      "examples": ["**/*.go", "src/**/*_test.{ts,tsx}", "*.md"]
    },
    ` + fmt.Sprintf(searchPathSchema, "The directory to look in") + `,
    ` + ignoredSchema + `,
    ` + limits(sandboxprofile.GlobFiles).schema("paths") + `
  }
}`),
	Annotations: tools.Annotations{Title: "Find files by name", ReadOnlyHint: true, IdempotentHint: true},
}

var grepDefinition = tools.Definition{
	Name: "grep",
	Description: "Search the content of files, line by line: path:number:line for a match, path-number-line for context. " +
		"Skips .git, files that .gitignore excludes, and binary files. Links are not followed.",
	InputSchema: json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["pattern"],
  "properties": {
    "pattern": {
      "type": "string",
      "minLength": 1,
      "maxLength": 4096,
      "description": "A regular expression in RE2 syntax (no backreferences or lookaround), matched against one line at a time.",
      "examples": ["func \\w+Error\\(", "TODO|FIXME"]
    },
    "literal": {
      "type": "boolean",
      "description": "Treat pattern as plain text."
    },
    "ignore_case": {
      "type": "boolean",
      "description": "Ignore case."
    },
    ` + fmt.Sprintf(searchPathSchema, "The directory to search, or one file") + `,
    "glob": {
      "type": "string",
      "minLength": 1,
      "maxLength": 1024,
      "description": "Only search files whose name matches, or with a leading !, does not match. A pattern with a slash is matched against the path below the directory.",
      "examples": ["*.go", "*.{ts,tsx}", "!*_test.go", "src/**/*.py"]
    },
    "context": {
      "type": "integer",
      "minimum": 0,
      "maximum": 50,
      "description": "Number of context lines before and after each match.",
      "examples": [2]
    },
    "before": {
      "type": "integer",
      "minimum": 0,
      "maximum": 50,
      "description": "Number of context lines before each match. Default: context."
    },
    "after": {
      "type": "integer",
      "minimum": 0,
      "maximum": 50,
      "description": "Number of context lines after each match. Default: context."
    },
    "files_only": {
      "type": "boolean",
      "description": "Return only the paths of files with a match."
    },
    ` + ignoredSchema + `,
    ` + limits(sandboxprofile.GrepFiles).schema("matches") + `
  }
}`),
	Annotations: tools.Annotations{Title: "Search file contents", ReadOnlyHint: true, IdempotentHint: true},
}

// searcher is list_files, glob or grep.
type searcher struct {
	Config
	definition tools.Definition
	kind       sandboxprofile.Kind
	verb       string
}

func (s *searcher) Definition() tools.Definition { return s.definition }

// Plan implements tools.Tool.
func (s *searcher) Plan(c tools.Call) (tools.Proposal, error) {
	given := c.String("path")
	if given == "" {
		given = "."
	}
	d, err := s.decideDir(given)
	switch {
	case err != nil:
		return tools.Proposal{}, err
	case d.Effect == tools.Deny:
		return tools.Proposal{}, blocked(d)
	}
	search, err := s.search(c, d)
	if err != nil {
		return tools.Proposal{}, err
	}
	search.Prefix = prefix(given)
	operation := &sandboxprofile.Operation{Path: d.Path, Search: search, MaxBytes: min(maxFound, s.Profile.Limits.Output)}
	return tools.Proposal{
		Plan: tools.Plan{
			Tool: s.definition.Name, Kind: tools.Sandboxed, Profile: s.Profile,
			Action: sandboxprofile.Action{Kind: s.kind, File: operation},
		},
		Request: request(s.definition.Name, s.verb, d),
		Rule:    ruleName(d),
		Present: func(context.Context) (*approval.Presentation, error) { return s.present(*operation), nil },
	}, nil
}

// decideDir decides about a path that is, as a rule, a directory: the endings
// that a rule asks for are those of files, and GrepFiles looks at them.
func (s *searcher) decideDir(given string) (tools.PathDecision, error) {
	paths := s.Paths
	paths.Rules = slices.Clone(paths.Rules)
	for i := range paths.Rules {
		paths.Rules[i].Suffixes = nil
	}
	return paths.DecideArgument(given, false)
}

// search reads the arguments.
func (s *searcher) search(c tools.Call, d tools.PathDecision) (*sandboxprofile.Search, error) {
	limit := limits(s.kind)
	search := &sandboxprofile.Search{
		Ignored: c.Bool("ignored"),
		Limit:   min(c.Int("limit", limit.fallback), limit.maximum),
		Within:  s.within(),
		Root:    d.Rule.Root,
		Hide:    s.Paths.Hide,
		Exclude: s.excluded(d.Path),
	}
	var err error
	switch s.kind {
	case sandboxprofile.ListFiles:
		search.Depth = c.Int("depth", 1)
	case sandboxprofile.GlobFiles:
		search.Glob = c.String("pattern")
		err = globError("pattern", search.Glob)
	case sandboxprofile.GrepFiles:
		err = s.grep(c, search, d.Path)
	}
	return search, err
}

// within leaves a search some of the call's own time to answer in.
func (s *searcher) within() time.Duration {
	if wall := s.Profile.Limits.Wall; wall > 0 {
		return min(searchTime, wall/2)
	}
	return searchTime
}

func (s *searcher) grep(c tools.Call, search *sandboxprofile.Search, dir string) error {
	search.Glob = c.String("glob")
	if search.Glob != "" {
		if err := globError("glob", strings.TrimPrefix(strings.TrimPrefix(search.Glob, "!"), "/")); err != nil {
			return err
		}
	}
	search.FilesOnly = c.Bool("files_only")
	search.Before = c.Int("before", c.Int("context", 0))
	search.After = c.Int("after", c.Int("context", 0))
	search.Suffixes = s.suffixes(dir)
	search.Pattern = pattern(c)
	if _, err := sandboxprofile.CompilePattern(search.Pattern); err != nil {
		return &tools.ArgumentError{Field: "pattern", Reason: err.Error(), Hint: `set literal to search for plain text, or write \( for a parenthesis`}
	}
	return nil
}

func pattern(c tools.Call) string {
	p := c.String("pattern")
	if c.Bool("literal") {
		p = regexp.QuoteMeta(p)
	}
	if c.Bool("ignore_case") {
		p = "(?i:" + p + ")"
	}
	return p
}

func globError(field, glob string) error {
	if _, err := sandboxprofile.ParseGlob(glob); err != nil {
		return &tools.ArgumentError{Field: field, Reason: err.Error(), Hint: "use for example **/*.go, and give the start directory as path"}
	}
	return nil
}

// suffixes gives the endings that files at dir may have, nil for any. Of two rules
// for one root, both hold.
func (s *searcher) suffixes(dir string) []string {
	var root string
	var allowed []string
	for _, r := range s.Paths.Rules {
		switch {
		case !holds(r.Root, dir) || len(r.Root) < len(root):
		case len(r.Root) > len(root) || allowed == nil:
			root, allowed = r.Root, r.Suffixes
		case r.Suffixes != nil:
			allowed = slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { return !slices.Contains(r.Suffixes, a) })
			if len(allowed) == 0 {
				allowed = []string{"/"} // no name ends like that
			}
		}
	}
	return allowed
}

// excluded gives the roots below dir whose rules ask before a read, or let only
// some files be read: a search from above would get around them.
func (s *searcher) excluded(dir string) []string {
	var roots []string
	for _, r := range s.Paths.Rules {
		if r.Root != dir && holds(dir, r.Root) && (r.ReadApproval || len(r.Suffixes) > 0) {
			roots = append(roots, r.Root)
		}
	}
	slices.Sort(roots)
	return slices.Compact(roots)
}

// holds reports whether p is root or below it.
func holds(root, p string) bool {
	return p == root || root == "/" || strings.HasPrefix(p, root+"/")
}

// prefix makes the names in the results usable as paths.
func prefix(given string) string {
	clean := path.Clean(given)
	if strings.Contains(given, "..") {
		clean = strings.TrimRight(given, "/") // "link/.." is not cleaned away: it is elsewhere
	}
	switch {
	case clean == ".":
		return ""
	case strings.HasSuffix(clean, "/"):
		return clean
	}
	return clean + "/"
}

// present says what would be looked at. The findings are not shown: a person who
// decides whether an agent may see them need not have them on the screen.
func (s *searcher) present(o sandboxprofile.Operation) *approval.Presentation {
	where := approval.EscapeName(o.Path)
	text := ""
	switch s.kind {
	case sandboxprofile.ListFiles:
		text = fmt.Sprintf("list %s, %d level", where, o.Search.Depth)
		if o.Search.Depth > 1 {
			text += "s"
		}
	case sandboxprofile.GlobFiles:
		text = fmt.Sprintf("find files named %s in %s", approval.EscapeName(o.Search.Glob), where)
	default:
		text = fmt.Sprintf("search the files in %s for %s", where, approval.EscapeName(o.Search.Pattern))
		if o.Search.Glob != "" {
			text += ", in files named " + approval.EscapeName(o.Search.Glob)
		}
	}
	return &approval.Presentation{Type: approval.Text, Content: text}
}
