package registry

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Need is a permission that a part of Curfew's work takes, beyond what it takes to delete objects of a kind. Without it the kind is
// watched nonetheless.
type Need struct {
	Verb        string
	Resource    schema.GroupVersionResource
	Subresource string
}

// String is the need as messages write it: patch trainjobs.trainer.kubeflow.org/status.
func (n Need) String() string {
	text := n.Verb + " " + n.Resource.GroupResource().String()
	if n.Subresource != "" {
		text += "/" + n.Subresource
	}
	return text
}

// needs are those of one kind for one purpose.
type needs struct {
	kind    schema.GroupKind
	purpose string // as the metric has it
	effect  string // of a need that is not met
	all     []Need
}

// deadlineNeeds are what it takes to stop objects of a kind at their deadline.
func deadlineNeeds(profile *expression.Profile) needs {
	out := needs{kind: profile.Kind.GroupKind(), purpose: "deadline", effect: "deadlines of this kind are not enforced"}
	if profile.Enforcement == nil {
		return out
	}
	for _, step := range profile.Enforcement.Stop {
		need := Need{Resource: profile.Kind.GroupVersion().WithResource(profile.Resource)}
		if child := step.Child; child != nil {
			need.Resource = schema.GroupVersionResource{Group: child.Group, Version: child.Version, Resource: child.Resource}
		}
		switch step.Action {
		case v1alpha1.StopMarkFailed:
			need.Verb, need.Subresource = "patch", "status"
		case v1alpha1.StopSuspend:
			need.Verb = "patch"
		case v1alpha1.StopDelete:
			need.Verb = "delete"
		default:
			continue
		}
		if !slices.Contains(out.all, need) {
			out.all = append(out.all, need)
		}
	}
	return out
}

// finishNeeds are what it takes to write finish times on Pods.
func finishNeeds() needs {
	pod := policy.PodProfile
	return needs{
		kind: pod.Kind.GroupKind(), purpose: "finish-time", effect: "Pods that do not say when they finished are kept",
		all: []Need{{Verb: "patch", Resource: pod.Kind.GroupVersion().WithResource(pod.Resource)}},
	}
}

// ask asks for the needs until all are met or ctx is done, and says which are not.
func (r *Registry) ask(ctx context.Context, of needs) {
	if r.options.Lacks == nil || len(of.all) == 0 {
		return
	}
	name := of.kind.String()
	defer r.skipped.DeleteLabelValues(name, of.purpose)
	said := ""
	for delay := permissionBackoff(); ; {
		missing, err := r.options.Lacks(ctx, of.all)
		switch {
		case err != nil:
			r.log.V(1).Info("could not ask for permissions, trying again", "kind", of.kind.Kind, "reason", err.Error())
		case len(missing) == 0:
			return
		default:
			r.skipped.WithLabelValues(name, of.purpose).Set(1)
			var names []string
			for _, need := range missing {
				names = append(names, need.String())
			}
			if text := strings.Join(names, ", "); text != said {
				said = text
				r.log.Info("Curfew lacks a permission: grant it to a ClusterRole with label curfew.dev/aggregate-to-controller",
					"kind", of.kind.Kind, "missing", text, "effect", of.effect)
			}
		}
		if !r.pause(ctx, delay.Step()) {
			return
		}
	}
}
