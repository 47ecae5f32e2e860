package index

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// What one object costs, in bytes: the entry 88, its name (30 letters) 32, its place in the heap 4
// to 5, its cell in the table 5 to 11. Namespaces, sources and triggers are numbers.

// Record is one object. The only pointer in it is the name's.
type Record struct {
	uid    [16]byte // the UUID, or a digest of a UID in another form (FlagOddUID)
	rv     uint64   // resourceVersion, 0 with FlagOddRV
	Expiry int64    // unix nanoseconds
	epoch  uint64   // see changes
	Wake   int64    // when to look at it next: expiry, next attempt, end of a tombstone, report as stuck
	Name   string
	ns     uint32
	source uint32
	pos    int32 // where in its heap, -1: in none
	Kind   Kind
	Flags  Flags

	State    State
	Attempts uint8 // failed attempts in a row, saturating
	Trigger  uint8 // of its kind
	Phase    uint8
	Gen      uint8 // relist generation of the kind when it was last seen
	class    Class // of the heap that it is in

	propagation uint8 // in propagations
}

// Flags describe an entry.
type Flags uint16

const (
	FlagOddUID Flags = 1 << iota
	FlagOddRV
	FlagLive
	FlagBackfill
	FlagDryRun
	FlagLate        // was due and tried at least once: counts as overdue wherever it waits
	FlagParked      // waits for a breaker: woken when that closes
	FlagTerminating // in flight, and the watch has shown a deletionTimestamp meanwhile
	FlagStuck       // terminating for too long, and reported
	FlagUnanswered  // a DELETE got no answer and may have been carried out
	FlagUpserted    // in flight, and a feed has upserted it meanwhile
)

// propagations are the policies that an entry stores as a number. Any other policy is stored as
// Background, which cascades and honours finalizers.
var propagations = []metav1.DeletionPropagation{
	"", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
}

// State of an entry.
type State uint8

const (
	free State = iota
	Armed
	InFlight
	Reported    // dry-run and reported, or done until the object changes
	Terminating // in a heap until it counts as stuck
	Tombstone   // deleted; keeps stale events out until wake
)

const chunkSize = 1024

// chunk is a piece of the slab. Free entries are chained through pos.
type chunk struct {
	entries [chunkSize]Record
	used    int
	free    int32 // first free entry, -1: none
}

// Index holds the entries. It is not safe for concurrent use; the engine's lock guards it.
type Index struct {
	chunks []*chunk // nil: given back
	roomy  []uint64 // bitmap of chunks that are nil or have room; the lowest is filled first, so that high ones drain
	table  table
	groups map[groupKey]*Group
	turns  [classes]turns
	chores Heap   // tombstones, and what terminates: they wait behind no deletion
	kinds  []kind // by Kind

	namespaces *interner
	sources    *interner
	phases     []string

	oddUIDs map[uint32]types.UID
	oddRVs  map[uint32]string

	spare *chunk // the last chunk that was emptied, so that a quiet cluster does not allocate one again and again

	size int // entries in use, tombstones included
}

// kind is what the index knows of a kind.
type kind struct {
	resource uint16
	deletes  bool
}

func New() *Index {
	x := &Index{
		// #nosec G404 -- the runtime's generator is good enough for the seed of a hash.
		table:      table{seed: rand.Uint64()},
		groups:     map[groupKey]*Group{},
		kinds:      []kind{{}},
		namespaces: newInterner(),
		sources:    newInterner(),
		phases:     []string{""},
		oddUIDs:    map[uint32]types.UID{},
		oddRVs:     map[uint32]string{},
	}
	for c := range x.turns {
		x.turns[c].index, x.turns[c].class = x, Class(c)
	}
	return x
}

// AddKind adds the next kind: the number of its resource, which several kinds may share, and
// whether its action is a deletion.
func (x *Index) AddKind(resource uint16, deletes bool) {
	x.kinds = append(x.kinds, kind{resource, deletes})
}

// Len is the number of entries, tombstones included.
func (x *Index) Len() int { return x.size }

// At is the entry in a slot. It is valid until the entry is released.
func (x *Index) At(slot uint32) *Record { return &x.chunks[slot/chunkSize].entries[slot%chunkSize] }

func (x *Index) hashOf(slot uint32) uint64 { return x.table.hash(&x.At(slot).uid) }

// Find finds the entry of a UID for a trigger.
func (x *Index) Find(uid types.UID, trigger uint8) (uint32, bool) {
	bin, odd := packUID(uid)
	return x.table.find(x.table.hash(&bin), func(slot uint32) bool {
		e := x.At(slot)
		return e.uid == bin && e.Trigger == trigger && (e.Flags&FlagOddUID != 0) == odd
	})
}

// All are the entries of a UID for all triggers.
func (x *Index) All(uid types.UID) (slots []uint32) {
	bin, odd := packUID(uid)
	x.table.find(x.table.hash(&bin), func(slot uint32) bool {
		if e := x.At(slot); e.uid == bin && (e.Flags&FlagOddUID != 0) == odd {
			slots = append(slots, slot)
		}
		return false // go on
	})
	return slots
}

// Set writes a judged object into its entry. It does not touch state, wake and attempts.
func (x *Index) Set(slot uint32, o *Entry) {
	e := x.At(slot)
	if waits := e.pos >= 0 && (x.kinds[e.Kind] != x.kinds[o.Kind] || x.namespaces.get(e.ns) != o.Namespace); waits {
		x.Pull(slot)
		defer x.push(slot)
	}
	e.Kind = o.Kind
	if e.Name != o.Name {
		e.Name = cloneString(o.Name)
	}
	if x.namespaces.get(e.ns) != o.Namespace {
		x.namespaces.drop(e.ns)
		e.ns = x.namespaces.add(o.Namespace)
	}
	if x.sources.get(e.source) != o.Source {
		x.sources.drop(e.source)
		e.source = x.sources.add(o.Source)
	}
	if x.phases[e.Phase] != o.Phase {
		e.Phase = x.phaseID(o.Phase)
	}
	e.Expiry, e.epoch = Nanos(o.Expiry), o.Epoch
	e.Flags &^= FlagLive | FlagBackfill | FlagDryRun
	if o.Live {
		e.Flags |= FlagLive
	}
	if o.Backfill {
		e.Flags |= FlagBackfill
	}
	if o.DryRun {
		e.Flags |= FlagDryRun
	}
	if e.propagation = 1; slices.Contains(propagations, o.Propagation) {
		e.propagation = uint8(slices.Index(propagations, o.Propagation))
	}
	x.setVersion(slot, o.ResourceVersion)
}

func (x *Index) setVersion(slot uint32, version string) {
	e := x.At(slot)
	rv, ok := PackVersion(version)
	if ok {
		if e.Flags&FlagOddRV != 0 {
			delete(x.oddRVs, slot)
			e.Flags &^= FlagOddRV
		}
		e.rv = rv
		return
	}
	e.rv = 0
	e.Flags |= FlagOddRV
	x.oddRVs[slot] = cloneString(version)
}

// Entry is the reverse of set.
func (x *Index) Entry(slot uint32) Entry {
	e := x.At(slot)
	o := Entry{
		Kind:        e.Kind,
		Namespace:   x.namespaces.get(e.ns),
		Name:        e.Name,
		Expiry:      time.Unix(0, e.Expiry).UTC(),
		Phase:       x.phases[e.Phase],
		Source:      x.sources.get(e.source),
		Propagation: propagations[e.propagation],
		Live:        e.Flags&FlagLive != 0,
		Backfill:    e.Flags&FlagBackfill != 0,
		DryRun:      e.Flags&FlagDryRun != 0,
		Epoch:       e.epoch,
	}
	o.UID = x.UID(slot)
	if e.Flags&FlagOddRV != 0 {
		o.ResourceVersion = x.oddRVs[slot]
	} else {
		o.ResourceVersion = strconv.FormatUint(e.rv, 10)
	}
	return o
}

func (x *Index) UID(slot uint32) types.UID {
	if e := x.At(slot); e.Flags&FlagOddUID == 0 {
		return unpackUID(&e.uid)
	}
	return x.oddUIDs[slot]
}

// phaseID interns a phase. There are few phases; beyond 255 they share one name.
func (x *Index) phaseID(s string) uint8 {
	for i, t := range x.phases {
		if t == s {
			return uint8(i)
		}
	}
	switch n := len(x.phases); {
	case n < 255:
		x.phases = append(x.phases, cloneString(s))
		return uint8(n)
	case n == 255:
		x.phases = append(x.phases, "other")
	}
	return 255
}
