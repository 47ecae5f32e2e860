package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A webhook that is told to stop is not ready any more, serves on for the delay, and asks for new
// connections meanwhile.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d drain
		handler := d.closing(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		closes := func() bool {
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate", nil))
			return response.Header().Get("Connection") == "close"
		}
		signal, stop := context.WithCancel(t.Context())
		later := d.follow(signal, time.After, 5*time.Second)
		synctest.Wait()
		if closes() || d.check().Probe(t.Context()) != nil || later.Err() != nil {
			t.Error("it drains before it was told to stop")
		}
		stop()
		synctest.Wait()
		if !closes() || d.check().Probe(t.Context()) == nil || later.Err() != nil {
			t.Error("it does not drain, or has stopped at once")
		}
		time.Sleep(5*time.Second - 1)
		synctest.Wait()
		if later.Err() != nil {
			t.Error("it stopped before the delay was over")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if later.Err() == nil {
			t.Error("it goes on after the delay")
		}
	})
}

func TestServingFlagsThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*options)
		want string
	}{
		"the defaults":      {func(*options) {}, ""},
		"another issuer":    {func(o *options) { o.certificates = "vault" }, "--certificates=vault: give self-managed or cert-manager"},
		"no folder":         {func(o *options) { o.certificates, o.certificateDir = certManager, "" }, "--certificate-dir=: name the folder where the Secret is mounted"},
		"an old TLS":        {func(o *options) { o.tlsMinVersion = "1.1" }, "--tls-min-version=1.1: give 1.2 or 1.3"},
		"names without CAs": {func(o *options) { o.clientNames = []string{"a"} }, "--client-names=[a]: set --client-ca-file, too: without it no certificate is asked for"},
		"two at once": {func(o *options) { o.caSettle, o.drainDelay = 0, -1 },
			"--ca-settle=0s: give 1s to 24h\n--drain-delay=-1ns: give 0s to 5m"},
	} {
		t.Run(name, func(t *testing.T) {
			options, got := defaultOptions(), ""
			c.set(options)
			if err := options.validate(parts{webhook: true}); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("says %q, want %q", got, c.want)
			}
		})
	}
}
