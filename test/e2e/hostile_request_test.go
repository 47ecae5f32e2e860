package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// many is how many keys or members an object has. 40,000 cost the API server itself seconds of CPU,
// which the other tests need: HOSTILE=full has them.
var many = map[bool]int{true: 40_000, false: 8_000}[os.Getenv("HOSTILE") == "full"]

// hostile is a request that no client library would send.
type hostile struct {
	method, path string
	contentType  string // empty: JSON
	body         []byte
	as           string // who sends it; empty: the administrator
	token        string // of the ServiceAccount that sends it, in the place of the administrator
}

// reply is how the API server answered.
type reply struct {
	code     int
	message  string // of a Status
	body     []byte
	warnings []string
	took     time.Duration
}

// refused reports whether a webhook of Curfew denied the request.
func (r reply) refused() bool {
	return r.code >= 400 && r.code < 500 && strings.Contains(r.message, `curfew.dev" denied the request`)
}

func (r reply) String() string {
	return fmt.Sprintf("%d after %s: %s %q", r.code, r.took.Round(time.Millisecond), cut(r.message), r.warnings)
}

// cut is the beginning of a text that may be a megabyte long.
func cut(text string) string {
	if len(text) > 300 {
		return text[:300] + "…"
	}
	return text
}

// send sends a request as it is. One that a busy webhook refuses with 429 is sent again when it
// says, as any client would do.
func (s *space) send(request hostile) reply {
	s.Helper()
	config := suite.cluster.Config
	if request.as != "" {
		config = rest.CopyConfig(config)
		config.Impersonate.UserName = request.as
	}
	if request.token != "" {
		config = rest.AnonymousClientConfig(config)
		config.BearerToken = request.token
	}
	client, err := rest.HTTPClientFor(config)
	s.ok(err)
	for {
		got := s.sendOnce(client, config.Host, request)
		if got.code != http.StatusTooManyRequests {
			return got
		}
		s.Logf("note: %s %s: %s", request.method, request.path, got)
		s.ok(s.ctx.Err())
	}
}

func (s *space) sendOnce(client *http.Client, host string, request hostile) reply {
	s.Helper()
	r, err := http.NewRequestWithContext(s.ctx, request.method, host+request.path, bytes.NewReader(request.body))
	s.ok(err)
	r.Header.Set("Content-Type", "application/json")
	if request.contentType != "" {
		r.Header.Set("Content-Type", request.contentType)
	}
	from := time.Now()
	response, err := client.Do(r)
	s.ok(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	s.ok(err)
	out := reply{code: response.StatusCode, body: body, took: time.Since(from), warnings: response.Header.Values("Warning")}
	var status metav1.Status
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" {
		out.message = status.Message
	}
	return out
}

// refusesHostile sends a request that a rule forbids, and fails the test unless a webhook of Curfew
// denied it, in time, with a message that names the field and is short.
func (s *space) refusesHostile(what string, request hostile, field string) reply {
	s.Helper()
	got := s.send(request)
	// On a busy machine the API server may give up on the whole request, which then admits nothing.
	for tries := 0; got.code == http.StatusGatewayTimeout && tries < 5; tries++ {
		got = s.send(request)
	}
	switch {
	case !got.refused():
		s.Errorf("%s was not refused: %s", what, got)
	case !strings.Contains(got.message, field):
		s.Errorf("%s: the refusal does not name %s: %s", what, field, got)
	case len(got.message) > 4096:
		s.Errorf("%s: the refusal has %d bytes", what, len(got.message))
	}
	return got
}

// jobsPath and the others are where objects of the space are created.
func (s *space) jobsPath() string { return "/apis/batch/v1/namespaces/" + s.name + "/jobs" }
func (s *space) podsPath() string { return "/api/v1/namespaces/" + s.name + "/pods" }
func (s *space) ownPath() string  { return "/api/v1/namespaces/" + s.name }
func (s *space) creation(path string, object any) hostile {
	s.Helper()
	var body bytes.Buffer
	plain := json.NewEncoder(&body)
	plain.SetEscapeHTML(false) // a client that wants an object to be large when it is escaped sends it as it is
	s.ok(plain.Encode(object))
	return hostile{method: http.MethodPost, path: path, body: body.Bytes()}
}

func merge(path, patch string) hostile {
	return hostile{method: http.MethodPatch, path: path, contentType: "application/merge-patch+json", body: []byte(patch)}
}

// crowd adds so many annotations with short keys, which take less than the 256 KiB that the API
// server allows.
func crowd(annotations map[string]string, count int) map[string]string {
	out := make(map[string]string, count+len(annotations))
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for i := range count {
		out[string([]byte{letters[i/62/62], letters[i/62%62], letters[i%62]})] = ""
	}
	for key, value := range annotations {
		out[key] = value
	}
	return out
}

// members is a JSON object with so many members of different names.
func members(count int) string {
	var b strings.Builder
	b.WriteString(`{`)
	for i := range count {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"member` + strconv.Itoa(i) + `":` + strconv.Itoa(i))
	}
	return b.String() + `}`
}

// nested is an array in an array, and so on, so many deep.
func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
