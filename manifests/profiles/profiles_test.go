package profiles

import (
	"slices"
	"testing"
)

// Without the built-in profiles, the profiles of Kubernetes' own kinds are left: the feeds of Jobs
// and Pods do not come from a CustomResourceDefinition.
func TestTyped(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, profile := range Typed(all) {
		names = append(names, profile.Name)
	}
	if want := []string{"jobs.batch", "pods.core"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}
