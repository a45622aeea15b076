package present

import (
	"fmt"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol"
)

// Markdown is Text for a chat or a page that renders Markdown: one code block,
// whose fence is longer than any that the text contains, so that nothing in it can
// end the block and go on as words of ours.
func Markdown(a *protocol.Approval, now time.Time, full bool) string {
	text := Text(a, now, full)
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fmt.Sprintf("%stext\n%s%s\n", fence, text, fence)
}
