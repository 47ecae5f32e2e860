package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
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
		x := newIndex()
		x.queues = []*queue{{}, {}}
		x.of = []*queue{nil, x.queues[0], x.queues[1], x.queues[0]}
		model := map[triggered]Object{}
		wakes := map[triggered]int64{}
		chores := map[triggered]bool{}
		key := rapid.Custom(func(t *rapid.T) triggered {
			return triggered{rapid.SampledFrom(uids).Draw(t, "uid"), rapid.SampledFrom([]uint8{0, 1, 2}).Draw(t, "trigger")}
		})
		draw := func(t *rapid.T, uid types.UID) Object {
			return Object{
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
		put := func(t *rapid.T, slot uint32, o Object) {
			x.set(slot, &o)
			x.at(slot).state = rapid.SampledFrom([]state{stateArmed, stateArmed, stateTerminating, stateTombstone}).Draw(t, "state")
			x.at(slot).wake = x.at(slot).expiry
			x.move(slot)
			at := triggered{o.UID, x.at(slot).trigger}
			model[at], wakes[at], chores[at] = o, o.Expiry.UnixNano(), x.at(slot).state != stateArmed
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				at := key.Draw(t, "key")
				slot, ok := x.lookup(at.uid, at.trigger)
				if !ok {
					slot = x.alloc(at.uid, at.trigger)
				}
				put(t, slot, draw(t, at.uid))
			},
			"release": func(t *rapid.T) {
				at := key.Draw(t, "key")
				if slot, ok := x.lookup(at.uid, at.trigger); ok {
					x.release(slot)
				}
				delete(model, at)
				delete(wakes, at)
			},
			"rest": func(t *rapid.T) {
				at := key.Draw(t, "key")
				if slot, ok := x.lookup(at.uid, at.trigger); ok {
					x.pull(slot)
				}
				delete(wakes, at)
			},
			"": func(t *rapid.T) {
				namespaces, odd := map[string]bool{"": true}, 0
				for at, want := range model {
					slot, ok := x.lookup(at.uid, at.trigger)
					if !ok {
						t.Fatalf("%v is lost", at)
					}
					if got := x.object(slot); got != want {
						t.Fatalf("got %+v\nwant %+v", got, want)
					}
					namespaces[want.Namespace] = true
					if _, numeric := packVersion(want.ResourceVersion); !numeric {
						odd++
					}
				}
				if x.size != len(model) || len(x.namespaces.ids) != len(namespaces)-1 || len(x.oddRVs) != odd {
					t.Fatalf("size %d for %d, %d namespaces for %d, %d odd versions for %d",
						x.size, len(model), len(x.namespaces.ids), len(namespaces)-1, len(x.oddRVs), odd)
				}
				var heaps []*heap
				x.eachHeap(func(h *heap) { heaps = append(heaps, h) })
				inHeaps := 0
				for _, h := range heaps {
					inHeaps += len(h.slots)
					for i, slot := range h.slots {
						e := x.at(slot)
						o := x.object(slot)
						if int(e.pos) != i || h != x.heapOf(e) || chores[triggered{o.UID, e.trigger}] != (h == &x.chores) ||
							h != &x.chores && (o.Backfill != (h == &x.of[o.Kind].rest.backfill || h == &x.of[o.Kind].rest.claimed) || o.claimed() != (h == &x.of[o.Kind].rest.claimed)) || wakes[triggered{o.UID, e.trigger}] != e.wake {
							t.Fatalf("entry %s: place %d of %d, backfill %v, wake %d", o.UID, e.pos, i, o.Backfill, e.wake)
						}
						if i > 0 && x.less(slot, h.slots[(i-1)/4]) {
							t.Fatalf("heap is out of order at %d", i)
						}
					}
				}
				if inHeaps != len(wakes) {
					t.Fatalf("%d entries in heaps, want %d", inHeaps, len(wakes))
				}
			},
		})
		for at := range model {
			slot, _ := x.lookup(at.uid, at.trigger)
			x.release(slot)
		}
		if x.size != 0 || len(x.oddUIDs) != 0 || len(x.oddRVs) != 0 || len(x.namespaces.ids) != 0 || len(x.sources.ids) != 0 {
			t.Fatalf("an empty index holds on to something: %+v", x)
		}
	})
}

// triggered is what an entry is found by.
type triggered struct {
	uid     types.UID
	trigger uint8
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
		if got := nanos(c.in); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// fill tracks n objects whose names are 30 letters and whose strings are parts of something bigger,
// as decoded ones are.
func fill(e *Engine, kind Kind, n int) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		big := fmt.Sprintf("name-of-a-finished-job-%07dnamespace-%03d%s", i, i%300, string(make([]byte, 4096)))
		e.Upsert(Object{
			Kind: kind, Namespace: big[30:43], Name: big[:30], UID: randomUID(rng), ResourceVersion: strconv.Itoa(1000 + i),
			Expiry: epoch.Add(time.Duration(rng.IntN(1_000_000)) * time.Second), Source: "namespace/" + big[30:43],
		})
	}
}

func randomUID(rng *rand.Rand) types.UID {
	var b [16]byte
	for i := range b {
		b[i] = byte(rng.UintN(256))
	}
	return unpackUID(&b)
}

// The whole of Curfew has 250 bytes an object; the engine is to leave room for the rest.
func TestMemory(t *testing.T) {
	const most = 170
	for _, n := range []int{20_000, 200_000, 1_000_000} {
		w := newWorld(t.Fatalf)
		before := heapInUse()
		fill(w.engine, w.kind, n)
		each := float64(heapInUse()-before) / float64(n)
		t.Logf("%d objects: %.1f bytes each", n, each)
		if each > most {
			t.Errorf("%d objects take %.1f bytes each, more than %d", n, each, most)
		}
		if got := w.engine.Tracked(); got != n {
			t.Errorf("%d tracked, want %d", got, n)
		}
		var uids []types.UID
		w.engine.Each(func(s Status) bool { uids = append(uids, s.Object.UID); return true })
		for _, uid := range uids {
			w.engine.Remove(w.kind, uid)
		}
		uids = nil
		left := int64(heapInUse()) - int64(before)
		t.Logf("%d objects gone: %d bytes left", n, left)
		if left > int64(n)*16+500_000 {
			t.Errorf("%d bytes are left of %d objects that are gone", left, n)
		}
		runtime.KeepAlive(w)
	}
}

func BenchmarkUpsert(b *testing.B) {
	w := newWorld(b.Fatalf)
	b.ResetTimer()
	fill(w.engine, w.kind, b.N)
}

func BenchmarkScrapeWhileMillionTracked(b *testing.B) {
	w := newWorld(b.Fatalf)
	fill(w.engine, w.kind, 1_000_000)
	b.ResetTimer()
	for range b.N {
		w.engine.overdueNow()
	}
}
