package notice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"curfew.dev/curfew/controller/action/stop"
	"curfew.dev/curfew/policy"
)

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
