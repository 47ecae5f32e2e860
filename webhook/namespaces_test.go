package webhook

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/policy"
)

// reader holds annotations of namespaces by name, and fails with err where it is set.
type reader struct {
	client.Reader
	annotations map[string]map[string]string
	err         error
	reads       int
	deadline    bool
}

func (r *reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.reads++
	_, r.deadline = ctx.Deadline()
	if r.err != nil {
		return r.err
	}
	annotations, ok := r.annotations[key.Name]
	if !ok || key.Namespace != "" || object.GetObjectKind().GroupVersionKind() != namespaceKind {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, key.Name)
	}
	object.SetAnnotations(annotations)
	return nil
}

func (r *reader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if r.err != nil {
		return r.err
	}
	if list.GetObjectKind().GroupVersionKind().Kind != "NamespaceList" {
		return errors.New("no list of namespaces")
	}
	for name, annotations := range r.annotations {
		item := metav1.PartialObjectMetadata{}
		item.Name, item.Annotations = name, annotations
		list.(*metav1.PartialObjectMetadataList).Items = append(list.(*metav1.PartialObjectMetadataList).Items, item)
	}
	return nil
}

func TestBoundedNamespaces(t *testing.T) {
	getter := NewNamespaces(&reader{annotations: map[string]map[string]string{
		"b": {policy.AnnotationMinTTL: "1h"}, "a": {policy.AnnotationMaxDeadline: "?"}, "c": {policy.AnnotationDefaultTTL: "1h"}, "d": nil,
	}}, &reader{})
	got, err := getter.Bounded(t.Context())
	if err != nil || len(got) != 2 || got[0].Name != "a" || got[1].Name != "b" {
		t.Errorf("%v, %v; want a and b", got, err)
	}
	broken := errors.New("broken")
	if _, err := NewNamespaces(&reader{err: broken}, &reader{}).Bounded(t.Context()); !errors.Is(err, broken) {
		t.Errorf("error %v, want %v", err, broken)
	}
}

// born is a namespace with all that expressions of policies may look at.
type born struct{ client.Reader }

func (born) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetName(key.Name)
	object.SetUID("uid")
	object.SetResourceVersion("7")
	object.SetCreationTimestamp(metav1.NewTime(t0))
	return nil
}

func TestNamespacesSayWhoTheyAre(t *testing.T) {
	getter := NewNamespaces(born{}, born{})
	for name, get := range map[string]func(context.Context, string) (*policy.NamespacePolicy, error){"cached": getter.Namespace, "live": getter.LiveNamespace} {
		got, err := get(t.Context(), "ci")
		if err != nil || got.Name != "ci" || got.UID != "uid" || got.ResourceVersion != "7" || !got.Created.Equal(t0) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestNamespaces(t *testing.T) {
	oneDay := map[string]map[string]string{"ci": {policy.AnnotationDefaultTTL: "1d"}}
	twoDays := map[string]map[string]string{"ci": {policy.AnnotationDefaultTTL: "2d"}}
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		cache, live *reader
		askLive     bool
		want        time.Duration
		reads       int
		fails       error
	}{
		"cached":              {cache: &reader{annotations: oneDay}, live: &reader{annotations: twoDays}, want: 24 * time.Hour},
		"not cached":          {cache: &reader{}, live: &reader{annotations: twoDays}, want: 48 * time.Hour, reads: 1},
		"live":                {cache: &reader{annotations: oneDay}, live: &reader{annotations: twoDays}, askLive: true, want: 48 * time.Hour, reads: 1},
		"cache fails":         {cache: &reader{err: broken}, live: &reader{annotations: twoDays}, fails: broken},
		"API server fails":    {cache: &reader{}, live: &reader{err: broken}, reads: 1, fails: broken},
		"is nowhere":          {cache: &reader{}, live: &reader{}, reads: 1, fails: &apierrors.StatusError{}},
		"live, and it is not": {cache: &reader{annotations: oneDay}, live: &reader{}, askLive: true, reads: 1, fails: &apierrors.StatusError{}},
	} {
		t.Run(name, func(t *testing.T) {
			getter := NewNamespaces(test.cache, test.live)
			get := getter.Namespace
			if test.askLive {
				get = getter.LiveNamespace
			}
			got, err := get(t.Context(), "ci")
			if test.live.reads != test.reads || test.reads > 0 && !test.live.deadline {
				t.Errorf("%d live reads, want %d; with a deadline: %v", test.live.reads, test.reads, test.live.deadline)
			}
			if test.fails != nil {
				var status *apierrors.StatusError
				if !errors.Is(err, test.fails) && !errors.As(err, &status) {
					t.Errorf("error %v, want %v", err, test.fails)
				}
				return
			}
			if err != nil || got.Name != "ci" || got.TTL.All.TTL.After != test.want {
				t.Errorf("%+v, %v; want a TTL of %v", got, err, test.want)
			}
		})
	}
}

// versioned hands out one namespace whose annotations change with its version, or with its uid.
type versioned struct {
	client.Reader
	uid, version, ttl string
}

func (v *versioned) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	object.SetName(key.Name)
	object.SetUID(types.UID(v.uid))
	object.SetResourceVersion(v.version)
	object.SetAnnotations(map[string]string{policy.AnnotationDefaultTTL: v.ttl})
	return nil
}

// TestNamespacesAreParsedOnceAVersion: what is remembered is of the very version that the cache holds.
func TestNamespacesAreParsedOnceAVersion(t *testing.T) {
	from := &versioned{uid: "a", version: "1", ttl: "1h"}
	getter := NewNamespaces(from, &reader{})
	get := func(name string, want time.Duration) *policy.NamespacePolicy {
		t.Helper()
		got, err := getter.Namespace(t.Context(), name)
		if err != nil || got.Name != name || got.TTL.All.TTL.After != want {
			t.Fatalf("%+v, %v; want a TTL of %v", got, err, want)
		}
		return got
	}
	first := get("ci", time.Hour)
	if get("ci", time.Hour) != first {
		t.Error("the same version is parsed again")
	}
	from.version, from.ttl = "2", "2h"
	get("ci", 2*time.Hour)
	// Deleted and made again: versions may repeat where a cluster is restored, UIDs do not.
	from.uid, from.ttl = "b", "3h"
	get("ci", 3*time.Hour)
	get("other", 3*time.Hour)
	get("ci", 3*time.Hour)
	// A version that is not known is nobody's.
	from.version = ""
	get("ci", 3*time.Hour)
	from.ttl = "4h"
	get("ci", 4*time.Hour)
}

// TestParsedNamespacesAreBounded: a cluster that makes and forgets namespaces all day does not fill the memory.
func TestParsedNamespacesAreBounded(t *testing.T) {
	getter := NewNamespaces(&versioned{uid: "a", version: "1", ttl: "1h"}, &reader{})
	for i := range maxParsed + 10 {
		if _, err := getter.Namespace(t.Context(), fmt.Sprint("pr-", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(getter.parsed); n > maxParsed {
		t.Errorf("%d namespaces are remembered, want at most %d", n, maxParsed)
	}
}
