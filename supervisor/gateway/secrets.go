package gateway

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/sandgate/sandgate/egress"
	"github.com/sandgate/sandgate/internal/memfile"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/sandboxprofile"
	"github.com/sandgate/sandgate/supervisor/failure"
	"github.com/sandgate/sandgate/tools"
)

// maxSecret bounds the content of one secret, in bytes: what Linux passes in one
// environment variable (execve(2), MAX_ARG_STRLEN), with room for its name.
const maxSecret = 120 << 10

// WithSecrets gives the plan's action with the secrets that belong in its
// environment, and the others as open files. The result is for the sandbox alone:
// it is neither shown nor recorded.
func (x *Session) WithSecrets(plan tools.Plan) (sandboxprofile.Action, []*os.File, error) {
	action := plan.Action
	if action.Exec == nil || len(action.Exec.Secrets) == 0 {
		return action, nil, nil
	}
	program := *action.Exec
	program.Env = slices.Clone(program.Env)
	action.Exec = &program
	var files []*os.File
	for _, s := range program.Secrets {
		if s.Unseen() {
			program.Env = append(program.Env, s.Name+"="+x.placeholder(s))
			continue
		}
		content, err := readSecret(plan, s)
		if err == nil && s.Env {
			program.Env = append(program.Env, s.Name+"="+string(bytes.TrimRight(content, "\r\n")))
		} else if err == nil {
			var f *os.File
			if f, err = memfile.New("secret-"+s.Name, bytes.NewReader(content)); err == nil {
				files = append(files, f)
			}
		}
		if err != nil {
			CloseAll(files)
			return action, nil, err
		}
	}
	return action, files, nil
}

// readSecret reads the file that was there when the call was approved.
func readSecret(plan tools.Plan, s sandboxprofile.Secret) ([]byte, error) {
	i := slices.IndexFunc(plan.Pins, func(p tools.Pin) bool { return p.Path == s.File })
	if i < 0 {
		return nil, fmt.Errorf("the plan does not pin the file of the secret %s", s.Name)
	}
	content, err := plan.Pins[i].ReadFile(maxSecret)
	if err != nil {
		return nil, failure.Drift(err)
	}
	if s.Env && bytes.IndexByte(content, 0) >= 0 {
		return nil, &protocol.Error{Code: protocol.CodeSandboxFailed,
			Message: fmt.Sprintf("the secret %s has a zero byte, which an environment variable cannot contain", s.Name), HintText: "give it as: file"}
	}
	return content, nil
}

// placeholder stands for a credential in this session. It is as good as random to
// everybody else, and says nothing about the secret.
func (x *Session) placeholder(secret sandboxprofile.Secret) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.placeholders[secret]; !ok {
		if x.placeholders == nil {
			x.placeholders = map[sandboxprofile.Secret]string{}
		}
		x.placeholders[secret] = "sandgate-credential-" + strings.ToLower(rand.Text())
	}
	return x.placeholders[secret]
}

// credentials are what the proxy puts in for the placeholders of a plan, and the
// placeholders that other calls of the session got, which are worth nothing in
// this one.
func (x *Session) credentials(plan tools.Plan) ([]egress.Credential, error) {
	mine := map[sandboxprofile.Secret]bool{}
	var list []egress.Credential
	for _, s := range plan.Action.Credentials() {
		content, err := readSecret(plan, s)
		if err != nil {
			return nil, err
		}
		if s.Host != "" && !slices.Contains(plan.Profile.Network.Terminated, s.Host) {
			return nil, fmt.Errorf("the plan does not say that TLS to %s ends here, for the credential %s", s.Host, s.Name)
		}
		mine[s] = true
		list = append(list, egress.Credential{
			Name: s.Name, Placeholder: x.placeholder(s), Secret: string(bytes.TrimRight(content, "\r\n")), Service: s.Service, Host: s.Host,
		})
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for s, placeholder := range x.placeholders {
		if !mine[s] {
			list = append(list, egress.Credential{Name: s.Name, Placeholder: placeholder})
		}
	}
	return list, nil
}

// CloseAll closes files.
func CloseAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
