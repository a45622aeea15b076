package present

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"github.com/sandgate/sandgate/protocol"
)

// remarks are what a person should know about the text of a request before they
// trust their eyes: names of hosts that are other than they read.
func remarks(a *protocol.Approval) []string {
	seen := map[Sentence]bool{}
	var list []string
	more := 0
	for _, text := range append([]string{a.Description}, texts(a.Payload)...) {
		for _, host := range hostsIn(text) {
			remark := aboutHost(host)
			if remark == "" || seen[remark] {
				continue
			}
			seen[remark] = true
			if len(list) < maxRemarks {
				list = append(list, string(remark))
			} else {
				more++
			}
		}
	}
	if more > 0 {
		list = append(list, fmt.Sprintf("and %d more hosts with misleading names", more))
	}
	return list
}

const (
	maxRemarks = 4
	// maxScanned is how many bytes of each text are searched: longer ones are the
	// contents of files, and nobody connects to those.
	maxScanned = 64 << 10
)

// texts are the strings of a payload, in the order of its keys.
func texts(v any) (all []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			all = append(all, texts(e)...)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, texts(v[key])...)
		}
	}
	return all
}

// hostsIn finds names of hosts: after "//" or "@", or with a label that is
// encoded. Other words with dots are mostly names of files.
func hostsIn(text string) (hosts []string) {
	inAddress := regexp.MustCompile(`(?:@|//)[^\s/'"\\]+|(?i:\b[\w.-]*xn--[\w.-]+)`)
	for _, found := range inAddress.FindAllString(text[:min(len(text), maxScanned)], -1) {
		found = strings.TrimLeft(found, "/@")
		if i := strings.LastIndexByte(found, '@'); i >= 0 { // user@host
			found = found[i+1:]
		}
		if i := strings.LastIndexByte(found, ':'); i >= 0 { // host:port
			found = found[:i]
		}
		hosts = append(hosts, found)
	}
	return hosts
}

// aboutHost says what else a host's name is, or "" if it is what it looks like.
func aboutHost(host string) Sentence {
	ascii, err := idna.Punycode.ToASCII(host)
	if err != nil {
		return ""
	}
	unicode, err := idna.Punycode.ToUnicode(host)
	switch {
	case err == nil && host != unicode:
		return Say("the host %s reads as %s", host, unicode)
	case host != ascii:
		return Say("the host %s is %s on the network", host, ascii)
	}
	return ""
}
