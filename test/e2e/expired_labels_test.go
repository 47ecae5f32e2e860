package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

const restoredDate = "2020-12-24 expired at 2020-12-24T00:00:00Z, before the "

// A label that is expired when it is set deletes nothing: not the object that outlived it, and not
// one that is restored with the date of then. What the request does not set passes.
func TestExpiredLabels(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	old := s.newConfigMap("old")
	kept := labelledAs("v1", "ConfigMap", "kept", wellknown.LabelTTL, "1s")
	kept["metadata"].(map[string]any)["annotations"] = map[string]any{wellknown.AnnotationProtect: "true"}
	s.expectSuccess(s.kubectlInput(s.manifest(kept), "create", "-f", "-"))
	s.outlastLabel(old.GetCreationTimestamp().Add(2 * second))

	refused := s.kubectl("label", "configmap", "old", wellknown.LabelTTL+"=1s")
	remedies := fmt.Sprintf(`: Curfew would delete the ConfigMap at once; use a later one, or run "kubectl delete configmap/old -n %[1]s" or "kubectl curfew expire-now configmap/old -n %[1]s"`, s.name)
	if !refused.failed || !strings.Contains(refused.stderr, labelField+"1s expired at ") || !strings.Contains(refused.stderr, remedies) {
		t.Errorf("1s on an older object: %s", refused.stderr)
	}
	s.expectStderr(s.kubectl("label", "configmap", "old", wellknown.LabelTTL+"=1d"))
	s.expectStderr(s.kubectl("label", "configmap", "kept", "team=blue")) // Its label expired, and this request does not set it.
	s.expectStderr(s.kubectl("annotate", "configmap", "kept", wellknown.AnnotationProtect+"-"),
		warned(labelField+"1s is under 60s: the ConfigMap is deleted 1s after its creation; use 60s or more"))
	s.poll("what lost its protection to be deleted", func(context.Context) (bool, error) {
		return s.kubectl("get", "configmap", "kept").failed, nil
	})
	s.wouldCreate(
		row{labelledAs("v1", "ConfigMap", "restored", wellknown.LabelTTL, "2020-12-24"), denied("validate-labels.curfew.dev", labelField+restoredDate+"ConfigMap was created: use a later one")},
		row{job("restored", labelled("2020-12-24")), denied("validate-marked.curfew.dev", labelField+restoredDate+"Job was created: use a later one")},
	)
	s.stillThere(old)
}

// What a known controller creates for an owner is admitted all the same. Then Curfew keeps it: its
// label expired before it existed.
func TestExpiredLabelOfAChild(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	owner := s.newConfigMap("owner")
	child := labelledAs("v1", "ConfigMap", "child", wellknown.LabelTTL, "2020-12-24")
	child["metadata"].(map[string]any)["ownerReferences"] = []any{*metav1.NewControllerRef(owner, owner.GroupVersionKind())}
	s.expectStderr(s.kubectlInput(s.manifest(child), append([]string{"create", "-f", "-"}, byControllerManager...)...),
		warned(labelField+"admitted only because ConfigMap owner controls it: "+restoredDate+"ConfigMap was created: use a later one"))
	s.awaitKept("child", "2020-12-24 expired before the object was created")
	if sent := suite.proxy.Deletes(s.name, "child"); len(sent) != 0 {
		t.Errorf("DELETEs were sent: %+v", sent)
	}
}

// No object of Curfew's own kinds may have a TTL label, and one that came past admission stays,
// although Curfew may delete its kind.
func TestOwnKindsAreNeverDeleted(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	policies := v1alpha1.GroupVersion.WithResource(v1alpha1.LifecyclePolicies)
	s.grant("e2e-"+s.name, policies)
	s.awaitWatched("LifecyclePolicy."+policies.Group, true)
	own := func(name, ttl string) map[string]any {
		out := labelledAs(v1alpha1.GroupVersion.String(), "LifecyclePolicy", name, wellknown.LabelTTL, ttl)
		out["spec"] = map[string]any{"match": map[string]any{"namespaceSelector": map[string]any{"matchLabels": map[string]any{"kubernetes.io/metadata.name": "none"}}}, "warnBelow": "1m"}
		return out
	}
	const why = labelField + "Curfew never deletes a LifecyclePolicy by label: remove the label"
	for _, ttl := range []string{"1d", "2s"} {
		s.wouldCreate(row{own(s.name, ttl), denied("validate-labels.curfew.dev", why)})
	}
	owner := s.newConfigMap("owner")
	past := own(s.name, "2s")
	past["metadata"].(map[string]any)["ownerReferences"] = []any{*metav1.NewControllerRef(s.clusterRole("e2e-"+s.name), rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))}
	defer s.afterwards("delete", "lifecyclepolicy", s.name)
	s.expectStderr(s.kubectlInput(s.manifest(past), append([]string{"create", "-f", "-"}, byControllerManager...)...),
		warned(labelField+"admitted only because ClusterRole e2e-"+s.name+" controls it: Curfew never deletes a LifecyclePolicy by label: remove the label"))
	s.expectRefusal(s.kubectl("label", "--overwrite", "lifecyclepolicy", s.name, wellknown.LabelTTL+"=1d"),
		`Error from server (Forbidden): admission webhook "validate-labels.curfew.dev" denied the request: `+why)
	s.expectStderr(s.kubectl("label", "configmap", "owner", wellknown.LabelTTL+"="+until(s.ahead(5*second))))
	s.awaitGone(owner) // So the policy's label is over, too.
	s.expectSuccess(s.kubectl("get", "lifecyclepolicy", s.name))
	s.poll("an Event on the policy", func(ctx context.Context) (bool, error) {
		events, err := suite.cluster.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{FieldSelector: "reason=Kept,involvedObject.name=" + s.name})
		return err == nil && len(events.Items) > 0 && strings.Contains(events.Items[0].Message, "Curfew never deletes a LifecyclePolicy"), err
	})
}

// awaitKept waits for the Event on an object that is kept.
func (s *space) awaitKept(name, message string) {
	s.Helper()
	s.poll("an Event on "+name, func(ctx context.Context) (bool, error) {
		events, err := suite.cluster.Client.CoreV1().Events(s.name).List(ctx, metav1.ListOptions{FieldSelector: "reason=Kept,involvedObject.name=" + name})
		return err == nil && len(events.Items) > 0 && strings.Contains(events.Items[0].Message, message), err
	})
}

func (s *space) clusterRole(name string) metav1.Object {
	s.Helper()
	role, err := suite.cluster.Client.RbacV1().ClusterRoles().Get(s.ctx, name, metav1.GetOptions{})
	s.ok(err)
	return role
}
