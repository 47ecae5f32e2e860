package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// essentialGroups and essentialKinds list kinds that a cluster depends on, or that are not worth a
// label. Nothing that matches objects by rule, instead of by their own label, reaches them.
var (
	essentialGroups = []string{
		wellknown.Group, "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io",
		"authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "rbac.authorization.k8s.io",
	}
	essentialKinds = []schema.GroupKind{{Kind: "Endpoints"}, {Kind: "Event"}, {Kind: "Namespace"}, {Kind: "Node"}, {Kind: "PersistentVolume"}}
)

// EssentialKind reports whether objects of a kind are never given a default TTL label.
func EssentialKind(kind schema.GroupKind) bool {
	return slices.Contains(essentialGroups, kind.Group) || slices.Contains(essentialKinds, kind)
}

// Essential reports the same of one object.
func (f *Facts) Essential() bool {
	return EssentialKind(f.Profile.Kind.GroupKind()) || f.EssentialObject()
}

// EssentialObject reports whether Kubernetes itself needs the object: it creates two of them in
// each namespace, again if they are deleted, and the Service by which Pods reach the API server.
func (f *Facts) EssentialObject() bool {
	kind := f.Profile.Kind.GroupKind()
	return EssentialName(kind, f.Name) || kind == schema.GroupKind{Kind: "Service"} && f.Namespace == "default" && f.Name == "kubernetes"
}

// EssentialName reports whether Kubernetes creates an object of that name, in each namespace if it
// has one.
func EssentialName(kind schema.GroupKind, name string) bool {
	return kind == schema.GroupKind{Kind: "ConfigMap"} && name == "kube-root-ca.crt" ||
		kind == schema.GroupKind{Kind: "ServiceAccount"} && name == "default" ||
		kind == schema.GroupKind{Group: "scheduling.k8s.io", Kind: "PriorityClass"} && strings.HasPrefix(name, "system-")
}

// immortal are the Namespaces that the API server never deletes (admission plugin
// NamespaceLifecycle).
var immortal = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}

// NeverDeleted reports whether the API server refuses every DELETE of the object.
func (f *Facts) NeverDeleted() bool { return f.IsNamespace() && slices.Contains(immortal, f.Name) }

// KeptImmortal is the verdict on such a Namespace that has a TTL label.
func KeptImmortal(key string, source lifetime.Source) Verdict {
	return Verdict{Action: Keep, Reason: "the API server never deletes this Namespace", Source: source,
		Err: fmt.Errorf("%s: remove the label", LabelPath(key))}
}

// installed are the objects of Curfew's manifests outside of its own namespace, components included,
// by kind, and the RoleBindings that docs/install.md has administrators create in other namespaces.
// A name that is taken cannot be given to another object. The author of a RoleBinding may take this
// name; no rule deletes RoleBindings, so that only a TTL label of theirs has no effect then. A test
// in package manifests compares the names.
var installed = map[schema.GroupKind][]string{
	{Group: rbacGroup, Kind: "ClusterRole"}: {
		"curfew-cleanup", "curfew-controller", "curfew-controller-anything", "curfew-controller-builtin-kinds", "curfew-controller-cleanup",
		"curfew-controller-core", "curfew-controller-deadlines", "curfew-controller-default-labels", "curfew-controller-deletion",
		"curfew-controller-kinds", "curfew-controller-labels", "curfew-controller-pauses", "curfew-controller-runtimes",
		"curfew-controller-tally", "curfew-controller-webhooks", "curfew-edit-tallies", "curfew-impersonate", "curfew-metrics-auth",
		"curfew-metrics-reader", "curfew-pause", "curfew-status", "curfew-tenant-view", "curfew-view", "curfew-view-pauses", "curfew-webhook",
		"curfew-webhook-certificates", "curfew-webhook-http-api",
	},
	{Group: rbacGroup, Kind: "ClusterRoleBinding"}: {
		"curfew-cleanup", "curfew-controller", "curfew-controller-kinds", "curfew-controller-pauses", "curfew-metrics-auth",
		"curfew-metrics-reader", "curfew-tenant-view", "curfew-webhook", "curfew-webhook-certificates", "curfew-webhook-http-api",
	},
	{Group: rbacGroup, Kind: "RoleBinding"}: {"curfew-controller"},
	{Group: flowGroup, Kind: "FlowSchema"}: {
		"curfew-cleanup", "curfew-controller", "curfew-leader-election", "curfew-pauses",
	},
	{Group: registrationGroup, Kind: "MutatingWebhookConfiguration"}:     {"curfew", "curfew-kinds"},
	{Group: registrationGroup, Kind: "ValidatingWebhookConfiguration"}:   {"curfew", "curfew-kinds"},
	{Group: registrationGroup, Kind: "ValidatingAdmissionPolicy"}:        admissionPolicies,
	{Group: registrationGroup, Kind: "ValidatingAdmissionPolicyBinding"}: admissionPolicies,
}

var admissionPolicies = []string{"curfew-ca-bundle", "curfew-configurations", "curfew-controller", "curfew-pause", "curfew-status", "curfew-webhook"}

const (
	rbacGroup         = "rbac.authorization.k8s.io"
	registrationGroup = "admissionregistration.k8s.io"
	flowGroup         = "flowcontrol.apiserver.k8s.io"
)

// Installed reports whether an object of Curfew's manifests outside of its own namespace has the
// kind and name.
func Installed(kind schema.GroupKind, name string) bool {
	return (&Facts{Profile: &Profile{Kind: kind.WithVersion("")}, Name: name}).CurfewsOwn()
}

// OwnKind reports whether the object is of a kind of Curfew's, such as a LifecyclePolicy.
func (f *Facts) OwnKind() bool { return f.Profile.Kind.Group == wellknown.Group }

// CurfewsOwn reports whether the object is a part of Curfew: of its kinds, one of their
// CustomResourceDefinitions, or installed under its name. Objects in Curfew's own namespace are
// protected with that. No label or owner reference counts, since any author
// writes these: a tenant's object would escape every TTL, bound and cleanup.
func (f *Facts) CurfewsOwn() bool {
	kind := f.Profile.Kind.GroupKind()
	return f.OwnKind() || slices.Contains(installed[kind], f.Name) ||
		kind.Group == "apiextensions.k8s.io" && kind.Kind == "CustomResourceDefinition" && strings.HasSuffix(f.Name, "."+wellknown.Group)
}

func (f *Facts) IsCronJobsJob() bool {
	return f.Profile.Kind.GroupKind() == JobProfile.Kind.GroupKind() && f.OwnedByCronJob()
}

// IsJobsPod reports whether the object is a Pod of a Job. Only those who ask for its deletion by
// name give it a TTL: the Job, default-pod-ttl, and policies for Pods.
func (f *Facts) IsJobsPod() bool { return f.IsPod() && f.OwnedByJob() }

// StaysByTTL reports whether the TTL after finished that the author set is never, or cannot be
// read, for some outcome. A default label would delete the object all the same.
func (f *Facts) StaysByTTL() bool {
	if lifetime.ParseSource(f.Annotations[wellknown.AnnotationTTLSource]).IsDefault() {
		return false
	}
	ttls := f.TTLs()
	return slices.ContainsFunc([]lifetime.Outcome{lifetime.Succeeded, lifetime.Failed}, func(outcome lifetime.Outcome) bool {
		setting := ttls.For(outcome)
		return setting != nil && (setting.Err != nil || setting.TTL.Never)
	})
}

func (f *Facts) WithoutLabel() *Facts {
	out := *f
	out.Labels = maps.Clone(f.Labels)
	delete(out.Labels, wellknown.LabelTTL)
	return &out
}

// Backfilled ends the stamp of a label that an existing object was given.
const Backfilled = "backfill"

// ClaimedLabel is the policy that the stamp of the TTL label names, and whether the object existed
// when it was given the label. A stamp counts only beside the label that it names: one that was
// changed since is its author's.
func (f *Facts) ClaimedLabel() (source lifetime.Source, backfill bool) {
	given, rest, _ := strings.Cut(f.Annotations[wellknown.AnnotationLabelSource], " ")
	label, mark, _ := strings.Cut(rest, " ")
	source = lifetime.ParseSource(given)
	if source.Level != lifetime.LevelPolicy || label != f.Labels[wellknown.LabelTTL] {
		return lifetime.Source{Level: lifetime.LevelObject}, false
	}
	return source, mark == Backfilled
}

// LabelPolicy is the name of the policy that gave the object its TTL label, according to its stamp;
// "" where there is none.
func (f *Facts) LabelPolicy() string {
	source, _ := f.ClaimedLabel()
	return source.Name
}

// FillsNativeDeadline reports whether admission writes a deadline into the native field: only where
// the kind's own controller is known to act on it. An API may reject a field whose feature gate is
// off, as JobSet does.
func (f *Facts) FillsNativeDeadline() bool { return f.Profile.Deadline != nil && !f.DeadlineByCurfew }

// A policy in dry-run deletes nothing on its account: what its defaults stamped before is held as
// well. A stamp counts only if that policy matches and would give the object the same value again,
// so that a forged one gains nothing. If the policy cannot be evaluated, it may give that value:
// the object is held (S6).

// StampedBy reports whether a stamp of the object names a policy that meets the condition.
func (f *Facts) StampedBy(condition func(name string) bool) bool {
	label, _ := f.ClaimedLabel()
	ttl := lifetime.ParseSource(f.Annotations[wellknown.AnnotationTTLSource])
	deadline := lifetime.ParseSource(f.Annotations[wellknown.AnnotationDeadlineSource])
	return slices.ContainsFunc([]lifetime.Source{ttl, deadline, label}, func(source lifetime.Source) bool {
		return source.Level == lifetime.LevelPolicy && condition(source.Name)
	})
}

func (f *Facts) WithoutTTL() *Facts {
	without := f.Without(append([]string{wellknown.AnnotationTTLSource}, wellknown.TTLAnnotations...)...)
	without.NativeTTL = lifetime.NativeField{}
	return without
}

func (f *Facts) WithoutDeadline() *Facts {
	without := f.Without(wellknown.AnnotationDeadlineSource, wellknown.AnnotationActiveDeadline)
	without.NativeDeadline = lifetime.NativeField{}
	return without
}

func (f *Facts) Without(annotations ...string) *Facts {
	out := *f
	out.Annotations = maps.Clone(f.Annotations)
	for _, key := range annotations {
		delete(out.Annotations, key)
	}
	return &out
}

// Native is the native field at a path to which defaults are written, if there is one.
func (f *Facts) Native(path fieldpath.FieldPath) (lifetime.NativeField, bool) {
	switch path.String() {
	case f.Profile.TTL.String():
		return f.NativeTTL, true
	case f.Profile.Deadline.String():
		return f.NativeDeadline, true
	default:
		return lifetime.NativeField{}, false
	}
}
