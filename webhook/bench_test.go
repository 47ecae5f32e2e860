package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// capturedReview is the review of a new Job as an API server wrote it, managedFields included.
func capturedReview(t testing.TB) []byte {
	t.Helper()
	body, err := os.ReadFile("testdata/review-job.json")
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// sink is a ResponseWriter that keeps nothing but the status.
type sink struct {
	header http.Header
	status int
	size   int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
}
func (s *sink) Write(p []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	s.size += len(p)
	return len(p), nil
}

// BenchmarkReview is what a review costs between net/http and net/http: reading, judging and
// answering. "noop" is the handler that only says allowed, for comparison. Over TLS, and beside
// others, it is measured by test/bench.
func BenchmarkReview(b *testing.B) {
	body := capturedReview(b)
	run := func(name, path string, handler http.Handler) {
		b.Run(name, func(b *testing.B) {
			reader := bytes.NewReader(nil)
			b.ReportAllocs()
			for b.Loop() {
				reader.Reset(body)
				request, err := http.NewRequest(http.MethodPost, "https://curfew"+path, reader)
				if err != nil {
					b.Fatal(err)
				}
				request.Header["Content-Type"] = []string{"application/json"}
				w := sink{header: http.Header{}}
				handler.ServeHTTP(&w, request)
				if w.status != http.StatusOK || w.size == 0 {
					b.Fatalf("HTTP %d", w.status)
				}
			}
		})
	}
	run("noop", "/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Request struct {
				UID types.UID `json:"uid"`
			} `json:"request"`
		}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			b.Fatal(err)
		}
		_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{Response: &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}})
	}))
	for _, count := range []int{0, 10, 100} {
		known, err := platform.New(builtinProfiles(b))
		if err != nil {
			b.Fatal(err)
		}
		for _, object := range builders.LifecyclePolicies(count) {
			if errs := known.SetPolicy(object); len(errs) > 0 {
				b.Fatal(errs)
			}
		}
		w, err := New(Options{
			Platform: known, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(), Logger: logr.Discard(),
			Namespaces: goldenNamespaces{"bench-curfew": resolution.ParseNamespace("bench-curfew",
				map[string]string{wellknown.AnnotationDefaultTTL: "1d"}, map[string]string{builders.LabelTeam: builders.TeamPayments})},
		})
		if err != nil {
			b.Fatal(err)
		}
		mux := http.NewServeMux()
		w.Register(mux.Handle)
		for _, path := range []string{PathMutate, PathValidate} {
			run(fmt.Sprintf("%s/%d", path[1:], count), path, mux)
		}
	}
}
