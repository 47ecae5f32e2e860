package webhookconfig

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	// Labelled are the served kinds that can have a TTL label, always in the same order, for the
	// labels that policies give to kinds without a profile.
	Labelled []discovery.Kind
	// Policies of the cluster.
	Policies []*v1alpha1.LifecyclePolicy
	// Namespace of Curfew itself, from which nothing is sent.
	Namespace string
	// Controller is the controller's ServiceAccount there. If it is empty, every labelled object is
	// sent.
	Controller string
	// Deletable are resources whose objects it may delete in all namespaces, always in the same order.
	// The API server is not asked about these.
	Deletable []schema.GroupResource
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

// entry is one webhook, without what all webhooks share.
type entry struct {
	name                string
	rules               []admissionv1.RuleWithOperations
	namespaces, objects metav1.LabelSelector
	conditions          []admissionv1.MatchCondition
}

// plan is what the API server sends besides what the static configurations say.
type plan struct {
	mutating, validating []entry
}

func newPlan(in *Input) *plan {
	out := planOf(in)
	if !in.coarse && (sizeOf(out.mutating) > maxPlan || sizeOf(out.validating) > maxPlan) {
		coarse := *in
		coarse.coarse = true
		return planOf(&coarse)
	}
	return out
}

// sizeOf estimates how large entries are when they are stored.
func sizeOf(entries []entry) int {
	const rest = 3000 // A CA bundle of two certificates, and the fields that all webhooks share.
	total := 0
	for i := range entries {
		total += rest
		for _, condition := range entries[i].conditions {
			total += len(condition.Expression)
		}
		for _, rule := range entries[i].rules {
			total += rule.Size()
		}
		total += entries[i].namespaces.Size() + entries[i].objects.Size()
	}
	return total
}

func planOf(in *Input) *plan {
	out := &plan{}
	kinds := builtin()
	for i := range in.Kinds {
		k := newKind(&in.Kinds[i], in.coarse)
		if k.Kind.Group == wellknown.Group {
			continue // No policy limits Curfew's own objects.
		}
		out.kind(in, k)
		kinds = append(kinds, k)
	}
	policies := selections(in.Policies)
	for _, k := range kinds {
		out.policies(in, k, policies)
		out.removedLabels(in, k, policies)
	}
	out.defaultLabels(in, kinds, policies)
	out.labels(in, kinds)
	for i := range out.validating {
		if in.FailClosed {
			out.validating[i] = in.unprotected(out.validating[i])
		}
	}
	out.mutating, out.validating = merged(out.mutating), merged(out.validating)
	number(out.mutating, ".kinds")
	number(out.validating, "")
	return out
}

// kind adds the webhooks of a kind.
func (p *plan) kind(in *Input, k *kind) {
	create, both := k.rule(admissionv1.Create), k.rule(admissionv1.Create, admissionv1.Update)
	if k.ClusterScoped {
		p.validating = append(p.validating, in.entry("validate."+k.name(), both, nil, concerns(k.validated)))
	} else {
		p.validating = append(p.validating,
			in.entry("validate."+k.name(), both, label(wellknown.LabelInUse, true), concerns(isCreated+" ||\n"+k.validated)),
			in.entry("validate-marked."+k.name(), both, label(wellknown.LabelInUse, false), concerns(k.validated)))
	}
	if k.isRuntime { // It has a stamp that says since when it has its TTL.
		p.mutating = append(p.mutating, in.entry("runtimes", both, nil, concerns(k.ttlChanges())))
	}
	if !k.Finishable() {
		return // It never gets a default.
	}
	p.mutating = append(p.mutating, in.entry("changed-defaults", k.rule(admissionv1.Update), nil,
		admissionv1.MatchCondition{Name: "may-change-a-default", Expression: k.mayChangeDefault()},
		admissionv1.MatchCondition{Name: "its-value-changes", Expression: k.valueChanges()}))
	if k.ClusterScoped {
		p.mutating = append(p.mutating, in.entry("defaults-cluster", create, nil, k.mayBeDefaulted()))
		return
	}
	p.mutating = append(p.mutating,
		in.unprotected(in.entry("defaults", create, label(wellknown.LabelInUse, true))),
		in.entry("defaults-marked", create, label(wellknown.LabelInUse, false), k.mayBeDefaulted()))
}

// entry makes a webhook that never sends objects in Curfew's own namespace, nor objects being
// deleted.
func (in *Input) entry(
	name string, rule admissionv1.RuleWithOperations, namespaces []metav1.LabelSelectorRequirement, conditions ...admissionv1.MatchCondition,
) entry {
	return entry{
		name:  name,
		rules: []admissionv1.RuleWithOperations{rule},
		namespaces: metav1.LabelSelector{MatchExpressions: append([]metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{in.Namespace}},
		}, namespaces...)},
		conditions: append([]admissionv1.MatchCondition{
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
func merged(entries []entry) []entry {
	var out []entry
	for _, one := range entries {
		at := slices.IndexFunc(out, func(other entry) bool {
			return one.name == other.name && equality.Semantic.DeepEqual(one.namespaces, other.namespaces) &&
				equality.Semantic.DeepEqual(one.objects, other.objects) && slices.Equal(one.conditions, other.conditions)
		})
		if at < 0 {
			out = append(out, one)
			continue
		}
		out[at].rules = append(out[at].rules, one.rules...)
	}
	return out
}

// number makes names unique and fully qualified.
func number(entries []entry, kinds string) {
	seen := map[string]int{}
	for i := range entries {
		name := entries[i].name
		seen[name]++
		if seen[name] > 1 {
			what, kind, found := strings.Cut(name, ".")
			name = fmt.Sprintf("%s-%d", what, seen[name])
			if found {
				name += "." + kind
			}
		}
		entries[i].name = name + kinds + "." + wellknown.Group
	}
}

// sorted are policies in an order that is always the same.
func sorted(policies []*v1alpha1.LifecyclePolicy) []*v1alpha1.LifecyclePolicy {
	return slices.SortedFunc(slices.Values(policies), func(a, b *v1alpha1.LifecyclePolicy) int { return cmp.Compare(a.Name, b.Name) })
}
