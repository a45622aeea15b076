package assemble_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"

	"github.com/sandgate/sandgate/approval"
	"github.com/sandgate/sandgate/assemble"
	"github.com/sandgate/sandgate/protocol"
)

// A program of its own that runs an agent's calls: under the configuration that applies in a
// directory, in a sandbox, with everything in the audit log.
func Example() {
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	cfg, _, err := assemble.Load("", dir)
	if err != nil {
		log.Fatal(err)
	}
	// Strict denies what somebody would be asked about: this program has nobody to ask.
	sandgate, err := assemble.Start(cfg, assemble.Options{Mode: approval.Strict})
	if err != nil {
		log.Fatal(err)
	}
	defer sandgate.Close()

	me := assemble.Self()
	session, err := sandgate.OpenSession(me, protocol.SessionOpen{Agent: "example"})
	if err != nil {
		log.Fatal(err)
	}
	for id, command := range []string{"echo hello from a sandbox", "curl https://example.org/"} {
		args, _ := json.Marshal(map[string]string{"command": command})
		r, err := sandgate.Call(context.Background(), me, protocol.ToolsCall{
			SessionID: session.SessionID, CallID: protocol.CallID(strconv.Itoa(id)), Tool: "shell", Args: args,
		}, nil)
		var refused *protocol.Error
		if errors.As(err, &refused) {
			fmt.Println("refused:", refused.Code)
			continue
		}
		fmt.Print(r.Content[0].Text)
	}
	// Output:
	// hello from a sandbox
	// refused: denied
}
