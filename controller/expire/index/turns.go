package index

import (
	"container/heap"
	"container/list"
)

// Class says which rates an entry waits for, beside its group.
type Class uint8

const (
	// Deletions wait for the rate of deletions.
	Deletions Class = iota
	// Others wait for no rate: dry runs, and actions that delete nothing.
	Others
	// Backfill waits for the rate of backfill, too.
	Backfill
	// Claimed is backfill that only an unproven stamp claims.
	Claimed
	classes
	// inChores is the class of entries that need no request.
	inChores = classes
)

// Group holds the entries of one resource in one namespace, or of one cluster-scoped resource, that
// wait for their action. Groups take turns. The engine counts the jobs of a group in it.
type Group struct {
	// InFlight are the jobs under way.
	InFlight int
	// Slow: its requests take so long that it has one job at a time.
	Slow bool

	key    groupKey
	heaps  [classes]Heap
	places [classes]placing
}

type groupKey struct {
	resource  uint16
	namespace string
}

// placing is where a group waits with its entries of one class: in a list, or until its first entry
// is due in the heap of those that come later.
type placing struct {
	list    *list.List
	element *list.Element
	pos     int
	later   bool
}

// turns are the groups that have entries of one class.
type turns struct {
	index *Index
	class Class
	later []*Group  // a heap, by the wake time of the first entry
	ready list.List // groups whose first entry is due, in the order of their turns
	full  list.List // groups that have their share of jobs: they get more if no other group wants it
	none  list.List // groups that may have no more, even if no other group wants it
}

// Len, Less, Swap, Push and Pop implement heap.Interface for the groups that come later.
func (t *turns) Len() int { return len(t.later) }

func (t *turns) Less(i, j int) bool {
	return t.index.Less(t.later[i].heaps[t.class].slots[0], t.later[j].heaps[t.class].slots[0])
}

func (t *turns) Swap(i, j int) {
	t.later[i], t.later[j] = t.later[j], t.later[i]
	t.later[i].places[t.class].pos, t.later[j].places[t.class].pos = i, j
}

func (t *turns) Push(g any) {
	t.later = append(t.later, g.(*Group))
	g.(*Group).places[t.class].pos = len(t.later) - 1
}

func (t *turns) Pop() any {
	last := len(t.later) - 1
	g := t.later[last]
	t.later[last] = nil
	t.later = t.later[:last]
	return g
}

// leave takes a group out of where it waits.
func (t *turns) leave(g *Group) {
	switch p := &g.places[t.class]; {
	case p.list != nil:
		p.list.Remove(p.element)
		p.list, p.element = nil, nil
	case p.later:
		heap.Remove(t, p.pos)
		p.later = false
	}
}

// enter puts a group at the end of a list, or with nil to those that come later.
func (t *turns) enter(g *Group, to *list.List) {
	t.leave(g)
	p := &g.places[t.class]
	if to != nil {
		p.list, p.element = to, to.PushBack(g)
		return
	}
	p.later = true
	heap.Push(t, g)
}

// classOf is the class in which an entry waits.
func (x *Index) classOf(e *Record) Class {
	switch {
	case e.State == Tombstone || e.State == Terminating:
		return inChores
	case e.Flags&FlagDryRun != 0:
		return Others
	case e.Flags&FlagBackfill != 0 && SourceClass(x.sources.get(e.source)) == ClassObject:
		return Claimed
	case e.Flags&FlagBackfill != 0:
		return Backfill
	case x.kinds[e.Kind].deletes:
		return Deletions
	default:
		return Others
	}
}

// heapOf is the heap of an entry, and its group if it has one.
func (x *Index) heapOf(e *Record) (*Heap, *Group) {
	if e.class == inChores {
		return &x.chores, nil
	}
	g := x.Group(e.Kind, x.namespaces.get(e.ns))
	return &g.heaps[e.class], g
}

// Group returns the group of a kind in a namespace. It is forgotten when its last entry leaves or
// its last job ends.
func (x *Index) Group(k Kind, namespace string) *Group {
	g := x.Lookup(k, namespace)
	if g == nil {
		g = &Group{key: groupKey{x.kinds[k].resource, cloneString(namespace)}}
		x.groups[g.key] = g
	}
	return g
}

// Lookup is Group, but nil if there is none.
func (x *Index) Lookup(k Kind, namespace string) *Group {
	return x.groups[groupKey{x.kinds[k].resource, namespace}]
}

// tidy forgets a group without entries and without jobs.
func (x *Index) tidy(g *Group) {
	if g.InFlight > 0 || x.groups[g.key] != g {
		return
	}
	for c := range g.heaps {
		if len(g.heaps[c].slots) > 0 {
			return
		}
	}
	delete(x.groups, g.key)
}

// changed puts a group where it waits after one of its heaps has changed. In a list it is looked at
// when it has its turn.
func (x *Index) changed(g *Group, c Class) {
	if g == nil {
		return
	}
	t, p := &x.turns[c], &g.places[c]
	switch {
	case len(g.heaps[c].slots) == 0:
		t.leave(g)
		x.tidy(g)
	case p.list != nil:
	case p.later:
		heap.Fix(t, p.pos)
	default:
		t.enter(g, nil)
	}
}

// Room says whether a group may begin one more job.
type Room uint8

const (
	Free Room = iota
	Full      // it has its share
	None      // it may have no more, even if no other group wants it
)

// Next returns a due entry of the group whose turn it is, among those that have room, or that have
// their share while no other has room.
func (x *Index) Next(c Class, now int64, room func(*Group) Room) (slot uint32, found bool) {
	t := &x.turns[c]
	for len(t.later) > 0 && x.At(t.later[0].heaps[c].slots[0]).Wake <= now {
		t.enter(t.later[0], &t.ready)
	}
	for _, from := range []*list.List{&t.ready, &t.full} {
		for from.Len() > 0 {
			g := from.Front().Value.(*Group)
			slot := g.heaps[c].slots[0]
			if x.At(slot).Wake > now {
				t.enter(g, nil)
				continue
			}
			switch room(g) {
			case None:
				t.enter(g, &t.none)
				continue
			case Full:
				t.enter(g, &t.full)
				if from == &t.ready {
					continue
				}
			default:
				t.enter(g, &t.ready)
			}
			return slot, true
		}
	}
	return 0, false
}

// Return gives a group its turn again after one of its jobs has ended. After a job of a slow group,
// so do all slow groups: something else may hold the first of them.
func (x *Index) Return(g *Group, slow bool) {
	for c := range x.turns {
		t := &x.turns[c]
		if l := g.places[c].list; l == &t.full || l == &t.none {
			t.enter(g, &t.ready)
		}
		for slow && t.none.Len() > 0 {
			t.enter(t.none.Front().Value.(*Group), &t.ready)
		}
	}
	x.tidy(g)
}

// NextWake is the earliest instant at which an entry that waits for its action has to be looked at.
// due reports whether there are entries that are due already and wait for room or for a rate.
func (x *Index) NextWake() (nanos int64, found, due bool) {
	for c := range x.turns {
		t := &x.turns[c]
		due = due || t.ready.Len()+t.full.Len()+t.none.Len() > 0
		if len(t.later) == 0 {
			continue
		}
		if wake := x.At(t.later[0].heaps[c].slots[0]).Wake; !found || wake < nanos {
			nanos, found = wake, true
		}
	}
	return nanos, found, due
}
