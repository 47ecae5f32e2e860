package webhookconfig

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// Input decides which requests the API server sends.
type Input struct {
	// Kinds with a profile that are served, besides the built-in ones.
	Kinds []platform.Served
	// Places are the served kinds that can have a TTL label, and where the controller may delete them,
	// always in the same order. Policies give labels to kinds without a profile. The API server is not
	// asked whether the controller may delete what it may delete everywhere.
	Places []discovery.Place
	// Policies of the cluster.
	Policies []*v1alpha1.LifecyclePolicy
	// Namespace of Curfew itself, from which nothing is sent.
	Namespace string
	// Controller is the controller's ServiceAccount there. If it is empty, every labelled object is
	// sent.
	Controller string
	// Alias sends objects with label cleanup.kyverno.io/ttl, too.
	Alias bool
	// Protect and DryRun say where the controller deletes nothing. Labels are sent there, because they
	// have no effect. Where something is protected, new objects are not sent for defaults.
	Protect []string
	DryRun  bool
	// FailClosed refuses what cannot be validated. Nothing is sent from protected namespaces then.
	FailClosed bool
	// Off are triggers that are switched off. A new object is not sent for their defaults alone.
	Off []policy.Trigger

	// coarse plans have shorter conditions and send more.
	coarse bool
}

// maxPlan bounds the size of a plan's webhooks in bytes. The API server stores objects of up to
// about 1.5 MB.
const maxPlan = 700_000

// plan is what the API server sends besides what the static configurations say: webhooks, without
// what they copy from the static ones.
type plan struct {
	mutating, validating []admissionv1.MutatingWebhook
}

func newPlan(input *Input) *plan {
	out := planOf(input)
	if !input.coarse && (sizeOf(out.mutating) > maxPlan || sizeOf(out.validating) > maxPlan) {
		coarse := *input
		coarse.coarse = true
		return planOf(&coarse)
	}
	return out
}

// sizeOf estimates how large webhooks are when they are stored.
func sizeOf(entries []admissionv1.MutatingWebhook) int {
	const bundle = 3000 // A CA bundle of two certificates.
	total := 0
	for i := range entries {
		total += bundle + entries[i].Size()
	}
	return total
}

func planOf(input *Input) *plan {
	out := &plan{}
	kinds := builtin()
	for i := range input.Kinds {
		k := newKind(&input.Kinds[i], input.coarse)
		if k.Kind.Group == wellknown.Group {
			continue // No policy limits Curfew's own objects.
		}
		out.kind(input, k)
		kinds = append(kinds, k)
	}
	policies := selections(input.Policies)
	for _, k := range kinds {
		out.policies(input, k, policies)
		out.removedLabels(input, k, policies)
	}
	out.defaultLabels(input, kinds, policies)
	out.labels(input, kinds)
	for i := range out.validating {
		if input.FailClosed {
			out.validating[i] = input.unprotected(out.validating[i])
		}
	}
	out.mutating, out.validating = merged(out.mutating), merged(out.validating)
	number(out.mutating, ".kinds")
	number(out.validating, "")
	return out
}

// kind adds the webhooks of a kind.
func (p *plan) kind(input *Input, k *kind) {
	create, both := k.rule(admissionv1.Create), k.rule(admissionv1.Create, admissionv1.Update)
	if k.ClusterScoped {
		p.validating = append(p.validating, input.entry("validate."+k.name(), both, nil, concerns(k.validated)))
	} else {
		p.validating = append(p.validating,
			input.entry("validate."+k.name(), both, label(wellknown.LabelInUse, true), concerns(isCreated+" ||\n"+k.validated)),
			input.entry("validate-marked."+k.name(), both, label(wellknown.LabelInUse, false), concerns(k.validated)))
	}
	if k.isRuntime { // It has a stamp that says since when it has its TTL.
		p.mutating = append(p.mutating, input.entry("runtimes", both, nil, concerns(withOld(anyOf(k.differ(true, nil, k.ttls...))))))
	}
	if !k.Finishable() {
		return // It never gets a default.
	}
	values := k.differ(true, nil, k.TTL, k.TTLSucceeded, k.TTLFailed, k.Deadline)
	p.mutating = append(p.mutating, input.entry("changed-defaults", k.rule(admissionv1.Update), nil,
		admissionv1.MatchCondition{Name: "may-change-a-default", Expression: k.mayChangeDefault()},
		admissionv1.MatchCondition{Name: "its-value-changes", Expression: withOld(anyOf(values))}))
	if k.ClusterScoped {
		p.mutating = append(p.mutating, input.entry("defaults-cluster", create, nil, k.mayBeDefaulted()))
		return
	}
	p.mutating = append(p.mutating,
		input.unprotected(input.entry("defaults", create, label(wellknown.LabelInUse, true))),
		input.entry("defaults-marked", create, label(wellknown.LabelInUse, false), k.mayBeDefaulted()))
}

// entry makes a webhook that never sends objects in Curfew's own namespace, nor objects being
// deleted.
func (input *Input) entry(
	name string, rule admissionv1.RuleWithOperations, namespaces []metav1.LabelSelectorRequirement, conditions ...admissionv1.MatchCondition,
) admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name:        name,
		Rules:       []admissionv1.RuleWithOperations{rule},
		MatchPolicy: new(admissionv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: append([]metav1.LabelSelectorRequirement{
			{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{input.Namespace}},
		}, namespaces...)},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions: append([]admissionv1.MatchCondition{
			// The API server drops the deletionTimestamp of a new object after it called the mutating
			// webhooks.
			{Name: "not-being-deleted", Expression: isCreated + " || !object.?metadata.?deletionTimestamp.hasValue()"},
		}, conditions...),
	}
}

// label requires that a label exists, or that it does not. No key is no requirement.
func label(key string, exists bool) []metav1.LabelSelectorRequirement {
	if key == "" {
		return nil
	}
	operator := metav1.LabelSelectorOpDoesNotExist
	if exists {
		operator = metav1.LabelSelectorOpExists
	}
	return []metav1.LabelSelectorRequirement{{Key: key, Operator: operator}}
}

// merged joins webhooks of one name that only differ in their rules: the API server looks at each
// webhook for every request.
func merged(entries []admissionv1.MutatingWebhook) []admissionv1.MutatingWebhook {
	var out []admissionv1.MutatingWebhook
	for _, webhook := range entries {
		same := slices.IndexFunc(out, func(other admissionv1.MutatingWebhook) bool {
			other.Rules = webhook.Rules
			return equality.Semantic.DeepEqual(webhook, other)
		})
		if same < 0 {
			out = append(out, webhook)
		} else {
			out[same].Rules = append(out[same].Rules, webhook.Rules...)
		}
	}
	return out
}

// number makes names unique and fully qualified.
func number(entries []admissionv1.MutatingWebhook, kinds string) {
	seen := map[string]int{}
	for i := range entries {
		name := entries[i].Name
		if seen[name]++; seen[name] > 1 {
			what, _, _ := strings.Cut(name, ".")
			name = fmt.Sprintf("%s-%d%s", what, seen[name], name[len(what):])
		}
		entries[i].Name = name + kinds + "." + wellknown.Group
	}
}
