package webhookconfig

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// annotationLabels are annotations that users may mistake for labels. Objects of any kind that
// carry one are sent. A selector cannot ask for one of several keys, so each key has a webhook.
var annotationLabels = []struct{ name, key string }{
	{"validate-labels-protect", wellknown.AnnotationProtect},
	{"validate-labels-deadline", wellknown.AnnotationActiveDeadline},
	{"validate-labels-failed", wellknown.AnnotationTTLFailed},
	{"validate-labels-succeeded", wellknown.AnnotationTTLSucceeded},
	{"validate-labels-finished", wellknown.AnnotationTTL},
}

// labels adds the webhooks for labelled objects of every kind. The API server looks at labels
// first: an object without one costs it a few map look-ups and no expression. A new object whose
// label is plainly in order is not sent, so that a thousand objects are created about as fast with
// a label as without. Removing a label cancels, and is not sent.
func (p *plan) labels(input *Input, kinds []*kind) {
	elsewhere := elsewhere(kinds)
	changed := ownKeyChanged
	if input.Alias {
		changed = fmt.Sprintf("object.?metadata.?labels[?%[1]q] != oldObject.?metadata.?labels[?%[1]q] ||\n", wellknown.LabelKyvernoTTL) +
			ownKeyChanged
	}
	for _, label := range annotationLabels {
		p.validating = append(p.validating, input.labelled(label.name, label.key, admissionv1.AllScopes, nil, "true", changed, elsewhere))
	}
	p.ttlLabel(input, "validate-labels", wellknown.LabelTTL, changed, elsewhere)
	if input.Alias {
		p.ttlLabel(input, "validate-labels-kyverno", wellknown.LabelKyvernoTTL, changed)
	}
}

// ttlLabel adds the webhooks for a TTL label. Only Curfew can compare it with the bounds of a
// namespace, so that every labelled object is sent if its namespace uses Curfew.
func (p *plan) ttlLabel(input *Input, name, key, changed string, others ...admissionv1.MatchCondition) {
	if input.Controller == "" || input.DryRun || input.coarse {
		p.validating = append(p.validating, input.labelled(name, key, admissionv1.AllScopes, nil, "true", changed, others...))
		return
	}
	p.validating = append(p.validating,
		input.labelled(name+"-in-use", key, admissionv1.NamespacedScope, label(wellknown.LabelInUse, true), "true", changed, others...),
		input.labelled(name, key, admissionv1.AllScopes, label(wellknown.LabelInUse, false), "!(\n"+indent(input.plain(key))+"\n)", changed, others...))
}

// labelled is a webhook for objects with a label: it sends new objects that meet created, and
// others that meet changed.
func (input *Input) labelled(
	name, key string, scope admissionv1.ScopeType, namespaces []metav1.LabelSelectorRequirement, created, changed string,
	others ...admissionv1.MatchCondition,
) admissionv1.MutatingWebhook {
	// On UPDATE the API server also selects by the old labels. The new ones decide.
	updated := fmt.Sprintf("object.?metadata.?labels[?%q].hasValue()", key) + " && (\n" + indent(changed) + "\n)"
	isNew := admissionv1.MatchCondition{Name: "label-is-new", Expression: isCreated + "\n? " + created + "\n: (\n" + indent(updated) + "\n)"}
	out := input.entry(name, admissionv1.RuleWithOperations{}, namespaces)
	out.Rules = everything(scope)
	out.ObjectSelector.MatchExpressions = label(key, true)
	conditions := append([]admissionv1.MatchCondition{isNew, undeleted, reviewed}, others...)
	out.MatchConditions = []admissionv1.MatchCondition{allOf("label-concerns-curfew", conditions...)}
	return out
}

// PlainLabel matches labels that the API server takes to be in order: one or two numbers with
// units. It cannot tell whether a date is past, and a longer sum may be too large.
const PlainLabel = `^[1-9][0-9]{0,3}[mhd]([1-9][0-9]{0,3}[mhd])?$`

// plain asks whether a new object with a TTL label is in order if its namespace does not bound it:
// a readable duration, no kind of Curfew's, no Curfew annotation, no policy that bounds its kind,
// no protected namespace, nothing of rule resources-stay, and both its author and the controller
// may delete it.
func (input *Input) plain(key string) string {
	terms := []string{
		"request.kind.group != " + quote(wellknown.Group),
		fmt.Sprintf("object.metadata.labels[%q].matches(%s)", key, quote(PlainLabel)),
		"!(has(object.metadata.annotations) && " + quoted(wellknown.ObjectKeys) + ".exists(k, k in object.metadata.annotations))",
		`!(request.kind.group + "/" + request.kind.kind in ["argoproj.io/Application", "velero.io/Backup"])`,
		`object.metadata.?labels["owner"].orValue("") != "helm"`,
	}
	if bounded := input.bounded(); bounded != "" {
		terms = append(terms, "!("+bounded+")")
	}
	if protected := judging.ProtectedRequest(input.Protect); protected != "" {
		terms = append(terms, "!("+protected+")")
	}
	return strings.Join(append(terms, `authorizer.requestResource.check("delete").allowed()`, input.mayDelete()), " &&\n")
}

// maxDeletable bounds how many characters of resources an expression lists. The API server is asked
// about the others.
const maxDeletable = 20000

// mayDelete asks whether the controller may delete the object: from a list where it may everywhere,
// and elsewhere the API server's authorizer, which takes as long as the rest of the expression.
func (input *Input) mayDelete() string {
	asked := "authorizer.serviceAccount(" + quote(input.Namespace) + ", " + quote(input.Controller) + ")" +
		`.group(request.resource.group).resource(request.resource.resource)` +
		`.namespace(request.?namespace.orValue("")).check("delete").allowed()`
	var known []string
	length := 0
	for _, place := range input.Places {
		if slices.Contains(place.Namespaces, metav1.NamespaceAll) && length < maxDeletable {
			known = append(known, place.Resource+"."+place.Group)
			length += len(known[len(known)-1]) + len(`"", `)
		}
	}
	if len(known) == 0 {
		return asked
	}
	return "(request.resource.resource + \".\" + request.resource.group in " + quoted(known) + " ||\n" + indent(asked) + ")"
}

// bounded asks whether a policy may bound the label of an object of this kind; "" if none does.
// Selectors are left to Curfew.
func (input *Input) bounded() string {
	var kinds []string
	for _, p := range input.Policies {
		bounds := p.Spec.Bounds
		if bounds == nil || bounds.MinTTLLabel == nil && bounds.MaxTTLLabel == nil && bounds.LatestDate == nil {
			continue
		}
		if len(p.Spec.Match.Kinds) == 0 {
			return "true"
		}
		for _, kind := range p.Spec.Match.Kinds {
			kinds = append(kinds, is("group", kind.Group)+" && "+is("kind", kind.Kind))
		}
	}
	slices.Sort(kinds)
	return limited(strings.Join(slices.Compact(kinds), " || "))
}

func is(part, pattern string) string {
	if pattern == "*" {
		return "true"
	}
	return "request.kind." + part + " == " + quote(pattern)
}

// everything matches creations and updates of every object, and writes of subresources: for many
// kinds, a write of the status can change labels.
func everything(scope admissionv1.ScopeType) []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{
		ruleOf("*", "*", "*", scope, admissionv1.Create), ruleOf("*", "*", "*/*", scope, admissionv1.Update),
	}
}

// reviewed leaves out kinds that the cluster depends on and kinds that are never stored: a label on
// them takes effect without a review. Webhook configurations are never sent to any webhook. The
// labels of a Scale are not stored. Kubernetes copies the labels of a Service to its EndpointSlices
// and Endpoints: a denial there would leave the Service with stale endpoints.
var reviewed = admissionv1.MatchCondition{Name: "is-reviewed", Expression: `!(request.kind.group in ` + quoted([]string{
	"admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "discovery.k8s.io",
	"events.k8s.io",
}) + `) &&
!(request.kind.group == "" && request.kind.kind in ["Endpoints", "Event"]) &&
!(request.kind.group == "autoscaling" && request.kind.kind == "Scale")`}

// elsewhere leaves out a kind if another webhook sends all its objects with a Curfew key. A denial
// names its webhook, which should not be one or the other by chance.
func elsewhere(kinds []*kind) admissionv1.MatchCondition {
	names := []string{"/Namespace", "/Binding"}
	for _, k := range kinds {
		names = append(names, k.Kind.Group+"/"+k.Kind.Kind)
	}
	slices.Sort(names)
	return admissionv1.MatchCondition{Name: "nothing-else-sends-it",
		Expression: "!(request.kind.group + \"/\" + request.kind.kind in " + quoted(slices.Compact(names)) + ")"}
}

// undeleted leaves out objects being deleted. A labelled object has metadata.
var undeleted = admissionv1.MatchCondition{Name: "not-being-deleted", Expression: isCreated + " || !has(object.metadata.deletionTimestamp)"}

// defaultLabels adds the webhooks that send new objects of kinds without a profile, because a
// policy that names their kind gives them a TTL label. An object that gets one also gets a Curfew
// annotation, so that the webhooks for labelled objects have it validated and announced. An object
// that gets none is validated here: a policy without effect is worth a warning.
func (p *plan) defaultLabels(input *Input, known []*kind, all []selection) {
	for _, served := range input.Places {
		if slices.ContainsFunc(known, func(k *kind) bool { return k.Kind.GroupKind() == served.GroupKind() }) {
			continue // They are sent as kinds with a profile.
		}
		k := &kind{Profile: &policy.Profile{Kind: served.GroupVersionKind, Resource: served.Resource, ClusterScoped: served.ClusterScoped}}
		gives := func(spec *v1alpha1.LifecyclePolicySpec) bool { return k.matches(spec) && k.getsDefault(input, spec) }
		for _, s := range narrowed(input, all, gives) {
			out := input.unprotected(input.entry("default-labels", k.rule(admissionv1.Create), s.namespaces, mayMatch(k.mayGetDefault())))
			out.ObjectSelector.MatchExpressions = slices.Concat(label(wellknown.LabelTTL, false), s.labels)
			p.mutating = append(p.mutating, out)
			out.Name = "validate-default-labels"
			p.validating = append(p.validating, out)
		}
		p.removedLabels(input, k, all)
		p.protection(input, k, all)
	}
}

// removedLabels adds the webhooks that send updates which remove a TTL label, of a kind to which a
// policy gives one: without a stamp, the controller would take the object for one that never had a
// label. Which objects the policy selects does not matter here, since that may change later.
func (p *plan) removedLabels(input *Input, k *kind, all []selection) {
	gives := func(spec *v1alpha1.LifecyclePolicySpec) bool { return k.matches(spec) && k.getsLabel(input, spec) }
	if k.unchanging || !slices.ContainsFunc(all, func(s selection) bool { return s.any(gives) }) {
		return
	}
	removed := func(name, key string) {
		condition := admissionv1.MatchCondition{Name: "its-label-is-removed", Expression: fmt.Sprintf(
			"oldObject.?metadata.?labels[?%[1]q].hasValue() &&\n!object.?metadata.?labels[?%[1]q].hasValue() &&\n"+
				"!object.?metadata.?annotations[?%[2]q].hasValue()", key, wellknown.AnnotationLabelSource)}
		out := input.entry(name, k.withStatus(admissionv1.Update), nil, condition)
		out.ObjectSelector.MatchExpressions = label(key, true) // The API server selects by the old labels too.
		p.mutating = append(p.mutating, input.unprotected(out))
	}
	removed("removed-labels", wellknown.LabelTTL)
	if input.Alias {
		removed("removed-labels-kyverno", wellknown.LabelKyvernoTTL)
	}
}
