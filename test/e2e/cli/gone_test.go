package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"curfew.dev/curfew/policy/wellknown"
)

// TestWhoDeletedMyJob: explain answers for objects that Curfew deleted by what they asked for
// themselves, also to those who may see this namespace alone, and says so where no record is found.
func TestWhoDeletedMyJob(t *testing.T) {
	w := laid(t)
	w.space(t, "who", nil)
	kubeconfig := developer(t, "who")
	w.job(t, finishedJob("who", "mine", time.Now().Add(-time.Minute), 1))
	w.configMap(t, "who", "scratch", map[string]string{wellknown.LabelTTL: "1s"})
	w.gone(t, "jobs", "who", "mine")
	w.gone(t, "configmaps", "who", "scratch")
	for object, want := range map[string]string{
		"job/mine":   "job.batch/mine in namespace who does not exist: Curfew deleted it at ",
		"cm/scratch": "by its TTL label\n",
	} {
		var last answer
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
			last = typed(t, line{text: "kubectl curfew explain " + object, kubeconfig: kubeconfig})
			return last.code == 0 && strings.Contains(last.stdout, want), nil
		})
		cancel()
		if err != nil {
			t.Errorf("%s: exit status %d: %s%s", object, last.code, last.stdout, last.stderr)
		}
	}
	if got := typed(t, line{text: "kubectl curfew explain job/never-there", kubeconfig: kubeconfig}); got.code != 2 ||
		!strings.Contains(got.stderr, "no record of its deletion by Curfew remains") || !strings.Contains(got.stderr, "you may not list Events in namespace default") {
		t.Errorf("exit status %d: %s%s", got.code, got.stdout, got.stderr)
	}
	if got := kubectl(t, "get events -n who --field-selector reason=Deleted").stdout; !strings.Contains(got, "namespace/who") || !strings.Contains(got, "1 x Job by ttl") || !strings.Contains(got, "who/mine") {
		t.Errorf("the Events:\n%s", got)
	}
}
