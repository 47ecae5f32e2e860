package follow

import (
	"context"
	"errors"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// TestOverwrite: a write ends when its outcome is known. Users who edit the object all the time
// cannot have Curfew write all the time (S7, S9).
func TestOverwrite(t *testing.T) {
	var (
		conflict  = apierrors.NewConflict(schema.GroupResource{Resource: "podtallies"}, "t", errors.New("it was changed"))
		notFound  = apierrors.NewNotFound(schema.GroupResource{Resource: "podtallies"}, "t")
		gone      = errors.New("it is gone")
		overtaken = errors.New("another process counts")
		busy      = errors.New("the API server is busy")
	)
	for name, c := range map[string]struct {
		answers []error // of the writes; the last one is repeated
		written bool    // the status that is read after a conflict is the wanted one
		reread  error
		want    error
		writes  int
	}{
		"written at once":                 {answers: []error{nil}, writes: 1},
		"written after an edit":           {answers: []error{conflict, nil}, writes: 2},
		"an earlier answer was lost":      {answers: []error{conflict}, written: true, writes: 1},
		"another process has written":     {answers: []error{conflict}, reread: overtaken, want: overtaken, writes: 1},
		"deleted before the write":        {answers: []error{notFound}, want: gone, writes: 1},
		"deleted after a conflict":        {answers: []error{conflict}, reread: notFound, want: gone, writes: 1},
		"no answer":                       {answers: []error{busy}, want: busy, writes: 1},
		"a user edits it without a break": {answers: []error{conflict}, want: conflict, writes: 6},
	} {
		inBubble(t, name, func(t *testing.T) {
			writes := 0
			err := Overwrite(t.Context(), clock.RealClock{}, gone, func(context.Context) error {
				writes++
				return c.answers[min(writes, len(c.answers))-1]
			}, func(context.Context) (bool, error) { return c.written, c.reread })
			if !errors.Is(err, c.want) {
				t.Errorf("it ends with %v, want %v", err, c.want)
			}
			if writes != c.writes {
				t.Errorf("it writes %d times, want %d", writes, c.writes)
			}
		})
	}
}

// A patch of a status replaces the status of the state that it names, and changes nothing else: an
// owner of a label still owns it.
func TestStatusPatch(t *testing.T) {
	patch, err := StatusPatch("uid", "7", map[string]any{"succeeded": 1})
	if err != nil {
		t.Fatal(err)
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	was := `{"metadata": {"name": "t", "uid": "another", "resourceVersion": "6", "labels": {"team": "a"}}, "spec": {"n": 1}, "status": {"failed": 2}}`
	is, err := operations.Apply([]byte(was))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"metadata": {"name": "t", "uid": "uid", "resourceVersion": "7", "labels": {"team": "a"}}, "spec": {"n": 1}, "status": {"succeeded": 1}}`
	if !jsonpatch.Equal(is, []byte(want)) {
		t.Errorf("%s, want %s", is, want)
	}
	if is, err = operations.Apply([]byte(`{"metadata": {}}`)); err != nil || !strings.Contains(string(is), `"succeeded":1`) {
		t.Errorf("an object without a status becomes %s, %v", is, err)
	}
}
