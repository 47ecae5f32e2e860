package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
)

// The webhook of some namespaces holds each DELETE for as long as the API server lets it. Jobs of
// other namespaces that fall due meanwhile do not wait for one of them: when all are deleted, a
// DELETE is still held that was held when they were created. A busy machine may take longer than
// the API server lets a DELETE be held: then other Jobs are created, until that is so. That never
// happens if each DELETE waits for the held ones. Not parallel: all DELETEs of the controller share
// its limit of requests under way.
func TestHostileSlowDeletes(t *testing.T) {
	const slowEach, honestEach = 30, 5
	var slow []*space
	var names []string
	for range 6 {
		slow = append(slow, newSpace(t))
		names = append(names, slow[len(slow)-1].name)
	}
	honest := []*space{newSpace(t), newSpace(t), newSpace(t)}

	reviews := &heldReviews{now: map[int]string{}, release: make(chan struct{})}
	slow[0].reviewDeletesIn(names, reviews.hold)
	t.Cleanup(func() {
		close(reviews.release)
		for _, s := range slow {
			s.afterwards("delete", "jobs", "--all", "--namespace="+s.name, "--wait=false")
		}
	})
	due := now()
	var creating sync.WaitGroup
	for _, s := range slow {
		creating.Go(func() {
			for i := range slowEach {
				_, err := s.tryFinishJob(fmt.Sprintf("slow-%03d", i), due, ttl(second))
				s.okInHook(err)
			}
		})
	}
	creating.Wait()
	slow[0].poll("DELETEs of each slow namespace to be held", func(context.Context) (bool, error) {
		return reviews.namespaces() == len(slow), nil
	})

	round := 0
	slow[0].poll("Jobs of others to be deleted before a held DELETE is answered", func(context.Context) (bool, error) {
		round++
		before := reviews.begun()
		jobs := map[*space][]*batchv1.Job{}
		for _, s := range honest {
			for i := range honestEach {
				jobs[s] = append(jobs[s], s.finishJob(fmt.Sprintf("honest-%d-%d", round, i), now(), ttl(second)))
			}
		}
		for s, all := range jobs {
			for _, each := range all {
				s.awaitGone(each)
			}
		}
		return reviews.heldSince(before) > 0, nil
	})
}

// heldReviews are reviews of DELETEs whose answer is held back.
type heldReviews struct {
	release chan struct{}

	mu   sync.Mutex
	last int
	// now are the namespaces of those that the API server waits for, by their number.
	now map[int]string
}

// hold answers a review once all are released, or the API server has given up on it.
func (h *heldReviews) hold(ctx context.Context, request *admissionv1.AdmissionRequest) admissionv1.AdmissionResponse {
	h.mu.Lock()
	h.last++
	i := h.last
	h.now[i] = request.Namespace
	h.mu.Unlock()
	select {
	case <-h.release:
	case <-ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.now, i)
	return admissionv1.AdmissionResponse{Allowed: true}
}

// namespaces is of how many namespaces a review is held.
func (h *heldReviews) namespaces() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	values := map[string]bool{}
	for _, namespace := range h.now {
		values[namespace] = true
	}
	return len(values)
}

// begun is the number of the last review, and heldSince how many are held up to a number.
func (h *heldReviews) begun() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

func (h *heldReviews) heldSince(number int) (held int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.now {
		if i <= number {
			held++
		}
	}
	return held
}
