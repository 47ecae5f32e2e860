package policy_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// The finish time of a Pod in every form it comes in (docs/reference-objects.md), read by both
// readers.
func TestPodFinishTime(t *testing.T) {
	second := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Second) }
	failed := func() *builders.PodWrapper { return builders.MakePod("ci", "a").Phase(corev1.PodFailed) }
	running := corev1.ContainerStatus{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	waiting := corev1.ContainerStatus{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	for name, test := range map[string]struct {
		pod  *builders.PodWrapper
		want time.Time
	}{
		"latest of several":                     {failed().Terminated(second(1)).Terminated(second(3)).Terminated(second(2)), second(3)},
		"init before main":                      {failed().InitTerminated(second(1)).Terminated(second(2)), second(2)},
		"sidecar ends last":                     {failed().Terminated(second(1)).InitTerminated(second(5)), second(5)},
		"ephemeral ends last":                   {failed().Terminated(second(1)).EphemeralTerminated(second(5)), second(5)},
		"the conditions come later":             {failed().Terminated(second(1)).Condition(corev1.PodReady, second(9)), second(1)},
		"lastState does not count":              {failed().LastTerminated(second(1)).Condition(corev1.PodReady, second(9)), second(9)},
		"evicted":                               {failed().Reason("Evicted").Condition(corev1.PodScheduled, second(1)).Condition(corev1.DisruptionTarget, second(4)), second(4)},
		"lost node, container still runs":       {failed().Reason("NodeLost").Container(running).Condition(corev1.PodReady, second(6)), second(6)},
		"lost node, after the init containers":  {failed().InitTerminated(second(1)).Container(running).Condition(corev1.PodReady, second(6)).Condition(corev1.PodInitialized, second(2)), second(6)},
		"lost node, one container had ended":    {failed().Terminated(second(1)).Container(running).Condition(corev1.PodReady, second(6)), second(6)},
		"lost node, a sidecar had no end":       {failed().Terminated(second(5)).InitContainer(running).Condition(corev1.PodReady, second(2)), second(5)},
		"lost node, nothing but init is told":   {failed().InitTerminated(second(1)).Condition(corev1.DisruptionTarget, second(6)), second(6)},
		"one end is the epoch":                  {failed().Terminated(second(1)).Terminated(time.Unix(0, 0)).Condition(corev1.PodReady, second(6)), second(6)},
		"init failed, the conditions are older": {failed().InitTerminated(second(3)).Container(waiting).Condition(corev1.PodInitialized, second(1)), second(3)},
		"nothing but the annotation":            {failed().Annotation(wellknown.AnnotationFinishedAt, "2026-12-24T12:00:08Z"), second(8)},
		"the annotation in another zone":        {failed().Annotation(wellknown.AnnotationFinishedAt, "2026-12-24T14:00:08+02:00"), second(8)},
		"the annotation comes last":             {failed().Condition(corev1.PodReady, second(6)).Annotation(wellknown.AnnotationFinishedAt, "2020-01-01T00:00:00Z"), second(6)},
		"the annotation of another Pod":         {failed().Created(second(9)).Annotation(wellknown.AnnotationFinishedAt, "2026-12-24T12:00:08Z"), time.Time{}},
		"the annotation of its first second":    {failed().Created(second(8)).Annotation(wellknown.AnnotationFinishedAt, "2026-12-24T12:00:08Z"), second(8)},
		"the clock of its node is ahead":        {failed().Started(second(20)).Annotation(wellknown.AnnotationFinishedAt, "2026-12-24T12:00:08Z"), second(8)},
		"unreadable annotation":                 {failed().Annotation(wellknown.AnnotationFinishedAt, "1735041600"), time.Time{}},
		"nothing at all":                        {failed(), time.Time{}},
		"the epoch is no end":                   {failed().Terminated(time.Unix(0, 0)).Condition(corev1.PodReady, second(6)), second(6)},
		"the epoch is no transition":            {failed().Condition(corev1.PodReady, time.Unix(0, 0)), time.Time{}},
		"unfinished has none, whatever is":      {failed().Phase(corev1.PodRunning).Terminated(second(1)), time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policy.FactsOfPod(test.pod.Obj()).FinishTime; !got.Equal(test.want) {
				t.Errorf("typed: %v, want %v", got, test.want)
			}
			if got := policy.FactsOfObject(policy.PodProfile, test.pod.Map()).FinishTime; !got.Equal(test.want) {
				t.Errorf("generic: %v, want %v", got, test.want)
			}
		})
	}
}
