package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// An admission policy denies the deletion of one Job. That is reported on the Job and by explain,
// delays no other, and ends with the policy.
func TestDeletionThatAPolicyDenies(t *testing.T) {
	parallel(t)
	s := newSpace(t)
	name := s.denyDeletion("batch", "jobs", "this Job is evidence")
	// The API server takes the policy up by and by.
	s.newJob(job("bad", inTemplate(hold, "true")))
	s.poll("the policy to hold", func(context.Context) (bool, error) {
		return s.kubectl("delete", "job", "bad", "--dry-run=server").failed, nil
	})
	s.expectSuccess(s.kubectl("label", "job", "bad", wellknown.LabelTTL+"="+until(s.ahead(5*second))))
	expiry := s.ahead(2 * second)
	s.notEarly(s.awaitDeletion(s.finishJob("good", expiry.Add(-second), ttl(second))), expiry)

	s.poll("an Event on the Job", func(ctx context.Context) (bool, error) {
		events, err := suite.cluster.Client.CoreV1().Events(s.name).List(ctx, metav1.ListOptions{FieldSelector: "reason=DeleteRefused,involvedObject.name=bad"})
		return err == nil && len(events.Items) > 0 && strings.Contains(events.Items[0].Message, "this Job is evidence"), err
	})
	s.awaitMetrics("the Job to count as blocked", func(text string) bool {
		return len(grep(text, `curfew_blocked_objects{reason="DeleteRefused"} 0`)) == 0
	})
	bad := s.getJob("bad")
	s.expectSuccess(s.kubectl("delete", "validatingadmissionpolicybinding", name))
	s.awaitGone(bad)
}

// denyDeletion has the API server deny the deletion of the object named bad, and returns the name of
// the policy and its binding.
func (s *space) denyDeletion(group, resource, message string) string {
	s.Helper()
	name := "e2e-" + s.name
	s.Cleanup(func() {
		s.afterwards("delete", "validatingadmissionpolicybinding", name, "--ignore-not-found")
		s.afterwards("delete", "validatingadmissionpolicy", name, "--ignore-not-found")
	})
	s.expectSuccess(s.kubectlInput(fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [%[3]q], apiVersions: [v1], operations: [DELETE], resources: [%[4]s]}]
  validations: [{expression: "oldObject.metadata.name != 'bad'", message: %[5]s}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[2]s}}}
`, name, s.name, group, resource, message), "create", "-f", "-"))
	return name
}
