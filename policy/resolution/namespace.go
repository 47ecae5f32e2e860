package resolution

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/wellknown"
)

// Mode selects what Curfew does in a namespace, or with a policy.
type Mode string

// The modes. Enforce is what an absent annotation means.
const (
	// ModeEnforce fills in, rejects, warns and deletes.
	ModeEnforce Mode = "enforce"
	// ModeWarn fills in and deletes, and warns instead of rejecting.
	ModeWarn Mode = "warn"
	// ModeDryRun changes, rejects and deletes nothing; it only reports.
	ModeDryRun Mode = "dry-run"
)

// NamespacePolicy holds the settings in the annotations of a namespace.
type NamespacePolicy struct {
	Name                string
	Labels, Annotations map[string]string
	// UID, ResourceVersion and Created are there for the expressions of policies; zero where they
	// are not known.
	UID             types.UID
	ResourceVersion string
	Created         time.Time

	TTL              lifetime.TTLSet
	PodTTL, Deadline *lifetime.Setting
	Bounds           lifetime.Bounds
	Mode             Mode
	Backfill         bool

	// Since is the instant from which the defaults apply to objects that bypassed admission; zero
	// if it is not known or was recorded for other defaults.
	Since time.Time
	// Hash of the defaults, as default-since holds it.
	Hash string
	// Errors are the values that cannot be read, each with its field.
	Errors field.ErrorList
}

// hashed are the annotations that a default depends on, including the bounds that clamp it.
var hashed = []string{
	wellknown.AnnotationDefaultTTL, wellknown.AnnotationDefaultTTLSucceeded, wellknown.AnnotationDefaultTTLFailed,
	wellknown.AnnotationDefaultPodTTL, wellknown.AnnotationDefaultDeadline,
	wellknown.AnnotationMinTTL, wellknown.AnnotationMaxTTL, wellknown.AnnotationMinDeadline, wellknown.AnnotationMaxDeadline,
}

// NamespaceOf is [ParseNamespace] for a namespace that exists.
func NamespaceOf(meta *metav1.ObjectMeta) *NamespacePolicy {
	namespace := ParseNamespace(meta.Name, meta.Annotations, meta.Labels)
	namespace.UID, namespace.ResourceVersion, namespace.Created = meta.UID, meta.ResourceVersion, meta.CreationTimestamp.Time
	return namespace
}

// ParseNamespace reads the annotations of a namespace. The policy is usable whatever is wrong with
// it: an unreadable value means keep (S6) and is listed in Errors.
func ParseNamespace(name string, annotations, labels map[string]string) *NamespacePolicy {
	namespace := &NamespacePolicy{Name: name, Labels: labels, Annotations: annotations, Mode: ModeEnforce, Hash: DefaultsHash(annotations)}
	namespace.TTL = lifetime.TTLSetOf("metadata.annotations", annotations,
		wellknown.AnnotationDefaultTTL, wellknown.AnnotationDefaultTTLSucceeded, wellknown.AnnotationDefaultTTLFailed)
	namespace.PodTTL = lifetime.TTLSetting("metadata.annotations", annotations, wellknown.AnnotationDefaultPodTTL)
	if text, ok := annotations[wellknown.AnnotationDefaultDeadline]; ok {
		namespace.Deadline = lifetime.DeadlineSetting(policy.AnnotationPath(wellknown.AnnotationDefaultDeadline), text)
	}
	namespace.Bounds = namespaceBounds(annotations)
	for _, setting := range namespace.Settings() {
		setting.Source = lifetime.Source{Level: lifetime.LevelNamespace, Name: name}
		if setting.Err != nil {
			namespace.Errors = append(namespace.Errors, fieldError(setting.Path, setting.Text, setting.Err))
		}
	}
	namespace.parseMode(annotations)
	namespace.parseBackfill(annotations)
	if t, hash, ok := ParseSince(annotations[wellknown.AnnotationDefaultSince]); ok && hash == namespace.Hash {
		namespace.Since = t
	}
	return namespace
}

func namespaceBounds(annotations map[string]string) lifetime.Bounds {
	get := func(key string, parse func(path, text string) *lifetime.Setting) *lifetime.Setting {
		if text, ok := annotations[key]; ok {
			return parse(policy.AnnotationPath(key), text)
		}
		return nil
	}
	rangeOf := func(low, high string, parse func(path, text string) *lifetime.Setting) lifetime.Range {
		return lifetime.Range{Min: get(low, parse), Max: get(high, parse)}
	}
	ttl := rangeOf(wellknown.AnnotationMinTTL, wellknown.AnnotationMaxTTL, lifetime.DurationSetting)
	deadline := rangeOf(wellknown.AnnotationMinDeadline, wellknown.AnnotationMaxDeadline, lifetime.DeadlineSetting)
	return lifetime.Bounds{TTL: ttl, Label: ttl, Deadline: deadline}
}

// Settings returns the TTLs, deadlines and bounds that are set, including unreadable ones.
func (n *NamespacePolicy) Settings() []*lifetime.Setting {
	return append(append(n.TTL.Settings(), lifetime.Present(n.PodTTL, n.Deadline)...), n.Bounds.Settings()...)
}

func (n *NamespacePolicy) parseMode(annotations map[string]string) {
	text, ok := annotations[wellknown.AnnotationMode]
	if !ok {
		return
	}
	switch mode := Mode(text); mode {
	case ModeEnforce, ModeWarn, ModeDryRun:
		n.Mode = mode
	default:
		// Unreadable means keep, and only dry-run keeps everything (S6).
		n.Mode = ModeDryRun
		n.Errors = append(n.Errors, fieldError(policy.AnnotationPath(wellknown.AnnotationMode), text,
			fmt.Errorf("%q is not a mode: use %s, %s or %s", quote.Shorten(text), ModeEnforce, ModeWarn, ModeDryRun)))
	}
}

func (n *NamespacePolicy) parseBackfill(annotations map[string]string) {
	text, ok := annotations[wellknown.AnnotationBackfill]
	switch {
	case !ok || text == "false":
	case text == "true":
		n.Backfill = true
	default:
		n.Errors = append(n.Errors, fieldError(policy.AnnotationPath(wellknown.AnnotationBackfill), text,
			fmt.Errorf(`%q is neither "true" nor "false": use one of them`, quote.Shorten(text))))
	}
}

// fieldError has a Detail that names the value and the fix, so that it can stand alone.
func fieldError(path, text string, err error) *field.Error {
	return field.Invalid(field.NewPath(path), text, err.Error())
}

// HasDefaults reports whether an object that is created in the namespace may get a default.
func (n *NamespacePolicy) HasDefaults() bool {
	return !n.TTL.Empty() || n.PodTTL != nil || n.Deadline != nil
}

// InUse reports whether admission must see the objects that are created in the namespace. In
// dry-run it reports what Curfew would do.
func (n *NamespacePolicy) InUse() bool {
	return n.HasDefaults() || n.Bounds != (lifetime.Bounds{}) || n.Mode == ModeDryRun
}

// PodsInUse reports whether the namespace's settings require that admission sees the Pods that are
// created there. Bounds apply to their own deadline; their TTL is an annotation, which admission
// sees in any namespace. PodTallies require it too, but are not settings of the namespace.
func (n *NamespacePolicy) PodsInUse() bool {
	return !n.TTL.Empty() || n.PodTTL != nil || n.Bounds.Deadline != (lifetime.Range{})
}

// DefaultsHash is a short hash of the annotations that the namespace's defaults depend on; ""
// without any.
func DefaultsHash(annotations map[string]string) string {
	var text strings.Builder
	for _, key := range hashed {
		if value, ok := annotations[key]; ok {
			fmt.Fprintf(&text, "%s=%q\n", key, value)
		}
	}
	return shortHash(text.String())
}

// shortHash is "" for an empty text.
func shortHash(text string) string {
	if text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// FormatSince writes the value of curfew.dev/default-since.
func FormatSince(t time.Time, hash string) string {
	return t.UTC().Format(time.RFC3339) + "/" + hash
}

// ParseSince reads the value of curfew.dev/default-since; ok is false where it is absent or not of
// that form.
func ParseSince(text string) (t time.Time, hash string, ok bool) {
	stamp, hash, found := strings.Cut(text, "/")
	t, err := lifetime.ParseTime(stamp)
	if !found || err != nil {
		return time.Time{}, "", false
	}
	return t, hash, true
}

// NamespaceStamp has the keys that Curfew itself keeps on a namespace: the in-use labels and
// default-since. An empty value means that the key must not be there.
type NamespaceStamp struct {
	InUse, PodsInUse, Since string
}

// StampNamespace says what Curfew's own keys on a namespace must be now. tallied means that a
// PodTally of the namespace counts Pods, which admission must see therefore.
func StampNamespace(annotations map[string]string, tallied bool, now time.Time) NamespaceStamp {
	policy := ParseNamespace("", annotations, nil)
	var stamp NamespaceStamp
	if policy.InUse() {
		stamp.InUse = "true"
	}
	if policy.PodsInUse() || tallied {
		stamp.PodsInUse = "true"
	}
	if policy.HasDefaults() {
		stamp.Since = keptSince(annotations[wellknown.AnnotationDefaultSince], policy.Hash, now)
	}
	return stamp
}

// keptSince says what default-since must be now. One whose hash fits is kept. One that does not fit
// is set to now, so that a new default never reaches older objects (S6). If now is zero, because
// the time is not known, it is removed instead.
func keptSince(present, hash string, now time.Time) string {
	t, noted, ok := ParseSince(present)
	fits := ok && noted == hash && !t.IsZero()
	switch {
	case hash == "":
	case fits && (now.IsZero() || !t.After(now)):
		return present
	case !now.IsZero(): // A time in the future is a mistake: no object would ever be younger.
		return FormatSince(now, hash)
	}
	return ""
}
