package follow

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/requirement"
)

// patcher applies status patches to a source, with the precondition of the API server.
type patcher struct {
	*source
	mu      sync.Mutex
	patches []string
}

func (p *patcher) Patch(_ context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	p.mu.Lock()
	p.patches = append(p.patches, strings.Join(subresources, "/")+" "+string(data))
	p.mu.Unlock()
	var patch struct {
		Metadata struct{ UID, ResourceVersion string }
		Status   map[string]any
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return nil, err
	}
	object := p.Get(name)
	if string(object.GetUID()) != patch.Metadata.UID || object.GetResourceVersion() != patch.Metadata.ResourceVersion {
		return nil, apierrors.NewConflict(schema.GroupResource{}, name, nil)
	}
	object.Object["status"] = patch.Status
	p.Put(object)
	return object, nil
}

func lifecyclePolicy(ttl string, generation int64) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"defaults": map[string]any{"ttl": map[string]any{"expression": ttl}},
	}}}
	object.SetName("platform")
	object.SetUID("uid-1")
	object.SetGeneration(generation)
	return object
}

// An expression that fails on objects shows in the condition Ready: once however many objects it
// fails on, for the generation that failed, and not for a policy of the same name that came later.
func TestEvaluationFailuresShowInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, policies := written(t, nil, nil)
		fail := func(object string, generation int64, reason string) {
			policies.Failed(object, []error{&expression.PolicyError{Policy: "platform", Generation: generation, Err: errors.New(reason)}})
		}
		var seen int
		expect := func(reason, message string) {
			t.Helper()
			after(2 * time.Second)
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.patches) != seen+1 {
				t.Fatalf("%d patches, want %d:\n%s", len(p.patches), seen+1, strings.Join(p.patches, "\n"))
			}
			if patch := p.patches[seen]; !strings.Contains(patch, `"reason":"`+reason+`"`) || !strings.Contains(patch, `"message":"`+message+`"`) {
				t.Errorf("patch %s\nwant %s: %s", patch, reason, message)
			}
			seen++
		}
		quiet := func() {
			t.Helper()
			after(2 * time.Second)
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.patches) != seen {
				t.Errorf("it wrote %s", p.patches[seen:])
			}
		}
		p.Put(lifecyclePolicy(`"30s"`, 1))
		expect("Accepted", "everything can be used")
		fail("Job ci/a", 1, "spec.x: no such key")
		expect("EvaluationFailed", "spec.x: no such key (Job ci/a, which is kept)")
		fail("Job ci/b", 1, "spec.x: no such key")
		quiet()
		fail("Job ci/b", 1, "spec.y: no such key")
		expect("EvaluationFailed", "spec.x: no such key (Job ci/a, which is kept); spec.y: no such key (Job ci/b, which is kept)")
		p.Put(lifecyclePolicy(`"40s"`, 2))
		expect("Accepted", "everything can be used")
		fail("Job ci/a", 1, "spec.z: a judgement that was under way")
		quiet()
		fail("Job ci/a", 2, "spec.x: no such key")
		expect("EvaluationFailed", "spec.x: no such key (Job ci/a, which is kept)")
		p.Remove("platform")
		again := lifecyclePolicy(`"40s"`, 2)
		again.SetUID("uid-2")
		p.Put(again)
		expect("Accepted", "everything can be used")
	})
}

// Paused stands beside Ready, and each is kept when the other changes. A policy of the same name
// that came later has none of it.
func TestPauseShowsInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, policies := written(t, nil, nil)
		expect := func(when, left string, want ...string) {
			t.Helper()
			after(2 * time.Second)
			var got []string
			known, _ := policies.mirror.Get("platform")
			for _, condition := range known.object.Status.Conditions {
				got = append(got, string(condition.Type+" "+string(condition.Status)+" "+condition.Reason))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
			if names, err := policies.Left(t.Context()); err != nil || strings.Join(names, " ") != left {
				t.Errorf("%s: left are %q (%v), want %q", when, names, err, left)
			}
		}
		write := func(status metav1.ConditionStatus, reason string) {
			if err := policies.Write(t.Context(), "platform", metav1.Condition{Status: status, Reason: reason, Message: "m"}); err != nil {
				t.Fatal(err)
			}
		}
		write("True", "Refused")
		p.Put(lifecyclePolicy(`"30s"`, 1))
		expect("paused before it was there", "", "Ready True Accepted")
		write("True", "Refused")
		expect("paused", "platform", "Ready True Accepted", "Paused True Refused")
		changed := p.Get("platform")
		changed.SetGeneration(2)
		if err := unstructured.SetNestedField(changed.Object, "objekt.name", "spec", "defaults", "ttl", "expression"); err != nil {
			t.Fatal(err)
		}
		p.Put(changed)
		expect("changed", "platform", "Ready False InvalidExpression", "Paused True Refused")
		write("False", "DeletionsResumed")
		expect("gone on", "", "Ready False InvalidExpression", "Paused False DeletionsResumed")
		p.Remove("platform")
		again := lifecyclePolicy(`"40s"`, 1)
		again.SetUID("uid-2")
		p.Put(again)
		expect("made anew", "", "Ready True Accepted")
		if policies.UID("platform") != "uid-2" || policies.UID("other") != "" || !slices.Equal(policies.All(), []string{"platform"}) {
			t.Errorf("UID %q, all %q", policies.UID("platform"), policies.All())
		}
	})
}

// S6: since when the defaults of a policy hold is stamped by the API server's time, and not while
// that is not known.
func TestPolicyIsStampedByTheServersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known, ahead := time.Now().Add(time.Minute), time.Hour
		p, _ := written(t, func(context.Context) (time.Time, error) {
			if time.Now().Before(known) {
				return time.Time{}, errors.New("the API server's time is not known")
			}
			return time.Now().Add(ahead), nil
		}, nil)
		p.Put(lifecyclePolicy(`"30s"`, 1))
		after(50 * time.Second)
		p.mu.Lock()
		if len(p.patches) != 0 {
			t.Errorf("stamped while the time is not known: %s", p.patches)
		}
		p.mu.Unlock()
		after(2 * time.Minute)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.patches) != 1 {
			t.Fatalf("%d patches, want one: %s", len(p.patches), p.patches)
		}
		_, text, _ := strings.Cut(p.patches[0], `"sinceTime":"`)
		text, _, _ = strings.Cut(text, `"`)
		if instant, err := time.Parse(time.RFC3339, text); err != nil || instant.Before(known.Add(ahead)) {
			t.Errorf("stamped %s, %v; want the API server's time, from %s on", text, err, known.Add(ahead))
		}
	})
}

// written follows policies and writes their statuses until the test ends.
func written(t *testing.T, serverTime func(context.Context) (time.Time, error), event func(*unstructured.Unstructured, string, string)) (*patcher, *Policies) {
	t.Helper()
	p := &patcher{source: newSource()}
	policies := NewPolicies(p.source, store(t), clock.RealClock{}, logr.Discard())
	policies.WriteStatus(p, serverTime, event)
	running(t, policies.WriteStatuses)
	running(t, func(ctx context.Context) error { policies.mirror.Run(ctx); return nil })
	return p, policies
}

func store(t *testing.T) *platform.Store {
	t.Helper()
	out, err := platform.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A policy of a newer version is reported, with an Event, and so is what an older version would
// lack. Each is written once.
func TestNewerFieldsShowInTheStatus(t *testing.T) {
	newIn(t, "LifecyclePolicy", "spec.defaults.ttl", "v0.2.0")
	synctest.Test(t, func(t *testing.T) {
		var events []string
		p, _ := written(t, nil, func(object *unstructured.Unstructured, reason, message string) {
			events = append(events, object.GetName()+" "+reason+" "+message)
		})
		p.Put(lifecyclePolicy(`"30s"`, 1))
		after(2 * time.Second)
		newer := lifecyclePolicy(`"30s"`, 2)
		if err := unstructured.SetNestedField(newer.Object, "2h", "spec", "match", "idleFor"); err != nil {
			t.Fatal(err)
		}
		p.Put(newer)
		after(2 * time.Second)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.patches) != 2 {
			t.Fatalf("%d patches, want one a generation:\n%s", len(p.patches), strings.Join(p.patches, "\n"))
		}
		for i, want := range []string{`"reason":"NewerFields","message":"v0.2.0: spec.defaults.ttl"`,
			`"reason":"NeedsNewerVersion","message":"spec.match.idleFor: this version of Curfew does not know it`} {
			if patch := p.patches[i]; !strings.Contains(patch, want) {
				t.Errorf("patch %s\nwant %s", patch, want)
			}
		}
		if len(events) != 1 || !strings.HasPrefix(events[0], "platform NeedsNewerVersion spec.match.idleFor: this version of Curfew does not know it") {
			t.Errorf("Events %q", events)
		}
	})
}

// newIn has this version know a field since a later release than the first.
func newIn(t *testing.T, kind, path, since string) {
	t.Helper()
	text, err := os.ReadFile("../../policy/requirement/fields.txt")
	if err != nil {
		t.Fatal(err)
	}
	line := "\n" + kind + " " + path + " "
	fields, err := requirement.Parse(strings.Replace(string(text), line+"v0.1.0\n", line+since+"\n", 1))
	if err != nil {
		t.Fatal(err)
	}
	known := requirement.Known
	requirement.Known = func() *requirement.Table { return fields }
	t.Cleanup(func() { requirement.Known = known })
}
