package toolchains

import (
	"strings"

	sp "github.com/sandgate/sandgate/sandboxprofile"
)

// A family is one kind of toolchain: when it is there, and what its programs read. Paths
// begin with "~/" or "/", and may have "*" for one name.
type family struct {
	name string
	// path are directories of PATH, programs are found in any directory of PATH, starts
	// are programs that the call itself names, and markers lie in a project: any of them
	// says that the toolchain is used. What is large is shown only where it is used.
	path, programs, starts, markers []string
	preset                          string // a shipped preset, whole
	grants                          []sp.Grant
	versions                        *versions // of which only those in use are shown
}

const (
	read    = sp.Read
	execute = sp.Read | sp.Execute
)

// families are the toolchains that are known by name.
var families = []family{
	env("pyenv", "Python"), env("rbenv", "Ruby"), env("nodenv", "Node.js"), env("goenv", "Go"),
	env("jenv", "Java"), env("plenv", "Perl"), env("phpenv", "PHP"),
	{name: "asdf", path: []string{"~/.asdf/shims", "~/.asdf/bin"}, grants: []sp.Grant{
		{Path: "~/.asdf", Rights: execute, Reason: "asdf, its plugins and what it installed"},
		{Path: "~/.tool-versions", Rights: read, Reason: "which versions are the default"},
		{Path: "~/.asdfrc", Rights: read, Reason: "settings of asdf"},
	}},
	{name: "mise", path: []string{"~/.local/share/mise/shims", "~/.local/share/mise/installs/*/*/bin"}, grants: []sp.Grant{
		{Path: "~/.local/share/mise/shims", Rights: execute, Reason: "programs under the names that mise gives them"},
		{Path: "~/.local/share/mise/installs", Rights: execute, Reason: "what mise installed"},
		{Path: "~/.local/share/mise/plugins", Rights: execute, Reason: "plugins of mise"},
		{Path: "~/.local/state/mise", Rights: read, Reason: "which configurations mise trusts"},
		{Path: "~/.config/mise", Rights: read, Reason: "which versions are the default"},
		{Path: "~/.tool-versions", Rights: read, Reason: "which versions are the default"},
	}},
	{name: "volta", path: []string{"~/.volta/bin"}, grants: []sp.Grant{
		{Path: "~/.volta/bin", Rights: execute, Reason: "programs under the names that Volta gives them"},
		{Path: "~/.volta/tools", Rights: execute, Reason: "Node.js and packages installed by Volta"},
		{Path: "~/.volta/hooks.json", Rights: read, Reason: "where Volta downloads from"},
		{Path: "~/.volta/layout.v4", Rights: read, Reason: "how Volta's files are laid out"},
	}},
	{name: "fnm", programs: []string{"fnm"}, grants: []sp.Grant{
		{Path: "~/.local/share/fnm/node-versions", Rights: execute, Reason: "Node.js installed by fnm, which it lists"},
		{Path: "~/.local/share/fnm/aliases", Rights: execute, Reason: "which of them is the default"},
	}},
	{name: "rustup", path: []string{"~/.cargo/bin"}, programs: []string{"cargo", "rustup"}, grants: []sp.Grant{
		{Path: "~/.cargo/bin", Rights: execute, Reason: "cargo, rustc and installed tools"},
		{Path: "~/.cargo/config.toml", Rights: read, Reason: "settings of cargo"},
		{Path: "~/.rustup/toolchains/*/bin", Rights: execute, Reason: "compilers"},
		{Path: "~/.rustup/toolchains/*/lib", Rights: execute, Reason: "standard libraries"},
		{Path: "~/.rustup/toolchains/*/libexec", Rights: execute, Reason: "what cargo starts"},
		{Path: "~/.rustup/toolchains/*/etc", Rights: read, Reason: "settings of debuggers"},
		{Path: "~/.rustup/settings.toml", Rights: read, Reason: "which toolchain is the default"},
	}},
	{name: "rust", starts: []string{"cargo", "rustc"}, markers: []string{"Cargo.toml"}, grants: []sp.Grant{
		{Path: "~/.cargo/registry", Rights: read, Reason: "downloaded crates, read-only"},
		{Path: "~/.cargo/git", Rights: read, Reason: "crates from git, read-only"},
	}},
	{name: "go", starts: []string{"go", "gopls", "dlv"}, markers: []string{"go.mod", "go.work"}, preset: "go"},
	{name: "go programs", path: []string{"~/go/bin"}, programs: []string{"go"}, grants: []sp.Grant{
		{Path: "~/go/bin", Rights: execute, Reason: "installed tools"},
		{Path: "~/sdk", Rights: execute, Reason: "toolchains installed by golang.org/dl"},
		{Path: "~/.config/go/env", Rights: read, Reason: "settings of the go command"},
	}},
	{name: "python", programs: []string{"python3", "python"}, grants: []sp.Grant{
		{Path: "/etc/python3", Rights: read, Reason: "settings of the interpreter"},
		{Path: "~/.local/lib", Rights: execute, Reason: "packages installed for the user"},
		{Path: "~/.config/pip/pip.conf", Rights: read, Reason: "where pip finds packages; not if it contains a token"},
		{Path: "~/.pip/pip.conf", Rights: read, Reason: "where pip finds packages; not if it contains a token"},
		{Path: "/etc/pip.conf", Rights: read, Reason: "where pip finds packages; not if it contains a token"},
		{Path: "~/.config/uv/uv.toml", Rights: read, Reason: "settings of uv; not if it contains a token"},
	}},
	{name: "node", programs: []string{"node", "npm", "pnpm", "yarn", "corepack"}, markers: []string{"package.json"}, grants: []sp.Grant{
		{Path: "~/.cache/node/corepack", Rights: execute, Reason: "package managers that corepack fetched"},
		{Path: "~/.npmrc", Rights: read, Reason: "where npm finds packages; not if it contains a token"},
		{Path: "~/.yarnrc.yml", Rights: read, Reason: "where yarn finds packages; not if it contains a token"},
	}},
	{name: "yarn projects", starts: []string{"yarn"}, markers: []string{"yarn.lock", ".pnp.cjs"}, grants: []sp.Grant{
		{Path: "~/.yarn/berry/cache", Rights: read, Reason: "packages that yarn downloaded, read-only: programs load them from there"},
	}},
	{name: "java", programs: []string{"java", "mvn", "gradle"}, grants: []sp.Grant{
		{Path: "/etc/java-*-openjdk", Rights: read, Reason: "settings of the runtime on Debian"},
		{Path: "/etc/java", Rights: read, Reason: "settings of the runtime"},
		{Path: "/etc/ssl/certs/java", Rights: read, Reason: "certificate authorities for Java"},
		{Path: "/etc/maven", Rights: read, Reason: "settings of Maven; not if they contain a password"},
	}},
	{name: "java projects", markers: []string{"pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradlew", "mvnw"},
		starts: []string{"mvn", "gradle", "java", "javac"}, preset: "java"},
	{name: "maven and gradle wrappers", markers: []string{"mvnw", "gradlew"}, grants: []sp.Grant{
		{Path: "~/.m2/wrapper", Rights: execute, Reason: "Maven itself"},
		{Path: "~/.gradle/jdks", Rights: execute, Reason: "Java that Gradle installed"},
	}},
	{name: "chromium", programs: []string{"chromium"}, grants: []sp.Grant{
		{Path: "/etc/chromium", Rights: read, Reason: "policies and settings of the browser, on Debian"},
		{Path: "/etc/chromium.d", Rights: read, Reason: "options that the browser is started with, on Debian"},
	}},
	{name: "ruby", programs: []string{"ruby"}, preset: "ruby"},
	{name: "perl", programs: []string{"perl"}, grants: []sp.Grant{
		{Path: "/etc/perl", Rights: read, Reason: "settings of the interpreter and modules of the machine, on Debian"},
		{Path: "~/perl5", Rights: execute, Reason: "modules installed by local::lib"},
	}},
	{name: "php", programs: []string{"php"}, preset: "php"},
	{name: "dotnet", path: []string{"~/.dotnet", "~/.dotnet/tools"}, programs: []string{"dotnet"}, preset: "dotnet"},
	{name: "c", programs: []string{"conan", "ccache", "vcpkg"}, markers: []string{"conanfile.txt", "conanfile.py", "vcpkg.json"}, preset: "c"},
	{name: "nix", path: []string{"~/.nix-profile/bin", "/nix/*/*/*/bin", "/nix/*/*/*/*/bin", "/run/current-system/sw/bin", "/etc/profiles/per-user/*/bin"}, grants: []sp.Grant{
		{Path: "/nix/store", Rights: execute, Reason: "what Nix built; every user can read it, and no user changes it"},
		{Path: "/nix/var/nix/profiles", Rights: execute, Reason: "links to what is installed"},
		{Path: "~/.nix-profile", Rights: execute, Reason: "a link to what is installed"},
	}},
	{name: "flutter", programs: []string{"dart"}, markers: []string{"pubspec.yaml"}, grants: []sp.Grant{
		{Path: "~/.pub-cache", Rights: execute, Reason: "downloaded packages, read-only; credentials in it are hidden"},
	}},
	{name: "haskell", path: []string{"~/.ghcup/bin", "~/.cabal/bin"}, grants: []sp.Grant{
		{Path: "~/.ghcup/bin", Rights: execute, Reason: "programs under the names that ghcup gives them"},
		{Path: "~/.ghcup/ghc", Rights: execute, Reason: "compilers installed by ghcup"},
		{Path: "~/.ghcup/hls", Rights: execute, Reason: "language servers installed by ghcup"},
		{Path: "~/.cabal/bin", Rights: execute, Reason: "programs installed by cabal"},
		{Path: "~/.cabal/packages", Rights: read, Reason: "downloaded packages, read-only"},
		{Path: "~/.cabal/store", Rights: execute, Reason: "built packages, read-only"},
	}},
}

// env is a version manager of the family that rbenv began: all lie alike.
func env(name, language string) family {
	home := "~/." + name + "/"
	return family{name: name, path: []string{home + "shims", home + "bin", home + "versions/*/bin"}, grants: []sp.Grant{
		{Path: home + "bin", Rights: execute, Reason: name + " itself"},
		{Path: home + "libexec", Rights: execute, Reason: name + " itself"},
		{Path: home + "completions", Rights: read, Reason: name + " itself"},
		{Path: home + "plugins", Rights: execute, Reason: "plugins of " + name},
		{Path: home + name + ".d", Rights: execute, Reason: "hooks of " + name},
		{Path: home + "shims", Rights: execute, Reason: "programs under the names that " + name + " gives them"},
		{Path: home + "version", Rights: read, Reason: "which version is the default"},
	}, versions: &versions{
		in: home + "versions", variable: strings.ToUpper(name) + "_VERSION", file: "." + versioned[name] + "-version",
		global: home + "version", reason: language + " installed by " + name,
	}}
}

// versioned is the word for a language in the name of the file by which a project
// chooses a version.
var versioned = map[string]string{
	"pyenv": "python", "rbenv": "ruby", "nodenv": "node", "goenv": "go", "jenv": "java", "plenv": "perl", "phpenv": "php",
}

// versions are those that a version manager has installed: one may have tens of
// thousands of files, and a project uses one.
type versions struct {
	in       string // the directory that they lie in
	variable string // that names the one in use, before
	file     string // of the project or of a directory above, before
	global   string // the file that names the default
	reason   string
}

// trees are directories that hold one installed toolchain each. A pointer in a workspace,
// which a tool may have written, is followed to one of these and to nothing else.
var trees = []string{
	"~/.pyenv/versions/*", "~/.local/share/uv/python/*", "~/.local/share/uv/tools/*", "~/.rye/py/*",
	"~/.local/share/pipx/venvs/*", "~/.local/pipx/venvs/*", "~/.virtualenvs/*", "~/.local/share/virtualenvs/*",
	"~/.cache/pypoetry/virtualenvs/*", "~/.asdf/installs/*/*", "~/.local/share/mise/installs/*/*",
	"~/miniconda3", "~/anaconda3", "~/miniforge3", "~/mambaforge", "~/.conda/envs/*", "~/micromamba",
	"~/.nvm/versions/node/*", "~/.local/share/fnm/node-versions/*/installation", "~/.fnm/node-versions/*/installation",
	"~/.sdkman/candidates/*/*", "~/.rbenv/versions/*", "~/.rubies/*", "~/.rustup/toolchains/*",
	"~/.nodenv/versions/*", "~/.goenv/versions/*", "~/.jenv/versions/*", "~/.plenv/versions/*", "~/.phpenv/versions/*",
	"~/.ghcup/ghc/*", "~/.ghcup/cabal/*", "~/.ghcup/hls/*", "~/.volta/tools", "~/.cache/node/corepack",
	"/home/linuxbrew/.linuxbrew", "~/.linuxbrew", "/opt/*",
	"~/flutter", "~/development/flutter", "~/fvm/versions/*", "~/google-cloud-sdk",
}

// places says which variable puts a directory elsewhere.
var places = map[string]string{
	"~/.pyenv": "PYENV_ROOT", "~/.rbenv": "RBENV_ROOT", "~/.nodenv": "NODENV_ROOT", "~/.goenv": "GOENV_ROOT",
	"~/.jenv": "JENV_ROOT", "~/.plenv": "PLENV_ROOT", "~/.phpenv": "PHPENV_ROOT",
	"~/.asdf": "ASDF_DATA_DIR", "~/.local/share/mise": "MISE_DATA_DIR", "~/.volta": "VOLTA_HOME",
	"~/.cargo": "CARGO_HOME", "~/.rustup": "RUSTUP_HOME", "~/go": "GOPATH", "~/.nvm": "NVM_DIR",
	"~/.local/share/fnm": "FNM_DIR", "~/.sdkman": "SDKMAN_DIR", "~/.gradle": "GRADLE_USER_HOME",
	"~/.virtualenvs": "WORKON_HOME", "~/.pub-cache": "PUB_CACHE", "~/.cache/node/corepack": "COREPACK_HOME",
	"~/.nuget/packages": "NUGET_PACKAGES", "~/.dotnet": "DOTNET_ROOT",
}

// shared are directories of the home directory in which things of all kinds lie: none is
// the tree of a toolchain.
var shared = []string{
	"~/.local", "~/.local/share", "~/.local/state", "~/.config", "~/.cache", "~/.var", "~/.var/app", "~/snap",
	"~/Desktop", "~/Documents", "~/Downloads", "~/Library", "~/Library/Application Support", "~/Applications",
}

// installedDirs and installedFiles are found in the tree of a toolchain beside its programs, as archives and
// installers make it.
var installedDirs = []string{
	"lib", "lib32", "lib64", "include", "share", "etc", "man", "pkg", "conf", "jmods", "legal", "boot", "init.d",
	"api", "doc", "misc", "test", "demo", "sample", "license", "licenses", "ssl", "var", "conda-meta", "envs", "pkgs",
}

var installedFiles = []string{
	"README*", "LICENSE*", "LICENCE*", "NOTICE*", "COPYING*", "COPYRIGHT*", "CHANGELOG*", "CHANGES*", "CONTRIBUTING*", "SECURITY*", "AUTHORS*",
	"PATENTS", "VERSION", "ASSEMBLY_EXCEPTION", "THIRD_PARTY_README", "release", "build.txt", "src.zip", "codereview.cfg", "go.env", "pyvenv.cfg",
}

// roots are directories outside of the home directory in which things of all kinds lie.
var roots = []string{"/", "/home", "/opt", "/srv", "/mnt", "/media", "/var", "/var/lib", "/run", "/tmp", "/var/tmp", "/Users", "/data", "/export"}

// named are programs whose namesakes do another thing: where the one inside is not the one
// outside, a note says so.
var named = []string{
	"python", "python3", "pip", "pip3", "node", "npm", "npx", "pnpm", "yarn", "java", "javac", "mvn", "gradle",
	"go", "cargo", "rustc", "ruby", "gem", "bundle", "perl", "php", "composer", "deno", "bun", "dotnet", "ghc", "uv",
}

// Variables name a directory or file of a toolchain, which is shown.
var directories = []string{
	"JAVA_HOME", "JDK_HOME", "GOROOT", "VIRTUAL_ENV", "CONDA_PREFIX", "M2_HOME", "MAVEN_HOME", "GRADLE_HOME",
	"ANDROID_HOME", "ANDROID_SDK_ROOT", "FLUTTER_ROOT", "DOTNET_ROOT", "KOTLIN_HOME", "SCALA_HOME", "GROOVY_HOME",
	"BUN_INSTALL", "DENO_INSTALL", "PNPM_HOME",
}

// certificates are variables that name a file of certificate authorities.
var certificates = []string{
	"SSL_CERT_FILE", "SSL_CERT_DIR", "PIP_CERT", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
	"CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE",
}

// certificateSettings are lines of a person's settings that name such a file. Settings of a
// workspace, which a tool may have written, name none.
var certificateSettings = []struct{ file, key string }{
	{"~/.npmrc", "cafile"}, {"~/.config/pip/pip.conf", "cert"}, {"~/.pip/pip.conf", "cert"},
}
