package policy_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// What MultiKueue copied to this cluster took TTL, label and stamps of the manager's object along.
// No trigger applies to it, since the manager would dispatch it again (S5). Where Kueue is surely not
// installed the label changes nothing. What another controller manages keeps its explicit TTL, as it
// does in-tree.
func TestMultiKueueCopiesAreKept(t *testing.T) {
	hourAgo := noon.Add(-time.Hour)
	job := func() *builders.JobWrapper {
		return builders.MakeJob("ci", "a").Created(hourAgo.Add(-time.Hour)).Complete(hourAgo)
	}
	for name, c := range map[string]struct {
		job   *builders.JobWrapper
		scope resolution.Scope
	}{
		"native TTL":      {job: job().TTL(60)},
		"TTL annotation":  {job: job().Annotation(wellknown.AnnotationTTL, "60")},
		"stamped default": {job: job().TTL(60).Annotation(wellknown.AnnotationTTLSource, "namespace/ci")},
		"live default":    {job: job(), scope: resolution.Scope{Namespace: namespaceSince(hourAgo, "default-ttl", "60", "backfill", "true")}},
		"no finish time":  {job: builders.MakeJob("ci", "a").Created(hourAgo).Complete(time.Time{}).TTL(0)},
		"TTL label":       {job: job().Label(wellknown.LabelTTL, "1m")},
		"date label":      {job: job().Label(wellknown.LabelTTL, "2020-01-01")},
		"deadline":        {job: builders.MakeJob("ci", "a").Created(hourAgo).Started(hourAgo).Deadline(60)},
	} {
		facts := policy.FactsOfJob(c.job.Label(wellknown.LabelMultiKueueOrigin, "hub").Obj())
		effective := resolution.Resolve(facts, &c.scope)
		for trigger, got := range map[string]policy.Verdict{
			"ttl":      judging.Judge(facts, &effective, noon),
			"label":    judging.JudgeLabel(facts, wellknown.LabelTTL, &c.scope, noon),
			"deadline": judging.JudgeDeadline(facts, &effective, 0, noon),
		} {
			if got.Action != policy.Keep || !strings.Contains(got.Reason, "copy made by MultiKueue") || got.Err != nil {
				t.Errorf("%s, %s: %s %q (%v)", name, trigger, got.Action, got.Reason, got.Err)
			}
		}
		creating := c.scope
		creating.Creating = true
		given, _ := resolution.FillIn(facts, &creating, noon)
		for _, assignment := range given {
			if assignment.Path[len(assignment.Path)-1] != wellknown.AnnotationTTLSource {
				t.Errorf("%s: admission filled in %+v", name, assignment)
			}
		}
		explanation := judging.Explain(facts, &c.scope, judging.Question{Now: noon})
		if got := explanation.Obstacles(judging.Surroundings{}); len(got) == 0 || got[0].Kind != judging.ObstacleProtection || !got[0].Stops {
			t.Errorf("%s: explain says %+v", name, got)
		}
		c.scope.NoMultiKueue = true
		free, plain := judging.Explain(facts, &c.scope, judging.Question{Now: noon}), *facts
		plain.Labels = maps.Clone(facts.Labels)
		delete(plain.Labels, wellknown.LabelMultiKueueOrigin)
		want := judging.Explain(&plain, &c.scope, judging.Question{Now: noon})
		creating.NoMultiKueue = true
		given, _ = resolution.FillIn(facts, &creating, noon)
		wanted, _ := resolution.FillIn(&plain, &creating, noon)
		for _, same := range [][2]any{
			{free.ByTTL, want.ByTTL}, {free.ByLabel, want.ByLabel}, {free.ByDeadline, want.ByDeadline}, {given, wanted},
			{free.Obstacles(judging.Surroundings{}), want.Obstacles(judging.Surroundings{})},
		} {
			if !reflect.DeepEqual(same[0], same[1]) {
				t.Errorf("%s, without Kueue: %+v, want %+v", name, same[0], same[1])
			}
		}
	}
	for kind, copied := range map[schema.GroupKind]bool{
		{Group: "kueue.x-k8s.io", Kind: "Workload"}: true, {Group: "jobset.x-k8s.io", Kind: "JobSet"}: true, {Kind: "Pod"}: true,
		{Group: "apps", Kind: "StatefulSet"}: true, {Kind: "ConfigMap"}: false, {Kind: "Namespace"}: false, {Group: "batch", Kind: "CronJob"}: false,
		{Group: "networking.k8s.io", Kind: "Ingress"}: false, {Kind: "PersistentVolumeClaim"}: false,
	} {
		facts := &policy.Facts{Profile: &policy.Profile{Kind: kind.WithVersion("v1")}, Labels: map[string]string{wellknown.LabelMultiKueueOrigin: "hub"}}
		if facts.MultiKueueCopy() != copied {
			t.Errorf("%s: a copy %v, want %v", kind, !copied, copied)
		}
	}
	managed := policy.FactsOfJob(job().TTL(60).ManagedBy("kueue.x-k8s.io/multikueue").Obj())
	effective := resolution.Resolve(managed, &resolution.Scope{})
	if got := judging.Judge(managed, &effective, noon); got.Action != policy.Delete {
		t.Errorf("an explicit TTL on what another controller manages: %s %q", got.Action, got.Reason)
	}
	// The mark of a deadline is not looked after either: what runs below a copy is the business of
	// its own cluster's controllers.
	failed := &policy.Facts{
		Profile: &policy.Profile{Kind: schema.GroupVersionKind{Group: "example.com", Kind: "Run"}}, Labels: map[string]string{wellknown.LabelMultiKueueOrigin: ""},
		Exceeded: hourAgo, State: policy.State{Finished: true, Outcome: lifetime.Failed},
	}
	if got := judging.JudgeDeadline(failed, &resolution.Effective{}, 0, noon); got.Action != policy.Keep {
		t.Errorf("a failed copy: %s", got.Action)
	}
}
