package rules

import (
	"fmt"
	"slices"
	"strings"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/wellknown"
)

// a is a kind with its article: a Job, an Ingress.
func a(kind string) string {
	if kind != "" && strings.Contains("AEIO", kind[:1]) {
		return "an " + kind
	}
	return "a " + kind
}

// instead is the fix for a key in the metadata of a template: where its value belongs.
func (s *Subject) instead(key string) string {
	field := func(profile *policy.Profile) fieldpath.FieldPath { return profile.TTL }
	annotation, has, without := wellknown.AnnotationTTL, s.Profile.Finishable(), "does not finish"
	switch key {
	case wellknown.AnnotationActiveDeadline:
		field = func(profile *policy.Profile) fieldpath.FieldPath { return profile.Deadline }
		annotation, has, without = key, s.Profile.AnnotatedDeadline, "has no deadline"
	case wellknown.LabelTTL, wellknown.LabelKyvernoTTL:
		return s.labelInstead(key)
	case wellknown.AnnotationPodTTL:
		return s.podTTLInstead()
	}
	kind := s.Profile.Kind.Kind
	switch {
	case s.Profile.RuntimeOf != "":
		return fmt.Sprintf("set %s on the %s", policy.AnnotationPath(annotation), kind)
	// The object's own TTL first: one on the Jobs inside a JobSet would delete them alone.
	case field(s.Profile) != nil:
		return "set " + s.path(field(s.Profile).String())
	case len(s.Profile.Templates) > 0 && field(s.Profile.Templates[0].Profile) != nil:
		inner := s.Profile.Templates[0]
		return fmt.Sprintf("set %s.%s", inner.Path, field(inner.Profile))
	case has:
		return fmt.Sprintf("set %s on the %s", s.path(policy.AnnotationPath(annotation)), kind)
	case s.Profile.Kind.GroupKind() == policy.PodTemplateProfile.Kind.GroupKind():
		return "remove it"
	default:
		return "remove it; what " + a(kind) + " runs " + without
	}
}

// labelInstead is where a TTL label belongs: on the object itself, or on the Jobs that a CronJob
// creates.
func (s *Subject) labelInstead(key string) string {
	switch {
	case s.Profile.RuntimeOf != "":
		return s.instead(wellknown.AnnotationTTL)
	case !s.Profile.Finishable() && len(s.Profile.Templates) > 0:
		return fmt.Sprintf("set %s.%s", s.Profile.Templates[0].Path, policy.LabelPath(key))
	default:
		return fmt.Sprintf("set %s on the %s", s.path(policy.LabelPath(key)), s.Profile.Kind.Kind)
	}
}

// podTTLInstead is where a TTL for the finished Pods of Jobs belongs.
func (s *Subject) podTTLInstead() string {
	path := policy.AnnotationPath(wellknown.AnnotationPodTTL)
	switch templates := s.Profile.Templates; {
	case s.IsNamespace():
		return "for the Pods in it set " + wellknown.AnnotationDefaultPodTTL
	case s.Profile.Kind.GroupKind() == policy.JobProfile.Kind.GroupKind():
		return "set " + s.path(path) + " on the Job"
	case len(templates) > 0 && templates[0].Profile.Kind.GroupKind() == policy.JobProfile.Kind.GroupKind():
		return fmt.Sprintf("set %s.%s", templates[0].Path, path)
	case s.IsPod():
		return "set " + wellknown.AnnotationTTL + ", or " + wellknown.AnnotationPodTTL + " on its Job"
	default:
		return "it belongs on a Job"
	}
}

// annotationInstead is the fix. It never names an annotation that would have no effect either.
func (s *Subject) annotationInstead(key string) string {
	if slices.Contains(wellknown.TTLAnnotations, key) && !s.Profile.Finishable() && s.Profile.RuntimeOf == "" {
		return a(s.Profile.Kind.Kind) + " has no TTL after finished; use label " + wellknown.LabelTTL
	}
	if key == wellknown.AnnotationPodTTL && s.Profile.Kind.GroupKind() != policy.JobProfile.Kind.GroupKind() {
		return s.podTTLInstead()
	}
	return "set " + s.path(policy.AnnotationPath(key))
}

// ttlInstead says why a TTL annotation has no effect, with the fix.
func (s *Subject) ttlInstead(key string) string {
	switch {
	case s.IsNamespace():
		return fmt.Sprintf(": for the objects in it set %s, for the Namespace itself label %s", defaultOf[key], wellknown.LabelTTL)
	case s.Profile.Unknown:
		return ": no KindProfile says when it finishes; use label " + wellknown.LabelTTL
	default:
		return ", which never finishes: remove it"
	}
}

// lifetimeKeys are the keys in the metadata of a template that would delete or stop the objects
// made from it, and more annotations.
func (s *Subject) lifetimeKeys(metadata map[string]any, more ...string) []lifetimeKey {
	var out []lifetimeKey
	look := func(where, key string) {
		fields, _ := metadata[where].(map[string]any)
		value, ok := fields[key]
		if !ok {
			return
		}
		found := lifetimeKey{path: where + "[" + key + "]", text: fmt.Sprint(value), noun: "TTL", fix: s.instead(key)}
		switch key {
		case wellknown.AnnotationActiveDeadline:
			found.noun = "deadline"
		case wellknown.AnnotationPodTTL:
			found.noun = "TTL for Pods"
		}
		out = append(out, found)
	}
	for _, key := range slices.Concat(wellknown.LifetimeAnnotations, more) {
		look("annotations", key)
	}
	look("labels", wellknown.LabelTTL)
	if s.Options.KyvernoLabel {
		look("labels", wellknown.LabelKyvernoTTL)
	}
	return out
}

// lifetimeKey is an annotation or label that sets a TTL or deadline.
type lifetimeKey struct {
	// path of the key below the metadata, such as labels[curfew.dev/ttl].
	path string
	text string
	// noun is what the key sets: a TTL, a deadline or a TTL for Pods.
	noun string
	// fix says where it belongs.
	fix string
}

// defaultOf is the annotation of a Namespace that gives the objects in it the TTL of an annotation.
var defaultOf = map[string]string{
	wellknown.AnnotationTTL: wellknown.AnnotationDefaultTTL, wellknown.AnnotationTTLSucceeded: wellknown.AnnotationDefaultTTLSucceeded,
	wellknown.AnnotationTTLFailed: wellknown.AnnotationDefaultTTLFailed,
}
