package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// Tests of requests that try to get around admission, or to exhaust it (S9). Each sends what the
// API server itself accepts, breaks a rule with it, and demands that the rule acts and that the
// answer comes in time. Larger ones are in hostile_heavy_test.go.

// tooLong is above the bound of the spaces of these tests.
const tooLong = 10 * 24 * time.Hour

func bounded(t *testing.T) *space {
	t.Helper()
	return newSpace(t, wellknown.AnnotationMaxTTL, "7d")
}

// longDurations are values that are easy to parse slowly. None is a duration: that is at most 63
// characters long.
func longDurations(size int) map[string]string {
	return map[string]string{
		"many parts":     strings.Repeat("1s", size/2),
		"many digits":    strings.Repeat("9", size),
		"many zeroes":    strings.Repeat("0", size-1) + "1",
		"long fraction":  "1." + strings.Repeat("0", size) + "h",
		"many spaces":    strings.Repeat(" ", size) + "1h",
		"many units":     strings.Repeat("d", size),
		"many signs":     strings.Repeat("-", size) + "1h",
		"wide letters":   strings.Repeat("１", size/3),
		"many fractions": strings.Repeat("1.5h", size/4),
	}
}

// A duration of many kilobytes is refused wherever it can be written, and nothing beside it passes
// because of it.
func TestHostileDurations(t *testing.T) {
	s := bounded(t)
	for what, value := range longDurations(60_000) {
		s.refusesHostile(what, s.creation(s.jobsPath(), job("long", native(tooLong), annotated(wellknown.AnnotationTTLFailed, value))), wellknown.AnnotationTTLFailed)
	}
	value := strings.Repeat("1s", 60_000)
	for _, key := range []string{wellknown.AnnotationTTL, wellknown.AnnotationTTLSucceeded} {
		s.refusesHostile(key, s.creation(s.jobsPath(), job("long", native(tooLong), annotated(key, value))), key)
	}
	s.refusesHostile("a deadline", s.creation(s.jobsPath(), job("long", native(tooLong), annotated(wellknown.AnnotationActiveDeadline, value))), "spec.ttlSecondsAfterFinished")
	s.refusesHostile("a Pod", s.creation(s.podsPath(), pod("long", corev1.RestartPolicyNever, wellknown.AnnotationTTL, value)), wellknown.AnnotationTTL)
	s.refusesHostile("a template", s.creation(s.jobsPath(), job("long", inTemplate(wellknown.AnnotationTTL, value))), wellknown.AnnotationTTL)
	for _, key := range []string{
		wellknown.AnnotationDefaultTTL, wellknown.AnnotationDefaultTTLSucceeded, wellknown.AnnotationDefaultTTLFailed, wellknown.AnnotationDefaultPodTTL, wellknown.AnnotationDefaultDeadline,
		wellknown.AnnotationMinTTL, wellknown.AnnotationMaxTTL, wellknown.AnnotationMinDeadline, wellknown.AnnotationMaxDeadline, wellknown.AnnotationMode, wellknown.AnnotationBackfill,
	} {
		s.refusesHostile("a Namespace's "+key, s.creation("/api/v1/namespaces", namespace("hostile", key, value)), key)
		s.refusesHostile("a change of "+key, merge(s.ownPath(), fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)), key)
	}
	// What its author wrote of Curfew's own is nothing that is worth reading.
	long := namespace(s.name+"-since", wellknown.AnnotationMaxTTL, "7d", wellknown.AnnotationDefaultTTL, "1d", wellknown.AnnotationDefaultSince, value)
	if got := s.send(s.creation("/api/v1/namespaces", long)); got.code != http.StatusCreated {
		t.Errorf("a Namespace with a long default-since: %s", got)
	}
	s.answersOthers()
}

// answersOthers shows that what comes next is reviewed as ever.
func (s *space) answersOthers() {
	s.Helper()
	s.refusesHostile("a Job with too long a TTL", s.creation(s.jobsPath(), job("harmless", native(tooLong))), "spec.ttlSecondsAfterFinished")
	if got := s.send(s.creation(s.jobsPath()+"?dryRun=All", job("harmless", native(time.Hour)))); got.code != http.StatusCreated {
		s.Errorf("a harmless Job: %s", got)
	}
}

// The number of keys decides nothing: neither whether a request is sent to Curfew nor how long that
// takes.
func TestHostileKeys(t *testing.T) {
	s := bounded(t)
	const ttl = "spec.ttlSecondsAfterFinished"
	crowded := func(j *batchv1.Job) { j.Annotations = crowd(j.Annotations, many) }
	s.refusesHostile("a Job with 40,000 annotations", s.creation(s.jobsPath(), job("crowded", native(tooLong), crowded)), ttl)
	if got := s.send(s.creation(s.jobsPath(), job("crowded", native(time.Hour), byTest, crowded))); got.code != http.StatusCreated {
		t.Fatalf("create a crowded Job: %s", got)
	}
	s.refusesHostile("a change of it", merge(s.jobsPath()+"/crowded", fmt.Sprintf(`{"spec":{"ttlSecondsAfterFinished":%d}}`, int(tooLong.Seconds()))), ttl)
	s.refusesHostile("a label on it", merge(s.jobsPath()+"/crowded", `{"metadata":{"labels":{"curfew.dev/ttl":"30d"}}}`), wellknown.LabelTTL)

	// Where the namespace does not use Curfew, only match conditions know which objects concern it.
	plain := newSpace(t)
	plain.refusesHostile("a bad TTL among 40,000 annotations", plain.creation(plain.jobsPath(), job("crowded", annotated(wellknown.AnnotationTTL, "soon"), crowded)), wellknown.AnnotationTTL)
	if got := plain.send(plain.creation(plain.jobsPath(), job("crowded", byTest, crowded))); got.code != http.StatusCreated {
		t.Fatalf("create a crowded Job: %s", got)
	}
	plain.refusesHostile("a bad TTL added to them", merge(plain.jobsPath()+"/crowded", `{"metadata":{"annotations":{"curfew.dev/ttl-after-finished":"soon"}}}`), wellknown.AnnotationTTL)

	annotations := crowd(map[string]string{wellknown.AnnotationMaxTTL: "soon"}, many)
	crowdedNamespace := namespace("crowded")
	crowdedNamespace.Annotations = annotations
	s.refusesHostile("a Namespace with 40,000 annotations", s.creation("/api/v1/namespaces", crowdedNamespace), wellknown.AnnotationMaxTTL)
	s.answersOthers()
}

// deep is a custom kind that has whatever its author likes, and a profile.
const deep = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wells.hostile.e2e.example.com}
spec:
  group: hostile.e2e.example.com
  scope: Namespaced
  names: {kind: Well, listKind: WellList, plural: wells, singular: well}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: curfew.dev/v1alpha1
kind: KindProfile
metadata: {name: wells.hostile.e2e.example.com}
spec:
  kind: {group: hostile.e2e.example.com, version: v1, kind: Well, resource: wells}
  state:
    finished: object.?status.?done.orValue(false)
    finishTime: object.?status.?doneAt
    outcome: '"Succeeded"'
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: e2e-wells.hostile.e2e.example.com
  labels: {curfew.dev/aggregate-to-controller: "true"}
rules: [{apiGroups: [hostile.e2e.example.com], resources: [wells], verbs: [get, list, watch, delete]}]
`

// An object as deep as the API server accepts is reviewed, and so is one with many members that no
// schema knows.
func TestHostileDepthAndMembers(t *testing.T) {
	s := bounded(t)
	s.apply(deep)
	suite.revoked.Store("hostile.e2e.example.com", true)
	t.Cleanup(func() {
		s.afterwards("delete", "--ignore-not-found", "kindprofile/wells.hostile.e2e.example.com", "clusterrole/e2e-wells.hostile.e2e.example.com")
	})
	t.Cleanup(func() { s.undefine("wells.hostile.e2e.example.com") }) // first, or Curfew watches what it may not list any more
	path := "/apis/hostile.e2e.example.com/v1/namespaces/" + s.name + "/wells"
	well := func(name, ttl, rest string) hostile {
		return hostile{method: http.MethodPost, path: path, body: []byte(`{"apiVersion":"hostile.e2e.example.com/v1","kind":"Well","metadata":{"name":"` + name +
			`","annotations":{"curfew.dev/ttl-after-finished":"` + ttl + `"}},"spec":` + rest + `}`)}
	}
	probe := well("probe", "30d", `{}`)
	probe.path += "?dryRun=All"
	s.poll("the rule of the kind to act", func(ctx context.Context) (bool, error) { return s.send(probe).refused(), nil })
	for what, rest := range map[string]string{"9,900 deep": nested(9_900), "9,990 deep": nested(9_990), "many members": members(many)} {
		s.refusesHostile(what, well("hostile", "30d", rest), wellknown.AnnotationTTL)
	}
	for what, rest := range map[string]string{"deep": nested(9_900), "wide": members(many)} {
		if got := s.send(well(what, "1h", rest)); got.code != http.StatusCreated {
			t.Errorf("create %s: %s", what, got)
			continue
		}
		s.refusesHostile("a change of "+what, merge(path+"/"+what, `{"metadata":{"annotations":{"curfew.dev/ttl-after-finished":"30d"}}}`), wellknown.AnnotationTTL)
		s.refusesHostile("a label on "+what, merge(path+"/"+what, `{"metadata":{"labels":{"curfew.dev/ttl":"30d"}}}`), wellknown.LabelTTL)
	}
	s.answersOthers()
}
