package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/policy/wellknown"
)

// finishedJob is one that finished at an instant, with a TTL in its field.
func finishedJob(namespace, name string, t time.Time, ttl int64) *unstructured.Unstructured {
	since := t.UTC().Format(time.RFC3339)
	condition := func(kind string) any {
		return map[string]any{"type": kind, "status": "True", "lastTransitionTime": since}
	}
	out := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "batch/v1", "kind": "Job",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"restartPolicy": "Never",
			"containers": []any{map[string]any{"name": "main", "image": "busybox"}}}}},
		"status": map[string]any{"succeeded": int64(1), "startTime": since, "completionTime": since,
			"conditions": []any{condition("SuccessCriteriaMet"), condition("Complete")}},
	}}
	if ttl >= 0 {
		out.Object["spec"].(map[string]any)["ttlSecondsAfterFinished"] = ttl
	}
	return out
}

func (w *world) job(t *testing.T, job *unstructured.Unstructured) {
	t.Helper()
	if _, err := w.create(t.Context(), resources["jobs"], job); err != nil {
		t.Fatal(err)
	}
}

// TestLivesAreChanged: what the commands say they did is what the controller then does. Of four
// objects that are due in the same second one lives longer and one stays; one that was not due goes
// at once, and one that was asked about in a dry run is where it was.
func TestLivesAreChanged(t *testing.T) {
	w := laid(t)
	// On a busy machine the first seconds may be too few.
	for n, within := 1, 10*time.Second; !livesAreChanged(t, w, fmt.Sprintf("lives-%d", n), within); n++ {
		within *= 2
	}
}

// livesAreChanged reports whether all changes were made before the objects were due.
func livesAreChanged(t *testing.T, w *world, space string, within time.Duration) bool {
	w.space(t, space, nil)
	due := time.Now().Add(within).Truncate(time.Second)
	for _, name := range []string{"goes", "extended", "kept", "asked"} {
		w.configMap(t, space, name, map[string]string{wellknown.LabelTTL: label(due), "who": name})
	}
	w.job(t, finishedJob(space, "extended", due.Add(-5*time.Second), 5))
	w.job(t, finishedJob(space, "kept", due.Add(-5*time.Second), 5))
	w.configMap(t, space, "at-once", map[string]string{wellknown.LabelTTL: "2099-01-01"})
	says := func(text string, code int, stdout string) {
		t.Helper()
		got := typed(t, line{text: "kubectl curfew " + text + " -n " + space})
		if (got.code != code || got.stdout != stdout) && time.Now().Before(due) {
			t.Errorf("%s: exit status %d\n%s%s\nwant %d\n%s", text, got.code, got.stdout, got.stderr, code, stdout)
		}
	}
	was := due.UTC().Format(layout) + " UTC"
	later := due.Add(24*time.Hour).UTC().Format(layout) + " UTC"
	says("extend configmap/extended --by 1d", 0, "configmap/extended extended: "+later+" (was: "+was+")\n")
	says("extend job/extended --by 1d", 0, "job.batch/extended extended: "+later+" (was: "+was+")\n")
	says("keep configmap/kept", 0, "configmap/kept kept: stays (was: "+was+")\n")
	says("keep job/kept", 0, "job.batch/kept kept: stays (was: "+was+")\n")
	says("extend configmap/asked --by 1d --dry-run=server", 0, "configmap/asked extended: "+later+" (was: "+was+") (server dry run)\n")
	says("keep configmap/asked --dry-run=client", 0, "configmap/asked kept: stays (was: "+was+") (dry run)\n")
	if !time.Now().Before(due) {
		return false
	}
	got := kubectl(t, "curfew expire-now configmap/at-once -n "+space+" -o name")
	if got.stdout != "configmap/at-once\n" {
		t.Errorf("%q", got.stdout)
	}
	w.gone(t, "configmaps", space, "at-once")
	w.gone(t, "configmaps", space, "goes")
	w.gone(t, "configmaps", space, "asked")
	if early := time.Until(due); early > 0 {
		t.Errorf("gone %s early", early)
	}
	for _, name := range []string{"extended", "kept"} {
		for _, resource := range []string{"configmaps", "jobs"} {
			object, err := w.get(t.Context(), resource, space, name)
			if err != nil || object == nil || object.GetDeletionTimestamp() != nil {
				t.Errorf("%s %s is not there any more: %v", resource, name, err)
			}
		}
	}
	return true
}

// TestManyAreAskedAbout: on a terminal the preview asks before more than one object is changed, and
// no is the answer of who says nothing. Ctrl-C is no.
func TestManyAreAskedAbout(t *testing.T) {
	w := laid(t)
	w.space(t, "many", nil)
	for _, name := range []string{"a", "b", "c"} {
		w.configMap(t, "many", name, map[string]string{wellknown.LabelTTL: "2099-01-01", "app": "many"})
	}
	labels := func() string {
		return kubectl(t, `get configmaps -n many -l app=many -o jsonpath='{.items[*].metadata.labels.curfew\.dev/ttl}'`).stdout
	}
	for _, test := range []struct {
		keys, want string
		code       int
		after      string
	}{
		{"\r", "nothing was changed", 1, "2099-01-01 2099-01-01 2099-01-01"},
		{"n\r", "nothing was changed", 1, "2099-01-01 2099-01-01 2099-01-01"},
		{"\x03", "nothing was changed", 1, "2099-01-01 2099-01-01 2099-01-01"},
		{"y\r", "configmap/c extended", 0, "2100-01-01 2100-01-01 2100-01-01"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		screen := onTerminal(ctx, t, line{text: "kubectl curfew extend configmaps -l app=many -n many --until 2100-01-01"})
		shown := screen.awaitScreen(ctx, "question", func(lines []string) bool {
			return len(lines) > 0 && strings.HasPrefix(lines[len(lines)-1], "Change 3 objects? [y/N]")
		})
		if have := fields(shown[:2]); have[0] != "NAMESPACE NAME NOW THEN" || have[1] != "many configmap/a 2099-01-01 00:00:00 UTC 2100-01-01 00:00:00 UTC" {
			t.Errorf("the preview is %q", have)
		}
		screen.types(test.keys)
		code, raw := screen.end()
		cancel()
		if code != test.code || !strings.Contains(raw, test.want) {
			t.Errorf("%q: exit status %d: %q", test.keys, code, raw)
		}
		if have := labels(); have != test.after {
			t.Errorf("%q: labels are then %s", test.keys, have)
		}
	}
	// --yes does not ask, and one is done without.
	if got := kubectl(t, "curfew keep configmaps -l app=many -n many --yes -o name"); got.stdout != "configmap/a\nconfigmap/b\nconfigmap/c\n" {
		t.Errorf("%q", got.stdout)
	}
	if have := labels(); have != "" {
		t.Errorf("labels are left: %s", have)
	}
}
