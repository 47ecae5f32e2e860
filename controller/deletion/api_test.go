package deletion_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
)

// api is an API server that has Jobs and DeletionPauses and remembers when it received what.
type api struct {
	mu     sync.Mutex
	pauses map[string]v1alpha1.DeletionPauseSpec
	jobs   map[string]bool
	// delay is how long the answer to a read takes, after the API server has looked.
	delay time.Duration
	// failing answers reads with this code, 0: not at all broken. An answer of -1 never comes.
	failing int
	body    string // in the place of a list
	reads   int
	writes  []write
	// attempts are the engine's attempts to delete.
	attempts int
}

// write is a request that changes something.
type write struct {
	at           time.Time
	method, name string
}

func newAPI() *api {
	return &api{pauses: map[string]v1alpha1.DeletionPauseSpec{}, jobs: map[string]bool{}}
}

// locked does something to the API server.
func (a *api) locked(do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
}

func (a *api) count() (reads int) {
	a.locked(func() { reads = a.reads })
	return reads
}

// RoundTrip implements http.RoundTripper.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Method != http.MethodGet {
		return a.write(r), nil
	}
	code, body, delay := a.list(r)
	select {
	case <-time.After(delay):
		return answer(code, body), nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

func (a *api) write(r *http.Request) *http.Response {
	a.mu.Lock()
	defer a.mu.Unlock()
	name := path.Base(r.URL.Path)
	a.writes = append(a.writes, write{time.Now(), r.Method, name})
	if r.Method == http.MethodDelete && !a.jobs[name] {
		return answer(http.StatusNotFound, fmt.Sprintf(`{"kind":"Status","reason":"NotFound","code":404,"details":{"name":%q,"kind":"jobs"}}`, name))
	}
	if r.Method == http.MethodDelete {
		delete(a.jobs, name)
	}
	return answer(http.StatusOK, "{}")
}

func (a *api) list(r *http.Request) (code int, body string, delay time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads++
	switch {
	case r.URL.Query().Get("resourceVersion") != "":
		return http.StatusInternalServerError, "a read that may be behind", 0
	case a.failing == -1:
		return http.StatusOK, "", time.Hour
	case a.failing != 0:
		return a.failing, `{"kind":"Status","message":"broken","code":503}`, a.delay
	case a.body != "":
		return http.StatusOK, a.body, a.delay
	}
	list := v1alpha1.DeletionPauseList{TypeMeta: metav1.TypeMeta{Kind: "DeletionPauseList", APIVersion: "curfew.dev/v1alpha1"}}
	for name, spec := range a.pauses {
		list.Items = append(list.Items, v1alpha1.DeletionPause{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
	}
	text, err := json.Marshal(list)
	if err != nil {
		return http.StatusInternalServerError, err.Error(), 0
	}
	return http.StatusOK, string(text), a.delay
}

func answer(code int, body string) *http.Response {
	return &http.Response{
		StatusCode: code, Body: io.NopCloser(bytes.NewBufferString(body)),
		Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}},
	}
}

// config connects to the API server through the gate, as all clients of the controller do.
func (a *api) config(gate *deletion.Gate) *rest.Config {
	config := &rest.Config{Host: "http://api.test", Transport: a}
	if gate != nil {
		config.Wrap(gate.Wrap)
	}
	return config
}

// gate is one that reads from the API server until the test ends or stop is called.
func (a *api) gate(t *testing.T) (gate *deletion.Gate, stop func()) {
	t.Helper()
	gate = deletion.NewGate(deletion.GateOptions{Clock: clock.RealClock{}, Log: logr.Discard()})
	read, err := deletion.PausesOfCluster(a.config(gate))
	must(t, err)
	gate.Use(read, nil)
	return gate, run(t, gate.Run)
}

// run runs something until stop is called.
func run(t *testing.T, what func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- what(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// send sends a request in a context, and returns its error.
func send(ctx context.Context, config *rest.Config, method, name string) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://api.test/apis/batch/v1/namespaces/ci/jobs/"+name, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

var must = builders.Must
