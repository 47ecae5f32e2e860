package stop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/policy"
)

// One list serves all attempts within a second. Lists of namespaces that are no longer used are
// dropped.
func TestListsOfPodsAreShortLived(t *testing.T) {
	client := metadataOf(t)
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
	index := newPodIndex(client, clock)
	for i := range 100 {
		for range 3 {
			if _, _, err := index.below(t.Context(), fmt.Sprintf("ci-%d", i), "run", time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := len(client.Actions()), i+1; got != want {
			t.Fatalf("%d lists for %d namespaces", got, want)
		}
		clock.SetTime(clock.Now().Add(podsFresh / 2))
	}
	if n := len(index.byName); n > 3 {
		t.Errorf("the lists of %d namespaces are kept, want the lists of the last second", n)
	}
}

// An attempt that waits while another one lists the Pods gives up when its time is over.
func TestAttemptWaitsNoLongerThanItMay(t *testing.T) {
	client := metadataOf(t)
	listing, answer := make(chan struct{}), make(chan struct{})
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		close(listing)
		<-answer
		return true, &metav1.List{}, nil
	})
	index := newPodIndex(client, clocktesting.NewFakePassiveClock(due))
	first := make(chan error)
	go func() {
		_, _, err := index.below(t.Context(), "ns", "run", time.Time{})
		first <- err
	}()
	<-listing
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := index.below(over, "ns", "other", time.Time{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that its time is over", err)
	}
	close(answer)
	if err := <-first; err != nil {
		t.Error(err)
	}
}

// An owner that may not be read does not prove that a Pod belongs to another object. The action
// deletes the Pods known to run below the object, and checks the object again until all owners are
// known. Pods that are older than the object do not belong to it.
func TestOwnerOfPodsMayNotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		readable bool
		created  time.Time // of the object
		pending  bool
		want     []string
	}{
		"readable":      {true, time.Time{}, false, []string{"delete pods/a-0"}},
		"forbidden":     {false, time.Time{}, true, nil},
		"an older Pod":  {false, due, false, nil},
		"a younger Pod": {false, due.Add(-2 * time.Hour), true, nil},
	} {
		s := newScene(t, nil, due.Add(-time.Hour), mark(nil), deletePods)
		s.due.Payload = PayloadOf(s.plan, &policy.Facts{Exceeded: due.Add(-time.Hour), Created: c.created}, nil, 0)
		born := metav1.NewTime(due.Add(-time.Hour))
		yes := true
		s.metadata.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, &metav1.List{Items: []runtime.RawExtension{{Object: &metav1.PartialObjectMetadata{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a-0", UID: "pod", CreationTimestamp: born,
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Set", Name: "a", UID: "set", Controller: &yes}}},
			}}}}, nil
		})
		s.metadata.PrependReactor("get", "sets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return !c.readable, nil, apierrors.NewForbidden(sets.GroupResource(), "a", errors.New("no"))
		})
		got := s.attempt(t)
		if sent := s.writes(); !slices.Equal(sent, c.want) {
			t.Errorf("%s: sent %v, want %v", name, sent, c.want)
		}
		if again := got.Again > 0; got.Code != http.StatusOK || again != (c.pending || len(c.want) > 0) {
			t.Errorf("%s: answer %+v", name, got)
		}
	}
}

// Pods that name an owner by a path, or one whose API fails, do not hide the Pods of others. No
// request is sent for the path.
func TestForgedOwnersHideNoPods(t *testing.T) {
	for name, owner := range map[string]metav1.OwnerReference{
		"name":    {APIVersion: "v1", Kind: "ConfigMap", Name: "../../../../../version"},
		"kind":    {APIVersion: "v1", Kind: "../../version", Name: "a"},
		"group":   {APIVersion: "../v1", Kind: "Thing", Name: "a"},
		"failing": {APIVersion: "failing.io/v1", Kind: "Thing", Name: "a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil, due.Add(-time.Hour), mark(nil), deletePods)
			owner.UID, owner.Controller = "x", ptr.To(true)
			forged := &metav1.PartialObjectMetadata{
				TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "0-forged", UID: "forged", OwnerReferences: []metav1.OwnerReference{owner}},
			}
			must(t, s.metadata.Tracker().Add(forged))
			s.metadata.PrependReactor("get", "*", func(asked clienttesting.Action) (bool, runtime.Object, error) {
				get, _ := asked.(clienttesting.GetAction)
				switch resource := get.GetResource(); {
				case resource.Group == "failing.io":
					return true, nil, apierrors.NewServiceUnavailable("no backend")
				case resource.Group != "example.com":
					return true, nil, errors.New("the answer is no object")
				}
				return false, nil, nil
			})
			s.attempt(t)
			if sent := s.writes(); !slices.Equal(sent, []string{"delete pods/a-0"}) {
				t.Errorf("sent %v, want that the object's own Pod is deleted", sent)
			}
		})
	}
}

// An API server that has too much to do is not asked for the next owner, and the object waits for
// as long as it says.
func TestOwnersWaitForABusyServer(t *testing.T) {
	for name, busy := range map[string]error{
		"429": apierrors.NewTooManyRequests("later", 7),
		"503": apierrors.NewGenericServerResponse(http.StatusServiceUnavailable, "get", sets.GroupResource(), "a", "later", 7, true),
		"504": apierrors.NewTimeoutError("etcd", 7),
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil, due.Add(-time.Hour), mark(nil), deletePods)
			asked := 0
			s.metadata.PrependReactor("get", "sets", func(clienttesting.Action) (bool, runtime.Object, error) {
				asked++
				return true, nil, busy
			})
			if got := s.attempt(t); asked != 1 || got.Outcome != deletion.Throttled && got.Outcome != deletion.Failed || got.After != 7*time.Second {
				t.Errorf("asked %d times: %+v", asked, got)
			}
		})
	}
}

// A list of Pods that an attempt has no time for goes on where it was broken off, and so does the
// reading of owners: an attempt that always starts again would never end.
func TestListOfPodsGoesOn(t *testing.T) {
	const pages, perPage, most = 4, 5, 7 // most is how many requests an attempt has time for
	client := metadataOf(t)
	left := 0
	spend := func() error {
		if left--; left < 0 {
			return errors.New("context deadline exceeded")
		}
		return nil
	}
	yes := true
	owner := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: &yes}}
	}
	reads, page := map[string]int{}, 0
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := spend(); err != nil {
			return true, nil, err
		}
		list := &metav1.List{}
		if page+1 < pages {
			list.Continue = fmt.Sprint(page + 1)
		}
		for i := range perPage {
			name := fmt.Sprintf("set-%d-%d", page, i)
			list.Items = append(list.Items, runtime.RawExtension{Object: &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + name, UID: types.UID("pod-" + name), OwnerReferences: owner("Set", name)}}})
		}
		return true, list, nil
	})
	client.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if err := spend(); err != nil {
			return true, nil, err
		}
		name := action.(clienttesting.GetAction).GetName()
		reads[name]++
		out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		if action.GetResource().Resource == "sets" {
			out.OwnerReferences = owner("Run", "run")
		}
		return true, out, nil
	})
	next := func(token string) {
		page = 0
		_, _ = fmt.Sscan(token, &page)
	}
	index := newPodIndex(paged{client, next}, clocktesting.NewFakePassiveClock(due))
	for attempt := 1; ; attempt++ {
		left = most
		running, _, err := index.below(t.Context(), "ns", "run", time.Time{})
		if err == nil {
			if len(running) != pages*perPage {
				t.Errorf("%d Pods run below it, want %d", len(running), pages*perPage)
			}
			break
		}
		if attempt > 10 {
			t.Fatalf("no end after %d attempts: %v", attempt, err)
		}
	}
	for name, times := range reads {
		if times != 1 {
			t.Errorf("%s was read %d times", name, times)
		}
	}
}

// paged is a client that tells which page of a list is asked for, which the fake one forgets.
type paged struct {
	metadata.Interface
	asked func(token string)
}

func (p paged) Resource(resource schema.GroupVersionResource) metadata.Getter {
	return pagedGetter{p.Interface.Resource(resource), p.asked}
}

type pagedGetter struct {
	metadata.Getter
	asked func(token string)
}

func (g pagedGetter) Namespace(name string) metadata.ResourceInterface {
	return pagedResource{g.Getter.Namespace(name), g.asked}
}

type pagedResource struct {
	metadata.ResourceInterface
	asked func(token string)
}

func (r pagedResource) List(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	r.asked(options.Continue)
	return r.ResourceInterface.List(ctx, options)
}
