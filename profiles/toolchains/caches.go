package toolchains

import "strings"

// A Cache is a variable that leads programs to a directory which they fill by themselves
// and read again: one that sandboxes of a workspace have for themselves, never the one
// that programs outside use.
type Cache struct {
	Variable string
	Name     string // of the directory
	Reason   string
	// Outside is the directory whose place it takes, of which programs inside could read
	// what was downloaded before. It takes that place where they can download, once
	// they have, or if there is nothing to read.
	Outside string
	// Beside has programs read Outside beside their own directory, if there is something to
	// read.
	Beside bool
	// unless is a name in the project with which the variable would be in the way.
	unless string
	// value is of the variable, if it is not the directory alone: {dir} and {outside}
	// stand for these, and {had} for what it is without, or else for had.
	value, had string
}

// Value is the value that the variable is to have. had is the value that it has
// without.
func (c Cache) Value(dir, had string) string {
	if c.value == "" {
		return dir
	}
	if had == "" {
		had = c.had
	}
	return strings.TrimSpace(strings.NewReplacer("{dir}", dir, "{outside}", c.Outside, "{had}", had).Replace(c.value))
}

// caches are those of each family.
var caches = map[string][]Cache{
	"go": {
		{Variable: "GOCACHE", Name: "go-build", Reason: "what Go has compiled and tested"},
		{Variable: "GOMODCACHE", Name: "go-mod", Reason: "Go's downloaded modules", Outside: "~/go/pkg/mod"},
		{Variable: "GOPROXY", Name: "go-mod", Reason: "modules downloaded outside the sandbox are read from there", Outside: "~/go/pkg/mod",
			value: "file://{outside}/cache/download,{had}", had: "https://proxy.golang.org,direct"},
	},
	"rust": {{Variable: "CARGO_HOME", Name: "cargo", Reason: "downloaded crates", Outside: "~/.cargo"}},
	"python": {
		{Variable: "PIP_CACHE_DIR", Name: "pip", Reason: "packages that pip downloaded and built"},
		{Variable: "UV_CACHE_DIR", Name: "uv", Reason: "packages that uv downloaded and built"},
	},
	"node": {
		{Variable: "npm_config_cache", Name: "npm", Reason: "packages that npm downloaded"},
		// Yarn from 2 on takes it for the cache that a project may have in itself.
		{Variable: "YARN_CACHE_FOLDER", Name: "yarn", Reason: "packages that yarn downloaded", unless: ".yarnrc.yml"},
		{Variable: "YARN_GLOBAL_FOLDER", Name: "yarn-berry", Reason: "packages that yarn 2 and later downloaded", Outside: "~/.yarn/berry"},
	},
	"java projects": {
		{Variable: "MAVEN_OPTS", Name: "maven", Reason: "artifacts that Maven downloaded", Outside: "~/.m2/repository", value: "{had} -Dmaven.repo.local={dir}"},
		// Gradle starts with no directory that it can only read.
		{Variable: "GRADLE_USER_HOME", Name: "gradle", Reason: "what Gradle downloaded and built"},
		{Variable: "GRADLE_RO_DEP_CACHE", Name: "gradle", Reason: "artifacts downloaded outside the sandbox are read from there, since Gradle 6.2", Outside: "~/.gradle/caches",
			value: "{outside}", Beside: true},
	},
	"c": {{Variable: "CCACHE_DIR", Name: "ccache", Reason: "what ccache has compiled"}},
}
