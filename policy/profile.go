package policy

import (
	"context"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

// Profile tells how one kind expresses what Curfew needs to know: when an object is finished, where
// its native fields are, which pod templates it holds. The profiles of Kubernetes' own kinds are
// below, and KindProfile objects add to them.
type Profile struct {
	// Name of the profile, for people.
	Name string
	// Unknown means that the kind has no profile.
	Unknown bool
	// Kind and Resource name the kind that the profile describes; Resource is the plural in URLs.
	Kind     schema.GroupVersionKind
	Resource string
	// ClusterScoped kinds have no namespace, so no namespace's annotations apply to them.
	ClusterScoped bool

	// TTL is the native field that holds a TTL after finished, in seconds; nil if the kind only has
	// the annotation.
	TTL fieldpath.FieldPath
	// TTLSucceeded and TTLFailed are native fields by outcome, in seconds, and win over TTL; nil
	// where the kind has none. TTLFailed does not apply to an object that Errored.
	TTLSucceeded, TTLFailed fieldpath.FieldPath
	// Deadline is the native field that holds an active deadline: whole seconds or, with
	// DurationDeadline, a Go duration such as "1h0m0s" (0 means none).
	Deadline         fieldpath.FieldPath
	DurationDeadline bool
	// AnnotatedDeadline means that Curfew enforces annotation curfew.dev/active-deadline on this
	// kind. If Deadline is set too, admission copies the annotation into that field.
	AnnotatedDeadline bool
	// DeadlineByCurfew reports whether Curfew enforces the deadline of an object, because nothing
	// shows that the kind's own controller does. Nil means that its controller always does.
	DeadlineByCurfew func(ctx context.Context, object map[string]any) bool
	// DefaultDeadline means that namespaces and policies may give this kind a default deadline;
	// never for Pods.
	DefaultDeadline bool
	// ManagedBy is the field that hands an object to another controller; DefaultManager is its
	// value for the kind's own.
	ManagedBy      fieldpath.FieldPath
	DefaultManager string

	// PodTemplates lead to pod templates (an object with metadata and spec). A TTL or deadline in
	// there is denied.
	PodTemplates []fieldpath.FieldPath
	// InheritedMetadata leads to labels and annotations that the kind's controller copies onto the
	// objects it creates. A TTL or deadline there is denied.
	InheritedMetadata []fieldpath.FieldPath
	// Forbidden fields must not be set.
	Forbidden []Forbidden
	// ImmutableDeadline refuses any change of a deadline after creation.
	ImmutableDeadline bool
	// RuntimeOf names the kind whose objects refer to this one as their runtime; "" for all others.
	// TTL annotations on a runtime apply to the objects that use it.
	RuntimeOf string
	// UsedBy is the profile of that kind; nil if it is not known.
	UsedBy *Profile
	// RuntimeTTLs are the fields of a runtime in which any kind that uses it finds a TTL.
	RuntimeTTLs []fieldpath.FieldPath
	// Templates lead to templates of other objects, such as a CronJob's Job template.
	Templates []Template

	// References are the fields that name objects of other kinds.
	References []Reference

	// ControllerAccounts are the user names of the controllers that create objects for objects of
	// this kind.
	ControllerAccounts []string

	// State reads started, suspended and finished from the object; nil for kinds that never finish.
	State StateFunc
}

// Forbidden is a field that must not be set, and why.
type Forbidden struct {
	Path   fieldpath.FieldPath
	Reason string
}

// Template is a template of objects of another kind inside an object.
type Template struct {
	Path    fieldpath.FieldPath
	Profile *Profile
}

// Finishable reports whether objects of this kind can have a TTL after finished.
func (p *Profile) Finishable() bool { return p.State != nil }

// KnowsTemplate reports whether objects of this kind are known to contain all that is in an object
// that their controller creates for them: of Kubernetes' own kinds, and where the profile has a
// template for the other kind.
func (p *Profile) KnowsTemplate(kind schema.GroupKind) bool {
	return len(p.PodTemplates) > 0 && slices.Contains([]string{"", "apps", "batch"}, p.Kind.Group) ||
		slices.ContainsFunc(p.Templates, func(template Template) bool { return template.Profile.Kind.GroupKind() == kind })
}

// claimMetadata leads, in a Pod or a pod template, to what its ephemeral volumes give their claims.
var claimMetadata = fieldpath.MustFieldPath("spec.volumes[*].ephemeral.volumeClaimTemplate.metadata")

// Inherited is InheritedMetadata, and the metadata of the claims of Pods' ephemeral volumes.
func (p *Profile) Inherited() []fieldpath.FieldPath {
	out := slices.Clone(p.InheritedMetadata)
	for _, path := range p.PodTemplates {
		out = append(out, path.Child(claimMetadata...))
	}
	if p.Kind.GroupKind() == PodProfile.Kind.GroupKind() {
		out = append(out, claimMetadata)
	}
	return out
}

// HasDeadline reports whether objects of this kind can have a deadline, native or as an annotation.
func (p *Profile) HasDeadline() bool { return p.Deadline != nil || p.AnnotatedDeadline }

// Unchanging reports whether Curfew never writes into objects of this kind. The Jobs of a CronJob
// are seen when they are created, and a ReplicaSet mostly belongs to its Deployment.
func (p *Profile) Unchanging() bool { return UnchangingKind(p.Kind.GroupKind()) }

// UnchangingKind is [Profile.Unchanging] for the profile of a kind.
func UnchangingKind(kind schema.GroupKind) bool {
	return kind == CronJobProfile.Kind.GroupKind() || kind == ReplicaSetProfile.Kind.GroupKind()
}

// State says where an object is in its life.
type State struct {
	// Started is when it became active; zero before that and while it is suspended.
	Started time.Time
	// Suspended objects are not active and their deadline does not run.
	Suspended bool
	// Finished means that execution ended for good.
	Finished bool
	// Outcome is set where Finished is.
	Outcome lifetime.Outcome
	// Errored means that the object ended otherwise than with the kind's own failure, so that
	// TTLFailed does not apply.
	Errored bool
	// FinishTime is when it finished; zero if the object is finished and does not say when.
	FinishTime time.Time
}

// StateFunc reads the state of an object in its JSON form. If it returns an error, the object is
// kept (S6).
type StateFunc func(ctx context.Context, object map[string]any) (State, error)

// NativeDeleter names the controller that deletes objects of the kind by their native TTL.
func (p *Profile) NativeDeleter() string {
	if p.Kind.GroupKind() == JobProfile.Kind.GroupKind() {
		return "Kubernetes' TTL-after-finished controller"
	}
	return "the " + p.Kind.Kind + "'s own controller"
}

// ControllerManager is the user name of kube-controller-manager. With
// --use-service-account-credentials each of its controllers has an account in kube-system.
const (
	ControllerManager = "system:kube-controller-manager"
	kubeController    = "system:serviceaccount:kube-system:"
)

// The profiles of the kinds that are part of Kubernetes, read off k8s.io/api.
var (
	JobProfile = &Profile{
		Name:            "job",
		Kind:            batchv1.SchemeGroupVersion.WithKind("Job"),
		Resource:        "jobs",
		TTL:             fieldpath.MustFieldPath("spec.ttlSecondsAfterFinished"),
		Deadline:        fieldpath.MustFieldPath("spec.activeDeadlineSeconds"),
		DefaultDeadline: true,
		ManagedBy:       fieldpath.MustFieldPath("spec.managedBy"),
		DefaultManager:  wellknown.JobController,
		PodTemplates:    []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.template")},
		State:           jobStateOfObject,

		ControllerAccounts: []string{kubeController + "job-controller"},
	}
	PodProfile = &Profile{
		Name:     "pod",
		Kind:     corev1.SchemeGroupVersion.WithKind("Pod"),
		Resource: "pods",
		Deadline: fieldpath.MustFieldPath("spec.activeDeadlineSeconds"),
		State:    podStateOfObject,
	}
	CronJobProfile = &Profile{
		Name:         "cronjob",
		Kind:         batchv1.SchemeGroupVersion.WithKind("CronJob"),
		Resource:     "cronjobs",
		PodTemplates: []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.jobTemplate.spec.template")},
		Templates:    []Template{{Path: fieldpath.MustFieldPath("spec.jobTemplate"), Profile: JobProfile}},

		ControllerAccounts: []string{kubeController + "cronjob-controller"},
	}
	DeploymentProfile            = workload(appsv1.SchemeGroupVersion.WithKind("Deployment"), "deployment-controller")
	StatefulSetProfile           = withClaims(workload(appsv1.SchemeGroupVersion.WithKind("StatefulSet"), "statefulset-controller"))
	DaemonSetProfile             = workload(appsv1.SchemeGroupVersion.WithKind("DaemonSet"), "daemon-set-controller")
	ReplicaSetProfile            = workload(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), "replicaset-controller")
	ReplicationControllerProfile = workload(corev1.SchemeGroupVersion.WithKind("ReplicationController"), "replication-controller")
	PodTemplateProfile           = &Profile{
		Name:         "podtemplate",
		Kind:         corev1.SchemeGroupVersion.WithKind("PodTemplate"),
		Resource:     "podtemplates",
		PodTemplates: []fieldpath.FieldPath{fieldpath.MustFieldPath("template")},
	}
)

func workload(kind schema.GroupVersionKind, controller string) *Profile {
	name, template := strings.ToLower(kind.Kind), fieldpath.MustFieldPath("spec.template")
	return &Profile{Name: name, Kind: kind, Resource: name + "s", PodTemplates: []fieldpath.FieldPath{template},
		ControllerAccounts: []string{kubeController + controller}}
}

// withClaims denies a TTL in the claim templates of a StatefulSet: the volumes would be deleted
// under its Pods. A claim names no owner: the controller cannot tell where its label comes from.
func withClaims(profile *Profile) *Profile {
	profile.InheritedMetadata = []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.volumeClaimTemplates[*].metadata")}
	return profile
}

// BuiltinProfiles are the profiles that need no KindProfile object in the cluster.
func BuiltinProfiles() []*Profile {
	return []*Profile{
		JobProfile, PodProfile, CronJobProfile,
		DeploymentProfile, StatefulSetProfile, DaemonSetProfile, ReplicaSetProfile, ReplicationControllerProfile, PodTemplateProfile,
	}
}

// HasOwnCode reports whether Curfew reads a kind by code of its own, in feeds and at admission, so
// that no KindProfile replaces its profile.
func HasOwnCode(kind schema.GroupKind) bool {
	return kind == JobProfile.Kind.GroupKind() || kind == PodProfile.Kind.GroupKind()
}

// Profiles finds the profile of a kind.
type Profiles map[schema.GroupKind]*Profile

// NewProfiles indexes profiles by kind. Of two for the same kind, the later wins.
func NewProfiles(profiles ...*Profile) Profiles {
	index := make(Profiles, len(profiles))
	for _, profile := range profiles {
		index[profile.Kind.GroupKind()] = profile
	}
	return index
}

// For returns the profile of a kind. Kinds without one get a bare profile, to which only labels and
// protection apply. Any value of its spec.managedBy counts as another controller: which one is the
// kind's own is not known.
func (p Profiles) For(kind schema.GroupVersionKind) *Profile {
	if profile, ok := p[kind.GroupKind()]; ok {
		return profile
	}
	return &Profile{Name: kind.Kind, Kind: kind, Unknown: true, ManagedBy: JobProfile.ManagedBy}
}
