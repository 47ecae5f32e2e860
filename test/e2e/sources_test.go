package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/record"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// forbid answers all DELETEs in a namespace as an authorizer would, until it is lifted.
func (s *space) forbid() (lift func()) {
	var lifted atomic.Bool
	remove := suite.proxy.Handle(func(w http.ResponseWriter, r *http.Request) bool {
		_, namespace, _ := harness.Target(r.URL.Path)
		if lifted.Load() || r.Method != http.MethodDelete || namespace != s.name {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		// The client may be gone, which is its affair.
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
			Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "forbidden by a test"})
		return true
	})
	s.Cleanup(remove)
	return func() { lifted.Store(true) }
}

// eventAbout waits for an Event on a cluster-scoped object with a reason and, in its message, the
// words.
func (s *space) eventAbout(kind, name, reason string, words ...string) {
	s.Helper()
	s.eventWith(kind, name, reason, func(message string) bool {
		return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(message, word) })
	})
}

// eventWith waits for an Event on a cluster-scoped object with a reason and a message that is the
// wanted one.
func (s *space) eventWith(kind, name, reason string, wanted func(message string) bool) {
	s.Helper()
	events, err := suite.cluster.Client.CoreV1().Events(metav1.NamespaceDefault).Watch(s.ctx, metav1.ListOptions{
		FieldSelector:     fmt.Sprintf("involvedObject.kind=%s,involvedObject.name=%s,reason=%s", kind, name, reason),
		SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
	})
	s.ok(err)
	defer events.Stop()
	last := "none"
	for change := range events.ResultChan() {
		event, ok := change.Object.(*corev1.Event)
		if !ok || event.Name == "" {
			continue
		}
		if last = event.Message; !wanted(last) {
			continue
		}
		if event.InvolvedObject.UID == "" {
			s.Errorf("Event %s has no UID, so that kubectl describe does not show it", event.Name)
		}
		if reason == record.Reason && len(record.Read(event.Annotations)) == 0 {
			s.Errorf("Event %s lists no object in its annotation %s", event.Name, wellknown.AnnotationDeleted)
		}
		return
	}
	s.Fatalf("no Event %s on %s %s has the message; the last was %q", reason, kind, name, last)
}

// A source whose deletions are refused says so in a condition and an Event, and the metric counts
// it; so does that they go on. What was deleted is one Event on the source.
func TestSourcesAreTold(t *testing.T) {
	parallel(t)
	const pods = 6 // one more than opens the breaker
	for name, source := range map[string]func(*space) (kind, name, class string){
		"namespace": func(s *space) (string, string, string) {
			s.expectSuccess(s.kubectl("annotate", "namespace", s.name, wellknown.AnnotationDefaultTTL+"=1s"))
			return "Namespace", s.name, "namespace"
		},
		"policy": func(s *space) (string, string, string) {
			name := s.policy("told", "kinds: [{kind: Pod}]", `defaults: {ttl: {value: 1s}}`)
			return "LifecyclePolicy", name, "policy"
		},
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s := newSpace(t)
			lift := s.forbid()
			kind, name, class := source(s)
			condition := map[string]string{"Namespace": "curfew.dev/Paused", "LifecyclePolicy": "Paused"}[kind]
			var last metav1.Object
			for i := range pods {
				// An object created before the default applies gets none.
				s.eventuallyDefaulted(fmt.Sprintf("pod-%d", i))
				last = s.getPod(fmt.Sprintf("pod-%d", i))
			}
			s.expectSuccess(s.kubectl("wait", strings.ToLower(kind)+"/"+name, "--for=condition="+condition, "--timeout=10m"))
			s.eventAbout(kind, name, "Refused", "deletions are paused", "Pod of source", s.name)
			series := `curfew_paused_scopes{class="` + class + `"}`
			if open, err := strconv.Atoi(metric(t, s.ctx, series)); err != nil || open < 1 {
				t.Errorf("%s is %d (%v), want at least 1", series, open, err)
			}
			lift()
			s.awaitGone(last)
			s.expectSuccess(s.kubectl("wait", strings.ToLower(kind)+"/"+name, "--for=condition="+condition+"=false", "--timeout=10m"))
			s.eventAbout(kind, name, "DeletionsResumed", "deletions resumed", s.name)
			s.eventWith(kind, name, "Deleted", func(message string) bool {
				// All in one summary, or in two that add up.
				all, sum := fmt.Sprintf("Deleted %d x Pod", pods), fmt.Sprintf("(%d since ", pods)
				return strings.Contains(message, " x Pod by ttl: "+s.name+"/pod-") && (strings.Contains(message, all) || strings.Contains(message, sum))
			})
		})
	}
}

// eventuallyDefaulted creates a Pod as soon as it is given a default.
func (s *space) eventuallyDefaulted(name string) {
	s.Helper()
	for s.ctx.Err() == nil {
		created := s.newPod(pod(name, corev1.RestartPolicyNever))
		if created.Annotations[wellknown.AnnotationTTLSource] != "" {
			return
		}
		s.expectSuccess(s.kubectl("delete", "pod", name, "--force"))
	}
	s.Fatal("no Pod is given the default")
}
