package notice

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/policy"
)

const (
	// marksMost bounds how many Events wait to be written, at some 300 bytes each. What is beyond stands in the log alone.
	marksMost = 1 << 14
	// markTries bounds how often one Event is tried again, so that the others have their turn: the log has it in any case.
	markTries = 10
	// markPause is the wait after a failure.
	markPause = time.Second
	// markShare is how many times as long as it took to write an Event the next one waits while objects are being failed.
	markShare = 4
)

// MarkOptions are those of [Marks]. All are required.
type MarkOptions struct {
	// Events of a namespace.
	Events func(namespace string) Events
	// Instance tells replicas apart.
	Instance string
	Clock    clock.Clock
	Log      logr.Logger
}

// Marks write one Event on each object that Curfew failed for its deadline, one at a time and behind the marks themselves: what ends the
// objects is not to wait for what is told of it. While objects are being failed, an Event costs a fifth of the time of one client, and once that
// is over the others follow.
type Marks struct {
	options MarkOptions
	wake    chan struct{}

	mu      sync.Mutex
	waiting []marked
	added   int // marks, since the last Event was written
	missed  int // beyond marksMost, since that was last said
}

type marked struct {
	stop.Mark
	at time.Time
}

// NewMarks makes marks that are written by Run.
func NewMarks(options MarkOptions) *Marks {
	options.Log = options.Log.WithName("notice")
	return &Marks{options: options, wake: make(chan struct{}, 1)}
}

// Add takes a mark that was accepted just now. It does not block.
func (m *Marks) Add(mark stop.Mark) {
	at := m.options.Clock.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.added++
	if len(m.waiting) == marksMost {
		m.missed++
		return
	}
	m.waiting = append(m.waiting, marked{mark, at})
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run writes until ctx is done. What has not been written by then is for Flush.
func (m *Marks) Run(ctx context.Context) error { return flushOn(ctx, m.wake, m.Flush) }

// Flush writes what waits, until nothing does or ctx is done.
func (m *Marks) Flush(ctx context.Context) {
	for ctx.Err() == nil {
		next, ok := m.first()
		if !ok {
			return
		}
		began := m.options.Clock.Now()
		if err := m.persist(ctx, &next); err != nil {
			if ctx.Err() != nil {
				return // It still waits.
			}
			m.options.Log.Info("could not write an Event", "kind", next.Kind.Kind, "object", next.Namespace+"/"+next.Name, "reason", err.Error())
		}
		if m.drop() {
			m.pause(ctx, markShare*m.options.Clock.Since(began))
		}
	}
}

func (m *Marks) pause(ctx context.Context, d time.Duration) {
	timer := m.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

func (m *Marks) first() (marked, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) == 0 {
		return marked{}, false
	}
	m.added = 0
	return m.waiting[0], true
}

// drop takes the first away, and says what there was no room for once there is some. It tells whether objects were failed meanwhile.
func (m *Marks) drop() (busy bool) {
	m.mu.Lock()
	busy = m.added > 0
	m.waiting[0] = marked{}
	m.waiting = m.waiting[1:]
	if len(m.waiting) == 0 {
		m.waiting = nil // Thousands leave an array behind.
	}
	missed := m.missed
	m.missed = 0
	m.mu.Unlock()
	if missed > 0 {
		m.options.Log.Info("more objects were failed than Events can wait: the others have none", "without", missed)
	}
	return busy
}

// persist writes one Event, again where no answer came or the API server has trouble.
func (m *Marks) persist(ctx context.Context, mark *marked) error {
	event := mark.event(m.options.Instance)
	for tries := 1; ; tries++ {
		_, err := m.options.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
			return nil
		case tries == markTries, hopeless(err):
			return err
		}
		if m.pause(ctx, markPause); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// hopeless tells of an error that trying again does not help: the namespace is gone or terminates, or there is no permission.
func hopeless(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

// event is named after the object and its UID: however often it is sent, and however often the object has to be failed anew because others
// overwrite the mark, there is one.
func (m *marked) event(instance string) *corev1.Event {
	uid := fnv.New64a()
	_, _ = uid.Write([]byte(m.UID)) // it never fails
	suffix := fmt.Sprintf(".%x", uid.Sum(nil))
	name := m.Name[:min(len(m.Name), validation.DNS1123SubdomainMaxLength-len(suffix))] + suffix
	namespace := m.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	at := metav1.NewTime(m.at)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: m.Kind.GroupVersion().String(), Kind: m.Kind.Kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID,
		},
		Type: corev1.EventTypeWarning, Reason: policy.ReasonDeadlineExceeded, Action: "Fail", Message: m.Message,
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		Source:              corev1.EventSource{Component: "curfew-controller"},
		ReportingController: "curfew-controller", ReportingInstance: instance,
	}
}
