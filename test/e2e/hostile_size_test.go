package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// filled puts so many characters into a Job. The API server sends each to a webhook as six bytes.
func filled(size int) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Args = []string{strings.Repeat("<", size)} }
}

// A large object is reviewed as any other, on CREATE and on UPDATE, where the webhook gets it
// twice.
func TestHostileSize(t *testing.T) {
	s := bounded(t)
	const ttl = "spec.ttlSecondsAfterFinished"
	s.refusesHostile("a Job of 1.2 MB", s.creation(s.jobsPath(), job("large", native(tooLong), filled(1_200_000))), ttl)
	s.refusesHostile("a larger one", s.creation(s.jobsPath(), job("large", native(time.Hour), filled(1_240_000))), "more than 7340031 bytes")
	created := s.send(s.creation(s.jobsPath(), job("large", native(time.Hour), filled(590_000), byTest)))
	if created.code != http.StatusCreated {
		t.Fatalf("create a large Job: %s", created)
	}
	s.refusesHostile("a change of a Job of 0.6 MB", merge(s.jobsPath()+"/large", fmt.Sprintf(`{"spec":{"ttlSecondsAfterFinished":%d}}`, int(tooLong.Seconds()))), ttl)
	s.refusesHostile("a label on it", merge(s.jobsPath()+"/large", `{"metadata":{"labels":{"curfew.dev/ttl":"30d"}}}`), wellknown.LabelTTL)
	s.answersOthers()
}
