package feed

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
)

// agrees returns a function that judges a state by caches, and reports whether the verdict is that
// of a live judgement: the same deletion or stop, at the same time, for the same reason.
func (f *trigger) agrees(
	facts *policy.Facts, object runtime.Object, live policy.Verdict,
	propagation metav1.DeletionPropagation,
) func(context.Context) bool {
	return func(ctx context.Context) bool {
		around, err := f.context(ctx, facts, object, false)
		if err != nil || f.kind.rules != nil && !f.kind.rules.Same(around.Platform.Compiled(f.kind.Profile.Kind.GroupKind())) {
			return false
		}
		cached, _, err := f.verdict(facts, around, object)
		if err != nil {
			return false
		}
		configured, err := f.propagation(cached, around)
		return err == nil && cached.Action == live.Action && cached.Expiry.Equal(live.Expiry) && cached.Source == live.Source &&
			configured == propagation && cached.DryRun == live.DryRun && cached.Backfill == live.Backfill
	}
}

// propagation is the propagation policy of a deletion by a verdict. For a label the profile decides
// as well, and may have changed since this feed was made.
func (f *trigger) propagation(verdict policy.Verdict, around *platform.Context) (metav1.DeletionPropagation, error) {
	if f.kind.Label == "" {
		return verdict.Propagation, nil
	}
	propagation, err := around.Platform.Propagation(f.Kind())
	return cmp.Or(verdict.Propagation, propagation, f.options.Propagation, metav1.DeletePropagationBackground), err
}
