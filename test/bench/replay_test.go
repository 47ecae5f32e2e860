package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

func recordedJob(name string, uid types.UID, version string) *batchv1.Job {
	labels := func() map[string]string {
		return map[string]string{"app": "bench", "batch.kubernetes.io/job-name": name, "batch.kubernetes.io/controller-uid": string(uid)}
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "bench", UID: uid, ResourceVersion: version, Labels: labels()},
		Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: ptr.To(int32(60)),
			Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{"batch.kubernetes.io/controller-uid": string(uid)}},
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels()}},
		},
	}
}

// A client of the real library understands the replaying server, page by page and as a stream. The
// Jobs equal the recorded one except for names, UIDs and resourceVersions, which are unique.
func TestReplayServer(t *testing.T) {
	r := &replay{templates: []batchv1.Job{*recordedJob("nightly-report-29301120-000000", "11111111-1111-4111-8111-111111111111", "7")}, jobs: 25}
	passed := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !r.answer(w, req) {
			passed += req.URL.Path + " "
			http.NotFound(w, req)
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(connect(&rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	_, _ = client.BatchV1().Jobs("").List(ctx, metav1.ListOptions{LabelSelector: "curfew.dev/ttl"})
	_, _ = client.BatchV1().Jobs("bench").List(ctx, metav1.ListOptions{})
	if passed != "/apis/batch/v1/jobs /apis/batch/v1/namespaces/bench/jobs " {
		t.Errorf("passed on: %s", passed)
	}
	names, versions, listed := map[string]bool{}, map[string]bool{}, map[types.UID]bool{}
	pages := 0
	for options := (metav1.ListOptions{Limit: 10}); pages == 0 || options.Continue != ""; pages++ {
		page, err := client.BatchV1().Jobs("").List(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range page.Items {
			names[job.Name], versions[job.ResourceVersion], listed[job.UID] = true, true, true
			if want := recordedJob(job.Name, job.UID, job.ResourceVersion); !reflect.DeepEqual(&job, want) {
				t.Errorf("got  %+v\nwant %+v", job, want)
			}
		}
		options.Continue = page.Continue
	}
	if len(names) != 25 || len(versions) != 25 || len(listed) != 25 || pages != 3 {
		t.Errorf("got %d names, %d versions, %d UIDs in %d pages, want 25 in 3", len(names), len(versions), len(listed), pages)
	}
	events, err := client.BatchV1().Jobs("").Watch(ctx, metav1.ListOptions{SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for i := range 26 {
		event := <-events.ResultChan()
		job, ok := event.Object.(*batchv1.Job)
		switch {
		case !ok:
			t.Fatalf("event %d: %+v", i, event)
		case i < 25 && (event.Type != "ADDED" || !listed[job.UID]):
			t.Errorf("event %d: %s of a Job that the list does not have", i, event.Type)
		case i == 25 && (event.Type != "BOOKMARK" || job.Annotations[metav1.InitialEventsAnnotationKey] != "true" || job.ResourceVersion != "1000000025"):
			t.Errorf("the last event is %s %+v", event.Type, job.ObjectMeta)
		}
	}
}

func TestFromLeaseToArmed(t *testing.T) {
	const lease = `{"level":"info","ts":"2026-11-21T11:00:01.5Z","msg":"Successfully acquired lease","lock":"curfew-system/curfew-controller"}`
	const pods = `{"level":"info","ts":"2026-11-21T11:00:02Z","logger":"feed","msg":"all objects are known","kind":"Pod","waiting":0}`
	const jobs = `{"level":"info","ts":"2026-11-21T11:00:04.75Z","logger":"feed","msg":"all objects are known","kind":"Job","waiting":100000}`
	const labels = `{"level":"info","ts":"2026-11-21T11:00:02Z","logger":"feed","msg":"all objects are known","kind":"Job","waiting":0}`
	const again = `{"level":"info","ts":"2026-11-21T11:30:00Z","logger":"feed","msg":"all objects are known","kind":"Job","waiting":100000}`
	for name, c := range map[string]struct {
		log  string
		want time.Duration
		err  string
	}{
		"the Jobs count, the first time": {"panic: not JSON\n" + lease + "\n" + pods + "\n" + labels + "\n" + jobs + "\n" + again, 3250 * time.Millisecond, ""},
		"no lease":                       {jobs, 0, "the controller does not say when it got the lease"},
		"no end":                         {lease + "\n" + pods, 0, "the controller does not say when it knew all Jobs"},
	} {
		got, err := fromLeaseToArmed([]byte(c.log), 100000)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}
