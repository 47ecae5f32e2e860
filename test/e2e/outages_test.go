package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// The tests of this file stop processes that all share, so they do not run in parallel: Go finishes
// them before it lets the parallel ones go on.

// S8: with the webhook down, creation works, and nothing is lost: what slipped past admission is
// resolved live by the controller. What admission would have refused is kept and reported, never
// guessed at (S6).
func TestWebhookDown(t *testing.T) {
	for name, end := range map[string]func(*space){
		"stopped": func(s *space) { s.ok(suite.webhook.Stop(s.ctx)) },
		"killed":  func(s *space) { s.ok(suite.webhook.Kill()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpace(t, longStanding(wellknown.AnnotationDefaultTTL, "2s")...)
			end(s)
			defer func() { s.ok(startWebhook(s.ctx, suite.webhook.WebhookPort)) }()

			s.expectStderr(s.create(job("slipped")))
			slipped := s.getJob("slipped")
			if slipped.Spec.TTLSecondsAfterFinished != nil || len(slipped.Annotations) > 0 {
				t.Fatalf("the Job has a TTL or the annotations %v, want neither", slipped.Annotations)
			}
			s.expectStderr(s.create(job("unreadable", annotated(wellknown.AnnotationTTL, "soon"))))
			unreadable := s.getJob("unreadable")
			s.expectStderr(s.create(pod("always", corev1.RestartPolicyAlways, wellknown.AnnotationTTL, "1s")))
			s.expectStderr(s.create(job("stays", ttl(hour))))
			cluster := s.name + "-torch"
			s.expectStderr(s.create(s.runtime("ClusterTrainingRuntime", cluster, noted(wellknown.AnnotationTTL, "1h"))))
			defer s.afterwards("delete", "clustertrainingruntime", cluster)

			s.notEarly(s.awaitDeletion(slipped), s.awaitJobFinish(slipped).Add(2*second))
			finish := s.awaitJobFinish(unreadable)
			s.awaitLog(suite.controller.Log, s.name+"/unreadable", wellknown.AnnotationTTL, "soon")
			s.outlast(finish.Add(2 * second))
			s.stillThere(unreadable)
			s.stillThere(s.getPod("always"))
			s.stillThere(s.getJob("stays"))
			if events := s.kubectl("get", "events", "--field-selector", "involvedObject.name=unreadable").stdout; !strings.Contains(events, "soon") {
				t.Errorf("no Event tells of the unreadable value:\n%s", events)
			}
			// Which TrainJobs a runtime's TTL reaches, the controller stamps on it.
			s.poll("the stamp of the runtime", func(context.Context) (bool, error) {
				return s.metaOf("clustertrainingruntime", cluster).Annotations[wellknown.AnnotationDefaultSince] != "", nil
			})
		})
	}
}

// S3: the controller is killed the moment that its DELETE has left, and the API server never sees
// it.
func TestControllerKilledAtExpiry(t *testing.T) {
	s := newSpace(t)
	defer restartController(s)()
	killed := make(chan struct{})
	remove := suite.proxy.Handle(func(w http.ResponseWriter, r *http.Request) bool {
		_, namespace, _ := harness.Target(r.URL.Path)
		if r.Method != http.MethodDelete || namespace != s.name {
			return false
		}
		select {
		case <-killed:
			return false
		default:
			close(killed)
		}
		if err := suite.controller.Kill(); err != nil {
			t.Error(err)
		}
		return true
	})
	defer remove()
	due := s.finishJob("due", now(), ttl(second))
	later := s.finishJob("later", now(), ttl(8*second))
	waits, end := s.waiting("a DELETE")
	defer end()
	select {
	case <-killed:
	case <-waits.Done():
		t.Fatal("no DELETE was sent")
	}
	// These fall due while no controller runs; one of them finished an hour ago.
	missed := s.finishJob("missed", now().Add(-hour), ttl(second))
	single := s.newPod(pod("single", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "0"))
	s.awaitPodFinish(single)
	s.stillThere(missed)
	s.ok(startController(s.ctx))

	s.awaitGone(due)
	s.awaitGone(missed)
	s.awaitGone(single)
	finish, _ := harness.JobFinish(later)
	s.notEarly(s.awaitDeletion(later), finish.Add(8*second))
}

// restartController starts a controller if a test has left none behind.
func restartController(s *space) func() {
	return func() {
		select {
		case <-suite.controller.Ended():
			s.ok(startController(s.ctx))
		default:
		}
	}
}

// The connection to the API server breaks, watches included, and what happens meanwhile is not
// missed.
func TestConnectionsBreak(t *testing.T) {
	s := newSpace(t)
	refuse := suite.proxy.Handle(func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	suite.proxy.Cut()
	missed := s.finishJob("missed", now(), ttl(2*second))
	s.expectSuccess(s.kubectl("delete", "job", s.finishJob("deleted", now(), ttl(second)).Name))
	refuse()
	s.awaitGone(missed)
}
