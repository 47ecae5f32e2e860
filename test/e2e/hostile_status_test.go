package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// A user who may change nothing else can change metadata through a status subresource: the rules
// apply there too, and other status writes cost no review.
func TestHostileStatusWrites(t *testing.T) {
	s := bounded(t)
	s.may("ann", "create", "get") // no patch, no delete
	s.expectSuccess(s.kubectl("create", "role", "status", "--verb=patch,update", "--resource=jobs.batch/status,pods/status"))
	s.expectSuccess(s.kubectl("create", "rolebinding", "status", "--role=status", "--user=ann"))
	s.newJob(job("victim", native(time.Hour), byTest))
	s.newPod(pod("victim", corev1.RestartPolicyNever, hold, "true"))
	as := func(request hostile) hostile { request.as = "ann"; return request }
	annotate := func(key, value string) string { return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value) }
	label := func(value string) string { return fmt.Sprintf(`{"metadata":{"labels":{"curfew.dev/ttl":%q}}}`, value) }
	for kind, path := range map[string]string{"a Job": s.jobsPath() + "/victim/status", "a Pod": s.podsPath() + "/victim/status"} {
		s.refusesHostile(kind+"'s TTL", as(merge(path, annotate(wellknown.AnnotationTTL, "30d"))), wellknown.AnnotationTTL)
		s.refusesHostile(kind+"'s label", as(merge(path, label("30d"))), wellknown.LabelTTL)
		s.refusesHostile(kind+"'s unreadable TTL", as(merge(path, annotate(wellknown.AnnotationTTL, "soon"))), wellknown.AnnotationTTL)
		if got := s.send(as(merge(path, label("1d")))); !strings.Contains(strings.Join(got.warnings, "\n"), "but you may not delete it yourself") {
			t.Errorf("%s's label of one who may not delete: %s", kind, got)
		}
	}
	for _, subresource := range []string{"/status", "/finalize"} {
		for key, value := range map[string]string{wellknown.AnnotationMaxTTL: "soon", wellknown.AnnotationMode: "off", wellknown.AnnotationDefaultTTL: "-1"} {
			request := merge(s.ownPath()+subresource, annotate(key, value))
			if subresource == "/finalize" { // takes no patch
				current, err := suite.cluster.Client.CoreV1().Namespaces().Get(s.ctx, s.name, metav1.GetOptions{})
				s.ok(err)
				current.APIVersion, current.Kind, current.Annotations[key] = "v1", "Namespace", value
				request = s.creation(s.ownPath()+subresource, current)
				request.method = http.MethodPut
			}
			s.refusesHostile("a Namespace's "+key+" through "+subresource, request, key)
		}
	}
	// A binding's annotations become the Pod's.
	unbound := pod("unbound", corev1.RestartPolicyNever)
	unbound.Spec.SchedulerName = "absent"
	uid := s.newPod(unbound).UID
	binding := `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"unbound","uid":"` + string(uid) + `","annotations":{"curfew.dev/ttl-after-finished":"30d"}},"target":{"kind":"Node","name":"node-0"}}`
	s.refusesHostile("a binding", hostile{method: http.MethodPost, path: s.podsPath() + "/unbound/binding", body: []byte(binding)}, wellknown.AnnotationTTL)
}
