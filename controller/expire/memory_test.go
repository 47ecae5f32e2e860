package expire

import (
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
func fill(e *Engine, kind Kind, n int) (uids []types.UID) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		big := fmt.Sprintf("name-of-a-finished-job-%07dnamespace-%03d%s", i, i%300, string(make([]byte, 4096)))
		uid := types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", rng.Uint32(), i))
		e.Upsert(Entry{
			Kind: kind, Namespace: big[30:43], Name: big[:30], UID: uid, ResourceVersion: strconv.Itoa(1000 + i),
			Expiry: epoch.Add(time.Duration(rng.IntN(1_000_000)) * time.Second), Source: "namespace/" + big[30:43],
		})
		uids = append(uids, uid)
	}
	return uids
}

// The whole of Curfew has 250 bytes an object; the engine is to leave room for the rest.
func TestMemory(t *testing.T) {
	const most, n = 170, 200_000
	w := newWorld(t.Fatalf)
	before := heapInUse()
	uids := fill(w.engine, w.kind, n)
	if each := float64(heapInUse()-before)/n - float64(len(uids[0])+16); each > most || w.engine.Tracked() != n {
		t.Errorf("%d objects of %d are tracked and take %.1f bytes each, more than %d", w.engine.Tracked(), n, each, most)
	}
	for _, uid := range uids {
		w.engine.Remove(w.kind, uid)
	}
	uids = nil
	if left := int64(heapInUse()) - int64(before); left > n*16+500_000 {
		t.Errorf("%d bytes are left of %d objects that are gone", left, n)
	}
	runtime.KeepAlive(w)
}
