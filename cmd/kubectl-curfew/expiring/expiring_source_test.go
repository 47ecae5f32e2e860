package expiring

import (
	"testing"
)

func TestIsSource(t *testing.T) {
	for text, want := range map[string]bool{
		"object": true, "namespace/ci": true, "policy/nightly": true, "runtime/torch": true, "job/build": true, "tally/builds": true,
		"ci": false, "job": false, "job/": false, "tally/": false, "pod/a": false,
	} {
		if isSource(text) != want {
			t.Errorf("%q: %v, want %v", text, !want, want)
		}
	}
}
