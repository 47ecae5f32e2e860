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
// webhook. The annotations are there for those who took them for labels.
var sentLabels = []struct{ name, key string }{
	{"validate-labels", policy.LabelTTL},
	{"validate-labels-finished", policy.AnnotationTTL},
	{"validate-labels-succeeded", policy.AnnotationTTLSucceeded},
	{"validate-labels-failed", policy.AnnotationTTLFailed},
	{"validate-labels-deadline", policy.AnnotationActiveDeadline},
}

// labels adds the webhooks for labelled objects of every kind that no other webhook has sent for its labels. The API server asks for
// labels before anything else: what has none costs it a few look-ups in a map and no expression. What is labelled and plainly in
// order is not sent either, so that a thousand objects are created about as fast with a label as without.
//
// An object that loses its label is not sent: removing one cancels, and nothing speaks against that.
func (p *plan) labels(in *Input, sent []*sent) {
	const created = `request.operation == "CREATE"`
	for i, label := range sentLabels {
		var earlier []string
		for _, other := range sentLabels[:i] {
			earlier = append(earlier, other.key)
		}
		of := carried{key: label.key, without: earlier, changed: created + " || " + ownKeyChanged, others: []admissionv1.MatchCondition{unsent(sent)}}
		if label.key == policy.LabelTTL {
			of.plain = in.plainly(label.key)
		}
		p.validating = append(p.validating, in.labelled(label.name, &of)...)
	}
	if !in.Alias {
		return
	}
	// Kinds with a profile are not sent for a key of Kyverno's. Where their namespace is in use they are sent twice when they are created.
	key := policy.LabelKyvernoTTL
	p.validating = append(p.validating, in.labelled("validate-labels-kyverno", &carried{
		key: key, without: []string{policy.LabelTTL}, plain: in.plainly(key),
		changed: fmt.Sprintf("%s ||\nobject.?metadata.?labels[?%[2]q] != oldObject.?metadata.?labels[?%[2]q] ||\n%[3]s", created, key, ownKeyChanged),
	})...)
}

// carried is a label for which objects are sent.
type carried struct {
	// key of the label, on objects that have none of the others.
	key     string
	without []string
	// changed asks whether the request says something new.
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
	conditions := append([]admissionv1.MatchCondition{
		{Name: "label-is-new", Expression: strings.Join(terms, " &&\n") + " && (\n" + indent(of.changed) + "\n)"},
		reviewed,
	}, of.others...)
	entryFor := func(name string, scope admissionv1.ScopeType, namespaces []metav1.LabelSelectorRequirement, conditions []admissionv1.MatchCondition) entry {
		out := in.entry(name, everything(scope), namespaces, conditions...)
		out.objects = metav1.LabelSelector{MatchExpressions: requirements}
		return out
	}
	if of.plain == "" {
		return []entry{entryFor(name, admissionv1.AllScopes, nil, conditions)}
	}
	// What has no namespace is exempted by no namespaceSelector.
	elsewhere := append(slices.Clone(conditions), admissionv1.MatchCondition{Name: "not-plainly-in-order", Expression: "!(\n" + indent(of.plain) + "\n)"})
	return []entry{
		entryFor(name+"-in-use", admissionv1.NamespacedScope, label(policy.LabelInUse, true), conditions),
		entryFor(name, admissionv1.AllScopes, label(policy.LabelInUse, false), elsewhere),
	}
}

// PlainLabel is what the API server takes for a label that is in order: one or two numbers with their units. It cannot tell whether a
// date is over, and a sum of more may be too long.
const PlainLabel = `^[1-9][0-9]{0,3}[mhd]([1-9][0-9]{0,3}[mhd])?$`

// plainly asks whether Curfew would say nothing of a new object where its namespace has no bounds: a readable time from creation, no
// other key of Curfew's, no policy that bounds it, and both its author and the controller may delete it.
func (in *Input) plainly(key string) string {
	if in.Controller == "" {
		return "" // There is nobody to be asked about.
	}
	terms := []string{
		`request.operation == "CREATE"`,
		fmt.Sprintf("object.metadata.labels[%q].matches(%s)", key, quote(PlainLabel)),
		fmt.Sprintf("!object.metadata.labels.exists(k, k.startsWith(%q) && k != %q)", policy.Prefix, key),
		fmt.Sprintf("!object.metadata.?annotations.orValue({}).exists(k, k.startsWith(%q))", policy.Prefix),
	}
	if bounded := in.bounding(); bounded != "" {
		terms = append(terms, "!("+bounded+")")
	}
	const mayDelete = `.group(request.resource.group).resource(request.resource.resource).namespace(request.?namespace.orValue("")).check("delete").allowed()`
	return strings.Join(append(terms, "authorizer"+mayDelete,
		fmt.Sprintf("authorizer.serviceAccount(%s, %s)%s", quote(in.Namespace), quote(in.Controller), mayDelete)), " &&\n")
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

func everything(scope admissionv1.ScopeType) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}, Scope: &scope},
	}
}

// reviewed leaves out what the cluster lives by or what is never stored: a label on it is carried out, and not reviewed. Webhook
// configurations are never sent to any webhook; they are named for those who read this. And it leaves out the ReplicaSets of
// Deployments: their labels are those of a template, and a Deployment that does not get its ReplicaSet does not heal.
var reviewed = admissionv1.MatchCondition{Name: "is-reviewed", Expression: `!(request.kind.group in ["admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "events.k8s.io"]) &&
!(request.kind.group == "" && request.kind.kind == "Event") &&
!(request.kind.group == "apps" && request.kind.kind == "ReplicaSet" &&
  object.?metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false) == true))`}

// unsent leaves out the kinds of which other webhooks have everything sent that carries a key of Curfew's.
func unsent(sent []*sent) admissionv1.MatchCondition {
	names := []string{quote("/Namespace")}
	for _, s := range sent {
		names = append(names, quote(s.Kind.Group+"/"+s.Kind.Kind))
	}
	slices.Sort(names)
	return admissionv1.MatchCondition{Name: "nothing-else-sends-it",
		Expression: "!(request.kind.group + \"/\" + request.kind.kind in [" + strings.Join(slices.Compact(names), ", ") + "])"}
}
