package expression

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// DefaultsHash is a short hash of everything that decides which object gets which default: the
// defaults, the bounds that clamp them, the match, the priority, and whether the mode is DryRun. It
// is "" for a policy without defaults.
func DefaultsHash(object *v1alpha1.LifecyclePolicy) string {
	if object.Spec.Defaults == nil {
		return ""
	}
	decides := v1alpha1.LifecyclePolicySpec{
		Match: object.Spec.Match, Defaults: object.Spec.Defaults, Bounds: object.Spec.Bounds, Priority: object.Spec.Priority,
	}
	if object.Spec.Mode == v1alpha1.PolicyDryRun {
		// What was created in the meantime is older than the defaults once they apply (S6).
		decides.Mode = object.Spec.Mode
	}
	text, err := json.Marshal(&decides)
	if err != nil {
		// Plain data always marshals. If it ever did not, no hash fits, and the defaults reach
		// nothing older (S6).
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// StampPolicy says what status.defaults of a policy must be now; nil for a policy without defaults.
// One whose hash fits is kept. One that does not, or is in the future, or before the policy's
// creation, becomes now, so that a new default never reaches older objects (S6).
func StampPolicy(object *v1alpha1.LifecyclePolicy, now time.Time) *v1alpha1.DefaultsStatus {
	hash, stands := DefaultsHash(object), object.Status.Defaults
	if created := object.CreationTimestamp.Time; now.Before(created) {
		now = created // API servers differ by a second.
	}
	switch {
	case hash == "":
		return nil
	case stands != nil && stands.Hash == hash && !stands.SinceTime.IsZero() && !stands.SinceTime.After(now) && !stands.SinceTime.Time.Before(object.CreationTimestamp.Time):
		return stands
	default:
		return &v1alpha1.DefaultsStatus{SinceTime: metav1.NewTime(now.UTC().Truncate(time.Second)), Hash: hash}
	}
}
