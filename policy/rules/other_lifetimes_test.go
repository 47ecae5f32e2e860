package rules

import (
	"slices"
	"strings"
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

const curfewItself = "system:serviceaccount:curfew-system:curfew-controller"

// Who may not delete an object has it deleted neither by taking its protection away, nor by a
// finish time of their own, nor by the TTL of the runtime that it uses.
func TestOtherWaysToHaveAnObjectDeleted(t *testing.T) {
	finished := func() *builders.JobWrapper { return builders.MakeJob("ci", "a").Complete(noon.Add(-2 * time.Hour)) }
	protected := func(w *builders.JobWrapper) map[string]any {
		return w.Annotation(wellknown.AnnotationProtect, "true").Map()
	}
	stamped := func(text string) map[string]any {
		return finished().Annotation(wellknown.AnnotationFinishedAt, text).Map()
	}
	runtime := func(pairs ...string) map[string]any { return object("TrainingRuntime", map[string]any{}, pairs...) }
	users := *trainJob
	users.Resource = "trainjobs"
	users.Kind.Group = "trainer.kubeflow.org"
	known := *trainingRuntime
	known.UsedBy = &users
	const protection, finish, ttl = "metadata.annotations[curfew.dev/protect]", "metadata.annotations[curfew.dev/finished-at]", "metadata.annotations[curfew.dev/ttl-after-finished]"
	for name, test := range map[string]struct {
		profile     *policy.Profile
		user        string
		old, object map[string]any
		namespace   map[string]string
		// field that is asked about; "" if no user is checked.
		field string
	}{
		"protection of a due object":              {old: protected(finished().TTL(60)), object: finished().TTL(60).Map(), field: protection},
		"… set to false":                          {old: protected(finished().TTL(60)), object: finished().TTL(60).Annotation(wellknown.AnnotationProtect, "false").Map(), field: protection},
		"… of an object due by its label":         {old: protected(finished().Label(wellknown.LabelTTL, "2026-12-24")), object: finished().Label(wellknown.LabelTTL, "2026-12-24").Map(), field: protection},
		"… of an object due in a while":           {old: protected(finished().TTL(86400)), object: finished().TTL(86400).Map(), field: protection},
		"… of what has not finished":              {old: protected(builders.MakeJob("ci", "a").TTL(60)), object: builders.MakeJob("ci", "a").TTL(60).Map()},
		"… of what has no TTL":                    {old: protected(finished()), object: finished().Map()},
		"… of what never goes":                    {old: protected(finished().Annotation(wellknown.AnnotationTTL, "never")), object: finished().Annotation(wellknown.AnnotationTTL, "never").Map()},
		"… left in place":                         {old: protected(finished().TTL(60)), object: protected(finished().TTL(60).Label("a", "b"))},
		"… put in place":                          {old: finished().TTL(60).Map(), object: protected(finished().TTL(60))},
		"a finish time":                           {old: finished().Map(), object: stamped("2026-12-01T00:00:00Z"), field: finish},
		"… on CREATE":                             {object: stamped("2026-12-01T00:00:00Z"), field: finish},
		"… changed":                               {old: stamped("2026-12-02T00:00:00Z"), object: stamped("2026-12-01T00:00:00Z"), field: finish},
		"… left in place ":                        {old: stamped("2026-12-02T00:00:00Z"), object: stamped("2026-12-02T00:00:00Z")},
		"… removed":                               {old: stamped("2026-12-02T00:00:00Z"), object: finished().Map()},
		"… by Curfew":                             {user: curfewItself, old: finished().Map(), object: stamped("2026-12-01T00:00:00Z")},
		"a runtime's TTL":                         {profile: &known, object: runtime("ttl-after-finished", "1d"), field: ttl},
		"… added":                                 {profile: &known, old: runtime(), object: runtime("ttl-after-finished", "1d"), field: ttl},
		"… changed ":                              {profile: &known, old: runtime("ttl-after-finished", "2d"), object: runtime("ttl-after-finished", "1d"), field: ttl},
		"… removed ":                              {profile: &known, old: runtime("ttl-after-finished", "2d"), object: runtime(), field: ttl},
		"… of one outcome":                        {profile: &known, old: runtime("ttl-after-finished", "2d"), object: runtime("ttl-after-finished", "2d", "ttl-after-failed", "1h"), field: "metadata.annotations[curfew.dev/ttl-after-failed]"},
		"… to never":                              {profile: &known, old: runtime("ttl-after-finished", "2d"), object: runtime("ttl-after-finished", "never")},
		"… to what cannot be read":                {profile: &known, old: runtime("ttl-after-finished", "2d"), object: runtime("ttl-after-finished", "soon")},
		"… written otherwise":                     {profile: &known, old: runtime("ttl-after-finished", "24h"), object: runtime("ttl-after-finished", "1d")},
		"backfill of a runtime":                   {profile: &known, old: runtime("ttl-after-finished", "1d"), object: runtime("ttl-after-finished", "1d", "backfill", "true"), field: "metadata.annotations[curfew.dev/backfill]"},
		"… without a TTL":                         {profile: &known, old: runtime(), object: runtime("backfill", "true")},
		"a runtime's spec":                        {profile: &known, old: runtime("ttl-after-finished", "1d"), object: put(runtime("ttl-after-finished", "1d"), "spec.mlPolicy.numNodes", int64(2))},
		"protection, beside a default of its own": {old: protected(finished()), object: finished().Map(), namespace: annotated("default-ttl", "1h", "backfill", "true"), field: protection},
	} {
		t.Run(name, func(t *testing.T) {
			profile := test.profile
			if profile == nil {
				profile = policy.JobProfile
			}
			for _, strict := range []bool{false, true} {
				request := &Request{Operation: Create, User: User{Name: test.user}, Object: test.object, Facts: policy.FactsOfObject(profile, test.object), Now: noon,
					Scope: &resolution.Scope{Namespace: resolution.ParseNamespace("ci", test.namespace, nil)}, Options: Options{RequireDelete: strict, ControllerUser: curfewItself},
					Access: Access{User: No}}
				if test.old != nil {
					request.Operation, request.Old, request.OldFacts = Update, test.old, policy.FactsOfObject(profile, test.old)
				}
				effective := resolution.Resolve(request.Facts, request.Scope)
				request.Effective = &effective
				sets := SetsLifetime(request)
				if got := sets != nil; got != (test.field != "") || got && sets.Path != test.field {
					t.Fatalf("asked about %+v, want %q", sets, test.field)
				}
				if sets != nil && sets.Of != profile.UsedBy {
					t.Errorf("asked about %v", sets.Of)
				}
				decision := Review(request)
				if denied := slices.ContainsFunc(decision.Denials(), func(f Finding) bool { return f.Rule == userMayDelete.Name }); denied != (strict && test.field != "") {
					t.Errorf("strict %v: %v", strict, decision.Findings)
				}
			}
		})
	}
	for _, test := range []struct {
		profile     *policy.Profile
		old, object map[string]any
		want        string
	}{
		{policy.JobProfile, protected(finished().TTL(60)), finished().TTL(60).Map(),
			protection + ": without it Curfew deletes this Job when it is due, but you may not delete it yourself: ask for the verb delete on jobs.batch in namespace \"ci\""},
		{&known, runtime(), runtime("ttl-after-finished", "1d"),
			ttl + ": sets when each TrainJob that uses this TrainingRuntime is deleted, but you may not delete it yourself: ask for the verb delete on trainjobs.trainer.kubeflow.org in namespace \"ci\""},
	} {
		got := judge(userMayDelete, test.profile, Request{Now: noon, Access: Access{User: No}}, test.old, test.object)
		equal(t, got, []string{"warning " + test.want})
		got = judge(controllerMayDelete, test.profile, Request{Now: noon, Access: Access{Controller: No}}, test.old, test.object)
		if len(got) != 1 || !strings.Contains(got[0], "Curfew's controller lacks the permission to delete a ") {
			t.Errorf("the controller: %q", got)
		}
	}
}
