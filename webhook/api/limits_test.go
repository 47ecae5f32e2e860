package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// held is a body that reports when it is read, and then makes its reader wait.
type held struct{ entered, release chan struct{} }

func (h held) Read([]byte) (int, error) {
	h.entered <- struct{}{}
	<-h.release
	return 0, io.EOF
}

// S9: whoever has no valid token takes no slot from those who have one, and is told so when all are
// taken.
func TestTokensComeBeforeSlots(t *testing.T) { synctest.Test(t, testTokensComeBeforeSlots) }

func testTokensComeBeforeSlots(t *testing.T) {
	router := newRouter(t, &world{})
	body := held{make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	send := func(token string) int {
		request := httptest.NewRequest(http.MethodPost, PathValidate, body)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		recorder := httptest.NewRecorder()
		router.ServeHTTP(recorder, request)
		return recorder.Code
	}
	for range maxInFlight {
		go func() {
			send("ann")
			done <- struct{}{}
		}()
		<-body.entered
	}
	for token, want := range map[string]int{"ann": http.StatusServiceUnavailable, "unknown": http.StatusUnauthorized, "bob": http.StatusForbidden} {
		if got := send(token); got != want {
			t.Errorf("%s: status %d while all slots are taken, want %d", token, got, want)
		}
	}
	close(body.release)
	for range maxInFlight {
		<-done
	}
}

// Requests beyond the limit wait for a slot: a client that sends many at once gets all answers.
// Offline requests keep out no others.
func TestRequestsWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		router, body := newRouter(t, &world{}), held{make(chan struct{}), make(chan struct{})}
		codes := make(chan int)
		send := func(body io.Reader) {
			request := httptest.NewRequest(http.MethodPost, PathValidate+"?offline=true", body)
			request.Header.Set("Content-Type", "application/yaml")
			recorder := httptest.NewRecorder()
			router.ServeHTTP(recorder, request)
			codes <- recorder.Code
		}
		for range maxInFlight {
			go send(body)
			<-body.entered
		}
		for range 12 {
			go send(strings.NewReader(jobYAML))
		}
		synctest.Wait()
		if online := (call{path: PathValidate, body: jobYAML, token: "ann"}).do(router); online.Code != http.StatusOK {
			t.Errorf("an online request beside the offline ones: %d", online.Code)
		}
		close(body.release)
		got := map[int]int{}
		for range maxInFlight + 12 {
			got[<-codes]++
		}
		if got[http.StatusOK] != 12 || got[http.StatusServiceUnavailable] > 0 {
			t.Errorf("status codes %v", got)
		}
	})
}

// While admission has large objects to review, the HTTP API stands back.
func TestBusyAdmissionSheds(t *testing.T) {
	busy := true
	options := decisions(t, &world{})
	options.Busy = func() bool { return busy }
	router := New(options)
	for _, path := range []string{PathValidate, PathValidate + "?offline=true", PathDefault} {
		busy = true
		if recorder := (call{path: path, body: jobYAML, token: "ann"}).do(router); recorder.Code != http.StatusServiceUnavailable || recorder.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: status %d", path, recorder.Code)
		}
		busy = false
		if recorder := (call{path: path, body: jobYAML, token: "ann"}).do(router); recorder.Code != http.StatusOK {
			t.Errorf("%s, not busy: status %d: %s", path, recorder.Code, recorder.Body)
		}
	}
}

// waiting answers token reviews once it is released.
type waiting struct{ entered, release chan struct{} }

func (w waiting) Create(context.Context, *authenticationv1.TokenReview, metav1.CreateOptions) (*authenticationv1.TokenReview, error) {
	w.entered <- struct{}{}
	<-w.release
	return &authenticationv1.TokenReview{}, nil
}

// Requests with an unknown token do not pile up at the API server, and no long token is sent on.
func TestAuthenticationIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, options := waiting{make(chan struct{}, 2*maxAuthenticating), make(chan struct{})}, decisions(t, &world{})
		options.TokenReviews = cluster
		router := New(options)
		long := (call{path: PathValidate, token: strings.Repeat("a", maxToken+1)}).do(router)
		const says = "the token has 16385 bytes, and at most 16384 are read: send one for audience"
		if long.Code != http.StatusUnauthorized || len(cluster.entered) > 0 || !strings.Contains(long.Body.String(), says) {
			t.Errorf("a long token: status %d, asked %d times: %s", long.Code, len(cluster.entered), long.Body)
		}
		for range maxAuthenticating {
			go call{path: PathValidate, token: "a"}.do(router)
		}
		synctest.Wait()
		if code := (call{path: PathValidate, token: "a"}).do(router).Code; code != http.StatusServiceUnavailable || len(cluster.entered) != maxAuthenticating {
			t.Errorf("one too many: status %d, asked %d times", code, len(cluster.entered))
		}
		close(cluster.release)
	})
}
