package config

import (
	_ "embed"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed starter.yaml
var starter string

// Init is a commented file to begin with. It loads as it is where the workspace exists;
// "" or "." is the directory that the file will lie in. files are the names of files in
// the workspace: the registries of their package managers can be reached, and any other
// host needs approval.
func Init(workspace string, files ...string) []byte {
	text := starter
	if workspace != "" && workspace != "." {
		text = strings.Replace(text, "root: .\n", "root: "+yamlText(workspace)+"\n", 1)
	}
	if names, hosts := Registries(files); len(hosts) > 0 {
		text = strings.Replace(text, noNetwork, "  # The registries of this project, by "+strings.Join(names, ", ")+
			". sandgate asks about any other host.\n  network:\n    allow:\n      - "+strings.Join(hosts, "\n      - ")+"\n    ask: true\n", 1)
	}
	if rules := projectRules(files); rules != "" {
		text = strings.Replace(text, firstDeny, rules+firstDeny, 1)
	}
	return []byte(text)
}

// firstDeny begins the rules of the starter that deny.
const firstDeny = `    - {pattern: "sudo"`

// checks are commands by which a project is built and tested. They run the project's own code,
// in the sandbox: allowing them allows that.
var checks = []struct {
	file     string
	commands []string
}{
	{"package.json", []string{"npm test", "npm run build", "npm run lint", "npm run test"}},
	{"go.mod", []string{"go build", "go test", "go vet", "gofmt -l", "go mod download"}},
	{"pyproject.toml", []string{"pytest", "python3 -m pytest"}},
	{"Cargo.toml", []string{"cargo build", "cargo check", "cargo test"}},
	{"pom.xml", []string{"mvn test"}},
	{"Makefile", []string{"make"}},
}

// projectRules are rules for the commands of a project that has files.
func projectRules(files []string) string {
	var b strings.Builder
	for _, c := range checks {
		if !slices.Contains(files, c.file) {
			continue
		}
		b.WriteString("    # " + c.file + ": these run the project's own code, in the sandbox.\n")
		for _, command := range c.commands {
			b.WriteString("    - {pattern: \"" + command + "\", approval: false}\n")
		}
	}
	return b.String()
}

// noNetwork is a line of the starter.
const noNetwork = "  network: none    # or host: no isolation at all\n"

// registries are where package managers load from, by the files that belong to them.
var registries = []struct{ files, hosts []string }{
	{[]string{"package.json", "package-lock.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "deno.json"}, []string{"registry.npmjs.org:443", "registry.yarnpkg.com:443"}},
	{[]string{"go.mod", "go.work"}, []string{"proxy.golang.org:443", "sum.golang.org:443"}},
	{[]string{"pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile", "uv.lock", "poetry.lock"}, []string{"pypi.org:443", "files.pythonhosted.org:443"}},
	{[]string{"Cargo.toml", "Cargo.lock"}, []string{"index.crates.io:443", "static.crates.io:443", "crates.io:443"}},
	{[]string{"pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "build.sbt"}, []string{"repo.maven.apache.org:443", "repo1.maven.org:443", "plugins.gradle.org:443"}},
	{[]string{"Gemfile", "Gemfile.lock"}, []string{"rubygems.org:443", "index.rubygems.org:443"}},
	{[]string{"composer.json"}, []string{"repo.packagist.org:443"}},
	{[]string{"mix.exs"}, []string{"repo.hex.pm:443"}},
}

// Registries are the hosts of those package managers that have one of files, and the
// files by which they were known.
func Registries(files []string) (names, hosts []string) {
	for _, r := range registries {
		if i := slices.IndexFunc(r.files, func(f string) bool { return slices.Contains(files, f) }); i >= 0 {
			names, hosts = append(names, r.files[i]), append(hosts, r.hosts...)
		}
	}
	return names, hosts
}

// yamlText writes s so that every YAML loader reads it back as text.
func yamlText(s string) string {
	raw, err := yaml.Marshal(textNode(s))
	if err != nil {
		panic("config: bug: text does not encode: " + err.Error())
	}
	return strings.TrimSuffix(string(raw), "\n")
}
