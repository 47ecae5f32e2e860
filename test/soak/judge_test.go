package main

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

// finished is a Job that finished at the epoch and has a TTL of ten seconds.
func finished(change ...func(*state)) *state {
	s := &state{
		revision: 10, seen: at(0), kind: jobs, namespace: "soak-plain-0", name: "one", uid: "uid-1", created: at(-3600),
		annotations: map[string]string{prefix + "ttl-after-finished": "10"}, finished: true, finish: at(0),
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func without(s *state) { s.annotations = nil }

func TestModel(t *testing.T) {
	annotated := func(pairs ...string) func(*state) {
		return func(s *state) {
			s.annotations = map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				s.annotations[prefix+pairs[i]] = pairs[i+1]
			}
		}
	}
	native := func(s *state) { seconds := int64(20); s.nativeTTL = &seconds }
	failed := func(s *state) { s.failed = true }
	namespace := &surroundings{annotations: map[string]string{
		prefix + "default-ttl": "30", prefix + "default-pod-ttl": "40", prefix + "default-since": at(-7200).Format(time.RFC3339) + "/abc",
	}}
	young := &surroundings{annotations: map[string]string{prefix + "default-ttl": "30", prefix + "default-since": at(-3600).Format(time.RFC3339) + "/abc"}}
	policy := &rule{label: "soak=platform", ttl: time.Minute, since: at(-7200)}
	platform := &surroundings{labels: map[string]string{"soak": "platform"}}
	dryRun := &surroundings{annotations: map[string]string{prefix + "mode": "dry-run"}}
	custom := func(outcome string) *state {
		fifty, sixty := int64(50), int64(60)
		object := &batch{}
		object.Spec.TTLSeconds, object.Spec.KeepSeconds = &fifty, &sixty
		object.Status.Outcome, object.Status.FinishedAt, object.Status.VerifiedAt = outcome, &metav1.Time{Time: at(0)}, &metav1.Time{Time: at(5)}
		return finished(without, func(s *state) { s.kind, s.finished, s.finish, s.custom = batches, false, time.Time{}, object })
	}
	for name, test := range map[string]struct {
		state   *state
		around  *surroundings
		rule    *rule
		profile *correction
		after   float64 // expiry, seconds from the finish; negative: none
	}{
		"annotation":                     {state: finished(), after: 10},
		"a day and a half":               {state: finished(annotated("ttl-after-finished", "1d12h")), after: 129600},
		"never":                          {state: finished(annotated("ttl-after-finished", "never")), after: -1},
		"unreadable":                     {state: finished(annotated("ttl-after-finished", "soon")), after: -1},
		"unfinished":                     {state: finished(func(s *state) { s.finished = false }), after: -1},
		"protected":                      {state: finished(annotated("ttl-after-finished", "10", "protect", "yes")), after: -1},
		"field":                          {state: finished(without, native), after: 20},
		"outcome before both":            {state: finished(annotated("ttl-after-finished", "10", "ttl-after-failed", "15"), failed), after: 15},
		"other outcome":                  {state: finished(annotated("ttl-after-failed", "15")), after: -1},
		"nothing":                        {state: finished(without), after: -1},
		"namespace":                      {state: finished(without), around: namespace, after: 30},
		"namespace, Pod":                 {state: finished(without, func(s *state) { s.kind = pods }), around: namespace, after: 40},
		"namespace, Pod of a Job":        {state: finished(without, func(s *state) { s.kind, s.jobPod = pods, true }), around: young, after: -1},
		"uncounted Pod":                  {state: finished(func(s *state) { s.finalizers = []string{"batch.kubernetes.io/job-tracking"} }), after: -1},
		"older than the default":         {state: finished(without), around: young, after: -1},
		"object before namespace":        {state: finished(), around: namespace, after: 10},
		"default taken away":             {state: finished(annotated("ttl-source", "namespace/x")), around: namespace, after: -1},
		"policy":                         {state: finished(without), around: platform, rule: policy, after: 60},
		"policy that does not match":     {state: finished(without), around: &surroundings{}, rule: policy, after: -1},
		"finished at an unknown time":    {state: finished(func(s *state) { s.finish = time.Time{} }), after: -1},
		"namespace before policy":        {state: finished(without), around: &surroundings{labels: platform.labels, annotations: namespace.annotations}, rule: policy, after: 30},
		"dry-run":                        {state: finished(), around: dryRun, after: -1},
		"finished before it existed":     {state: finished(func(s *state) { s.created = at(100) }), after: 110},
		"custom":                         {state: custom("Failed"), after: 50},
		"custom, other fields":           {state: custom("Failed"), profile: &correction{meaning: meanings[1]}, after: 65},
		"custom, may go on":              {state: custom("Failed"), profile: &correction{meaning: meanings[2]}, after: -1},
		"custom, does not go on":         {state: custom("Succeeded"), profile: &correction{meaning: meanings[2]}, after: 50},
		"policy that does not yet apply": {state: finished(without), around: platform, rule: &rule{label: "soak=platform", ttl: time.Minute}, after: -1},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(test.state, circumstances{test.around, test.rule, test.profile})
			switch {
			case test.after < 0 && got.never == "":
				t.Errorf("due after %s, want never", got.at.Sub(epoch))
			case test.after >= 0 && (got.never != "" || !got.at.Equal(at(test.after))):
				t.Errorf("got %+v, want due after %vs", got, test.after)
			}
		})
	}
}

// scene is a ledger with one object, and heartbeats every 100ms around revision numbers of a
// hundredth of a second.
type scene struct {
	ledger    *ledger
	beats     *heartbeats
	told      *announcements
	disrupted []disruption
	received  time.Time // the DELETE; zero: the audit log does not say
	end       time.Time
}

func newScene(s *state) *scene {
	l := newLedger(nsPrefix)
	l.lives[s.uid] = &life{last: s}
	return &scene{ledger: l, beats: &heartbeats{}, told: newAnnouncements(), end: at(60)}
}

// deleted puts a deletion at an instant that the ledger saw so much later, with a heartbeat just
// before and one just after it.
func (c *scene) deleted(when, seen time.Time) *scene {
	one := c.ledger.lives["uid-1"]
	c.received = when
	one.gone, one.deletion = true, &deletion{of: one.last, revision: 100, seen: seen}
	c.beats.beats = []beat{
		{revision: 99, sent: when.Add(-20 * time.Millisecond), confirmed: when.Add(-10 * time.Millisecond)},
		{revision: 101, sent: when.Add(10 * time.Millisecond), confirmed: when.Add(20 * time.Millisecond)},
	}
	return c
}

func (c *scene) judged() *verdicts {
	by := &evidence{beats: c.beats, told: c.told, disrupted: c.disrupted, end: c.end, received: map[string]time.Time{}, troubled: func(string) bool { return false }}
	if !c.received.IsZero() {
		by.received["uid-1"] = c.received
	}
	return sentence(c.ledger, by)
}

func TestSentence(t *testing.T) {
	live := func(said ...*surroundings) *scene {
		c := newScene(finished(without))
		c.ledger.namespaces["soak-plain-0"] = said
		return c
	}
	says := func(ttl string, seen time.Time) *surroundings {
		return &surroundings{seen: seen, annotations: map[string]string{prefix + "default-ttl": ttl, prefix + "default-since": at(-7200).Format(time.RFC3339) + "/abc"}}
	}
	inDryRun := func(since, received float64) *scene {
		c := newScene(finished()).deleted(at(20), at(20.1))
		c.received = at(received)
		c.ledger.namespaces["soak-plain-0"] = []*surroundings{{seen: at(-100)}, {seen: at(since), annotations: map[string]string{prefix + "mode": "dry-run"}}}
		return c
	}
	raised := func() *scene { return live(says("10", at(-100)), says("3600", at(5))) }
	for name, test := range map[string]struct {
		scene *scene
		want  string // a word of the one complaint; empty: all is well
	}{
		"on time":                     {newScene(finished()).deleted(at(10.1), at(10.2)), ""},
		"early":                       {newScene(finished()).deleted(at(9.9), at(9.95)), "before its expiry"},
		"early, and seen late":        {newScene(finished()).deleted(at(9), at(20)), "before its expiry"},
		"protected":                   {newScene(finished(func(s *state) { s.annotations[prefix+"protect"] = "true" })).deleted(at(10.1), at(10.2)), "is protected"},
		"forgotten":                   {newScene(finished()), "still there"},
		"kept":                        {newScene(finished(without)), ""},
		"finish never written":        {newScene(finished(func(s *state) { s.finish = time.Time{} })), "its finish time was never written"},
		"live, on time":               {live(says("10", at(-100))).deleted(at(10.1), at(10.2)), ""},
		"live, raised long ago":       {raised().deleted(at(10.1), at(10.2)), "before its expiry"},
		"live, raised that very time": {raised().deleted(at(11), at(11.1)).changing(func(c *scene) { c.ledger.namespaces["soak-plain-0"][1].seen = at(10.5) }), ""},
		"live, stalled since": {raised().deleted(at(11), at(11.1)).changing(func(c *scene) {
			c.disrupted = []disruption{{"stall", at(4), at(10.5)}}
		}), ""},
		"dry-run":                     {inDryRun(17, 19.9), "is in dry-run"},
		"dry-run of that very time":   {inDryRun(19, 19.9), ""},
		"dry-run since it was sent":   {inDryRun(17, 16.9), ""},
		"protected, sent before that": {newScene(finished(func(s *state) { s.annotations[prefix+"protect"] = "true" })).deleted(at(10.1), at(10.2)).changing(func(c *scene) { c.received = at(5) }), "is protected"},
		"deleted by another client":   {newScene(finished(without)).deleted(at(5), at(5.1)).changing(func(c *scene) { c.told.deletes["uid-1"] = at(4) }), ""},
		"said afterwards":             {newScene(finished(without)).deleted(at(5), at(5.1)).changing(func(c *scene) { c.told.deletes["uid-1"] = at(6) }), "has no TTL"},
		"finalizer taken":             {newScene(finished(without)).changing(func(c *scene) { c.ledger.lost = []lostFinalizer{{"uid-1", "x", "hold"}} }), "lost finalizer"},
	} {
		t.Run(name, func(t *testing.T) {
			v := test.scene.judged()
			var complaints []string
			for _, list := range [][]string{v.early, v.wrong, v.forgotten} {
				complaints = append(complaints, list...)
			}
			switch {
			case test.want == "" && len(complaints) > 0:
				t.Errorf("complains: %v", complaints)
			case test.want != "" && (len(complaints) != 1 || !strings.Contains(complaints[0], test.want)):
				t.Errorf("complains: %q, want one with %q", complaints, test.want)
			}
		})
	}
}

func (c *scene) changing(f func(*scene)) *scene {
	f(c)
	return c
}

func TestAuditCheck(t *testing.T) {
	c := newScene(finished()).deleted(at(10.1), at(10.2))
	for name, test := range map[string]struct {
		accepted accepted
		want     string
	}{
		"as it has to be":    {accepted{"jobs", "x", "uid-1", "10", at(9)}, ""},
		"no resourceVersion": {accepted{"jobs", "x", "uid-1", "", at(9)}, `resourceVersion ""`},
		"no UID":             {accepted{"jobs", "x", "", "10", at(9)}, `UID ""`},
		"another state":      {accepted{"jobs", "x", "uid-1", "9", at(9)}, "deleted was 10"},
		"another object":     {accepted{"jobs", "x", "uid-2", "10", at(9)}, "was not deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&audit{accepted: []accepted{test.accepted}}).check(c.ledger)
			if test.want == "" && len(got) > 0 || test.want != "" && (len(got) != 1 || !strings.Contains(got[0], test.want)) {
				t.Errorf("complains %q, want %q", got, test.want)
			}
		})
	}
}

// A soak without one of its ingredients would pass for the wrong reason.
func TestFleetHasSomeOfEach(t *testing.T) {
	ways, acts, oddities, silent, restored, of := map[way]int{}, map[act]int{}, map[string]int{}, 0, 0, map[string]int{}
	for _, o := range newFleet(newRandom(1, 1), 2000, 12*time.Second) {
		ways[o.way]++
		acts[o.act]++
		oddities[o.oddity]++
		of[o.kind]++
		if o.silent {
			silent++
		}
		if o.restored {
			restored++
		}
	}
	if want := int(kept) + 1; len(ways) != want {
		t.Errorf("ways %v, want all %d", ways, want)
	}
	if want := int(release) + 1; len(acts) != want {
		t.Errorf("acts %v, want all %d", acts, want)
	}
	if len(oddities) != 7 {
		t.Errorf("oddities %v, want all 7", oddities)
	}
	if len(of) != 3 {
		t.Errorf("kinds %v, want all 3", of)
	}
	if silent == 0 || restored == 0 {
		t.Errorf("%d silent and %d restored objects, want some of each", silent, restored)
	}
}
