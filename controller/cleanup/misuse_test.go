package cleanup

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
	"curfew.dev/curfew/test/contexts"
)

// rule matches ConfigMaps.
const rule = `matchConstraints: {resourceRules: [{apiGroups: [""], resources: [configmaps]}]}`

// misusedSpecs are what users write, sensible or not. Some got past the schema, or admission.
var misusedSpecs = []string{
	`{schedule: "0 2 * * *", ` + rule + `}`, `{schedule: "0 */3 * * *", dryRun: true, ` + rule + `}`, `{schedule: "0 2 * * *", suspend: true, ` + rule + `}`,
	`{schedule: "30 1 * * 1", timeZone: Europe/Berlin, keepNewest: {count: 3}, ` + rule + `}`, `{schedule: "0 2 * * *", consecutiveRuns: 3, maxDeletions: 5, ` + rule + `}`,
	`{schedule: "0 2 * * *", approval: Required, maxPercentage: 10, onExceed: Truncate, ` + rule + `}`, `{schedule: "* * * * *", ` + rule + `}`, `{schedule: soon, ` + rule + `}`,
	`{schedule: "0 2 * * *", timeZone: Nowhere, ` + rule + `}`, `{schedule: "0 2 * * *", suspend: perhaps, ` + rule + `}`, `{schedule: "0 2 * * *", startingDeadlineSeconds: -1, ` + rule + `}`,
	`{schedule: "0 2 * * *", conditions: [{name: old, expression: "object.metadata.name.startsWith('tmp-')"}], ` + rule + `}`,
	`{schedule: "0 2 * * *", conditions: [{name: old, expression: "objekt.x"}], ` + rule + `}`, `{schedule: "0 2 * * *", matchConstraints: 5}`, `{matchConstraints: {}}`, `{}`, `null`,
}

// misusedStatuses are what others write into a status.
var misusedStatuses = []string{
	`{conditions: [{type: Stalled, status: "True", reason: TooManyMatches}]}`, `{conditions: [{type: Ready, status: "False", reason: Whatever}]}`, `{conditions: [{type: Ready, status: "True"}]}`,
	`{lastScheduleTime: "2050-01-01T00:00:00Z", observedGeneration: 1}`, `{lastScheduleTime: "1999-12-31T02:00:00Z", observedGeneration: 1}`, `{scheduleSinceTime: "1999-12-01T00:00:00Z"}`,
	`{nextScheduleTime: "2000-01-01T02:00:00Z", observedGeneration: 2}`, `{conditions: 5}`, `null`,
}

// misuse is one thing that a user does, and how long it takes until the next one.
type misuse struct {
	Resource, Name, Act string
	Spec, Status        int
	Wait                time.Duration
}

var misuses = rapid.Custom(func(t *rapid.T) misuse {
	return misuse{
		Resource: rapid.SampledFrom([]string{v1alpha1.CleanupPolicies, v1alpha1.CleanupPolicies, v1alpha1.ClusterCleanupPolicies}).Draw(t, "resource"),
		Name:     rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"),
		Act:      rapid.SampledFrom([]string{"write", "write", "write", "write unseen", "create again", "create again unseen", "delete", "delete unseen", "end", "status", "status unseen", "uninstall"}).Draw(t, "act"),
		Spec:     rapid.IntRange(0, len(misusedSpecs)-1).Draw(t, "spec"),
		Status:   rapid.IntRange(0, len(misusedStatuses)-1).Draw(t, "status"),
		Wait:     rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, time.Second, time.Minute}).Draw(t, "wait"),
	}
})

// kinds are the cleanup policies of an API server. Once expired is set, it does not have the past
// when a watch begins again.
type kinds map[string]*kind

type kind struct {
	dynamic.NamespaceableResourceInterface
	*builders.Source
	expired atomic.Bool
}

// Resource implements dynamic.Interface.
func (k kinds) Resource(of schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	return k[of.Resource]
}

func (k *kind) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return k.Source.List(ctx, options)
}

func (k *kind) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if k.expired.Swap(false) {
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	return k.Source.Watch(ctx, options)
}

func (k *kind) Get(context.Context, string, metav1.GetOptions, ...string) (*unstructured.Unstructured, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{}, "")
}

// do does what a user does, as the API server stores it.
func (k kinds) do(t *testing.T, m misuse, uid types.UID) {
	s := k[m.Resource]
	s.SetAbsent(false)
	old := s.Source.Get(m.Name)
	act, unseen := strings.CutSuffix(m.Act, " unseen")
	if unseen {
		s.expired.Store(true)
		s.EndWatches()
	}
	switch act {
	case "uninstall":
		s.SetAbsent(true)
		s.EndWatches()
		return
	case "delete", "create again":
		if old != nil {
			s.Remove(m.Name)
		}
		if old = nil; act == "delete" {
			return
		}
	case "end", "status":
		if old == nil {
			return
		}
		if act == "end" { // A finalizer holds it.
			old.SetDeletionTimestamp(new(metav1.Now()))
		} else {
			old.Object["status"] = contexts.Parse(t, "status: "+misusedStatuses[m.Status])["status"]
		}
		s.Put(old)
		return
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": contexts.Parse(t, "spec: "+misusedSpecs[m.Spec])["spec"]}}
	object.SetName(m.Name)
	if m.Resource == v1alpha1.CleanupPolicies {
		object.SetNamespace("ci")
	}
	object.SetUID(uid)
	object.SetGeneration(1)
	object.SetCreationTimestamp(metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Minute)))
	if old != nil {
		object.SetUID(old.GetUID())
		object.SetGeneration(old.GetGeneration() + 1)
		object.SetCreationTimestamp(old.GetCreationTimestamp())
		object.SetDeletionTimestamp(old.GetDeletionTimestamp())
		if status, ok := old.Object["status"]; ok {
			object.Object["status"] = status
		}
	}
	s.Put(object)
}

// process follows the policies until the test ends.
func (k kinds) process(t *testing.T) *Controller {
	t.Helper()
	c, err := New(Options{Objects: k, Engine: newCluster(t), Clock: clock.RealClock{}, Log: logr.Discard(), Registerer: prometheus.NewRegistry(), MinInterval: time.Hour, MaxPolicies: 2, PolicyNames: true})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var all = make(chan struct{}, 2)
	go func() { c.namespaced.Run(ctx); all <- struct{}{} }()
	go func() { c.cluster.Run(ctx); all <- struct{}{} }()
	t.Cleanup(func() { cancel(); <-all; <-all })
	return c
}

// read reads all policies, as a step does.
func (k kinds) read(c *Controller) (out []*cleanup.Policy) {
	for _, s := range k {
		for _, name := range []string{"a", "b", "c"} {
			if object := s.Source.Get(name); object != nil {
				p, _, _ := cleanup.Read(c.compiler, object)
				out = append(out, p)
			}
		}
	}
	return out
}

// decisions are what a process decides about the policies, and about what they were before.
func (k kinds) decisions(c *Controller, were []*cleanup.Policy) string {
	var out strings.Builder
	now := time.Now()
	for _, resource := range []string{v1alpha1.CleanupPolicies, v1alpha1.ClusterCleanupPolicies} {
		for _, name := range []string{"a", "b", "c"} {
			object, key := k[resource].Source.Get(name), resource+"/"+name
			if resource == v1alpha1.CleanupPolicies {
				key = resource + "/ci/" + name
			}
			fmt.Fprintf(&out, "%s: known %t", key, c.known(key))
			if object == nil {
				out.WriteString("\n")
				continue
			}
			p, errs, status := cleanup.Read(c.compiler, object)
			limits, err := c.limit(p)
			fmt.Fprintf(&out, "; %s; %v; %v %v; applies %t", p.Hash, errs.ToAggregate(), limits.ToAggregate(), err, c.unchanged(p))
			if len(errs) == 0 {
				cur := &current{object: object, policy: p, now: now, ledger: &ledger{store: &cluster{status: status}}}
				due, next := cur.due()
				fmt.Fprintf(&out, "; due %s, next %s", due, next)
			}
			out.WriteString("\n")
		}
	}
	for i, p := range were {
		fmt.Fprintf(&out, "policy %d still applies: %t\n", i, c.unchanged(p))
	}
	fmt.Fprintf(&out, "stalled: %v\n", c.Stalled())
	return out.String()
}

// Whatever users wrote before, in whatever order, and whatever watches missed: a process that lived
// through it decides about cleanup policies as one that starts afterwards.
func TestMisuseInSequences(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sequence := rapid.SliceOfN(misuses, 1, 25).Draw(r, "sequence")
		var lived, fresh string
		synctest.Test(t, func(t *testing.T) {
			k := kinds{v1alpha1.CleanupPolicies: {Source: builders.MakeSource()}, v1alpha1.ClusterCleanupPolicies: {Source: builders.MakeSource()}}
			one, were := k.process(t), []*cleanup.Policy{}
			for i, m := range sequence {
				k.do(t, m, types.UID(fmt.Sprint("uid-", i)))
				<-time.After(m.Wait)
				were = append(were, k.read(one)...)
			}
			for _, s := range k {
				s.SetAbsent(false) // While they are not served, nothing is decided.
			}
			<-time.After(2 * time.Minute)
			another := k.process(t)
			<-time.After(time.Minute)
			lived, fresh = k.decisions(one, were), k.decisions(another, were)
		})
		if lived != fresh {
			r.Fatalf("after %+v, a process that lived through it decides\n%s\nand a new one\n%s", sequence, lived, fresh)
		}
	})
}
