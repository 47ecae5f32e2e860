package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/wellknown"
)

// Facts holds all that Curfew knows about one object, of any kind. It is read once, shared, and
// never changed.
type Facts struct {
	Profile *Profile

	Namespace, Name string
	UID             types.UID
	ResourceVersion string
	Labels          map[string]string
	Annotations     map[string]string
	Finalizers      []string
	// Created is zero at admission of a CREATE, where the API server has not filled it in.
	Created time.Time
	// Deleting means that metadata.deletionTimestamp is set, to DeletingSince.
	Deleting      bool
	DeletingSince time.Time
	// Owner is the owner reference with controller: true, if there is one.
	Owner *metav1.OwnerReference
	// ManagedBy is the value of the profile's managedBy field.
	ManagedBy string
	// RestartPolicy of a Pod, as written; "" means Always.
	RestartPolicy string

	// NativeTTL and NativeDeadline are the profile's native fields.
	NativeTTL, NativeDeadline lifetime.NativeField
	// DeadlineByCurfew means that Curfew enforces the deadline itself, the native one too: nothing
	// shows that the kind's own controller does.
	DeadlineByCurfew bool
	// NativeSucceeded and NativeFailed are the profile's native TTLs by outcome.
	NativeSucceeded, NativeFailed lifetime.NativeField

	State
	// Exceeded is when the object was failed for its deadline, by its status, or when Curfew
	// suspended it. It is only set for kinds whose profile has a deadline.
	Exceeded time.Time
	// StateError says why the state cannot be read. The object is then kept.
	StateError error
}

// Protected reports whether the annotation protects the object from Curfew. A value other than
// "true" and "false" protects too: an unreadable value means keep (S6).
func (f *Facts) Protected() bool {
	value, ok := f.Annotations[wellknown.AnnotationProtect]
	return ok && value != "false"
}

// ForeignManager names a controller other than the kind's own, or in another cluster, that manages
// the object; "" where there is none. noMultiKueue: see [Facts.MultiKueueCopy].
func (f *Facts) ForeignManager(noMultiKueue bool) string {
	if f.ManagedBy != "" && f.ManagedBy != f.Profile.DefaultManager {
		return f.ManagedBy
	}
	if f.MultiKueueCopy() && !noMultiKueue {
		return "MultiKueue"
	}
	return ""
}

// MultiKueueCopy reports whether MultiKueue copied the object, with its TTL, label and stamps, to
// this cluster. If the copy were deleted, the manager would dispatch the object again. So no
// trigger applies to it (S5). Anyone may write the label: it counts for nothing where Kueue's CRD is
// surely not served (noMultiKueue), which no object says of itself.
func (f *Facts) MultiKueueCopy() bool {
	_, ok := f.Labels[wellknown.LabelMultiKueueOrigin]
	return ok && MultiKueueCopies(f.Profile.Kind.GroupKind())
}

// MultiKueueCopies reports whether MultiKueue may copy objects of the kind: those that run something.
// Custom kinds do, since its externalFrameworks may name any.
func MultiKueueCopies(kind schema.GroupKind) bool {
	custom := strings.Contains(kind.Group, ".") && !strings.HasSuffix(kind.Group, ".k8s.io")
	return custom || slices.Contains([]string{"", "Job", "Pod", "StatefulSet", "Deployment"}, kind.Kind)
}

// KeptCopy is the verdict on what [Facts.MultiKueueCopy] reports.
func KeptCopy() Verdict {
	return Kept(fmt.Sprintf("is a copy made by MultiKueue (label %s), which its manager cluster deletes", wellknown.LabelMultiKueueOrigin))
}

// OwnedByCronJob reports whether a CronJob controls the object.
func (f *Facts) OwnedByCronJob() bool { return f.OwnedBy("batch", "CronJob") }

// OwnedByJob reports whether a Job controls the object.
func (f *Facts) OwnedByJob() bool { return f.OwnedBy("batch", "Job") }

// OwnedBy reports whether an object of the group and kind controls this one.
func (f *Facts) OwnedBy(group, kind string) bool {
	return f.Owner != nil && f.Owner.Kind == kind && groupOf(f.Owner.APIVersion) == group
}

// IsPod reports whether the object is a core Pod, which has rules of its own.
func (f *Facts) IsPod() bool { return f.Profile.Kind.Group == "" && f.Profile.Kind.Kind == "Pod" }

// IsNamespace reports whether the object is a Namespace.
func (f *Facts) IsNamespace() bool {
	return f.Profile.Kind.Group == "" && f.Profile.Kind.Kind == "Namespace"
}

// TTLs are the TTLs in the object itself: the native fields and the annotations.
func (f *Facts) TTLs() lifetime.TTLSet {
	set := lifetime.TTLSetOf("metadata.annotations", f.Annotations,
		wellknown.AnnotationTTL, wellknown.AnnotationTTLSucceeded, wellknown.AnnotationTTLFailed)
	set.Native = f.NativeTTL.Setting(f.Profile.TTL)
	set.NativeSucceeded = f.NativeSucceeded.Setting(f.Profile.TTLSucceeded)
	set.NativeFailed = f.NativeFailed.Setting(f.Profile.TTLFailed)
	return set
}

// LabelClock is the instant from which a TTL label counts that is a duration: the creation, or a
// later refresh. Anyone who can update the object can write the refresh, which only defers the
// expiry, within the bounds. With an error the refresh cannot be read.
func (f *Facts) LabelClock() (time.Time, error) {
	text, ok := f.Annotations[wellknown.AnnotationRefreshedAt]
	if !ok {
		return f.Created, nil
	}
	t, err := lifetime.ParseTime(text)
	if err != nil {
		return f.Created, fmt.Errorf("%s: %q is not an RFC 3339 time: use one such as 2026-12-24T00:30:00Z, or remove it",
			AnnotationPath(wellknown.AnnotationRefreshedAt), quote.Shorten(text))
	}
	if t.Before(f.Created) {
		return f.Created, nil
	}
	return t, nil
}

// Deadline is the deadline in the object itself: the native field, else the annotation if the
// profile lets Curfew enforce one. Nil means none is set; never means that the author wants none.
func (f *Facts) Deadline() *lifetime.Setting {
	if f.NativeDeadline.Set {
		path, text := f.Profile.Deadline.String(), f.NativeDeadline.Text
		switch {
		case f.NativeDeadline.Err != nil:
			return &lifetime.Setting{Path: path, Text: text, Err: f.NativeDeadline.Err}
		case f.NativeDeadline.None:
			return &lifetime.Setting{Path: path, Text: text, TTL: lifetime.TTL{Never: true}}
		case f.Profile.DurationDeadline:
			return &lifetime.Setting{Path: path, Text: text, TTL: lifetime.TTL{After: time.Duration(f.NativeDeadline.Seconds) * time.Second}}
		default:
			return lifetime.DeadlineSetting(path, strconv.FormatInt(f.NativeDeadline.Seconds, 10))
		}
	}
	text, ok := f.Annotations[wellknown.AnnotationActiveDeadline]
	if !ok || !f.Profile.AnnotatedDeadline {
		return nil
	}
	return lifetime.DeadlineSetting(AnnotationPath(wellknown.AnnotationActiveDeadline), text)
}

// Known reports whether Curfew reads or writes a key.
func Known(key string) bool {
	others := []string{wellknown.LabelAggregate, wellknown.LabelFeature, wellknown.AnnotationCountedBy, wellknown.AnnotationSuspendedAt}
	return slices.Contains(wellknown.ObjectKeys, key) || slices.Contains(wellknown.NamespaceKeys, key) || slices.Contains(others, key)
}

// AnnotationPath is the field path of an annotation, as messages and field errors write it.
func AnnotationPath(key string) string { return fmt.Sprintf("metadata.annotations[%s]", key) }

// LabelPath is the field path of a label.
func LabelPath(key string) string { return fmt.Sprintf("metadata.labels[%s]", key) }

func groupOf(apiVersion string) string {
	return apiVersion[:max(strings.IndexByte(apiVersion, '/'), 0)]
}

// FactsOfMeta reads the metadata, which every object has.
func FactsOfMeta(profile *Profile, meta *metav1.ObjectMeta) Facts {
	facts := Facts{
		Profile:         profile,
		Namespace:       meta.Namespace,
		Name:            meta.Name,
		UID:             meta.UID,
		ResourceVersion: meta.ResourceVersion,
		Labels:          meta.Labels,
		Annotations:     meta.Annotations,
		Finalizers:      meta.Finalizers,
		Created:         meta.CreationTimestamp.Time,
		Deleting:        meta.DeletionTimestamp != nil,
		Owner:           metav1.GetControllerOfNoCopy(meta),
	}
	if facts.Deleting {
		facts.DeletingSince = meta.DeletionTimestamp.Time
	}
	return facts
}

// correctTimes makes the times of a status safe to count from (S6). The epoch or anything before it
// means that no time was set. A time before the object's creation counts as the creation: the
// status was copied, perhaps from a backup, or a clock was wrong. For a finished Pod without a
// finish time, the one that Curfew recorded counts.
func (f *Facts) correctTimes() {
	for _, t := range []*time.Time{&f.Started, &f.FinishTime, &f.Exceeded} {
		switch {
		case t.Unix() <= 0:
			*t = time.Time{}
		case t.Before(f.Created):
			*t = f.Created
		}
	}
	text, ok := f.Annotations[wellknown.AnnotationFinishedAt]
	if !ok || !f.IsPod() || !f.Finished || !f.FinishTime.IsZero() {
		return
	}
	instant, err := lifetime.ParseTime(text)
	if err != nil || instant.Before(f.Created) {
		return
	}
	f.FinishTime = instant
}
