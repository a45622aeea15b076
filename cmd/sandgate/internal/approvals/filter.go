package approvals

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/cmd/sandgate/internal/cli"
)

func newApprovalsFilterCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "filter [FILE]",
		Short: "Remove approvals from chat messages before they go to a model",
		Long: `filter reads messages in OpenAI's chat format from FILE or standard input: either a list
or a request object with a messages list. It prints them without anything that concerns
approvals: calls of client.* functions, their results, and results whose id starts with
approval_. Keep the full chat yourself and send the model only the filtered one: a model
that sees how people are asked could imitate an answer. In Go, client.ForModel does the same.`,
		Example: "  sandgate approvals filter conversation.json\n  curl -d \"$(sandgate approvals filter < request.json)\" http://127.0.0.1:9000/v1/chat/completions",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in := a.In
			if len(args) == 1 && args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return cli.UsageError(err)
				}
				defer f.Close()
				in = f
			}
			text, err := io.ReadAll(in)
			if err != nil {
				return cli.WithStatus(cli.ExitInternal, err)
			}
			out, err := filterChat(text)
			if err != nil {
				return cli.WithHint(cli.UsageError(fmt.Errorf("approvals filter: %w", err)), "give a JSON list of messages, or an object with one as messages")
			}
			_, err = fmt.Fprintln(cli.JSON(a.Out), string(out))
			return err
		},
	}
}

// filterChat is a list of messages, or a request that has one, without approvals.
func filterChat(text []byte) ([]byte, error) {
	if text = bytes.TrimSpace(text); len(text) == 0 || text[0] != '{' {
		return filterList(text)
	}
	var request map[string]json.RawMessage
	if err := json.Unmarshal(text, &request); err != nil {
		return nil, err
	}
	if len(request["messages"]) == 0 {
		return nil, errors.New("the object has no messages")
	}
	list, err := filterList(request["messages"])
	if err != nil {
		return nil, err
	}
	request["messages"] = list
	return json.Marshal(request)
}

func filterList(text []byte) ([]byte, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	kept, err := client.ForModel(list)
	if err != nil {
		return nil, err
	}
	return json.Marshal(kept)
}
