package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// minutely is a policy that runs once a minute on ConfigMaps with label app=x.
type minutely struct {
	*space
	policy string
	last   *v1alpha1.CleanupRun
}

// eachMinute plays a test with a policy. On a busy machine that may miss a minute, or a run begins
// before the test has prepared it, which shows nothing: then the test begins again.
func eachMinute(t *testing.T, spec string, play func(*minutely) (inARow bool)) {
	for range 5 {
		s := labelSpace(t)
		for _, name := range []string{"always", "sometimes"} {
			s.newConfigMap(name, "app", "x")
		}
		m := &minutely{space: s}
		m.policy = s.cleanupPolicyAt("* * * * *", "unused", "", spec+`, matchConstraints: {objectSelector: {matchLabels: {app: x}}, `+allConfigMaps+`}`)
		if play(m) {
			return
		}
		t.Log("the runs were not in a row")
	}
	t.Error("five times the runs were not in a row")
}

// run waits for the next run, and reports whether it came a minute after the one before, and early
// enough in its minute to count.
func (m *minutely) run() (inARow bool) {
	m.Helper()
	before := m.last
	status := m.awaitStatus(m.policy, "the next run", func(status *v1alpha1.CleanupPolicyStatus) bool {
		run := status.LastRun
		return run != nil && (before == nil || run.ID != before.ID) && run.Phase != v1alpha1.RunRunning
	})
	m.last = status.LastRun
	soon := m.last.CompletionTime.Sub(m.last.ScheduledTime.Time) < 30*time.Second
	return soon && (before == nil || m.last.ScheduledTime.Sub(before.ScheduledTime.Time) == time.Minute)
}

// prepared reports whether the next run has not begun.
func (m *minutely) prepared() bool {
	m.Helper()
	return m.awaitStatus(m.policy, "the status", func(*v1alpha1.CleanupPolicyStatus) bool { return true }).LastRun.ID == m.last.ID
}

// ran waits for the next run, and fails the test unless it leaves these objects. Then it prepares
// the one after that. It returns false if the runs were not in a row.
func (m *minutely) ran(want string, prepare ...string) (inARow bool) {
	m.Helper()
	if !m.run() {
		return false
	}
	got := fmt.Sprint(m.configMapsLeft())
	if len(prepare) > 0 {
		m.expectSuccess(m.kubectl(prepare...))
	}
	if !m.prepared() {
		return false
	}
	if got != want {
		m.Errorf("the run left %s, want %s", got, want)
	}
	return true
}

// An object is deleted in the second run in a row that matches it. A preview says so before.
func TestCleanupConsecutiveRuns(t *testing.T) {
	full(t)
	parallel(t)
	eachMinute(t, "consecutiveRuns: 2", func(m *minutely) bool {
		if !m.ran("[always sometimes]", "label", "configmap", "sometimes", "app-") {
			return false
		}
		m.newConfigMap("new", "app", "x")
		shown := m.expectSuccess(m.curfew("preview", m.policy, "-o", `jsonpath={range .items[*]}{.object.name} {.result} {.message};{end}`)).stdout
		if !m.prepared() {
			return false
		}
		if want := "always WouldDelete ;new Skipped matched in 1 of 2 runs in a row: see consecutiveRuns;"; shown != want {
			t.Errorf("after one run the preview shows\n%s\nwant\n%s", shown, want)
		}
		return m.ran("[new sometimes]", "label", "configmap", "sometimes", "app=x") && m.ran("[sometimes]")
	})
}

// An object is deleted once it has been unused for two minutes, and not if it was protected in
// between. An Event in its namespace says so before.
func TestCleanupMinUnused(t *testing.T) {
	full(t)
	parallel(t)
	eachMinute(t, "minUnused: 2m", func(m *minutely) bool {
		if !m.ran("[always sometimes]", "annotate", "configmap", "sometimes", "curfew.dev/protect=true") {
			return false
		}
		says := fmt.Sprintf("unused objects: 2, first deletion at about %s, by cleanup/%s", m.last.ScheduledTime.UTC().Add(2*time.Minute).Format(time.RFC3339), m.policy)
		m.poll("the Event", func(ctx context.Context) (bool, error) {
			events, err := suite.cluster.Client.CoreV1().Events(m.name).List(ctx, metav1.ListOptions{FieldSelector: "reason=Unused"})
			return err == nil && len(events.Items) > 0 && strings.HasPrefix(events.Items[0].Message, says), err
		})
		return m.ran("[always sometimes]", "annotate", "configmap", "sometimes", "curfew.dev/protect-") &&
			m.ran("[sometimes]") && m.ran("[sometimes]") && m.ran("[]")
	})
}
