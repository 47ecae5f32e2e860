package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/judging"
)

// remote is the Lease at the API server.
type remote struct {
	resourcelock.Interface
	holder string
	during func() // a write
	err    error
}

func (*remote) Identity() string { return "me" }

func (r *remote) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &resourcelock.LeaderElectionRecord{HolderIdentity: r.holder}, nil, r.err
}

func (r *remote) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	r.during()
	if r.err == nil {
		r.holder = record.HolderIdentity
	}
	return r.err
}

// A replica may delete for as long as its Lease lasts from the sending of its last renewal, and not
// after it gave the Lease up or saw another holder, which ends the process.
func TestWhenTheLeaseIsHeld(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	sleep := func(d time.Duration) func(*lease, *remote) {
		return func(*lease, *remote) { clk.SetTime(clk.Now().Add(d)) }
	}
	write := func(holder string, takes time.Duration, err error) func(*lease, *remote) {
		return func(l *lease, r *remote) {
			r.err, r.during = err, func() { clk.SetTime(clk.Now().Add(takes)) }
			_ = l.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: holder})
		}
	}
	renew := write("me", 0, nil)
	see := func(holder string, err error) func(*lease, *remote) {
		return func(l *lease, r *remote) {
			r.holder, r.err = holder, err
			_, _, _ = l.Get(t.Context())
		}
	}
	for name, test := range map[string]struct {
		steps      []func(*lease, *remote)
		held, lost bool
	}{
		"at the start":                     {},
		"renewed":                          {steps: []func(*lease, *remote){renew, sleep(14 * time.Second)}, held: true},
		"not renewed in time":              {steps: []func(*lease, *remote){renew, sleep(15 * time.Second)}},
		"renewed again":                    {steps: []func(*lease, *remote){renew, sleep(95 * time.Second), renew}, held: true},
		"the renewal took long":            {steps: []func(*lease, *remote){write("me", 15*time.Second, nil)}},
		"the renewal failed":               {steps: []func(*lease, *remote){renew, sleep(14 * time.Second), write("me", time.Second, errors.New("conflict"))}},
		"given up":                         {steps: []func(*lease, *remote){renew, write("", 0, nil)}},
		"given up, and nothing answered":   {steps: []func(*lease, *remote){renew, write("", 0, errors.New("timeout"))}},
		"it sees itself":                   {steps: []func(*lease, *remote){renew, see("me", nil)}, held: true},
		"to see itself is no renewal":      {steps: []func(*lease, *remote){renew, sleep(15 * time.Second), see("me", nil)}},
		"the Lease cannot be read":         {steps: []func(*lease, *remote){renew, see("other", errors.New("timeout"))}, held: true},
		"another replica holds it":         {steps: []func(*lease, *remote){renew, see("other", nil)}, lost: true},
		"another replica held it for long": {steps: []func(*lease, *remote){renew, sleep(95 * time.Second), see("other", nil)}, lost: true},
		"somebody emptied it":              {steps: []func(*lease, *remote){renew, see("", nil)}},
		"a replica that waits":             {steps: []func(*lease, *remote){see("other", nil), see("other", nil)}},
		"it gave the Lease up":             {steps: []func(*lease, *remote){renew, write("", 0, nil), see("other", nil)}},
	} {
		below := &remote{}
		l := &lease{Interface: below, clock: clk, duration: 15 * time.Second, lost: loop.NewSignal()}
		for _, step := range test.steps {
			step(l, below)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if !test.lost {
			cancel()
		}
		if err := l.watch(ctx); l.held() != test.held || (err != nil) != test.lost {
			t.Errorf("%s: held %t, want %t; the process ends with %v, want an error: %t", name, l.held(), test.held, err, test.lost)
		}
		cancel()
	}
}

// The Lease is asked about just before a request is sent: a process that was stopped for a while
// sends nothing on the strength of what it knew before, whatever client is used.
func TestNoDeletionWithoutTheLease(t *testing.T) {
	var deletes atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch body, found := discoveryOfNamespaces[r.URL.Path]; {
		case found:
			_, _ = io.WriteString(w, body)
		case strings.HasSuffix(r.URL.Path, "/leases/curfew-controller") && r.Method == http.MethodGet:
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": map[string]any{"name": "curfew-controller"}, "spec": map[string]any{"holderIdentity": "other"}})
		case strings.HasSuffix(r.URL.Path, "/leases/curfew-controller"):
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			_, _ = io.Copy(w, r.Body)
		case r.Method == http.MethodDelete:
			deletes.Add(1)
		}
	}))
	defer server.Close()
	start := func(elect bool) *process {
		o := defaultOptions()
		o.kubeconfig, o.metricsAddr, o.leaderElect = kubeconfigOf(t, server), "0", elect
		p, err := newProcess(t.Context(), o, parts{controller: true})
		must(t, err)
		p.pauses.Use(func(context.Context) ([]judging.Pause, error) { return nil, nil }, nil)
		go func() { _ = p.pauses.Run(t.Context()) }()
		return p
	}
	send := func(p *process) int32 {
		before := deletes.Load()
		client, err := rest.HTTPClientFor(p.config)
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodDelete, server.URL+"/apis/batch/v1/namespaces/ci/jobs/x", nil)
		must(t, err)
		if resp, err := client.Do(r); err == nil {
			_ = resp.Body.Close()
		}
		return deletes.Load() - before
	}
	if n := send(start(false)); n != 1 {
		t.Errorf("%d DELETEs without leader election, want 1", n)
	}
	p := start(true)
	if n := send(p); n != 0 {
		t.Errorf("%d DELETEs of a replica that waits for the Lease", n)
	}
	_, _, err := p.lease.Get(t.Context())
	must(t, err)
	must(t, p.lease.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: p.lease.Identity()}))
	if n := send(p); n != 1 {
		t.Errorf("%d DELETEs of the leader, want 1", n)
	}
	p.lease.clock = clocktesting.NewFakePassiveClock(time.Now().Add(95 * time.Second))
	if n := send(p); n != 0 {
		t.Errorf("%d DELETEs of a leader that was stopped for 95 s", n)
	}
}

// All other clients share the config. The timeout of the lease's requests would end each of their
// watches, and each list that takes longer (S3).
func TestLeaseLeavesTheSharedConfigAlone(t *testing.T) {
	shared := &rest.Config{Host: "http://127.0.0.1:1", UserAgent: "curfew"}
	if _, err := newLease(shared, defaultOptions()); err != nil {
		t.Fatal(err)
	}
	if shared.Timeout != 0 || shared.UserAgent != "curfew" {
		t.Errorf("the shared config has timeout %s and user agent %q, want 0s and %q", shared.Timeout, shared.UserAgent, "curfew")
	}
}

// The defaults are client-go's, and no Lease that the flag allows is one that client-go refuses.
func TestRenewal(t *testing.T) {
	for duration, want := range map[time.Duration][2]time.Duration{
		15 * time.Second: {10 * time.Second, 2 * time.Second},
		3 * time.Second:  {2 * time.Second, 400 * time.Millisecond},
		time.Minute:      {40 * time.Second, 2 * time.Second},
	} {
		deadline, retry := (&options{leaseDuration: duration}).renewal()
		if got := [2]time.Duration{deadline, retry}; got != want {
			t.Errorf("%s: %v, want %v", duration, got, want)
		}
	}
}
