package engine

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

// entry is one object. The only pointer in it is the name's.
type entry struct {
	uid    [16]byte // the UUID, or a digest of a UID in another form (flagOddUID)
	rv     uint64   // resourceVersion, 0 with flagOddRV
	expiry int64    // unix nanoseconds
	epoch  uint64   // see changes
	wake   int64    // when to look at it next: expiry, next attempt, end of a tombstone, report as stuck
	name   string
	ns     uint32
	source uint32
	pos    int32 // where in its heap, -1: in none
	kind   Kind
	flags  flags

	state    state
	attempts uint8 // failed attempts in a row, saturating
	trigger  uint8 // of its kind
	phase    uint8
	gen      uint8 // relist generation of the kind when it was last seen
	place    place // which heap it is in

	propagation uint8 // in propagations
}

type flags uint16

const (
	flagOddUID flags = 1 << iota
	flagOddRV
	flagLive
	flagBackfill
	flagDryRun
	flagLate        // was due and tried at least once: counts as overdue wherever it waits
	flagParked      // waits for a breaker: woken when that closes
	flagTerminating // in flight, and the watch has shown a deletionTimestamp meanwhile
	flagStuck       // terminating for too long, and reported
	flagUnanswered  // a DELETE got no answer and may have been carried out
	flagUpserted    // in flight, and a feed has upserted it meanwhile
	flagJudge       // waits for a slot to be judged live, without flagLive
)

// propagations are the policies that an entry stores as a number. Any other policy is stored as
// Background, which cascades and honours finalizers.
var propagations = []metav1.DeletionPropagation{"", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}

type state uint8

const (
	stateFree state = iota
	stateArmed
	stateInFlight
	stateReported    // dry-run and reported, or done until the object changes
	stateTerminating // in a heap until it counts as stuck
	stateTombstone   // deleted; keeps stale events out until wake
)

const chunkSize = 1024

// chunk is a piece of the slab. Free entries are chained through pos.
type chunk struct {
	entries [chunkSize]entry
	used    int
	free    int32 // first free entry, -1: none
}

// index holds the entries. It is not safe for concurrent use; the engine's lock guards it.
type index struct {
	chunks []*chunk // nil: given back
	roomy  []uint64 // bitmap of chunks that are nil or have room; the lowest is filled first, so that high ones drain
	table  table
	queues []*queue
	chores heap     // tombstones, and what terminates: they wait behind no deletion
	of     []*queue // by Kind

	namespaces *interner
	sources    *interner
	phases     []string

	oddUIDs map[uint32]types.UID
	oddRVs  map[uint32]string

	spare *chunk // the last chunk that was emptied, so that a quiet cluster does not allocate one again and again

	size int // entries in use, tombstones included
}

func newIndex() *index {
	return &index{
		// #nosec G404 -- the runtime's generator is good enough for the seed of a hash.
		table:      table{seed: rand.Uint64()},
		of:         []*queue{nil},
		namespaces: newInterner(),
		sources:    newInterner(),
		phases:     []string{""},
		oddUIDs:    map[uint32]types.UID{},
		oddRVs:     map[uint32]string{},
	}
}

func (x *index) queueOf(kind Kind) *queue { return x.of[kind] }

func (x *index) at(slot uint32) *entry { return &x.chunks[slot/chunkSize].entries[slot%chunkSize] }

func (x *index) hashOf(slot uint32) uint64 { return x.table.hash(&x.at(slot).uid) }

// lookup finds the entry of a UID for a trigger.
func (x *index) lookup(uid types.UID, trigger uint8) (uint32, bool) {
	bin, odd := packUID(uid)
	return x.table.find(x.table.hash(&bin), func(slot uint32) bool {
		e := x.at(slot)
		return e.uid == bin && e.trigger == trigger && (e.flags&flagOddUID != 0) == odd
	})
}

// entriesOf are the entries of a UID for all triggers.
func (x *index) entriesOf(uid types.UID) (slots []uint32) {
	bin, odd := packUID(uid)
	x.table.find(x.table.hash(&bin), func(slot uint32) bool {
		if e := x.at(slot); e.uid == bin && (e.flags&flagOddUID != 0) == odd {
			slots = append(slots, slot)
		}
		return false // go on
	})
	return slots
}

// set writes a judged object into its entry. It does not touch state, wake and attempts.
func (x *index) set(slot uint32, o *Object) {
	e := x.at(slot)
	if waits := e.pos >= 0 && (x.queueOf(e.kind) != x.queueOf(o.Kind) || x.namespaces.get(e.ns) != o.Namespace); waits {
		x.pull(slot)
		defer x.push(slot)
	}
	e.kind = o.Kind
	if e.name != o.Name {
		e.name = cloneString(o.Name)
	}
	if x.namespaces.get(e.ns) != o.Namespace {
		x.namespaces.drop(e.ns)
		e.ns = x.namespaces.add(o.Namespace)
	}
	if x.sources.get(e.source) != o.Source {
		x.sources.drop(e.source)
		e.source = x.sources.add(o.Source)
	}
	if x.phases[e.phase] != o.Phase {
		e.phase = x.phaseID(o.Phase)
	}
	e.expiry, e.epoch = nanos(o.Expiry), o.Epoch
	e.flags &^= flagLive | flagJudge | flagBackfill | flagDryRun
	if o.Live {
		e.flags |= flagLive
	}
	if o.Backfill {
		e.flags |= flagBackfill
	}
	if o.DryRun {
		e.flags |= flagDryRun
	}
	if e.propagation = 1; slices.Contains(propagations, o.Propagation) {
		e.propagation = uint8(slices.Index(propagations, o.Propagation))
	}
	x.setVersion(slot, o.ResourceVersion)
}

func (x *index) setVersion(slot uint32, version string) {
	e := x.at(slot)
	rv, ok := packVersion(version)
	if ok {
		if e.flags&flagOddRV != 0 {
			delete(x.oddRVs, slot)
			e.flags &^= flagOddRV
		}
		e.rv = rv
		return
	}
	e.rv = 0
	e.flags |= flagOddRV
	x.oddRVs[slot] = cloneString(version)
}

// object is the reverse of set.
func (x *index) object(slot uint32) Object {
	e := x.at(slot)
	o := Object{
		Kind:        e.kind,
		Namespace:   x.namespaces.get(e.ns),
		Name:        e.name,
		Expiry:      time.Unix(0, e.expiry).UTC(),
		Phase:       x.phases[e.phase],
		Source:      x.sources.get(e.source),
		Propagation: propagations[e.propagation],
		Live:        e.flags&flagLive != 0,
		Backfill:    e.flags&flagBackfill != 0,
		DryRun:      e.flags&flagDryRun != 0,
		Epoch:       e.epoch,
	}
	o.UID = x.uid(slot)
	if e.flags&flagOddRV != 0 {
		o.ResourceVersion = x.oddRVs[slot]
	} else {
		o.ResourceVersion = strconv.FormatUint(e.rv, 10)
	}
	return o
}

func (x *index) uid(slot uint32) types.UID {
	if e := x.at(slot); e.flags&flagOddUID == 0 {
		return unpackUID(&e.uid)
	}
	return x.oddUIDs[slot]
}

// phaseID interns a phase. There are few phases; beyond 255 they share one name.
func (x *index) phaseID(s string) uint8 {
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
