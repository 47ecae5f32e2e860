package webhookconfig

import (
	"cmp"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/wellknown"
)

// kind is a kind with a profile, and the fields of its objects that concern Curfew.
type kind struct {
	*policy.Profile
	schema *expression.Schema
	// typed kinds are built into Kubernetes: their objects have the shape of their Go types.
	typed bool
	// coarse conditions ask less.
	coarse bool
	// fields concern Curfew on CREATE if they are set, and on UPDATE if they change: native TTLs and
	// forbidden fields.
	fields []fieldpath.FieldPath
	// deadlines concern Curfew if they change, and on CREATE where a policy bounds them.
	deadlines []fieldpath.FieldPath
	// inherited are the paths of metadata that other objects get: of templates, and what the kind's
	// controller copies.
	inherited []fieldpath.FieldPath
	// ttls are the fields in which a runtime has a TTL for the objects that use it; isRuntime is set
	// for one that has annotations alone, too.
	ttls      []fieldpath.FieldPath
	isRuntime bool
	// runtime is the field in which a new object names a runtime that may give it a deadline; nil if
	// there is none.
	runtime fieldpath.FieldPath

	// inUse is the namespace label with which every new object is sent anyway: to the validating
	// webhook, and if it can finish, to the mutating one; "" if there is none.
	inUse string
	// validated asks whether a request is sent to the validating webhook anyway, wherever the object
	// is.
	validated string
	// unchanging kinds are validated and never get a default.
	unchanging bool
}

// newKind is a kind that a CustomResourceDefinition serves.
func newKind(served *platform.Served, coarse bool) *kind {
	out := &kind{Profile: served.Profile.Profile, schema: served.Schema}
	out.addFields()
	out.add(&out.fields, nil, served.TTL...)
	out.ttls, out.isRuntime = served.TTL, served.IsRuntime
	out.add(&out.deadlines, nil, served.Deadline...)
	for _, forbidden := range served.Forbidden {
		out.add(&out.fields, nil, forbidden.Path)
	}
	if served.Runtime != nil && served.RuntimeSets && out.HasDeadline() && out.schema.Has(served.Runtime.NamePath()) {
		out.runtime = served.Runtime.NamePath()
		out.add(&out.fields, nil, out.runtime) // Admission says what its TTL does.
	}
	if !out.ClusterScoped {
		out.inUse = wellknown.LabelInUse
	}
	out.coarse = coarse
	out.validated = out.touched()
	return out
}

// builtin are the kinds of Kubernetes itself, with what manifests/webhook sends of them. A test
// evaluates both together.
func builtin() []*kind {
	job, cronJob, pod := typedKind(policy.JobProfile), typedKind(policy.CronJobProfile), typedKind(policy.PodProfile)
	job.inUse, cronJob.inUse, pod.inUse = wellknown.LabelInUse, wellknown.LabelInUse, wellknown.LabelPodsInUse
	job.validated, cronJob.validated = job.touched(), cronJob.touched()
	pod.validated, cronJob.unchanging = ownKeyChanged, true
	out := []*kind{job, cronJob, pod}
	workloads := func(unchanging bool, profiles ...*policy.Profile) {
		for _, profile := range profiles {
			workload := typedKind(profile)
			workload.validated, workload.unchanging = workloadTouched, unchanging
			out = append(out, workload)
		}
	}
	workloads(false, policy.DeploymentProfile, policy.StatefulSetProfile, policy.DaemonSetProfile)
	workloads(true, policy.ReplicaSetProfile, policy.ReplicationControllerProfile, policy.PodTemplateProfile)
	return out
}

func typedKind(profile *policy.Profile) *kind {
	out := &kind{Profile: profile, typed: true}
	out.addFields()
	out.add(&out.inherited, nil, out.Inherited()...) // With claims, conditions for large custom kinds are too long.
	return out
}

// addFields adds the fields of the profile, and of the objects that templates make.
func (k *kind) addFields() {
	k.add(&k.inherited, nil, k.InheritedMetadata...)
	k.addProfile(nil, k.Profile)
	for _, template := range k.Templates {
		k.add(&k.inherited, template.Path, fieldpath.FieldPath{"metadata"})
		k.addProfile(template.Path, template.Profile)
	}
}

// rawTTL is a field that a Pod does not have. Kinds that keep unknown fields in their pod templates
// may carry it.
var rawTTL = fieldpath.FieldPath{"spec", policy.JobProfile.TTL[len(policy.JobProfile.TTL)-1]}

func (k *kind) addProfile(prefix fieldpath.FieldPath, profile *policy.Profile) {
	k.add(&k.fields, prefix, profile.TTL, profile.TTLSucceeded, profile.TTLFailed)
	k.add(&k.deadlines, prefix, profile.Deadline)
	for _, path := range profile.PodTemplates {
		k.add(&k.inherited, prefix, path.Child("metadata"))
		if !k.typed {
			k.add(&k.fields, prefix, path.Child(rawTTL...))
		}
	}
}

// add appends paths below prefix that the installed version of the kind can have. A nil path is left
// out.
func (k *kind) add(to *[]fieldpath.FieldPath, prefix fieldpath.FieldPath, paths ...fieldpath.FieldPath) {
	for _, path := range paths {
		if full := prefix.Child(path...); path != nil && k.schema.Has(full) {
			*to = append(*to, full)
		}
	}
}

// rule is the kind in a webhook's rules.
func (k *kind) rule(operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	scope := admissionv1.NamespacedScope
	if k.ClusterScoped {
		scope = admissionv1.ClusterScope
	}
	return ruleOf(k.Kind.Group, k.Kind.Version, k.Resource, scope, operations...)
}

func ruleOf(group, version, resource string, scope admissionv1.ScopeType, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{Operations: operations, Rule: admissionv1.Rule{
		APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource}, Scope: &scope,
	}}
}

// withStatus is rule, and writes of the status: for built-in kinds such as Ingresses and Services
// these can change labels and annotations. A CustomResourceDefinition's status cannot.
func (k *kind) withStatus(operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	out := k.rule(operations...)
	out.Resources = append(out.Resources, k.Resource+"/status")
	return out
}

// maxName leaves room for the rest of a webhook's name, which has at most 253 characters.
const maxName = 200

// name is the kind in the names of webhooks. Coarse webhooks are shared by kinds.
func (k *kind) name() string {
	if k.coarse {
		return "kinds"
	}
	name := k.Resource + "." + cmp.Or(k.Kind.Group, "core")
	if len(name) > maxName {
		return k.Resource // number tells kinds of one resource apart.
	}
	return name
}
