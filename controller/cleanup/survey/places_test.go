package survey

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// granting grants everything in some namespaces, "" meaning all of them, and counts the questions.
type granting struct {
	*world
	in    []string
	asked int
}

func (g *granting) Lacks(_ context.Context, _ schema.GroupVersionResource, namespace string, verbs ...string) (string, error) {
	if g.asked++; slices.Contains(g.in, namespace) || slices.Contains(g.in, "") {
		return "", nil
	}
	return verbs[0], nil
}

// An account that may act everywhere is not asked about each namespace.
func TestOneQuestionForAllNamespaces(t *testing.T) {
	p := policyOf(t, v1alpha1.CleanupSpec{}, []string{"configmaps"})
	for name, c := range map[string]struct {
		in         []string
		asked      int
		namespaces []string
		lacks      []string
	}{
		"everywhere": {in: []string{""}, asked: 1, namespaces: []string{"a", "b", "c"}},
		"in one":     {in: []string{"b"}, asked: 4, namespaces: []string{"b"}, lacks: []string{`list configmaps in namespace "a"`, `list configmaps in namespace "c"`}},
	} {
		t.Run(name, func(t *testing.T) {
			reader := &granting{world: newWorld(), in: c.in}
			turns := 0
			s := New(p, reader, Options{Yield: func(context.Context, bool) error { turns++; return nil }, Served: func(context.Context) ([]cleanup.Resource, error) { return reader.served, nil }})
			place, lacks, err := s.place(t.Context(), p.Targets(reader.served)[0], []string{"a", "b", "c"}, false)
			if err != nil || reader.asked != c.asked || !slices.Equal(place.namespaces, c.namespaces) || place.only != nil || fmt.Sprint(lacks) != fmt.Sprint(c.lacks) {
				t.Errorf("lists %q, only %v, lacks %q, %v after %d questions; want %+v", place.namespaces, place.only, lacks, err, reader.asked, c)
			}
			if reader.asked > turns+1 {
				t.Errorf("%d questions, and others had %d turns", reader.asked, turns)
			}
		})
	}
}
