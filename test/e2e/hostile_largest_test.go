package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"curfew.dev/curfew/policy/wellknown"
)

// The largest that the API server accepts, in each dimension.
func TestHostileLargest(t *testing.T) {
	heavy(t)
	s := bounded(t)
	const ttl = "spec.ttlSecondsAfterFinished"
	for _, count := range []int{80_000, 87_000} {
		s.refusesHostile(fmt.Sprint(count, " annotations"), s.creation(s.jobsPath(), job("crowded", native(tooLong), crowded(count))), ttl)
	}
	// More than these would not fit etcd. An update that brings more is reviewed before that is found
	// out.
	if got := s.send(s.creation(s.jobsPath(), job("crowded", native(time.Hour), byTest, crowded(40_000)))); got.code != http.StatusCreated {
		t.Fatalf("create a crowded Job: %s", got)
	}
	more, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": crowd(nil, 80_000)}, "spec": map[string]any{"ttlSecondsAfterFinished": int(tooLong.Seconds())}})
	s.ok(err)
	s.refusesHostile("a change to 80,000 annotations", merge(s.jobsPath()+"/crowded", string(more)), ttl)
	s.refusesHostile("a label on it", merge(s.jobsPath()+"/crowded", `{"metadata":{"labels":{"curfew.dev/ttl":"30d"}}}`), wellknown.LabelTTL)
	for what, value := range longDurations(240_000) {
		s.refusesHostile(what, s.creation(s.jobsPath(), job("long", annotated(wellknown.AnnotationTTLFailed, value))), wellknown.AnnotationTTLFailed)
	}
	for _, size := range []int{1_400_000, 2_000_000, 2_900_000} {
		s.refusesHostile(fmt.Sprint(size, " bytes"), s.creation(s.jobsPath(), job("large", native(tooLong), filled(size))), "more than 7340031 bytes")
	}
	s.answersOthers()
}

// Many large requests at once are all reviewed, or told to come back, and small ones are answered
// meanwhile.
func TestHostileFlood(t *testing.T) {
	heavy(t)
	s := bounded(t)
	large := s.creation(s.jobsPath(), job("large", native(tooLong), filled(1_200_000)))
	var flood sync.WaitGroup
	for range 16 {
		flood.Go(func() {
			for range 3 {
				if got := s.send(large); !got.refused() {
					t.Errorf("a large Job was not refused: %s", got)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { flood.Wait(); close(done) }()
	small := s.creation(s.jobsPath(), job("small", native(tooLong)))
	for count := 0; ; count++ {
		if got := s.send(small); !got.refused() {
			t.Errorf("a small Job meanwhile: %s", got)
		}
		select {
		case <-done:
			t.Logf("note: %d small requests were answered meanwhile", count+1)
			return
		default:
		}
	}
}
