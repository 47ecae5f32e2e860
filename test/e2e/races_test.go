package e2e

import (
	"net/http"
	"sync/atomic"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// S1: the TTL is raised while the DELETE is under way. Whoever deletes by name or by UID alone
// deletes it now.
func TestTTLRaisedAMomentBeforeExpiry(t *testing.T) {
	parallel(t)
	for name, raise := range map[string]string{
		"annotation": `{"metadata":{"annotations":{"` + wellknown.AnnotationTTL + `":"1h"}}}`,
		"field":      `{"spec":{"ttlSecondsAfterFinished":3600}}`,
		"protect":    `{"metadata":{"annotations":{"` + wellknown.AnnotationProtect + `":"true"}}}`,
	} {
		way := ttl
		if name == "field" {
			if suite.inTreeTTL {
				continue // the in-tree controller loses this very race
			}
			way = native
		}
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s := newSpace(t)
			finish := now()
			defer suite.proxy.BeforeDelete(s.name, "raised", func() { s.okInHook(s.tryPatchJob("raised", raise)) })()
			raised := s.finishJob("raised", finish, way(3*second))
			s.outlast(finish.Add(3 * second))
			s.stillThere(raised)
			s.onlyConflicts("raised")
		})
	}
}

// onlyConflicts: each DELETE of an object met a conflict, and there was one. There may be a second:
// a list that began before the object changed tells of its old state, whose resourceVersion no
// longer fits.
func (s *space) onlyConflicts(name string) {
	s.Helper()
	sent := suite.proxy.AwaitDeletes(s.ctx, s.name, name, max(1, len(suite.proxy.Deletes(s.name, name))))
	if len(sent) == 0 {
		s.Errorf("no DELETE of %s was sent", name)
	}
	for _, request := range sent {
		if request.Status != http.StatusConflict {
			s.Errorf("a DELETE of %s was answered %d, want a conflict: %+v", name, request.Status, request)
		}
	}
}

// The same for a Pod.
func TestTTLOfAPodRaisedAMomentBeforeExpiry(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	defer suite.proxy.BeforeDelete(s.name, "raised", func() {
		s.okInHook(s.tryPatchPod("raised", `{"metadata":{"annotations":{"`+wellknown.AnnotationTTL+`":"1h"}}}`))
	})()
	raised := s.newPod(pod("raised", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "3s"))
	s.outlast(s.awaitPodFinish(raised).Add(3 * second))
	s.stillThere(raised)
	s.onlyConflicts("raised")
}

// An unrelated change meets a conflict as well, and delays nothing: judged again, it is as due as
// before.
func TestUnrelatedChangeAMomentBeforeExpiry(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	finish := now()
	defer suite.proxy.BeforeDelete(s.name, "touched", func() {
		s.okInHook(s.tryPatchJob("touched", `{"metadata":{"labels":{"team":"blue"}}}`))
	})()
	touched := s.finishJob("touched", finish, ttl(2*second))
	s.notEarly(s.awaitDeletion(touched), finish.Add(2*second))
}

// S2: the object goes, and another comes in its name, while the DELETE is under way. The new one
// has finished too, so that nothing but its identity keeps it.
func TestRecreatedUnderTheSameName(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	finish := now()
	var successor atomic.Pointer[batchv1.Job]
	defer suite.proxy.BeforeDelete(s.name, "twin", func() {
		s.okInHook(s.tryDeleteJob("twin"))
		job, err := s.tryFinishJob("twin", finish, ttl(hour))
		s.okInHook(err)
		successor.Store(job)
	})()
	first := s.finishJob("twin", finish, ttl(2*second))
	s.awaitGone(first)
	s.outlast(finish.Add(2 * second))
	twin := successor.Load()
	if twin == nil {
		t.Fatal("no DELETE was sent")
	}
	s.stillThere(twin)
	if twin.UID == first.UID {
		t.Fatal("it is the same object")
	}
	if sent := suite.proxy.Deletes(s.name, "twin"); sent[0].Status != http.StatusConflict {
		t.Errorf("the DELETE of the first was answered %d, want a conflict", sent[0].Status)
	}
}

// Nothing is dropped that the API server refuses for a while, whatever it says.
func TestRefusedDeletionsAreRetried(t *testing.T) {
	parallel(t)
	for name, code := range map[string]int{
		"429": http.StatusTooManyRequests, "500": http.StatusInternalServerError, "503": http.StatusServiceUnavailable,
		"404": http.StatusNotFound, "409": http.StatusConflict,
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s := newSpace(t)
			header := http.Header{}
			if code == http.StatusTooManyRequests {
				header.Set("Retry-After", "1")
			}
			defer suite.proxy.Refuse(s.name, "stubborn", code, 2, header)()
			s.awaitGone(s.finishJob("stubborn", now(), ttl(second)))
		})
	}
}

// The connection breaks under a DELETE: before the API server has seen it, or after it has carried
// it out.
func TestConnectionBreaksUnderDelete(t *testing.T) {
	parallel(t)
	for name, accepted := range map[string]bool{"request lost": false, "answer lost": true} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s := newSpace(t)
			defer suite.proxy.BeforeDelete(s.name, "lost", func() {
				if accepted {
					s.okInHook(s.tryDeleteJob("lost"))
				}
				panic(http.ErrAbortHandler)
			})()
			s.awaitGone(s.finishJob("lost", now(), ttl(second)))
		})
	}
}
