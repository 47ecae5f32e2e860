package feed

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
)

// agrees returns a function that judges a state by caches, and reports whether the verdict is that
// of a live judgement: the same deletion or stop, at the same time, for the same reason.
func (f *trigger) agrees(facts *policy.Facts, object runtime.Object, live policy.Verdict) func(context.Context) bool {
	return func(ctx context.Context) bool {
		around, err := f.context(ctx, facts, object, false)
		if err != nil || f.kind.rules != nil && !f.kind.rules.Same(around.Platform.Compiled(f.kind.Profile.Kind.GroupKind())) {
			return false
		}
		cached, _, err := f.verdict(facts, around, object)
		return err == nil && cached.Action == live.Action && cached.Expiry.Equal(live.Expiry) && cached.Source == live.Source &&
			cached.Propagation == live.Propagation && cached.DryRun == live.DryRun && cached.Backfill == live.Backfill
	}
}
