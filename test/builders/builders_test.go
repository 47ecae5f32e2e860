package builders

import (
	"testing"
	"time"
)

// A wrapper that goes on must not reach into what it handed out.
func TestObjIsACopy(t *testing.T) {
	w := MakeJob("ci", "build").Annotation("a", "1").TTL(5)
	first := w.Obj()
	second := w.Annotation("a", "2").TTL(6).Complete(time.Unix(100, 0)).Obj()
	if first.Annotations["a"] != "1" || *first.Spec.TTLSecondsAfterFinished != 5 || len(first.Status.Conditions) != 0 {
		t.Errorf("the first Job changed: %v", first)
	}
	if second.Annotations["a"] != "2" || *second.Spec.TTLSecondsAfterFinished != 6 || len(second.Status.Conditions) != 1 {
		t.Errorf("the second Job lacks what was set: %v", second)
	}
}

func TestMapHasWhatTheAPIServerSends(t *testing.T) {
	object := MakeJob("ci", "build").TTL(5).Created(time.Unix(100, 7)).Map()
	if got := object["spec"].(map[string]any)["ttlSecondsAfterFinished"]; got != int64(5) {
		t.Errorf("ttlSecondsAfterFinished = %T(%v), want int64(5)", got, got)
	}
	if got := object["metadata"].(map[string]any)["creationTimestamp"]; got != "1970-01-01T00:01:40Z" {
		t.Errorf("creationTimestamp = %v", got)
	}
}
