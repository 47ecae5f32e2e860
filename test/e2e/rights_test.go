package e2e

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// Where Curfew may read a kind everywhere and delete it in one namespace, what it may not delete is
// kept, the namespace says so, and nothing else waits.
func TestRightsByNamespace(t *testing.T) {
	parallel(t)
	here, there := newSpace(t), newSpace(t)
	r := render{"rights.e2e.example.com"}
	suite.revoked.Store(r.group, true)
	here.apply(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: e2e-` + r.group + `, labels: {curfew.dev/aggregate-to-controller: "true"}},
rules: [{apiGroups: [` + r.group + `], resources: [renders], verbs: [get, list, watch]}]}`)
	here.apply(r.definition())
	here.apply(r.profile())
	here.awaitRule(r.group)
	grant := func(s *space) {
		s.expectSuccess(s.kubectl("create", "role", "renders", "--verb=delete", "--resource=renders."+r.group))
		s.expectSuccess(s.kubectl("create", "rolebinding", "renders", "--role=renders", "--serviceaccount="+harness.Namespace+":curfew-controller"))
	}
	grant(here)
	due := `, "annotations": {"` + wellknown.AnnotationTTL + `": "1s"}}, "status": {"done": true, "doneAt": "` + now().UTC().Format(time.RFC3339) + `"}`
	there.expectSuccess(there.kubectlInput(r.object("due", due), "create", "-f", "-"))
	there.eventAbout("Namespace", there.name, "Forbidden", "Render in namespace", "which Curfew may not delete there")
	there.expectSuccess(there.kubectl("wait", "namespace/"+there.name, "--for=condition=curfew.dev/Paused", "--timeout=10m"))

	here.expectSuccess(here.kubectlInput(r.object("due", due), "create", "-f", "-"))
	here.expectSuccess(here.kubectl("wait", "renders."+r.group+"/due", "--for=delete", "--timeout=10m"))
	there.awaitGone(there.newPod(pod("due", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "1s")))
	there.expectSuccess(there.kubectl("get", "renders."+r.group, "due"))

	grant(there)
	there.expectSuccess(there.kubectl("wait", "renders."+r.group+"/due", "--for=delete", "--timeout=10m"))
	there.expectSuccess(there.kubectl("wait", "namespace/"+there.name, "--for=condition=curfew.dev/Paused=false", "--timeout=10m"))
}
