package tally

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/requirement"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Tally is a compiled PodTally. It is safe for concurrent use.
type Tally struct {
	Namespace, Name string
	UID             types.UID
	// Generation is that of the spec.
	Generation int64
	// Created is zero at admission of a CREATE.
	Created time.Time
	// Deleting means that the tally is being deleted. It then selects nothing.
	Deleting bool
	// TTL is spec.ttlAfterCounted; nil if it is absent.
	TTL *lifetime.Setting
	// Requires is the record for older versions of Curfew that has to be written; else nil.
	Requires *metav1.Condition

	selector labels.Selector
}

// maxTerms bounds the values and requirements of a selector, which is matched with every new Pod
// of the namespace (S9).
const maxTerms = 256

// Compile compiles a PodTally. With an error in the selector the tally selects nothing; with one in
// ttlAfterCounted it keeps its Pods (S6).
func Compile(object *v1alpha1.PodTally) (*Tally, field.ErrorList) {
	out := &Tally{
		Namespace: object.Namespace, Name: object.Name, UID: object.UID, Generation: object.Generation, Created: object.CreationTimestamp.Time,
		Deleting: object.DeletionTimestamp != nil, selector: labels.Nothing(),
	}
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if selector, err := compileSelector(spec.Child("selector"), &object.Spec.Selector); err != nil {
		errs = append(errs, err)
	} else {
		out.selector = selector
	}
	if text := object.Spec.TTLAfterCounted; text != nil {
		path, source := spec.Child("ttlAfterCounted"), lifetime.Source{Level: lifetime.LevelTally, Name: object.Name}
		out.TTL = &lifetime.Setting{Path: path.String(), Source: source, Text: string(*text)}
		if out.TTL.TTL, out.TTL.Err = lifetime.ParseTTL(out.TTL.Text); out.TTL.Err != nil {
			errs = append(errs, field.Invalid(path, out.TTL.Text, out.TTL.Err.Error()))
		}
	}
	return out, errs
}

// Read is [Compile] for a PodTally in its JSON form. If it needs a newer Curfew, it counts, and the
// Pods that it has counted are kept.
func Read(object map[string]any) (*Tally, field.ErrorList) {
	typed, held := &v1alpha1.PodTally{}, requirement.Unmet("PodTally", object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed); err != nil {
		held = append(held, field.Invalid(field.NewPath("spec"), field.OmitValueType{}, err.Error()))
	}
	out, errs := Compile(typed)
	out.Requires = requirement.Record("PodTally", object)
	if err := held.ToAggregate(); err != nil {
		out.TTL = &lifetime.Setting{Path: "spec", Source: lifetime.Source{Level: lifetime.LevelTally, Name: out.Name}, Err: err}
	}
	return out, append(errs, held...)
}

func compileSelector(path *field.Path, spec *metav1.LabelSelector) (labels.Selector, *field.Error) {
	terms := len(spec.MatchLabels) + len(spec.MatchExpressions)
	for i := range spec.MatchExpressions {
		terms += len(spec.MatchExpressions[i].Values)
	}
	switch {
	case terms == 0:
		return nil, field.Required(path, "an empty selector would match every Pod of the namespace: set matchLabels or matchExpressions")
	case terms > maxTerms:
		return nil, field.TooMany(path, terms, maxTerms)
	}
	selector, err := metav1.LabelSelectorAsSelector(spec)
	if err != nil {
		return nil, field.Invalid(path, quote.Shorten(metav1.FormatLabelSelector(spec)), err.Error())
	}
	return selector, nil
}

// Selects reports whether the tally matches a Pod that can be counted at all.
func (t *Tally) Selects(pod *policy.Facts) bool {
	return !t.Deleting && t.Namespace == pod.Namespace && t.selector.Matches(labels.Set(pod.Labels)) && Exempt(pod) == ""
}

// Covers reports whether the selector of t certainly matches every Pod that the other's matches:
// it has no other requirements. If it reports false they may overlap all the same, which only the
// Pods show.
func (t *Tally) Covers(other *Tally) bool {
	if t.Namespace != other.Namespace {
		return false
	}
	mine, usable := t.selector.Requirements()
	theirs, comparable := other.selector.Requirements()
	return usable && comparable && !slices.ContainsFunc(mine, func(requirement labels.Requirement) bool {
		return !slices.ContainsFunc(theirs, requirement.Equal)
	})
}

// String names the tally in messages: PodTally "ci/builds".
func (t *Tally) String() string { return fmt.Sprintf("PodTally %q", t.Namespace+"/"+t.Name) }

// Counter holds the settings of the tally for the Pods that it has counted.
func (t *Tally) Counter() *resolution.PodCounter {
	return &resolution.PodCounter{Source: lifetime.Source{Level: lifetime.LevelTally, Name: t.Name}, TTL: t.TTL}
}

// CounterOf is the same for a PodTally in its JSON form.
func CounterOf(object map[string]any) *resolution.PodCounter {
	read, _ := Read(object) // The counter holds the errors.
	return read.Counter()
}

// Exempt says why no tally counts a Pod ("belongs to a Job, which counts it"), or returns "".
func Exempt(pod *policy.Facts) string {
	switch _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; {
	case pod.OwnedByJob(), pod.Uncounted():
		return "belongs to a Job, which counts it"
	case mirror:
		return "is a mirror Pod, which the kubelet deletes"
	case pod.AlwaysRestarts():
		return "has restartPolicy Always, so it never finishes"
	case pod.CurfewsOwn():
		return "is part of Curfew"
	case pod.MultiKueueCopy():
		return "is a copy made by MultiKueue"
	}
	return ""
}

// Held reports whether the Pod has the finalizer of tallies.
func Held(pod *policy.Facts) bool { return slices.Contains(pod.Finalizers, wellknown.FinalizerTally) }

// Before reports whether t keeps a Pod that both tallies match: the older one does, or else the one
// whose name comes first. One that is not created yet is the youngest.
func (t *Tally) Before(other *Tally) bool {
	switch {
	case t.Created.Equal(other.Created):
		return t.Name < other.Name
	case t.Created.IsZero() || other.Created.IsZero():
		return other.Created.IsZero()
	}
	return t.Created.Before(other.Created)
}

// Owner is the tally that counts a Pod, or nil.
func Owner(tallies []*Tally, pod *policy.Facts) *Tally {
	if len(tallies) > MaxPerNamespace {
		tallies, _ = Within(tallies)
	}
	var owner *Tally
	for _, tally := range tallies {
		if (owner == nil || tally.Before(owner)) && tally.Selects(pod) {
			owner = tally
		}
	}
	return owner
}

// MaxPerNamespace is how many PodTallies of a namespace count Pods: the oldest do. Each is matched
// with every Pod of the namespace, and kept with each Pod that it matches (S9).
const MaxPerNamespace = 100

// Within returns the tallies of a namespace that count, the oldest first, and the others. Those
// that are being deleted do neither.
func Within(tallies []*Tally) (counting, excess []*Tally) {
	counting = slices.DeleteFunc(slices.Clone(tallies), func(each *Tally) bool { return each.Deleting })
	slices.SortFunc(counting, func(a, b *Tally) int {
		switch {
		case a.Before(b):
			return -1
		case b.Before(a):
			return 1
		}
		return 0
	})
	most := min(len(counting), MaxPerNamespace)
	return counting[:most], counting[most:]
}
