package rules

import (
	"errors"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/test/builders"
)

func TestBounds(t *testing.T) {
	outer := &policy.PlatformPolicy{Name: "platform", Bounds: policy.ParseNamespace("x", annotated("max-ttl", "1d"), nil).Bounds}
	run(t, bounds, map[string]row{
		"no bounds": {object: job().TTL(5).Map()},
		"within":    {object: job().TTL(3600).Map(), namespace: annotated("min-ttl", "1h", "max-ttl", "1h")},
		"below": {object: job().TTL(5).Map(), namespace: annotated("min-ttl", "1h"),
			want: []string{`error spec.ttlSecondsAfterFinished: 5 (5s) is below curfew.dev/min-ttl 1h of namespace "ci": use 1h or more`}},
		"above": {object: job().TTL(7200).Map(), namespace: annotated("max-ttl", "1h"),
			want: []string{`error spec.ttlSecondsAfterFinished: 7200 (2h) is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`}},
		"never": {object: job().Annotation(policy.AnnotationTTL, "never").Map(), namespace: annotated("max-ttl", "1h"),
			want: []string{"error " + at("ttl-after-finished") + `: never is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`}},
		"each outcome": {object: pod().Annotation(policy.AnnotationTTLSucceeded, "2h").Annotation(policy.AnnotationTTLFailed, "3h").Map(),
			namespace: annotated("max-ttl", "1h"),
			want: []string{
				"error " + at("ttl-after-succeeded") + `: 2h is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`,
				"error " + at("ttl-after-failed") + `: 3h is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`,
			}},
		"deadline": {object: job().Deadline(5).Map(), namespace: annotated("min-deadline", "1m"),
			want: []string{`error spec.activeDeadlineSeconds: 5 (5s) is below curfew.dev/min-deadline 1m of namespace "ci": use 1m or more`}},
		"in a CronJob's template": {object: builders.MakeCronJob("ci", "a").TTL(7200).Map(), namespace: annotated("max-ttl", "1h"),
			want: []string{`error spec.jobTemplate.spec.ttlSecondsAfterFinished: 7200 (2h) is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`}},
		"the platform's, which the namespace cannot widen": {object: job().TTL(172800).Map(), namespace: annotated("max-ttl", "3d"),
			policies: []*policy.PlatformPolicy{outer},
			want:     []string{`error spec.ttlSecondsAfterFinished: 172800 (2d) is above curfew.dev/max-ttl 1d of namespace "x": use 1d or less`}},
		"an unreadable bound refuses no request": {object: job().TTL(5).Map(), namespace: annotated("max-ttl", "?"),
			want: []string{`warning spec.ttlSecondsAfterFinished: cannot be checked, so the object will be kept: ` +
				`curfew.dev/max-ttl of namespace "ci" cannot be read: "?" is not a duration: ` + durations}},
		"the minute of a CronJob's Job": {object: job().ControlledBy("batch/v1", "CronJob", "n").TTL(60).Map(), namespace: annotated("max-ttl", "30")},
		"unchanged":                     {old: job().TTL(5).Map(), object: job().TTL(5).Label("a", "b").Map(), namespace: annotated("min-ttl", "1h")},
		"changed, still outside": {old: job().TTL(5).Map(), object: job().TTL(6).Map(), namespace: annotated("min-ttl", "1h"),
			want: []string{`error spec.ttlSecondsAfterFinished: 6 (6s) is below curfew.dev/min-ttl 1h of namespace "ci": use 1h or more`}},
		"an unreadable value is another rule's": {object: job().Annotation(policy.AnnotationTTL, "?").Map(), namespace: annotated("max-ttl", "1h")},
	})
}

// What breaks only the bounds of a policy with mode Warn passes, and is not kept by the
// controller either.
func TestPolicyThatOnlyWarns(t *testing.T) {
	outer := &policy.PlatformPolicy{Name: "platform", Mode: policy.ModeWarn, Bounds: policy.ParseNamespace("x", annotated("max-ttl", "1d"), nil).Bounds}
	scope := func() *policy.Scope { return &policy.Scope{Policies: []*policy.PlatformPolicy{outer}} }
	equal(t, judge(bounds, policy.JobProfile, Request{Scope: scope()}, nil, job().TTL(864000).Map()),
		[]string{`warning spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 1d of namespace "x": use 1d or less`})
	if err := policy.Resolve(policy.FactsOfObject(policy.JobProfile, job().TTL(864000).Map()), scope()).Succeeded.Err; err != nil {
		t.Errorf("a value that was only warned about is kept: %v", err)
	}
}

// What violates only the bounds of a policy in dry-run passes, and the controller deletes it.
// Another policy's bounds are not lifted.
func TestBoundsOfPolicyInDryRun(t *testing.T) {
	of := func(name string, mode policy.Mode, pairs ...string) *policy.PlatformPolicy {
		return &policy.PlatformPolicy{Name: name, Mode: mode, Bounds: policy.ParseNamespace(name, annotated(pairs...), nil).Bounds}
	}
	long, now := job().TTL(864000), noon
	trial := of("trial", policy.ModeDryRun, "max-ttl", "1d")
	would := `warning spec.ttlSecondsAfterFinished: would be refused (mode DryRun): 864000 (10d) is above curfew.dev/max-ttl 1d of namespace "trial": use 1d or less`
	for name, test := range map[string]struct {
		policies []*policy.PlatformPolicy
		want     []string
	}{
		"alone":               {[]*policy.PlatformPolicy{trial}, []string{would}},
		"beside one in warn":  {[]*policy.PlatformPolicy{trial, of("soft", policy.ModeWarn, "max-ttl", "2d")}, []string{`warning spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 2d of namespace "soft": use 2d or less; ` + strings.TrimPrefix(would, "warning spec.ttlSecondsAfterFinished: ")}},
		"beside an enforced":  {[]*policy.PlatformPolicy{trial, of("hard", "", "max-ttl", "2d")}, []string{`error spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 2d of namespace "hard": use 2d or less`}},
		"within the enforced": {[]*policy.PlatformPolicy{trial, of("hard", "", "max-ttl", "20d")}, []string{would}},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &policy.Scope{Policies: test.policies}
			equal(t, judge(bounds, policy.JobProfile, Request{Scope: scope}, nil, long.Map()), test.want)
			kept := policy.Resolve(policy.FactsOfObject(policy.JobProfile, long.Map()), scope).Succeeded.Err != nil
			if denied := name == "beside an enforced"; kept != denied {
				t.Errorf("kept: %t, want %t", kept, denied)
			}
		})
	}
	scope := &policy.Scope{Policies: []*policy.PlatformPolicy{trial}}
	equal(t, judge(ttlLabel, policy.JobProfile, Request{Scope: scope, Now: now}, nil, job().Created(now).Label(policy.LabelTTL, "10d").Map()),
		[]string{`warning metadata.labels[curfew.dev/ttl]: would be refused (mode DryRun): 10d is above curfew.dev/max-ttl 1d of namespace "trial": use 1d or less`})
	equal(t, judge(removedDefault, policy.JobProfile, Request{Scope: scope}, long.Map(), job().Map()),
		[]string{`warning spec.ttlSecondsAfterFinished: would be refused (mode DryRun): cannot be removed while curfew.dev/max-ttl 1d of namespace "trial" applies: set it to 1d or less`})
}

// A TTL that has no effect is told so, and nothing else.
func TestBoundsOfWhatNeverFinishes(t *testing.T) {
	cronJob := builders.MakeCronJob("ci", "a").Annotation(policy.AnnotationTTL, "9d").Map()
	equal(t, judge(bounds, policy.CronJobProfile, Request{Scope: &policy.Scope{Namespace: policy.ParseNamespace("ci", annotated("max-ttl", "1d"), nil)}}, nil, cronJob), nil)
}

func TestBoundsOfDurationDeadline(t *testing.T) {
	with := func(timeout any) map[string]any { return object("PipelineRun", map[string]any{"timeout": timeout}) }
	request := func() Request {
		return Request{Scope: &policy.Scope{Namespace: policy.ParseNamespace("ci", annotated("max-deadline", "2h"), nil)}}
	}
	equal(t, judge(bounds, pipelineRun, request(), nil, with("90m")), nil)
	equal(t, judge(bounds, pipelineRun, request(), nil, with("3h0m0s")),
		[]string{`error spec.timeout: 3h0m0s is above curfew.dev/max-deadline 2h of namespace "ci": use 2h or less`})
	equal(t, judge(bounds, pipelineRun, request(), nil, with("0")),
		[]string{`error spec.timeout: no deadline is above curfew.dev/max-deadline 2h of namespace "ci": use 2h or less`})
}

// One bound that cannot be read, or a namespace's mode, lifts no bound that a policy denies by.
func TestNothingLiftsTheBoundsOfAPolicy(t *testing.T) {
	bounded := func(name string, pairs ...string) *policy.PlatformPolicy {
		out := policy.ParseNamespace(name, annotated(pairs...), nil).Bounds
		for _, bound := range out.Settings() {
			bound.Source.Level = policy.LevelPolicy
		}
		return &policy.PlatformPolicy{Name: name, Bounds: out}
	}
	hard, broken := bounded("hard", "max-ttl", "1h", "max-deadline", "1h"), bounded("other", "min-ttl", "soon", "max-ttl", "later", "max-deadline", "?")
	long := job().TTL(864000).Deadline(864000).Map()
	for name, test := range map[string]struct {
		policies  []*policy.PlatformPolicy
		namespace map[string]string
	}{
		"alone":                            {policies: []*policy.PlatformPolicy{hard}},
		"before one that cannot be read":   {policies: []*policy.PlatformPolicy{hard, broken}},
		"after one that cannot be read":    {policies: []*policy.PlatformPolicy{broken, hard}},
		"a namespace's cannot be read":     {policies: []*policy.PlatformPolicy{hard}, namespace: annotated("min-ttl", "soon", "max-ttl", "soon", "max-deadline", "soon")},
		"mode warn":                        {policies: []*policy.PlatformPolicy{hard}, namespace: annotated("mode", "warn")},
		"mode dry-run":                     {policies: []*policy.PlatformPolicy{hard}, namespace: annotated("mode", "dry-run")},
		"mode that cannot be read":         {policies: []*policy.PlatformPolicy{hard}, namespace: annotated("mode", "?")},
		"mode warn, a narrower bound":      {policies: []*policy.PlatformPolicy{hard}, namespace: annotated("mode", "warn", "max-ttl", "1m", "max-deadline", "1m")},
		"mode dry-run and a broken policy": {policies: []*policy.PlatformPolicy{broken, hard}, namespace: annotated("mode", "dry-run")},
	} {
		t.Run(name, func(t *testing.T) {
			decision := review(row{object: long, policies: test.policies, namespace: test.namespace})
			if got := len(decision.Denials()); got != 2 {
				t.Errorf("%d denials of 2: %v", got, decision.Findings)
			}
			decision = review(row{old: job().TTL(60).Map(), object: job().Map(), policies: test.policies, namespace: test.namespace})
			if decision.Allowed() {
				t.Errorf("a TTL may be removed: %v", decision.Findings)
			}
			labelled := job().Label(policy.LabelTTL, "7d").Map()
			request := &Request{Operation: Create, Object: labelled, Facts: policy.FactsOfObject(policy.JobProfile, labelled), Now: noon,
				Scope: &policy.Scope{Policies: test.policies, Namespace: policy.ParseNamespace("ci", test.namespace, nil), Creating: true}}
			if decision := Review(request); decision.Allowed() {
				t.Errorf("a label: %v", decision.Findings)
			}
		})
	}
}

// A latest date that cannot be read lifts no other.
func TestUnreadableLatestDateLiftsNoOther(t *testing.T) {
	broken := &policy.PlatformPolicy{Name: "broken", LatestUnreadable: &policy.Setting{Path: "spec.bounds.latestDate", Err: errors.New("no such key: team")}}
	year := &policy.PlatformPolicy{Name: "year", LatestDate: noon.Add(24 * time.Hour)}
	scope := &policy.Scope{Policies: []*policy.PlatformPolicy{broken, year}}
	equal(t, judge(ttlLabel, policy.JobProfile, Request{Now: noon, Scope: scope}, nil, job().Label(policy.LabelTTL, "7d").Map()),
		[]string{`error metadata.labels[curfew.dev/ttl]: 7d is after latestDate 2026-12-25 of policy "year": use a date up to then`})
	equal(t, judge(ttlLabel, policy.JobProfile, Request{Now: noon, Scope: scope}, nil, job().Label(policy.LabelTTL, "1h").Map()),
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
			"a TTL in a pod template":      {row{object: job().TemplateAnnotation(policy.AnnotationTTL, "1h").Map()}, false},
			"a forged stamp":               {row{old: job().TTL(60).Map(), object: job().TTL(60).Annotation(policy.AnnotationTTLSource, "policy/x").Map()}, false},
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
	unread := func(err error) *policy.Setting { return &policy.Setting{Path: "spec.bounds.x", Err: err} }
	ordinary, stopped := unread(errors.New("no such key: team")), unread(&policy.UndecidedError{Err: errors.New("out of time"), Retry: true})
	minimum := &policy.PlatformPolicy{Name: "minimum", Bounds: policy.Bounds{TTL: policy.Range{Min: ordinary}, Label: policy.Range{Min: ordinary}, Deadline: policy.Range{Min: ordinary}}}
	broken := &policy.PlatformPolicy{Name: "broken", Bounds: policy.Bounds{TTL: policy.Range{Max: ordinary}, Label: policy.Range{Max: ordinary}, Deadline: policy.Range{Max: ordinary}}}
	maximum := &policy.PlatformPolicy{Name: "maximum", Bounds: policy.Bounds{TTL: policy.Range{Max: stopped}, Label: policy.Range{Max: stopped}, Deadline: policy.Range{Max: stopped}}}
	noDate, lateDate := &policy.PlatformPolicy{Name: "no-date", LatestUnreadable: ordinary}, &policy.PlatformPolicy{Name: "late-date", LatestUnreadable: stopped}
	for name, test := range map[string]struct {
		policies []*policy.PlatformPolicy
		denied   int
	}{
		"an ordinary minimum first": {[]*policy.PlatformPolicy{minimum, maximum}, 3},
		"an ordinary minimum last":  {[]*policy.PlatformPolicy{maximum, minimum}, 3},
		"an ordinary maximum first": {[]*policy.PlatformPolicy{broken, maximum}, 3},
		"an ordinary maximum last":  {[]*policy.PlatformPolicy{maximum, broken}, 3},
		"an ordinary date first":    {[]*policy.PlatformPolicy{noDate, lateDate}, 1},
		"an ordinary date last":     {[]*policy.PlatformPolicy{lateDate, noDate}, 1},
		"ordinary ones alone":       {[]*policy.PlatformPolicy{minimum, broken, noDate}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			object := job().TTL(60).Deadline(60).Label(policy.LabelTTL, "7d").Map()
			request := &Request{Operation: Create, Object: object, Facts: policy.FactsOfObject(policy.JobProfile, object), Now: noon,
				Scope: &policy.Scope{Policies: test.policies, Creating: true}}
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
