package follow

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeschema "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/json"

	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// dense is a list that takes thirty times its text once it is decoded.
func dense(bytes int) string { return `[{}` + strings.Repeat(`,{}`, bytes/3) + `]` }

// answering is a client of an API server that has one object for each name in a path.
func answering(t *testing.T, answer func(request *http.Request) string) dynamic.Interface {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, answer(r))
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.Wrap(watch.Cap)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// allocated is how many MiB f allocates, garbage included.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) >> 20
}

// retained is how much more heap is in use after f, which returns what to retain.
func retained(f func() any) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	kept := f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return (float64(after.HeapAlloc) - float64(before.HeapAlloc)) / (1 << 20)
}

func mapperOf(kinds ...schema.GroupVersionKind) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range kinds {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	return mapper
}

// A tenant writes the owner of its objects. What is read of it takes little memory, and is enough to
// keep an object whose label comes from the template, also from one that comes last (S9).
func TestLargeOwners(t *testing.T) {
	const owner = `{"kind":"ReplicaSet","apiVersion":"apps/v1","metadata":{"name":"owner","namespace":"ci","uid":"uid","labels":{"curfew.dev/ttl":"1h"}},` +
		`"spec":{"template":{"spec":{"terms":%s},"metadata":{"labels":{"curfew.dev/ttl":"1m"}}}}}`
	size := 1_900_000
	client := answering(t, func(*http.Request) string { return fmt.Sprintf(owner, dense(size)) })
	owners := &Owners{Client: client, Mapper: mapperOf(replicaSetKind)}
	reference := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "owner", UID: "uid"}
	facts := func(ttl string) *policy.Facts {
		return policy.FactsOfJob(builders.MakeJob("ci", "a").Label(wellknown.LabelTTL, ttl).Owner(*reference).Obj())
	}
	if mib := retained(func() any {
		read, err := owners.Read(t.Context(), "ci", reference)
		if err != nil || read == nil {
			t.Fatal(read == nil, err)
		}
		for ttl, want := range map[string]bool{"1m": true, "1h": false, "2h": false} {
			if _, kept := facts(ttl).Inherited(reference, read, wellknown.LabelTTL); kept != want {
				t.Errorf("an object with the label %s is kept: %t, want %t", ttl, kept, want)
			}
		}
		return read
	}); mib > 4 {
		t.Errorf("an owner of 1.9 MB takes %.0f MiB", mib)
	}
	size = 3_000_000
	if _, err := owners.Read(t.Context(), "ci", reference); !apierrors.IsRequestEntityTooLargeError(err) || !strings.Contains(err.Error(), "more than 2097152 bytes") {
		t.Errorf("error %v, want that the owner is too large, and what the limit is", err)
	}
	// One with a key a thousand times is as bad.
	client = answering(t, func(*http.Request) string {
		return fmt.Sprintf(owner, `[`+strings.Repeat(`{"curfew.dev/ttl":"1m"},`, 60_000)+`{}]`)
	})
	if _, err := (&Owners{Client: client, Mapper: owners.Mapper}).Read(t.Context(), "ci", reference); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("error %v, want that too much would be read", err)
	}
	size = 300_000
	whole := &Owners{Client: answering(t, func(*http.Request) string { return fmt.Sprintf(owner, dense(size)) }), Mapper: owners.Mapper, Whole: true}
	if _, err := whole.Read(t.Context(), "ci", reference); !apierrors.IsRequestEntityTooLargeError(err) {
		t.Errorf("error %v, want that the owner is too large to be read whole", err)
	}
	size = 30
	if read, err := whole.Read(t.Context(), "ci", reference); err != nil || !reflect.DeepEqual(read["spec"].(map[string]any)["template"].(map[string]any)["spec"], decoded(t, `{"terms":`+dense(size)+`}`)) {
		t.Errorf("got %v, %v; want all of it", read, err)
	}
}

// The StatefulSets of a namespace are listed by name.
func TestLargeStatefulSets(t *testing.T) {
	text := `{"kind":"StatefulSetList","apiVersion":"apps/v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"web"},"spec":{"terms":` + dense(3_000_000) + `}}]}`
	owners := &Owners{Client: answering(t, func(*http.Request) string { return text })}
	if mib := allocated(func() {
		asked := []*metav1.OwnerReference{{Kind: "StatefulSet", Name: "web"}, {Kind: "StatefulSet", Name: "other"}}
		if got, err := owners.Existing(t.Context(), "ci", asked); err != nil || len(got) != 1 || got[0].Name != "web" {
			t.Errorf("existing are %v, %v; want web", got, err)
		}
	}); mib > 40 {
		t.Errorf("a list of 3 MB takes %d MiB", mib)
	}
}

var replicaSetKind = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSet"}

func decoded(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	if err := json.UnmarshalCaseSensitivePreserveInts([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// Each key that decides about an object is read of the templates of its owner.
func TestOwnersAreReadByAllKeys(t *testing.T) {
	keys := []string{wellknown.LabelTTL, wellknown.LabelKyvernoTTL}
	for _, trigger := range []policy.Trigger{policy.TriggerTTL, policy.TriggerDeadline, policy.TriggerDeadlineCheck} {
		keys = append(keys, policy.LimitKeys(trigger)...)
	}
	for _, key := range keys {
		if !ownerField([]string{"spec", "templates", "*", "labels", key}) {
			t.Errorf("%s is not read", key)
		}
	}
}

// A Job is read by the fields that decide about its Pods. With one less, they would be deleted.
func TestJobsAreReadByTheirFields(t *testing.T) {
	failing := &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{Action: batchv1.PodFailurePolicyActionIgnore}, {Action: batchv1.PodFailurePolicyActionFailJob},
	}}
	complete := []batchv1.JobCondition{{Type: "Other"}, {Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}
	for name, change := range map[string]func(job *batchv1.Job){
		"plain":           func(*batchv1.Job) {},
		"never":           func(job *batchv1.Job) { job.Annotations = map[string]string{wellknown.AnnotationPodTTL: "never"} },
		"fails by Pods":   func(job *batchv1.Job) { job.Spec.PodFailurePolicy = failing },
		"that has failed": func(job *batchv1.Job) { job.Spec.PodFailurePolicy, job.Status.Conditions = failing, complete },
		"managed":         func(job *batchv1.Job) { job.Spec.ManagedBy = ptr.To("example.com/other") },
		"that was managed": func(job *batchv1.Job) {
			job.Spec.ManagedBy, job.Status.Conditions = ptr.To("example.com/other"), complete
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := builders.MakeJob("ci", "build").UID("build").Obj()
			change(job)
			content, err := kubeschema.DefaultUnstructuredConverter.ToUnstructured(job)
			if err != nil {
				t.Fatal(err)
			}
			content["apiVersion"], content["kind"] = "batch/v1", "Job"
			text, err := (&unstructured.Unstructured{Object: content}).MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			owners := &Owners{Client: answering(t, func(*http.Request) string { return string(text) }), Mapper: mapperOf(batchv1.SchemeGroupVersion.WithKind("Job"))}
			pod := policy.FactsOfPod(builders.MakePod("ci", "a").Owner(metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "build", UID: "build", Controller: ptr.To(true)}).Obj())
			got, err := NewJobs(owners).LivePodCounter(t.Context(), pod)
			if want := resolution.CounterOfJob(job); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
}

// Many who ask about one owner share its reads. None gets the answer to a read from before its
// question: the owner may have got its label in between.
func TestReadsOfOneOwnerAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := dynamicfake.NewSimpleDynamicClient(kubeschema.NewScheme())
		reads := 0
		client.PrependReactor("get", "*", func(clienttesting.Action) (bool, kubeschema.Object, error) {
			read := &unstructured.Unstructured{Object: map[string]any{"kind": "ReplicaSet", "apiVersion": "apps/v1", "sent": time.Now()}}
			read.SetUID("uid")
			reads++
			<-time.After(time.Second)
			return true, read, nil
		})
		owners := &Owners{Client: client, Mapper: mapperOf(replicaSetKind)}
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				<-time.After(time.Duration(i) * 5 * time.Millisecond)
				asked := time.Now()
				read, err := owners.Read(t.Context(), "ci", &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "owner", UID: "uid"})
				if err != nil || read["sent"].(time.Time).Before(asked) {
					t.Errorf("asked at %v, got %v, %v", asked, read["sent"], err)
				}
			})
		}
		group.Wait()
		if reads != 2 {
			t.Errorf("%d reads for 100 who ask within half a second, want 2", reads)
		}
	})
}

// While one owner is read, another one is, and never has its answer.
func TestReadsOfOtherOwners(t *testing.T) {
	begun, done := make(chan struct{}), make(chan struct{})
	owners := &Owners{Mapper: mapperOf(replicaSetKind, appsv1.SchemeGroupVersion.WithKind("StatefulSet")), Client: answering(t, func(r *http.Request) string {
		if strings.HasSuffix(r.URL.Path, "/ci/replicasets/owner") {
			close(begun)
			<-done
		}
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Any","metadata":{"name":%q,"uid":"uid"}}`, r.URL.Path)
	})}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	read := func(namespace, kind, name string) {
		got, err := owners.Read(ctx, namespace, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "uid"})
		want := fmt.Sprintf("/apis/apps/v1/namespaces/%s/%ss/%s", namespace, strings.ToLower(kind), name)
		if object := (&unstructured.Unstructured{Object: got}); err != nil || object.GetName() != want {
			t.Errorf("got %v, %v; want %s", got, err, want)
		}
	}
	var group sync.WaitGroup
	group.Go(func() { read("ci", "ReplicaSet", "owner") })
	<-begun
	read("ci", "ReplicaSet", "web")
	read("ci", "StatefulSet", "owner")
	read("ml", "ReplicaSet", "owner")
	close(done)
	group.Wait()
}
