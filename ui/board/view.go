package board

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/ui/guard"
	"github.com/sandgate/sandgate/ui/present"
)

// A View is the boards in front of one person: a page, or a screen. It is the one rule for what is done
// on a board:
//
//   - While a person looks at a list, it stands still. What is new is told beside it.
//   - An act is for a row as it was shown. Where that row is another one by now, or has gone,
//     nothing is done.
//   - What changes anything is asked about first, in a sentence that ends with the row; the yes is to that very
//     sentence, and comes after it has stood for as long as a person needs.
//
// The attack is a swap: an agent that ends, starts or renames what is listed has a person act on
// something else. No action has to think of it: a screen can only name an action that was shown, and Do
// does none that does not ask.
type View struct {
	source *Source
	now    func() time.Time

	mu           sync.Mutex
	drawn, newer Board // what the screen shows, and what it was given since
	serial       int64
	asked        map[present.Sentence]time.Time
}

// View is a person's look at the boards, by a clock.
func (s *Source) View(now func() time.Time) *View {
	return &View{source: s, now: now, asked: map[present.Sentence]time.Time{}}
}

// Still is for how long a list stands after a person has done anything in front of it.
const Still = 10 * time.Second

// A Look is what a screen asks for.
type Look struct {
	Name  string `json:"name"`
	Drawn int64  `json:"drawn"` // the version that the screen shows; 0 is none
	Idle  int64  `json:"idle"`  // ms since the person pressed a key or moved the pointer
	Fresh bool   `json:"fresh"` // the person wants what there is now
}

// Load makes a board: the list that is shown, if a person is at it, or the list as it is now.
func (v *View) Load(ctx context.Context, l Look) (Board, error) {
	now, err := v.source.load(ctx, l.Name)
	if err != nil {
		return Board{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if l.Drawn == v.newer.Version {
		v.drawn = v.newer
	}
	known := l.Drawn != 0 && l.Drawn == v.drawn.Version && l.Name == v.drawn.Name
	news := v.drawn.news(&now)
	switch {
	case known && news == "":
		now.Version = v.drawn.Version
		v.drawn, v.newer = now, now
	case known && !l.Fresh && time.Duration(l.Idle)*time.Millisecond < Still && (v.drawn.acts() || now.acts()):
		return v.drawn.still(&now, news), nil
	default:
		v.serial++
		now.Version = v.serial
		v.newer = now
	}
	return now, nil
}

// An Act is what a person does on a board.
type Act struct {
	Shown string `json:"shown"` // of the Action
	Text  string `json:"text,omitempty"`
	// Yes is the sentence of the Question that the person has answered with yes.
	Yes present.Sentence `json:"yes,omitempty"`
}

// A Question is what Do answers in place of doing what changes something: the sentence has to stand in
// front of the person first.
type Question struct {
	Words string           `json:"words"` // of the yes
	Sure  present.Sentence `json:"sure"`
}

func (q Question) Error() string { return "confirm first: " + string(q.Sure) }

// Do carries an act out, and says what came of it. The error may be a Question.
func (v *View) Do(ctx context.Context, act Act) (present.Sentence, error) {
	shown, name, ok := v.find(act.Shown)
	if !ok {
		return "", errors.New("nothing was done: this is not on the board any more. Refresh, and look again")
	}
	now, err := v.source.load(ctx, name)
	if err != nil {
		return "", err
	}
	problem := fmt.Errorf("nothing was done: this has gone: %s", shown.row())
	for at := range now.actions() {
		if at.Shown == act.Shown {
			return v.do(ctx, at, act)
		}
		if at.key() == shown.key() {
			problem = fmt.Errorf("nothing was done: this is different now: %s", at.row())
		}
	}
	return "", problem
}

func (v *View) find(shown string) (place, string, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, b := range []*Board{&v.drawn, &v.newer} {
		for at := range b.actions() {
			if at.Shown == shown {
				return at, b.Name, true
			}
		}
	}
	return place{}, "", false
}

func (v *View) do(ctx context.Context, at place, act Act) (present.Sentence, error) {
	if at.reads {
		return at.do(ctx, act.Text)
	}
	if at.asks == nil {
		return "", fmt.Errorf("%s asks nothing, and is not done", at.Do)
	}
	questions, err := at.asks(act.Text)
	if err != nil {
		return "", err
	}
	if at.item != nil && at.Label == "" { // whatever is asked, it is about this row, and not about a text
		for i := range questions {
			questions[i] += " " + cmp.Or(at.item.whole, at.item.Text)
		}
	}
	v.mu.Lock()
	i := slices.Index(questions, act.Yes) // -1: what was answered is asked no more
	if since, asked := v.asked[act.Yes]; !asked {
		i = -1
	} else if v.now().Sub(since) < guard.Settle {
		i-- // it is asked again
	}
	if next := i + 1; next < len(questions) {
		v.asked[questions[next]] = v.now()
		v.mu.Unlock()
		return "", Question{at.Words, questions[next]}
	}
	clear(v.asked)
	v.mu.Unlock()
	return at.do(ctx, act.Text)
}

// A place is an action where it stands.
type place struct {
	*Action
	section *Section
	item    *Item // nil for an action of the section
}

// key is the same for an action and what has become of it.
func (p place) key() [3]string {
	if p.item == nil {
		return [3]string{p.Do, p.Words, string(p.section.Heading)}
	}
	return [3]string{p.Do, p.Words, p.item.ID}
}

// row is what the action is about.
func (p place) row() present.Sentence {
	if p.item == nil {
		return p.section.Heading
	}
	return p.item.Text + ", " + p.item.Under
}

// actions are all of a board.
func (b *Board) actions() func(yield func(place) bool) {
	return func(yield func(place) bool) {
		for i := range b.Sections {
			s := &b.Sections[i]
			for j := range s.Actions {
				if !yield(place{&s.Actions[j], s, nil}) {
					return
				}
			}
			for j := range s.Items {
				for k := range s.Items[j].Actions {
					if !yield(place{&s.Items[j].Actions[k], s, &s.Items[j]}) {
						return
					}
				}
			}
		}
	}
}

func (b *Board) acts() bool {
	for range b.actions() {
		return true
	}
	return false
}

// bind has each action stand for its row as it is.
func (b *Board) bind() {
	for i := range b.Sections {
		b.Sections[i].Items = append([]Item{}, b.Sections[i].Items...) // a list on the wire, never null
	}
	for at := range b.actions() {
		bound := []any{b.Name, at.key(), at.section.Heading, at.Text, at.state}
		if at.item != nil {
			bound = append(bound, at.item.Text, at.item.whole, at.item.Under)
		}
		text, err := json.Marshal(bound)
		if err != nil {
			panic(err) // texts, and lists of them
		}
		at.Shown = fmt.Sprintf("%x", sha256.Sum256(text))
	}
}

// rows are the items of a board as they are compared: what is told anew each second is no part of them.
func (b *Board) rows() map[[2]string]Item {
	rows := map[[2]string]Item{}
	for _, s := range b.Sections {
		for _, it := range s.Items {
			rows[[2]string{string(s.Heading), it.ID}] = it
		}
	}
	return rows
}

// news says how a list differs by now; "" is not at all. What leaves a list and could not be acted on
// made room for something else.
func (b *Board) news(now *Board) present.Sentence {
	var fresh, other, gone int
	was, is := b.rows(), now.rows()
	for key, it := range is {
		if old, ok := was[key]; !ok {
			fresh++
		} else if !old.same(it) {
			other++
		}
	}
	for key, it := range was {
		if _, ok := is[key]; !ok && len(it.Actions) > 0 {
			gone++
		}
	}
	var parts []present.Sentence
	for _, p := range []struct {
		n    int
		what present.Sentence
	}{{fresh, "new"}, {other, "changed"}, {gone, "gone"}} {
		if p.n > 0 {
			parts = append(parts, present.Say("%d %s", p.n, p.what))
		}
	}
	if len(parts) > 0 {
		return present.Several(parts, len(parts))
	}
	if shape(b) != shape(now) { // the order, or an action of a section
		return "changed"
	}
	return ""
}

func (it Item) same(other Item) bool {
	it.Now, other.Now = "", ""
	return text(it) == text(other)
}

// shape is all of a list but what is told anew.
func shape(b *Board) string {
	return text(b.still(&Board{}, "").Sections)
}

func text(of any) string {
	text, _ := json.Marshal(of) // what goes to a page is JSON
	return string(text)
}

// still is the list as it was, with what of its rows changes by itself as it is now.
func (b *Board) still(now *Board, news present.Sentence) Board {
	is := now.rows()
	frozen := *b
	frozen.News = news
	frozen.Sections = slices.Clone(b.Sections)
	for i := range frozen.Sections {
		s := &frozen.Sections[i]
		s.Items = slices.Clone(s.Items)
		for j := range s.Items {
			it := &s.Items[j]
			if old, ok := is[[2]string{string(s.Heading), it.ID}]; ok {
				it.Now = old.Now
			} else if it.Now = ""; len(it.Actions) > 0 {
				it.Now = "gone by now"
			}
		}
	}
	return frozen
}
