package backfill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/wellknown"
)

// Options of [Labels].
type Options struct {
	// Places are the kinds that are served and where their labels take effect, or false until they
	// are known.
	Places func() ([]discovery.Place, bool)
	// Metadata lists and patches objects. Whole reads objects whose policies need more than
	// metadata.
	Metadata metadata.Interface
	Whole    dynamic.Interface
	// Cached says which objects may lack a label, Live decides.
	Cached, Live platform.Source
	// Lacks returns the permissions that Curfew does not have in a namespace, or with "" in all.
	Lacks func(ctx context.Context, namespace string, needs []permission.Need) ([]permission.Need, error)
	// ServerTime is the API server's time, or an error while that is not known.
	ServerTime func(context.Context) (time.Time, error)
	// Failed is told which policies could not be evaluated for an object. It may be nil.
	Failed func(object string, errs []error)
	// Protect are the namespaces in which the controller deletes nothing.
	Protect []string
	// DryRun only reports the objects that would be labelled.
	DryRun bool
	// PerMinute bounds how many objects are labelled; 0 means no bound.
	PerMinute int

	Clock      clock.Clock
	Log        logr.Logger
	Registerer prometheus.Registerer
}

const (
	// every is how often kinds are listed again, to find objects that bypassed admission meanwhile
	// and namespaces that a policy has come to match.
	every = 10 * time.Minute
	// gather is how long a change waits for others.
	gather = time.Second
	// maxUnreadable is how many objects of a kind may be unreadable before its visit ends.
	maxUnreadable = 10
	// unlabelled are the objects that may lack a label.
	unlabelled = "!" + wellknown.LabelTTL + ",!" + wellknown.LabelKyvernoTTL
)

// Labels gives existing objects their default TTL labels.
type Labels struct {
	options Options
	log     logr.Logger
	changed loop.Signal
	results *prometheus.CounterVec
	skipped *prometheus.GaugeVec

	// Only the loop uses these.
	began    time.Time
	rate     deletion.Rate
	reported map[string]string // the missing permission, by kind
}

// New makes a Labels.
func New(options Options) *Labels {
	factory := promauto.With(options.Registerer)
	return &Labels{
		options: options, log: options.Log.WithName("backfill"), changed: loop.NewSignal(),
		rate: deletion.Rate{Limit: options.PerMinute}, began: options.Clock.Now(), reported: map[string]string{},
		results: factory.NewCounterVec(prometheus.CounterOpts{Name: "curfew_default_labels_total",
			Help: "Existing objects that were to be given a default TTL label, by result: given, moved (they changed meanwhile) or failed."}, []string{"result"}),
		skipped: factory.NewGaugeVec(prometheus.GaugeOpts{Name: "curfew_default_label_kinds_skipped",
			Help: "Kinds whose existing objects are given no default TTL label, by reason: Curfew lacks the permission to patch them."}, []string{"group", "kind", "reason"}),
	}
}

// Again starts a round, because a policy or a kind has changed.
func (l *Labels) Again() { l.changed.Set() }

// Run labels objects that lack a label until ctx is done.
func (l *Labels) Run(ctx context.Context) error {
	l.rate.Exhaust(l.mono()) // The leader before this one may have used up its minute.
	l.Again()
	loop.Worker{
		Clock: l.options.Clock, Signal: l.changed, Gather: gather, Backoff: loop.NewBackoffOf(time.Second, every), Do: l.round,
		Failed: func(err error, again time.Duration) {
			l.log.Info("could not give all existing objects their default TTL labels, trying again", "reason", err.Error(), "after", again)
		},
	}.Run(ctx)
	return nil
}

// round visits each kind that a policy has a label for.
func (l *Labels) round(ctx context.Context) (time.Duration, error) {
	snapshot, err := l.options.Cached.Snapshot(ctx)
	if err == nil {
		err = snapshot.Incomplete() // A KindProfile may say who manages an object.
	}
	if err != nil {
		return 0, err
	}
	places, known := l.options.Places()
	if !known {
		return 0, nil // It is called again once they are.
	}
	var errs []error
	missing := map[string]string{}
	for i := range places {
		kind := newKind(&places[i], snapshot)
		if len(kind.policies) == 0 {
			continue
		}
		for _, namespace := range places[i].Namespaces {
			lacks, err := l.options.Lacks(ctx, namespace, []permission.Need{{Verb: "patch", Resource: kind.VersionResource()}})
			switch {
			case err != nil:
				errs = append(errs, err)
			case len(lacks) > 0:
				missing[kind.GroupKind().String()] = lacks[0].String()
			default:
				errs = append(errs, l.visit(ctx, kind, namespace))
			}
		}
	}
	l.reportMissing(missing)
	return every, errors.Join(errs...)
}

// visit lists the objects of a kind in a namespace, or with "" in all, and labels the objects that
// lack a label.
func (l *Labels) visit(ctx context.Context, info *kind, namespace string) error {
	var counts counts
	defer func() { l.report(info, &counts) }()
	client := l.options.Metadata.Resource(info.VersionResource()).Namespace(namespace)
	list := func(ctx context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		page, err := client.List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", info.GroupResource(), err)
		}
		return page, nil
	}
	_, err := watch.Each(ctx, metav1.ListOptions{LabelSelector: unlabelled}, list, func(page *metav1.PartialObjectMetadataList) error {
		for i := range page.Items {
			if err := l.object(ctx, info, &page.Items[i], &counts); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(counts.unreadable...)
}

func (l *Labels) reportMissing(missing map[string]string) {
	for name := range l.reported {
		if missing[name] == "" {
			l.skipped.Delete(skippedLabels(name))
		}
	}
	for name, need := range missing {
		l.skipped.With(skippedLabels(name)).Set(1)
		if l.reported[name] != need {
			l.log.Info("existing objects of a kind are given no default TTL label: Curfew lacks a permission", "kind", name, "missing", need,
				"hint", "grant it to a ClusterRole with label "+wellknown.LabelAggregate)
		}
	}
	l.reported = missing
}

// counts are the results for the objects of one kind.
type counts struct {
	given, moved, failed, dryRun, withheld int
	unreadable                             []error
}

func (l *Labels) report(info *kind, counts *counts) {
	if counts.given+counts.moved+counts.failed+counts.dryRun+counts.withheld > 0 {
		l.log.Info("existing objects without their default TTL label", "kind", info.GroupKind().String(),
			"given", counts.given, "moved", counts.moved, "failed", counts.failed, "dryRun", counts.dryRun, "withheld", counts.withheld)
	}
}

func (l *Labels) protected(namespace string) bool {
	return judging.Protects(l.options.Protect, namespace)
}

// kind is a kind that policies have a label for.
type kind struct {
	*discovery.Place
	profile  *policy.Profile
	policies []*expression.Policy
	// whole objects are read to judge them, not only their metadata.
	whole bool
}

func newKind(place *discovery.Place, snapshot *platform.Snapshot) *kind {
	out := &kind{Place: place, profile: snapshot.Profiles.For(place.GroupVersionKind)}
	out.whole = !out.profile.Unknown || mayBeManaged(place, snapshot, out.profile)
	for _, p := range snapshot.Concerning(place.GroupKind()) {
		out.whole = out.whole || p.NeedsObject() || p.ComputesLabel()
		if p.GivesLabel(out.profile) {
			out.policies = append(out.policies, p)
		}
	}
	return out
}

// mayBeManaged reports whether objects of a kind without a profile can name another controller.
// Built-in kinds cannot.
func mayBeManaged(place *discovery.Place, snapshot *platform.Snapshot, profile *policy.Profile) bool {
	if definition := snapshot.Definition(place.GroupKind()); definition != nil {
		return definition.Schemas[place.Version].Has(profile.ManagedBy)
	}
	return place.Aggregated
}
