package policy_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// No default for the child of a live controller, nor for what another manager answers for (S5).
func TestNoDefault(t *testing.T) {
	job := func() *builders.JobWrapper { return builders.MakeJob("ci", "a").Created(noon) }
	pod := func() *builders.PodWrapper { return builders.MakePod("ci", "a").Created(noon) }
	scope := &resolution.Scope{Namespace: namespaceOf("default-ttl", "1h"), Policies: []*resolution.PlatformPolicy{platform("a", "ttl-after-finished", "2h")}}
	for name, test := range map[string]struct {
		facts *policy.Facts
		why   string
		// want is the TTL: "" where no default is given.
		want string
	}{
		"a Pod OnFailure":       {policy.FactsOfPod(pod().RestartPolicy(corev1.RestartPolicyOnFailure).Obj()), "", "1h namespace/ci"},
		"a Job":                 {policy.FactsOfJob(job().Obj()), "", "1h namespace/ci"},
		"a JobSet's Job":        {policy.FactsOfJob(job().ControlledBy("jobset.x-k8s.io/v1alpha2", "JobSet", "set").Obj()), "is owned by JobSet set", ""},
		"a CronJob's Job":       {policy.FactsOfJob(job().ControlledBy("batch/v1", "CronJob", "nightly").Obj()), "", "1h namespace/ci"},
		"some other CronJob's":  {policy.FactsOfJob(job().ControlledBy("example.com/v1", "CronJob", "nightly").Obj()), "is owned by CronJob nightly", ""},
		"an owner, no control":  {policy.FactsOfJob(job().Owner(controlledBy(false)).Obj()), "", "1h namespace/ci"},
		"managed elsewhere":     {policy.FactsOfJob(job().ManagedBy("kueue.x-k8s.io/multikueue").Obj()), "is managed by kueue.x-k8s.io/multikueue", ""},
		"is managed by its own": {policy.FactsOfJob(job().ManagedBy(wellknown.JobController).Obj()), "", "1h namespace/ci"},
		"managedBy is empty":    {policy.FactsOfJob(job().ManagedBy("").Obj()), "", "1h namespace/ci"},
		"a MultiKueue copy":     {policy.FactsOfJob(job().Label(wellknown.LabelMultiKueueOrigin, "east").Obj()), "is managed by MultiKueue", ""},
		"a Pod":                 {policy.FactsOfPod(pod().Obj()), "", "1h namespace/ci"},
		"a Pod Always":          {policy.FactsOfPod(pod().RestartPolicy(corev1.RestartPolicyAlways).Obj()), "has restartPolicy Always", ""},
		"a Pod that is silent":  {policy.FactsOfPod(pod().RestartPolicy("").Obj()), "has restartPolicy Always", ""},
		"a ReplicaSet's Pod":    {policy.FactsOfPod(pod().ControlledBy("apps/v1", "ReplicaSet", "web").Obj()), "is owned by ReplicaSet web", ""},
		"a CronJob's Pod":       {policy.FactsOfPod(pod().ControlledBy("batch/v1", "CronJob", "x").Obj()), "is owned by CronJob x", ""},
		"a Job's Pod":           {policy.FactsOfPod(pod().ControlledBy("batch/v1", "Job", "build").Obj()), "", ""},
		"a Volcano Job's Pod":   {policy.FactsOfPod(pod().ControlledBy("batch.volcano.sh/v1alpha1", "Job", "build").Obj()), "is owned by Job build", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resolution.NoDefault(test.facts, &resolution.Scope{}); got != test.why {
				t.Errorf("NoDefault = %q, want %q", got, test.why)
			}
			effective := resolution.Resolve(test.facts, scope)
			if got := valueText(effective.Succeeded); got != test.want {
				t.Errorf("TTL %q, want %q", got, test.want)
			}
			creating := *scope
			creating.Creating = true
			effective = resolution.Resolve(test.facts, &creating)
			if got := resolution.Defaults(test.facts, &effective, &creating); (len(got) > 0) != (test.want != "") {
				t.Errorf("filled in: %v", got)
			}
		})
	}
}

// A CronJob's Job stays a minute, so that its controller has seen it finish; neither a short
// default nor a short max-ttl changes that, and an unreadable value keeps.
func TestCronJobsJobStaysAMinute(t *testing.T) {
	for name, test := range map[string]struct {
		namespace []string
		want      string
	}{
		"short":              {[]string{"default-ttl", "5"}, "1m namespace/ci"},
		"a minute":           {[]string{"default-ttl", "60"}, "1m namespace/ci"},
		"never":              {[]string{"default-ttl", "never"}, "never namespace/ci"},
		"short maximum":      {[]string{"default-ttl", "1h", "max-ttl", "30"}, "1m namespace/ci"},
		"unreadable":         {[]string{"default-ttl", "?"}, "unusable namespace/ci"},
		"unreadable minimum": {[]string{"default-ttl", "5", "min-ttl", "?"}, "unusable namespace/ci"},
	} {
		t.Run(name, func(t *testing.T) {
			job := builders.MakeJob("ci", "a").ControlledBy("batch/v1", "CronJob", "nightly").Obj()
			got := resolution.Resolve(policy.FactsOfJob(job), &resolution.Scope{Namespace: namespaceOf(test.namespace...), Creating: true})
			if text := valueText(got.Succeeded); text != test.want {
				t.Errorf("got %q, want %q", text, test.want)
			}
		})
	}
	// The judge must not keep an object because a filled-in value is above the maximum.
	job := builders.MakeJob("ci", "a").ControlledBy("batch/v1", "CronJob", "nightly").TTL(60).Obj()
	if got := resolution.Resolve(policy.FactsOfJob(job), &resolution.Scope{Namespace: namespaceOf("max-ttl", "30")}); got.Succeeded.Err != nil {
		t.Errorf("60s on a CronJob's Job: %v", got.Succeeded.Err)
	}
}

// What admission missed gets a default only if it is younger than that; equal whole seconds count
// as older.
func TestYoungerAndOlderThanTheDefault(t *testing.T) {
	for name, test := range map[string]struct {
		created  time.Duration
		backfill string
		want     string
		flag     bool
	}{
		"younger":              {created: time.Second, want: "1h namespace/ci"},
		"younger, backfill":    {created: time.Second, backfill: "true", want: "1h namespace/ci"},
		"the same second":      {created: 0},
		"the same, backfill":   {created: 0, backfill: "true", want: "1h namespace/ci", flag: true},
		"older":                {created: -time.Second},
		"older, no backfill":   {created: -time.Second, backfill: "false"},
		"older, backfill":      {created: -time.Second, backfill: "true", want: "1h namespace/ci", flag: true},
		"older, unreadable":    {created: -time.Second, backfill: "yes"},
		"no creation time yet": {created: -1000000 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			pairs := []string{"default-ttl", "1h"}
			if test.backfill != "" {
				pairs = append(pairs, "backfill", test.backfill)
			}
			facts := policy.FactsOfJob(builders.MakeJob("ci", "a").Created(noon.Add(test.created)).Obj())
			scope := &resolution.Scope{Namespace: namespaceSince(noon, pairs...)}
			got := resolution.Resolve(facts, scope).Succeeded
			if valueText(got) != test.want || got.Backfill != test.flag {
				t.Errorf("got %q, backfill %t; want %q, %t", valueText(got), got.Backfill, test.want, test.flag)
			}
			platform := platform("a", "ttl-after-finished", "1h")
			platform.Since, platform.Backfill = noon, test.backfill == "true"
			fromPolicy := resolution.Resolve(facts, &resolution.Scope{Policies: []*resolution.PlatformPolicy{platform}}).Succeeded
			if fromPolicy.Set != got.Set || fromPolicy.Backfill != got.Backfill {
				t.Errorf("a policy's default: %+v, a namespace's: %+v", fromPolicy, got)
			}
		})
	}
	// A default without default-since reaches no object.
	facts := policy.FactsOfJob(builders.MakeJob("ci", "a").Created(noon).Obj())
	unstamped := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("default-ttl", "1h"), nil)}
	if got := resolution.Resolve(facts, unstamped).Succeeded; got.Set {
		t.Errorf("a default without default-since reaches %+v", got)
	}
	unstamped.Creating = true
	if got := resolution.Resolve(facts, unstamped).Succeeded; !got.Set {
		t.Error("a default without default-since does not reach an object on CREATE")
	}
}

// On a stamped object, taking the value away means that it has none; where max-ttl holds, that is
// reported. What a runtime said is only noted for people.
func TestStampedObject(t *testing.T) {
	job := func() *builders.JobWrapper { return builders.MakeJob("ci", "a").Created(noon) }
	for name, test := range map[string]struct {
		job      *builders.JobWrapper
		creating bool
		want     string
	}{
		"not stamped":               {job: job(), want: "30m namespace/ci"},
		"stamped":                   {job: job().TTL(7200).Annotation(wellknown.AnnotationTTLSource, "namespace/ci"), want: "2h namespace/ci"},
		"stamped by a policy":       {job: job().TTL(7200).Annotation(wellknown.AnnotationTTLSource, "policy/a"), want: "2h policy/a"},
		"stamped by somewhere else": {job: job().TTL(7200).Annotation(wellknown.AnnotationTTLSource, "namespace/other"), want: "unusable object"},
		"value taken away":          {job: job().Annotation(wellknown.AnnotationTTLSource, "namespace/ci"), want: "unusable object"},
		"a runtime spoke once":      {job: job().Annotation(wellknown.AnnotationTTLSource, "runtime/torch"), want: "30m namespace/ci"},
		"garbage beside a value":    {job: job().TTL(7200).Annotation(wellknown.AnnotationTTLSource, "?/?"), want: "unusable object"},
		"creating, with a stamp":    {job: job().Annotation(wellknown.AnnotationTTLSource, "policy/mine"), creating: true, want: "30m namespace/ci"},
		"creating, stamp and value": {job: job().TTL(7200).Annotation(wellknown.AnnotationTTLSource, "policy/mine"), creating: true, want: "unusable object"},
		"stamped, now unreadable":   {job: job().Annotation(wellknown.AnnotationTTL, "?").Annotation(wellknown.AnnotationTTLSource, "namespace/ci"), want: "unusable namespace/ci"},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &resolution.Scope{Namespace: namespaceOf("default-ttl", "1h", "max-ttl", "30m"), Creating: test.creating}
			got := resolution.Resolve(policy.FactsOfJob(test.job.Obj()), scope).Succeeded
			if valueText(got) != test.want {
				t.Errorf("got %q (%v), want %q", valueText(got), got.Err, test.want)
			}
		})
	}
}

// A later bound neither keeps nor shortens a default that was filled in. One below a min-ttl waits
// for that, because whoever got past admission may have forged the stamp; where that cannot be
// read, it is kept (S6).
func TestStampedObjectAndBounds(t *testing.T) {
	for name, test := range map[string]struct {
		stamp, bound, text, want string
	}{
		"below":      {"namespace/ci", "min-ttl", "3h", "3h namespace/ci"},
		"within":     {"namespace/ci", "min-ttl", "1h", "2h namespace/ci"},
		"above":      {"policy/a", "max-ttl", "1h", "2h policy/a"},
		"unreadable": {"policy/a", "min-ttl", "?", "unusable policy/a"},
		"own, below": {"object", "min-ttl", "3h", "unusable object"},
	} {
		t.Run(name, func(t *testing.T) {
			job := builders.MakeJob("ci", "a").Created(noon).TTL(7200).Annotation(wellknown.AnnotationTTLSource, test.stamp)
			got := resolution.Resolve(policy.FactsOfJob(job.Obj()), &resolution.Scope{Namespace: namespaceOf(test.bound, test.text)}).Failed
			if valueText(got) != test.want {
				t.Errorf("got %q (%v), want %q", valueText(got), got.Err, test.want)
			}
		})
	}
	taken := builders.MakeJob("ci", "a").Created(noon).Annotation(wellknown.AnnotationTTLSource, "namespace/ci")
	if got := resolution.Resolve(policy.FactsOfJob(taken.Obj()), &resolution.Scope{Namespace: namespaceOf("default-ttl", "1h")}).Failed; got.Set {
		t.Errorf("without a max-ttl a value that was taken away is none: %+v", got)
	}
}

func TestParseSource(t *testing.T) {
	for text, want := range map[string]string{
		"object": "object", "namespace/ci": "namespace/ci", "policy/a": "policy/a", "runtime/ns/a": "runtime/ns/a",
		"": "object", "root/a": "object", "namespace": "object", "object/x": "object", "/": "object",
	} {
		if got := lifetime.ParseSource(text).String(); got != want {
			t.Errorf("ParseSource(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	job := func() *builders.JobWrapper { return builders.MakeJob("ci", "a") }
	for name, test := range map[string]struct {
		job             *builders.JobWrapper
		namespace       []string
		annotationsOnly bool
		want            []string
	}{
		"native":   {job: job(), namespace: []string{"default-ttl", "1d"}, want: []string{"spec.ttlSecondsAfterFinished=86400", at("ttl-source") + "=namespace/ci"}},
		"no field": {job: job(), namespace: []string{"default-ttl", "1d"}, annotationsOnly: true, want: []string{at("ttl-after-finished") + "=1d", at("ttl-source") + "=namespace/ci"}},
		"never":    {job: job(), namespace: []string{"default-ttl", "never"}, want: []string{at("ttl-after-finished") + "=never", at("ttl-source") + "=namespace/ci"}},
		"by outcome": {job: job(), namespace: []string{"default-ttl", "1d", "default-ttl-failed", "7d"},
			want: []string{at("ttl-after-succeeded") + "=1d", at("ttl-after-failed") + "=7d", at("ttl-source") + "=namespace/ci"}},
		"one outcome":        {job: job(), namespace: []string{"default-ttl-failed", "7d"}, want: []string{at("ttl-after-failed") + "=7d", at("ttl-source") + "=namespace/ci"}},
		"the same, twice":    {job: job(), namespace: []string{"default-ttl-succeeded", "1d", "default-ttl-failed", "24h"}, want: []string{"spec.ttlSecondsAfterFinished=86400", at("ttl-source") + "=namespace/ci"}},
		"own value":          {job: job().TTL(5), namespace: []string{"default-ttl", "1d"}, want: []string{at("ttl-source") + "=object"}},
		"own, false stamp":   {job: job().TTL(5).Annotation(wellknown.AnnotationTTLSource, "policy/x"), want: []string{at("ttl-source") + "=object"}},
		"a stamp alone":      {job: job().Annotation(wellknown.AnnotationTTLSource, "policy/x"), want: []string{at("ttl-source") + "=<nil>"}},
		"dry-run does not":   {job: job(), namespace: []string{"default-ttl", "1d", "mode", "dry-run"}},
		"deadline":           {job: job(), namespace: []string{"default-deadline", "1h"}, want: []string{"spec.activeDeadlineSeconds=3600", at("deadline-source") + "=namespace/ci"}},
		"own deadline":       {job: job().Deadline(60).Annotation(wellknown.AnnotationDeadlineSource, "x"), namespace: []string{"default-deadline", "1h"}, want: []string{at("deadline-source") + "=<nil>"}},
		"deadline of no use": {job: job(), namespace: []string{"default-deadline", "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated(test.namespace...), nil), Creating: true, AnnotationsOnly: test.annotationsOnly}
			facts := policy.FactsOfJob(test.job.Obj())
			effective := resolution.Resolve(facts, scope)
			var got []string
			for _, assignment := range resolution.Defaults(facts, &effective, scope) {
				path := assignment.Path.String()
				if assignment.Path[0] == "metadata" {
					path = policy.AnnotationPath(assignment.Path[2])
				}
				got = append(got, fmt.Sprintf("%s=%v", path, assignment.Value))
			}
			equal(t, got, test.want)
		})
	}
}
