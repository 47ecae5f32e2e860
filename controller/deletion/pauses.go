package deletion

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

const (
	// maxPauses is how many DeletionPauses one LIST reads. With more, everything is held.
	maxPauses = 500
	// maxPauseBody bounds how much of an answer is read.
	maxPauseBody = 4 << 20
)

// pauseSource reads the DeletionPauses of the cluster, by hand: the Date header of the answer decides
// whether a pause has ended.
type pauseSource struct {
	http *http.Client
	url  string
}

// PausesOfCluster reads the DeletionPauses of the cluster.
func PausesOfCluster(config *rest.Config) (PauseReader, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // Each read has a deadline.
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("pauses: HTTP client of the API server: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("pauses: address of the API server %q: %w", config.Host, err)
	}
	path := fmt.Sprintf("/apis/%s/%s?limit=%d", v1alpha1.GroupVersion, v1alpha1.DeletionPauses, maxPauses)
	s := &pauseSource{http: client, url: strings.TrimSuffix(base.String(), "/") + path}
	return func(ctx context.Context) ([]judging.Pause, error) { return s.read(ctx, config.UserAgent) }, nil
}

// decode reads the pauses of an answer.
func decode(body []byte) ([]judging.Pause, error) {
	var list v1alpha1.DeletionPauseList
	switch {
	case json.Unmarshal(body, &list) != nil || list.Kind != "DeletionPauseList":
		return nil, errors.New("the answer is not a DeletionPauseList")
	case list.Continue != "":
		return nil, fmt.Errorf("there are more than %d: delete those that have ended", maxPauses)
	}
	var out []judging.Pause
	for i := range list.Items {
		out = append(out, judging.PauseOf(&list.Items[i]))
	}
	return out, nil
}

// read sends no resourceVersion: the API server then answers with the state of etcd, not with that
// of a cache that may be behind.
func (s *pauseSource) read(ctx context.Context, agent string) ([]judging.Pause, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {agent}}
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxPauseBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case len(data) > maxPauseBody:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxPauseBody)
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("CustomResourceDefinition %s.%s is not installed", v1alpha1.DeletionPauses, wellknown.Group)
	case resp.StatusCode != http.StatusOK:
		var status metav1.Status
		_ = json.Unmarshal(data, &status) // A body that is no Status has no message.
		return nil, Describe(resp.StatusCode, status.Reason, status.Message)
	}
	pauses, err := decode(data)
	if err != nil {
		return nil, err
	}
	return inEffect(pauses, resp.Header.Get("Date")), nil
}

// inEffect drops the pauses that have ended, by the time of the answer. The header cuts fractions
// of a second off, so that no pause ends early. Without it none ends.
func inEffect(pauses []judging.Pause, date string) (out []judging.Pause) {
	now, err := http.ParseTime(date)
	for i := range pauses {
		if err == nil && pauses[i].Over(now.In(time.UTC)) {
			continue
		}
		out = append(out, pauses[i])
	}
	return out
}

// Run reads until ctx is done.
func (g *Gate) Run(ctx context.Context) error {
	var reads sync.WaitGroup
	defer reads.Wait()
	timer := g.options.Clock.NewTimer(idleEvery)
	defer timer.Stop()
	for {
		if g.next() <= 0 { // The reads before may not have been answered yet.
			sent := g.options.Clock.Now()
			g.begin(sent)
			reads.Go(func() { g.read(ctx, sent) })
		}
		timer.Reset(g.next())
		select {
		case <-ctx.Done():
			return nil
		case <-g.kick:
		case <-timer.C():
		}
	}
}

// next is how long until the next read.
func (g *Gate) next() time.Duration {
	now := g.options.Clock.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Before(g.wanted) {
		return readEvery - Age(now, g.began)
	}
	return idleEvery - Age(now, g.began)
}

func (g *Gate) begin(sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.began = sent
}

// read makes one read. Its age counts from its sending: a pause that is accepted while the answer
// is on its way is not in it.
func (g *Gate) read(ctx context.Context, sent time.Time) {
	reading, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	pauses, err := g.options.Read(reading)
	if ctx.Err() != nil {
		return
	}
	if g.answer(sent, pauses, err) {
		g.report()
	}
}

// answer takes the answer of a read, and reports whether something else is held than was logged.
// A read that was sent before another one that succeeded or failed likewise says nothing new.
func (g *Gate) answer(sent time.Time, pauses []judging.Pause, err error) (changed bool) {
	now := g.options.Clock.Now()
	g.mu.Lock()
	switch {
	case err == nil && sent.After(g.good):
		g.good, g.pauses = sent, pauses
	case err != nil && sent.After(g.bad):
		g.bad, g.why = sent, err
	}
	if g.show(now) && g.shown.Version != g.reported {
		g.reported, changed = g.shown.Version, true
	}
	close(g.answered)
	g.answered = make(chan struct{})
	wake := g.wake
	g.mu.Unlock()
	if wake != nil {
		wake()
	}
	return changed
}

// report logs a change.
func (g *Gate) report() {
	view, _ := g.Last()
	switch {
	case view.Unread != "":
		g.options.Log.Info("deletions and stops are paused: whether a pause is in effect cannot be read", "reason", view.Unread)
	case len(view.held) > 0:
		g.options.Log.Info("deletions and stops are paused", "pauses", view.Messages())
	default:
		g.options.Log.Info("no pause is in effect")
	}
	if g.options.Changed != nil {
		g.options.Changed()
	}
}
