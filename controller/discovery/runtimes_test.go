package discovery

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/wellknown"
)

// Whether a runtime has a deadline decides which new objects the API server has to send. While that
// is not known, it may have one.
func TestServedKnowsWhetherARuntimeHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int32 // Each kind of runtimes has its own goroutine.
		c, _ := begin(t, func(c *profiled, _ *Profiles) {
			c.platform.Runtimes.OnChange(func(schema.GroupVersionResource, string) { changes.Add(1) })
		})
		says := func() bool {
			t.Helper()
			all, err := c.platform.Served()
			must(t, err)
			for i := range all {
				if all[i].Kind.Kind == "TrainJob" {
					return all[i].RuntimeSets
				}
			}
			t.Fatal("TrainJob is not served")
			return false
		}
		after(2 * time.Second)
		if !c.platform.RuntimesKnown() {
			t.Error("nothing is served that uses a runtime, and yet the runtimes are not known")
		}
		c.definitions.Put(definition("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", 1))
		synctest.Wait()
		if c.platform.RuntimesKnown() || !says() {
			t.Error("before the runtimes are listed they are known, or have no deadline")
		}
		after(2 * time.Second)
		if !c.platform.RuntimesKnown() || says() {
			t.Error("without a runtime there is a deadline, or it is not known")
		}
		runtime := func(annotations map[string]any) *unstructured.Unstructured {
			return &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
				"metadata": map[string]any{"name": "torch", "namespace": "ci", "annotations": annotations},
			}}
		}
		c.runtimes.Put(runtime(map[string]any{wellknown.AnnotationTTL: "1h"}))
		after(time.Second)
		if !says() {
			t.Error("want the TTL of the runtime known: admission announces it")
		}
		if feed := c.feed("trainjobs"); feed == nil || !slices.Contains(feed.judged, "ci") {
			t.Errorf("%v: want namespace ci judged again for its runtime", feed)
		}
		c.runtimes.Put(runtime(map[string]any{"example.com/other": "1h"}))
		after(time.Second)
		if says() {
			t.Error("a runtime without a deadline and a TTL has one")
		}
		before := changes.Load()
		c.runtimes.Put(runtime(map[string]any{wellknown.AnnotationActiveDeadline: "1h"}))
		after(time.Second)
		if !says() || changes.Load() == before {
			t.Error("want the deadline of the runtime known, and the change reported")
		}
	})
}
