package settings

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Keys of the report and of when it was written.
const (
	ReportKey  = "report"
	ReportedAt = "reported-at"
)

// Report is the state of the controller that only it knows, for kubectl curfew status. It is small,
// whatever the size of the cluster.
type Report struct {
	// Tracked counts objects that wait for their expiry, and Overdue the objects that are due and not
	// deleted yet, OldestDue since when. Stuck and Blocked are as in the metrics. All count known
	// objects only.
	Tracked   int        `json:"tracked"`
	Overdue   int        `json:"overdue"`
	OldestDue *time.Time `json:"oldestDue,omitempty"`
	Stuck     int        `json:"stuck"`
	Blocked   int        `json:"blocked"`
	// Incomplete are kinds whose objects are not all known, the first few of IncompleteKinds.
	Incomplete      []Incomplete `json:"incomplete,omitempty"`
	IncompleteKinds int          `json:"incompleteKinds,omitempty"`
	// Paused are the pauses of deletions, in words; AllPaused says that one concerns everything.
	Paused    List `json:"paused"`
	AllPaused bool `json:"allPaused,omitempty"`
	// Held are the DeletionPauses in effect, in words. HeldUnread says why they cannot be read:
	// everything is paused then.
	Held       List   `json:"held"`
	HeldUnread string `json:"heldUnread,omitempty"`
	// Skipped are kinds with a profile that are not watched, or not for all, with the reason.
	Skipped List `json:"skipped"`
	// Stalled are cleanup policies that do not delete all that they should, with the reason.
	Stalled List `json:"stalled"`
	// LabelKinds is the number of kinds whose TTL labels take effect, and Unlabelled lists the kinds
	// whose labels do not, for lack of a permission.
	LabelKinds int  `json:"labelKinds"`
	Unlabelled List `json:"unlabelled"`
	// Coverage are fingerprints of the configurations curfew-kinds by their kind, as they should be;
	// CoverageError says why they could not be written.
	Coverage      map[string]string `json:"coverage,omitempty"`
	CoverageError string            `json:"coverageError,omitempty"`
}

// Incomplete is a kind whose objects have not all been known since then.
type Incomplete struct {
	Group string    `json:"group"`
	Kind  string    `json:"kind"`
	Since time.Time `json:"since"`
}

// GroupKind is the kind.
func (i Incomplete) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: i.Group, Kind: i.Kind}
}

// IncompleteOf returns the first few kinds, the longest waiting first, and the number of all.
func IncompleteOf(since map[schema.GroupKind]time.Time) (first []Incomplete, kinds int) {
	for kind, at := range since {
		first = append(first, Incomplete{kind.Group, kind.Kind, at.UTC().Truncate(time.Second)})
	}
	slices.SortFunc(first, func(a, b Incomplete) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.GroupKind().String(), b.GroupKind().String()))
	})
	return first[:min(maxList, len(first))], len(first)
}

// List names a few of many.
type List struct {
	Count int      `json:"count"`
	First []string `json:"first,omitempty"`
}

// Bounds of a [List].
const (
	maxList = 20
	maxName = 300
)

// ListOf makes a list of names, and keeps the first few of them.
func ListOf(names []string) List {
	out := List{Count: len(names)}
	for _, name := range names[:min(maxList, len(names))] {
		if len(name) > maxName {
			name = name[:maxName]
		}
		out.First = append(out.First, name)
	}
	return out
}

// ReadReport reads the report of a ConfigMap, and when it was written. ok is false where there is
// none, as before the controller has led for a moment.
func ReadReport(data map[string]string) (report Report, at time.Time, ok bool, err error) {
	text, ok := data[ReportKey]
	if !ok {
		return report, at, false, nil
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return report, at, true, fmt.Errorf("key %s: %w", ReportKey, err)
	}
	if at, err = time.Parse(time.RFC3339, data[ReportedAt]); err != nil {
		return report, at, true, fmt.Errorf("key %s: %w", ReportedAt, err)
	}
	return report, at, true, nil
}

// NoWebhooks is the fingerprint of a configuration that is not needed.
const NoWebhooks = "none"

// Fingerprint identifies the webhooks of a configuration, without the CA bundles, which the webhook
// injects. Pass validating webhooks as mutating ones, which have all their fields.
func Fingerprint(webhooks []admissionv1.MutatingWebhook) string {
	if len(webhooks) == 0 {
		return NoWebhooks
	}
	sum := sha256.New()
	for i := range webhooks {
		one := webhooks[i].DeepCopy()
		one.ClientConfig.CABundle = nil
		text, err := json.Marshal(one)
		if err != nil {
			continue // Plain data always marshals.
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
