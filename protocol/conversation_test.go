package protocol

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// wireTypes are the params and the result of each request.
var wireTypes = map[Method]struct{ params, result any }{
	MethodInitialize:          {InitializeParams{}, Initialized{}},
	MethodSessionOpen:         {SessionOpen{}, SessionOpened{}},
	MethodSessionClose:        {SessionClose{}, SessionClosed{}},
	MethodToolsList:           {ToolsListParams{}, ToolsList{}},
	MethodToolsCall:           {ToolsCall{}, CallResult{}},
	MethodToolsCheck:          {ToolsCall{}, CheckResult{}},
	MethodToolsDecide:         {ToolsDecide{}, ToolsDecided{}},
	MethodToolsCancel:         {ToolsCancel{}, Empty{}},
	MethodApprovalsSubscribe:  {Empty{}, ApprovalsList{}},
	MethodApprovalsList:       {Empty{}, ApprovalsList{}},
	MethodApprovalsShow:       {ApprovalsShowParams{}, Approval{}},
	MethodApprovalsDecide:     {ApprovalsDecide{}, ApprovalsDecided{}},
	MethodApprovalsPreview:    {ApprovalsPreview{}, ApprovalsPreviewed{}},
	MethodApprovalsRemembered: {Empty{}, Remembered{}},
	MethodApprovalsForget:     {ApprovalsForget{}, Empty{}},
	MethodToolsBatch:          {ToolsBatch{}, BatchResult{}},
	MethodStatus:              {Empty{}, Status{}},
	MethodSessionsList:        {Empty{}, SessionsList{}},
	MethodToolOutput:          {ToolOutput{}, nil},
	MethodToolState:           {ToolState{}, nil},
	MethodApprovalRequested:   {ApprovalEvent{}, nil},
	MethodApprovalResolved:    {ApprovalEvent{}, nil},
}

// TestConversations reads the recorded conversations: a client's line is
// refused exactly if the recorded answer is an error of the message, and every
// line of the server is what the Go types say, down to the last byte.
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/conversations/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no conversations", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c := conversation{t: t, asked: map[string]Method{}}
			for line := range strings.Lines(string(text)) {
				c.line(strings.TrimSuffix(line, "\n"))
			}
		})
	}
}

type conversation struct {
	t     *testing.T
	asked map[string]Method // by socket and request id
	fault *Error            // of the last line of a client
}

func (c *conversation) line(line string) {
	if who, said, ok := strings.Cut(line, "> "); ok && !strings.HasPrefix(line, "#") && !strings.Contains(who, "<") {
		c.client(who, said)
	} else if who, said, ok := strings.Cut(line, "< "); ok {
		c.server(who, said)
	}
}

func (c *conversation) client(who, said string) {
	m, err := ParseRequest([]byte(said))
	if types, ok := wireTypes[m.Method]; ok && err == nil {
		c.asked[who+m.ID.String()] = m.Method
		err = UnmarshalParams(m, reflect.New(reflect.TypeOf(types.params)).Interface())
	}
	c.fault = err
}

func (c *conversation) server(who, said string) {
	m, err := ParseFromServer([]byte(said))
	if err != nil {
		c.t.Fatalf("%s: %v", said, err)
	}
	fault := c.fault
	c.fault = nil
	if fault != nil && (m.Error == nil || m.Error.Code != fault.Code || m.Error.Message != fault.Message || m.Error.Field != fault.Field) {
		// A socket that does not have the method never looks at the params.
		if m.Error == nil || m.Error.Code != CodeUnknownMethod {
			c.t.Errorf("%s\nwas answered to a message with %v", said, fault)
		}
	}
	var again []byte
	switch {
	case m.Error != nil:
		again, err = EncodeError(m.ID, m.Error)
	case m.Method != "":
		p := c.strictly(m.Params, wireTypes[m.Method].params, said)
		again, err = EncodeNotification(m.Method, p)
	default:
		r := c.strictly(m.Result, wireTypes[c.asked[who+m.ID.String()]].result, said)
		again, err = EncodeResult(m.ID, r)
	}
	if err != nil || string(again) != said {
		c.t.Errorf("%s\nis written by these types as\n%s (%v)", said, again, err)
	}
}

func (c *conversation) strictly(raw json.RawMessage, like any, said string) any {
	if like == nil {
		c.t.Fatalf("%s: of no known type", said)
	}
	v := reflect.New(reflect.TypeOf(like)).Interface()
	if err := Unmarshal(raw, "", v); err != nil {
		c.t.Errorf("%s: %v", said, err)
	}
	return v
}
