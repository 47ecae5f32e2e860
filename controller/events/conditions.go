package events

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/stop"
	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// maxScopes is how many scopes a message names.
const maxScopes = 3

// Conditions writes the condition on one kind of source.
type Conditions interface {
	// Write writes the condition Paused of one source, under the name that it has there. A missing
	// object is not an error.
	Write(ctx context.Context, name string, condition metav1.Condition) error
	// Left returns the sources whose condition is True, no matter who wrote it.
	Left(ctx context.Context) ([]string, error)
	// All returns the sources that a pause of everything concerns.
	All() []string
}

// wanted returns the condition of each paused source, and when a pause of everything starts to
// show.
func (p *Pauses) wanted(now time.Time) (want map[Target]metav1.Condition, wait time.Duration) {
	byTarget := map[Target][]pause{}
	var all []pause
	p.mu.Lock()
	for _, pause := range p.open {
		if pause.everything() {
			all = append(all, pause)
		} else if target := p.targetOf(&pause); target.Name != "" {
			byTarget[target] = append(byTarget[target], pause)
		}
	}
	p.mu.Unlock()
	if len(all) > 0 {
		first := slices.MinFunc(all, func(a, b pause) int { return a.began.Compare(b.began) })
		wait = max(0, lasting-now.Sub(first.began))
	}
	if len(all) > 0 && wait == 0 {
		for _, policies := range []bool{false, true} {
			for _, name := range p.of(policies).All() {
				target := Target{Policy: policies, Name: name}
				byTarget[target] = append(byTarget[target], all...)
			}
		}
	}
	want = make(map[Target]metav1.Condition, len(byTarget))
	for target, pauses := range byTarget {
		want[target] = conditionOf(pauses)
	}
	return want, wait
}

func conditionOf(pauses []pause) metav1.Condition {
	slices.SortFunc(pauses, func(a, b pause) int { return strings.Compare(a.Message, b.Message) })
	var messages []string
	for _, pause := range pauses[:min(maxScopes, len(pauses))] {
		messages = append(messages, pause.Message)
	}
	if more := len(pauses) - maxScopes; more > 0 {
		messages = append(messages, fmt.Sprintf("and %d more", more))
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: pauses[0].Reason, Message: strings.Join(messages, "; ")}
}

// write brings the condition of one source in step.
func (p *Pauses) write(ctx context.Context, target Target, want metav1.Condition) error {
	was, ever := p.written[target]
	if ever && was.Status == want.Status && was.Reason == want.Reason && was.Message == want.Message {
		return nil
	}
	want.LastTransitionTime = metav1.NewTime(p.options.Clock.Now())
	if ever && was.Status == want.Status && !was.LastTransitionTime.IsZero() {
		want.LastTransitionTime = was.LastTransitionTime
	}
	if err := p.of(target.Policy).Write(ctx, target.Name, want); err != nil {
		return fmt.Errorf("writing the condition Paused: %w", err)
	}
	delete(p.left, target)
	if want.Status == metav1.ConditionFalse {
		delete(p.written, target)
	} else {
		p.written[target] = want
	}
	loop.Pause(ctx, p.options.Clock, pace)
	return nil
}

// ConditionPaused is the type of the condition on a Namespace, which is not Curfew's own kind.
const ConditionPaused corev1.NamespaceConditionType = wellknown.Prefix + "Paused"

// Namespaces writes conditions in the status of Namespaces. Only the namespace controller writes
// there, too, while a namespace terminates, and it keeps conditions that it does not know.
type Namespaces struct {
	Client typedcorev1.NamespaceInterface
	// InUse returns the namespaces that use Curfew.
	InUse func() []string
}

// Write implements [Conditions]. Conditions are merged by type, so that no other is touched, into
// the state that was read: the namespace may be created again meanwhile. That a pause is over is
// written only where a condition says that there is one.
func (n Namespaces) Write(ctx context.Context, name string, condition metav1.Condition) error {
	live, err := n.Client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if condition.Status == metav1.ConditionFalse && !paused(live) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.UID, "resourceVersion": live.ResourceVersion},
		"status": map[string]any{"conditions": []corev1.NamespaceCondition{{
			Type: ConditionPaused, Status: corev1.ConditionStatus(condition.Status), LastTransitionTime: condition.LastTransitionTime,
			Reason: condition.Reason, Message: condition.Message,
		}}},
	})
	if err != nil {
		return err
	}
	_, err = n.Client.Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return client.IgnoreNotFound(err)
}

// paused reports whether a namespace has the condition.
func paused(namespace *corev1.Namespace) bool {
	return slices.ContainsFunc(namespace.Status.Conditions, func(condition corev1.NamespaceCondition) bool {
		return condition.Type == ConditionPaused && condition.Status == corev1.ConditionTrue
	})
}

// Left implements [Conditions].
func (n Namespaces) Left(ctx context.Context) ([]string, error) {
	var out []string
	_, err := watch.Each(ctx, metav1.ListOptions{}, n.Client.List, func(page *corev1.NamespaceList) error {
		for i := range page.Items {
			if paused(&page.Items[i]) {
				out = append(out, page.Items[i].Name)
			}
		}
		return nil
	})
	return out, err
}

// All implements [Conditions].
func (n Namespaces) All() []string { return n.InUse() }

// component is the source of Events.
const component = "curfew-controller"

// Failures returns a function that writes an Event on an object that was failed for its deadline,
// until ctx is done. client-go's recorder writes one at a time, so that stopping objects comes
// first; it drops Events when thousands wait, which leaves them in the log alone.
func Failures(ctx context.Context, sink record.EventSink) func(stop.Mark) {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(sink)
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component})
	return func(mark stop.Mark) {
		recorder.Event(&corev1.ObjectReference{
			APIVersion: mark.Kind.GroupVersion().String(), Kind: mark.Kind.Kind, Namespace: mark.Namespace, Name: mark.Name, UID: mark.UID,
		}, corev1.EventTypeWarning, policy.ReasonDeadlineExceeded, mark.Message)
	}
}
