package discovery

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Place is a kind that is served, and where its TTL labels take effect: the namespaces in which the
// controller may delete its objects, "" alone for all of them, none for nowhere.
type Place struct {
	Kind
	Namespaces []string
}

// OnChange registers a function that is called when [Labels.Everywhere] or [Labels.Places] has
// changed. Call it before Run.
func (l *Labels) OnChange(f func()) { l.changed = append(l.changed, f) }

// Everywhere returns the resources whose objects Curfew may delete in all namespaces, in a stable
// order. It returns false until that is known.
func (l *Labels) Everywhere() ([]schema.GroupResource, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.everywhere, l.everywhere != nil
}

// Places are the kinds that are served, in a stable order. It returns false until they are known.
func (l *Labels) Places() ([]Place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.places, l.places != nil
}

// Served are the kinds of [Labels.Places].
func (l *Labels) Served() ([]Kind, bool) {
	places, known := l.Places()
	var out []Kind
	for _, place := range places {
		out = append(out, place.Kind)
	}
	return out, known
}

func (l *Labels) set(everywhere []schema.GroupResource, places []Place) {
	order := func(a, b schema.GroupResource) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource))
	}
	slices.SortFunc(everywhere, order)
	slices.SortFunc(places, func(a, b Place) int { return order(a.GroupResource(), b.GroupResource()) })
	l.mu.Lock()
	same := l.places != nil && slices.Equal(l.everywhere, everywhere) && slices.EqualFunc(l.places, places, Place.equal)
	l.everywhere, l.places = everywhere, places
	l.mu.Unlock()
	if same {
		return
	}
	for _, f := range l.changed {
		f()
	}
}

func (p Place) equal(other Place) bool {
	return p.Kind == other.Kind && slices.Equal(p.Namespaces, other.Namespaces)
}
