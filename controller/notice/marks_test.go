package notice

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action/stop"
)

// slow is an API server that takes a second for an Event, and refuses some.
type slow struct {
	store
	namespace string
	mu        sync.Mutex
	busy      int
	most      int              // at a time
	errs      map[string]error // by the object's name; once answered, they are over
	lost      map[string]bool  // written, but without an answer
}

func (s *slow) Create(ctx context.Context, event *corev1.Event, options metav1.CreateOptions) (*corev1.Event, error) {
	s.mu.Lock()
	s.busy++
	s.most = max(s.most, s.busy)
	s.mu.Unlock()
	<-time.After(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	if event.Namespace != s.namespace {
		return nil, fmt.Errorf("an Event of namespace %q was sent to %q", event.Namespace, s.namespace)
	}
	about := event.InvolvedObject.Name
	if err := s.errs[about]; err != nil {
		s.requests++
		if !s.lost[about] {
			delete(s.errs, about)
			return nil, err
		}
		delete(s.lost, about)
		delete(s.errs, about)
		s.of[event.Name] = event
		return nil, err
	}
	return s.store.Create(ctx, event, options)
}

func (s *slow) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func newSlow() *slow {
	return &slow{store: store{of: map[string]*corev1.Event{}}, errs: map[string]error{}, lost: map[string]bool{}}
}

func markOf(name string) stop.Mark {
	return stop.Mark{
		Kind: schema.GroupVersionKind{Group: "g", Version: "v1", Kind: "Run"}, Namespace: "ci", Name: name, UID: types.UID("uid-" + name),
		Message: "was active for 2s, longer than its deadline of 1s",
	}
}

func (s *slow) marks(log logr.Logger) *Marks {
	return NewMarks(MarkOptions{Instance: "host", Clock: clock.RealClock{}, Log: log, Events: func(namespace string) Events {
		s.namespace = namespace
		return s
	}})
}

// Each object that was failed has one Event, however often the mark had to be written and the Event sent; they are written one at a time, and
// nobody who marks waits for them.
func TestMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newSlow()
		var lines []string
		marks := api.marks(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		api.errs["busy"] = apierrors.NewTooManyRequests("wait", 1)
		api.errs["torn"], api.lost["torn"] = errors.New("connection reset by peer"), true
		api.errs["gone"] = apierrors.NewNotFound(corev1.Resource("namespaces"), "ci")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = marks.Run(ctx); close(done) }()
		began := time.Now()
		for _, name := range []string{"plain", "busy", "torn", "gone", strings.Repeat("long", 63)} {
			marks.Add(markOf(name))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("who marks waited for %s", took)
		}
		<-time.After(time.Minute)
		marks.Add(markOf("plain")) // Its mark had been overwritten.
		<-time.After(time.Minute)
		synctest.Wait()
		cancel()
		<-done
		want := []string{
			"DeadlineExceeded g/v1 Run/busy uid-busy x1: was active for 2s, longer than its deadline of 1s",
			"DeadlineExceeded g/v1 Run/" + strings.Repeat("long", 63) + " uid-" + strings.Repeat("long", 63) + " x1: was active for 2s, longer than its deadline of 1s",
			"DeadlineExceeded g/v1 Run/plain uid-plain x1: was active for 2s, longer than its deadline of 1s",
			"DeadlineExceeded g/v1 Run/torn uid-torn x1: was active for 2s, longer than its deadline of 1s",
		}
		if got := api.all(); !slices.Equal(got, want) {
			t.Errorf("there are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if api.most != 1 {
			t.Errorf("%d were written at a time, want one after the other", api.most)
		}
		for name, event := range api.of {
			if len(name) > 253 || event.Type != corev1.EventTypeWarning || !event.FirstTimestamp.Time.Equal(began) || event.ReportingInstance != "host" {
				t.Errorf("Event %s is %+v", name, event)
			}
		}
		if len(lines) != 1 || !strings.Contains(lines[0], `"object"="ci/gone"`) {
			t.Errorf("it logged %q, want that of the Event that was refused alone", lines)
		}
	})
}

// While objects are being failed, their Events take a fifth of the time of one client; then they follow one upon the other.
func TestMarksGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newSlow()
		marks := api.marks(logr.Discard())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = marks.Run(ctx); close(done) }()
		for i := range 1000 {
			marks.Add(markOf(fmt.Sprint(i)))
			<-time.After(100 * time.Millisecond)
		}
		synctest.Wait()
		if n := api.count(); n < 19 || n > 21 {
			t.Errorf("%d Events were written within 100 s in which objects were failed, want 20 at a second each", n)
		}
		<-time.After(990 * time.Second)
		synctest.Wait()
		if n := api.count(); n != 1000 {
			t.Errorf("%d Events were written in the end, want 1000", n)
		}
		cancel()
		<-done
	})
}

// What waits is bounded; what there is no room for is counted, and none of it keeps an array alive. What waits at the end is written by
// Flush, as far as its time goes.
func TestMarksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := newSlow()
		var lines []string
		marks := api.marks(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		for i := range marksMost + 3 {
			marks.Add(markOf(fmt.Sprint(i)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		marks.Flush(ctx)
		cancel()
		if n := len(api.of); n != 3 || len(lines) != 1 || !strings.Contains(lines[0], `"without"=3`) {
			t.Errorf("%d Events were written within 2.5 s, and it logged %q; want 3, and that 3 have none", n, lines)
		}
		marks.Flush(t.Context())
		if n := len(api.of); n != marksMost || marks.waiting != nil {
			t.Errorf("%d Events were written and %d are kept, want %d and none", n, cap(marks.waiting), marksMost)
		}
	})
}
