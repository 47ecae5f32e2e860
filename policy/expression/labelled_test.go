package expression_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
)

// What bounds a label is told from metadata alone where that is enough; where it is not, that is
// said and nothing guessed.
func TestLabelBounds(t *testing.T) {
	for name, row := range map[string]struct {
		spec      string
		metadata  string // bounds that are told from metadata
		whole     string // bounds that are told from the object
		undecided bool
	}{
		"by kind":                          {spec: `{bounds: {maxTTLLabel: 90d}}`, metadata: "max 90d", whole: "max 90d"},
		"latest date":                      {spec: `{bounds: {latestDate: "2026-12-31"}}`, metadata: "until 2026-12-31", whole: "until 2026-12-31"},
		"propagation":                      {spec: `{propagationPolicy: Orphan}`, metadata: "Orphan", whole: "Orphan"},
		"propagation by a condition":       {spec: `{match: {matchConditions: [{name: a, expression: "has(object.spec)"}]}, propagationPolicy: Orphan}`, whole: "Orphan", undecided: true},
		"propagation in dry-run":           {spec: `{mode: DryRun, propagationPolicy: Orphan}`},
		"propagation, failing":             {spec: `{match: {matchConditions: [{name: a, expression: "object.nothing == 1"}]}, propagationPolicy: Orphan}`, whole: "unknown", undecided: true},
		"another kind":                     {spec: `{match: {kinds: [{kind: Secret}]}, bounds: {maxTTLLabel: 90d}}`},
		"another label":                    {spec: `{match: {objectSelector: {matchLabels: {app: other}}}, bounds: {maxTTLLabel: 90d}}`},
		"no bounds of labels":              {spec: `{match: {matchConditions: [{name: a, expression: "true"}]}, bounds: {maxDeadline: 1h}, defaults: {ttl: {value: 1d}}}`},
		"a condition":                      {spec: `{match: {matchConditions: [{name: a, expression: "has(object.spec)"}]}, bounds: {maxTTLLabel: 90d}}`, whole: "max 90d", undecided: true},
		"a condition that does not hold":   {spec: `{match: {matchConditions: [{name: a, expression: "has(object.nothing)"}]}, bounds: {maxTTLLabel: 90d}}`, undecided: true},
		"a condition behind another label": {spec: `{match: {objectSelector: {matchLabels: {app: other}}, matchConditions: [{name: a, expression: "true"}]}, bounds: {maxTTLLabel: 90d}}`},
		"a condition that fails": {spec: `{match: {matchConditions: [{name: a, expression: "object.nothing == 1"}]}, bounds: {maxTTLLabel: 90d, latestDate: "2026-12-31"}}`,
			whole: "max 90d until unreadable", undecided: true},
		"a selector that cannot be read": {spec: `{match: {namespaceSelector: {matchExpressions: [{key: env, operator: Near}]}}, bounds: {minTTLLabel: 1h}}`, metadata: "min 1h", whole: "min 1h"},
	} {
		t.Run(name, func(t *testing.T) {
			object := lifecyclePolicy(t, "platform", row.spec)
			compiled, _ := expression.NewCompiler(16).Policy(object)
			facts, variables := scene()
			for _, whole := range []bool{false, true} {
				got, undecided, _ := expression.LabelBounds(context.Background(), []*expression.Policy{compiled}, facts, variables, whole)
				want := row.metadata
				if whole {
					want = row.whole
				}
				if text := bounded(got) + propagations(got); text != want || undecided != (row.undecided && !whole) {
					t.Errorf("whole %v: %q, undecided %v; want %q", whole, text, undecided, want)
				}
				for _, platformPolicy := range got {
					if !platformPolicy.TTL.Empty() || platformPolicy.Label != nil || platformPolicy.Deadline != nil {
						t.Errorf("it says more than bounds: %+v", platformPolicy)
					}
				}
			}
		})
	}
}

func propagations(policies []*resolution.PlatformPolicy) (out string) {
	for _, p := range policies {
		if out += string(p.Propagation); p.PropagationErr != nil {
			out += "unknown"
		}
	}
	return out
}

func bounded(policies []*resolution.PlatformPolicy) string {
	var out []string
	for _, p := range policies {
		for name, bound := range map[string]*lifetime.Setting{"min ": p.Bounds.Label.Min, "max ": p.Bounds.Label.Max} {
			switch {
			case bound == nil:
			case bound.Err != nil:
				out = append(out, name+"unreadable")
			default:
				out = append(out, name+bound.Text)
			}
		}
		if p.LatestUnreadable != nil {
			out = append(out, "until unreadable")
		} else if !p.LatestDate.IsZero() {
			out = append(out, "until "+p.LatestDate.Format(time.DateOnly))
		}
	}
	return strings.Join(out, " ")
}

// S6: a latest date that cannot be read keeps what it would have bounded.
func TestUnreadableLatestDateKeeps(t *testing.T) {
	compiled, errs := expression.NewCompiler(16).Policy(lifecyclePolicy(t, "platform", `{bounds: {latestDate: tomorrow}}`))
	if len(errs) == 0 {
		t.Fatal("no error")
	}
	facts, variables := scene()
	platformPolicies, _ := expression.Matching(context.Background(), []*expression.Policy{compiled}, facts, variables)
	label, err := lifetime.ParseTTLLabel("1h")
	must(t, err)
	if err := (&resolution.Scope{Policies: platformPolicies}).CheckLabel(label, time.Now(), resolution.EnforcedBounds); err == nil || !strings.Contains(err.Error(), "latestDate") {
		t.Errorf("the label passes: %v", err)
	}
}
