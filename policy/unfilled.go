package policy

import "maps"

// Unfilled undoes, in the facts alone, what an earlier call of admission for the same CREATE filled in: the API server
// calls again where another webhook changed the object in between, and the same answer has to come of it. Only what the
// scope would fill in again exactly is taken for Curfew's own. Whatever else a stamp claims is its author's.
func Unfilled(facts *Facts, scope *Scope) *Facts {
	out := facts
	if _, ok := defaultSource(facts.Annotations[AnnotationTTLSource]); ok {
		without := out.without(append([]string{AnnotationTTLSource}, TTLAnnotations...)...)
		without.NativeTTL = NativeField{}
		effective := Resolve(without, scope)
		if facts.holds(ttlAssignments(without, &effective, scope), len(facts.TTLs().Settings())+1) {
			out = without
		}
	}
	if _, ok := defaultSource(facts.Annotations[AnnotationDeadlineSource]); ok {
		without := out.without(AnnotationDeadlineSource, AnnotationActiveDeadline)
		without.NativeDeadline = NativeField{}
		effective := Resolve(without, scope)
		if facts.holds(deadlineAssignments(without, &effective), 2) {
			out = without
		}
	}
	return out
}

func (f *Facts) without(annotations ...string) *Facts {
	out := *f
	out.Annotations = maps.Clone(f.Annotations)
	for _, key := range annotations {
		delete(out.Annotations, key)
	}
	return &out
}

// holds reports whether there are so many assignments and the facts have all of them.
func (f *Facts) holds(assignments []Assignment, count int) bool {
	if len(assignments) != count {
		return false
	}
	for _, assignment := range assignments {
		native, isNative := f.native(assignment.Path)
		if seconds, ok := assignment.Value.(int64); ok && (!native.Set || native.Err != nil || native.Seconds != seconds) {
			return false
		}
		if isNative {
			if text, ok := assignment.Value.(string); ok && native.Text != text {
				return false
			}
			continue
		}
		if text, ok := f.Annotations[assignment.Path[len(assignment.Path)-1]]; !ok || text != assignment.Value {
			return false
		}
	}
	return true
}

// native is the native field at a path to which defaults are written, if there is one.
func (f *Facts) native(path FieldPath) (NativeField, bool) {
	switch path.String() {
	case f.Profile.TTL.String():
		return f.NativeTTL, true
	case f.Profile.Deadline.String():
		return f.NativeDeadline, true
	default:
		return NativeField{}, false
	}
}
