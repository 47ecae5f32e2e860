package resolution

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// RuntimePolicy holds the settings of a training runtime for the objects that use it.
type RuntimePolicy struct {
	// Name as sources write it.
	Name string
	// Path is the field of the object that names the runtime.
	Path string
	TTL  lifetime.TTLSet
	// Namespaced runtimes can be written by tenants, so that bounds apply to their TTL.
	Namespaced bool
	// Since is the instant from which the TTL applies: what finished earlier needs backfill. Zero
	// means that it is not known, or was recorded for another TTL.
	Since    time.Time
	Backfill bool
	// Deadline is nil where the runtime sets none.
	Deadline *lifetime.Setting
	// Missing means that the object names a runtime that does not exist: keep, and report.
	Missing bool
	// Err says why the reference cannot be read; Missing is then true.
	Err error
}

// Unusable says why nothing is known of the runtime's settings, or returns nil.
func (r *RuntimePolicy) Unusable() error {
	switch {
	case r.Err != nil:
		return fmt.Errorf("cannot determine the runtime: %w", r.Err)
	case r.Missing:
		return fmt.Errorf("the runtime %s does not exist: create it, or delete the object by hand", r.Name)
	default:
		return nil
	}
}

// ReadSince reads since when the TTL applies, and backfill, off the runtime. The fields are those
// in which a runtime of this kind may have a TTL. A stamp from before the runtime's creation was
// copied or forged: the creation counts.
func (r *RuntimePolicy) ReadSince(facts *policy.Facts, runtime map[string]any, fields []fieldpath.FieldPath) {
	r.Backfill = facts.Annotations[wellknown.AnnotationBackfill] == "true"
	t, hash, ok := ParseSince(facts.Annotations[wellknown.AnnotationDefaultSince])
	if !ok || hash != RuntimeHash(runtime, fields) {
		return
	}
	if r.Since = t; t.Before(facts.Created) {
		r.Since = facts.Created
	}
}

// RuntimeHash is a short hash of the TTLs that a runtime has in its annotations and fields; ""
// without any. It guards the stamp: a new TTL has no time yet, and deletes nothing that has
// finished (S6).
func RuntimeHash(runtime map[string]any, fields []fieldpath.FieldPath) string {
	var text strings.Builder
	annotations := policy.StringMap(runtime, "annotations")
	for _, key := range wellknown.TTLAnnotations {
		if value, ok := annotations[key]; ok {
			fmt.Fprintf(&text, "%s=%q\n", key, value)
		}
	}
	var natives []string
	for _, path := range fields {
		switch field := policy.NativeField(runtime, path); {
		case !field.Set:
		case field.Err != nil: // Whatever it is, it deletes nothing.
			natives = append(natives, path.String()+"=?\n")
		default:
			natives = append(natives, fmt.Sprintf("%s=%d\n", path, field.Seconds))
		}
	}
	slices.Sort(natives)
	for _, line := range slices.Compact(natives) {
		text.WriteString(line)
	}
	return shortHash(text.String())
}

// StampRuntime says what curfew.dev/default-since of a runtime must be now, given the present one;
// "" means that the key must not be there.
func StampRuntime(runtime map[string]any, fields []fieldpath.FieldPath, present string, now time.Time) string {
	return keptSince(present, RuntimeHash(runtime, fields), now)
}
