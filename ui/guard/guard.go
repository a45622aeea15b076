// Package guard is the one rule for answers: when an act of a person counts as an
// answer to the request in front of them. The screen of `sandgate approve` uses it as
// it is; the web page has the same in guard.js. Both are held to testdata/vectors.json,
// and to each other by random sequences.
//
//	var g guard.Guard
//	g.Look(now, "req-1", "req-1 whole")    // after each change of the screen
//	if g.Answer(now, begun, repeated) { ... } // a key or a click
//
// The rule:
//
//   - An answer counts only once its request has stood still for Settle since it
//     appeared, moved, was resized or came back with the connection, and for Other since
//     another request stood in its place.
//   - The act must have begun after that: a button that was pressed before, or a key that
//     is held down, answers nothing. An act that comes too soon begins Settle anew, so that
//     a row of them never gets through.
//   - Keys that follow each other within Pause are one act, which began with the first of
//     them: a text that was being typed when the request came answers nothing, however slowly
//     it is typed. Nor does a text in which a letter came that is no key of the screen.
//   - A letter that answers does so once no other key has followed it for Lone.
//   - Only one's own answer makes room for the next request. One that ended otherwise stays
//     where it was, without answers, until a click, Esc or Enter.
//   - A text field that goes while a person writes in it takes all keys with it, until a
//     click or Esc.
//
// The attack is a swap: an agent withdraws the request that a person is reading and has
// another in its place when the finger comes down.
package guard

import "time"

const (
	// Settle is longer than a key that is already on its way, and than a finger that
	// cannot be stopped any more.
	Settle = 500 * time.Millisecond
	// Other is longer than a person takes from deciding to pressing. Who has decided about
	// one request must not answer another that took its place meanwhile.
	Other = 1500 * time.Millisecond
	// Pause is longer than a person takes from one key of a text to the next.
	Pause = time.Second
	// Lone is how long a letter that answers must be alone. It may begin a text that is meant for
	// elsewhere: "yarn add x" allowed by its first letter.
	Lone = 500 * time.Millisecond
)

// An Act is how a person lets go of what holds the answers back.
type Act string

// The acts.
const (
	Click  Act = "click"
	Escape Act = "escape"
	Enter  Act = "enter"
)

// A Guard knows what stands in front of a person, and since when. The zero value has
// nothing in sight. Times are of a clock that only goes forward, from any beginning.
type Guard struct {
	request, sight string
	due            time.Duration // from when an act counts
	before         string        // the request that stood here last, and is not request
	left           time.Duration // when that went
	letGo          time.Duration // from when an act lets go of what holds
	rest           time.Duration // from when a key is no part of what was typed before it
	ended          bool          // the request ended by another hand, and stays to be seen
	text           bool          // a text field went while it was written in
}

// Look says what is in sight: which request an answer would be about, and all that
// decides what it would mean. "" is none. What stays the same changes nothing.
func (g *Guard) Look(now time.Duration, request, sight string) {
	if request == g.request && sight == g.sight {
		return
	}
	if g.request != "" && g.request != request {
		g.before, g.left = g.request, now
	}
	g.request, g.sight = request, sight
	g.wait(now + Settle)
	if g.before != "" && g.before != request {
		g.wait(g.left + Other)
	}
}

func (g *Guard) wait(until time.Duration) { g.due = max(g.due, until, g.rest) }

// Key says that a key was pressed which may be one of a text; meant, that it is a key of what is
// in sight. Arrows and their like are in no text. What the key does is asked after this.
func (g *Guard) Key(now, begun time.Duration, meant bool) {
	g.rest = now + Pause
	if !meant || begun < g.due {
		g.wait(g.rest)
	}
}

// Wrote says that a key was pressed in a text field in front of the person: it answers nothing
// and holds nothing back, but what comes to stand there next waits until they have paused.
func (g *Guard) Wrote(now time.Duration) { g.rest = now + Pause }

// Moved says that what is in sight has moved, was resized, or only now comes to the eye.
func (g *Guard) Moved(now time.Duration) { g.wait(now + Settle) }

// Ended says that the request in sight ended by another hand. It stays in sight.
func (g *Guard) Ended(now time.Duration) {
	g.ended, g.letGo = true, now+Settle
}

// TextGone says that a text field has gone while a person wrote in it.
func (g *Guard) TextGone(now time.Duration) {
	g.text, g.letGo = true, now+Settle
}

// Held reports whether nothing can be answered until a person lets go.
func (g *Guard) Held() bool { return g.ended || g.text }

// Writing reports whether keys are still taken for those of a text that has gone.
func (g *Guard) Writing() bool { return g.text }

// Release takes the act that lets go, and reports whether it did. Enter may be the end of
// the sentence that was being written, here or elsewhere: it is no Key before.
func (g *Guard) Release(now, begun time.Duration, act Act) bool {
	if act == Enter && (g.text || begun < g.rest) {
		g.Wrote(now)
		return false
	}
	if !g.Held() || begun < g.letGo {
		return false
	}
	g.ended, g.text = false, false
	g.Moved(now)
	return true
}

// Due is from when an act that begins counts: as an answer, or to let go of what holds the
// answers back.
func (g *Guard) Due() time.Duration {
	switch {
	case g.text: // Enter never counts, and Esc is in no text
		return g.letGo
	case g.ended:
		return max(g.letGo, g.rest)
	}
	return g.due
}

// Ready reports whether an act that begins now counts.
func (g *Guard) Ready(now time.Duration) bool { return g.request != "" && !g.Held() && now >= g.due }

// Answer reports whether an act counts as an answer to what is in sight. It came now and
// began earlier, such as a click with the press of its button; repeated is one of a key
// that is held down, or the second of a double click.
func (g *Guard) Answer(now, begun time.Duration, repeated bool) bool {
	if g.Ready(now) && begun >= g.due && !repeated {
		return true
	}
	if !repeated { // a held key is harmless as long as it is held
		g.Moved(now)
	}
	return false
}
