package cli

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/wellknown"
)

// TestOthersAreNamed: explain and expiring name who else deletes an object, whose protection does
// not stop them: Kubernetes by the native field, the namespace controller, and the garbage
// collector. Their advice against Kubernetes helps.
func TestOthersAreNamed(t *testing.T) {
	w := laid(t)
	w.space(t, "pr-42", nil)
	w.configMap(t, "pr-42", "settings", nil)
	shielded := finishedJob("pr-42", "shielded", time.Now(), 7200)
	shielded.SetAnnotations(map[string]string{wellknown.AnnotationProtect: "true"})
	w.job(t, shielded)
	job, err := w.get(t.Context(), "jobs", "pr-42", "shielded")
	if err != nil {
		t.Fatal(err)
	}
	w.configMap(t, "pr-42", "log", nil)
	reference := `[{"apiVersion":"batch/v1","kind":"Job","name":"shielded","uid":"` + string(job.GetUID()) + `"}]`
	if _, err := w.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("pr-42").Patch(t.Context(), "log",
		types.MergePatchType, []byte(`{"metadata":{"ownerReferences":`+reference+`}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	explains(t, "cm/settings -n pr-42", "stays: it has no TTL label")
	const kubernetes = "Kubernetes' TTL-after-finished controller deletes it by ttlSecondsAfterFinished 7200 (2h), whatever keeps Curfew from it"
	explains(t, "job/shielded -n pr-42", kubernetes)
	explains(t, "cm/log -n pr-42", "is deleted with Job shielded at ")
	if got := kubectl(t, "curfew expiring -n pr-42 -o wide").stdout; !strings.Contains(got, "job.batch/shielded ") ||
		!strings.Contains(got, "Kubernetes' TTL-after-finished controller deletes it by ttlSecondsAfterFinished; is protected by annotation curfew.dev/protect") {
		t.Errorf("the table:\n%s", got)
	}
	kubectl(t, "label namespace pr-42 curfew.dev/ttl=1d")
	// As installed, the controller may not delete Namespaces, and whatever lies in this one stays.
	explains(t, "namespace/pr-42", "may not delete namespaces here")
	if got := kubectl(t, "curfew explain cm/settings -n pr-42").stdout; !strings.Contains(got, "stays: it has no TTL label") {
		t.Errorf("the answer:\n%s", got)
	}
	kubectl(t, "create clusterrole curfew-controller-namespaces --verb=get,list,watch,delete --resource=namespaces")
	kubectl(t, "label clusterrole curfew-controller-namespaces curfew.dev/aggregate-to-controller=true")
	defer kubectl(t, "delete clusterrole curfew-controller-namespaces")
	explains(t, "cm/settings -n pr-42", "configmap/settings in namespace pr-42 is deleted with Namespace pr-42 at ")
	if got := kubectl(t, "curfew expiring -n pr-42 --no-headers").stdout; !strings.Contains(got, "namespace/pr-42 ") {
		t.Errorf("the table:\n%s", got)
	}
	_, advice, _ := strings.Cut(kubectl(t, "curfew explain job/shielded -n pr-42").stdout, "To change it\n   ")
	advised, _, _ := strings.Cut(advice, "\n")
	if got := typed(t, line{text: advised}); got.code != 0 {
		t.Fatalf("%s: %s", advised, got.stderr)
	}
	kubectl(t, "label namespace pr-42 curfew.dev/ttl-")
	explains(t, "job/shielded -n pr-42", "job.batch/shielded in namespace pr-42 stays: see what blocks it")
	explains(t, "cm/log -n pr-42", "stays: it has no TTL label")
	// A node concerns everybody: no role, and no label, is suggested.
	if got := kubectl(t, "curfew explain clusterrole/view").stdout; !strings.Contains(got, "nothing can be done about it here") {
		t.Errorf("the answer:\n%s", got)
	}
}
