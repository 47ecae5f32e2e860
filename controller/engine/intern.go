package engine

// interner gives equal strings one small number and counts its users. It forgets a string with its
// last user, so that deleted namespaces and sources leave nothing behind. Number 0 is always the
// empty string.
type interner struct {
	ids     map[string]uint32
	strings []string
	users   []uint32
	free    []uint32
}

func newInterner() *interner {
	return &interner{ids: map[string]uint32{}, strings: []string{""}, users: []uint32{0}}
}

// add returns the number of s and counts one more user. It copies s.
func (in *interner) add(s string) uint32 {
	if s == "" {
		return 0
	}
	id, ok := in.ids[s]
	if !ok {
		s = cloneString(s)
		if n := len(in.free); n > 0 {
			id = in.free[n-1]
			in.free = in.free[:n-1]
			in.strings[id] = s
		} else {
			id = uint32(len(in.strings))
			in.strings = append(in.strings, s)
			in.users = append(in.users, 0)
		}
		in.ids[s] = id
	}
	in.users[id]++
	return id
}

// drop counts one user less.
func (in *interner) drop(id uint32) {
	if id == 0 {
		return
	}
	in.users[id]--
	if in.users[id] == 0 {
		delete(in.ids, in.strings[id])
		in.strings[id] = ""
		in.free = append(in.free, id)
	}
}

func (in *interner) get(id uint32) string { return in.strings[id] }
