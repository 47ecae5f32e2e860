package platform_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/contexts"
)

// A policy in dry-run holds what its defaults stamped, even if it matches by the absence of what it
// filled in, and if no more than the label is asked for.
func TestHeldByDryRun(t *testing.T) {
	const (
		namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: ci, labels: {kubernetes.io/metadata.name: ci}}}`
		ttl       = `{metadata: {name: a}, spec: {mode: DryRun, match: {matchConditions: [{name: bare, expression: "!has(object.spec.ttlSecondsAfterFinished)"}]}, defaults: {ttl: {value: 1h}}}}`
		job       = `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci, creationTimestamp: "2026-12-24T09:00:00Z", annotations: {curfew.dev/ttl-source: policy/a}},
			spec: {ttlSecondsAfterFinished: 3600}, status: {conditions: [{type: Complete, status: "True", lastTransitionTime: "2026-12-24T10:00:00Z"}]}}`
		label     = `{metadata: {name: a}, spec: {mode: DryRun, match: {kinds: [{kind: ConfigMap}], objectSelector: {matchExpressions: [{key: curfew.dev/ttl, operator: DoesNotExist}]}}, defaults: {ttlLabel: {value: 1h}}}}`
		computed  = `{metadata: {name: a}, spec: {mode: DryRun, match: {kinds: [{kind: ConfigMap}]}, defaults: {ttlLabel: {expression: "'1h'"}}}}`
		configMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ci, creationTimestamp: "2026-12-24T09:00:00Z", labels: {curfew.dev/ttl: 1h}, annotations: {curfew.dev/ttl-label-source: policy/a 1h}}}`
	)
	now := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		object, policy          string
		labelOnly, metadataOnly bool
		held, undecided         bool
		noKueue                 bool
	}{
		"TTL, MultiKueue's label":    {object: strings.Replace(job, "annotations:", "labels: {kueue.x-k8s.io/multikueue-origin: hub}, annotations:", 1), policy: ttl, held: true, noKueue: true},
		"TTL":                        {object: job, policy: ttl, held: true},
		"label":                      {object: configMap, policy: label, held: true},
		"label alone":                {object: configMap, policy: label, labelOnly: true, metadataOnly: true, held: true},
		"computed label, metadata":   {object: configMap, policy: computed, labelOnly: true, metadataOnly: true, undecided: true},
		"computed label, read whole": {object: configMap, policy: computed, labelOnly: true, held: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := contexts.Case{Object: test.object, Namespace: namespace, Policies: []string{test.policy}, NoMultiKueue: test.noKueue}
			facts, object := c.Facts(t, c.Store(t).Snapshot())
			asked := platform.Whole(facts, object)
			asked.LabelOnly, asked.MetadataOnly = test.labelOnly, test.metadataOnly
			found, err := platform.ContextOf(t.Context(), contexts.Source{Case: c, T: t}, asked)
			must(t, err)
			verdict := judging.JudgeLabel(facts, wellknown.LabelTTL, &found.Scope, now)
			if facts.Profile.Finishable() {
				effective := resolution.Resolve(facts, &found.Scope)
				verdict = judging.Judge(facts, &effective, now)
			}
			if verdict.Action != policy.Delete || verdict.DryRun != test.held || found.Undecided != test.undecided {
				t.Errorf("%s (%s), dry-run %t, undecided %t", verdict.Action, verdict.Reason, verdict.DryRun, found.Undecided)
			}
		})
	}
}

// The policy that gave an object its TTL label is known from metadata alone where that is enough.
// Where it is not, its stamp is believed until the object is read whole.
func TestSourceOfALabelOfAnObject(t *testing.T) {
	const (
		namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: ci, labels: {kubernetes.io/metadata.name: ci}}}`
		constant  = `{metadata: {name: a}, spec: {match: {kinds: [{kind: ConfigMap}], objectSelector: {matchExpressions: [{key: curfew.dev/ttl, operator: DoesNotExist}]}}, defaults: {ttlLabel: {value: 1h}}}}`
		computed  = `{metadata: {name: a}, spec: {match: {kinds: [{kind: ConfigMap}]}, defaults: {ttlLabel: {expression: "object.data.keep"}}}}`
		elsewhere = `{metadata: {name: a}, spec: {match: {kinds: [{kind: ConfigMap}], namespaceSelector: {matchLabels: {env: prod}}}, defaults: {ttlLabel: {value: 1h}}}}`
		bounds    = `{metadata: {name: a}, spec: {bounds: {maxTTLLabel: 9d}}}`
		configMap = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ci, creationTimestamp: "2026-12-24T09:00:00Z", labels: {curfew.dev/ttl: 1h}, annotations: {curfew.dev/ttl-label-source: policy/a 1h backfill}}, data: {keep: %s}}`
	)
	now := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		policy, keep string
		whole        bool
		want         string
		undecided    bool
	}{
		"constant":               {policy: constant, want: "policy/a"},
		"constant, read whole":   {policy: constant, whole: true, want: "policy/a"},
		"it does not match":      {policy: elsewhere, want: "object"},
		"it gives no label":      {policy: bounds, want: "object"},
		"computed":               {policy: computed, keep: "2h", want: "policy/a", undecided: true},
		"computed, read whole":   {policy: computed, keep: "1h", whole: true, want: "policy/a"},
		"… and it gives another": {policy: computed, keep: "2h", whole: true, want: "object"},
	} {
		t.Run(name, func(t *testing.T) {
			c := contexts.Case{Object: fmt.Sprintf(configMap, cmp.Or(test.keep, "1h")), Namespace: namespace, Policies: []string{test.policy}}
			facts, object := c.Facts(t, c.Store(t).Snapshot())
			asked := platform.Whole(facts, object)
			asked.LabelOnly, asked.MetadataOnly = true, !test.whole
			found, err := platform.ContextOf(t.Context(), contexts.Source{Case: c, T: t}, asked)
			must(t, err)
			verdict := judging.JudgeLabel(facts, wellknown.LabelTTL, &found.Scope, now)
			if verdict.Source.String() != test.want || !verdict.Backfill || verdict.Action != policy.Delete || found.Undecided != test.undecided {
				t.Errorf("%s by %s, backfill %t, undecided %t", verdict.Action, verdict.Source, verdict.Backfill, found.Undecided)
			}
		})
	}
}
