package webhookconfig

import (
	"cmp"
	"slices"

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

	// inUse and validatedInUse are the namespace label with which every new object is sent to the
	// mutating or the validating webhook anyway; "" if there is none.
	inUse, validatedInUse string
	// validated asks whether a request is sent to the validating webhook anyway, wherever the object
	// is.
	validated string
	// updates is set for kinds whose changed deadlines are only sent where a policy bounds them.
	updates bool
	// unchanging kinds are validated and never get a default.
	unchanging bool
}

// newKind is a kind that a CustomResourceDefinition serves.
func newKind(served *platform.Served, coarse bool) *kind {
	out := &kind{Profile: served.Profile.Profile, schema: served.Schema}
	out.addProfile()
	out.add(&out.fields, served.TTL...)
	out.ttls, out.isRuntime = served.TTL, served.IsRuntime
	out.add(&out.deadlines, served.Deadline...)
	for _, forbidden := range served.Forbidden {
		out.add(&out.fields, forbidden.Path)
	}
	if served.Runtime != nil && served.RuntimeSets && out.HasDeadline() && out.schema.Has(served.Runtime.NamePath()) {
		out.runtime = served.Runtime.NamePath()
		out.add(&out.fields, out.runtime) // Admission says what its TTL does.
	}
	if !out.ClusterScoped {
		out.validatedInUse = wellknown.LabelInUse
		if out.Finishable() {
			out.inUse = wellknown.LabelInUse
		}
	}
	out.coarse = coarse
	out.validated = out.touched()
	return out
}

// builtin are the kinds of Kubernetes itself, with what manifests/webhook sends of them. A test
// evaluates both together.
func builtin() []*kind {
	job, cronJob, pod := typedKind(policy.JobProfile), typedKind(policy.CronJobProfile), typedKind(policy.PodProfile)
	job.inUse, job.validatedInUse = wellknown.LabelInUse, wellknown.LabelInUse
	cronJob.validatedInUse, cronJob.unchanging = wellknown.LabelInUse, true
	job.validated, cronJob.validated = job.touched(), cronJob.touched()
	pod.inUse, pod.validatedInUse, pod.updates = wellknown.LabelPodsInUse, wellknown.LabelPodsInUse, true
	pod.validated = ownKeyChanged
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
	out.addProfile()
	return out
}

func (k *kind) addProfile() {
	k.add(&k.fields, k.TTL, k.TTLSucceeded, k.TTLFailed)
	k.add(&k.deadlines, k.Deadline)
	k.addPodTemplates(nil, k.Profile)
	k.add(&k.inherited, k.InheritedMetadata...)
	if k.typed { // With claims, conditions for large custom kinds are too long.
		k.add(&k.inherited, k.Inherited()...)
	}
	for _, template := range k.Templates {
		inner := template.Profile
		k.add(&k.inherited, template.Path.Child("metadata"))
		for _, path := range []fieldpath.FieldPath{inner.TTL, inner.TTLSucceeded, inner.TTLFailed} {
			k.add(&k.fields, below(template.Path, path))
		}
		k.add(&k.deadlines, below(template.Path, inner.Deadline))
		k.addPodTemplates(template.Path, inner)
	}
}

// rawTTL is a field that a Pod does not have. Kinds that keep unknown fields in their pod templates
// may carry it.
var rawTTL = fieldpath.FieldPath{"spec", policy.JobProfile.TTL[len(policy.JobProfile.TTL)-1]}

func (k *kind) addPodTemplates(prefix fieldpath.FieldPath, profile *policy.Profile) {
	for _, path := range profile.PodTemplates {
		path = below(prefix, path)
		k.add(&k.inherited, below(path, fieldpath.FieldPath{"metadata"}))
		if !k.typed {
			k.add(&k.fields, below(path, rawTTL))
		}
	}
}

// below joins two paths; a path that is nil stays nil.
func below(prefix, path fieldpath.FieldPath) fieldpath.FieldPath {
	if path == nil {
		return nil
	}
	return prefix.Child(path...)
}

// add appends paths that the installed version of the kind can have and that are not in the list
// yet.
func (k *kind) add(to *[]fieldpath.FieldPath, paths ...fieldpath.FieldPath) {
	for _, path := range paths {
		known := slices.ContainsFunc(*to, func(other fieldpath.FieldPath) bool { return slices.Equal(other, path) })
		if path != nil && !known && k.schema.Has(path) {
			*to = append(*to, path)
		}
	}
}

// object is the whole object in conditions.
func (k *kind) object() node {
	return node{now: "object", old: "old", typed: k.typed, schema: k.schema}
}

// rule is the kind in a webhook's rules.
func (k *kind) rule(operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	scope := admissionv1.NamespacedScope
	if k.ClusterScoped {
		scope = admissionv1.ClusterScope
	}
	return admissionv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionv1.Rule{
			APIGroups: []string{k.Kind.Group}, APIVersions: []string{k.Kind.Version}, Resources: []string{k.Resource}, Scope: &scope,
		},
	}
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
