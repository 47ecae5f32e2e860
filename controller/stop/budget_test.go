package stop

import (
	"errors"
	"slices"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// What deadlines delete counts into --max-deletions-per-minute; without room the object is failed,
// and what it runs is stopped as soon as there is room again.
func TestStepsKeepToTheBudget(t *testing.T) {
	s := newScene(t, nil, time.Time{}, mark(nil), deleteSet, deletePods)
	room := 0
	var happened []bool
	s.due.Reserve = func() (func(bool), bool) {
		if room == 0 {
			return nil, false
		}
		room--
		return func(h bool) { happened = append(happened, h) }, true
	}
	got := s.attempt(t)
	if sent := s.writes(); !slices.Equal(sent, []string{"patch runs/a"}) || got.Code != 200 || got.Again == 0 {
		t.Fatalf("sent %v, answer %+v; want the mark alone, and another look", sent, got)
	}
	room = 2
	s = again(t, s)
	s.attempt(t)
	if sent := s.writes(); !slices.Contains(sent, "delete sets/a") || !slices.Contains(sent, "delete pods/a-0") || !slices.Equal(happened, []bool{true, true}) {
		t.Errorf("sent %v, counted %v; want the set and its Pod, both counted", sent, happened)
	}
}

// again is the scene after the mark, with the same budget.
func again(t *testing.T, s *scene) *scene {
	t.Helper()
	next := newScene(t, nil, s.options.Clock.Now(), mark(nil), deleteSet, deletePods)
	next.due.Reserve = s.due.Reserve
	return next
}

// A refusal has deleted nothing; a DELETE without an answer may have.
func TestWhatCountsIntoTheBudget(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"no answer": {errors.New("connection reset"), true},
		"refused":   {apierrors.NewForbidden(sets.GroupResource(), "a", errors.New("no")), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil, time.Now(), mark(nil), deleteSet)
			var happened []bool
			s.due.Reserve = func() (func(bool), bool) { return func(h bool) { happened = append(happened, h) }, true }
			s.objects.PrependReactor("delete", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			s.attempt(t)
			if !slices.Equal(happened, []bool{test.want}) {
				t.Errorf("counted %v, want %v", happened, test.want)
			}
		})
	}
}
