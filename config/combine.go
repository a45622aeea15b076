package config

import (
	"reflect"
	"slices"
	"strings"
)

// A Rule of combination says what becomes of a key that several files set.
type Combination string

const (
	Smallest    Combination = "smallest"      // the smaller value is the narrower one
	Largest     Combination = "largest"       // the larger value is the narrower one
	Strictest   Combination = "strictest"     // sticky: the strictest of all files holds
	Union       Combination = "union"         // sticky: the lists of all files together
	Common      Combination = "common"        // what all bounds have
	Meet        Combination = "meet"          // what every bound reaches
	ByTier      Combination = "by tier"       // each file's are tried, and the strictest decides
	All         Combination = "all"           // each file's narrows
	ByName      Combination = "by name"       // entry by entry; the administrator's stand
	Outermost   Combination = "administrator" // the administrator's stands
	Independent Combination = "each file's own"
)

// layVersion: each file is read by its own.
func (m *merger) layVersion() { m.take("version") }

// described is a key that is merged with the one that it lies in, or by those in it.
func described(key, text string) row { return row{key: key, text: text} }

// at is the value of a key that lies in no list.
func (c *Config) at(key string) reflect.Value {
	v := reflect.ValueOf(c).Elem()
	for name := range strings.SplitSeq(key, ".") {
		k, _ := keysOf(v.Type()).find(name)
		v = v.FieldByIndex(k.index)
	}
	return v
}

// listAt is at for a list of words.
func (c *Config) listAt(key string) *[]string { return c.at(key).Addr().Interface().(*[]string) }

// takeValue gives a key of c the value of t.
func (m *merger) takeValue(key string) {
	m.c.at(key).Set(m.t.at(key))
	m.take(key)
}

// ordered is a single value of which one is narrower than another.
func ordered(key, text string, how Combination, narrower func(a, b reflect.Value) bool) row {
	return row{
		key: key, text: text, how: how, narrows: true,
		over: func(m *merger) {
			if how != Strictest || !m.c.Set(key) || narrower(m.t.at(key), m.c.at(key)) {
				m.takeValue(key)
			}
		},
		within: func(m *merger) {
			ours, theirs := m.c.at(key), m.t.at(key)
			switch {
			case narrower(theirs, ours):
				m.narrowed(key)
				m.takeValue(key)
			case !ours.Equal(theirs):
				m.unused(key, m.wider(key, theirs.Interface(), ours.Interface()))
			}
		},
	}
}

// smallest is a number, a size or a duration.
func smallest(key, text string) row {
	return ordered(key, text, Smallest, func(a, b reflect.Value) bool { return a.Int() < b.Int() })
}

func largest(key, text string) row {
	return ordered(key, text, Largest, func(a, b reflect.Value) bool { return a.Int() > b.Int() })
}

// strictest is a value of a few, listed from the strictest on.
func strictest(key, text string, values ...any) row {
	rank := func(v reflect.Value) int { return slices.Index(values, v.Interface()) }
	return ordered(key, text, Strictest, func(a, b reflect.Value) bool { return rank(a) < rank(b) })
}

// owned is a value that is neither narrower nor wider than another: the most specific
// file that is trusted sets it, unless the administrator's does.
func owned(key, text string) row {
	return row{
		key: key, text: text, how: Outermost,
		over: func(m *merger) { m.takeValue(key) },
		within: func(m *merger) {
			switch {
			case m.c.at(key).Equal(m.t.at(key)):
			case m.tier.Trusted:
				m.narrowed(key)
				m.takeValue(key)
			default:
				m.unused(key, "only a trusted file can set it")
			}
		},
	}
}

// names is a list of what is granted.
func names(key, text string) row {
	return row{
		key: key, text: text, how: Common, narrows: true,
		over: func(m *merger) {
			*m.c.listAt(key) = slices.Clone(*m.t.listAt(key))
			m.take(key)
		},
		within: func(m *merger) { m.keepCommon(key, m.c.listAt(key), *m.t.listAt(key)) },
	}
}

// named is a list of entries that have names: those of one name are the same entry, and the
// administrator's stand. A file that is not trusted adds none; wider says what it would.
func named[T any](key, text, list string, wider func(*T) string) row {
	in := func(c *Config) *[]T { return c.at(list).Addr().Interface().(*[]T) }
	return row{
		key: key, text: text, how: ByName,
		over: func(m *merger) {
			for i := range *in(m.t) {
				layNamed(m, list, in(m.c), (*in(m.t))[i])
			}
			m.c.Origins[list] = m.position(list)
		},
		within: func(m *merger) {
			for i := range *in(m.t) {
				t := (*in(m.t))[i]
				field := fieldKey(list, entryName(t))
				switch {
				case m.floor:
				case !m.tier.Trusted:
					m.unused(field, wider(&t))
				case m.c.Origins[field] != m.position(field):
					m.narrowed(field)
					layNamed(m, list, in(m.c), t)
				}
			}
		},
	}
}

// layNamed puts an entry over that of the same name.
func layNamed[T any](m *merger, key string, have *[]T, entry T) {
	name := entryName(entry)
	list := slices.Clone(*have)
	if i := slices.IndexFunc(list, func(t T) bool { return entryName(t) == name }); i >= 0 {
		list[i] = entry
	} else {
		list = append(list, entry)
	}
	*have = list
	field := fieldKey(key, name)
	m.take(field)
	m.owner[field] = m.tier.Tier
}

func entryName(entry any) string {
	v := reflect.ValueOf(entry)
	return v.FieldByIndex(nameField(v.Type()).Index).String()
}

// keepCommon leaves out of a list what t does not have.
func (m *merger) keepCommon(key string, have *[]string, theirs []string) {
	ours := *have
	for i, s := range theirs {
		if !slices.Contains(ours, s) {
			m.unused(fieldIndex(key, i), quote(s)+" would be one more")
		}
	}
	keep := common(ours, theirs)
	if len(keep) == len(ours) {
		return
	}
	m.narrowed(key)
	m.take(key)
	for i, s := range keep {
		m.c.Origins[fieldIndex(key, i)] = m.position(fieldIndex(key, slices.Index(theirs, s)))
	}
	*have = keep
}

// union is a list of what is denied. What is shipped the user or the administrator can
// do without, and a workspace cannot.
func union(key, text string) row {
	add := func(m *merger) { m.addAll(key, m.c.listAt(key), *m.t.listAt(key)) }
	return row{
		key: key, text: text, how: Union, narrows: true,
		over: func(m *merger) {
			if m.c.Set(key) || m.tier.Tier == TierWorkspace {
				add(m)
				return
			}
			*m.c.listAt(key) = slices.Clone(*m.t.listAt(key))
			m.take(key)
		},
		within: add,
	}
}

// addAll adds to a list what it lacks of t's.
func (m *merger) addAll(key string, have *[]string, theirs []string) {
	list := slices.Clone(*have)
	for i, s := range theirs {
		if !slices.Contains(list, s) {
			m.c.Origins[fieldIndex(key, len(list))] = m.position(fieldIndex(key, i))
			list = append(list, s)
		}
	}
	*have = list
}
