package feed

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// lagging is a policyReader and a runtimeReader whose cache may lag behind the API server.
type lagging struct {
	mu             sync.Mutex
	cached, live   []*expression.Policy
	old, now       map[string]any
	unknown, fails bool
	blind          bool // the live object cannot be read either
	failures       int
}

func (p *lagging) Get(context.Context, schema.GroupKind) ([]*expression.Policy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unknown {
		return nil, fmt.Errorf("not listed yet")
	}
	return p.cached, nil
}

func (p *lagging) Read(context.Context, schema.GroupKind) ([]*expression.Policy, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live, nil
}

func (p *lagging) Failed(_ string, errs []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures += len(errs)
}

// said are policies that a cache and the API server agree on.
func said(policies ...*expression.Policy) *lagging { return &lagging{cached: policies, live: policies} }

func (p *lagging) set(policies ...*expression.Policy) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unknown, p.cached, p.live = false, policies, policies
}

type runtimes struct{ *lagging }

func (r runtimes) Get(context.Context, *expression.Reference) (map[string]any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.blind {
		return nil, fmt.Errorf("the runtime cannot be read")
	}
	return r.old, nil
}

func (r runtimes) Read(context.Context, *expression.Reference) (map[string]any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails {
		return nil, fmt.Errorf("the runtime cannot be read")
	}
	return r.now, nil
}

// lifecycle is a policy that gives Jobs a default, since an hour ago.
func lifecycle(t *testing.T, spec v1alpha1.LifecyclePolicySpec) *expression.Policy {
	t.Helper()
	object := &v1alpha1.LifecyclePolicy{Spec: spec}
	object.Name = "platform"
	object.Status.Defaults = &v1alpha1.DefaultsStatus{SinceTime: metav1.NewTime(time.Now().Add(-time.Hour)), Hash: expression.DefaultsHash(object)}
	compiled, errs := expression.NewCompiler(10).Policy(object)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return compiled
}

func defaultTTL(ttl v1alpha1.TTL) v1alpha1.LifecyclePolicySpec {
	return v1alpha1.LifecyclePolicySpec{Defaults: &v1alpha1.Defaults{TTL: &v1alpha1.TTLValue{Value: &ttl}}}
}

// S6: until the policies are known, nothing is judged: a bound among them may keep the object.
func TestPoliciesNotKnownYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorld(), &lagging{unknown: true}
		w.put(finished("ci", "a", "uid-a", 5))
		start(t, w, none(), func(o *Options) { over(o, func(r *reads) { r.policies = p }) })
		at(time.Minute)
		expect(t, w, "a", true)
		low := v1alpha1.Duration("1h")
		p.set(lifecycle(t, v1alpha1.LifecyclePolicySpec{Bounds: &v1alpha1.Bounds{MinTTL: &low}}))
		at(10 * time.Minute)
		expect(t, w, "a", true) // the deny rule's twin: 5s is below the bound
	})
}

// S6: an expression that fails keeps, and is told of.
func TestPolicyThatFailsKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		spec := defaultTTL("30s")
		spec.Match.MatchConditions = []v1alpha1.MatchCondition{{Name: "team", Expression: `object.metadata.labels["team"] == "a"`}}
		p := said(lifecycle(t, spec))
		w.put(finished("ci", "a", "uid-a", -1))
		labelled := finished("ci", "b", "uid-b", -1)
		labelled.Labels = map[string]string{"team": "a"}
		w.put(labelled)
		start(t, w, none(), func(o *Options) { over(o, func(r *reads) { r.policies = p }) })
		at(time.Minute)
		expect(t, w, "a", true)
		expect(t, w, "b", false)
		if p.failures == 0 {
			t.Error("an expression that failed was not told of")
		}
	})
}

// withRuntime makes Jobs refer to a runtime, so that one world serves all tests of this package.
func withRuntime(t *testing.T, w *world, p *lagging) *Feed {
	t.Helper()
	w.runtime = labelledRuntime(t)
	feed, _ := start(t, w, none(), func(o *Options) { over(o, func(r *reads) { r.runtimes = runtimes{p} }) })
	return feed
}

// labelledRuntime is what an object names in its label runtime.
func labelledRuntime(t *testing.T) *expression.Runtime {
	t.Helper()
	object := &v1alpha1.KindProfile{}
	object.Spec.Kind = v1alpha1.ProfiledKind{Group: "batch", Version: "v1", Kind: "Job", Resource: "jobs"}
	object.Spec.Runtime = &v1alpha1.Runtime{
		Reference: v1alpha1.RuntimeReference{Name: "metadata.labels.runtime", DefaultKind: new("Runtime")},
		Kinds: []v1alpha1.RuntimeKind{{
			ProfiledKind: v1alpha1.ProfiledKind{Group: "example.com", Version: "v1", Kind: "Runtime", Resource: "runtimes"},
			TTL:          []v1alpha1.FieldPath{"spec.ttl"},
		}},
	}
	compiled, errs := expression.NewCompiler(10).Profile(object)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return compiled.Runtime
}

// ttlOf is a runtime that has had a TTL for long.
func ttlOf(seconds int64) map[string]any { return ttlSince(seconds, time.Unix(1e8, 0)) }

// ttlSince is one that has it since an instant.
func ttlSince(seconds int64, since time.Time) map[string]any {
	out := map[string]any{"spec": map[string]any{"ttl": seconds}}
	hash := resolution.RuntimeHash(out, []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.ttl")})
	out["metadata"] = map[string]any{"name": "torch", "annotations": map[string]any{wellknown.AnnotationDefaultSince: resolution.FormatSince(since, hash)}}
	return out
}

// unstamped is a runtime whose TTL was changed past admission.
func unstamped(runtime map[string]any) map[string]any {
	delete(runtime["metadata"].(map[string]any)["annotations"].(map[string]any), wellknown.AnnotationDefaultSince)
	return runtime
}

func backfilling(runtime map[string]any) map[string]any {
	runtime["metadata"].(map[string]any)["annotations"].(map[string]any)[wellknown.AnnotationBackfill] = "true"
	return runtime
}

// What a runtime says is read right before a deletion, with its stamp: a TTL that is new deletes
// nothing that finished before (S6).
func TestRuntimeIsReadLiveBeforeADeletion(t *testing.T) {
	for name, test := range map[string]struct {
		cached, live map[string]any
		fails        bool
		ttl          int32 // of the Job itself
		gone         bool
	}{
		"as indexed":                     {cached: ttlOf(30), live: ttlOf(30), ttl: 5000, gone: true},
		"raised since":                   {cached: ttlOf(30), live: ttlOf(3600), ttl: -1},
		"gone since":                     {cached: ttlOf(30), ttl: 30},
		"cannot be read":                 {cached: ttlOf(30), live: ttlOf(30), fails: true, ttl: 30},
		"missing":                        {ttl: 30},
		"says nothing, and speaks since": {cached: map[string]any{}, live: ttlOf(3600), ttl: 30},
		"lowered since, and not stamped": {cached: ttlOf(30), live: unstamped(ttlOf(20)), ttl: -1},
		"lowered since, and stamped":     {cached: ttlOf(30), live: ttlSince(20, time.Now().Add(time.Hour)), ttl: -1},
		"lowered since, with backfill":   {cached: ttlOf(30), live: backfilling(unstamped(ttlOf(20))), ttl: -1, gone: true},
	} {
		inBubble(t, name, func(t *testing.T) {
			w, p := newWorld(), &lagging{old: test.cached, now: test.live, fails: test.fails}
			job := finished("ci", "a", "uid-a", test.ttl)
			job.Labels = map[string]string{"runtime": "torch"}
			w.put(job)
			withRuntime(t, w, p)
			at(29 * time.Second)
			expect(t, w, "a", true)
			at(5 * time.Minute)
			expect(t, w, "a", !test.gone)
		})
	}
}

// S3: a runtime that cannot be read, as for want of a permission, keeps the objects that use it,
// and no other: the rest of the list, and what the watch tells, is judged. Once it can be read they
// go by what it says.
func TestRuntimeThatCannotBeRead(t *testing.T) {
	for name, streams := range map[string]bool{"streamed list": true, "paged list": false} {
		inBubble(t, name, func(t *testing.T) {
			w, p := newWorld(), &lagging{blind: true, fails: true, old: ttlOf(30), now: ttlOf(30)}
			w.streams = streams
			uses := func(name string) {
				job := finished("ci", name, "uid-"+name, 30)
				job.Labels = map[string]string{"runtime": "torch"}
				w.put(job)
			}
			uses("a")
			w.put(finished("ci", "b", "uid-b", 30))
			withRuntime(t, w, p)
			at(time.Second)
			uses("c")
			w.put(finished("ci", "d", "uid-d", 30))
			at(31 * time.Second)
			for name, there := range map[string]bool{"a": true, "b": false, "c": true, "d": false} {
				expect(t, w, name, there)
			}
			lists := w.listings()
			at(10 * time.Minute)
			expect(t, w, "a", true)
			if again := w.listings() - lists; again > 12 {
				t.Errorf("listed %d times in ten minutes for what cannot be read", again)
			}
			p.mu.Lock()
			p.blind, p.fails = false, false
			p.mu.Unlock()
			at(2 * time.Minute)
			expect(t, w, "a", false)
			expect(t, w, "c", false)
		})
	}
}

// Objects with their namespace's default fall due together: one read of the namespace serves many
// of them, but no object is deleted by a default that was removed before that read began (S1, S6).
func TestDrainByADefault(t *testing.T) {
	for name, withdrawn := range map[string]bool{"to the end": false, "withdrawn in the middle": true} {
		inBubble(t, name, func(t *testing.T) {
			const count = 90 // as many as a fake watch holds
			w, n := newWorld(), none()
			w.streams, n.slow = false, 10*time.Millisecond
			annotations := map[string]string{wellknown.AnnotationDefaultTTL: "30s"}
			annotations[wellknown.AnnotationDefaultSince] = resolution.FormatSince(time.Now().Add(-time.Hour), resolution.DefaultsHash(annotations))
			n.set("ci", annotations)
			for i := range count {
				w.put(finished("ci", fmt.Sprintf("job-%d", i), fmt.Sprintf("uid-%d", i), -1))
			}
			start(t, w, n, nil)
			at(30 * time.Second)
			for w.count() > count/2 {
				at(time.Millisecond)
			}
			if !withdrawn {
				at(10 * time.Second)
				if left := w.count(); left > 0 {
					t.Errorf("%d of %d are left", left, count)
				}
				if n.reads > count/3 {
					t.Errorf("%d live reads of the namespace for %d deletions: they are not shared", n.reads, count)
				}
				return
			}
			n.set("ci", nil)
			at(n.slow) // what was asked for before is answered by now
			left := w.count()
			at(time.Hour)
			if now := w.count(); left == 0 || now != left {
				t.Errorf("%d were left when the default was withdrawn, and %d an hour later", left, now)
			}
		})
	}
}
