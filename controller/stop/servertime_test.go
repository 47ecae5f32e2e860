package stop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/policy/v1alpha1"
)

// S6: a mark is the finish time of what it fails, and of what copies it. It carries the API
// server's time, and waits while that is not known: by a clock that is behind, the object would be
// deleted too soon.
func TestMarksCarryTheServersTime(t *testing.T) {
	for name, step := range map[string]v1alpha1.StopStep{"the object": mark(nil), "its child": mark(child)} {
		s := newScene(t, map[string]any{}, time.Time{}, step)
		there := s.options.Clock.Now().Add(time.Hour)
		s.options.ServerTime = func(context.Context) (time.Time, error) { return time.Time{}, errors.New("not known") }
		if got := s.attempt(t); got.Err == nil {
			t.Errorf("%s: the answer is %+v, want an error", name, got)
		}
		if got := s.writes(); len(got) != 0 {
			t.Errorf("%s: it sent %v while the time is not known", name, got)
		}
		s.options.ServerTime = func(context.Context) (time.Time, error) { return there, nil }
		s.attempt(t)
		var marks []string
		for _, sent := range slices.Concat(s.metadata.Actions(), s.objects.Actions()) {
			if patch, ok := sent.(clienttesting.PatchAction); ok {
				marks = append(marks, string(patch.GetPatch()))
			}
		}
		if want := `"lastTransitionTime":"` + there.Format(time.RFC3339) + `"`; len(marks) != 1 || !strings.Contains(marks[0], want) {
			t.Errorf("%s: marked %q, want %s", name, marks, want)
		}
	}
}
