package rules

import (
	"slices"

	"curfew.dev/curfew/policy/wellknown"
)

// Names of fields whose path depends on the profile of a kind, for [Rule.Fields].
const (
	NativeTTL        = "native TTL"
	NativeDeadline   = "native deadline"
	RuntimeReference = "runtime reference"
	ForbiddenField   = "forbidden field"
	RawTTL           = "pod template spec.ttlSecondsAfterFinished"
	// UnknownKey is any key with Curfew's prefix that Curfew does not know; UnknownNamespaceKey is
	// one on a Namespace.
	UnknownKey          = "unknown key"
	UnknownNamespaceKey = "unknown key of a Namespace"
	// InPodTemplate and InInherited begin the names of keys in the metadata of pod templates, and
	// in metadata that the kind's controller copies onto the objects it creates.
	InPodTemplate = "pod template "
	InInherited   = "inherited "
	// inClaim is metadata that ephemeral volumes in pod templates of custom kinds give their claims.
	inClaim = "claim template "
)

// AnnotationField and LabelField name a key of the object, or of a template of another object
// inside it.
func AnnotationField(key string) string { return "annotations[" + key + "]" }

// LabelField is the same for a label.
func LabelField(key string) string { return "labels[" + key + "]" }

func annotations(keys ...string) []string { return fieldsOf(AnnotationField, keys...) }

func fieldsOf(name func(string) string, keys ...string) []string {
	out := make([]string, 0, len(keys))
	for _, key := range keys {
		out = append(out, name(key))
	}
	return out
}

var (
	labelFields = []string{LabelField(wellknown.LabelTTL), LabelField(wellknown.LabelKyvernoTTL)}
	// ttlFields set a TTL after finished.
	ttlFields = append(annotations(wellknown.TTLAnnotations...), NativeTTL)
	// lifetimeFields set when the object is deleted.
	lifetimeFields = slices.Concat(ttlFields, labelFields)
	// permissionFields make Curfew delete an object that the author may not delete.
	permissionFields = slices.Concat(lifetimeFields,
		annotations(wellknown.AnnotationPodTTL, wellknown.AnnotationProtect, wellknown.AnnotationFinishedAt, wellknown.AnnotationRefreshedAt))
	deadlineField = annotations(wellknown.AnnotationActiveDeadline)
	podTTLField   = annotations(wellknown.AnnotationPodTTL)
)

// below are the keys that set a TTL or deadline, in metadata below another field.
func below(where string) []string {
	var out []string
	for _, field := range slices.Concat(annotations(wellknown.LifetimeAnnotations...), labelFields) {
		out = append(out, where+field)
	}
	return out
}
