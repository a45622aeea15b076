package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
	"github.com/sandgate/sandgate/confine"
	"github.com/sandgate/sandgate/internal/gitsign"
)

// This file has git in a sandbox sign commits and tags: for programs, gpg.program and
// gpg.ssh.program are a script that runs `sandgate git-sign`, which sends the text to sign
// to the supervisor, the one way out of the sandbox. See
// docs/decisions/0107-signatures-of-git.md.

func newGitSignCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:                "git-sign",
		Short:              "Sign git objects from inside a sandbox",
		Example:            "  git commit -S    # runs sandgate git-sign, where git.sign lists the repository",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			if slices.Equal(args, []string{"--help"}) { // git never says that
				return c.Help()
			}
			return gitSign(a, args)
		},
	}
}

// gitSign takes the arguments of ssh-keygen or gpg, as git gives them. Whatever is not about
// a signature is theirs to do.
func gitSign(a *cli.App, args []string) error {
	ssh := len(args) > 0 && args[0] == "-Y"
	switch at := slices.Index(args, "-bsau"); {
	case ssh && len(args) > 1 && args[1] == "sign":
		return signSSH(a, args[2:])
	case !ssh && at >= 0 && at+1 < len(args):
		r, err := signedBy(gitsign.Request{Format: gitsign.OpenPGP, Key: args[at+1]}, a.In)
		if err != nil {
			return err
		}
		_, _ = a.Err.Write(r.Status)
		_, err = a.Out.Write(r.Signature)
		return err
	}
	name := "gpg"
	if ssh {
		name = "ssh-keygen"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return cli.WithStatus(cli.ExitNotFound, err)
	}
	return cli.ReplaceProcess(path, append([]string{name}, args...), os.Environ())
}

// signSSH is ssh-keygen -Y sign: the signature is put beside the file.
func signSSH(a *cli.App, args []string) error {
	r := gitsign.Request{Format: gitsign.SSH}
	namespace, file := "", ""
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == "-n" && i+1 < len(args):
			i++
			namespace = args[i]
		case args[i] == "-f" && i+1 < len(args):
			i++
			r.Key = args[i]
		case args[i] == "-U": // the key is with an agent: that is for whoever signs to find out
		default:
			file = args[i]
		}
	}
	if namespace != "git" {
		return cli.WithStatus(cli.ExitUsage, fmt.Errorf("sandgate signs only for git, not in the namespace %q", namespace))
	}
	if text, err := os.ReadFile(r.Key); err == nil && len(text) < 16<<10 && !strings.Contains(string(text), "PRIVATE KEY") {
		r.KeyText = string(text)
	}
	home := os.Getenv("HOME")
	if rest, ok := strings.CutPrefix(r.Key, home+"/"); ok && home != "" { // git has put it there; outside it may be elsewhere
		r.Key = "~/" + rest
	}
	f, err := os.Open(file)
	if err != nil {
		return cli.WithStatus(cli.ExitUsage, err)
	}
	defer f.Close()
	reply, err := signedBy(r, f)
	if err != nil {
		return err
	}
	return os.WriteFile(file+".sig", reply.Signature, 0o600)
}

// signedBy sends an object to the supervisor, through the proxy at its place.
func signedBy(r gitsign.Request, object io.Reader) (reply gitsign.Reply, err error) {
	if r.Object, err = io.ReadAll(io.LimitReader(object, gitsign.MaxObject+1)); err != nil {
		return reply, err
	}
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", confine.EgressPort))
	if err != nil {
		return reply, cli.WithHint(fmt.Errorf("sign: reach sandgate: %w", err), "list this repository in git.sign of the configuration")
	}
	defer conn.Close()
	target := gitsign.Host + ":80"
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err == nil {
		err = json.NewEncoder(conn).Encode(r)
	}
	if err == nil {
		err = json.NewDecoder(in).Decode(&reply)
	}
	switch {
	case err != nil:
		return reply, cli.WithHint(fmt.Errorf("sign: %w", err), "list this repository in git.sign of the configuration")
	case reply.Error != "":
		return reply, errors.New(reply.Error)
	}
	return reply, nil
}
