package server

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// What operators get in lists and notifications is bounded, whatever agents ask: a list
// that does not fit into a message would blind every approver at once. What is left out
// of it is had from approvals.show, one by one.
const (
	maxListed = 64 << 10                    // bytes of one entry
	maxList   = protocol.MaxMessage / 4     // of all entries; those beyond it are cut to the bone
	maxWhole  = protocol.MaxMessage * 3 / 4 // of one request that is shown, or of any list
	maxShort  = 128                         // of a text that is cut to the bone
)

// weight is how many bytes v takes as JSON at most, or a little more. It copies nothing.
func weight(v any) int {
	const around = 8 // quotes, commas, colons
	n := around
	switch v := v.(type) {
	case string:
		n += len(v)
		for i := range len(v) {
			n += int(escaping[v[i]])
		}
	case json.RawMessage:
		n += len(v)
	case []string:
		for _, s := range v {
			n += weight(s)
		}
	case []any:
		for _, e := range v {
			n += weight(e)
		}
	case map[string]string:
		for k, s := range v {
			n += weight(k) + weight(s)
		}
	case map[string]any:
		for k, e := range v {
			n += weight(k) + weight(e)
		}
	case nil, bool:
	default: // numbers; what else a tool puts into a payload, it does not make long
		n += 32
		if b, err := json.Marshal(v); err == nil {
			n += len(b)
		}
	}
	return n
}

func weightOf(a *protocol.Approval) int {
	n := 1024 + weight(a.Payload) + weight(a.Details) + weight(a.BatchRemaining) + weight(a.Args) + weight(a.SessionMetadata) + weight(a.Metadata)
	for _, s := range []string{a.Description, a.Agent, a.SessionName, string(a.CallID), string(a.Tool), a.GroupID, a.Connector, a.Rule, a.Once} {
		n += weight(s)
	}
	if p := a.Presentation; p != nil {
		n += weight(p.Content) + weight(p.Metadata)
	}
	return n
}

// listed is a request as it stands in a list or a notification, and what it weighs.
func listed(a protocol.Approval) (protocol.Approval, int) {
	n := weightOf(&a)
	if n <= maxListed {
		return a, n
	}
	a.Payload, a.Presentation, a.Omitted = nil, nil, true
	if n = weightOf(&a); n <= maxListed {
		return a, n
	}
	return barely(a)
}

// barely has the fields by which a request is known and answered.
func barely(a protocol.Approval) (protocol.Approval, int) {
	a.Payload, a.Presentation, a.Details, a.BatchRemaining, a.SessionMetadata, a.Metadata, a.SessionName = nil, nil, nil, nil, nil, nil, ""
	a.Description, a.Rule, a.Once, a.Omitted = short(a.Description), short(a.Rule), short(a.Once), true
	return a, weightOf(&a)
}

// short is the beginning of a text, with a mark where it was cut.
func short(s string) string {
	if len(s) <= maxShort {
		return s
	}
	return strings.ToValidUTF8(s[:maxShort], "") + "..."
}

// shown is one request as it fits into a message: with what a person reads first, and the
// whole content, the payload and the arguments as long as there is room.
func shown(a protocol.Approval) protocol.Approval {
	leave := []func(){
		func() {
			if a.Presentation != nil {
				p := *a.Presentation
				p.Metadata = maps.Clone(p.Metadata)
				delete(p.Metadata, "full_content")
				a.Presentation = &p
			}
		},
		func() { a.Payload = nil },
		func() { a.Args = nil }, // without them nothing is edited
		func() { a.BatchRemaining, a.SessionMetadata, a.Metadata = nil, nil, nil },
		func() { a.Details = nil },
	}
	for _, less := range leave {
		if weightOf(&a) <= maxWhole {
			break
		}
		less()
		a.Omitted = true
	}
	return a
}

// shortened goes through a list until it is full: cut removes the long parts of an entry,
// once the list is long.
func shortened[E any](list []E, weight func(*E) int, cut func(*E)) (kept []E, more bool) {
	n := 0
	for i := range list {
		w := weight(&list[i])
		if n+w > maxList {
			cut(&list[i])
			w = weight(&list[i])
		}
		if n += w; n > maxWhole {
			return list[:i], true
		}
	}
	return list, false
}
