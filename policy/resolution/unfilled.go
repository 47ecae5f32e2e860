package resolution

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// filling is a value that admission fills in, and stamps: the TTL or the deadline.
type filling struct {
	stamp string
	// keys are the annotations, and native the field, that may hold it.
	keys   []string
	native func(*policy.Profile) fieldpath.FieldPath
	// settings are those of an object, and values the effective ones, by outcome.
	settings    func(*policy.Facts) []*lifetime.Setting
	values      func(*Effective) []Value
	assignments func(*policy.Facts, *Effective, *Scope) []Assignment
}

var fillings = []filling{{
	stamp: wellknown.AnnotationTTLSource, keys: wellknown.TTLAnnotations,
	native: func(p *policy.Profile) fieldpath.FieldPath { return p.TTL },
	settings: func(facts *policy.Facts) []*lifetime.Setting {
		own := facts.TTLs()
		return []*lifetime.Setting{own.For(lifetime.Succeeded), own.For(lifetime.Failed)}
	},
	values:      func(e *Effective) []Value { return []Value{e.Succeeded, e.Failed} },
	assignments: ttlAssignments,
}, {
	stamp: wellknown.AnnotationDeadlineSource, keys: []string{wellknown.AnnotationActiveDeadline},
	native:      func(p *policy.Profile) fieldpath.FieldPath { return p.Deadline },
	settings:    func(facts *policy.Facts) []*lifetime.Setting { return []*lifetime.Setting{facts.Deadline()} },
	values:      func(e *Effective) []Value { return []Value{e.Deadline} },
	assignments: deadlineAssignments,
}}

// fields are those that may hold the value, without its stamp.
func (f filling) fields(profile *policy.Profile) []fieldpath.FieldPath {
	var out []fieldpath.FieldPath
	if native := f.native(profile); native != nil {
		out = append(out, native)
	}
	for _, key := range f.keys {
		out = append(out, annotate(key, "").Path)
	}
	return out
}

// stampedFields are the fields of an object that its stamps claim were filled in, including the stamps.
func stampedFields(facts *policy.Facts) []fieldpath.FieldPath {
	var out []fieldpath.FieldPath
	for _, each := range fillings {
		if _, ok := facts.Annotations[each.stamp]; ok {
			out = append(append(out, each.fields(facts.Profile)...), annotate(each.stamp, "").Path)
		}
	}
	return out
}

// Unfilled takes out of a new object what an earlier admission call for the same CREATE filled in,
// and returns the paths of that. The API server calls again if another webhook changed the object in
// between, perhaps so that the default may not or need not be there any more: it is decided on again.
//
// A value is Curfew's own if the source that its stamp names gives exactly this value, whatever else
// is known of the object now. The policies of the scope are those of the kind, whether they match the
// object or not. Anyone can write a stamp. A forged one beside the value of a default gives the object
// what it would get without both. Any other value is the author's: Curfew removes only the stamp.
func Unfilled(facts *policy.Facts, giving *Scope, now time.Time) (*policy.Facts, []fieldpath.FieldPath) {
	if giving.Mode() == ModeDryRun {
		return facts, nil
	}
	var taken []fieldpath.FieldPath
	for _, each := range fillings {
		taken = append(taken, each.taken(facts, giving)...)
	}
	taken = append(taken, takenLabel(facts, giving, now)...)
	if len(taken) == 0 {
		return facts, nil
	}
	return lacking(facts, taken), taken
}

// taken are the stamp, and the fields that its source filled in.
func (f filling) taken(facts *policy.Facts, giving *Scope) []fieldpath.FieldPath {
	text, ok := facts.Annotations[f.stamp]
	if !ok {
		return nil
	}
	out := []fieldpath.FieldPath{annotate(f.stamp, "").Path}
	if source, ok := defaultSource(facts.Annotations, f.stamp); ok {
		giving.alone(facts, source, func(bare *policy.Facts, scope *Scope) {
			effective := Resolve(bare, scope)
			out = append(out, carried(facts, f.assignments(bare, &effective, scope))...)
		})
	} else if _, annotated := facts.Annotations[wellknown.AnnotationActiveDeadline]; annotated && f.stamp == wellknown.AnnotationDeadlineSource &&
		text == string(lifetime.LevelObject) && facts.Profile.AnnotatedDeadline && facts.FillsNativeDeadline() && facts.NativeDeadline.Set {
		out = append(out, facts.Profile.Deadline) // A copy of the annotation.
	}
	return out
}

func takenLabel(facts *policy.Facts, giving *Scope, now time.Time) []fieldpath.FieldPath {
	text, _, _ := strings.Cut(facts.Annotations[wellknown.AnnotationLabelSource], " ")
	if lifetime.ParseSource(text).Level != lifetime.LevelPolicy {
		return nil
	}
	out := []fieldpath.FieldPath{annotate(wellknown.AnnotationLabelSource, "").Path}
	if source, backfill := facts.ClaimedLabel(); source.Level == lifetime.LevelPolicy && !backfill {
		giving.alone(facts, source, func(bare *policy.Facts, scope *Scope) {
			label, setting := DefaultLabel(bare, scope, now)
			out = append(out, carried(facts, LabelAssignments(bare, label, setting, false))...)
		})
	}
	return out
}

// alone visits scopes in which one source alone gives defaults, and an object of which nothing is
// known that keeps it from getting these. The bounds are all, none, or those of the namespace or one
// policy: which policies match, and clamp the default, may have changed since. So may the owner.
func (s *Scope) alone(facts *policy.Facts, source lifetime.Source, visit func(*policy.Facts, *Scope)) {
	only := Scope{Creating: true, Protected: s.Protected, AnnotationsOnly: s.AnnotationsOnly, Off: s.Off}
	var every []*PlatformPolicy
	if namespacePolicy := s.Namespace; namespacePolicy != nil {
		if source == (lifetime.Source{Level: lifetime.LevelNamespace, Name: namespacePolicy.Name}) {
			only.Namespace = &NamespacePolicy{Name: namespacePolicy.Name, TTL: namespacePolicy.TTL, PodTTL: namespacePolicy.PodTTL, Deadline: namespacePolicy.Deadline}
		}
		every = append(every, &PlatformPolicy{Bounds: namespacePolicy.Bounds})
	}
	if runtimePolicy := s.Runtime; runtimePolicy != nil && source == (lifetime.Source{Level: lifetime.LevelRuntime, Name: runtimePolicy.Name}) {
		only.Runtime = runtimePolicy
	}
	for _, platformPolicy := range s.Policies {
		if platformPolicy.Source() == source && platformPolicy.Mode != ModeDryRun {
			given := *platformPolicy
			given.Bounds, given.LatestDate, given.LatestUnreadable = lifetime.Bounds{}, time.Time{}, nil
			only.Policies = []*PlatformPolicy{&given}
		}
		every = append(every, &PlatformPolicy{Mode: platformPolicy.Mode, Bounds: platformPolicy.Bounds, LatestDate: platformPolicy.LatestDate})
	}
	bounds := [][]*PlatformPolicy{nil, every}
	for i := range every {
		bounds = append(bounds, every[i:i+1])
	}
	bare := policy.Facts{Profile: facts.Profile, Namespace: facts.Namespace, Name: facts.Name,
		RestartPolicy: string(corev1.RestartPolicyNever), DeadlineByCurfew: facts.DeadlineByCurfew}
	for _, owner := range []*metav1.OwnerReference{nil, {APIVersion: "batch/v1", Kind: "CronJob"}} {
		if bare.Owner = owner; owner != nil && !bare.IsCronJobsJob() {
			return
		}
		for _, within := range bounds {
			scope := only
			scope.Policies = slices.Concat(only.Policies, within)
			visit(&bare, &scope)
		}
	}
}

// lacking returns the facts without some fields that admission writes.
func lacking(facts *policy.Facts, paths []fieldpath.FieldPath) *policy.Facts {
	out := *facts
	out.Annotations, out.Labels = maps.Clone(facts.Annotations), maps.Clone(facts.Labels)
	for _, path := range paths {
		switch {
		case slices.Equal(path, facts.Profile.TTL):
			out.NativeTTL = lifetime.NativeField{}
		case slices.Equal(path, facts.Profile.Deadline):
			out.NativeDeadline = lifetime.NativeField{}
		case path[1] == "labels":
			delete(out.Labels, path[2])
		default:
			delete(out.Annotations, path[2])
		}
	}
	return &out
}

func includes(paths []fieldpath.FieldPath, path fieldpath.FieldPath) bool {
	return slices.ContainsFunc(paths, func(f fieldpath.FieldPath) bool { return slices.Equal(f, path) })
}

// Replace adds to the assignments the removal of each path that none of them sets.
func Replace(taken []fieldpath.FieldPath, assignments []Assignment) []Assignment {
	for _, path := range taken {
		assignments = override([]Assignment{{Path: path}}, assignments)
	}
	return assignments
}

// override returns some assignments, and those before of other paths.
func override(before, by []Assignment) []Assignment {
	for _, assignment := range before {
		if !slices.ContainsFunc(by, func(other Assignment) bool { return slices.Equal(assignment.Path, other.Path) }) {
			by = append(by, assignment)
		}
	}
	return by
}

// Attested returns the facts of a new object without the stamps that admission would not write in
// any of the scopes, and the keys of these stamps. A stamp claims that the value is a default; if
// it is not, the value is the author's. Only a CREATE can be checked like this: later the defaults,
// and their inputs, may differ.
func Attested(facts *policy.Facts, scopes ...*Scope) (attested *policy.Facts, forged []string) {
	attested = facts
	for _, each := range fillings {
		text, ok := facts.Annotations[each.stamp]
		if !ok || text == string(lifetime.LevelObject) {
			continue
		}
		if !slices.ContainsFunc(scopes, func(scope *Scope) bool {
			if scope == nil || scope.Mode() == ModeDryRun {
				return false
			}
			creating := *scope
			creating.Creating = true
			return each.stays(facts, &creating)
		}) {
			attested, forged = attested.Without(each.stamp), append(forged, each.stamp)
		}
	}
	return attested, forged
}

// stays reports whether admission would fill in again exactly what the object has.
func (f filling) stays(facts *policy.Facts, scope *Scope) bool {
	taken := f.taken(facts, scope)
	without := lacking(facts, taken)
	effective := Resolve(without, scope)
	assignments := Replace(taken, f.assignments(without, &effective, scope))
	return len(carried(facts, assignments)) == len(assignments)
}

// carried are the paths of the assignments that an object has already.
func carried(facts *policy.Facts, assignments []Assignment) []fieldpath.FieldPath {
	var out []fieldpath.FieldPath
	for _, assignment := range assignments {
		if carries(facts, assignment) {
			out = append(out, assignment.Path)
		}
	}
	return out
}

func carries(facts *policy.Facts, assignment Assignment) bool {
	if native, ok := facts.Native(assignment.Path); ok {
		switch value := assignment.Value.(type) {
		case int64:
			return native.Set && native.Err == nil && native.Seconds == value
		case string:
			return native.Text == value
		default:
			return !native.Set
		}
	}
	keys, key := facts.Annotations, assignment.Path[len(assignment.Path)-1]
	if assignment.Path[1] == "labels" {
		keys = facts.Labels
	}
	text, ok := keys[key]
	return ok && text == assignment.Value || !ok && assignment.Value == nil
}
