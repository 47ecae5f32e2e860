package local

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// How often a component that is not ready yet is asked again.
const pollInterval = 50 * time.Millisecond

// client talks to the components of one cluster as its administrator.
type client struct {
	http  *http.Client
	state *State
}

func newClient(s *State) (*client, error) {
	authority, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the cluster's authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("no certificate in %s", s.CAFile)
	}
	return &client{state: s, http: &http.Client{
		Timeout: 5 * time.Second,
		// A proxy that the environment names does not reach our loopback.
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true},
	}}, nil
}

// do sends a request and returns the body of a 2xx answer. Any other is an error that quotes it.
func (c *client) do(ctx context.Context, method, url, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewBufferString(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	request.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(url, c.state.Server+"/") {
		request.Header.Set("Authorization", "Bearer "+c.state.Token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	if response.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: status %d: %.400s", method, url, response.StatusCode, answer)
	}
	return answer, nil
}

// healthy asks a component whether it works.
func (c *client) healthy(ctx context.Context, name string) error {
	_, err := c.do(ctx, http.MethodGet, c.state.Components[name].Health, "")
	return err
}

// usable says whether a Pod that is created now would be admitted and run: its ServiceAccount and
// the ConfigMap that is mounted beside its token exist, the Node is ready, and the scheduler will
// not be kept away from it by a taint.
func (c *client) usable(ctx context.Context) error {
	for _, path := range []string{"serviceaccounts/default", "configmaps/kube-root-ca.crt"} {
		if _, err := c.do(ctx, http.MethodGet, c.state.Server+"/api/v1/namespaces/default/"+path, ""); err != nil {
			return err
		}
	}
	answer, err := c.do(ctx, http.MethodGet, c.state.Server+"/api/v1/nodes/"+NodeName, "")
	if err != nil {
		return err
	}
	return nodeReady(answer)
}

// nodeReady reads a Node for its Ready condition and for taints.
func nodeReady(document []byte) error {
	var read struct {
		Spec struct {
			Taints []struct{ Key string }
		}
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if err := json.Unmarshal(document, &read); err != nil {
		return fmt.Errorf("parse the Node: %w", err)
	}
	if len(read.Spec.Taints) > 0 {
		return fmt.Errorf("the Node %s has the taint %s", NodeName, read.Spec.Taints[0].Key)
	}
	for _, condition := range read.Status.Conditions {
		if condition.Type == "Ready" && condition.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("the Node %s is not ready", NodeName)
}

// await asks until there is no error, the time is over, or a component of the cluster has ended
// (then what it wrote last is the error).
func await(ctx context.Context, what string, patience time.Duration, ended <-chan error, ask func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var last error
	for {
		// An answer that was cut off by the end of the time says less than the one before.
		if err := ask(limited); err == nil {
			return nil
		} else if limited.Err() == nil || last == nil {
			last = err
		}
		select {
		case err := <-ended:
			return err
		case <-limited.Done():
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted while waiting for %s: %w", what, ctx.Err())
			}
			return fmt.Errorf("waited %s for %s: %w", patience, what, last)
		case <-time.After(pollInterval):
		}
	}
}

// tail returns the last lines of a log, for an error.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data[max(0, len(data)-4000):]), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
