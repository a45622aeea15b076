package assemble

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/config"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/hostrule"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/gateway"
	"github.com/sandgate/sandgate/tools"
)

// ProxyVariables point programs at the sandbox's one way out. They are for
// convenience: a program that ignores them is carried too. The sandbox's own
// loopback is reached without the proxy.
func ProxyVariables() map[string]string {
	http := fmt.Sprintf("http://127.0.0.1:%d", confine.EgressPort)
	vars := map[string]string{
		"ALL_PROXY": fmt.Sprintf("socks5h://127.0.0.1:%d", confine.EgressPort),
		"NO_PROXY":  "localhost,127.0.0.1,::1",
		// npm and its relatives, cargo, and node from 24 on
		"npm_config_proxy": http, "npm_config_https_proxy": http,
		"YARN_HTTP_PROXY": http, "YARN_HTTPS_PROXY": http, "CARGO_HTTP_PROXY": http, "NODE_USE_ENV_PROXY": "1",
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		vars[name] = http
	}
	lower := map[string]string{
		"http_proxy": http, "https_proxy": http, "all_proxy": vars["ALL_PROXY"], "no_proxy": vars["NO_PROXY"],
	}
	maps.Copy(vars, lower)
	return vars
}

// javaOptions are variables with options for Java, which knows no proxy variable. Without
// namespaces it would look names up, which nothing answers there.
var javaOptions = []string{"MAVEN_OPTS", "GRADLE_OPTS"}

// javaProxy has Java use the sandbox's one way out.
func javaProxy() string {
	const at = "-D%[1]s.proxyHost=127.0.0.1 -D%[1]s.proxyPort=%[2]d"
	return fmt.Sprintf(at+" ", "http", confine.EgressPort) + fmt.Sprintf(at, "https", confine.EgressPort)
}

// withJavaProxy adds that to the options that programs have anyway.
func withJavaProxy(cfg *config.Config, env []string) []string {
	if cfg.Shell.Network.Mode != config.NetworkAllow {
		return env
	}
	add := map[string]string{}
	for _, name := range javaOptions {
		had, _ := tools.LookupEnv(env, name)
		if _, set := cfg.Sandbox.Env.Set[name]; !set {
			add[name] = strings.TrimSpace(had + " " + javaProxy())
		}
	}
	return tools.WithEnv(env, add)
}

// once are variables for package managers that try a registry again: npm does for 70 seconds,
// silently, where there is no network.
var once = map[string]string{"npm_config_fetch_retries": "0", "PIP_RETRIES": "0"}

// WithoutNetwork are the variables that narrowing the network to none adds.
func WithoutNetwork() []string { return slices.Sorted(maps.Keys(once)) }

// withoutRetries adds them unless the user or the configuration has set one.
func withoutRetries(cfg *config.Config, env []string) []string {
	if cfg.Shell.Network.Mode != config.NetworkNone {
		return env
	}
	add := maps.Clone(once)
	maps.DeleteFunc(add, func(name, _ string) bool { _, set := tools.LookupEnv(env, name); return set })
	return tools.WithEnv(env, add)
}

// proxyEnv is proxyVariables as NAME=value.
func proxyEnv() []string {
	var env []string
	for name, value := range ProxyVariables() {
		env = append(env, name+"="+value)
	}
	return env
}

// withProxy adds the proxy's variables where programs have an allow-list of
// hosts. What the configuration sets by itself wins.
func withProxy(n config.Network, set map[string]string) map[string]string {
	if n.Mode != config.NetworkAllow {
		return set
	}
	vars := ProxyVariables()
	maps.Copy(vars, set)
	return vars
}

// network is a configured network in the words of package sandboxprofile.
func network(n config.Network) (sandboxprofile.Network, error) {
	switch n.Mode {
	case config.NetworkHost:
		return sandboxprofile.Network{Mode: sandboxprofile.NetworkHost}, nil
	case config.NetworkAllow:
		rules, err := networkRules(n)
		return sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{rules}, Ask: n.Ask, Expose: n.Exposed()}, err
	default:
		return sandboxprofile.Network{Expose: n.Exposed()}, nil
	}
}

// networkRules are the hosts and the services of a list as the proxy reads them.
func networkRules(n config.Network) ([]string, error) {
	rules := n.Hosts()
	for _, name := range slices.Sorted(maps.Keys(n.Services)) {
		rule, err := hostrule.ServiceRule(name, n.Services[name])
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule.String())
	}
	return rules, nil
}

// credentials are those under a key of the configuration, for a network, as plans hold
// them. Services and hosts were checked when the configuration was loaded.
func credentials(key string, configured []config.Credential, n config.Network) tools.Credentials {
	c := tools.Credentials{Rule: key, Covers: covers}
	for _, x := range configured {
		s := sandboxprofile.Secret{Name: x.Name, File: x.File}
		if host, err := hostrule.CredentialHost(x.Host); x.Host != "" && err == nil {
			s.Host = host.String()
		} else if rule, err := hostrule.ServiceRule(x.Service, n.Services[x.Service]); err == nil {
			s.Service = rule.String()
		}
		if s.Unseen() {
			c.List = append(c.List, s)
		}
	}
	return c
}

func shellCredentials(cfg *config.Config) tools.Credentials {
	return credentials("shell.credentials", cfg.Shell.Credentials, cfg.Shell.Network)
}

// covers reports whether one of rules is for host, as the proxy sees it.
func covers(rules []string, host string) bool {
	t, err := hostrule.CredentialHost(host)
	return err == nil && slices.ContainsFunc(rules, func(rule string) bool {
		r, err := hostrule.Parse(rule)
		return err == nil && r.Matches(t)
	})
}

func egressConfig(cfg *config.Config) (c gateway.Config, warnings []string, err error) {
	l := cfg.Egress.Limits
	c = gateway.Config{AllowPrivate: !cfg.Egress.DenyPrivate, Limits: egress.Limits{
		Connections: int(l.Open), Total: int(l.Connections), Bytes: int64(l.Bytes), Idle: l.Idle,
	}}
	c.Upstream, warnings, err = upstream(cfg.Egress)
	return c, warnings, err
}

// upstream is the proxy that connections leave the machine by: the configured one, or else
// that of sandgate's own environment, as everything else on the machine has it.
func upstream(e config.Egress) (u egress.Upstream, warnings []string, err error) {
	noProxy := anyCase("NO_PROXY")
	switch e.Upstream {
	case "none":
		return u, nil, nil
	case "":
		for _, name := range []string{"HTTPS_PROXY", "ALL_PROXY", "HTTP_PROXY"} {
			text := anyCase(name)
			if text == "" {
				continue
			}
			if !strings.Contains(text, "://") {
				text = "http://" + text
			}
			if u, err = egress.ParseUpstream(text, noProxy); err != nil {
				return u, []string{name + " " + err.Error() + ": hosts are reached without it."}, nil
			}
			break
		}
	default:
		if u, err = egress.ParseUpstream(e.Upstream, noProxy); err != nil {
			return u, nil, hinted(configError(fmt.Errorf("egress.upstream %w", err)), "write http://proxy.example.org:3128, or none")
		}
	}
	if e.UpstreamUser == "" {
		return u, nil, nil
	}
	text, err := os.ReadFile(e.UpstreamUser)
	if err != nil {
		return u, nil, hinted(configError(fmt.Errorf("egress.upstream_user: %w", err)), "the supervisor reads it, as this user")
	}
	user, password, ok := strings.Cut(strings.TrimRight(string(text), "\r\n"), ":")
	if !ok {
		return u, nil, hinted(configError(fmt.Errorf("egress.upstream_user: %s does not contain USER:PASSWORD", e.UpstreamUser)), "write both into it, with a colon between them")
	}
	return u.WithUser(user, password), nil, nil
}

// anyCase is a variable that is written in capitals or in small letters.
func anyCase(name string) string {
	return cmp.Or(os.Getenv(strings.ToLower(name)), os.Getenv(name))
}
