package index

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// The index against a map and a sorted look at it.
func TestIndex(t *testing.T) {
	uids := make([]types.UID, 40)
	for i := range uids {
		switch i % 4 {
		case 0:
			uids[i] = types.UID(fmt.Sprintf("ODD-%d", i))
		case 1:
			uids[i] = types.UID(fmt.Sprintf("0A000000-0000-4000-8000-%012x", i)) // capitals would not survive being 16 bytes
		default:
			uids[i] = types.UID(fmt.Sprintf("12345678-9abc-4def-8123-%012x", i))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x := New()
		x.AddKind(1, true)
		x.AddKind(2, true)
		x.AddKind(1, false)
		model := map[triggered]Entry{}
		wakes := map[triggered]int64{}
		key := rapid.Custom(func(t *rapid.T) triggered {
			return triggered{rapid.SampledFrom(uids).Draw(t, "uid"), rapid.SampledFrom([]uint8{0, 1, 2}).Draw(t, "trigger")}
		})
		draw := func(t *rapid.T, uid types.UID) Entry {
			return Entry{
				Kind: Kind(rapid.IntRange(1, 3).Draw(t, "kind")), UID: uid,
				Namespace:       rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "ns"),
				Name:            rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"),
				ResourceVersion: rapid.SampledFrom([]string{"1", "007", "18446744073709551615", "18446744073709551616", "", "abc", "0"}).Draw(t, "rv"),
				Expiry:          time.Unix(int64(rapid.IntRange(0, 20).Draw(t, "expiry")), 0).UTC(),
				Phase:           rapid.SampledFrom([]string{"", "check"}).Draw(t, "phase"),
				Source:          rapid.SampledFrom([]string{"object", "namespace/a", "policy/p"}).Draw(t, "source"),
				Propagation:     rapid.SampledFrom([]metav1.DeletionPropagation{"", "Foreground", "Background", "Orphan"}).Draw(t, "propagation"),
				Live:            rapid.Bool().Draw(t, "live"),
				Backfill:        rapid.Bool().Draw(t, "backfill"),
				DryRun:          rapid.Bool().Draw(t, "dry"),
			}
		}
		put := func(t *rapid.T, slot uint32, o Entry) {
			x.Set(slot, &o)
			x.At(slot).State = rapid.SampledFrom([]State{Armed, Armed, Terminating, Tombstone}).Draw(t, "state")
			x.At(slot).Wake = x.At(slot).Expiry
			x.Move(slot)
			entry := triggered{o.UID, x.At(slot).Trigger}
			model[entry], wakes[entry] = o, o.Expiry.UnixNano()
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				triggered := key.Draw(t, "key")
				slot, ok := x.Find(triggered.uid, triggered.trigger)
				if !ok {
					slot = x.Add(triggered.uid, triggered.trigger)
				}
				put(t, slot, draw(t, triggered.uid))
			},
			"release": func(t *rapid.T) {
				triggered := key.Draw(t, "key")
				if slot, ok := x.Find(triggered.uid, triggered.trigger); ok {
					x.Release(slot)
				}
				delete(model, triggered)
				delete(wakes, triggered)
			},
			"rest": func(t *rapid.T) {
				triggered := key.Draw(t, "key")
				if slot, ok := x.Find(triggered.uid, triggered.trigger); ok {
					x.Pull(slot)
				}
				delete(wakes, triggered)
			},
			"": func(t *rapid.T) {
				namespaces, odd := map[string]bool{"": true}, 0
				for triggered, want := range model {
					slot, ok := x.Find(triggered.uid, triggered.trigger)
					if !ok {
						t.Fatalf("%v is lost", triggered)
					}
					if got := x.Entry(slot); got != want {
						t.Fatalf("got %+v\nwant %+v", got, want)
					}
					namespaces[want.Namespace] = true
					if _, numeric := PackVersion(want.ResourceVersion); !numeric {
						odd++
					}
				}
				if x.size != len(model) || len(x.namespaces.ids) != len(namespaces)-1 || len(x.oddRVs) != odd {
					t.Fatalf("size %d for %d, %d namespaces for %d, %d odd versions for %d",
						x.size, len(model), len(x.namespaces.ids), len(namespaces)-1, len(x.oddRVs), odd)
				}
				inHeaps := 0
				check := func(h *Heap) {
					inHeaps += len(h.slots)
					top, ok := h.Top()
					if ok && slices.ContainsFunc(h.slots, func(slot uint32) bool { return x.Less(slot, top) }) {
						t.Fatal("an entry is due before the top of its heap")
					}
				}
				check(&x.chores)
				for _, g := range x.groups {
					before := inHeaps
					for c := range g.heaps {
						check(&g.heaps[c])
						if p := &g.places[c]; (p.later || p.list != nil) != (len(g.heaps[c].slots) > 0) || p.later && p.list != nil {
							t.Fatalf("a group with %d entries of class %d waits at %+v", len(g.heaps[c].slots), c, p)
						}
					}
					if inHeaps == before && g.InFlight == 0 {
						t.Fatalf("group %v has no entries", g.key)
					}
				}
				if inHeaps != len(wakes) {
					t.Fatalf("%d entries in heaps, want %d", inHeaps, len(wakes))
				}
			},
			"next": func(t *rapid.T) {
				c, now := Class(rapid.IntRange(0, int(classes)-1).Draw(t, "class")), int64(rapid.IntRange(0, 20).Draw(t, "now"))*1e9
				due := map[*Group]bool{}
				for _, g := range x.groups {
					if slot, ok := g.heaps[c].Top(); ok && x.At(slot).Wake <= now {
						due[g] = g.InFlight < 2
					}
				}
				slot, found := x.Next(c, now, func(g *Group) Room {
					if !due[g] {
						return None
					}
					return rapid.SampledFrom([]Room{Free, Full}).Draw(t, "room")
				})
				if !found {
					for g, free := range due {
						if free && g.places[c].list != &x.turns[c].none {
							t.Fatalf("group %v is due and has no turn", g.key)
						}
					}
					return
				}
				e := x.At(slot)
				if g := x.Lookup(e.Kind, x.namespaces.get(e.ns)); !due[g] || e.Wake > now || e.class != c {
					t.Fatalf("%+v is not due at %d, or its group has no room", e, now)
				}
				if g := x.Group(e.Kind, x.namespaces.get(e.ns)); rapid.Bool().Draw(t, "a job begins") {
					g.InFlight++
				}
			},
			"a job ends": func(t *rapid.T) {
				for _, g := range x.groups {
					if g.InFlight > 0 {
						g.InFlight--
						x.Return(g, rapid.Bool().Draw(t, "slow"))
						return
					}
				}
			},
		})
		for triggered := range model {
			slot, _ := x.Find(triggered.uid, triggered.trigger)
			x.Release(slot)
		}
		for _, g := range x.groups {
			g.InFlight = 0
			x.Return(g, false)
		}
		if x.size != 0 || len(x.groups) != 0 || len(x.oddUIDs) != 0 || len(x.oddRVs) != 0 || len(x.namespaces.ids) != 0 || len(x.sources.ids) != 0 {
			t.Fatalf("an empty index holds on to something: %+v", x)
		}
	})
}

// triggered is what an entry is found by.
type triggered struct {
	uid     types.UID
	trigger uint8
}

// Namespaces take turns. One that has its share gets more only while no other can begin a job. A
// slow one waits until a job of its own, or of another slow one, has ended.
func TestTurns(t *testing.T) {
	x := New()
	x.AddKind(1, true)
	add := func(i int, namespace string) {
		slot := x.Add(types.UID(fmt.Sprint(i)), 0)
		x.Set(slot, &Entry{Kind: 1, Namespace: namespace, Name: "x", UID: types.UID(fmt.Sprint(i)), Expiry: time.Unix(int64(i), 0)})
		x.At(slot).Wake = x.At(slot).Expiry
		x.Move(slot)
	}
	for i, namespace := range []string{"many", "many", "many", "many", "many", "many", "few", "few", "slow", "slow", "slower"} {
		add(i, namespace)
	}
	slow := 0
	room := func(g *Group) Room {
		switch {
		case strings.HasPrefix(g.key.namespace, "slow") && slow > 0:
			return None
		case g.InFlight >= 2:
			return Full
		}
		return Free
	}
	next := func(now int64) string {
		slot, ok := x.Next(Deletions, now*1e9, room)
		if !ok {
			return ""
		}
		namespace := x.namespaces.get(x.At(slot).ns)
		if x.Group(1, namespace).InFlight++; strings.HasPrefix(namespace, "slow") {
			slow++
		}
		x.Pull(slot)
		return namespace
	}
	end := func(namespace string) {
		g := x.Group(1, namespace)
		isSlow := strings.HasPrefix(namespace, "slow")
		if g.InFlight--; isSlow {
			slow--
		}
		x.Return(g, isSlow)
	}
	var got []string
	for range 4 {
		got = append(got, next(0))
	}
	for range 8 {
		got = append(got, next(100))
	}
	want := []string{"many", "", "", "", "many", "few", "slow", "few", "many", "many", "many", "many"}
	if !slices.Equal(got, want) {
		t.Errorf("turns %q\nwant  %q", got, want)
	}
	end("slow")
	got = []string{next(100), next(100)}
	end(cmp.Or(got[0], "slow"))
	if got = append(got, next(100), next(100)); got[0] == got[2] || got[1] != "" || got[3] != "" || got[0] == "" || got[2] == "" {
		t.Errorf("slow groups: %q, want each once and one at a time", got)
	}
	end(got[2])
	for i, namespace := range []string{"slow-a", "slow-b", "slow-c"} {
		add(20+i, namespace)
	}
	got = []string{next(100), next(100)}
	end("slow-a")
	held, _ := x.Next(Deletions, 100e9, room) // A breaker holds it, so that no job of it will end.
	x.At(held).Wake = 200e9
	x.Move(held)
	if got = append(got, next(100)); !slices.Equal(got, []string{"slow-a", "", "slow-c"}) {
		t.Errorf("slow groups, the second one held: %q", got)
	}
}

func TestNanos(t *testing.T) {
	for name, c := range map[string]struct {
		in   time.Time
		want int64
	}{
		"ordinary":       {time.Unix(1, 5), 1e9 + 5},
		"before 1970":    {time.Unix(-5, 0), 0},
		"year 0":         {time.Time{}, 0},
		"beyond 2262":    {time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		"end of the era": {time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), math.MaxInt64},
	} {
		if got := Nanos(c.in); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
