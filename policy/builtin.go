package policy

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/wellknown"
)

// ControllerManager is the user name of kube-controller-manager. With
// --use-service-account-credentials each of its controllers has an account in kube-system.
const (
	ControllerManager = "system:kube-controller-manager"
	kubeController    = "system:serviceaccount:kube-system:"
)

// The profiles of the kinds that are part of Kubernetes (KINDS.md, read off k8s.io/api).
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
	DeploymentProfile            = workload("deployment", appsv1.SchemeGroupVersion.WithKind("Deployment"), "deployments", "deployment-controller")
	StatefulSetProfile           = withClaims(workload("statefulset", appsv1.SchemeGroupVersion.WithKind("StatefulSet"), "statefulsets", "statefulset-controller"))
	DaemonSetProfile             = workload("daemonset", appsv1.SchemeGroupVersion.WithKind("DaemonSet"), "daemonsets", "daemon-set-controller")
	ReplicaSetProfile            = workload("replicaset", appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), "replicasets", "replicaset-controller")
	ReplicationControllerProfile = workload("replicationcontroller", corev1.SchemeGroupVersion.WithKind("ReplicationController"), "replicationcontrollers", "replication-controller")
	PodTemplateProfile           = &Profile{
		Name:         "podtemplate",
		Kind:         corev1.SchemeGroupVersion.WithKind("PodTemplate"),
		Resource:     "podtemplates",
		PodTemplates: []fieldpath.FieldPath{fieldpath.MustFieldPath("template")},
	}
)

func workload(name string, kind schema.GroupVersionKind, resource, controller string) *Profile {
	return &Profile{Name: name, Kind: kind, Resource: resource, PodTemplates: []fieldpath.FieldPath{fieldpath.MustFieldPath("spec.template")},
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

// HaveController reports whether one of the profiles names a user as a controller.
func (p Profiles) HaveController(user string) bool {
	for _, profile := range p {
		if slices.Contains(profile.ControllerAccounts, user) {
			return true
		}
	}
	return false
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
