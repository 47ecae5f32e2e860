package expire

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"curfew.dev/curfew/controller/deletion"
)

// The API server answers 429 to the account of a run, which a tenant can bring about. TTLs and
// other runs do not wait for it, and no fewer requests are sent for them.
func TestThrottledRunDelaysNoOther(t *testing.T) {
	for name, origin := range map[string]deletion.Origin{"by the API server": deletion.FromServer, "by the API behind the kind": deletion.FromResource} {
		t.Run(name, func(t *testing.T) { throttledRun(t, origin) })
	}
}

func throttledRun(t *testing.T, origin deletion.Origin) {
	w, outcomes, _ := ready(t, nil)
	kind := cleanups(t, w.engine)
	do := actionFunc(func(_ context.Context, due deletion.Due) deletion.Answer {
		if due.Namespace == "other" {
			return deletion.Answer{Outcome: deletion.Done, Deleted: 1}
		}
		out := deletion.Failure(http.StatusTooManyRequests, origin, deletion.Describe(429, "", "Too many requests, please try again later."))
		out.After = 20 * time.Second
		return out
	})
	tenant, other := newLedger(do), newLedger(do)
	object := func(namespace string, i int) Entry {
		return Entry{
			Kind: kind, Namespace: namespace, Name: "x", UID: uidOf(namespace, i), ResourceVersion: "7", Expiry: w.server.Add(-time.Minute), Source: "cleanup/" + namespace,
		}
	}
	before := w.engine.pace()
	const seconds = 120
	for second := range seconds {
		for i := range 10 {
			w.delete(tenant, object("tenant", 10*second+i))
		}
		w.dueSoon(1, fmt.Sprint("honest", second, "-"), nil)
		w.delete(other, object("other", second))
		w.after(time.Second)
	}
	late, count := time.Duration(0), 0
	for _, o := range *outcomes {
		if o.Trigger == "ttl" && o.Result == Deleted {
			late, count = max(late, o.Lateness), count+1
		}
	}
	if count != seconds || late > time.Second || other.results[Deleted] != seconds {
		t.Errorf("%d Jobs deleted, up to %s late, and %v of the other run: want all %d on time", count, late, other.results, seconds)
	}
	if tenant.results[Throttled] != 10*seconds || w.engine.pace() < before {
		t.Errorf("the run was told %v; %d may be under way, before %d", tenant.results, w.engine.pace(), before)
	}
}
