package events

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/controller/stop"
)

// slow is an API server that takes a second for an Event, and refuses some.
type slow struct {
	store
	mu         sync.Mutex
	busy, most int              // at a time
	errs       map[string]error // by the object's name; each is answered once
}

func (s *slow) Create(event *corev1.Event) (*corev1.Event, error) {
	s.mu.Lock()
	s.busy++
	s.most = max(s.most, s.busy)
	s.mu.Unlock()
	<-time.After(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if err := s.errs[event.InvolvedObject.Name]; err != nil {
		delete(s.errs, event.InvolvedObject.Name)
		return nil, err
	}
	return s.store.Create(context.Background(), event, metav1.CreateOptions{})
}

func (s *slow) Update(*corev1.Event) (*corev1.Event, error) {
	return nil, errors.New("no Event is replaced")
}

func (s *slow) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store.Patch(context.Background(), event.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
}

// Each object that was failed has one Event, in its namespace. Events are written one at a time,
// and no caller waits for them.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &slow{store: store{of: map[string]*corev1.Event{}}, errs: map[string]error{
			"torn": errors.New("connection reset by peer"),
			"gone": apierrors.NewNotFound(corev1.Resource("namespaces"), "ci"),
		}}
		ctx, cancel := context.WithCancel(t.Context())
		failed := Failures(ctx, api)
		mark := func(namespace, name string) {
			failed(stop.Mark{Kind: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Run"}, Namespace: namespace, Name: name,
				UID: types.UID("uid-" + name), Message: "was active for 2s, longer than its deadline of 1s"})
		}
		began := time.Now()
		for _, name := range []string{"plain", "torn", "gone", strings.Repeat("long", 63)} {
			mark("ci", name)
		}
		mark("", "cluster")
		if took := time.Since(began); took != 0 {
			t.Errorf("the caller waited for %s", took)
		}
		<-time.After(time.Minute)
		mark("ci", "plain") // Its mark had been overwritten.
		<-time.After(time.Minute)
		cancel()
		synctest.Wait()
		output := ": was active for 2s, longer than its deadline of 1s"
		want := []string{
			"DeadlineExceeded g/v1 Run/cluster uid-cluster x1" + output,
			"DeadlineExceeded g/v1 Run/" + strings.Repeat("long", 63) + " uid-" + strings.Repeat("long", 63) + " x1" + output,
			"DeadlineExceeded g/v1 Run/plain uid-plain x2" + output,
			"DeadlineExceeded g/v1 Run/torn uid-torn x1" + output,
		}
		if got := api.all(); !slices.Equal(got, want) {
			t.Errorf("there are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if api.most != 1 {
			t.Errorf("%d were written at a time, want one after the other", api.most)
		}
		for name, event := range api.of {
			namespace := "ci"
			if event.InvolvedObject.Name == "cluster" {
				namespace = metav1.NamespaceDefault
			}
			if len(name) > 253 || event.Namespace != namespace || event.Type != corev1.EventTypeWarning || !event.FirstTimestamp.Time.Equal(began) ||
				event.Source.Component != "curfew-controller" {
				t.Errorf("Event %s is %+v", name, event)
			}
		}
	})
}
