package follow

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/requirement"
	"curfew.dev/curfew/policy/v1alpha1"
)

// compiledProfile is one KindProfile and its errors.
type compiledProfile struct {
	*expression.Profile
	object *v1alpha1.KindProfile
	errs   field.ErrorList
	// requires is the record for older versions of Curfew that has to be written; else nil.
	requires *metav1.Condition
}

// Profiles follows the KindProfiles.
type Profiles struct {
	store  *platform.Store
	mirror *Mirror[compiledProfile]
	clock  clock.Clock
	log    logr.Logger
	status *Statuses // nil where none is written
}

// NewProfiles keeps the KindProfiles of a store current. Until they are known, the store is
// incomplete.
func NewProfiles(source Source, store *platform.Store, clock clock.Clock, log logr.Logger) *Profiles {
	p := &Profiles{store: store, clock: clock, log: log.WithName("profiles")}
	store.SetIncomplete(fmt.Errorf("KindProfiles: %w", watch.ErrNotListed))
	p.mirror = NewMirror(source, p.read, clock, p.log.WithValues("resource", v1alpha1.KindProfiles+"."+v1alpha1.GroupVersion.Group))
	p.mirror.OnChange(func(name string, old, new *compiledProfile) {
		switch {
		case name == "":
		case new == nil:
			store.PutProfile(name, nil)
		case old == nil || !old.Same(new.Profile):
			store.PutProfile(name, new.Profile)
			logUnusable(p.log, name, new.errs)
		}
	})
	return p
}

func (p *Profiles) read(read *unstructured.Unstructured) compiledProfile {
	out := compiledProfile{requires: requirement.Record("KindProfile", read.Object)}
	out.object, out.Profile, out.errs = p.store.Compiler().ReadProfile(read.Object)
	return out
}

// Live lists the KindProfiles by name. It compiles only the ones that are not compiled yet.
func (p *Profiles) Live(ctx context.Context) (map[string]*expression.Profile, *listing, error) {
	out := map[string]*expression.Profile{}
	read, err := p.mirror.each(ctx, func(item *unstructured.Unstructured) {
		known, ok := p.mirror.Get(item.GetName())
		if !ok || known.UID != item.GetUID() || known.Generation != item.GetGeneration() {
			known = p.read(item)
			p.mirror.Wake() // It is behind: do not wait out a backoff.
		}
		out[item.GetName()] = known.Profile
	})
	switch {
	case p.mirror.Absent(ctx, err):
		return nil, unservedListing(read.sent), nil
	case err != nil:
		return nil, nil, fmt.Errorf("listing KindProfiles: %w", err)
	}
	return out, read, nil
}

// OnChange registers a function that is called with each kind whose profile changed, after the
// store has changed. Call it before the follower starts.
func (p *Profiles) OnChange(f func(kind schema.GroupKind)) {
	p.mirror.OnChange(func(_ string, old, new *compiledProfile) {
		if old != nil && new != nil && old.Same(new.Profile) {
			return
		}
		if old != nil {
			f(old.Kind.GroupKind())
		}
		if new != nil && (old == nil || old.Kind.GroupKind() != new.Kind.GroupKind()) {
			f(new.Kind.GroupKind())
		}
	})
}

// WriteStatus has the status of KindProfiles written, once [Profiles.WriteStatuses] runs. Call it
// before the follower starts.
func (p *Profiles) WriteStatus(patcher Patcher, serverTime ServerTime, held HeldEvent) {
	p.status = NewStatuses(patcher, p.clock, serverTime, held, p.log)
	p.mirror.OnChange(func(name string, _, new *compiledProfile) {
		if new == nil {
			p.status.Add(name, nil)
		}
	})
}

// WriteStatuses writes statuses until ctx is done. It may run once in a cluster.
func (p *Profiles) WriteStatuses(ctx context.Context) error {
	p.status.Run(ctx)
	return nil
}

// writeStatuses queues a write of the status of each KindProfile, as each depends on the served
// kinds as well.
func (p *Profiles) writeStatuses() {
	own, err := p.mirror.All()
	if err != nil || p.status == nil {
		return
	}
	snapshot := p.store.Snapshot()
	for name, profile := range own {
		condition := expression.Ready(profile.object.Generation, profile.errs, nil)
		if reason := notServed(snapshot, &profile); reason != "" && len(profile.errs) == 0 {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonKindNotServed, reason
		} else if reason := unenforced(snapshot, &profile); reason != "" && len(profile.errs) == 0 {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonNoStatusSubresource, reason
		}
		status, conditions := &profile.object.Status, []metav1.Condition{condition}
		if profile.requires != nil {
			conditions = append(conditions, *profile.requires)
		}
		p.status.Add(name, func(now time.Time) []byte {
			return p.status.Patch(now, &profile.object.ObjectMeta, status.ObservedGeneration, status.Conditions, conditions, nil, nil)
		})
	}
}

// notServed says why the kind of a profile is not there, or returns "". Kinds of Kubernetes itself
// have no CustomResourceDefinition, and are there.
func notServed(snapshot *platform.Snapshot, profile *compiledProfile) string {
	kind := profile.Kind
	if group := kind.Group; !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") {
		return ""
	}
	definition := snapshot.Definition(kind.GroupKind())
	if definition == nil {
		return fmt.Sprintf("spec.kind: no CustomResourceDefinition serves %s: install it, or correct group and kind", kind.GroupKind())
	}
	if _, ok := definition.Serves(profile.Profile); ok {
		return ""
	}
	return fmt.Sprintf("spec.kind: %s is served, and not as resource %s of version %s in scope %s: correct these",
		kind.GroupKind(), profile.Resource, kind.Version, cmp.Or(profile.object.Spec.Kind.Scope, v1alpha1.ScopeNamespaced))
}

// unenforced says why Curfew enforces no deadline by a profile that says how, or returns "".
func unenforced(snapshot *platform.Snapshot, profile *compiledProfile) string {
	if definition := snapshot.Definition(profile.Kind.GroupKind()); definition != nil {
		if fields, ok := definition.Serves(profile.Profile); ok {
			return profile.Installed(fields, snapshot.Definition).Unenforced
		}
	}
	return ""
}
