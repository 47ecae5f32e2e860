package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

func TestBounds(t *testing.T) {
	outer := &resolution.PlatformPolicy{Name: "platform", Bounds: resolution.ParseNamespace("x", annotated("max-ttl", "1d"), nil).Bounds}
	run(t, bounds, map[string]row{
		"the platform's, which the namespace cannot widen": {object: job().TTL(172800).Map(), namespace: annotated("max-ttl", "3d"),
			policies: []*resolution.PlatformPolicy{outer},
			want:     []string{`error spec.ttlSecondsAfterFinished: 172800 (2d) is above curfew.dev/max-ttl 1d of namespace "x": use 1d or less`}},
		"the minute of a CronJob's Job":         {object: job().ControlledBy("batch/v1", "CronJob", "n").TTL(60).Map(), namespace: annotated("max-ttl", "30")},
		"unchanged":                             {old: job().TTL(5).Map(), object: job().TTL(5).Label("a", "b").Map(), namespace: annotated("min-ttl", "1h")},
		"an unreadable value is another rule's": {object: job().Annotation(wellknown.AnnotationTTL, "?").Map(), namespace: annotated("max-ttl", "1h")},
	})
}

// What violates only the bounds of a policy in dry-run passes, and the controller deletes it.
// Another policy's bounds are not lifted.
func TestBoundsOfPolicyInDryRun(t *testing.T) {
	policyOf := func(name string, mode resolution.Mode, pairs ...string) *resolution.PlatformPolicy {
		return &resolution.PlatformPolicy{Name: name, Mode: mode, Bounds: resolution.ParseNamespace(name, annotated(pairs...), nil).Bounds}
	}
	long, now := job().TTL(864000), noon
	trial := policyOf("trial", resolution.ModeDryRun, "max-ttl", "1d")
	would := `warning spec.ttlSecondsAfterFinished: would be refused (mode DryRun): 864000 (10d) is above curfew.dev/max-ttl 1d of namespace "trial": use 1d or less`
	for name, test := range map[string]struct {
		policies []*resolution.PlatformPolicy
		want     []string
	}{
		"alone":               {[]*resolution.PlatformPolicy{trial}, []string{would}},
		"beside one in warn":  {[]*resolution.PlatformPolicy{trial, policyOf("soft", resolution.ModeWarn, "max-ttl", "2d")}, []string{`warning spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 2d of namespace "soft": use 2d or less; ` + strings.TrimPrefix(would, "warning spec.ttlSecondsAfterFinished: ")}},
		"beside an enforced":  {[]*resolution.PlatformPolicy{trial, policyOf("hard", "", "max-ttl", "2d")}, []string{`error spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 2d of namespace "hard": use 2d or less`}},
		"within the enforced": {[]*resolution.PlatformPolicy{trial, policyOf("hard", "", "max-ttl", "20d")}, []string{would}},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &resolution.Scope{Policies: test.policies}
			equal(t, judge(bounds, policy.JobProfile, Request{Scope: scope}, nil, long.Map()), test.want)
			kept := resolution.Resolve(policy.FactsOfObject(policy.JobProfile, long.Map()), scope).Succeeded.Err != nil
			if denied := name == "beside an enforced"; kept != denied {
				t.Errorf("kept: %t, want %t", kept, denied)
			}
		})
	}
	scope := &resolution.Scope{Policies: []*resolution.PlatformPolicy{trial}}
	equal(t, judge(ttlLabel, policy.JobProfile, Request{Scope: scope, Now: now}, nil, job().Created(now).Label(wellknown.LabelTTL, "10d").Map()),
		[]string{`warning metadata.labels[curfew.dev/ttl]: would be refused (mode DryRun): 10d is above curfew.dev/max-ttl 1d of namespace "trial": use 1d or less`})
}

// A TTL that has no effect is told so, and nothing else.
func TestBoundsOfWhatNeverFinishes(t *testing.T) {
	cronJob := builders.MakeCronJob("ci", "a").Annotation(wellknown.AnnotationTTL, "9d").Map()
	equal(t, judge(bounds, policy.CronJobProfile, Request{Scope: &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("max-ttl", "1d"), nil)}}, nil, cronJob), nil)
}

// One bound that cannot be read, or a namespace's mode, lifts no bound that a policy denies by.
func TestNothingLiftsTheBoundsOfAPolicy(t *testing.T) {
	bounded := func(name string, pairs ...string) *resolution.PlatformPolicy {
		out := resolution.ParseNamespace(name, annotated(pairs...), nil).Bounds
		for _, bound := range out.Settings() {
			bound.Source.Level = lifetime.LevelPolicy
		}
		return &resolution.PlatformPolicy{Name: name, Bounds: out}
	}
	hard, broken := bounded("hard", "max-ttl", "1h", "max-deadline", "1h"), bounded("other", "min-ttl", "soon", "max-ttl", "later", "max-deadline", "?")
	long := job().TTL(864000).Deadline(864000).Map()
	for name, test := range map[string]struct {
		policies  []*resolution.PlatformPolicy
		namespace map[string]string
	}{
		"alone":                            {policies: []*resolution.PlatformPolicy{hard}},
		"before one that cannot be read":   {policies: []*resolution.PlatformPolicy{hard, broken}},
		"after one that cannot be read":    {policies: []*resolution.PlatformPolicy{broken, hard}},
		"a namespace's cannot be read":     {policies: []*resolution.PlatformPolicy{hard}, namespace: annotated("min-ttl", "soon", "max-ttl", "soon", "max-deadline", "soon")},
		"mode warn":                        {policies: []*resolution.PlatformPolicy{hard}, namespace: annotated("mode", "warn")},
		"mode dry-run":                     {policies: []*resolution.PlatformPolicy{hard}, namespace: annotated("mode", "dry-run")},
		"mode that cannot be read":         {policies: []*resolution.PlatformPolicy{hard}, namespace: annotated("mode", "?")},
		"mode warn, a narrower bound":      {policies: []*resolution.PlatformPolicy{hard}, namespace: annotated("mode", "warn", "max-ttl", "1m", "max-deadline", "1m")},
		"mode dry-run and a broken policy": {policies: []*resolution.PlatformPolicy{broken, hard}, namespace: annotated("mode", "dry-run")},
	} {
		t.Run(name, func(t *testing.T) {
			decision := review(row{object: long, policies: test.policies, namespace: test.namespace})
			if got := len(decision.Denials()); got != 2 {
				t.Errorf("%d denials of 2: %v", got, decision.Findings)
			}
			labelled := job().Label(wellknown.LabelTTL, "7d").Map()
			request := &Request{Operation: Create, Object: labelled, Facts: policy.FactsOfObject(policy.JobProfile, labelled), Now: noon,
				Scope: &resolution.Scope{Policies: test.policies, Namespace: resolution.ParseNamespace("ci", test.namespace, nil), Creating: true}}
			if decision := Review(request); decision.Allowed() {
				t.Errorf("a label: %v", decision.Findings)
			}
		})
	}
}

// A latest date that cannot be read lifts no other.
func TestUnreadableLatestDateLiftsNoOther(t *testing.T) {
	broken := &resolution.PlatformPolicy{Name: "broken", LatestUnreadable: &lifetime.Setting{Path: "spec.bounds.latestDate", Err: errors.New("no such key: team")}}
	year := &resolution.PlatformPolicy{Name: "year", LatestDate: noon.Add(24 * time.Hour)}
	scope := &resolution.Scope{Policies: []*resolution.PlatformPolicy{broken, year}}
	equal(t, judge(ttlLabel, policy.JobProfile, Request{Now: noon, Scope: scope}, nil, job().Label(wellknown.LabelTTL, "7d").Map()),
		[]string{`error metadata.labels[curfew.dev/ttl]: 7d is after latestDate 2026-12-25 of policy "year": use a date up to then`})
	equal(t, judge(ttlLabel, policy.JobProfile, Request{Now: noon, Scope: scope}, nil, job().Label(wellknown.LabelTTL, "1h").Map()),
		[]string{"warning metadata.labels[curfew.dev/ttl]: cannot be checked, so the object will be kept: latestDate cannot be read: no such key: team"})
}

// A namespace's mode softens its own bounds and nothing else: neither what Curfew itself denies,
// nor what a flag has it deny.
func TestModesSoftenTheNamespacesOwnBounds(t *testing.T) {
	for _, mode := range []string{"warn", "dry-run"} {
		own := annotated("mode", mode, "max-ttl", "1h", "max-deadline", "1h")
		for name, test := range map[string]struct {
			row
			allowed bool
		}{
			"a TTL above its maximum":      {row{object: job().TTL(7200).Map()}, true},
			"a deadline above its maximum": {row{object: job().Deadline(7200).Map()}, true},
			"a TTL that is removed":        {row{old: job().TTL(60).Map(), object: job().Map()}, true},
			"an unreadable value":          {row{object: job().TTL(-1).Map()}, false},
			"a TTL in a pod template":      {row{object: job().TemplateAnnotation(wellknown.AnnotationTTL, "1h").Map()}, false},
			"a forged stamp":               {row{old: job().TTL(60).Map(), object: job().TTL(60).Annotation(wellknown.AnnotationTTLSource, "policy/x").Map()}, false},
		} {
			test.namespace = own
			if decision := review(test.row); decision.Allowed() != test.allowed {
				t.Errorf("%s, mode %s: allowed %v: %v", name, mode, decision.Allowed(), decision.Findings)
			}
		}
	}
}

// A bound that cannot be read does not hide one whose evaluation was stopped, which denies.
func TestNothingHidesAStoppedEvaluation(t *testing.T) {
	unread := func(err error) *lifetime.Setting { return &lifetime.Setting{Path: "spec.bounds.x", Err: err} }
	ordinary, stopped := unread(errors.New("no such key: team")), unread(&lifetime.UndecidedError{Err: errors.New("out of time"), Retry: true})
	minimum := &resolution.PlatformPolicy{Name: "minimum", Bounds: lifetime.Bounds{TTL: lifetime.Range{Min: ordinary}, Label: lifetime.Range{Min: ordinary}, Deadline: lifetime.Range{Min: ordinary}}}
	broken := &resolution.PlatformPolicy{Name: "broken", Bounds: lifetime.Bounds{TTL: lifetime.Range{Max: ordinary}, Label: lifetime.Range{Max: ordinary}, Deadline: lifetime.Range{Max: ordinary}}}
	maximum := &resolution.PlatformPolicy{Name: "maximum", Bounds: lifetime.Bounds{TTL: lifetime.Range{Max: stopped}, Label: lifetime.Range{Max: stopped}, Deadline: lifetime.Range{Max: stopped}}}
	noDate, lateDate := &resolution.PlatformPolicy{Name: "no-date", LatestUnreadable: ordinary}, &resolution.PlatformPolicy{Name: "late-date", LatestUnreadable: stopped}
	for name, test := range map[string]struct {
		policies []*resolution.PlatformPolicy
		denied   int
	}{
		"an ordinary minimum first": {[]*resolution.PlatformPolicy{minimum, maximum}, 3},
		"an ordinary minimum last":  {[]*resolution.PlatformPolicy{maximum, minimum}, 3},
		"an ordinary maximum first": {[]*resolution.PlatformPolicy{broken, maximum}, 3},
		"an ordinary maximum last":  {[]*resolution.PlatformPolicy{maximum, broken}, 3},
		"an ordinary date first":    {[]*resolution.PlatformPolicy{noDate, lateDate}, 1},
		"an ordinary date last":     {[]*resolution.PlatformPolicy{lateDate, noDate}, 1},
		"ordinary ones alone":       {[]*resolution.PlatformPolicy{minimum, broken, noDate}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			object := job().TTL(60).Deadline(60).Label(wellknown.LabelTTL, "7d").Map()
			request := &Request{Operation: Create, Object: object, Facts: policy.FactsOfObject(policy.JobProfile, object), Now: noon, Scope: &resolution.Scope{Policies: test.policies, Creating: true}}
			decision := Review(request)
			denials := decision.Denials()
			if len(denials) != test.denied {
				t.Errorf("%d denials of %d: %v", len(denials), test.denied, decision.Findings)
			}
			for _, denial := range denials {
				if !denial.Retry {
					t.Errorf("not to be tried again: %v", denial)
				}
			}
		})
	}
}
