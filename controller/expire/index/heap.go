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

// push puts an entry that is in no heap into the heap where it belongs.
func (x *Index) push(slot uint32) {
	e := x.At(slot)
	e.class = x.classOf(e)
	h, g := x.heapOf(e)
	h.slots = append(h.slots, slot)
	e.pos = int32(len(h.slots) - 1)
	x.up(h, int(e.pos))
	x.changed(g, e.class)
}

// Pull takes an entry out of the heap it is in, if any.
func (x *Index) Pull(slot uint32) {
	e := x.At(slot)
	if e.pos < 0 {
		return
	}
	h, g := x.heapOf(e)
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
	x.changed(g, e.class)
}

// Move puts an entry where it belongs by its state and its wake time.
func (x *Index) Move(slot uint32) {
	e := x.At(slot)
	if e.pos < 0 || e.class != x.classOf(e) {
		x.Pull(slot)
		x.push(slot)
		return
	}
	h, g := x.heapOf(e)
	if i := int(e.pos); !x.up(h, i) {
		x.down(h, i)
	}
	x.changed(g, e.class)
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

// Chores is the heap of tombstones and terminating objects.
func (x *Index) Chores() *Heap { return &x.chores }
