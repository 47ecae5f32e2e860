package engine

// heap is a 4-ary heap of slots, ordered by the wake time of their entries, then by expiry. Each
// entry knows its position, so that it can be postponed, advanced or removed in place, which
// client-go's delaying queue and controller-runtime's priority queue cannot do.
type heap struct {
	slots []uint32
}

func (x *index) less(a, b uint32) bool {
	ea, eb := x.at(a), x.at(b)
	if ea.wake != eb.wake {
		return ea.wake < eb.wake
	}
	return ea.expiry < eb.expiry
}

// place names the heap that an entry is in, or belongs into.
type place uint8

const (
	inDue place = iota // of its queue,
	inLive
	inBackfill
	inClaimed
	inChores // of the index: needs no request, and waits for none
	// inOwn is added if the entry is in the partition of its namespace.
	inOwn place = 1 << 7
)

func (x *index) placeOf(e *entry) (where place) {
	switch {
	case e.state == stateTombstone || e.state == stateTerminating:
		return inChores
	case e.flags&flagBackfill != 0 && sourceClass(x.sources.get(e.source)) == classObject:
		where = inClaimed
	case e.flags&flagBackfill != 0:
		where = inBackfill
	case e.flags&(flagLive|flagJudge) != 0:
		where = inLive
	}
	if own := x.queueOf(e.kind).own; len(own) > 0 && own[x.namespaces.get(e.ns)] != nil {
		where |= inOwn
	}
	return where
}

// heapOf is the heap that an entry is in.
func (x *index) heapOf(e *entry) *heap {
	if e.place == inChores {
		return &x.chores
	}
	of := x.queueOf(e.kind)
	p := &of.rest
	if e.place&inOwn != 0 {
		p = of.own[x.namespaces.get(e.ns)]
	}
	switch e.place &^ inOwn {
	case inBackfill:
		return &p.backfill
	case inClaimed:
		return &p.claimed
	case inLive:
		return &p.live
	default:
		return &p.due
	}
}

// eachHeap calls f for all heaps.
func (x *index) eachHeap(f func(*heap)) {
	f(&x.chores)
	for _, q := range x.queues {
		q.partitions(func(p *partition) {
			for _, h := range p.heaps() {
				f(h)
			}
		})
	}
}

// push puts an entry that is in no heap into the heap where it belongs.
func (x *index) push(slot uint32) {
	e := x.at(slot)
	e.place = x.placeOf(e)
	h := x.heapOf(e)
	h.slots = append(h.slots, slot)
	e.pos = int32(len(h.slots) - 1)
	x.up(h, int(e.pos))
}

// pull takes an entry out of the heap it is in, if any.
func (x *index) pull(slot uint32) {
	e := x.at(slot)
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
		x.at(moved).pos = int32(i)
		if !x.up(h, i) {
			x.down(h, i)
		}
	}
	if c := cap(h.slots); c > 4096 && len(h.slots) < c/4 {
		h.slots = append(make([]uint32, 0, c/2), h.slots...)
	}
}

// move puts an entry where it belongs by its state and its wake time.
func (x *index) move(slot uint32) {
	e := x.at(slot)
	if e.pos < 0 || e.place != x.placeOf(e) {
		x.pull(slot)
		x.push(slot)
		return
	}
	h := x.heapOf(e)
	if i := int(e.pos); !x.up(h, i) {
		x.down(h, i)
	}
}

func (x *index) up(h *heap, i int) bool {
	moved := false
	slot := h.slots[i]
	for i > 0 {
		parent := (i - 1) / 4
		p := h.slots[parent]
		if !x.less(slot, p) {
			break
		}
		h.slots[i] = p
		x.at(p).pos = int32(i)
		i = parent
		moved = true
	}
	h.slots[i] = slot
	x.at(slot).pos = int32(i)
	return moved
}

func (x *index) down(h *heap, i int) {
	slot := h.slots[i]
	n := len(h.slots)
	for {
		first := i*4 + 1
		if first >= n {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, n); c++ {
			if x.less(h.slots[c], h.slots[least]) {
				least = c
			}
		}
		if !x.less(h.slots[least], slot) {
			break
		}
		h.slots[i] = h.slots[least]
		x.at(h.slots[i]).pos = int32(i)
		i = least
	}
	h.slots[i] = slot
	x.at(slot).pos = int32(i)
}

// top returns the slot with the earliest wake time.
func (h *heap) top() (uint32, bool) {
	if len(h.slots) == 0 {
		return 0, false
	}
	return h.slots[0], true
}
