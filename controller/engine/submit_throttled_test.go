package engine

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"curfew.dev/curfew/controller/action"
)

// The API server answers 429 to the account of one run, which a tenant can bring about. That run
// waits; TTLs and the runs of others do not, and no fewer requests are sent for them.
func TestThrottledRunDelaysItselfAlone(t *testing.T) {
	for name, origin := range map[string]action.Origin{"by the API server": action.FromServer, "by the API behind the kind": action.FromResource} {
		t.Run(name, func(t *testing.T) { throttledRun(t, origin) })
	}
}

func throttledRun(t *testing.T, origin action.Origin) {
	w, outcomes, _ := ready(t, nil)
	sent, again := 0, time.Time{}
	kind := cleanups(t, w.engine, actionFunc(func(_ context.Context, due action.Due) action.Answer {
		if due.Namespace == "other" {
			return action.Answer{Outcome: action.Done, Deleted: 1}
		}
		if sent++; w.server.Before(again) {
			t.Errorf("sent at %s, and the next one is for %s", w.server, again)
		}
		again = w.server.Add(time.Second)
		out := action.Failure(http.StatusTooManyRequests, origin, action.Describe(429, "", "Too many requests, please try again later."))
		out.After = 20 * time.Second
		return out
	}))
	object := func(namespace string, i int) Entry {
		return Entry{
			Kind: kind, Namespace: namespace, Name: "x", UID: uidOf(namespace, i), ResourceVersion: "7", Expiry: w.server.Add(-time.Minute), Source: "cleanup/" + namespace,
		}
	}
	tenant, other := newLedger(), newLedger()
	var all []Entry
	for i := range 200 {
		all = append(all, object("tenant", i))
	}
	before := w.engine.pace()
	w.engine.Submit(t.Context(), tenant, all...)
	w.pump()
	const seconds = 120
	for second := range seconds {
		w.dueSoon(1, fmt.Sprint("honest", second, "-"), nil)
		w.engine.Submit(t.Context(), other, object("other", second))
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
	if sent < 2 || sent != tenant.results[Throttled] || w.engine.pace() < before {
		t.Errorf("the run sent %d and was told %v; %d may be under way, before %d", sent, tenant.results, w.engine.pace(), before)
	}
}
