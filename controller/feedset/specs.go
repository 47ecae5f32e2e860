package feedset

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Typed are the feeds of the kinds that Curfew knows without a KindProfile. Without the permission
// to patch Pods, Curfew keeps Pods whose status does not say when they finished.
func Typed() []*Spec {
	jobs, pods := finish(policy.JobProfile), finish(policy.PodProfile)
	pods.Optional = []Needs{{
		Reason: "finish-time", Effect: "Pods that do not say when they finished are kept",
		All: []permission.Need{{Verb: "patch", Resource: pods.VersionResource()}},
	}}
	return []*Spec{jobs, pods}
}

// OfProfile is the feed of a kind with a profile. The version changes with the profile and with the
// schema that it applies to.
func OfProfile(profile *expression.Profile, version string) *Spec {
	spec := finish(profile.Profile)
	spec.Profile, spec.Version, spec.Propagation = profile, version, profile.Propagation
	spec.Required = Needs{Reason: "permission", All: permission.ToDelete(spec.VersionResource())}
	spec.Optional = []Needs{
		{Reason: ReasonDeadline, Effect: "deadlines of this kind are not enforced", All: toStop(profile)},
		{Reason: "runtime-stamp", Effect: "a TTL that a runtime was given past admission deletes nothing without backfill", All: toStamp(profile)},
	}
	return spec
}

// ReasonDeadline is the reason of the needs that deadlines have.
const ReasonDeadline = "deadline"

// toStamp are the permissions to stamp the runtimes of a kind with default-since.
func toStamp(profile *expression.Profile) []permission.Need {
	if profile.Runtime == nil {
		return nil
	}
	var out []permission.Need
	for _, resource := range profile.Runtime.Resources() {
		out = append(out, permission.Need{Verb: "patch", Resource: resource})
	}
	return out
}

func finish(profile *policy.Profile) *Spec {
	return &Spec{
		Key:  Key{Resource: schema.GroupResource{Group: profile.Kind.Group, Resource: profile.Resource}, Purpose: Finish},
		Kind: profile.Kind, ClusterScoped: profile.ClusterScoped,
	}
}

// toStop are the permissions to stop objects of a kind at their deadline.
func toStop(profile *expression.Profile) []permission.Need {
	if profile.Enforcement == nil {
		return nil
	}
	var out []permission.Need
	for _, step := range profile.Enforcement.Stop {
		need := permission.Need{Resource: profile.Kind.GroupVersion().WithResource(profile.Resource)}
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
		if !slices.Contains(out, need) {
			out = append(out, need)
		}
	}
	return out
}
