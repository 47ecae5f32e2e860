package survey

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// However many claims are judged live, what mounts them is listed once a second. A Pod counts at
// most a second after it was created, and a new kind of workload at once.
func TestLiveLookupsAreShared(t *testing.T) {
	w, clock := newWorld(), clocktesting.NewFakeClock(time.Unix(1e9, 0))
	w.listed = map[string]int{}
	p := policyOf(t, v1alpha1.CleanupSpec{}, []string{"persistentvolumeclaims"}, "!lookup.mounted")
	options := w.options()
	options.Now, options.Clock = clock.Now(), clock
	s, target := open(t, p, w, options), &p.Targets(w.served)[0]
	judge := func(want cleanup.Verdict) {
		t.Helper()
		if got, err := s.confirm(t, w, target, "prod", "data"); err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	for i := range 200 { // It takes 1.99 seconds.
		judge(cleanup.Delete)
		if i == 199 {
			w.add("pods", "prod", "p", map[string]any{"spec": mounts("data"), "status": map[string]any{"phase": "Running"}})
		}
		clock.Step(10 * time.Millisecond)
	}
	if got := fmt.Sprint(w.listed); got != "map[deployments:2 pods:2]" {
		t.Errorf("lists of 200 judgements in two seconds: %s", got)
	}
	judge(cleanup.NoMatch)
	w.objects["pods"] = nil
	clock.Step(liveFor)
	judge(cleanup.Delete)
	w.served = append(w.served, resource("apps.openshift.io", "deploymentconfigs", "DeploymentConfig", true))
	w.add("deploymentconfigs", "prod", "d", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": mounts("data")}}})
	judge(cleanup.NoMatch)
	w.snapshot = platform.SnapshotOf(nil, nil) // No profile has pod templates any more.
	judge(cleanup.Delete)
}

// A workload with MultiKueue's label stays, unless Kueue is surely not installed.
func TestMultiKueueCopiesAreKept(t *testing.T) {
	w, p := newWorld(), policyOf(t, v1alpha1.CleanupSpec{}, []string{"deployments"})
	w.add("deployments", "prod", "d", map[string]any{"metadata": map[string]any{"labels": map[string]any{wellknown.LabelMultiKueueOrigin: "hub"}}})
	s, away := open(t, p, w, w.options()), func(_ context.Context, f func() error) error { return f() }
	expect := func(when string, verdict cleanup.Verdict, reason string, failed error) {
		t.Helper()
		got, err := s.JudgeLive(t.Context(), &p.Targets(w.served)[0], w.objects["deployments"][0], w, NewBudget(), away)
		if got.Verdict != verdict || got.Reason != reason || !errors.Is(err, failed) {
			t.Errorf("%s: %+v, %v", when, got, err)
		}
	}
	expect("not known", cleanup.Skip, cleanup.SkipCopy, nil)
	var absent bool
	var silent error
	w.snapshot.NoMultiKueue = func(context.Context) (bool, error) { return absent, silent }
	expect("installed", cleanup.Skip, cleanup.SkipCopy, nil)
	absent = true
	expect("absent", cleanup.Delete, "", nil)
	silent = errors.New("no answer")
	expect("cannot be asked", cleanup.NoMatch, "", silent)
}

// Lookups are read away, and a judgement that may not go on after one has no verdict, whatever its
// expressions make of that.
func TestLookupsAreReadAway(t *testing.T) {
	w, times, isAway, errOver := newWorld(), 0, false, errors.New("no place")
	w.listed = map[string]int{}
	p := policyOf(t, v1alpha1.CleanupSpec{}, []string{"persistentvolumeclaims"}, "!lookup.mounted || true")
	s := open(t, p, traced{w, func(string, bool) {
		if !isAway {
			t.Error("listed while it may evaluate")
		}
	}}, w.options())
	for most, want := range map[int]error{0: errOver, 1: errOver, 2: nil} {
		times = 0
		away := func(_ context.Context, f func() error) error {
			isAway = true
			err := f()
			if isAway = false; times == most {
				return errOver
			}
			times++
			return err
		}
		object := w.objects["persistentvolumeclaims"][0]
		if decision, err := s.JudgeLive(t.Context(), &p.Targets(w.served)[0], object, w, NewBudget(), away); !errors.Is(err, want) || want == nil && decision.Verdict != cleanup.Delete {
			t.Errorf("%d reads: %v, %v; want error %v", most, decision, err, want)
		}
	}
	if w.listed["pods"] != 2 {
		t.Errorf("lists %v", w.listed)
	}
}

// Many policies that wait for permissions ask the API server once in a while what it serves.
func TestDiscoveryIsShared(t *testing.T) {
	clock, asked := clocktesting.NewFakeClock(time.Unix(1e9, 0)), 0
	silent := cleanup.SilentGroups{"example.com"}
	served := Share(clock, func(context.Context) ([]cleanup.Resource, error) {
		asked++
		return newWorld().served, silent
	})
	for range 100 { // It takes ten seconds.
		if got, err := served(t.Context()); len(got) == 0 || !errors.As(err, &silent) {
			t.Errorf("kinds %v, error %v; want the served kinds, and the silent group as the error", got, err)
		}
		clock.Step(servedFor / 50)
	}
	if asked != 2 {
		t.Errorf("discovery was asked %d times, want 2", asked)
	}
}

// Who asks while others read shares what they read if it was asked for less than a second before,
// and else an answer that is no older than one of its own. The end of one who reads is no answer.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reads := newMemory[int](clock.RealClock{}), 0
		read := func(ctx context.Context, _ string) (int, error) {
			reads++
			now := reads
			if m.of("ns").all != 0 {
				t.Error("the old answer is kept in memory while it is read again")
			}
			select {
			case <-time.After(3 * time.Second):
				return now, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		var all sync.WaitGroup
		ask := func(ctx context.Context, want int, wantErr error) {
			all.Go(func() {
				if got, err := m.get(ctx, "ns", read); got != want || !errors.Is(err, wantErr) {
					t.Errorf("%d, %v; want %d, %v", got, err, want, wantErr)
				}
			})
			synctest.Wait()
		}
		ask(t.Context(), 1, nil)
		time.Sleep(liveFor / 2)
		ask(t.Context(), 1, nil)
		time.Sleep(liveFor / 2)
		ask(t.Context(), 2, nil)
		time.Sleep(liveFor / 2)
		ask(t.Context(), 2, nil)
		ctx, cancel := context.WithCancel(t.Context())
		ask(ctx, 0, context.Canceled)
		cancel()
		all.Wait()
		time.Sleep(time.Hour)
		ctx, cancel = context.WithCancel(t.Context())
		ask(ctx, 0, context.Canceled)
		ask(t.Context(), 4, nil)
		cancel()
		all.Wait()
	})
}

// Reading that takes longer than who asked for it can wait goes on for those who ask later, and its
// answer is shared for a while after it. It ends at last, and is no answer then.
func TestMemoryOfLongReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reads, reading := newMemory[int](clock.RealClock{}), 0, 40*time.Second
		m.while, m.most = referencesFor, referencesMost
		ask := func(want int, wantErr error) {
			t.Helper()
			takes := reading
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			got, err := m.get(ctx, "", func(ctx context.Context, _ string) (int, error) {
				reads++
				now := reads
				select {
				case <-time.After(takes):
					return now, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			if got != want || !errors.Is(err, wantErr) {
				t.Errorf("%d, %v; want %d, %v", got, err, want, wantErr)
			}
		}
		ask(0, context.DeadlineExceeded)
		ask(1, nil)
		time.Sleep(referencesFor - time.Second)
		ask(1, nil)
		time.Sleep(time.Second)
		ask(0, context.DeadlineExceeded)
		ask(2, nil)
		reading = time.Hour
		time.Sleep(time.Minute)
		for range 3 {
			ask(0, context.DeadlineExceeded)
		}
		time.Sleep(referencesMost - 80*time.Second) // Reading has ended.
		reading = time.Second
		ask(4, nil)
	})
}
