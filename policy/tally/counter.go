package tally

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Counter holds the settings of the tally for the Pods that it has counted.
func (t *Tally) Counter() *policy.PodCounter {
	return &policy.PodCounter{Source: policy.Source{Level: policy.LevelTally, Name: t.Name}, TTL: t.TTL}
}

// CounterOf is the same for a PodTally in its JSON form.
func CounterOf(object map[string]any) (*policy.PodCounter, error) {
	read := &v1alpha1.PodTally{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, read); err != nil {
		return nil, fmt.Errorf("reading the PodTally: %w", err)
	}
	compiled, _ := Compile(read) // The counter holds the errors.
	return compiled.Counter(), nil
}
