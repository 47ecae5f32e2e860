package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// told are levels as a test compares them: "* namespace/ci: 1h (why)".
func told(levels []resolution.Step) []string {
	var out []string
	for _, level := range levels {
		mark, text := "  ", level.Source.String()
		if level.Decides {
			mark = "* "
		}
		var values []string
		for _, setting := range level.Settings {
			values = append(values, setting.Text)
		}
		if len(values) > 0 {
			text += ": " + strings.Join(values, ", ")
		}
		if level.Why != "" {
			text += " (" + level.Why + ")"
		}
		out = append(out, mark+text)
	}
	return out
}

func TestExplainLevels(t *testing.T) {
	created := noon.Add(-time.Hour)
	for name, test := range map[string]struct {
		job   *builders.JobWrapper
		scope resolution.Scope
		want  []string
	}{
		"a default that came later": {job: builders.MakeJob("ci", "a").Created(created), scope: resolution.Scope{Namespace: namespaceSince(noon, "default-ttl", "1h")},
			want: []string{"  runtime (the object uses no runtime)", "  object", "* namespace/ci: 1h (the object is older than the default, which was set at 2026-12-24T12:00:00Z, and backfill is off)"}},
		"a default that has become never": {job: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationTTL, "never").Annotation(wellknown.AnnotationTTLSource, "policy/a"), scope: resolution.Scope{Namespace: namespaceOf(), Policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-failed", "3d")}},
			want: []string{"  runtime (the object uses no runtime)", `* object: never (defaulted at creation from policy "a", or changed since)`, "  namespace/ci", "  policy/a: 3d (not used: a level above sets the value)"}},
		"a default that was filled in, or not": {job: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "namespace/ci"), scope: resolution.Scope{Namespace: namespaceOf("default-ttl", "1h")},
			want: []string{"  runtime (the object uses no runtime)", `* object: 60 (defaulted at creation from namespace "ci", or changed since)`, "  namespace/ci: 1h (not used: a level above sets the value)"}},
		"a default that was changed since": {job: builders.MakeJob("ci", "a").Created(created).TTL(60).Annotation(wellknown.AnnotationTTLSource, "namespace/ci"), scope: resolution.Scope{Namespace: namespaceSince(created.Add(-time.Hour), "default-ttl", "1h")},
			want: []string{"  runtime (the object uses no runtime)", `* object: 60 (its source annotation names namespace "ci", which gives another value: it counts as set on the object)`, "  namespace/ci: 1h (not used: a level above sets the value)"}},
		"a default of a namespace that has another since": {job: builders.MakeJob("ci", "a").Created(created).TTL(60).Annotation(wellknown.AnnotationTTLSource, "namespace/ci"), scope: resolution.Scope{Namespace: namespaceSince(noon, "default-ttl", "1h")},
			want: []string{"  runtime (the object uses no runtime)", `* object: 60 (defaulted at creation from namespace "ci", or changed since)`, "  namespace/ci: 1h (not used: a level above sets the value)"}},
		"a default that was moved inside the bounds": {job: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "namespace/ci"), scope: resolution.Scope{Namespace: namespaceOf("default-ttl", "1h", "max-ttl", "1m")},
			want: []string{"  runtime (the object uses no runtime)", `* object: 60 (defaulted at creation from namespace "ci")`, "  namespace/ci: 1h (not used: a level above sets the value)"}},
		"a default by outcome that was filled in": {job: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationTTLFailed, "3d").Annotation(wellknown.AnnotationTTLSource, "policy/a"), scope: resolution.Scope{Namespace: namespaceOf(), Policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-failed", "3d")}},
			want: []string{"  runtime (the object uses no runtime)", `* object: 3d (defaulted at creation from policy "a")`, "  namespace/ci", "  policy/a: 3d (not used: a level above sets the value)"}},
		"a default of a policy that is gone": {job: builders.MakeJob("ci", "a").TTL(60).Annotation(wellknown.AnnotationTTLSource, "policy/a"), scope: resolution.Scope{Namespace: namespaceOf()},
			want: []string{"  runtime (the object uses no runtime)", `* object: 60 (defaulted at creation from policy "a")`, "  namespace/ci"}},
		"a default that was taken away": {job: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationTTLSource, "namespace/ci"), scope: resolution.Scope{Namespace: namespaceOf("default-ttl", "1h")},
			want: []string{"  runtime (the object uses no runtime)", "* object (the value was removed after creation, which means none)", "  namespace/ci: 1h (not used: a level above sets the value)"}},
		"the runtime": {job: builders.MakeJob("ci", "a").TTL(60), scope: resolution.Scope{Namespace: namespaceOf("default-ttl", "1h"), Runtime: &resolution.RuntimePolicy{Name: "torch", TTL: ttls("ttl-after-finished", "1d")}},
			want: []string{"* runtime/torch: 1d", "  object: 60 (not used: the runtime sets the value)", "  namespace/ci: 1h (not used: a level above sets the value)"}},
		"a runtime that is gone": {job: builders.MakeJob("ci", "a").TTL(60), scope: resolution.Scope{Runtime: &resolution.RuntimePolicy{Name: "torch", Missing: true}},
			want: []string{"* runtime/torch (the runtime does not exist or cannot be read, so the object is kept)", "  object: 60 (not used: the runtime sets the value)"}},
		"the namespace": {job: builders.MakeJob("ci", "a").Created(created), scope: resolution.Scope{Namespace: namespaceOf("default-ttl", "1h"), Policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "2h")}},
			want: []string{"  runtime (the object uses no runtime)", "  object", "* namespace/ci: 1h", "  policy/a: 2h (not used: a level above sets the value)"}},
		"a default that is clamped": {job: builders.MakeJob("ci", "a").Created(created), scope: resolution.Scope{Namespace: namespaceOf("default-ttl", "1h", "max-ttl", "30m")},
			want: []string{"  runtime (the object uses no runtime)", "  object", "* namespace/ci: 1h (clamped to 30m)"}},
		"a default that came later and reaches back": {job: builders.MakeJob("ci", "a").Created(created), scope: resolution.Scope{Namespace: namespaceSince(noon, "default-ttl", "1h", "backfill", "true")},
			want: []string{"  runtime (the object uses no runtime)", "  object", "* namespace/ci: 1h (the object is older than the default, and backfill includes it)"}},
		"a policy": {job: builders.MakeJob("ci", "a").Created(created), scope: resolution.Scope{Namespace: namespaceOf(), Policies: []*resolution.PlatformPolicy{platform("a"), platform("b", "ttl-after-failed", "2h")}},
			want: []string{"  runtime (the object uses no runtime)", "  object", "  namespace/ci", "  policy/a", "* policy/b: 2h"}},
		"an owner": {job: builders.MakeJob("ci", "a").ControlledBy("example.com/v1", "Thing", "x"), scope: resolution.Scope{Namespace: namespaceOf("default-ttl", "1h")},
			want: []string{"  runtime (the object uses no runtime)", "  object", "  namespace/ci: 1h (not used: no default, as the object is owned by Thing x)"}},
		"protected": {job: builders.MakeJob("ci", "a").Annotation(wellknown.AnnotationProtect, "true"), scope: resolution.Scope{Namespace: namespaceOf("default-ttl", "1h")},
			want: []string{"  runtime (the object uses no runtime)", "  object", "  namespace/ci: 1h (not used: no default, as the object is protected)"}},
	} {
		t.Run(name, func(t *testing.T) {
			explained := judging.Explain(policy.FactsOfObject(policy.JobProfile, test.job.Map()), &test.scope, judging.Question{Now: noon})
			equal(t, told(explained.TTL), test.want)
		})
	}
}

// TestExplainPodOfAJob: a policy with a TTL and with bounds, which hold for it, does not decide
// about a Pod that its TTL is not for.
func TestExplainPodOfAJob(t *testing.T) {
	pod := builders.MakePod("ci", "a").Created(noon.Add(-time.Hour)).RestartPolicy("Never").ControlledBy("batch/v1", "Job", "b").Phase("Succeeded").Terminated(noon).Map()
	const not = "  policy/a: 2h (not used: a policy gives Pods with an owner a TTL only if its match.kinds name Pod)"
	for namespace, want := range map[string][]string{
		"":   {"  runtime (the object uses no runtime)", "  object", "  job/b", "  namespace/ci", not},
		"3h": {"  runtime (the object uses no runtime)", "  object", "  job/b", "* namespace/ci: 3h", not},
	} {
		podCounter := resolution.CounterOfJob(builders.MakeJob("ci", "b").Obj())
		scope := &resolution.Scope{Namespace: namespaceOf(), Counter: podCounter, Policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "2h")}}
		if namespace != "" {
			scope.Namespace = namespaceOf("default-pod-ttl", namespace)
		}
		explained := judging.Explain(policy.FactsOfObject(policy.PodProfile, pod), scope, judging.Question{Now: noon})
		equal(t, told(explained.TTL), want)
		if explained.Effective.Succeeded.Set != (namespace != "") {
			t.Errorf("it has %+v", explained.Effective.Succeeded)
		}
	}
}

func TestExplainDeadlineAndBounds(t *testing.T) {
	scope := &resolution.Scope{Namespace: namespaceOf("default-deadline", "2h", "max-ttl", "7d", "min-deadline", "1m")}
	own := judging.Explain(policy.FactsOfObject(policy.JobProfile, builders.MakeJob("ci", "a").Created(noon).Deadline(90).Map()), scope, judging.Question{Now: noon})
	equal(t, told(own.Deadline), []string{"* object: 90", "  namespace/ci: 2h (not used: a level above sets the value)"})
	equal(t, bounds(own), []string{"7d", "1m"})
	given := judging.Explain(policy.FactsOfObject(policy.JobProfile, builders.MakeJob("ci", "a").Created(noon).Map()), scope, judging.Question{Now: noon})
	equal(t, told(given.Deadline), []string{"  object", "* namespace/ci: 2h"})
	pod := judging.Explain(policy.FactsOfObject(policy.PodProfile, builders.MakePod("ci", "a").Created(noon).Map()), scope, judging.Question{Now: noon})
	equal(t, told(pod.Deadline), []string{"  object", "  namespace/ci: 2h (not used: no default deadline for a Pod)"})
	cron := judging.Explain(policy.FactsOfObject(policy.CronJobProfile, builders.MakeCronJob("ci", "a").Map()), scope, judging.Question{Now: noon})
	if len(cron.TTL)+len(cron.Deadline) > 0 || cron.ByTTL.Reason != "a CronJob does not finish" || cron.ByDeadline.Reason != "a CronJob has no deadline" {
		t.Errorf("of a CronJob: %+v", cron)
	}
}

// TestExplainRuntimeDeadline: a runtime's deadline comes after the object's own and before other
// defaults; the settings of a deleted one are unknown.
func TestExplainRuntimeDeadline(t *testing.T) {
	setting := &lifetime.Setting{Path: "metadata.annotations[curfew.dev/active-deadline]", Text: "1h", TTL: lifetime.TTL{After: time.Hour}}
	namespace := namespaceOf("default-deadline", "2h")
	job := func() *builders.JobWrapper { return builders.MakeJob("ci", "a").Created(noon) }
	const late = " (when the default was set is not recorded, and backfill is off: it applies to objects created from now on)"
	for name, test := range map[string]struct {
		job     *builders.JobWrapper
		runtime resolution.RuntimePolicy
		want    []string
		source  string
	}{
		"it says one": {job(), resolution.RuntimePolicy{Name: "torch", Deadline: setting}, []string{"  object", "* runtime/torch: 1h" + late, "  namespace/ci: 2h (not used: a level above sets the value)"}, ""},
		"it said one": {job().Deadline(3600).Annotation(wellknown.AnnotationDeadlineSource, "runtime/torch"), resolution.RuntimePolicy{Name: "torch", Deadline: setting},
			[]string{`* object: 3600 (defaulted at creation from runtime "torch")`, "  runtime/torch: 1h (not used: a level above sets the value)",
				"  namespace/ci: 2h (not used: a level above sets the value)"}, "runtime/torch"},
		"it is gone": {job(), resolution.RuntimePolicy{Name: "torch", Missing: true},
			[]string{"  object", "  runtime/torch (the runtime does not exist or cannot be read)", "  namespace/ci: 2h (not used: no default, as the runtime may say a longer one)"}, ""},
		"it is gone, and the object says one": {job().Deadline(90), resolution.RuntimePolicy{Name: "torch", Missing: true},
			[]string{"* object: 90", "  runtime/torch (the runtime does not exist or cannot be read)", "  namespace/ci: 2h (not used: a level above sets the value)"}, "object"},
		"another controller": {job().ManagedBy("example.com/x"), resolution.RuntimePolicy{Name: "torch", Deadline: setting},
			[]string{"  object", "  runtime/torch: 1h (not used: no default, as the object is managed by example.com/x)",
				"  namespace/ci: 2h (not used: no default, as the object is managed by example.com/x)"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			explained := judging.Explain(policy.FactsOfObject(policy.JobProfile, test.job.Map()), &resolution.Scope{Namespace: namespace, Runtime: &test.runtime}, judging.Question{Now: noon})
			equal(t, told(explained.Deadline), test.want)
			if value := explained.Effective.Deadline; value.Set != (test.source != "") || value.Set && value.Source.String() != test.source {
				t.Errorf("the deadline is from %q, want %q", value.Source, test.source)
			}
		})
	}
}

func bounds(e *judging.Explanation) []string {
	var out []string
	for _, bound := range e.Bounds {
		out = append(out, bound.Text)
	}
	return out
}

// TestGoesByTheEarlier: with a TTL and a label, whichever is earlier; the alias only where it is
// understood.
func TestGoesByTheEarlier(t *testing.T) {
	scope := &resolution.Scope{Namespace: namespaceOf()}
	for name, test := range map[string]struct {
		label, alias string
		understood   bool
		want         string
	}{
		"TTL alone":                {want: "ttl 13:00"},
		"label before it":          {label: "2h30m", want: "label 12:30"},
		"label after it":           {label: "1d", want: "ttl 13:00"},
		"alias":                    {alias: "2h30m", understood: true, want: "label 12:30"},
		"alias, not understood":    {alias: "2h30m", want: "ttl 13:00"},
		"both, the label decides":  {label: "1d", alias: "2h30m", understood: true, want: "ttl 13:00"},
		"a label that is no label": {label: "soon", want: "ttl 13:00"},
		"a label that is past it":  {label: "1h", want: "label 11:00"},
		"a label of long ago":      {label: "2026-01-01", want: "ttl 13:00"},
	} {
		job := builders.MakeJob("ci", "a").Created(noon.Add(-2 * time.Hour)).TTL(3600).Complete(noon)
		for key, value := range map[string]string{wellknown.LabelTTL: test.label, wellknown.LabelKyvernoTTL: test.alias} {
			if value != "" {
				job.Label(key, value)
			}
		}
		explained := judging.Explain(policy.FactsOfObject(policy.JobProfile, job.Map()), scope, judging.Question{Now: noon, Alias: test.understood})
		verdict, ok := explained.Goes()
		if got := fmt.Sprint(verdict.Trigger, " ", verdict.Expiry.Format("15:04")); !ok || got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestExplanationAgrees: a trace changes nothing, and the level that it says decides is the one
// that the value comes from.
func TestExplanationAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		object, profile := drawFinished(t)
		if rapid.Bool().Draw(t, "is stamped") {
			metadata := object["metadata"].(map[string]any)
			if metadata["annotations"] == nil {
				metadata["annotations"] = map[string]any{}
			}
			metadata["annotations"].(map[string]any)[wellknown.AnnotationTTLSource] = rapid.SampledFrom([]string{"namespace/ci", "policy/a", "object", "runtime/x"}).Draw(t, "stamp")
		}
		facts := policy.FactsOfObject(profile, object)
		namespace := map[string]string{}
		for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(namespaceKeys), 0, 4, rapid.ID).Draw(t, "namespace") {
			namespace[key] = drawReadable(t, key)
		}
		since := noon.Add(time.Duration(rapid.SampledFrom([]int{-6000, -500, 0}).Draw(t, "since")) * time.Second)
		namespace[wellknown.AnnotationDefaultSince] = resolution.FormatSince(since, resolution.DefaultsHash(namespace))
		scope := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", namespace, nil)}
		for _, name := range []string{"a", "b"} {
			if rapid.Bool().Draw(t, "policy "+name) {
				platformPolicy := platform(name, rapid.SampledFrom([]string{"ttl-after-finished", "ttl-after-failed"}).Draw(t, "key of "+name), "2h")
				platformPolicy.Since, platformPolicy.Backfill = since, rapid.Bool().Draw(t, "backfill of "+name)
				scope.Policies = append(scope.Policies, platformPolicy)
			}
		}
		switch rapid.IntRange(0, 3).Draw(t, "runtime") {
		case 1:
			scope.Runtime = &resolution.RuntimePolicy{Name: "torch", TTL: ttls("ttl-after-finished", "1d")}
		case 2:
			scope.Runtime = &resolution.RuntimePolicy{Name: "torch"}
		case 3:
			scope.Runtime = &resolution.RuntimePolicy{Name: "torch", Missing: true}
		}
		explained := judging.Explain(facts, scope, judging.Question{Now: noon})
		if with, without := fmt.Sprintf("%+v", explained.Effective), fmt.Sprintf("%+v", resolution.Resolve(facts, scope)); with != without {
			t.Fatalf("with a trace:    %s\nwithout a trace: %s", with, without)
		}
		deciders := 0
		for _, step := range explained.TTL {
			if !step.Decides {
				continue
			}
			deciders++
			for _, value := range []resolution.Value{explained.Effective.Succeeded, explained.Effective.Failed} {
				if !value.Set {
					continue
				}
				// What was filled in stands in the object and has the source of who filled it in.
				if value.Source != step.Source && (step.Source.Level != lifetime.LevelObject || value.Source.Level != lifetime.ParseSource(facts.Annotations[wellknown.AnnotationTTLSource]).Level) {
					t.Fatalf("%q decides, and the value is from %q\n%s", step.Source, value.Source, lines(told(explained.TTL)))
				}
			}
		}
		set := explained.Effective.Succeeded.Set || explained.Effective.Failed.Set
		if deciders > 1 || (set && deciders == 0) {
			t.Fatalf("%d levels decide\n%s", deciders, lines(told(explained.TTL)))
		}
	})
}

func TestObstacles(t *testing.T) {
	finished := func() *builders.JobWrapper {
		return builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)).TTL(60).Complete(noon)
	}
	around := judging.Surroundings{Protect: []string{"kube-system", "own"}}
	for name, test := range map[string]struct {
		job    *builders.JobWrapper
		scope  resolution.Scope
		around *judging.Surroundings
		want   []string
	}{
		"a bad value, for both outcomes": {job: builders.MakeJob("ci", "a").Created(noon).Annotation(wellknown.AnnotationTTL, "soon"), want: []string{`value! its TTL cannot be used: metadata.annotations[curfew.dev/ttl-after-finished]: "soon" is not a duration: use seconds (90) or units s, m, h, d, w (1h30m, 7d), or never`}},
		"nothing":                        {job: finished()},
		"protected":                      {job: finished().Annotation(wellknown.AnnotationProtect, "true"), want: []string{"protection! is protected by annotation curfew.dev/protect"}},
		"protected namespace":            {job: builders.MakeJob("own", "a"), want: []string{`protection! namespace "own" is protected by the controller's --protect`}},
		"a bad value":                    {job: finished().Annotation(wellknown.AnnotationTTL, "soon"), want: []string{`value! its TTL cannot be used: metadata.annotations[curfew.dev/ttl-after-finished]: "soon" is not a duration: use seconds (90) or units s, m, h, d, w (1h30m, 7d), or never`}},
		"a bad value that is in effect":  {job: builders.MakeJob("ci", "a").Created(noon).Annotation(wellknown.AnnotationTTLFailed, "soon"), want: []string{`value! its TTL cannot be used: metadata.annotations[curfew.dev/ttl-after-failed]: "soon" is not a duration: use seconds (90) or units s, m, h, d, w (1h30m, 7d), or never`}},
		"a bad label":                    {job: finished().Label(wellknown.LabelTTL, "1y"), want: []string{`value! its TTL label cannot be used: metadata.labels[curfew.dev/ttl]: "1y" is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`}},
		"no finish time":                 {job: builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)).TTL(60).Complete(time.Time{}), want: []string{"value! does not say when it finished: " + noFinishTime}},
		"no finish time yet":             {job: builders.MakeJob("ci", "a").Created(noon.Add(-time.Hour)).TTL(60)},
		"dry-run":                        {job: finished(), scope: resolution.Scope{Namespace: namespaceOf("mode", "dry-run")}, want: []string{`dry-run! namespace "ci" is in dry-run: Curfew only reports due objects`}},
		"controller dry-run":             {job: finished(), around: &judging.Surroundings{DryRun: true}, want: []string{"dry-run! the controller runs with --dry-run: it only reports due objects"}},
		"finalizers":                     {job: finished().Finalizer("a/b").Finalizer("foregroundDeletion").Finalizer("c/d"), want: []string{"finalizer has finalizers a/b, c/d: its owner must remove it before the object is deleted"}},
		"an owner that makes another": {job: finished().ControlledBy("jobset.x-k8s.io/v1alpha2", "JobSet", "train"),
			want: []string{"owner is owned by JobSet train, which makes another one in its place until it has finished"}},
		"terminating": {job: finished().Deleting(noon), want: []string{"terminating! is being deleted since 2026-12-24T12:00:00Z; Curfew does not send its DELETE again"}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := policy.FactsOfObject(policy.JobProfile, test.job.Map())
			given := around
			if test.around != nil {
				given = *test.around
			}
			var have []string
			for _, obstacle := range judging.Explain(facts, &test.scope, judging.Question{Now: noon}).Obstacles(given) {
				mark := ""
				if obstacle.Stops {
					mark = "!"
				}
				have = append(have, string(obstacle.Kind)+mark+" "+obstacle.Message)
			}
			equal(t, have, test.want)
			free := judging.Unobstructed(facts)
			if free.Deleting || free.Protected() {
				t.Error("something still holds it back")
			}
		})
	}
	pod := builders.MakePod("ci", "a").ControlledBy("batch/v1", "Job", "b").Finalizer(wellknown.FinalizerJobTracking).Phase("Succeeded").Terminated(noon).Map()
	have := judging.Explain(policy.FactsOfObject(policy.PodProfile, pod), &resolution.Scope{}, judging.Question{Now: noon}).Obstacles(around)
	if len(have) != 1 || have[0].Kind != judging.ObstacleAccounting {
		t.Errorf("of an uncounted Pod: %+v", have)
	}
	server := builders.MakePod("ci", "a").RestartPolicy("Always").Phase("Running").Annotation(wellknown.AnnotationTTL, "1h").Map()
	have = judging.Explain(policy.FactsOfObject(policy.PodProfile, server), &resolution.Scope{}, judging.Question{Now: noon}).Obstacles(around)
	if want := "restartPolicy is Always: metadata.annotations[curfew.dev/ttl-after-finished]: a Pod with restartPolicy Always has no TTL after finished"; len(have) != 1 || have[0].Message != want {
		t.Errorf("of a Pod that goes on: %+v", have)
	}
	namespace := map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system"}}
	bare := &policy.Profile{}
	bare.Kind.Version, bare.Kind.Kind = "v1", "Namespace"
	if have := judging.Explain(policy.FactsOfObject(bare, namespace), &resolution.Scope{}, judging.Question{Now: noon}).Obstacles(around); len(have) != 1 {
		t.Errorf("of a protected Namespace: %+v", have)
	}
}
