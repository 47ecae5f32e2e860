package rules

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy/wellknown"
)

func TestPodRestartPolicy(t *testing.T) {
	const denied = "error spec.restartPolicy: a Pod with a TTL cannot have Always (absent means Always), as it never finishes: use OnFailure or Never"
	always := pod().RestartPolicy(corev1.RestartPolicyAlways).Annotation(wellknown.AnnotationTTL, "1h")
	run(t, podRestartPolicy, map[string]row{
		"never":              {object: pod().Annotation(wellknown.AnnotationTTL, "1h").Map()},
		"always, no TTL":     {object: pod().RestartPolicy(corev1.RestartPolicyAlways).Map()},
		"unchanged":          {old: always.Map(), object: always.Label("a", "b").Map()},
		"TTL added later":    {old: pod().RestartPolicy(corev1.RestartPolicyAlways).Map(), object: always.Map(), want: []string{denied}},
		"a Job is no Pod":    {object: job().TTL(5).Map()},
		"a deleted one goes": {old: pod().RestartPolicy("").Map(), object: pod().RestartPolicy("").Annotation(wellknown.AnnotationTTL, "1h").Deleting(noon).Map()},
	})
}
