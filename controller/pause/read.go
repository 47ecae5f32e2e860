package pause

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"curfew.dev/curfew/controller/action"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

const (
	// maxPauses is how many DeletionPauses one LIST reads. With more, everything is held.
	maxPauses = 500
	// maxBody bounds how much of an answer is read.
	maxBody = 4 << 20
)

// source reads from the API server, by hand: the Date header of the answer decides whether a pause
// has ended.
type source struct {
	http *http.Client
	url  string
	// decode reads the pauses of an answer with code 200, or 404.
	decode func(code int, body []byte) ([]judging.Pause, error)
}

// OfCluster reads the DeletionPauses of the cluster.
func OfCluster(config *rest.Config) (Reader, error) {
	path := fmt.Sprintf("/apis/%s/%s?limit=%d", v1alpha1.GroupVersion, v1alpha1.DeletionPauses, maxPauses)
	return newSource(config, path, func(code int, body []byte) ([]judging.Pause, error) {
		var list v1alpha1.DeletionPauseList
		switch {
		case code == http.StatusNotFound:
			return nil, fmt.Errorf("CustomResourceDefinition %s.%s is not installed", v1alpha1.DeletionPauses, wellknown.Group)
		case json.Unmarshal(body, &list) != nil || list.Kind != "DeletionPauseList":
			return nil, errors.New("the answer is no list of DeletionPauses")
		case list.Continue != "":
			return nil, fmt.Errorf("there are more than %d: delete those that have ended", maxPauses)
		}
		var out []judging.Pause
		for i := range list.Items {
			out = append(out, judging.PauseOf(&list.Items[i]))
		}
		return out, nil
	})
}

// OfNamespace reads the ConfigMap that takes their place with --only-namespaces, in the namespace
// that Curfew runs in.
func OfNamespace(config *rest.Config, namespace string) (Reader, error) {
	path := "/api/v1/namespaces/" + namespace + "/configmaps/" + judging.PauseConfigMap
	return newSource(config, path, func(code int, body []byte) ([]judging.Pause, error) {
		if code == http.StatusNotFound {
			var status metav1.Status
			if json.Unmarshal(body, &status) == nil && status.Details != nil && status.Details.Name == judging.PauseConfigMap {
				return nil, nil
			}
			return nil, errors.New("404 that does not name the ConfigMap")
		}
		var object corev1.ConfigMap
		if json.Unmarshal(body, &object) != nil || object.Kind != "ConfigMap" {
			return nil, errors.New("the answer is no ConfigMap")
		}
		one, err := judging.PauseOfConfigMap(object.Data)
		if err != nil {
			return nil, fmt.Errorf("ConfigMap %s: %w", judging.PauseConfigMap, err)
		}
		return []judging.Pause{one}, nil
	})
}

func newSource(config *rest.Config, path string, decode func(int, []byte) ([]judging.Pause, error)) (Reader, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // Each read has a deadline.
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("pause: HTTP client of the API server: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("pause: address of the API server %q: %w", config.Host, err)
	}
	s := &source{http: client, url: strings.TrimSuffix(base.String(), "/") + path, decode: decode}
	return func(ctx context.Context) ([]judging.Pause, error) { return s.read(ctx, config.UserAgent) }, nil
}

// read sends no resourceVersion: the API server then answers with the state of etcd, not with that
// of a cache that may be behind.
func (s *source) read(ctx context.Context, agent string) ([]judging.Pause, error) {
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
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case len(data) > maxBody:
		return nil, fmt.Errorf("the answer is larger than %d bytes", maxBody)
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNotFound:
		var status metav1.Status
		_ = json.Unmarshal(data, &status) // A body that is no Status has no message.
		return nil, action.Describe(resp.StatusCode, status.Reason, status.Message)
	}
	pauses, err := s.decode(resp.StatusCode, data)
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
