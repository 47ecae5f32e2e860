package webhook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// asking asks as a user, in a request that comes from an address.
func asking(t *testing.T, cached *CachedReviews, address, user string, number int) error {
	t.Helper()
	_, err := cached.May(requestedBy(calledFrom(t.Context(), address), user), authenticationv1.UserInfo{Username: user},
		authorizationv1.ResourceAttributes{Namespace: fmt.Sprint("n", number), Resource: "jobs"})
	return err
}

// Twenty tenants who ask all they can, second after second, leave others a part.
func TestManyTenantsLeaveAccessReviews(t *testing.T) {
	behind, clock := &answers{}, clocktesting.NewFakeClock(time.Unix(1000, 0))
	cached := NewCachedReviews(behind, clock)
	cached.Limit = LimitAnonymous
	for second := range 5 {
		for i := range 20 * LimitAnonymous {
			_ = asking(t, cached, "10.0.0.1:4", fmt.Sprint("tenant-", i%20), 1000*second+i/20)
		}
		// In the first second, it is not known how many ask.
		for i := 0; second > 0 && i < 4; i++ {
			if err := asking(t, cached, "10.0.0.1:5", fmt.Sprint("ann-", second), i); err != nil {
				t.Errorf("question %d of another tenant in second %d: %v", i, second, err)
			}
		}
		if most := (second + 1) * LimitAnonymous / 2; len(behind.asked) > most {
			t.Errorf("asked %d times in %d seconds, want at most %d for one API server", len(behind.asked), second+1, most)
		}
		clock.Step(time.Second)
	}
}

// Whatever users a caller makes up, from whatever ports, the API server has a third of all
// questions, and each of its two tenants a third of that.
func TestCallersLeaveAccessReviews(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	cached := NewCachedReviews(&answers{}, clock)
	cached.Limit = LimitAnonymous
	for second := range 3 {
		for i := range 10 * LimitAnonymous {
			err := asking(t, cached, fmt.Sprintf("10.1.2.3:%d", i), fmt.Sprintf("made-up-%d-%d", second, i), 0)
			if allowed := err == nil; allowed != (i < LimitAnonymous/2) && second == 0 {
				t.Fatalf("question %d: %v", i, err)
			}
		}
		for i := range LimitAnonymous / 9 {
			if err := asking(t, cached, "10.0.0.1:4", "ann", 1000*second+i); err != nil {
				t.Errorf("question %d of ann in second %d: %v", i, second, err)
			}
		}
		if err := asking(t, cached, "10.0.0.1:4", "bob", second); err != nil {
			t.Errorf("bob in second %d: %v", second, err)
		}
		if err := asking(t, cached, "10.1.2.3:1", "ann", 1000*second+500); !errors.Is(err, errTooMany) {
			t.Errorf("the caller who made up users names ann: %v", err)
		}
		clock.Step(time.Second)
	}
}

// Requests that make up users cost the API server a bounded number of questions. With
// --require-delete those that are not answered are denied, to be tried again.
func TestAccessReviewsAreLimited(t *testing.T) {
	behind := &byGroup{}
	w := newWorld(t, func(o *Options) {
		cached := NewCachedReviews(behind, clocktesting.NewFakeClock(time.Unix(1000, 0)))
		cached.Limit = 20
		o.Access, o.RequireDelete = cached, true
	})
	limited := 0
	for i := range 30 {
		response := w.ask(t, ask{path: PathValidate, namespace: "plain", user: fmt.Sprint("made-up-", i),
			object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: plain}, spec: {ttlSecondsAfterFinished: 3600, template: {spec: {}}}}"})
		if response.Allowed {
			t.Error("allowed")
		}
		if response.Result.Code == http.StatusTooManyRequests {
			limited++
		}
	}
	if behind.asked != 10 || limited != 20 {
		t.Errorf("asked %d times, and %d requests were denied for a second", behind.asked, limited)
	}
	// The API server calls from another address.
	body, err := json.Marshal(ask{namespace: "plain", user: "ann",
		object: "{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: plain}, spec: {ttlSecondsAfterFinished: 3600, template: {spec: {}}}}"}.review(t))
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequest(http.MethodPost, PathValidate, bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	w.webhooks.handler(PathValidate, w.webhooks.validate).ServeHTTP(httptest.NewRecorder(), request)
	if behind.asked != 11 {
		t.Errorf("asked %d times, want once more for a caller with another address", behind.asked)
	}
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	cached := NewCachedReviews(behind, clock)
	cached.Limit = 1
	may := func(name string) error {
		_, err := cached.May(t.Context(), authenticationv1.UserInfo{Username: name}, authorizationv1.ResourceAttributes{})
		return err
	}
	first, again, second := may("a"), may("a"), may("b")
	clock.Step(time.Second)
	later := may("b")
	if first != nil || again != nil {
		t.Errorf("the first user got %v, and from the cache %v", first, again)
	}
	if !errors.Is(second, errTooMany) {
		t.Errorf("the second user in the same second got %v, want %v", second, errTooMany)
	}
	if later != nil {
		t.Errorf("the second user got %v a second later", later)
	}
}
