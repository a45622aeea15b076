package audit

import (
	"cmp"
	"slices"
)

// openCalls holds the calls that have a decision and no end.
type openCalls map[CallID]openCall

type openCall struct {
	decision Entry
	offset   int64 // of the decision's line
}

// apply follows the log by one entry, whose line begins at offset.
func (o openCalls) apply(e Entry, offset int64) {
	id := CallID{e.Session, e.Call}
	switch e.Kind {
	case KindDecision:
		o[id] = openCall{e, offset}
	case KindEnd, KindInterrupted:
		delete(o, id)
	}
}

// oldest is the offset of the oldest open call, or end if no call is open.
func (o openCalls) oldest(end int64) int64 {
	for _, c := range o {
		end = min(end, c.offset)
	}
	return end
}

// where returns the decisions of the open calls that f holds for, oldest first.
func (o openCalls) where(f func(Entry) bool) []Entry {
	var found []Entry
	for _, c := range o {
		if f(c.decision) {
			found = append(found, c.decision)
		}
	}
	slices.SortFunc(found, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	return found
}

func (o openCalls) ids() []CallID {
	var ids []CallID
	for _, e := range o.where(func(Entry) bool { return true }) {
		ids = append(ids, CallID{e.Session, e.Call})
	}
	return ids
}
