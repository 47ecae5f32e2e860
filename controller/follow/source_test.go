package follow

import (
	"context"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

type source = builders.Source

func newSource() *source { return builders.MakeSource() }

// inBubble runs a test in a bubble, whose time is synthetic.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// slowly is a source whose answers take a second.
type slowly struct{ platform.Source }

func (slowly) Namespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	<-time.After(time.Second)
	return &resolution.NamespacePolicy{Name: name}, nil
}

func (slowly) Runtime(_ context.Context, reference *expression.Reference) (map[string]any, error) {
	<-time.After(time.Second)
	return map[string]any{"of": *reference}, nil
}

func (s slowly) PodCounter(ctx context.Context, pod *policy.Facts) (*resolution.PodCounter, error) {
	<-time.After(time.Second)
	return s.Source.PodCounter(ctx, pod)
}

// A caller that asks for one namespace or runtime while another is read never gets the answer about
// the other one.
func TestSharedAnswersAreOfOneObject(t *testing.T) {
	first := expression.Reference{Namespace: "a", Name: "torch"}
	for name, other := range map[string]expression.Reference{
		"another namespace": {Namespace: "b", Name: "torch"}, "another name": {Namespace: "a", Name: "jax"},
		"another kind": {Namespace: "a", Name: "torch", Kind: schema.GroupVersionKind{Kind: "Other"}}, "all of it": {Namespace: "a", Name: "torch", Whole: true},
		"another field": {Namespace: "a", Name: "torch", Fields: []fieldpath.FieldPath{{"spec", "ttl"}}},
	} {
		inBubble(t, name, func(t *testing.T) {
			from := Share(slowly{})
			for _, reference := range []expression.Reference{first, first, other} { // The second waits for its turn.
				go func() {
					if got, err := from.Namespace(t.Context(), reference.Namespace); err != nil || got.Name != reference.Namespace {
						t.Errorf("namespace %v, %v; want %s", got, err, reference.Namespace)
					}
				}()
				go func() {
					if got, err := from.Runtime(t.Context(), &reference); err != nil || !reflect.DeepEqual(got["of"], reference) {
						t.Errorf("runtime %v, %v; want that of %v", got, err, reference)
					}
				}()
				synctest.Wait()
			}
			after(2 * time.Second)
		})
	}
}

// Pods with the UID of a Job, and another name for it, get no answer about the Job to share. The
// Job's own Pod would otherwise be deleted by the namespace's default, although the Job says never.
func TestForgedOwnersShareNoAnswer(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, meta.RESTScopeNamespace)
	synctest.Test(t, func(t *testing.T) {
		finished := time.Now().Add(-2 * time.Hour)
		pod := func(name, job string) *policy.Facts {
			owner := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: job, UID: "build", Controller: ptr.To(true)}
			return policy.FactsOfPod(builders.MakePod("ci", name).Owner(owner).Created(finished).Phase(corev1.PodSucceeded).Terminated(finished).Obj())
		}
		build := builders.MakeJob("ci", "build").UID("build").Annotation(wellknown.AnnotationPodTTL, "never").Map()
		build["apiVersion"], build["kind"] = "batch/v1", "Job"
		client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), &unstructured.Unstructured{Object: build})
		from := Share(slowly{live{Cached{Jobs: NewJobs(&Owners{Client: client, Mapper: mapper})}}})
		var asking sync.WaitGroup
		for _, name := range []string{"first", "second"} {
			asking.Go(func() { _, _ = from.PodCounter(t.Context(), pod(name, "nope")) })
			synctest.Wait() // The first is being read, and the next read is for the second.
		}
		victim := pod("victim", "build")
		counter, err := from.PodCounter(t.Context(), victim)
		asking.Wait()
		if err != nil {
			t.Fatal(err)
		}
		ci := resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationDefaultPodTTL: "1h", wellknown.AnnotationBackfill: "true"}, nil)
		effective := resolution.Resolve(victim, &resolution.Scope{Namespace: ci, Counter: counter})
		if verdict := judging.Judge(victim, &effective, time.Now()); verdict.Action != policy.Keep || verdict.Source.Level != lifetime.LevelJob {
			t.Errorf("its Job says never: %v by %v (%s)", verdict.Action, verdict.Source, verdict.Reason)
		}
	})
}
