package lint

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/tally"
	"curfew.dev/curfew/policy/v1alpha1"
)

var tallyKind = schema.GroupKind{Group: policy.Group, Kind: "PodTally"}

// addTally checks a PodTally by itself, without the bounds and the PodTallies of its namespace.
func addTally(ctx context.Context, w *world, document *Document) {
	object := &v1alpha1.PodTally{}
	if !w.read(ctx, document, object) {
		return
	}
	compiled, errs := tally.Compile(object)
	w.compiled(document, errs)
	for _, finding := range rules.ReviewTally(&rules.TallyRequest{Tally: compiled, Options: w.options.Rules}).Findings {
		w.find(document, finding)
	}
}
