package lifecycle

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

const labelsOfConfigMaps = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: e2e-configmaps, labels: {curfew.dev/aggregate-to-controller: "true"}}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, delete]}]
`

// pauses is how long the test of pauses may wait for anything: 2,000 objects on a busy machine.
const pauses = 10 * time.Minute

// holds is when a pause has taken effect (S11).
const holds = 5 * time.Second

// TestPauseHoldsEverything (S11): 2,000 objects fall due around a pause, whose controller is killed
// meanwhile; later the pauses cannot be read. By the audit log no DELETE is received from five
// seconds after the pause was accepted until it ends, and in the end nothing is left.
func TestPauseHoldsEverything(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*pauses) // Cleanups use it, too.
	t.Cleanup(cancel)
	f.ctx = ctx
	webhook, err := suite.cluster.StartWebhook(ctx, harness.CurfewOptions{})
	f.ok(err)
	t.Cleanup(func() { f.ok(webhook.Kill()) })
	f.ok(suite.cluster.WaitForWebhook(ctx))
	proxy, err := harness.NewProxy(suite.cluster.Config)
	f.ok(err)
	t.Cleanup(proxy.Close)
	controller := func(name string) *harness.Curfew {
		started, err := suite.cluster.StartController(ctx, harness.CurfewOptions{Name: name, Proxy: proxy})
		f.ok(err)
		t.Cleanup(func() { f.ok(started.Kill()) })
		return started
	}
	first := controller("first")
	f.kubectl(labelsOfConfigMaps, "apply", "-f", "-")
	t.Cleanup(func() { f.kubectl("", "delete", "clusterrole", "e2e-configmaps") })
	f.ok(suite.cluster.NewNamespace(ctx, "paused", nil))
	t.Cleanup(func() { f.kubectl("", "delete", "namespace", "paused", "--timeout=60s") })

	f.due("early", 1, "1s")
	f.left("early", 0)
	var creating sync.WaitGroup
	creating.Go(func() { f.due("one", 1000, "5s") })
	f.awaitLong("the first deletions", func(ctx context.Context) (bool, error) { return f.deleted("one") >= 20, nil })
	f.kubectl("{apiVersion: curfew.dev/v1alpha1, kind: DeletionPause, metadata: {name: stop}, spec: {reason: e2e}}", "create", "-f", "-")
	accepted := time.Now()
	creating.Wait()
	f.awaitUntil("the time after which the pause holds", func() bool { return time.Since(accepted) > holds })
	f.due("one-held", 1000, "1s")
	f.ok(first.Kill())
	second := controller("second")
	held := f.count("one") + f.count("one-held")
	f.awaitUntil("the second controller, which holds all of them", func() bool {
		return f.measures(second, `curfew_paused_scopes{class="pause"} 1`, fmt.Sprintf("curfew_overdue_objects %d", held))
	})
	since := time.Now()
	f.awaitUntil("a while in which nothing is deleted", func() bool { return f.count("one")+f.count("one-held") == held && time.Since(since) > 5*time.Second })
	ended := time.Now()
	f.kubectl("", "delete", v1alpha1.DeletionPauses, "stop")
	f.left("one", 0)
	f.left("one-held", 0)

	remove := proxy.Handle(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/"+v1alpha1.DeletionPauses) {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	broken := time.Now()
	f.due("two", 100, "8s")
	f.awaitUntil("a while in which the reads fail", func() bool { return time.Since(broken) > 15*time.Second })
	unread := f.count("two")
	fixed := time.Now()
	remove()
	f.left("two", 0)

	deletes, err := suite.cluster.DeletesOf("system:serviceaccount:"+harness.Namespace+":curfew-controller", "paused")
	f.ok(err)
	for _, d := range deletes {
		switch {
		case d.At.After(accepted.Add(holds)) && d.At.Before(ended):
			t.Errorf("a DELETE of %s was received %s after the pause was accepted", d.Name, d.At.Sub(accepted))
		case d.At.After(broken.Add(holds)) && d.At.Before(fixed):
			t.Errorf("a DELETE of %s was received %s after pauses could not be read any more", d.Name, d.At.Sub(broken))
		}
	}
	if held < 1000 || unread < 100 {
		t.Errorf("%d and %d objects were held: this test shows nothing", held, unread)
	}
	t.Logf("note: %d DELETEs; %d objects waited for the end of the pause, %d for a read", len(deletes), held, unread)
}

// due creates ConfigMaps with a TTL.
func (f *fixture) due(prefix string, count int, ttl string) {
	var all sync.WaitGroup
	const workers = 8
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < count; i += workers {
				object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Name: fmt.Sprintf("%s-%04d", prefix, i), Labels: map[string]string{wellknown.LabelTTL: ttl, "of": prefix},
				}}
				if _, err := suite.cluster.Client.CoreV1().ConfigMaps("paused").Create(f.ctx, object, metav1.CreateOptions{}); err != nil {
					f.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// count is how many of them exist.
func (f *fixture) count(prefix string) int {
	list, err := suite.cluster.Client.CoreV1().ConfigMaps("paused").List(f.ctx, metav1.ListOptions{LabelSelector: "of=" + prefix})
	if err != nil {
		f.Error(err)
		return -1
	}
	return len(list.Items)
}

// deleted is how many DELETEs of them the API server has accepted.
func (f *fixture) deleted(prefix string) (count int) {
	all, err := suite.cluster.DeletesOf("system:serviceaccount:"+harness.Namespace+":curfew-controller", "paused")
	f.ok(err)
	for _, each := range all {
		if strings.HasPrefix(each.Name, prefix) {
			count++
		}
	}
	return count
}

// measures reports whether the metrics of a controller have all lines.
func (f *fixture) measures(curfew *harness.Curfew, lines ...string) bool {
	answer, err := http.Get("http://" + curfew.Metrics + "/metrics")
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	f.ok(err)
	return !slices.ContainsFunc(lines, func(line string) bool { return !strings.Contains("\n"+string(text), "\n"+line+"\n") })
}

// left waits until so many exist.
func (f *fixture) left(prefix string, want int) {
	f.Helper()
	f.awaitLong(fmt.Sprintf("%d of %s", want, prefix), func(context.Context) (bool, error) { return f.count(prefix) == want, nil })
}

func (f *fixture) awaitUntil(what string, until func() bool) {
	f.Helper()
	f.awaitLong(what, func(context.Context) (bool, error) { return until(), nil })
}

func (f *fixture) awaitLong(what string, until wait.ConditionWithContextFunc) {
	f.Helper()
	if err := wait.PollUntilContextTimeout(f.ctx, 200*time.Millisecond, pauses, true, until); err != nil {
		f.Fatalf("waiting for %s: %v", what, err)
	}
}
