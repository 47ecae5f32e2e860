package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
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

func recordedJob(name, uid, version string) *batchv1.Job {
	labels := func() map[string]string {
		return map[string]string{"app": "bench", "batch.kubernetes.io/job-name": name, "batch.kubernetes.io/controller-uid": uid}
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "bench", UID: types.UID(uid), ResourceVersion: version, Labels: labels()},
		Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: ptr.To(int32(60)),
			Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{"batch.kubernetes.io/controller-uid": uid}},
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels()}},
		},
	}
}

func newRecording(t *testing.T, jobs ...*batchv1.Job) *recording {
	t.Helper()
	r := &recording{}
	for _, job := range jobs {
		template, err := newTemplate(job)
		if err != nil {
			t.Fatal(err)
		}
		r.templates = append(r.templates, template)
	}
	return r
}

// The replay equals the recording except for names, UIDs and resourceVersions, which are unique.
func TestReplayedEventsAreWholeJobs(t *testing.T) {
	r := newRecording(t,
		recordedJob("nightly-report-29301120-000000", "11111111-1111-4111-8111-111111111111", "7"),
		recordedJob("nightly-report-29301120-000001", "22222222-2222-4222-8222-222222222222", "12345"))
	names, uids, versions := map[string]bool{}, map[types.UID]bool{}, map[string]bool{}
	const n = 1000
	for i := range n {
		frame := r.event(nil, i)
		if size := binary.BigEndian.Uint32(frame); int(size) != len(frame)-4 {
			t.Fatalf("event %d has %d bytes and says %d", i, len(frame)-4, size)
		}
		event, job, err := decodeEvent(frame[4:])
		if err != nil || event != "ADDED" {
			t.Fatalf("event %d: %s, %v", i, event, err)
		}
		names[job.Name], uids[job.UID], versions[job.ResourceVersion] = true, true, true
		want := recordedJob(job.Name, string(job.UID), job.ResourceVersion)
		if !reflect.DeepEqual(job, want) {
			t.Fatalf("event %d:\ngot  %+v\nwant %+v", i, job, want)
		}
	}
	if len(names) != n || len(uids) != n || len(versions) != n {
		t.Errorf("%d names, %d UIDs, %d versions of %d Jobs", len(names), len(uids), len(versions), n)
	}
}

// A client of the real library understands the replaying server, page by page and as a stream.
func TestReplayServer(t *testing.T) {
	r := &replay{recording: newRecording(t, recordedJob("nightly-report-29301120-000000", "11111111-1111-4111-8111-111111111111", "7")), jobs: 25}
	passed := ""
	server := httptest.NewServer(r.handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		passed += req.URL.Path + " "
		http.NotFound(w, req)
	})))
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
	listed := map[types.UID]bool{}
	pages := 0
	for options := (metav1.ListOptions{Limit: 10}); pages == 0 || options.Continue != ""; pages++ {
		page, err := client.BatchV1().Jobs("").List(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range page.Items {
			listed[job.UID] = true
		}
		options.Continue = page.Continue
	}
	if len(listed) != 25 || pages != 3 {
		t.Errorf("got %d Jobs in %d pages, want 25 in 3", len(listed), pages)
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

func TestQuantileOfAHistogram(t *testing.T) {
	samples := map[string]float64{
		`h_bucket{le="0.1"}`: 50, `h_bucket{le="0.2"}`: 90, `h_bucket{le="1"}`: 100, `h_bucket{le="+Inf"}`: 100, `other_bucket{le="7"}`: 100,
	}
	for q, want := range map[float64]float64{0.25: 0.05, 0.5: 0.1, 0.7: 0.15, 0.95: 0.6} {
		if got := quantile(samples, "h", q); round(got) != want {
			t.Errorf("q%v: got %v, want %v", q, got, want)
		}
	}
	if got := quantile(samples, "none", 0.5); got != 0 {
		t.Errorf("a histogram that is not there: got %v", got)
	}
	if got := quantile(map[string]float64{`h_bucket{le="1"}`: 1, `h_bucket{le="+Inf"}`: 100}, "h", 0.99); got != 1 {
		t.Errorf("beyond the last bucket: got %v, want its bound", got)
	}
}

func TestLatenessIsFromItsOwnSecond(t *testing.T) {
	start := time.Unix(1000, 0)
	var run latenessRun
	err := run.count([]sighting{
		{"l1-000000", start.Add(10 * time.Millisecond)}, {"l1-000001", start.Add(20 * time.Millisecond)}, // the first second
		{"l1-000002", start.Add(1030 * time.Millisecond)}, {"l1-000003", start.Add(1040 * time.Millisecond)}, // the next
	}, "l1", start, 2)
	if err != nil {
		t.Error(err)
	}
	if run.P50 != 20 || run.P99 != 40 || run.Max != 40 {
		t.Errorf("got %+v, want 20 ms in the median, 40 for 99%% and at most", run)
	}
	err = run.count([]sighting{{"l1-000002", start.Add(900 * time.Millisecond)}}, "l1", start, 2)
	if err == nil || !strings.Contains(err.Error(), "before it was due") {
		t.Errorf("got %v: an early deletion has to fail the run", err)
	}
}

func TestMemoryResults(t *testing.T) {
	got := map[string]float64{}
	for _, r := range memoryResults([]memoryRun{
		{Contestant: theCurfew, Heap: 10e6, Resident: 80e6}, {Contestant: theUnbound, Heap: 20e6, Resident: 100e6},
		{Contestant: theCurfew, Jobs: 20000, Heap: 12e6, Resident: 86e6}, {Contestant: theUnbound, Jobs: 20000, Heap: 110e6, Resident: 240e6},
	}, true) {
		got[r.Name] = r.Value
	}
	want := map[string]float64{
		"memory.jobs.bytes_per_object.20k": 100, "memory.jobs.resident_per_object.20k": 300, "memory.empty.heap": 10, "memory.empty.resident": 80,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseResident(t *testing.T) {
	if got, err := parseResident("Name:\tcurfew\nVmHWM:\t  999 kB\nVmRSS:\t    1024 kB\n"); err != nil || got != 1<<20 {
		t.Errorf("got %d, %v", got, err)
	}
	if _, err := parseResident("Name:\tcurfew\n"); err == nil {
		t.Error("no VmRSS, and it does not say so")
	}
}

func TestHeapInUse(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/debug/pprof/heap" || r.URL.Query().Get("gc") != "1" {
			t.Errorf("asked for %s", r.URL)
		}
		asked++
		var b bytes.Buffer
		b.WriteString("heap profile: 1: 2 [3: 4]\n# runtime.MemStats\n# Alloc = 1\n# HeapInuse = ")
		b.WriteString([]string{"300", "200", "100"}[asked-1])
		_, _ = w.Write(append(b.Bytes(), '\n'))
	}))
	defer server.Close()
	if got, err := heapInUse(t.Context(), server.Client(), server.URL); err != nil || got != 100 {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestLatenessResults(t *testing.T) {
	all := []latenessRun{
		{Contestant: theCurfew, P99: 110, OwnP99: 121}, {Contestant: theLimit, P99: 100},
		{Contestant: theCurfew, P99: 90, OwnP99: 99}, {Contestant: theLimit, P99: 100},
	}
	var got []string
	for _, r := range latenessResults(all) {
		got = append(got, fmt.Sprintf("%s %g", r.Name, r.Ratio))
	}
	// Without the in-tree controller nothing is compared with it.
	if want := []string{"lateness.p99_ms.vs_limit 1", "lateness.own_p99_ms 1.1"}; !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
}
