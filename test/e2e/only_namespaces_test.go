package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

// A controller with the Roles of manifests/overlays/namespaced and no ClusterRole deletes due
// objects in its namespace and none next door, where it has the same Role by mistake. It applies
// the policy of a file, and the deadline and TTL of a kind whose profile is in a file.
// (nothingForbidden sees its requests, too.) The other controller does not run meanwhile.
func TestOnlyNamespaces(t *testing.T) {
	home, in, out := newSpace(t), newSpace(t), newSpace(t)
	in.newRuns()
	in.ok(suite.controller.Stop(in.ctx))
	defer func() { in.ok(startController(in.ctx)) }()
	home.applyOverlay("namespaced/roles.yaml", home.name, "")
	for _, s := range []*space{in, out} {
		s.applyOverlay("namespaced/team.yaml", home.name, s.name)
		s.expectSuccess(s.kubectl("create", "role", "labels", "--verb=get,list,watch,delete", "--resource=configmaps"))
		s.expectSuccess(s.kubectl("create", "role", "runs", "--verb=get,list,watch,delete,patch", "--resource=runs.deadline.example.com,runs.deadline.example.com/status"))
		s.expectSuccess(s.kubectl("create", "rolebinding", "runs", "--role=runs", "--serviceaccount="+home.name+":curfew-controller"))
		s.expectSuccess(s.kubectl("create", "rolebinding", "labels", "--role=labels", "--serviceaccount="+home.name+":curfew-controller"))
	}

	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("..", "..", "manifests", "overlays", "namespaced", "policy.yaml"))
	in.ok(err)
	text = []byte(strings.ReplaceAll(string(text), "minTTL: 1m", "minTTL: 8s")) // The test does not wait for a minute.
	in.ok(os.WriteFile(filepath.Join(dir, "policy.yaml"), text, 0o600))
	// The kind and its profile; between them is the ClusterRole of the other controller.
	runs := strings.Split(runKind, "\n---\n")
	in.ok(os.WriteFile(filepath.Join(dir, "runs.yaml"), []byte(runs[0]+"\n---\n"+runs[2]), 0o600))
	in.follow("ConfigMap", configMaps)
	out.follow("ConfigMap", configMaps)

	expiry := in.ahead(12 * second)
	jobOut := out.finishJob("due", now().Add(-90*second), ttl(9*second))
	labelOut := out.newConfigMap("due", wellknown.LabelTTL, until(expiry.Add(-6*second)))
	podOut := out.newPod(pod("due", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "1s"))
	protected := in.finishJob("protected", now().Add(-90*second), ttl(9*second), annotated(wellknown.AnnotationProtect, "true"))
	tooSoon := in.finishJob("too-soon", now().Add(-30*second), ttl(second))
	jobIn := in.finishJob("due", now().Add(-90*second), ttl(9*second))
	podIn := in.newPod(pod("due", corev1.RestartPolicyNever, wellknown.AnnotationTTL, "1s"))
	labelIn := in.newConfigMap("due", wellknown.LabelTTL, until(expiry))
	for _, s := range []*space{in, out} {
		s.run("late", activeDeadline+`"2s"`, "")
		s.run("done", `"`+wellknown.AnnotationTTL+`": "1s"`, "")
		s.setStatus("done", `{"conditions":[{"type":"Complete","status":"True","reason":"Done","lastTransitionTime":"`+now().UTC().Format(time.RFC3339)+`"}]}`)
	}

	leftIn, leftOut := in.leftByTally(), out.leftByTally()
	curfew, err := suite.cluster.StartController(in.ctx, harness.CurfewOptions{Name: "only", Home: home.name,
		Args: []string{"--only-namespaces=" + in.name, "--config-dir=" + dir}})
	in.ok(err)
	defer func() { in.ok(curfew.Stop(in.ctx)) }()
	in.awaitLog(curfew.Log, "working in listed namespaces only", in.name)
	in.awaitGone(jobIn)
	in.awaitGone(podIn)
	in.notEarly(in.awaitDeletion(labelIn), expiry)
	if got, want := in.awaitRun("late", "condition=Failed").conditions(), "Failed=True/DeadlineExceeded"; got != want {
		t.Errorf("at its deadline, the Run has the conditions %q, want %q", got, want)
	}
	in.expectSuccess(in.kubectl("wait", "run.deadline.example.com/done", "--for=delete", "--timeout=10m"))
	in.expectSuccess(in.kubectl("wait", leftIn, "--for=delete", "--timeout=10m"))
	out.expectSuccess(out.kubectl("get", leftOut))
	in.stillThere(protected)
	in.stillThere(tooSoon) // The policy of the file rejects its TTL.
	out.stillThere(jobOut)
	out.stillThere(podOut)
	out.stillThere(labelOut)
	if got := out.getRun("late").conditions() + out.getRun("done").conditions(); got != "Complete=True/Done" {
		t.Errorf("next door, the Runs have the conditions %q", got)
	}

	settings := in.expectSuccess(in.kubectl("get", "configmap", "curfew-settings", "--namespace="+home.name, "-o", "yaml")).stdout
	for _, want := range []string{"only-namespaces: " + in.name, "enable: ttl,label,deadline"} {
		if !strings.Contains(settings, want) {
			t.Errorf("settings lack %q:\n%s", want, settings)
		}
	}
}

// leftByTally makes a Pod that is being deleted, and that only the finalizer of PodTallies keeps.
// There is none any more.
func (s *space) leftByTally() string {
	s.newPod(pod("left", corev1.RestartPolicyNever))
	s.expectSuccess(s.kubectl("patch", "pod/left", "--type=merge", "-p", `{"metadata":{"finalizers":["`+wellknown.FinalizerTally+`"]}}`,
		"--as=system:serviceaccount:"+harness.Namespace+":curfew-controller")) // Nobody else may.
	s.expectSuccess(s.kubectl("delete", "pod/left", "--wait=false"))
	return "pod/left"
}
