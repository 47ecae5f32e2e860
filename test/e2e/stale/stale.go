// Package stale is a trigger with feeds and an action of its own. It shows what a trigger needs in
// the controller: this package, its entry in the list of triggers, and its registration (both in
// cmd/curfew/triggers_e2e.go). Pauses do not know it: ARCHITECTURE.md lists what they need. No
// release contains it; a test builds it with tag e2e.
//
// It takes a Lease with label [Label] from a holder that has not renewed it in time: its holder
// becomes "".
package stale

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

const (
	// Name of the trigger.
	Name policy.Trigger = "stale"
	// Label selects the Leases.
	Label = "test.curfew.dev/stale"
)

var leases = &policy.Profile{
	Name: "Lease", Kind: schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}, Resource: "leases",
}

// Find watches the Leases until ctx is done.
func Find(ctx context.Context, feeds *discovery.Set, objects dynamic.Interface, options feed.Options) error {
	kind := feed.Untyped(objects, leases)
	kind.LabelSelector = Label
	kind.Triggers = []*feed.Trigger{{Name: Name, Judge: judge}}
	source := &discovery.Source{
		Make:    func(*discovery.Spec) (discovery.Feed, error) { return feed.New(kind, options) },
		Log:     options.Log.WithName("stale"),
		Skipped: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "curfew_stale_skipped"}, []string{"group", "kind", "reason"}),
	}
	spec := &discovery.Spec{
		Key:  discovery.Key{Resource: schema.GroupResource{Group: leases.Kind.Group, Resource: leases.Resource}, Purpose: "stale"},
		Kind: leases.Kind,
	}
	spec.Required.Reason = "permission"
	for _, verb := range []string{"get", "list", "watch", "patch"} {
		spec.Required.All = append(spec.Required.All, permission.Need{Verb: verb, Resource: spec.VersionResource()})
	}
	feeds.Apply(ctx, source, []*discovery.Spec{spec}, nil)
	<-ctx.Done()
	return nil
}

// judge decides when a Lease is due. One without a holder, or with times that cannot be read, never
// is.
func judge(state *feed.State) (policy.Verdict, any, error) {
	object, err := state.JSON()
	if err != nil {
		return policy.Verdict{}, nil, err
	}
	holder, _, _ := unstructured.NestedString(object, "spec", "holderIdentity")
	text, _, _ := unstructured.NestedString(object, "spec", "renewTime")
	seconds, _, _ := unstructured.NestedInt64(object, "spec", "leaseDurationSeconds")
	renewed, err := time.Parse(time.RFC3339, text)
	if holder == "" || err != nil || seconds <= 0 || state.Facts.Protected() {
		return policy.Verdict{Action: policy.Keep, Reason: "has no holder to take it from"}, nil, nil
	}
	verdict := policy.Verdict{
		Action: policy.Wait, Expiry: renewed.Add(time.Duration(seconds) * time.Second), Trigger: Name,
		Source: lifetime.Source{Level: lifetime.LevelObject}, DryRun: state.Context.Mode() == resolution.ModeDryRun,
	}
	return verdict, nil, nil
}

// Action takes Leases from their holders.
type Action struct{ Objects dynamic.Interface }

// Do implements [action.Action].
func (a Action) Do(ctx context.Context, due deletion.Due) deletion.Answer {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": due.UID, "resourceVersion": due.ResourceVersion},
		"spec":     map[string]any{"holderIdentity": ""},
	})
	if err != nil {
		return deletion.Failure(0, deletion.FromResource, err)
	}
	options := metav1.PatchOptions{FieldManager: "curfew-stale"}
	if due.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	_, err = a.Objects.Resource(due.Resource).Namespace(due.Namespace).Patch(ctx, due.Name, types.MergePatchType, patch, options)
	if err == nil {
		return deletion.Answer{Outcome: deletion.Done}
	}
	out, _ := deletion.FailureOf(err)
	if out.Code == http.StatusNotFound {
		out.Outcome = deletion.Gone
	}
	return out
}

// New is what the controller does with a Lease that is due.
func New(objects dynamic.Interface) expire.Trigger { return expire.Trigger{Action: Action{objects}} }
