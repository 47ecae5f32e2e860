package index

// Heap is a 4-ary heap of slots, ordered by the wake time of their entries, then by expiry. Each
// entry knows its position, so that it can be postponed, advanced or removed in place, which
// client-go's delaying queue and controller-runtime's priority queue cannot do.
type Heap struct {
	slots []uint32
}

// Less reports whether an entry comes before another one.
func (x *Index) Less(a, b uint32) bool {
	ea, eb := x.At(a), x.At(b)
	if ea.Wake != eb.Wake {
		return ea.Wake < eb.Wake
	}
	return ea.Expiry < eb.Expiry
}

// place names the heap that an entry is in, or belongs into.
type place uint8

const (
	inDue place = iota // of its queue,
	inBackfill
	inClaimed
	inChores // of the index: needs no request, and waits for none
	// inOwn is added if the entry is in the partition of its namespace.
	inOwn place = 1 << 7
)

func (x *Index) placeOf(e *Record) (where place) {
	switch {
	case e.State == Tombstone || e.State == Terminating:
		return inChores
	case e.Flags&FlagBackfill != 0 && SourceClass(x.sources.get(e.source)) == ClassObject:
		where = inClaimed
	case e.Flags&FlagBackfill != 0:
		where = inBackfill
	}
	if own := x.queueOf(e.Kind).own; len(own) > 0 && own[x.namespaces.get(e.ns)] != nil {
		where |= inOwn
	}
	return where
}

// heapOf is the heap that an entry is in.
func (x *Index) heapOf(e *Record) *Heap {
	if e.place == inChores {
		return &x.chores
	}
	of := x.queueOf(e.Kind)
	p := &of.Rest
	if e.place&inOwn != 0 {
		p = of.own[x.namespaces.get(e.ns)]
	}
	switch e.place &^ inOwn {
	case inBackfill:
		return &p.Backfill
	case inClaimed:
		return &p.Claimed
	default:
		return &p.Due
	}
}

// EachHeap calls f for all heaps.
func (x *Index) EachHeap(f func(*Heap)) {
	f(&x.chores)
	x.eachWaiting(f)
}

// eachWaiting calls f for the heaps of entries that wait for their action.
func (x *Index) eachWaiting(f func(*Heap)) {
	for _, q := range x.queues {
		for _, h := range q.Rest.All() {
			f(h)
		}
		for _, own := range q.own {
			for _, h := range own.All() {
				f(h)
			}
		}
	}
}

// DueBy reports whether an entry that waits for its action has to be looked at by an instant.
func (x *Index) DueBy(at int64) (found bool) {
	x.eachWaiting(func(h *Heap) {
		slot, some := h.Top()
		found = found || some && x.At(slot).Wake <= at
	})
	return found
}

// push puts an entry that is in no heap into the heap where it belongs.
func (x *Index) push(slot uint32) {
	e := x.At(slot)
	e.place = x.placeOf(e)
	h := x.heapOf(e)
	h.slots = append(h.slots, slot)
	e.pos = int32(len(h.slots) - 1)
	x.up(h, int(e.pos))
}

// Pull takes an entry out of the heap it is in, if any.
func (x *Index) Pull(slot uint32) {
	e := x.At(slot)
	if e.pos < 0 {
		return
	}
	h := x.heapOf(e)
	i := int(e.pos)
	last := len(h.slots) - 1
	moved := h.slots[last]
	h.slots = h.slots[:last]
	e.pos = -1
	if i != last {
		h.slots[i] = moved
		x.At(moved).pos = int32(i)
		if !x.up(h, i) {
			x.down(h, i)
		}
	}
	if c := cap(h.slots); c > 4096 && len(h.slots) < c/4 {
		h.slots = append(make([]uint32, 0, c/2), h.slots...)
	}
}

// Move puts an entry where it belongs by its state and its wake time.
func (x *Index) Move(slot uint32) {
	e := x.At(slot)
	if e.pos < 0 || e.place != x.placeOf(e) {
		x.Pull(slot)
		x.push(slot)
		return
	}
	h := x.heapOf(e)
	if i := int(e.pos); !x.up(h, i) {
		x.down(h, i)
	}
}

func (x *Index) up(h *Heap, i int) bool {
	moved := false
	slot := h.slots[i]
	for i > 0 {
		parent := (i - 1) / 4
		p := h.slots[parent]
		if !x.Less(slot, p) {
			break
		}
		h.slots[i] = p
		x.At(p).pos = int32(i)
		i = parent
		moved = true
	}
	h.slots[i] = slot
	x.At(slot).pos = int32(i)
	return moved
}

func (x *Index) down(h *Heap, i int) {
	slot := h.slots[i]
	n := len(h.slots)
	for {
		first := i*4 + 1
		if first >= n {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, n); c++ {
			if x.Less(h.slots[c], h.slots[least]) {
				least = c
			}
		}
		if !x.Less(h.slots[least], slot) {
			break
		}
		h.slots[i] = h.slots[least]
		x.At(h.slots[i]).pos = int32(i)
		i = least
	}
	h.slots[i] = slot
	x.At(slot).pos = int32(i)
}

// Top returns the slot with the earliest wake time.
func (h *Heap) Top() (uint32, bool) {
	if len(h.slots) == 0 {
		return 0, false
	}
	return h.slots[0], true
}

// Len is the number of entries in the heap.
func (h *Heap) Len() int { return len(h.slots) }

// Chores is the heap of tombstones and terminating objects.
func (x *Index) Chores() *Heap { return &x.chores }

// Heaps are the heaps in which the entries of a partition wait.
type Heaps struct {
	Due      Heap
	Backfill Heap
	Claimed  Heap // backfill that only an unproven stamp claims: yields to Backfill
}

// All are all heaps of a partition.
func (p *Heaps) All() [3]*Heap { return [...]*Heap{&p.Due, &p.Backfill, &p.Claimed} }

// Queue holds the waiting entries of some kinds. Entries of slow namespaces wait apart from the
// rest.
type Queue struct {
	Rest Heaps
	own  map[string]*Heaps
}

// Separate gives a namespace heaps of its own. Its waiting entries go there when they move.
func (q *Queue) Separate(namespace string) *Heaps {
	if q.own == nil {
		q.own = map[string]*Heaps{}
	}
	own := &Heaps{}
	q.own[namespace] = own
	return own
}

// Dissolve drops the heaps of a namespace, which must be empty.
func (q *Queue) Dissolve(namespace string) { delete(q.own, namespace) }
