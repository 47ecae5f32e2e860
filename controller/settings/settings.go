package settings

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy/wellknown"
)

// Name of the ConfigMap. The controller's Role allows no other.
const Name = "curfew-settings"

// Keys beside the names of flags.
const (
	// User is the controller's user name.
	User    = "user"
	Version = "version"
)

// Resource is the resource of ConfigMaps.
var Resource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

const (
	fieldManager = "curfew-controller"
	// applyEvery restores a report that another writer changed or deleted.
	applyEvery = 10 * time.Minute
	// reportEvery is how often the report is made. It is written where it differs.
	reportEvery = time.Minute
	// gather is how long a change waits for others.
	gather = time.Second
)

// Of returns the effective values of flags, in a form that their flags accept. Lists are joined by
// commas.
func Of(flags *pflag.FlagSet) map[string]string {
	out := map[string]string{}
	flags.VisitAll(func(flag *pflag.Flag) {
		switch list, ok := flag.Value.(pflag.SliceValue); {
		case flag.Hidden, flag.Name == "help", flag.Name == "kubeconfig": // of no interest, and a path of this machine
		case ok:
			out[flag.Name] = strings.Join(list.GetSlice(), ",")
		default:
			out[flag.Name] = flag.Value.String()
		}
	})
	return out
}

// Publisher writes the settings. It runs on the leader only, whose settings are the effective ones.
type Publisher struct {
	ConfigMaps dynamic.ResourceInterface
	// User asks the API server for the controller's user name.
	User func(ctx context.Context) (string, error)
	Data map[string]string
	// Report returns the state of the controller.
	Report func() Report
	// Changed has the report made at once.
	Changed loop.Signal
	Clock   clock.Clock
	Log     logr.Logger

	// Only the loop uses these.
	written string
	at      time.Time
}

// Run applies the settings until ctx is done.
func (p *Publisher) Run(ctx context.Context) error {
	worker := loop.Worker{
		Clock: p.Clock, Signal: p.Changed, Gather: gather, Backoff: loop.NewBackoffOf(time.Second, applyEvery), Do: p.reconcile,
		Failed: func(err error, again time.Duration) {
			p.Log.Error(err, "could not publish the settings, trying again", "configMap", Name, "after", again)
		},
	}
	p.Changed.Set()
	worker.Run(ctx)
	return nil
}

// reconcile writes the settings where the report has changed, or they have not been written for
// long.
func (p *Publisher) reconcile(ctx context.Context) (time.Duration, error) {
	now := p.Clock.Now()
	report, err := json.Marshal(p.Report())
	if err != nil {
		return 0, fmt.Errorf("writing the report: %w", err)
	}
	if string(report) == p.written && now.Sub(p.at) < applyEvery {
		return reportEvery, nil
	}
	user, err := p.User(ctx)
	if err != nil {
		return 0, fmt.Errorf("asking the API server who Curfew is: %w", err)
	}
	data := map[string]any{User: user, ReportKey: string(report), ReportedAt: now.UTC().Format(time.RFC3339)}
	for key, value := range p.Data {
		data[key] = value
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "data": data,
		"metadata": map[string]any{"name": Name, "labels": map[string]any{
			wellknown.LabelPartOf: wellknown.PartOfCurfew, "app.kubernetes.io/name": "curfew", "app.kubernetes.io/component": "controller",
		}},
	}}
	// A server-side apply takes no right to read, and creates by name.
	if _, err = p.ConfigMaps.Apply(ctx, Name, object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return 0, err
	}
	p.written, p.at = string(report), now
	return reportEvery, nil
}

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
	// Foreign are requirements that others added to namespaceSelectors of the webhooks.
	Foreign List `json:"foreign"`
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
	for kind, t := range since {
		first = append(first, Incomplete{kind.Group, kind.Kind, t.UTC().Truncate(time.Second)})
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
func ReadReport(data map[string]string) (report Report, t time.Time, ok bool, err error) {
	text, ok := data[ReportKey]
	if !ok {
		return report, t, false, nil
	}
	if err := json.Unmarshal([]byte(text), &report); err != nil {
		return report, t, true, fmt.Errorf("key %s: %w", ReportKey, err)
	}
	if t, err = time.Parse(time.RFC3339, data[ReportedAt]); err != nil {
		return report, t, true, fmt.Errorf("key %s: %w", ReportedAt, err)
	}
	return report, t, true, nil
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
		webhook := webhooks[i].DeepCopy()
		webhook.ClientConfig.CABundle = nil
		text, _ := json.Marshal(webhook) // Plain data always marshals.
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}
