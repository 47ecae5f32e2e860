package engine

import (
	"context"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// In a dry run, an Actor that finds nothing to do is asked again later, and nothing is reported of what it would have done.
func TestActorWithNothingToDoInADryRun(t *testing.T) {
	w, outcomes, _ := ready(t, nil)
	a := &actor{answers: []Response{{Code: http.StatusOK, Again: 20 * time.Second}, {Code: http.StatusOK}}}
	kind, err := w.engine.RegisterKind(KindOptions{
		Resource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "runs"}, Kind: "Run", Namespaced: true, Lane: 3, Actor: a,
		Judge: func(context.Context, Object) (Judgement, error) { return Judgement{Verdict: Keep}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.engine.Upsert(Object{Kind: kind, Namespace: "ns", Name: "r", UID: "u", ResourceVersion: "7", Expiry: epoch.Add(time.Second), Trigger: "deadline", Source: "object", DryRun: true})
	w.advance(time.Second)
	w.pump()
	if n := count(*outcomes); len(a.calls) != 1 || !a.calls[0].DryRun || len(n) != 0 {
		t.Errorf("%d calls, outcomes %v; want one call and none", len(a.calls), n)
	}
	w.advance(20 * time.Second)
	w.pump()
	if n := count(*outcomes); len(a.calls) != 2 || n[DryRun] != 1 {
		t.Errorf("%d calls, outcomes %v; want the second to be reported", len(a.calls), n)
	}
}
