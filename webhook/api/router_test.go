package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

func router(t *testing.T, options Options) http.Handler {
	t.Helper()
	router, err := New(options)
	must(t, err)
	router.Get("/panic", func(http.ResponseWriter, *http.Request) { panic("secret detail") })
	router.Post("/read", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			WriteProblem(w, r, http.StatusRequestEntityTooLarge, "the body is too long")
		}
	})
	router.Get("/wait", func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		WriteProblem(w, r, http.StatusGatewayTimeout, "took too long")
	})
	return router
}

func holds(context.Context) error { return nil }
func fails(context.Context) error { return errors.New("no certificate yet") }
func unsynced(context.Context) error {
	return errors.New("cache of namespaces is not in step")
}

func TestRouter(t *testing.T) {
	for name, test := range map[string]struct {
		options      Options
		method, path string
		body         io.Reader
		status       int
		text         string
		problem      *Problem
	}{
		"alive":               {method: "GET", path: "/healthz", status: 200, text: "ok\n"},
		"alive, HEAD":         {method: "HEAD", path: "/healthz", status: 200, text: "ok\n"},
		"alive and unready":   {options: Options{Ready: []Check{{"certificate", fails}}}, method: "GET", path: "/healthz", status: 200, text: "ok\n"},
		"ready":               {options: Options{Ready: []Check{{"certificate", holds}}}, method: "GET", path: "/readyz", status: 200, text: "ok\n"},
		"ready without end":   {method: "GET", path: "/readyz", status: 200, text: "ok\n"},
		"unready":             {options: Options{Ready: []Check{{"certificate", fails}, {"informers", holds}, {"caches", unsynced}}}, method: "GET", path: "/readyz", status: 503, problem: &Problem{Title: "Service Unavailable", Detail: "2 of 3 checks do not hold", Instance: "/readyz", Errors: []string{"certificate: no certificate yet", "caches: cache of namespaces is not in step"}}},
		"dead":                {options: Options{Live: []Check{{"certificate", fails}}}, method: "GET", path: "/healthz", status: 503, problem: &Problem{Title: "Service Unavailable", Detail: "1 of 1 checks do not hold", Instance: "/healthz", Errors: []string{"certificate: no certificate yet"}}},
		"nothing there":       {method: "GET", path: "/v2", status: 404, problem: &Problem{Title: "Not Found", Detail: "there is nothing at /v2", Instance: "/v2"}},
		"wrong method":        {method: "POST", path: "/readyz", status: 405, problem: &Problem{Title: "Method Not Allowed", Detail: "POST is not understood at /readyz", Instance: "/readyz"}},
		"panic":               {method: "GET", path: "/panic", status: 500, problem: &Problem{Title: "Internal Server Error", Detail: "the request failed inside Curfew", Instance: "/panic"}},
		"body":                {options: Options{MaxBody: 4}, method: "POST", path: "/read", body: strings.NewReader("1234"), status: 200},
		"body too long":       {options: Options{MaxBody: 4}, method: "POST", path: "/read", body: strings.NewReader("12345"), status: 413, problem: &Problem{Title: "Request Entity Too Large", Detail: "the body has 5 bytes: send 4 or less", Instance: "/read"}},
		"body without length": {options: Options{MaxBody: 4}, method: "POST", path: "/read", body: io.MultiReader(strings.NewReader("123456")), status: 413, problem: &Problem{Title: "Request Entity Too Large", Detail: "the body is too long", Instance: "/read"}},
		"too slow":            {options: Options{Timeout: time.Nanosecond}, method: "GET", path: "/wait", status: 504, problem: &Problem{Title: "Gateway Timeout", Detail: "took too long", Instance: "/wait"}},
	} {
		t.Run(name, func(t *testing.T) {
			recorder := httptest.NewRecorder()
			router(t, test.options).ServeHTTP(recorder, httptest.NewRequest(test.method, test.path, test.body))
			if recorder.Code != test.status {
				t.Errorf("status %d, want %d", recorder.Code, test.status)
			}
			if test.problem == nil {
				if got := recorder.Body.String(); got != test.text {
					t.Errorf("body %q, want %q", got, test.text)
				}
				return
			}
			var got Problem
			if err := json.NewDecoder(bytes.NewReader(recorder.Body.Bytes())).Decode(&got); err != nil || recorder.Header().Get("Content-Type") != ProblemContentType {
				t.Fatalf("no problem document: %v: %s", err, recorder.Body)
			}
			want := *test.problem
			want.Type, want.Status = "about:blank", test.status
			if got.Type != want.Type || got.Title != want.Title || got.Status != want.Status || got.Detail != want.Detail ||
				got.Instance != want.Instance || !slices.Equal(got.Errors, want.Errors) {
				t.Errorf("%+v\nwant\n%+v", got, want)
			}
		})
	}
}

func TestOtherMethodsNameTheAllowedOnes(t *testing.T) {
	for path, want := range map[string][]string{"/readyz": {"GET", "HEAD"}, PathValidate: {"POST"}, PathDefault: {"POST"}, PathOpenAPI: {"GET"}} {
		recorder := httptest.NewRecorder()
		newRouter(t, &world{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodPut, path, nil))
		if got := recorder.Header().Values("Allow"); recorder.Code != http.StatusMethodNotAllowed || !slices.Equal(got, want) {
			t.Errorf("%s: status %d, Allow %q, want %q", path, recorder.Code, got, want)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, options := range map[string]Options{
		"no name":          {Ready: []Check{{"", holds}}},
		"no probe":         {Live: []Check{{"certificate", nil}}},
		"negative body":    {MaxBody: -1},
		"negative timeout": {Timeout: -1},
	} {
		if _, err := New(options); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestServer: a request under way at the end is answered, and the port is free afterwards.
func TestServer(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = w.Write([]byte("done"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server, err := Listen(ctx, "127.0.0.1:0", handler)
	must(t, err)
	if _, err := Listen(ctx, server.Addr().String(), handler); err == nil {
		t.Error("a port is bound twice")
	}
	ended, answered := make(chan error, 1), make(chan string, 1)
	go func() { ended <- server.Start(ctx) }()
	go func() {
		response, err := http.Get("http://" + server.Addr().String())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answered <- string(body)
	}()
	<-entered
	cancel()
	select {
	case err := <-ended:
		t.Errorf("ended with a request under way: %v", err)
	default:
	}
	close(leave)
	if got := <-answered; got != "done" {
		t.Errorf("answered %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if server.NeedLeaderElection() {
		t.Error("probes wait for the lease")
	}
}
