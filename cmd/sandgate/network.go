package main

import (
	"fmt"
	"maps"

	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor"
	"github.com/sandgate/sandgate/supervisor/config"
)

// proxyVariables point programs at the sandbox's one way out. They are for
// convenience: a program that ignores them reaches nothing. The sandbox's own
// loopback is reached without the proxy.
func proxyVariables() map[string]string {
	http := fmt.Sprintf("http://127.0.0.1:%d", confine.EgressPort)
	vars := map[string]string{
		"ALL_PROXY": fmt.Sprintf("socks5h://127.0.0.1:%d", confine.EgressPort),
		"NO_PROXY":  "localhost,127.0.0.1,::1",
		// npm and its relatives, cargo, and node from 24 on
		"npm_config_proxy": http, "npm_config_https_proxy": http,
		"CARGO_HTTP_PROXY": http, "NODE_USE_ENV_PROXY": "1",
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

// withProxy adds the proxy's variables where programs have an allow-list of
// hosts. What the configuration sets by itself wins.
func withProxy(n config.Network, set map[string]string) map[string]string {
	if n.Mode != config.NetworkAllow {
		return set
	}
	vars := proxyVariables()
	maps.Copy(vars, set)
	return vars
}

// network is a configured network in the words of package sandboxprofile. Rules
// are checked here, so that a bad one stops the start and not the first call.
func network(n config.Network) (sandboxprofile.Network, error) {
	switch n.Mode {
	case config.NetworkHost:
		return sandboxprofile.Network{Mode: sandboxprofile.NetworkHost}, nil
	case config.NetworkAllow:
		for _, rule := range n.Allow {
			if _, err := egress.ParseRule(rule); err != nil {
				return sandboxprofile.Network{}, err
			}
		}
		return sandboxprofile.Network{Mode: sandboxprofile.NetworkProxied, Allow: [][]string{n.Allow}}, nil
	default:
		return sandboxprofile.Network{}, nil
	}
}

func egressConfig(cfg *config.Config) supervisor.EgressConfig {
	return supervisor.EgressConfig{Ask: cfg.Shell.Network.Ask, AllowPrivate: !cfg.Egress.DenyPrivate}
}
