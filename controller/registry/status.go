package registry

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// WriteStatus has the status of KindProfiles written. Call it before Run.
func (r *Registry) WriteStatus(patcher follow.Patcher) {
	r.status = follow.NewStatuses(patcher, r.options.Clock, r.options.ServerTime, r.log)
	r.profiles.OnChange(func(name string, _, new *compiledProfile) {
		if new == nil {
			r.status.Add(name, nil)
		}
	})
}

// WriteStatuses writes them until ctx is done. It may run once in a cluster.
func (r *Registry) WriteStatuses(ctx context.Context) error {
	if r.status != nil {
		r.status.Run(ctx)
	}
	return nil
}

// writeStatuses has the status of all KindProfiles written, each of which depends on what is served as well.
func (r *Registry) writeStatuses() {
	if r.status == nil {
		return
	}
	definitions, _, err := r.known()
	if err != nil {
		return // What makes it known says so.
	}
	own, err := r.profiles.All()
	if err != nil {
		return
	}
	for name, profile := range own {
		condition := expression.Ready(profile.object.Generation, profile.errs, nil)
		if reason := r.notServed(definitions, &profile); reason != "" && len(profile.errs) == 0 {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonKindNotServed, reason
		} else if reason := unenforced(definitions, &profile); reason != "" && len(profile.errs) == 0 {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonNoStatusSubresource, reason
		}
		status := &profile.object.Status
		r.status.Add(name, func(now time.Time) []byte {
			return r.status.Patch(now, &profile.object.ObjectMeta, status.ObservedGeneration, status.Conditions,
				[]metav1.Condition{condition}, "", "")
		})
	}
}

// notServed says why the kind of a profile is not there, or returns "". Kinds of Kubernetes itself have no
// CustomResourceDefinition, and are there.
func (r *Registry) notServed(definitions map[string]expression.Definition, profile *compiledProfile) string {
	kind := profile.Kind
	if group := kind.Group; !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io") {
		return ""
	}
	for _, definition := range definitions {
		if definition.Kind != kind.GroupKind() {
			continue
		}
		if _, ok := definition.Serves(profile.Profile); ok {
			return ""
		}
		return fmt.Sprintf("spec.kind: %s is served, and not as resource %s of version %s in scope %s: correct these",
			kind.GroupKind(), profile.Resource, kind.Version, cmp.Or(profile.object.Spec.Kind.Scope, v1alpha1.ScopeNamespaced))
	}
	return fmt.Sprintf("spec.kind: no CustomResourceDefinition serves %s: install it, or correct group and kind", kind.GroupKind())
}

// unenforced says why Curfew enforces no deadline by a profile that says how, or returns "".
func unenforced(definitions map[string]expression.Definition, profile *compiledProfile) string {
	of := byDefinition(definitions)
	if definition := of(profile.Kind.GroupKind()); definition != nil {
		if fields, ok := definition.Serves(profile.Profile); ok {
			return profile.Installed(fields, of).Unenforced
		}
	}
	return ""
}
