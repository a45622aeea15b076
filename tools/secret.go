package tools

import (
	"fmt"
	"slices"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/sandboxprofile"
)

// PinSecrets binds an approval to the files of secrets. Its error is an
// approval.Blocked with the rule, the configuration's key.
func PinSecrets(list []sandboxprofile.Secret, rule string) ([]Pin, error) {
	var pins []Pin
	for _, s := range list {
		pin, err := PinFile(s.File)
		if err != nil {
			return nil, &approval.Blocked{
				Reason: fmt.Sprintf("the secret %s of the tool cannot be read", s.Name), Rule: rule,
				Hint: "ask the operator to restore its file",
			}
		}
		pins = append(pins, pin)
	}
	return pins, nil
}

// Credentials are secrets that the egress proxy puts into the requests of a program,
// which has placeholders for them.
type Credentials struct {
	Rule string // the configuration's key
	List []sandboxprofile.Secret
	// Covers reports whether a list of the network's rules has a host, HOST:PORT. Nil
	// has none.
	Covers func(rules []string, host string) bool
}

// reachable are those whose service or host the profile's network has in every list.
// The others would be of no use, and need not be read.
func (c Credentials) reachable(p sandboxprofile.Profile) []sandboxprofile.Secret {
	if p.Network.Mode != sandboxprofile.NetworkProxied {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(c.List), func(s sandboxprofile.Secret) bool {
		return slices.ContainsFunc(p.Network.Allow, func(rules []string) bool { return !c.has(rules, s) })
	})
}

func (c Credentials) has(rules []string, s sandboxprofile.Secret) bool {
	if s.Host != "" {
		return c.Covers != nil && c.Covers(rules, s.Host)
	}
	return slices.Contains(rules, s.Service)
}

// Under is p as it is for a program that has the credentials: TLS to their hosts ends
// at the proxy, and variables say which certificates to trust.
func (c Credentials) Under(p sandboxprofile.Profile) sandboxprofile.Profile {
	p.Network.Terminated = nil
	for _, s := range c.reachable(p) {
		if s.Host != "" {
			p.Network.Terminated = append(p.Network.Terminated, s.Host)
		}
	}
	if len(p.Network.Terminated) == 0 {
		return p
	}
	slices.Sort(p.Network.Terminated)
	p.Network.Terminated = slices.Compact(p.Network.Terminated)
	if !p.Env.All {
		p.Env.Names = slices.Concat(p.Env.Names, TrustVariables())
		slices.Sort(p.Env.Names)
		p.Env.Names = slices.Compact(p.Env.Names)
	}
	return p
}

// Give lets a program use the credentials that are reachable from p. It gives the
// profile under which the program then runs, and binds an approval to the files. Its
// error is an approval.Blocked.
func (c Credentials) Give(program *sandboxprofile.Program, p sandboxprofile.Profile) (sandboxprofile.Profile, []Pin, error) {
	list := c.reachable(p)
	pins, err := PinSecrets(list, c.Rule)
	if err != nil {
		return p, nil, err
	}
	program.Secrets = slices.Concat(program.Secrets, list)
	p = c.Under(p)
	if len(p.Network.Terminated) > 0 {
		program.Env = trusting(program.Env)
	}
	return p, pins, nil
}

// TrustVariables name the certificates that programs trust: OpenSSL and what follows
// it (Python, Ruby, Go), curl, requests, Node.js, git, cargo, pip, the AWS tools,
// Deno, and programs of Nix.
func TrustVariables() []string {
	return []string{
		"AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO", "CURL_CA_BUNDLE", "DENO_CERT", "GIT_SSL_CAINFO", "NIX_SSL_CERT_FILE",
		"NODE_EXTRA_CA_CERTS", "PIP_CERT", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE",
	}
}

// trusting points a program at the sandbox's certificates. A variable that the
// configuration gives a value keeps it: the operator may trust fewer.
func trusting(env []string) []string {
	missing := map[string]string{}
	for _, name := range TrustVariables() {
		if _, set := LookupEnv(env, name); !set {
			missing[name] = sandboxprofile.TrustBundle
		}
	}
	return WithEnv(env, missing)
}
