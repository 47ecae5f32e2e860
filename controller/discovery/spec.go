package discovery

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Purpose names the triggers that a feed serves. A trigger with feeds of its own has its own
// purpose.
type Purpose string

const (
	// Finish is for triggers that judge kinds with a profile: TTLs after finished, and deadlines.
	Finish Purpose = "finish"
	// Label is for the TTL label.
	Label Purpose = "label"
	// Alias is for the label's alias. One selector cannot ask for either of two labels.
	Alias Purpose = "label-alias"
)

// Key identifies the objects that a feed watches. No two feeds with the same key run at once.
type Key struct {
	Resource schema.GroupResource
	Purpose  Purpose
	// Namespace is the only one that is watched; "" for all.
	Namespace string
}

// sameObjects reports whether feeds of both keys could see the same objects, now or in the version
// of another feed.
func (k Key) sameObjects(other Key) bool {
	return k.Resource == other.Resource && k.Purpose == other.Purpose
}

// Spec is one feed that should run.
type Spec struct {
	Key
	Kind                      schema.GroupVersionKind
	ClusterScoped, Aggregated bool
	// Profile of the kind; nil for typed kinds and for labels.
	Profile *expression.Profile
	// Propagation of deletions; "" where the kind's profile says nothing.
	Propagation metav1.DeletionPropagation
	// Version differs from that of another spec with the same key when a new feed has to replace
	// the running one.
	Version string
	// Required permissions are waited for. While one of Optional is missing, the kind is watched
	// nonetheless.
	Required Needs
	Optional []Needs
	// Forbidden is called when the API server refuses to list or watch. It may be nil.
	Forbidden func()
}

// VersionResource is the resource that the feed sends its requests to.
func (s *Spec) VersionResource() schema.GroupVersionResource {
	return s.Kind.GroupVersion().WithResource(s.Resource.Resource)
}

// inherits reports whether the feed may keep the objects of its predecessor: it lists the same
// resource and judges all of them again.
func (s *Spec) inherits(from *Spec) bool {
	return s.Purpose == Finish && s.VersionResource() == from.VersionResource()
}

// Feed streams one kind into the engine.
type Feed interface {
	// Run streams until ctx is done.
	Run(ctx context.Context) error
	RejudgeNamespace(name string)
	RejudgeAll()
	// Handles are the engine's handles that the feed uses.
	Handles() []expire.Kind
}

// Tracker is the part of the engine that holds and forgets the objects of feeds.
type Tracker interface {
	Hold(kind expire.Kind, on bool)
	ForgetKind(kind expire.Kind)
}

// Source knows a part of the feeds that should run, and how to make them.
type Source struct {
	// Make makes the feed of a spec, registered with the engine.
	Make func(spec *Spec) (Feed, error)
	Log  logr.Logger
	// Skipped reports, by group, kind and reason, the kinds that are not watched, or not for all
	// purposes.
	Skipped *prometheus.GaugeVec
}

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
	spec.Required = Needs{Reason: "permission", All: permission.ToFollow(spec.VersionResource())}
	spec.Optional = []Needs{
		{Reason: ReasonDeadline, Effect: "deadlines of this kind are not enforced", All: toStop(profile)},
		{
			Reason: "runtime-stamp", Effect: "a TTL that a runtime was given past admission deletes nothing without backfill",
			All: toStamp(profile),
		},
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

// Needs are the permissions that one purpose takes.
type Needs struct {
	// Reason is the label of the metric while one is missing.
	Reason string
	// Effect of that, for log lines; "" means that the kind is not watched.
	Effect string
	All    []permission.Need
}

// recheck is the longest wait before missing permissions are checked again: no event reports that
// one was granted. The first checks come sooner, since an API server that has just started refuses
// requests until it has read the roles.
const recheck = time.Minute

// ask asks until all permissions are granted, and reports those that are not, once. It returns
// false once ctx is done.
func (s *Set) ask(ctx context.Context, source *Source, spec *Spec, needs *Needs) bool {
	if s.options.Lacks == nil || len(needs.All) == 0 {
		return ctx.Err() == nil
	}
	defer source.Skipped.DeleteLabelValues(spec.Kind.Group, spec.Kind.Kind, needs.Reason)
	reported := ""
	for backoff := loop.NewBackoffOf(time.Second, recheck); ; {
		missing, err := s.options.Lacks(ctx, spec.Namespace, needs.All)
		switch {
		case err != nil:
			source.Log.V(1).Info("could not ask for permissions, trying again", "kind", spec.Kind.Kind, "reason", err.Error())
		case len(missing) == 0:
			return true
		default:
			source.Skipped.WithLabelValues(spec.Kind.Group, spec.Kind.Kind, needs.Reason).Set(1)
			if text := needs.text(missing); text != reported {
				reported = text
				source.report(spec, needs, text)
			}
		}
		if !loop.Pause(ctx, s.options.Clock, backoff.Next()) {
			return false
		}
	}
}

// text lists the missing permissions for log lines: only the verbs if all needs are for the kind
// itself.
func (n *Needs) text(missing []permission.Need) string {
	var out []string
	for _, need := range missing {
		if n.Effect == "" {
			out = append(out, need.Verb)
		} else {
			out = append(out, need.String())
		}
	}
	return strings.Join(out, ", ")
}

func (s *Source) report(spec *Spec, needs *Needs, missing string) {
	if needs.Effect == "" {
		s.Log.Info("kind is skipped: grant its verbs to a ClusterRole with label curfew.dev/aggregate-to-controller",
			"kind", spec.Kind.Kind, "resource", spec.VersionResource().String(), "missing", missing)
		return
	}
	s.Log.Info("Curfew lacks a permission: grant it to a ClusterRole with label curfew.dev/aggregate-to-controller",
		"kind", spec.Kind.Kind, "missing", missing, "effect", needs.Effect)
}
