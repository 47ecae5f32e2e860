package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func stamped(t *testing.T, objects ...client.Object) (*Namespaces, client.WithWatch) {
	t.Helper()
	api := fake.NewClientBuilder().WithObjects(objects...).Build()
	return &Namespaces{
		reader: api, clock: clocktesting.NewFakeClock(noon.Add(-time.Hour)), log: logr.Discard(),
		known: map[string]*resolution.NamespacePolicy{}, metas: map[string]*metav1.PartialObjectMetadata{},
		// The local clock is behind.
		stamper: stamper{client: api, serverTime: func(context.Context) (time.Time, error) { return noon, nil }, pending: loop.NewRetryQueue(clocktesting.NewFakeClock(noon), maxWrite)},
	}, api
}

func namespace(annotations, labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ci", Annotations: annotations, Labels: labels}}
}

func seen(t *testing.T, api client.Client) *metav1.PartialObjectMetadata {
	t.Helper()
	meta := NamespaceMeta()
	if err := api.Get(t.Context(), client.ObjectKey{Name: "ci"}, meta); err != nil {
		t.Fatal(err)
	}
	return meta
}

func TestStampNamespacesPastAdmission(t *testing.T) {
	fits := resolution.FormatSince(noon.Add(-time.Hour), resolution.DefaultsHash(map[string]string{wellknown.AnnotationDefaultTTL: "1d"}))
	now := resolution.FormatSince(noon, resolution.DefaultsHash(map[string]string{wellknown.AnnotationDefaultTTL: "1d"}))
	both := map[string]string{wellknown.LabelInUse: "true", wellknown.LabelPodsInUse: "true"}
	for name, test := range map[string]struct {
		annotations, labels map[string]string
		since               string
		want                map[string]string
	}{
		"set while the webhook was down": {annotations: map[string]string{wellknown.AnnotationDefaultTTL: "1d"}, since: now, want: both},
		"in step": {
			annotations: map[string]string{wellknown.AnnotationDefaultTTL: "1d", wellknown.AnnotationDefaultSince: fits}, labels: both, since: fits, want: both,
		},
		"hash of other defaults": {
			annotations: map[string]string{wellknown.AnnotationDefaultTTL: "1d", wellknown.AnnotationDefaultSince: "2020-01-01T00:00:00Z/0123456789ab"},
			labels:      both, since: now, want: both,
		},
		"default taken back": {annotations: map[string]string{wellknown.AnnotationDefaultSince: fits}, labels: both, want: map[string]string{}},
		"says nothing":       {want: map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			n, api := stamped(t, namespace(test.annotations, test.labels))
			n.observe(seen(t, api))
			before := seen(t, api).ResourceVersion
			if err := n.stamp(t.Context(), "ci"); err != nil {
				t.Fatal(err)
			}
			got := seen(t, api)
			if !maps.Equal(got.Labels, test.want) || got.Annotations[wellknown.AnnotationDefaultSince] != test.since {
				t.Errorf("labels %v, since %q; want %v, %q", got.Labels, got.Annotations[wellknown.AnnotationDefaultSince], test.want, test.since)
			}
			if name == "in step" && got.ResourceVersion != before {
				t.Error("written although nothing was to change")
			}
			n.observe(got)
			if err := n.stamp(t.Context(), "ci"); err != nil || seen(t, api).ResourceVersion != got.ResourceVersion {
				t.Errorf("a second time wrote again, or failed: %v", err)
			}
		})
	}
}

// S6: while the API server's time is not known nothing is stamped by a guess. The labels by which
// the API server selects are kept in step, and the stamp is made up for.
func TestStampWhileTheTimeIsNotKnown(t *testing.T) {
	n, api := stamped(t, namespace(map[string]string{wellknown.AnnotationDefaultTTL: "1d", wellknown.AnnotationDefaultSince: "2020-01-01T00:00:00Z/0123456789ab"}, nil))
	known, unknown := n.serverTime, errors.New("the API server's time is not known")
	n.serverTime = func(context.Context) (time.Time, error) { return time.Time{}, unknown }
	for range 2 {
		n.observe(seen(t, api))
		if err := n.stamp(t.Context(), "ci"); !errors.Is(err, unknown) {
			t.Fatalf("error %v, want %v, so that it is tried again", err, unknown)
		}
		got := seen(t, api)
		if since, ok := got.Annotations[wellknown.AnnotationDefaultSince]; ok || got.Labels[wellknown.LabelInUse] != "true" {
			t.Fatalf("since %q and labels %v, want none and in-use", since, got.Labels)
		}
	}
	n.serverTime = known
	n.observe(seen(t, api))
	if err := n.stamp(t.Context(), "ci"); err != nil {
		t.Fatal(err)
	}
	want := resolution.FormatSince(noon, resolution.DefaultsHash(map[string]string{wellknown.AnnotationDefaultTTL: "1d"}))
	if since := seen(t, api).Annotations[wellknown.AnnotationDefaultSince]; since != want {
		t.Errorf("since %q, want %q", since, want)
	}
}

// A stamp that was worked out from an old state must not overwrite what its author wrote since.
func TestStampFromAnOldStateConflicts(t *testing.T) {
	n, api := stamped(t, namespace(map[string]string{wellknown.AnnotationDefaultTTL: "1d"}, nil))
	n.observe(seen(t, api))
	newer := seen(t, api)
	newer.Annotations[wellknown.AnnotationDefaultTTL] = "30d"
	if err := api.Update(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	if err := n.stamp(t.Context(), "ci"); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
}

func TestNamespaceLookups(t *testing.T) {
	n, api := stamped(t, namespace(map[string]string{wellknown.AnnotationMode: "dry-run"}, nil))
	var changed []string
	n.OnChange(func(name string) { changed = append(changed, name) })
	others := 0
	n.OnOthers(func(string) { others++ })
	reads := 0
	n.reader = interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, o, opts...)
		},
	})
	for range 2 {
		// Not known yet: read live, so that dry-run is not missed.
		if got, err := n.Namespace(t.Context(), "ci"); err != nil || got.Mode != resolution.ModeDryRun {
			t.Fatalf("%v, %v; want mode dry-run", got, err)
		}
	}
	n.observe(seen(t, api))
	if got, err := n.Namespace(t.Context(), "ci"); err != nil || got.Mode != resolution.ModeDryRun || reads != 2 {
		t.Fatalf("%v, %v after %d reads; want the cache to answer", got, err, reads)
	}
	if _, err := n.Namespace(t.Context(), "gone"); !apierrors.IsNotFound(err) {
		t.Errorf("a namespace that is gone: %v, want not found", err)
	}
	if _, err := n.LiveNamespace(t.Context(), "gone"); !apierrors.IsNotFound(err) {
		t.Errorf("live read of a namespace that is gone: %v, want not found", err)
	}
	for _, step := range []struct {
		name                string
		labels, annotations map[string]string
		changed, others     int
	}{
		{"a label of Curfew's own", map[string]string{wellknown.LabelInUse: "true"}, map[string]string{wellknown.AnnotationMode: "dry-run"}, 0, 0},
		{"policies select by labels", map[string]string{"team": "a"}, map[string]string{wellknown.AnnotationMode: "dry-run"}, 1, 0},
		{"its mode was taken back", map[string]string{"team": "a"}, nil, 2, 0},
		{"expressions may look at annotations", map[string]string{"team": "a"}, map[string]string{"example.com/team": "a"}, 2, 1},
		{"the same again", map[string]string{"team": "a"}, map[string]string{"example.com/team": "a"}, 2, 1},
	} {
		meta := seen(t, api)
		meta.Labels, meta.Annotations = step.labels, step.annotations
		n.observe(meta)
		if len(changed) != step.changed || others != step.others {
			t.Errorf("%s: changed %q, %d times by others' annotations; want %d and %d", step.name, changed, others, step.changed, step.others)
		}
	}
	n.forget(seen(t, api))
	if len(n.known)+len(n.metas) != 0 {
		t.Error("a deleted namespace is kept in memory")
	}
}

// A namespace is deleted and created again, and feeds that are ahead of the cache have judged by
// what the old one said: what lies in the new one is judged again.
func TestNamespaceCreatedAgain(t *testing.T) {
	for name, test := range map[string]struct {
		old, new map[string]string
		labels   map[string]string
		later    time.Duration
		want     int
	}{
		"in dry-run now":         {new: map[string]string{wellknown.AnnotationMode: "dry-run"}, want: 1},
		"without its default":    {old: map[string]string{wellknown.AnnotationDefaultPodTTL: "1m"}, want: 1},
		"with other labels":      {labels: map[string]string{"team": "b"}, want: 1},
		"as it was":              {old: map[string]string{wellknown.AnnotationMode: "dry-run"}, new: map[string]string{wellknown.AnnotationMode: "dry-run"}},
		"long after it was gone": {new: map[string]string{wellknown.AnnotationMode: "dry-run"}, later: 2 * goneFor},
	} {
		t.Run(name, func(t *testing.T) {
			now := clocktesting.NewFakeClock(noon)
			n, _ := stamped(t)
			n.clock = now
			changed := 0
			n.OnChange(func(string) { changed++ })
			namespaceOf := func(name string, annotations, labels map[string]string) *metav1.PartialObjectMetadata {
				meta := NamespaceMeta()
				meta.Name, meta.Annotations, meta.Labels = name, annotations, labels
				return meta
			}
			n.observe(namespaceOf("ci", test.old, nil))
			rechecked := 0
			n.OnAdd(func(string) { rechecked++ })
			n.forget(namespaceOf("ci", test.old, nil))
			if test.later > 0 {
				now.Step(test.later)
				n.observe(namespaceOf("other", nil, nil))
				n.forget(namespaceOf("other", nil, nil))
				if len(n.gone) != 1 {
					t.Errorf("%d namespaces that are gone are remembered, want the last alone", len(n.gone))
				}
			}
			n.observe(namespaceOf("ci", test.new, test.labels))
			if changed != test.want {
				t.Errorf("told of %d changes, want %d", changed, test.want)
			}
			// A feed may have read live what it was in between.
			if changed+rechecked == 0 && len(test.new) > 0 {
				t.Error("nothing that was judged by an older state is checked again")
			}
			if len(n.gone) != 0 && test.later == 0 {
				t.Error("one that is back is remembered as gone")
			}
		})
	}
}

// Another webhook takes the labels out of each write, so that nothing changes and no watch reports
// anything, until it is fixed.
func TestStampThatAnotherWebhookUndoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, api := stamped(t, namespace(map[string]string{wellknown.AnnotationDefaultTTL: "1d"}, nil))
		n.clock = clock.RealClock{}
		var fixed atomic.Bool
		n.WriteStamps(interceptor.NewClient(api, interceptor.Funcs{Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if !fixed.Load() {
				return to.Get(ctx, client.ObjectKeyFromObject(object), object)
			}
			return to.Patch(ctx, object, patch, options...)
		}}), func(context.Context) (time.Time, error) { return noon, nil })
		n.observe(seen(t, api))
		running(t, n.Run)
		time.Sleep(time.Hour)
		if got := seen(t, api).Labels; got != nil {
			t.Fatalf("labels %v", got)
		}
		fixed.Store(true)
		time.Sleep(maxWrite)
		if got := seen(t, api); got.Labels[wellknown.LabelInUse] != "true" || got.Annotations[wellknown.AnnotationDefaultSince] == "" {
			t.Errorf("%v, %v: want it stamped", got.Labels, got.Annotations)
		}
	})
}

// A namespace that cannot be stamped delays no other, however many there are and for how long.
func TestStampThatFailsDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, api := stamped(t)
		n.clock = clock.RealClock{}
		var tries atomic.Int64
		n.WriteStamps(interceptor.NewClient(api, interceptor.Funcs{Patch: func(ctx context.Context, to client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if strings.HasPrefix(object.GetName(), "bad") {
				tries.Add(1)
				return apierrors.NewForbidden(corev1.Resource("namespaces"), object.GetName(), nil)
			}
			return to.Patch(ctx, object, patch, options...)
		}}), func(context.Context) (time.Time, error) { return noon, nil })
		running(t, n.Run)
		put := func(name string) {
			t.Helper()
			entry := namespace(map[string]string{wellknown.AnnotationDefaultTTL: "1d"}, nil)
			entry.Name = name
			if err := api.Create(t.Context(), entry); err != nil {
				t.Fatal(err)
			}
			meta := NamespaceMeta()
			if err := api.Get(t.Context(), client.ObjectKey{Name: name}, meta); err != nil {
				t.Fatal(err)
			}
			n.observe(meta)
		}
		for i := range 5 {
			put(fmt.Sprintf("bad%d", i))
		}
		time.Sleep(time.Hour)
		before := tries.Load()
		put("good")
		synctest.Wait()
		meta := NamespaceMeta()
		if err := api.Get(t.Context(), client.ObjectKey{Name: "good"}, meta); err != nil || meta.Labels[wellknown.LabelInUse] != "true" {
			t.Errorf("%v, %v: want it stamped at once", meta.Labels, err)
		}
		time.Sleep(time.Minute)
		if got := tries.Load() - before; got < 5*5 || got > 5*7 {
			t.Errorf("%d tries in a minute, want each about every %s", got, maxWrite)
		}
	})
}

func TestStripNamespace(t *testing.T) {
	full := NamespaceMeta()
	full.Name, full.ResourceVersion = "ci", "7"
	full.Labels = map[string]string{"team": "a", wellknown.LabelInUse: "true"}
	full.Annotations = map[string]string{wellknown.AnnotationDefaultTTL: "1d", "kubectl.kubernetes.io/last-applied-configuration": "{…}"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	out, err := StripNamespace(full)
	slim, ok := out.(*metav1.PartialObjectMetadata)
	if err != nil || !ok {
		t.Fatalf("%T, %v", out, err)
	}
	if len(slim.ManagedFields) != 0 || len(slim.Annotations) != 1 || slim.Annotations[wellknown.AnnotationDefaultTTL] != "1d" {
		t.Errorf("annotations %v, %d managed fields; want kubectl's gone", slim.Annotations, len(slim.ManagedFields))
	}
	if len(slim.Labels) != 2 || slim.Name != "ci" || slim.ResourceVersion != "7" {
		t.Errorf("%+v: labels, name and resourceVersion have to stay", slim.ObjectMeta)
	}
	if other, err := StripNamespace("tombstone"); err != nil || other != "tombstone" {
		t.Errorf("got %v, %v; want an unknown value returned as it is", other, err)
	}
}

// A feed has read a namespace live that the cache did not have; the cache then shows a newer state
// of it.
func TestNamespaceThatIsNewInTheCache(t *testing.T) {
	n, api := stamped(t, namespace(map[string]string{wellknown.AnnotationMode: "dry-run"}, nil))
	var added []string
	n.OnAdd(func(name string) { added = append(added, name) })
	n.observe(seen(t, api))
	n.observe(seen(t, api))
	if !slices.Equal(added, []string{"ci"}) {
		t.Errorf("told of %q, want the namespace once", added)
	}
	n, api = stamped(t, namespace(nil, nil))
	n.OnAdd(func(name string) { t.Errorf("told of %s, which says nothing of Curfew's", name) })
	n.observe(seen(t, api))
}

// A policy that looks at the namespace sees the same in the cache and live: else admission would
// give an object another TTL than the one by which the controller deletes it.
func TestNamespacesLookAlike(t *testing.T) {
	entry := namespace(map[string]string{"a": "b"}, map[string]string{"env": "test"})
	entry.UID, entry.CreationTimestamp = "uid-ci", metav1.NewTime(noon)
	n, api := stamped(t, entry)
	version := seen(t, api).ResourceVersion
	live, err := n.LiveNamespace(t.Context(), "ci")
	if err != nil {
		t.Fatal(err)
	}
	n.observe(seen(t, api))
	cached, err := n.Namespace(t.Context(), "ci")
	if err != nil || cached == live {
		t.Fatal(cached, err)
	}
	for _, source := range []string{
		`timestamp(namespaceObject.metadata.creationTimestamp) == timestamp("2026-11-01T12:00:00Z")`, `namespaceObject.metadata.uid == "uid-ci"`,
		fmt.Sprintf(`namespaceObject.metadata.resourceVersion == %q`, version),
		`namespaceObject.metadata.labels.env == "test" && namespaceObject.metadata.annotations.a == "b"`,
		`size(namespaceObject) == 3 && size(namespaceObject.metadata) == 6`,
	} {
		program, err := expression.NewCompiler(4).Compile(source, expression.ScopePolicy, expression.ResultBool)
		if err != nil {
			t.Fatal(err)
		}
		for who, namespace := range map[string]*resolution.NamespacePolicy{"cached": cached, "live": live} {
			if holds, err := program.Bool(t.Context(), &expression.Variables{NamespacePolicy: namespace}); err != nil || !holds {
				t.Errorf("%s is %v for the %s namespace, error %v; want true", source, holds, who, err)
			}
		}
	}
}
