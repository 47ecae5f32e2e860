package engine

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

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
		e.Upsert(Entry{
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
	var s [36]byte
	for i, part := range [][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		at := 2*part[0] + i
		hex.Encode(s[at:], b[part[0]:part[1]])
		if i > 0 {
			s[at-1] = '-'
		}
	}
	return types.UID(s[:])
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
