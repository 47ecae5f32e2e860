package policy

import (
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

// Curfew's own records have an effect: rule unknown-key must not tell users to remove them.
func TestKnownRecords(t *testing.T) {
	for _, key := range []string{wellknown.AnnotationSuspendedAt, wellknown.AnnotationCountedBy, wellknown.AnnotationFinishedAt} {
		if !Known(key) {
			t.Errorf("%s is not known", key)
		}
	}
}
