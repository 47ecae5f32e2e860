package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"

	"curfew.dev/curfew/test/harness"
)

// weathers are what a relay does to the requests of a contestant, one after the other.
var weathers = []struct {
	name, about string
	handle      harness.Handler
}{
	{"jitter", "each request takes 0.3 to 1.5 s longer", delayed(300*time.Millisecond, 1500*time.Millisecond)},
	{"500ms", "each request takes 500 ms longer", delayed(500*time.Millisecond, 500*time.Millisecond)},
	{"2s", "each request takes 2 s longer", delayed(2*time.Second, 2*time.Second)},
	{"429", "each third request is answered 429, with Retry-After: 1", refused(3)},
	{"lossy", "every ten seconds half of the watches end", lossy(10 * time.Second)},
}

// runRelay lets labelled ConfigMaps fall due behind relays that make the API server worse, for both
// contestants alike: both use Curfew's ServiceAccount.
func runRelay(ctx context.Context, e *environment) ([]result, error) {
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := e.grantLabels(ctx, client); err != nil {
		return nil, err
	}
	var results []result
	for _, w := range weathers {
		fmt.Fprintln(e.out, w.about)
		proxy, err := behind(e, w.handle)
		if err != nil {
			return nil, err
		}
		defer proxy.Close()
		path, err := e.kubeconfigOf(proxy, e.curfewConfig)
		if err != nil {
			return nil, err
		}
		relayed := *e
		relayed.state.Kubeconfig, relayed.curfewConfig = path, path
		field := []contestant{bareLoop, {name: theCurfew, about: "Curfew", start: startLabels}}
		all, err := (&contest{env: &relayed, name: "relay_" + w.name, cargo: startedLate{labelled{client}}, field: field}).runAll(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		results = append(results, against("relay."+w.name+".vs_limit", "deletes/s", series(all, perSecond), theCurfew, bareLoop)...)
	}
	return results, nil
}

// startedLate gives Curfew time to start behind a relay.
type startedLate struct{ labelled }

func (startedLate) dueFrom(due time.Time) time.Time { return due.Add(time.Minute) }

func delayed(least, most time.Duration) harness.Handler {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		return pause(r.Context(), least+rand.N(most-least+1)) != nil // The client has gone.
	}
}

func refused(each int64) harness.Handler {
	var count atomic.Int64
	return func(w http.ResponseWriter, _ *http.Request) bool {
		if count.Add(1)%each != 0 {
			return false
		}
		w.Header().Set("Retry-After", "1")
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests) // As the API server's filters do.
		return true
	}
}

func lossy(every time.Duration) harness.Handler {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "true" {
			life := time.Until(time.Now().Truncate(every).Add(every))
			for rand.N(2) == 0 {
				life += every
			}
			ctx, cancel := context.WithTimeout(r.Context(), life)
			context.AfterFunc(r.Context(), cancel)
			*r = *r.WithContext(ctx)
		}
		return false
	}
}
