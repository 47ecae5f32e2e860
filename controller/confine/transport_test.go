package confine_test

import (
	"errors"
	"net/http"
	"testing"

	"curfew.dev/curfew/controller/confine"
)

type sent struct{ requests int }

func (s *sent) RoundTrip(*http.Request) (*http.Response, error) {
	s.requests++
	return &http.Response{StatusCode: http.StatusOK}, nil
}

// Nothing outside of the namespaces is reached, however close its name or path is (S1).
func TestTransport(t *testing.T) {
	const (
		jobs  = "/apis/batch/v1/namespaces/"
		lease = "/apis/coordination.k8s.io/v1/namespaces/curfew-system/leases"
	)
	for name, test := range map[string]struct {
		method, path string
		allowed      bool
	}{
		"delete in a listed namespace":                  {"DELETE", jobs + "team-a/jobs/x", true},
		"list and watch in a listed namespace":          {"GET", jobs + "team-b/jobs?watch=true", true},
		"status in a listed namespace":                  {"PATCH", jobs + "team-a/jobs/x/status", true},
		"read a listed Namespace":                       {"GET", "/api/v1/namespaces/team-a", true},
		"discovery":                                     {"GET", "/apis/batch/v1", true},
		"version":                                       {"GET", "/version", true},
		"what may I do":                                 {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", true},
		"the lease":                                     {"PUT", lease + "/curfew-controller", true},
		"an Event in a listed namespace":                {"POST", "/api/v1/namespaces/team-a/events", true},
		"the namespace next door":                       {"DELETE", jobs + "team-c/jobs/x", false},
		"a name that begins alike":                      {"DELETE", jobs + "team-a2/jobs/x", false},
		"a name that is a part":                         {"DELETE", jobs + "team/jobs/x", false},
		"a name in capitals":                            {"DELETE", jobs + "TEAM-A/jobs/x", false},
		"a namespace named as an object":                {"DELETE", jobs + "team-c/jobs/team-a", false},
		"a path that leaves a listed namespace":         {"DELETE", jobs + "team-a/../team-c/jobs/x", false},
		"the same, escaped":                             {"DELETE", jobs + "team-a/%2e%2e/team-c/jobs/x", false},
		"a doubled slash":                               {"DELETE", jobs + "team-a//jobs/x", false},
		"all of a kind":                                 {"DELETE", "/apis/batch/v1/jobs", false},
		"read all of a kind":                            {"GET", "/apis/batch/v1/jobs", false},
		"an old watch path":                             {"GET", "/apis/batch/v1/watch/jobs", false},
		"an old watch path, next door":                  {"GET", "/apis/batch/v1/watch/namespaces/team-c/jobs", false},
		"a listed Namespace itself":                     {"DELETE", "/api/v1/namespaces/team-a", false},
		"change a listed Namespace":                     {"PATCH", "/api/v1/namespaces/team-a", false},
		"its status":                                    {"PATCH", "/api/v1/namespaces/team-a/status", false},
		"finalize a listed Namespace":                   {"PUT", "/api/v1/namespaces/team-a/finalize", false},
		"all Namespaces":                                {"GET", "/api/v1/namespaces", false},
		"another Namespace":                             {"GET", "/api/v1/namespaces/team-c", false},
		"a cluster-scoped object named as a listed one": {"DELETE", "/api/v1/nodes/team-a", false},
		"webhook configurations":                        {"POST", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", false},
		"a review in a listed namespace":                {"POST", "/apis/authorization.k8s.io/v1/namespaces/team-a/localsubjectaccessreviews", true},
		"a review in another namespace":                 {"POST", "/apis/authorization.k8s.io/v1/namespaces/team-c/localsubjectaccessreviews", false},
		"a review for the whole cluster":                {"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", false},
		"the lease, deleted":                            {"DELETE", lease + "/curfew-controller", false},
		"all leases, deleted":                           {"DELETE", lease, false},
		"Secrets next to Curfew":                        {"GET", "/api/v1/namespaces/curfew-system/secrets/x", false},
		"a Job next to Curfew":                          {"DELETE", jobs + "curfew-system/jobs/x", false},
		"a write to no resource":                        {"POST", "/healthz", false},
	} {
		t.Run(name, func(t *testing.T) {
			next := &sent{}
			transport := confine.Options{Namespaces: []string{"team-a", "team-b"}, Own: "curfew-system"}.Wrap(next)
			request, err := http.NewRequestWithContext(t.Context(), test.method, "https://cluster"+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := transport.RoundTrip(request)
			if response != nil && response.Body != nil {
				_ = response.Body.Close()
			}
			if got := next.requests == 1; got != test.allowed {
				t.Errorf("sent: %t, want %t", got, test.allowed)
			}
			if errors.Is(err, confine.ErrOutside) == test.allowed {
				t.Errorf("error: %v", err)
			}
		})
	}
}
