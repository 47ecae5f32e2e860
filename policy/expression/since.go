package expression

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"curfew.dev/curfew/policy"
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

// StampPolicy says what status.defaultSince of a policy must be now. One whose hash fits is kept.
// One that does not, or is in the future, becomes now, so that a new default never reaches older
// objects (S6).
func StampPolicy(object *v1alpha1.LifecyclePolicy, now time.Time) string {
	hash := DefaultsHash(object)
	if hash == "" {
		return ""
	}
	if at, noted, ok := policy.ParseSince(object.Status.DefaultSince); ok && noted == hash && !at.After(now) {
		return object.Status.DefaultSince
	}
	return policy.FormatSince(now, hash)
}
