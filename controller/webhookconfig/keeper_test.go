package webhookconfig

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/builders"
)

// store is one kind of webhook configuration. It checks preconditions as the API server does.
type store struct {
	*builders.Source
	mu     sync.Mutex
	broken error
	verbs  []string
}

var resource = schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: "webhookconfigurations"}

func newStore() *store { return &store{Source: builders.MakeSource()} }

// write is a request of the keeper.
func (s *store) write(verb string, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verbs = append(s.verbs, verb)
	have := s.Get(object.GetName())
	switch {
	case s.broken != nil:
		return nil, s.broken
	case verb == "create" && have != nil:
		return nil, apierrors.NewAlreadyExists(resource, object.GetName())
	case verb == "update" && have == nil:
		return nil, apierrors.NewNotFound(resource, object.GetName())
	case verb == "update" && object.GetResourceVersion() != have.GetResourceVersion():
		return nil, apierrors.NewConflict(resource, object.GetName(), errors.New("it has changed"))
	}
	s.put(object.DeepCopy())
	return object, nil
}

func (s *store) Create(_ context.Context, object *unstructured.Unstructured, _ metav1.CreateOptions, _ ...string) (*unstructured.Unstructured, error) {
	return s.write("create", object)
}

func (s *store) Update(_ context.Context, object *unstructured.Unstructured, _ metav1.UpdateOptions, _ ...string) (*unstructured.Unstructured, error) {
	return s.write("update", object)
}

func (s *store) put(object *unstructured.Unstructured) {
	if object.GetUID() == "" {
		object.SetUID("uid-x")
	}
	s.Put(object)
}

// breakWith makes writes fail, until err is nil.
func (s *store) breakWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
}

// set writes a configuration as another client.
func (s *store) set(t *testing.T, object any) {
	t.Helper()
	content, err := asUnstructured(object)
	must(t, err)
	s.put(content)
}

// edit changes the stored configuration.
func (s *store) edit(change func(*unstructured.Unstructured)) {
	object := s.Get(Name)
	change(object)
	s.Put(object)
}

func (s *store) get(t *testing.T) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	object := s.Get(Name)
	if object == nil {
		return nil
	}
	return typed(object)
}

// sent are the writes since the last time it was asked.
func (s *store) sent() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.verbs
	s.verbs = nil
	return out
}

func (s *store) expect(t *testing.T, when string, verbs ...string) {
	t.Helper()
	if got := s.sent(); !slices.Equal(got, verbs) {
		t.Errorf("%s: wrote %v, want %v", when, got, verbs)
	}
}

// scene is a keeper over stores. Call it inside a synctest bubble.
type scene struct {
	*Keeper
	mutating, validating *store
	stop                 func()

	mu    sync.Mutex
	kinds []platform.Served
	err   error
}

func begin(t *testing.T, kinds []platform.Served) *scene {
	t.Helper()
	return beginWith(t, kinds, func(*Options) {})
}

func beginWith(t *testing.T, kinds []platform.Served, change func(*Options)) *scene {
	t.Helper()
	s := &scene{mutating: newStore(), validating: newStore(), kinds: kinds}
	options := Options{
		Kinds: func() ([]platform.Served, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.kinds, s.err
		},
		Policies: func() ([]*v1alpha1.LifecyclePolicy, error) { return nil, nil },
		Input:    Input{Namespace: "curfew-system"}, RuntimesKnown: func() bool { return true }, Changed: func() {},
		Mutating: s.mutating, Validating: s.validating, Static: "curfew", Clock: clock.RealClock{}, Log: logr.Discard(), Registerer: prometheus.NewRegistry(),
	}
	change(&options)
	s.Keeper = New(options)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(s.stop)
	return s
}

func (s *scene) become(kinds []platform.Served, err error) {
	s.mu.Lock()
	s.kinds, s.err = kinds, err
	s.mu.Unlock()
	s.Again()
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func jobSets(t *testing.T) []platform.Served {
	t.Helper()
	all := builtinKinds(t)
	return slices.DeleteFunc(all, func(kind platform.Served) bool { return kind.Resource != "jobsets" })
}

func TestKeeperCreatesRestoresAndEmpties(t *testing.T) {
	kinds := jobSets(t)
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, nil)
		s.become(nil, errors.New("not known yet"))
		s.mutating.set(t, staticMutating())
		s.validating.set(t, staticValidating())
		after(time.Minute)
		s.mutating.expect(t, "while nothing is known")

		s.become(kinds, nil)
		after(2 * time.Second)
		s.mutating.expect(t, "first", "create")
		s.validating.expect(t, "first", "create")
		if got := s.mutating.get(t); len(got.Webhooks) != 3 || got.OwnerReferences[0].Name != "curfew" || string(got.Webhooks[0].ClientConfig.CABundle) != "bundle" {
			t.Errorf("created %+v", got)
		}
		wanted, _, err := s.State()
		if err != nil || wanted["MutatingWebhookConfiguration"] != settings.Fingerprint(s.mutating.get(t).Webhooks) ||
			wanted["ValidatingWebhookConfiguration"] != settings.Fingerprint(s.validating.get(t).Webhooks) {
			t.Errorf("state %v, %v: not what was written", wanted, err)
		}
		s.Again()
		after(time.Hour)
		s.mutating.expect(t, "with nothing to change")
		s.validating.expect(t, "with nothing to change")

		s.mutating.Remove(Name)
		s.validating.edit(func(object *unstructured.Unstructured) { unstructured.RemoveNestedField(object.Object, "webhooks") })
		after(5 * time.Second)
		s.mutating.expect(t, "deleted by a user", "create")
		s.validating.expect(t, "emptied by a user", "update")
		if got := s.validating.get(t); len(got.Webhooks) != 3+len(annotationLabels) {
			t.Errorf("%d webhooks, want 2 and those for labels", len(got.Webhooks))
		}

		s.mutating.edit(func(object *unstructured.Unstructured) {
			object.SetLabels(map[string]string{"team": "blue"})
			object.SetOwnerReferences(nil)
			object.SetAnnotations(map[string]string{"a": "b"})
		})
		after(5 * time.Second)
		s.mutating.expect(t, "labels and owner taken away", "update")
		if got := s.mutating.get(t); got.Labels["team"] != "blue" || got.Annotations["a"] != "b" || got.Labels["app.kubernetes.io/name"] != "curfew" || len(got.OwnerReferences) != 1 {
			t.Errorf("its metadata is %v", got.ObjectMeta)
		}

		s.become(nil, nil)
		after(5 * time.Second)
		s.mutating.expect(t, "without kinds", "update")
		if got := s.mutating.get(t); len(got.Webhooks) != 0 || got.Labels["team"] != "blue" {
			t.Errorf("without kinds it is %+v", got)
		}
		s.validating.expect(t, "without kinds", "update")
		if got := s.validating.get(t); len(got.Webhooks) != 1+len(annotationLabels) {
			t.Errorf("%d webhooks, want those for labels", len(got.Webhooks))
		}
		s.become(nil, nil)
		after(time.Minute)
		s.mutating.expect(t, "still without kinds")
	})
}

// The bundle and the address follow the static configuration; one that was emptied a moment ago is
// not taken over.
func TestKeeperFollowsTheStaticConfiguration(t *testing.T) {
	kinds := jobSets(t)
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, kinds)
		static := staticMutating()
		s.mutating.set(t, static)
		after(2 * time.Second)
		s.mutating.expect(t, "first", "create")

		for i := range static.Webhooks {
			static.Webhooks[i].ClientConfig.CABundle = []byte("rotated")
		}
		s.mutating.set(t, static)
		after(2 * time.Second)
		s.mutating.expect(t, "the CA was rotated", "update")
		if got := s.mutating.get(t).Webhooks; string(got[0].ClientConfig.CABundle) != "rotated" || string(got[1].ClientConfig.CABundle) != "rotated" {
			t.Errorf("the bundles are %s and %s", got[0].ClientConfig.CABundle, got[1].ClientConfig.CABundle)
		}

		url := "https://127.0.0.1:1234/mutate"
		for i := range static.Webhooks {
			static.Webhooks[i].ClientConfig.CABundle = nil
		}
		static.Webhooks[1].ClientConfig = admissionv1.WebhookClientConfig{URL: &url}
		s.mutating.set(t, static)
		after(2 * time.Second)
		s.mutating.expect(t, "reinstalled elsewhere", "update")
		if got := s.mutating.get(t).Webhooks[0].ClientConfig; string(got.CABundle) != "rotated" || got.URL == nil || *got.URL != url || got.Service != nil {
			t.Errorf("its client is %+v", got)
		}

		s.mutating.Remove("curfew")
		after(2 * time.Second)
		s.mutating.expect(t, "without the static configuration", "update")
		if got := s.mutating.get(t).Webhooks; len(got) != 0 {
			t.Errorf("without the static configuration it has %d webhooks", len(got))
		}
		after(time.Hour)
		s.mutating.expect(t, "still without")
		s.validating.expect(t, "it never had one")
	})
}

// What the API server refuses is tried again, ever less often; a newer state is read and judged
// again.
func TestKeeperTriesAgain(t *testing.T) {
	kinds := jobSets(t)
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, kinds)
		s.mutating.breakWith(apierrors.NewForbidden(resource, Name, errors.New("no such rule")))
		s.mutating.set(t, staticMutating())
		s.validating.set(t, staticValidating())
		after(10 * time.Minute)
		if tried := len(s.mutating.sent()); tried < 10 || tried > 60 {
			t.Errorf("tried %d times in 10 minutes, want some 25", tried)
		}
		s.validating.expect(t, "the other side", "create")
		counted := &dto.Metric{}
		if err := s.failed.Write(counted); err != nil || counted.Counter.GetValue() < 10 {
			t.Errorf("counted %v (%v)", counted, err)
		}
		s.mutating.breakWith(nil)
		after(time.Minute)
		s.mutating.expect(t, "once it is permitted", "create")
		s.validating.expect(t, "the other side, again")
	})
}

// A client that undoes every write does not keep the API server busy.
func TestKeeperFightsSlowly(t *testing.T) {
	kinds := jobSets(t)
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, kinds)
		s.mutating.set(t, staticMutating())
		after(2 * time.Second)
		s.mutating.sent()
		for range 600 {
			s.mutating.edit(func(object *unstructured.Unstructured) { unstructured.RemoveNestedField(object.Object, "webhooks") })
			after(100 * time.Millisecond)
		}
		if wrote := len(s.mutating.sent()); wrote == 0 || wrote > 61 {
			t.Errorf("wrote %d times in a minute, want at most one a second", wrote)
		}
	})
}

// A configuration that is being deleted is left alone, and made again once it is gone.
func TestKeeperLeavesWhatIsTerminating(t *testing.T) {
	kinds := jobSets(t)
	synctest.Test(t, func(t *testing.T) {
		s := begin(t, kinds)
		s.mutating.set(t, staticMutating())
		after(2 * time.Second)
		s.mutating.sent()
		s.mutating.edit(func(object *unstructured.Unstructured) {
			instant := metav1.Now()
			object.SetDeletionTimestamp(&instant)
			unstructured.RemoveNestedField(object.Object, "webhooks")
		})
		after(time.Minute)
		s.mutating.expect(t, "while a foreign finalizer holds it")
		s.mutating.Remove(Name)
		after(2 * time.Second)
		s.mutating.expect(t, "once it is gone", "create")
	})
}

var must = builders.Must
