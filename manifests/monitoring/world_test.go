package monitoring_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/controller/backfill"
	"curfew.dev/curfew/controller/cleanup"
	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/stop"
	"curfew.dev/curfew/controller/tally"
	"curfew.dev/curfew/controller/webhookconfig"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
	"curfew.dev/curfew/webhook"
)

// families are what /metrics of both Deployments exposes once everything that counts has happened:
// the real collectors, in registries as cmd/curfew has them.
func families(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewRegistry()
	// The engine deletes no backfill in its first minute, which takes no time here.
	synctest.Test(t, func(t *testing.T) { controller(t, registry) })
	unusableValue(t, registry)
	webhookconfig.New(webhookconfig.Options{Registerer: registry, Clock: clock.RealClock{}})
	census(t, registry)
	registry.MustRegister(certs.NewExpiryMetric(served{}))
	admission(t, registry)
	unused(t, registry)
	leader(t)
	out := map[string]*dto.MetricFamily{}
	for _, gatherer := range []prometheus.Gatherer{registry, ctrlmetrics.Registry} {
		list, err := gatherer.Gather()
		must(t, err)
		for _, family := range list {
			out[family.GetName()] = family
		}
	}
	return out
}

// answers is an API server that answers the DELETE of an object by the object's name.
type answers map[string]deletion.Response

func (a answers) Delete(_ context.Context, r deletion.Request) deletion.Response { return a[r.Name] }

func triggers(t *testing.T, sender deletion.Sender, registerer prometheus.Registerer) []expire.Trigger {
	t.Helper()
	do := deletion.NewDeleteAction(sender, nil, registerer)
	return []expire.Trigger{{Name: "ttl", Action: do, Deletes: true}, {Name: "cleanup", Action: do, Deletes: true}}
}

// same judges that nothing has changed.
func same(_ context.Context, o expire.Entry) (expire.Judgement, error) {
	return expire.Judgement{Verdict: expire.Track, Object: o}, nil
}

// run is a run that deletes one object at a time.
type run struct{ deletion.Action }

func (run) Judge(ctx context.Context, o expire.Entry) (expire.Judgement, error) { return same(ctx, o) }
func (run) Order() int                                                          { return 0 }

// dated is an API server that says what time it is.
type dated struct{}

func (dated) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("")),
		Header: http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}}, nil
}

// controller has an engine delete with every kind of answer, and track something.
func controller(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	skew := deletion.NewSkew(clock.RealClock{})
	transport := skew.Wrap(dated{})
	ping := func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://apiserver/version", nil)
		if err != nil {
			return err
		}
		_, err = transport.RoundTrip(req)
		return err
	}
	triggers := triggers(t, answers{
		"deleted": {Code: http.StatusOK},
		"old":     {Code: http.StatusOK},
		"other":   {Code: http.StatusNotFound, ObjectMissing: true},
		"refused": {Code: http.StatusForbidden},
		"failed":  {Err: errors.New("no answer")},
	}, registry)
	expiry, err := expire.New(expire.Options{Triggers: triggers, Skew: skew, Ping: ping, Clock: clock.RealClock{}, Registerer: registry})
	must(t, err)
	due := time.Now().Add(-time.Minute)
	// An API that does not honour the resourceVersion: each deletion is by UID alone.
	kinds := map[string]expire.Kind{}
	for _, trigger := range []string{"ttl", "cleanup"} {
		if kinds[trigger], err = expiry.RegisterKind(expire.KindOptions{
			Type:    deletion.Type{Resource: batchv1.SchemeGroupVersion.WithResource("jobs"), Kind: "Job", Namespaced: true, UIDOnly: true},
			Trigger: trigger, Judge: same,
		}); err != nil {
			t.Fatal(err)
		}
	}
	kind := kinds["ttl"]
	object := func(name string, instant time.Time) expire.Entry {
		return expire.Entry{Kind: kind, Namespace: "ci", Name: name, UID: types.UID(name), ResourceVersion: "1",
			Expiry: instant, Source: "object", Backfill: name == "old"}
	}
	expiry.Upsert(object("later", time.Now().Add(time.Hour)))
	must(t, ping(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- expiry.Run(ctx) }()
	for name, want := range map[string]expire.Ending{
		"deleted": expire.Deleted, "old": expire.Deleted, "other": expire.AlreadyGone, "refused": expire.Refused, "failed": expire.Failed,
	} {
		if out := expiry.Delete(ctx, object(name, due), run{triggers[0].Action}); out.Result != want {
			t.Fatalf("%s: outcome %s, error %v; want %s", name, out.Result, out.Err, want)
		}
	}
	cleaned := object("deleted", due)
	cleaned.Kind, cleaned.UID = kinds["cleanup"], "cleaned"
	expiry.Delete(ctx, cleaned, run{triggers[1].Action})
	stop()
	<-ended
}

// nothing is a platform that says nothing.
var nothing = platform.Offline{Platform: platform.SnapshotOf(nil, nil)}

// unusableValue has a feed judge a finished Job with an unreadable TTL. The engine knows
// Jobs already, so this one has an engine of its own.
func unusableValue(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	reports := feed.NewReports(events.NewFakeRecorder(10), logr.Discard(), registry)
	expiry, err := expire.New(expire.Options{Triggers: triggers(t, answers{}, nil)})
	must(t, err)
	finished := metav1.NewTime(time.Now().Add(-time.Hour))
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: "j", UID: "u", Annotations: map[string]string{wellknown.AnnotationTTL: "soon"}},
		Status: batchv1.JobStatus{CompletionTime: &finished, Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobComplete, Status: "True", LastTransitionTime: finished}}},
	}
	f, err := feed.New(feed.Kind{
		Profile: policy.JobProfile, Triggers: []*feed.Trigger{feed.TTLs(nil)},
		Get: func(context.Context, string, string) (runtime.Object, error) { return job, nil },
		Facts: func(_ context.Context, o runtime.Object) (*policy.Facts, error) {
			return policy.FactsOfJob(o.(*batchv1.Job)), nil
		},
	}, feed.Options{Engine: expiry, Cached: nothing, Live: nothing, Reports: reports, Log: logr.Discard()})
	must(t, err)
	if _, err := f.Judge(t.Context(), expire.Entry{Namespace: "ci", Name: "j", UID: "u"}); err != nil {
		t.Fatal(err)
	}
}

// census has a feed run until all of its kind is known.
func census(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	counted := feed.NewSyncedMetric(registry, clock.RealClock{}, nil)
	expiry, err := expire.New(expire.Options{Triggers: triggers(t, answers{}, nil)})
	must(t, err)
	known := make(chan struct{})
	f, err := feed.New(feed.Kind{
		Profile: policy.JobProfile, Triggers: []*feed.Trigger{feed.TTLs(nil)},
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			all := watch.NewRaceFreeFake()
			all.Action(watch.Bookmark, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1",
				Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
			return all, nil
		},
	}, feed.Options{Engine: expiry, Cached: nothing, Live: nothing, Log: logr.Discard(), Synced: counted, Listed: func(int) { close(known) }})
	must(t, err)
	go func() { _ = f.Run(t.Context()) }()
	<-known
}

// labelled is a Registerer that gives each vector one series for each reason.
type labelled struct{ prometheus.Registerer }

var variable = regexp.MustCompile(`variableLabels: \{([a-z,]*)\}`)

func (l labelled) MustRegister(all ...prometheus.Collector) {
	c := all[0] // promauto registers one at a time.
	described := make(chan *prometheus.Desc, 1)
	c.Describe(described)
	names := strings.Split(variable.FindStringSubmatch((<-described).String())[1], ",")
	results := []string{"given", "Unknown", "Lost", "succeeded", "failed"}
	for i, reason := range []string{"permission", "deadline", "finish-time", "error", "WaitingForApproval"} {
		labels := prometheus.Labels{}
		for _, name := range names {
			labels[name] = map[string]string{"group": "batch", "kind": "Job", "reason": reason, "result": results[i],
				"policy": "ci/a", "phase": "Completed", "step": "status"}[name]
		}
		switch vector := c.(type) {
		case *prometheus.GaugeVec:
			vector.With(labels).Set(1)
		case *prometheus.CounterVec:
			vector.With(labels).Inc()
		case *prometheus.HistogramVec:
			vector.With(labels).Observe(1)
		}
	}
	l.Registerer.MustRegister(c)
}

// unused has what takes a cluster register its metrics.
func unused(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	registerer := labelled{registry}
	build := prometheus.Labels{"version": "v0.1.0", "goversion": "go1.26"} // as in cmd/curfew
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "curfew_build_info", ConstLabels: build}))
	followed, err := follow.NewPlatform(follow.Options{
		Clock: clock.RealClock{}, Source: func(schema.GroupVersionResource) follow.Source { return builders.MakeSource() },
	})
	must(t, err)
	discovery.NewLabels(discovery.LabelsOptions{APIServices: builders.MakeSource(), Clock: clock.RealClock{}, Registerer: registerer})
	discovery.NewProfiles(discovery.ProfilesOptions{Platform: followed, Clock: clock.RealClock{}, Registerer: registerer})
	backfill.New(backfill.Options{Clock: clock.RealClock{}, Registerer: registerer})
	stop.New(stop.Options{Registerer: registerer})
	cleanup.New(cleanup.Options{
		Objects: dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), Clock: clock.RealClock{}, Registerer: registerer,
	})
	tally.New(tally.Options{Tallies: noTallies{}, Clock: clock.RealClock{}, Registerer: registerer})
	follow.NewRules(followed, &follow.Namespaces{}, clock.RealClock{}, logr.Discard(), registry)
}

// noTallies is a cluster without PodTallies.
type noTallies struct{ tally.Tallies }

func (noTallies) OnChange(func(string)) {}

// served is a certificate that ends at some time.
type served struct{ certs.Provider }

func (served) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &tls.Certificate{Certificate: [][]byte{{}}, Leaf: &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}}, nil
}

// said are namespaces: "ci" has a default and a bound, none other can be read.
type said struct{}

func (said) Namespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	if name != "ci" {
		return nil, errors.New("cannot be read")
	}
	return resolution.ParseNamespace(name, map[string]string{wellknown.Prefix + "default-ttl": "1d", wellknown.Prefix + "max-ttl": "7d"}, nil), nil
}

func (s said) LiveNamespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	return s.Namespace(ctx, name)
}

// admission has the webhooks come to each decision.
func admission(t *testing.T, registry *prometheus.Registry) {
	t.Helper()
	store, err := platform.New(nil)
	must(t, err)
	hooks, err := webhook.New(webhook.Options{
		Platform: store, Namespaces: said{}, Clock: clock.RealClock{},
		Registerer: registry, Logger: logr.Discard(),
	})
	must(t, err)
	paths := http.NewServeMux()
	hooks.Register(paths.Handle)
	job := func(namespace, spec string) string {
		return `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j","namespace":"` + namespace + `"},"spec":{` + spec + `}}`
	}
	for _, ask := range []struct{ path, namespace, object string }{
		{webhook.PathMutate, "ci", job("ci", "")},
		{webhook.PathMutate, "gone", job("gone", "")},
		{webhook.PathMutate, "ci", `"no object"`},
		{webhook.PathValidate, "ci", job("ci", "")},
		{webhook.PathValidate, "ci", job("ci", `"ttlSecondsAfterFinished":99999999`)},
	} {
		body, err := json.Marshal(&admissionv1.AdmissionReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
			Request: &admissionv1.AdmissionRequest{
				UID: "u", Operation: admissionv1.Create, Namespace: ask.namespace, Name: "j",
				Kind:     metav1.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"},
				Resource: metav1.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"},
				Object:   runtime.RawExtension{Raw: []byte(ask.object)},
			},
		})
		must(t, err)
		request := httptest.NewRequest(http.MethodPost, ask.path, bytes.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		paths.ServeHTTP(httptest.NewRecorder(), request)
	}
}

// leader makes a candidate for the lease, which is when controller-runtime begins to expose that it
// is none yet. The name is that of the Lease that the Role of the controller allows.
func leader(t *testing.T) {
	t.Helper()
	_, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Name:          leaseName(t),
		Lock:          &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "a"}},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	must(t, err)
}

// histogram strips what a histogram's series add to its name.
func histogram(metric string) (family, suffix string) {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if family, ok := strings.CutSuffix(metric, suffix); ok {
			return family, suffix
		}
	}
	return metric, ""
}
