package policy_test

import (
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// The TTL of a runtime reaches what finishes after the runtime had it. What finished earlier, or in
// the same second, is kept, whatever else gives it a TTL; backfill reaches it.
func TestRuntimeTTLReachesWhatFinishesLater(t *testing.T) {
	finished := noon.Add(-2 * time.Hour)
	for name, test := range map[string]struct {
		since    time.Time
		backfill bool
		running  bool
		own      string
		// want is the verdict, * for one by backfill.
		want string
	}{
		"it had it before":              {since: finished.Add(-time.Second), want: "delete"},
		"in the same second":            {since: finished, want: "keep"},
		"it has it since":               {since: finished.Add(time.Second), want: "keep"},
		"not known since when":          {want: "keep"},
		"it has it since, backfill":     {since: finished.Add(time.Second), backfill: true, want: "delete*"},
		"it had it before, backfill":    {since: finished.Add(-time.Second), backfill: true, want: "delete"},
		"not known, backfill":           {backfill: true, want: "delete*"},
		"it has it since, a TTL beside": {since: finished.Add(time.Second), own: "1s", want: "keep"},
		"not known, and it runs":        {running: true, want: "keep"},
	} {
		t.Run(name, func(t *testing.T) {
			job := builders.MakeJob("ci", "a").Created(noon.Add(-3 * time.Hour))
			if !test.running {
				job = job.Complete(finished)
			}
			if test.own != "" {
				job = job.Annotation(wellknown.AnnotationTTL, test.own)
			}
			facts := policy.FactsOfJob(job.Obj())
			scope := &resolution.Scope{Namespace: namespaceOf("default-ttl", "1s"),
				Runtime: &resolution.RuntimePolicy{Name: "torch", TTL: ttls("ttl-after-finished", "1h"), Since: test.since, Backfill: test.backfill}}
			effective := resolution.Resolve(facts, scope)
			verdict := judging.Judge(facts, &effective, noon)
			got := verdict.Action.String()
			if verdict.Backfill {
				got += "*"
			}
			if got != test.want || verdict.Err != nil {
				t.Errorf("%s (%s), %v; want %s", got, verdict.Reason, verdict.Err, test.want)
			}
			if unreached := effective.Succeeded.Unreached(); unreached != (test.want == "keep" && !test.running) {
				t.Errorf("unreached is %t", unreached)
			}
		})
	}
}

// Backfill is about TTLs: a deadline of the runtime reaches nothing that exists.
func TestBackfillGivesNoDeadline(t *testing.T) {
	facts := policy.FactsOfJob(builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)).Obj())
	scope := &resolution.Scope{Runtime: &resolution.RuntimePolicy{Name: "torch", Backfill: true, Since: noon.Add(-2 * time.Hour), Deadline: &lifetime.Setting{Text: "1s", TTL: lifetime.TTL{After: time.Second}}}}
	if got := resolution.Resolve(facts, scope).Deadline; got.Set {
		t.Errorf("it got %+v", got)
	}
}

// A tenant may write a namespaced runtime, so that its TTL obeys the bounds; a cluster-scoped one
// is the platform's.
func TestBoundsOfANamespacedRuntime(t *testing.T) {
	for name, test := range map[string]struct {
		ttl        string
		namespace  []string
		policies   []*resolution.PlatformPolicy
		namespaced bool
		want       string
	}{
		"within":             {ttl: "1h", namespace: []string{"min-ttl", "1h", "max-ttl", "1h"}, namespaced: true},
		"above":              {ttl: "9h", namespace: []string{"max-ttl", "1h"}, namespaced: true, want: `9h is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`},
		"below":              {ttl: "1s", namespace: []string{"min-ttl", "1h"}, namespaced: true, want: `1s is below curfew.dev/min-ttl 1h of namespace "ci": use 1h or more`},
		"never":              {ttl: "never", namespace: []string{"max-ttl", "1h"}, namespaced: true, want: `never is above curfew.dev/max-ttl 1h of namespace "ci": use 1h or less`},
		"of a policy":        {ttl: "1s", policies: []*resolution.PlatformPolicy{bounding("min-ttl", "1h")}, namespaced: true, want: "1s is below curfew.dev/min-ttl 1h"},
		"cannot be read":     {ttl: "1h", namespace: []string{"min-ttl", "?"}, namespaced: true, want: "curfew.dev/min-ttl"},
		"above, the cluster": {ttl: "9h", namespace: []string{"max-ttl", "1h"}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := policy.FactsOfJob(builders.MakeJob("ci", "a").Complete(noon.Add(-100 * time.Hour)).Obj())
			scope := &resolution.Scope{Namespace: namespaceOf(test.namespace...), Policies: test.policies,
				Runtime: &resolution.RuntimePolicy{Name: "torch", TTL: ttls("ttl-after-finished", test.ttl), Since: noon.Add(-1000 * time.Hour), Namespaced: test.namespaced}}
			effective := resolution.Resolve(facts, scope)
			verdict := judging.Judge(facts, &effective, noon)
			if test.want == "" {
				if verdict.Action != policy.Delete {
					t.Errorf("%s, %v; want it deleted", verdict.Action, verdict.Err)
				}
				return
			}
			if verdict.Action != policy.Keep || !strings.Contains(errText(verdict.Err), test.want) {
				t.Errorf("%s, %v; want keep, %s", verdict.Action, verdict.Err, test.want)
			}
		})
	}
}

func bounding(pairs ...string) *resolution.PlatformPolicy {
	return &resolution.PlatformPolicy{Name: "a", Bounds: resolution.ParseNamespace("x", annotated(pairs...), nil).Bounds}
}

// The hash covers each annotation and field in which some kind finds a TTL, and nothing else.
func TestRuntimeHash(t *testing.T) {
	fields := []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.ttl"), fieldpath.MustFieldPath("spec.policy.ttl")}
	runtime := func(spec map[string]any, pairs ...string) map[string]any {
		annotations := map[string]any{}
		for key, value := range annotated(pairs...) {
			annotations[key] = value
		}
		return map[string]any{"metadata": map[string]any{"annotations": annotations}, "spec": spec}
	}
	base := resolution.RuntimeHash(runtime(map[string]any{"ttl": int64(60)}), fields)
	for name, other := range map[string]map[string]any{
		"another value":     runtime(map[string]any{"ttl": int64(61)}),
		"the other field":   runtime(map[string]any{"policy": map[string]any{"ttl": int64(60)}}),
		"one more field":    runtime(map[string]any{"ttl": int64(60), "policy": map[string]any{"ttl": int64(60)}}),
		"an annotation":     runtime(map[string]any{"ttl": int64(60)}, "ttl-after-failed", "1h"),
		"an unreadable TTL": runtime(map[string]any{"ttl": "60"}),
		"no TTL":            runtime(nil),
	} {
		if resolution.RuntimeHash(other, fields) == base {
			t.Errorf("%s does not change the hash", name)
		}
	}
	for name, same := range map[string]map[string]any{
		"backfill":         runtime(map[string]any{"ttl": int64(60)}, "backfill", "true"),
		"a deadline":       runtime(map[string]any{"ttl": int64(60)}, "active-deadline", "1h"),
		"the form of JSON": runtime(map[string]any{"ttl": float64(60)}),
		"another field":    runtime(map[string]any{"ttl": int64(60), "nodes": int64(2)}),
	} {
		if resolution.RuntimeHash(same, fields) != base {
			t.Errorf("%s changes the hash", name)
		}
	}
	twice := append(append([]fieldpath.FieldPath{fields[1]}, fields...), fields...)
	if resolution.RuntimeHash(runtime(map[string]any{"ttl": int64(60)}), twice) != base {
		t.Error("the order of fields, or one twice, changes the hash")
	}
	if got := resolution.RuntimeHash(runtime(nil, "backfill", "true"), fields); got != "" {
		t.Errorf("without a TTL the hash is %q", got)
	}
}

// A stamp counts for the TTL that it was written for, and never from before the runtime's creation.
func TestReadSince(t *testing.T) {
	fields := []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.ttl")}
	object := map[string]any{"spec": map[string]any{"ttl": int64(60)}}
	fits := resolution.RuntimeHash(object, fields)
	for name, test := range map[string]struct {
		stamp string
		want  time.Time
	}{
		"none":                         {},
		"it fits":                      {stamp: resolution.FormatSince(noon, fits), want: noon},
		"of another TTL":               {stamp: resolution.FormatSince(noon, "0123456789ab")},
		"no time":                      {stamp: "yesterday/" + fits},
		"from before it was created":   {stamp: resolution.FormatSince(noon.Add(-1000*time.Hour), fits), want: noon.Add(-time.Hour)},
		"no time, and another one's":   {stamp: "/"},
		"a time, and no hash beside":   {stamp: noon.Format(time.RFC3339)},
		"the hash of what has no TTLs": {stamp: noon.Format(time.RFC3339) + "/"},
	} {
		runtimePolicy := &resolution.RuntimePolicy{}
		runtimePolicy.ReadSince(&policy.Facts{Created: noon.Add(-time.Hour), Annotations: map[string]string{wellknown.AnnotationDefaultSince: test.stamp}}, object, fields)
		if !runtimePolicy.Since.Equal(test.want) {
			t.Errorf("%s: since %s, want %s", name, runtimePolicy.Since, test.want)
		}
	}
	for text, want := range map[string]bool{"true": true, "false": false, "True": false, "yes": false} {
		runtimePolicy := &resolution.RuntimePolicy{}
		runtimePolicy.ReadSince(&policy.Facts{Annotations: map[string]string{wellknown.AnnotationBackfill: text}}, object, fields)
		if runtimePolicy.Backfill != want {
			t.Errorf("backfill %q is %t", text, runtimePolicy.Backfill)
		}
	}
}

func TestStampRuntime(t *testing.T) {
	object := map[string]any{"metadata": map[string]any{"annotations": map[string]any{wellknown.AnnotationTTL: "1d"}}}
	hash := resolution.RuntimeHash(object, nil)
	fits, now := resolution.FormatSince(noon.Add(-time.Hour), hash), resolution.FormatSince(noon, hash)
	for name, test := range map[string]struct {
		object  map[string]any
		present string
		at      time.Time
		want    string
	}{
		"none yet":              {object: object, at: noon, want: now},
		"it fits":               {object: object, present: fits, at: noon, want: fits},
		"of another TTL":        {object: object, present: resolution.FormatSince(noon.Add(-time.Hour), "0123456789ab"), at: noon, want: now},
		"in the future":         {object: object, present: resolution.FormatSince(noon.Add(time.Hour), hash), at: noon, want: now},
		"the time is unknown":   {object: object, present: resolution.FormatSince(noon, "0123456789ab")},
		"it fits, unknown":      {object: object, present: fits, want: fits},
		"the TTL is gone":       {object: map[string]any{}, present: fits, at: noon},
		"there never was a TTL": {object: map[string]any{}, at: noon},
	} {
		if got := resolution.StampRuntime(test.object, nil, test.present, test.at); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
