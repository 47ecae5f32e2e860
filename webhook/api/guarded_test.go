package api

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
)

// waiting is an [Authenticator] that answers once it is released.
type waiting struct{ entered, release chan struct{} }

func (w waiting) Authenticate(context.Context, string) (authenticationv1.UserInfo, bool, error) {
	w.entered <- struct{}{}
	<-w.release
	return authenticationv1.UserInfo{}, false, nil
}

// Requests with an unknown token do not pile up, and no long one is sent on.
func TestGuardedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := waiting{make(chan struct{}, 8*maxAuthenticating), make(chan struct{})}
		handler := Guarded(cluster, nil, logr.Discard(), http.NotFoundHandler())
		long := (call{path: "/metrics", token: strings.Repeat("a", maxToken+1)}).do(handler)
		const says = "the token has 16385 bytes, and at most 16384 are read: send one as kubectl create token makes"
		if long.Code != http.StatusUnauthorized || len(cluster.entered) > 0 || !strings.Contains(long.Body.String(), says) {
			t.Errorf("a long token: status %d, asked %d times: %s", long.Code, len(cluster.entered), long.Body)
		}
		for range 4 * maxAuthenticating {
			go call{path: "/metrics", token: "a"}.do(handler)
		}
		synctest.Wait()
		late := make(chan int, 1)
		go func() { late <- call{path: "/metrics", token: "a"}.do(handler).Code }()
		time.Sleep(maxWait)
		synctest.Wait()
		select {
		case code := <-late:
			if code != http.StatusServiceUnavailable || len(cluster.entered) != maxAuthenticating {
				t.Errorf("one too many: status %d, asked %d times", code, len(cluster.entered))
			}
		default:
			t.Error("one too many waits for longer")
		}
		close(cluster.release)
	})
}
