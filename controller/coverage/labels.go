package coverage

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// sentLabels are those for which objects of any kind are sent. A selector cannot ask for one of several keys, so that each has a
// webhook. The annotations are there for those who took them for labels. They come first: what has one of them is sent for that, and
// what is sent for its TTL label has none, which a selector tells and no expression has to.
var sentLabels = []struct{ name, key string }{
	{"validate-labels-protect", policy.AnnotationProtect},
	{"validate-labels-deadline", policy.AnnotationActiveDeadline},
	{"validate-labels-failed", policy.AnnotationTTLFailed},
	{"validate-labels-succeeded", policy.AnnotationTTLSucceeded},
	{"validate-labels-finished", policy.AnnotationTTL},
	{"validate-labels", policy.LabelTTL},
}

// labels adds the webhooks for labelled objects of every kind that no other webhook has sent for its labels. The API server asks for
// labels before anything else: what has none costs it a few look-ups in a map and no expression. What is labelled and plainly in
// order is not sent either, so that a thousand objects are created about as fast with a label as without.
//
// An object that loses its label is not sent: removing one cancels, and nothing speaks against that.
func (p *plan) labels(in *Input, sent []*sent) {
	others := []admissionv1.MatchCondition{unsent(sent)}
	aliasChanged := fmt.Sprintf("object.?metadata.?labels[?%[1]q] != oldObject.?metadata.?labels[?%[1]q]", policy.LabelKyvernoTTL)
	var earlier []string
	for _, label := range sentLabels {
		of := carried{key: label.key, without: slices.Clone(earlier), changed: ownKey, others: others}
		switch {
		case label.key == policy.LabelTTL:
			of.plain = in.plainly(label.key)
		case in.Alias: // which is sent for this one
			of.changed = aliasChanged + " ||\n" + ownKey
		}
		p.validating = append(p.validating, in.labelled(label.name, &of)...)
		earlier = append(earlier, label.key)
	}
	if !in.Alias {
		return
	}
	// Kinds with a profile are not sent for a key of Kyverno's. Where their namespace is in use they are sent twice when they are created.
	p.validating = append(p.validating, in.labelled("validate-labels-kyverno", &carried{
		key: policy.LabelKyvernoTTL, without: earlier, plain: in.plainly(policy.LabelKyvernoTTL), changed: aliasChanged + " ||\n" + ownKey,
	})...)
}

// carried is a label for which objects are sent.
type carried struct {
	// key of the label, on objects that have none of the others.
	key     string
	without []string
	// changed asks whether an update says something new. What is created does.
	changed string
	// plain asks whether a new object is in order as far as can be told without Curfew; empty where that is not asked.
	plain  string
	others []admissionv1.MatchCondition
}

// labelled are the webhooks for one label. Where the namespace uses Curfew only that knows whether a value lies within the bounds.
func (in *Input) labelled(name string, of *carried) []entry {
	// On UPDATE the API server selects by the old labels as well. The new ones decide.
	terms := []string{hasLabel(of.key)}
	requirements := label(of.key, true)
	for _, key := range of.without {
		terms = append(terms, "!"+hasLabel(key))
		requirements = append(requirements, label(key, false)...)
	}
	updated := strings.Join(terms, " &&\n") + " && (\n" + indent(of.changed) + "\n)"
	entryFor := func(name string, scope admissionv1.ScopeType, namespaces []metav1.LabelSelectorRequirement, plain string) entry {
		out := in.entry(name, everything(scope)[0], namespaces)
		out.rules = everything(scope)
		out.objects = metav1.LabelSelector{MatchExpressions: requirements}
		created := "true"
		if plain != "" {
			// Most of what is labelled is plainly in order: that is asked first, and then nothing else.
			created = "!(\n" + indent(plain) + "\n)"
		}
		isNew := admissionv1.MatchCondition{Name: "label-is-new", Expression: isCreated + "\n? " + created + "\n: (\n" + indent(updated) + "\n)"}
		out.conditions = []admissionv1.MatchCondition{allOf("label-concerns-curfew", append([]admissionv1.MatchCondition{isNew, undeleted, reviewed}, of.others...))}
		return out
	}
	if of.plain == "" {
		return []entry{entryFor(name, admissionv1.AllScopes, nil, "")}
	}
	// What has no namespace is exempted by no namespaceSelector.
	return []entry{
		entryFor(name+"-in-use", admissionv1.NamespacedScope, label(policy.LabelInUse, true), ""),
		entryFor(name, admissionv1.AllScopes, label(policy.LabelInUse, false), of.plain),
	}
}

const isCreated = `request.operation == "CREATE"`

// allOf makes one condition of several. The API server evaluates each condition of a webhook, whatever the others came to; within one
// expression it stops at the first that is false. An error counts as before: beside a condition that is false it does not matter.
func allOf(name string, conditions []admissionv1.MatchCondition) admissionv1.MatchCondition {
	terms := make([]string, 0, len(conditions))
	for _, condition := range conditions {
		terms = append(terms, "// "+condition.Name+"\n(\n"+indent(condition.Expression)+"\n)")
	}
	return admissionv1.MatchCondition{Name: name, Expression: strings.Join(terms, " &&\n")}
}

// PlainLabel is what the API server takes for a label that is in order: one or two numbers with their units. It cannot tell whether a
// date is over, and a sum of more may be too long.
const PlainLabel = `^[1-9][0-9]{0,3}[mhd]([1-9][0-9]{0,3}[mhd])?$`

// plainly asks whether Curfew would say nothing of a new object where its namespace has no bounds: a readable time from creation, no
// annotation of Curfew's, no policy that bounds it, and both its author and the controller may delete it. That it has the label, and
// none that is meant to be an annotation, the selector has seen to.
func (in *Input) plainly(key string) string {
	bounded := in.bounding()
	// There is nobody to be asked about, or it would be asked for too much.
	if in.Controller == "" || in.DryRun || in.coarse || len(bounded) > maxCondition {
		return ""
	}
	terms := []string{
		fmt.Sprintf("object.metadata.labels[%q].matches(%s)", key, quote(PlainLabel)),
		"!(has(object.metadata.annotations) && " + quoted(policy.ObjectKeys) + ".exists(k, k in object.metadata.annotations))",
	}
	if bounded != "" {
		terms = append(terms, "!("+bounded+")")
	}
	if len(in.Protect) > 0 {
		terms = append(terms, "!(request.?namespace.orValue(\"\") in "+quoted(in.Protect)+")")
	}
	return strings.Join(append(terms, `authorizer.requestResource.check("delete").allowed()`, in.mayDelete()), " &&\n")
}

// deletableMost bounds how many characters of resources stand in an expression. Whoever has more has the API server asked about the rest.
const deletableMost = 20000

// mayDelete asks whether the controller may delete the object: by what it knows itself where it may everywhere, and by the API server's
// authorizer elsewhere, which takes that as long as all the rest.
func (in *Input) mayDelete() string {
	asked := fmt.Sprintf("authorizer.serviceAccount(%s, %s).group(request.resource.group).resource(request.resource.resource)", quote(in.Namespace), quote(in.Controller)) +
		`.namespace(request.?namespace.orValue("")).check("delete").allowed()`
	var known []string
	length := 0
	for _, at := range in.Deletable {
		name := quote(at.Resource + "." + at.Group)
		if length += len(name) + len(", "); length > deletableMost {
			break
		}
		known = append(known, name)
	}
	if len(known) == 0 {
		return asked
	}
	return "(request.resource.resource + \".\" + request.resource.group in [" + strings.Join(known, ", ") + "] ||\n" + indent(asked) + ")"
}

// bounding asks whether a policy may bound the label of an object; empty where none does.
func (in *Input) bounding() string {
	var out []string
	for _, object := range in.sorted() {
		of := newSpeaker(object)
		if !boundsLabels(object.Spec.Bounds) {
			continue
		}
		kinds := "true"
		if len(object.Spec.Match.Kinds) > 0 {
			var terms []string
			for _, kind := range object.Spec.Match.Kinds {
				terms = append(terms, is("group", kind.Group)+" && "+is("kind", kind.Kind))
			}
			kinds = "(" + strings.Join(terms, " || ") + ")"
		}
		if of != nil { // One whose selector cannot be used keeps all of its kinds.
			kinds += " && " + selects(of.labels)
		}
		out = append(out, kinds)
	}
	return strings.Join(out, " ||\n")
}

func boundsLabels(bounds *v1alpha1.Bounds) bool {
	return bounds != nil && (bounds.MinTTL != nil || bounds.MaxTTL != nil || bounds.LatestDate != nil)
}

func is(part, pattern string) string {
	if pattern == "*" {
		return "true"
	}
	return "request.kind." + part + " == " + quote(pattern)
}

func hasLabel(key string) string { return fmt.Sprintf("object.?metadata.?labels[?%q].hasValue()", key) }

// everything is every object that is created or updated, and every write of a subresource: of many kinds a write of the status keeps
// what it says of labels.
func everything(scope admissionv1.ScopeType) []admissionv1.RuleWithOperations {
	of := func(resource string, operation admissionv1.OperationType) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{operation},
			Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{resource}, Scope: &scope},
		}
	}
	return []admissionv1.RuleWithOperations{of("*", admissionv1.Create), of("*/*", admissionv1.Update)}
}

// reviewed leaves out what the cluster lives by or what is never stored: a label on it is carried out, and not reviewed. Webhook
// configurations are never sent to any webhook; they are named for those who read this. A Scale is not stored with its labels.
var reviewed = admissionv1.MatchCondition{Name: "is-reviewed", Expression: `!(request.kind.group in ["admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "events.k8s.io"]) &&
!(request.kind.group == "" && request.kind.kind == "Event") &&
!(request.kind.group == "autoscaling" && request.kind.kind == "Scale")`}

// unsent leaves out the kinds of which other webhooks have everything sent that carries a key of Curfew's.
func unsent(sent []*sent) admissionv1.MatchCondition {
	names := []string{quote("/Namespace"), quote("/Binding")}
	for _, s := range sent {
		names = append(names, quote(s.Kind.Group+"/"+s.Kind.Kind))
	}
	slices.Sort(names)
	return admissionv1.MatchCondition{Name: "nothing-else-sends-it",
		Expression: "!(request.kind.group + \"/\" + request.kind.kind in [" + strings.Join(slices.Compact(names), ", ") + "])"}
}

// undeleted leaves out what is being deleted. What has a label has metadata.
var undeleted = admissionv1.MatchCondition{Name: "not-being-deleted", Expression: isCreated + " || !has(object.metadata.deletionTimestamp)"}
