package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// stalled is a body that stops in its midst.
type stalled struct {
	first   io.Reader
	waits   chan<- struct{}
	release <-chan struct{}
}

// Read implements io.Reader.
func (s *stalled) Read(p []byte) (int, error) {
	if n, err := s.first.Read(p); n > 0 {
		return n, err
	}
	s.waits <- struct{}{}
	<-s.release
	return 0, io.ErrUnexpectedEOF
}

// Bodies that are announced and never sent keep no other review waiting.
func TestStalledBodiesHoldUpNoReview(t *testing.T) {
	w := newWorld(t)
	handler := w.webhooks.handler(PathValidate, w.webhooks.validate)
	waits, release, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	const count = 6
	for range count {
		go func() {
			body := &stalled{first: strings.NewReader(strings.Repeat(" ", smallReview+1)), waits: waits, release: release}
			r := httptest.NewRequest(http.MethodPost, PathValidate, body)
			r.ContentLength = DefaultMaxReview
			r.Header.Set("Content-Type", "application/json")
			handler.ServeHTTP(httptest.NewRecorder(), r)
			ended <- struct{}{}
		}()
	}
	for range count {
		<-waits
	}
	if w.webhooks.Busy() {
		t.Error("busy with reviews that have not arrived")
	}
	status, review := w.post(t, PathValidate, large(t, 1<<20))
	if status != http.StatusOK || review.Response.Result == nil || review.Response.Result.Code != http.StatusForbidden {
		t.Errorf("HTTP %d, %+v, want the denial of the rules", status, review.Response.Result)
	}
	close(release)
	for range count {
		<-ended
	}
}

// A review that cannot compile in time is a denial: an answer that is too late admits the policy
// where the webhook fails open.
func TestReviewsThatCannotCompileAreDenied(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Access = allBut("delete secrets") })
	const object = `{"apiVersion":"curfew.dev/v1alpha1","kind":"CleanupPolicy","metadata":{"namespace":"plain","name":"a"},` +
		`"spec":{"schedule":"@daily","serviceAccountName":"janitor",` +
		`"matchConstraints":{"resourceRules":[{"apiGroups":[""],"resources":["secrets"]}]}}}`
	load, slots := w.webhooks.load, int64(0)
	load.patience = time.Millisecond
	for load.compiling.TryAcquire(1) {
		slots++
	}
	out := w.ask(t, ask{path: PathValidatePolicy, object: object})
	if out.Allowed || out.Result == nil || out.Result.Code != http.StatusTooManyRequests {
		t.Errorf("with all slots taken: allowed %v, %+v, want a denial with 429", out.Allowed, out.Result)
	}
	load.compiling.Release(slots)
	out = w.ask(t, ask{path: PathValidatePolicy, object: object})
	if out.Allowed || out.Result == nil || out.Result.Code == http.StatusTooManyRequests {
		t.Errorf("with free slots: allowed %v, %+v, want the denial of the rules", out.Allowed, out.Result)
	}
}
