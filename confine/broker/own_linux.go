package broker

import "golang.org/x/sys/unix"

// A change that init makes for the file tools is judged like a program's change, except
// that no thread waits: nobody is asked.

// Rename gives the file from in a directory the name to, in the place of what has it, if it is
// still the file that it is taken for: programs of other sandboxes may change the name from. With
// another it is ESTALE.
func (b *Broker) Rename(dir int, from, to string, file FileID) error {
	return b.ourselves(unix.SYS_RENAMEAT2, func(w walk) unix.Errno {
		m := move{walk: w, from: location{dir, from}, to: location{dir, to}}
		if errno := m.look(); errno != 0 {
			return errno
		}
		if idOf(&m.fromStat) != file {
			return unix.ESTALE
		}
		return m.run()
	})
}

// Mkdir makes a directory.
func (b *Broker) Mkdir(dir int, name string, mode uint32) error {
	return b.ourselves(unix.SYS_MKDIRAT, func(w walk) unix.Errno {
		p := location{dir, name}
		return w.newNameAt(p, func(full string) unix.Errno { return w.mkdir(p, full, mode) })
	})
}

func (b *Broker) ourselves(nr int, act func(w walk) unix.Errno) error {
	c := &call{b: b, nr: nr, proc: -1}
	defer c.close()
	r := fails(unix.EIO)
	b.guard(func() { r = b.locked(func() reply { return fails(act(walk{call: c})) }) })
	if r.errno != 0 {
		return r.errno
	}
	return nil
}

// Withholds reports whether a file that was found under a name is one that was withheld when
// the sandbox was built, under whatever name.
func (b *Broker) Withholds(fd int, name string) bool {
	b.names.Lock()
	defer b.names.Unlock()
	var st unix.Stat_t
	return unix.Fstat(fd, &st) != nil || b.withholds(&st, name)
}
