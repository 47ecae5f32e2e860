package rules

import (
	"fmt"
	"slices"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/wellknown"
)

// podTemplateTTL denies a TTL or deadline inside a pod template: Curfew would delete or stop the
// Pods one by one, and their controller would create them again. Only the offline endpoint sees the
// raw field, which the API server drops.
var podTemplateTTL = Rule{
	Name:   "pod-template-ttl",
	Fields: append(below(InPodTemplate), InPodTemplate+AnnotationField(wellknown.AnnotationPodTTL), RawTTL),
	Check: func(s *Subject) []Finding {
		var out []Finding
		for _, path := range s.Profile.PodTemplates {
			path.Walk(s.Object, func(at string, value any) {
				template, ok := value.(map[string]any)
				if !ok {
					return
				}
				metadata, _ := template["metadata"].(map[string]any)
				for _, key := range s.lifetimeKeys(metadata, wellknown.AnnotationPodTTL) {
					out = append(out, s.deny(at+".metadata."+key.path, key.text, "a pod template cannot have a "+key.noun+": "+key.fix))
				}
				if raw, ok := rawTTLPath.Get(template); ok {
					out = append(out, s.deny(at+"."+rawTTLPath.String(), fmt.Sprint(raw), "a pod template cannot have a TTL: "+s.instead(wellknown.AnnotationTTL)))
				}
			})
		}
		return slices.Clip(out)
	},
}

var rawTTLPath = fieldpath.FieldPath{"spec", "ttlSecondsAfterFinished"}

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
		return "remove it; what a " + kind + " runs " + without
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
