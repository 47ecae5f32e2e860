package webhook

import (
	"context"
	"encoding/json"
	"net/http"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// large is a Job that breaks a rule, with so many characters that the API server writes in six.
func large(t *testing.T, characters int) []byte {
	t.Helper()
	object := map[string]any{"apiVersion": "batch/v1", "kind": "Job", "metadata": map[string]any{"name": "a", "namespace": "bounded"},
		"spec": map[string]any{"ttlSecondsAfterFinished": 864000, "template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "a", "args": []any{strings.Repeat("<", characters)}}}}}}}
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	// The uid comes first, as the API server writes it.
	body, err := json.Marshal(&admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{UID: "u", Operation: admissionv1.Create, Namespace: "bounded",
			Kind: metav1.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, Object: runtime.RawExtension{Raw: raw}}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// S9: whatever the API server accepts is reviewed. Over 7 MiB, a review was answered with HTTP 413,
// and the object passed.
func TestLargeObjectsAreReviewed(t *testing.T) {
	w := newWorld(t)
	for _, characters := range []int{10, 1 << 20, 1_240_000, 6_000_000} {
		status, review := w.post(t, PathValidate, large(t, characters))
		if result := review.Response.Result; status != http.StatusOK || review.Response.Allowed || result == nil || !strings.Contains(result.Message, "864000 (10d) is above curfew.dev/max-ttl 7d") {
			t.Errorf("%d characters: HTTP %d, %+v", characters, status, result)
		}
	}
	if w.webhooks.Busy() {
		t.Error("still busy")
	}
}

// What could not be reviewed is denied: an HTTP error would be left to the failure policy, which
// lets it pass.
func TestUnreviewedObjectsAreDenied(t *testing.T) {
	ctx := context.Background()
	dense := []byte(strings.Replace(string(large(t, 10)), `"name":"a","namespace"`, `"x":[`+strings.Repeat(`{"":0},`, 200_000)+`0],"name":"a","namespace"`, 1))
	for name, test := range map[string]struct {
		change func(*load)
		body   []byte
		code   int32
		again  int32
		says   string
	}{
		"no memory for its text":    {change: func(l *load) { _ = l.bodies.Acquire(ctx, 80<<20) }, body: large(t, 1<<20), code: 429, again: 1, says: "try again in a second"},
		"no memory for its objects": {change: func(l *load) { _ = l.decoded.Acquire(ctx, l.room) }, body: large(t, 1<<20), code: 429, again: 1, says: "try again in a second"},
		"small, no memory":          {change: func(l *load) { _ = l.small.Acquire(ctx, l.spare) }, body: large(t, 10), code: 429, again: 1, says: "try again in a second"},
		"too large":                 {change: func(l *load) { l.maxReview = 1 << 20 }, body: large(t, 1<<20), code: 413, says: "raise --max-review-size"},
		"too dense":                 {change: func(l *load) { l.room = 16 << 20 }, body: dense, code: 413, says: "more parts than curfew has memory to review"},
	} {
		for _, path := range []string{PathValidate, PathMutate} {
			t.Run(name+path, func(t *testing.T) {
				w := newWorld(t)
				w.webhooks.load.patience = time.Millisecond
				test.change(w.webhooks.load)
				status, review := w.post(t, path, test.body)
				out := review.Response
				if status != http.StatusOK || out.Allowed || out.UID != "u" || out.Result.Code != test.code || !strings.Contains(out.Result.Message, test.says) {
					t.Fatalf("HTTP %d, uid %q, allowed %v, %+v", status, out.UID, out.Allowed, out.Result)
				}
				if test.again > 0 && (out.Result.Details == nil || out.Result.Details.RetryAfterSeconds != test.again || out.Result.Reason != "TooManyRequests") {
					t.Errorf("details %+v, reason %s", out.Result.Details, out.Result.Reason)
				}
				if got := w.reviews(t, path[1:], "other", "other", "throttled"); got != 1 {
					t.Errorf("%v throttled reviews counted, want 1", got)
				}
			})
		}
	}
}

// Small reviews have memory of their own, which no large one can take.
func TestSmallReviewsPassLargeOnes(t *testing.T) {
	w := newWorld(t)
	l := w.webhooks.load
	l.patience = time.Millisecond
	for _, pool := range []func() error{
		func() error { return l.bodies.Acquire(t.Context(), max(DefaultMemory/8, 2*DefaultMaxReview)) }, func() error { return l.decoded.Acquire(t.Context(), l.room) },
	} {
		if err := pool(); err != nil {
			t.Fatal(err)
		}
	}
	status, review := w.post(t, PathValidate, large(t, 10))
	if status != http.StatusOK || review.Response.Result.Code != http.StatusForbidden {
		t.Errorf("HTTP %d, %+v", status, review.Response.Result)
	}
}

// A review waits for memory that becomes free in time.
func TestReviewsWaitForMemory(t *testing.T) {
	w := newWorld(t)
	l := w.webhooks.load
	l.patience = time.Minute
	if err := l.decoded.Acquire(t.Context(), l.room); err != nil {
		t.Fatal(err)
	}
	done := make(chan int32)
	go func() {
		_, review := w.post(t, PathValidate, large(t, 1<<20))
		done <- review.Response.Result.Code
	}()
	for !w.webhooks.Busy() {
		goruntime.Gosched() // until it has come
	}
	l.decoded.Release(l.room)
	if code := <-done; code != http.StatusForbidden {
		t.Errorf("answered with %d", code)
	}
}
