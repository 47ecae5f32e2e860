package follow

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/contexts"
)

// specs are what users write, sensible or not. Some got past the schema, or admission.
var specs = map[string][]string{
	v1alpha1.LifecyclePolicies: {
		`{defaults: {ttl: {value: 1h}}}`, `{defaults: {ttl: {value: 30d}}, bounds: {maxTTL: 1h}}`, `{mode: DryRun, defaults: {ttl: {value: 1m}}}`,
		`{mode: Warn, priority: 5, bounds: {minTTL: 3h, minTTLLabel: 2h}}`, `{match: {kinds: [{group: example.com, kind: Thing}]}, defaults: {ttl: {value: 2h}, ttlLabel: {value: 1d}}}`,
		`{match: {objectSelector: {matchLabels: {app: a}}}, defaults: {ttlFailed: {expression: "object.metadata.labels.app == 'a' ? '5m' : '6h'"}}}`,
		`{match: {matchConditions: [{name: x, expression: "object.metadata.labels.none == 'a'"}]}, bounds: {maxTTL: 1m}}`,
		`{defaults: {ttl: {expression: objekt.name}}}`, `{defaults: {ttl: {value: soon}}}`, `{bounds: {minTTL: 2h, maxTTL: 1h}}`, `{defaults: 5}`, `{match: {kinds: all}}`,
		`{propagationPolicy: Orphan, backfill: true, defaults: {ttl: {value: 0s}}}`, `{}`, `null`, `{mode: Nothing, defaults: {deadline: {value: 1h}}}`,
	},
	v1alpha1.KindProfiles: {
		thing(`{finished: "true", finishTime: "timestamp(object.metadata.creationTimestamp)", outcome: "'Succeeded'"}`, ``),
		thing(`{finished: "true", finishTime: "timestamp(object.metadata.creationTimestamp)", outcome: "'Failed'"}`, `propagationPolicy: Foreground`),
		thing(`{finished: "false", finishTime: "null", outcome: "'Failed'"}`, `propagationPolicy: Orphan`), thing(`{finished: "objekt.x", finishTime: "null", outcome: "'Failed'"}`, ``),
		thing(`{finished: "object.spec.none"}`, ``), thing(`5`, ``), `{}`, `null`, strings.Replace(thing(`{finished: "true"}`, ``), "group: example.com, version: v1, kind: Thing", "group: batch, version: v1, kind: Job", 1),
	},
	v1alpha1.PodTallies: {
		`{selector: {matchLabels: {app: a}}}`, `{selector: {matchLabels: {app: a}}, ttlAfterCounted: 1h}`, `{selector: {matchLabels: {app: b}}, ttlAfterCounted: soon}`,
		`{selector: {}}`, `{selector: {matchExpressions: [{key: app, operator: Never}]}}`, `{selector: 5}`, `null`,
	},
	definitionResource.Resource: {
		`{group: example.com, scope: Namespaced, names: {kind: Thing, plural: things}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}`,
		`{group: example.com, scope: Namespaced, names: {kind: Thing, plural: things}, versions: [{name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}`,
		`{group: example.com}`, `null`,
	},
}

func thing(state, more string) string {
	return `{kind: {group: example.com, version: v1, kind: Thing, resource: things}, state: ` + state + `, ` + more + `}`
}

// misuse is one thing that a user does, and how long it takes until the next one.
type misuse struct {
	Resource, Name, Act string
	Spec                int
	Wait                time.Duration
}

var misuses = rapid.Custom(func(t *rapid.T) misuse {
	out := misuse{Resource: rapid.SampledFrom([]string{v1alpha1.LifecyclePolicies, v1alpha1.LifecyclePolicies, v1alpha1.KindProfiles, v1alpha1.KindProfiles, v1alpha1.PodTallies, definitionResource.Resource}).Draw(t, "resource")}
	out.Name = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")
	out.Act = rapid.SampledFrom([]string{"write", "write", "write", "write unseen", "create again", "create again unseen", "delete", "delete unseen", "status", "status unseen", "uninstall"}).Draw(t, "act")
	out.Spec = rapid.IntRange(0, len(specs[out.Resource])-1).Draw(t, "spec")
	out.Wait = rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, time.Second, time.Minute}).Draw(t, "wait")
	return out
})

// forgetful is a source that no longer has the past when a watch begins again, once it has expired.
type forgetful struct {
	*source
	expired atomic.Bool
}

func (f *forgetful) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if f.expired.Swap(false) {
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	return f.source.Watch(ctx, options)
}

// users writes what users write, as the API server stores it.
type users struct {
	sources map[string]Source
	uids    int
}

func (u *users) do(t *testing.T, m misuse) {
	s := u.sources[m.Resource].(*forgetful)
	s.SetAbsent(false)
	old := s.Get(m.Name)
	if strings.HasSuffix(m.Act, "unseen") {
		s.expired.Store(true)
		s.EndWatches()
	}
	switch m.Act {
	case "uninstall": // The API server always serves CustomResourceDefinitions.
		s.SetAbsent(m.Resource != definitionResource.Resource)
		s.EndWatches()
		return
	case "delete", "delete unseen", "create again", "create again unseen":
		if old != nil {
			s.Remove(m.Name)
		}
		if old = nil; strings.HasPrefix(m.Act, "delete") {
			return
		}
	case "status", "status unseen":
		if old != nil && m.Resource == v1alpha1.LifecyclePolicies {
			old.Object["status"] = stampOf(old)
			s.Put(old)
		}
		return
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": contexts.Parse(t, "spec: "+specs[m.Resource][m.Spec])["spec"]}}
	object.SetName(m.Name)
	if m.Resource == v1alpha1.PodTallies {
		object.SetNamespace("ci")
	}
	if old == nil {
		u.uids++
		object.SetUID(types.UID(fmt.Sprint("uid-", u.uids)))
		object.SetGeneration(1)
		object.SetCreationTimestamp(metav1.NewTime(time.Date(1999, 12, 1, 0, 0, u.uids, 0, time.UTC)))
	} else {
		object.SetUID(old.GetUID())
		object.SetGeneration(old.GetGeneration() + 1)
		object.SetCreationTimestamp(old.GetCreationTimestamp())
		if status, ok := old.Object["status"]; ok {
			object.Object["status"] = status
		}
	}
	s.Put(object)
}

// stampOf is the status that says since when the defaults of a policy apply: since long ago.
func stampOf(object *unstructured.Unstructured) map[string]any {
	p := &v1alpha1.LifecyclePolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, p); err != nil {
		return nil
	}
	stamped := &v1alpha1.LifecyclePolicy{Status: v1alpha1.LifecyclePolicyStatus{Defaults: expression.StampPolicy(p, time.Date(1999, 12, 2, 0, 0, 0, 0, time.UTC))}}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stamped)
	if err != nil {
		return nil
	}
	status, _ := content["status"].(map[string]any)
	return status
}

// fixed is a platform beside a namespace that stays as it is.
type fixed struct{ platform.Source }

func (fixed) Namespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	return resolution.ParseNamespace(name, map[string]string{wellknown.AnnotationBackfill: "true"}, nil), nil
}

// decisions are what a platform decides about some objects.
func decisions(t *testing.T, p *Platform, source platform.Source) string {
	t.Helper()
	var out strings.Builder
	snapshot, err := source.Snapshot(t.Context())
	fmt.Fprintf(&out, "rules: %v\n", err)
	tallies, err := p.Tallies.In("ci")
	fmt.Fprintf(&out, "%d tallies: %v\n", len(tallies), err)
	if snapshot == nil {
		return out.String()
	}
	fmt.Fprintf(&out, "profiles: %v\n", snapshot.Incomplete())
	for _, probe := range []string{
		`{apiVersion: batch/v1, kind: Job, metadata: {name: x, namespace: ci, labels: {app: a}}, status: {conditions: [{type: Complete, status: "True", lastTransitionTime: "1999-12-31T23:00:00Z"}]}}`,
		`{apiVersion: example.com/v1, kind: Thing, metadata: {name: x, namespace: ci, labels: {app: a}}}`,
		`{apiVersion: example.com/v2, kind: Thing, metadata: {name: x, namespace: ci, labels: {app: b, curfew.dev/ttl: 5m}}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: ci, labels: {curfew.dev/ttl: 3h}}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: ci, labels: {app: a}}, status: {phase: Failed}}`,
		`{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: ci, labels: {app: b}, annotations: {curfew.dev/counted-by: uid-2}}, status: {phase: Failed}}`,
	} {
		object := contexts.Parse(t, probe)
		object["metadata"].(map[string]any)["creationTimestamp"] = "1999-12-31T22:00:00Z"
		read := unstructured.Unstructured{Object: object}
		kind := read.GroupVersionKind()
		facts := policy.FactsOfObject(snapshot.Profiles.For(kind), object)
		if state := snapshot.Compiled(kind.GroupKind()); state != nil {
			fmt.Fprintf(&out, "profile %s %d ", state.UID, state.Generation)
		}
		found, err := platform.ContextOf(t.Context(), fixed{source}, platform.Whole(facts, object))
		if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", kind.Kind, err)
			continue
		}
		effective := resolution.Resolve(facts, &found.Scope)
		verdict, label := judging.Judge(facts, &effective, time.Now()), judging.JudgeLabel(facts, wellknown.LabelTTL, &found.Scope, time.Now())
		propagation, err := snapshot.Propagation(kind.GroupKind())
		counter, unknown := p.Tallies.Counter(facts)
		fmt.Fprintf(&out, "%s: %s; %+v; %+v; %s %v; %v", kind.Kind, contexts.Render(&found.Scope, len(found.Failures)), verdict, label, propagation, err, unknown)
		if counter != nil {
			fmt.Fprintf(&out, " %s %+v", counter.Source, counter.TTL)
		}
		if kind.Kind == "Pod" {
			if owner := tally.Owner(tallies, facts); owner != nil {
				fmt.Fprintf(&out, "; counted by %s %s", owner.Name, owner.UID)
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

// differences are the lines of two texts that are not the same.
func differences(name, other string) (out string) {
	had, has := strings.Split(name, "\n"), strings.Split(other, "\n")
	for i := range max(len(had), len(has)) {
		if i >= len(had) || i >= len(has) || had[i] != has[i] {
			out += "- " + strings.Join(had[min(i, len(had)):min(i+1, len(had))], "") + "\n+ " + strings.Join(has[min(i, len(has)):min(i+1, len(has))], "") + "\n"
		}
	}
	return out
}

// Whatever users wrote before, in whatever order, and whatever watches missed: a process that lived
// through it decides as one that starts afterwards, by its copies and by live reads.
func TestMisuseInSequences(t *testing.T) {
	for range 2 {
		rapid.Check(t, func(r *rapid.T) {
			sequence := rapid.SliceOfN(misuses, 1, 25).Draw(r, "sequence")
			var texts [3]string
			synctest.Test(t, func(t *testing.T) {
				u := &users{sources: map[string]Source{}}
				for resource := range specs {
					u.sources[resource] = &forgetful{source: newSource()}
				}
				lived := platformFrom(t, u.sources)
				start(t, lived)
				for _, m := range sequence {
					u.do(t, m)
					after(m.Wait)
				}
				after(2 * time.Minute)
				fresh := platformFrom(t, u.sources)
				start(t, fresh)
				after(time.Minute)
				texts = [3]string{decisions(t, lived, Cached{Platform: lived}), decisions(t, fresh, Cached{Platform: fresh}), decisions(t, lived, Cached{Platform: lived}.Live())}
			})
			for i, who := range []string{"a new process", "a live read"} {
				if texts[0] != texts[i+1] {
					r.Fatalf("after %+v, it decides as -, %s as +:\n%s", sequence, who, differences(texts[0], texts[i+1]))
				}
			}
		})
	}
}
