package tally

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/policy/wellknown"
)

// In listed namespaces, what PodTallies have left is released, and nothing that another process may
// count.
func TestReleaseLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWorld(t.Fatalf)
		w.lock = new(sync.Mutex)
		w.addTally("a", "a")
		w.create("p", "a", true)
		w.change("p", func(pod *corev1.Pod) { pod.Finalizers = append(pod.Finalizers, "example.com/logs") })
		w.remove("p")
		w.known = map[types.UID]bool{} // All may be released, as far as the world knows.
		held := func() bool { return slices.Contains(w.pods["p"].Finalizers, wellknown.FinalizerTally) }
		begin := func(namespaces ...string) {
			c := w.process().Controller
			delete(c.spaces, namespace)
			c.options.Cluster, c.options.Clock = w, clock.RealClock{}
			go func() { _ = c.ReleaseLeft(ctx, namespaces) }()
		}
		begin("next-door")
		begin(namespace, "next-door")
		synctest.Wait()
		if !held() {
			t.Fatal("a Pod was released that another process may count")
		}
		w.lock.Lock()
		clear(w.tallies)
		w.lock.Unlock()
		time.Sleep(sweepEvery + time.Minute) // Within a bubble: no time passes.
		synctest.Wait()
		if held() || !slices.Contains(w.pods["p"].Finalizers, "example.com/logs") {
			t.Errorf("finalizers %q, want all but that of tallies", w.pods["p"].Finalizers)
		}
	})
}

// Where no CustomResourceDefinition may be read, only the API server's groups say that Curfew's
// kinds are not installed, and only if they are all there.
func TestServed(t *testing.T) {
	const curfew = wellknown.Group + "/v1alpha1"
	for name, test := range map[string]struct {
		groups        []string
		defined, fail bool
	}{
		"installed":           {groups: []string{"v1", "apps/v1", curfew}, defined: true},
		"not installed":       {groups: []string{"v1", "apps/v1"}},
		"a proxy's 404":       {fail: true},
		"incomplete":          {groups: []string{"v1"}, fail: true},
		"incomplete, with it": {groups: []string{curfew}, fail: true},
	} {
		t.Run(name, func(t *testing.T) {
			typed := fake.NewClientset()
			for _, version := range test.groups {
				typed.Resources = append(typed.Resources, &metav1.APIResourceList{GroupVersion: version})
			}
			defined, err := (&Client{Watches: typed, Confined: true}).Defined(t.Context())
			if defined != test.defined || err != nil != test.fail {
				t.Errorf("defined %t, %v", defined, err)
			}
		})
	}
}
