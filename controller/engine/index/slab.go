package index

import (
	"math/bits"

	"k8s.io/apimachinery/pkg/types"
)

// Add makes an entry for a UID that has none for the trigger. It is in no heap.
func (x *Index) Add(uid types.UID, trigger uint8) uint32 {
	c := x.chunkWithRoom()
	ch := x.chunks[c]
	i := ch.free
	e := &ch.entries[i]
	ch.free = e.pos
	ch.used++
	if ch.free < 0 {
		x.roomy[c/64] &^= 1 << (c % 64)
	}
	slot := uint32(c*chunkSize) + uint32(i)
	bin, odd := packUID(uid)
	*e = Entry{uid: bin, pos: -1, State: Armed, Trigger: trigger}
	if odd {
		e.Flags |= FlagOddUID
		x.oddUIDs[slot] = types.UID(cloneString(string(uid)))
	}
	x.table.insert(x.table.hash(&bin), slot, x.hashOf)
	x.size++
	return slot
}

func (x *Index) chunkWithRoom() int {
	for w, word := range x.roomy {
		if word != 0 {
			c := w*64 + bits.TrailingZeros64(word)
			if x.chunks[c] == nil {
				x.chunks[c] = x.newChunk()
			}
			return c
		}
	}
	c := len(x.chunks)
	x.chunks = append(x.chunks, x.newChunk())
	if c/64 == len(x.roomy) {
		x.roomy = append(x.roomy, 0)
	}
	x.roomy[c/64] |= 1 << (c % 64)
	return c
}

func (x *Index) newChunk() *chunk {
	if ch := x.spare; ch != nil {
		x.spare = nil
		return ch
	}
	ch := &chunk{}
	for i := range ch.entries {
		ch.entries[i].pos = int32(i) + 1
	}
	ch.entries[chunkSize-1].pos = -1
	return ch
}

// Release removes an entry and frees its memory.
func (x *Index) Release(slot uint32) {
	x.Pull(slot)
	e := x.At(slot)
	x.table.remove(x.table.hash(&e.uid), slot, x.hashOf)
	x.namespaces.drop(e.ns)
	x.sources.drop(e.source)
	if e.Flags&FlagOddUID != 0 {
		delete(x.oddUIDs, slot)
	}
	if e.Flags&FlagOddRV != 0 {
		delete(x.oddRVs, slot)
	}
	c := int(slot / chunkSize)
	ch := x.chunks[c]
	*e = Entry{pos: ch.free}
	ch.free = int32(slot % chunkSize)
	ch.used--
	if ch.used == 0 {
		x.chunks[c] = nil
		x.spare = ch
	}
	x.roomy[c/64] |= 1 << (c % 64)
	x.size--
}

// Each calls f for the entries of one chunk and reports whether there are more chunks. f may
// Release the entry.
func (x *Index) Each(c int, f func(slot uint32, e *Entry)) bool {
	if c >= len(x.chunks) {
		return false
	}
	if ch := x.chunks[c]; ch != nil {
		for i := range ch.entries {
			if ch.entries[i].State != free {
				f(uint32(c*chunkSize+i), &ch.entries[i])
			}
		}
	}
	return true
}
