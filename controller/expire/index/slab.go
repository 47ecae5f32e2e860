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
	*e = Record{uid: bin, pos: -1, State: Armed, Trigger: trigger}
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
	*e = Record{pos: ch.free}
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
func (x *Index) Each(c int, f func(slot uint32, e *Record)) bool {
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

// table finds the slot of a UID. It holds nothing but slot numbers (the UIDs are in the slab), so
// it costs 5 to 11 bytes an object where a Go map costs 24 to 48 and never shrinks. It is split in
// shards, so that growing never stalls a deletion for longer than it takes to move one shard.
type table struct {
	seed   uint64
	shards [tableShards]shard
}

const tableShards = 256

// shard is open addressing with linear probing; 0 is empty, else slot+1. Deletion shifts back, so
// there are no tombstones.
type shard struct {
	cells []uint32
	used  int
}

// hash mixes 16 bytes of UID. UIDs come from the API server; the seed keeps a chosen series of them
// from colliding.
func (t *table) hash(uid *[16]byte) uint64 {
	h := t.seed
	for i := 0; i < 16; i += 8 {
		w := uint64(uid[i]) | uint64(uid[i+1])<<8 | uint64(uid[i+2])<<16 | uint64(uid[i+3])<<24 |
			uint64(uid[i+4])<<32 | uint64(uid[i+5])<<40 | uint64(uid[i+6])<<48 | uint64(uid[i+7])<<56
		h ^= w
		h *= 0x9e3779b97f4a7c15
		h ^= h >> 29
		h *= 0xbf58476d1ce4e5b9
		h ^= h >> 32
	}
	return h
}

// find returns the slot that same accepts.
func (t *table) find(hash uint64, same func(slot uint32) bool) (uint32, bool) {
	s := &t.shards[hash%tableShards]
	if s.used == 0 {
		return 0, false
	}
	mask := uint64(len(s.cells) - 1)
	for i := hash >> 8 & mask; s.cells[i] != 0; i = (i + 1) & mask {
		if slot := s.cells[i] - 1; same(slot) {
			return slot, true
		}
	}
	return 0, false
}

// insert adds a slot that is not there yet.
func (t *table) insert(hash uint64, slot uint32, hashOf func(slot uint32) uint64) {
	s := &t.shards[hash%tableShards]
	if (s.used+1)*5 > len(s.cells)*4 {
		s.resize(max(8, len(s.cells)*2), hashOf)
	}
	s.put(hash, slot)
	s.used++
}

func (s *shard) put(hash uint64, slot uint32) {
	mask := uint64(len(s.cells) - 1)
	i := hash >> 8 & mask
	for s.cells[i] != 0 {
		i = (i + 1) & mask
	}
	s.cells[i] = slot + 1
}

func (s *shard) resize(n int, hashOf func(slot uint32) uint64) {
	old := s.cells
	s.cells = make([]uint32, n)
	for _, c := range old {
		if c != 0 {
			s.put(hashOf(c-1), c-1)
		}
	}
}

// remove takes a slot out, whose entry must still be readable through hashOf.
func (t *table) remove(hash uint64, slot uint32, hashOf func(slot uint32) uint64) {
	s := &t.shards[hash%tableShards]
	mask := uint64(len(s.cells) - 1)
	i := hash >> 8 & mask
	for s.cells[i] != slot+1 {
		if s.cells[i] == 0 {
			return
		}
		i = (i + 1) & mask
	}
	// Shift back cells that a search would not find behind the hole.
	for j := (i + 1) & mask; s.cells[j] != 0; j = (j + 1) & mask {
		home := hashOf(s.cells[j]-1) >> 8 & mask
		if (j-home)&mask >= (j-i)&mask {
			s.cells[i] = s.cells[j]
			i = j
		}
	}
	s.cells[i] = 0
	s.used--
	if n := len(s.cells); n > 8 && s.used*8 < n {
		s.resize(max(8, n/4), hashOf)
	}
}
