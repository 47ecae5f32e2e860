package coverage

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy"
)

// The labels for which objects of any kind are sent. A selector cannot ask for one of several keys, so that each has a webhook. The
// annotations are there for those who took them for labels.
var sentLabels = []struct{ name, key string }{
	{"validate-labels", policy.LabelTTL},
	{"validate-labels-finished", policy.AnnotationTTL},
	{"validate-labels-succeeded", policy.AnnotationTTLSucceeded},
	{"validate-labels-failed", policy.AnnotationTTLFailed},
	{"validate-labels-deadline", policy.AnnotationActiveDeadline},
}

// labels adds the webhooks for labelled objects of every kind that no other webhook has sent for its labels. The API server asks for
// labels before anything else: what has none costs it five look-ups in a map and no expression.
//
// An object that loses its label is not sent: removing one cancels, and nothing speaks against that.
func (p *plan) labels(in *Input, sent []*sent) {
	other := []admissionv1.MatchCondition{reviewed, unsent(sent), unowned}
	earlier := []string{}
	for _, label := range sentLabels {
		p.validating = append(p.validating, in.labelled(label.name, label.key, earlier, "request.operation == \"CREATE\" || "+ownKeyChanged, other))
		earlier = append(earlier, label.key)
	}
	if !in.Alias {
		return
	}
	// Kinds with a profile are not sent for a key of Kyverno's. Where their namespace is in use they are sent twice when they are created.
	changed := fmt.Sprintf("request.operation == \"CREATE\" ||\nobject.?metadata.?labels[?%[1]q] != oldObject.?metadata.?labels[?%[1]q] ||\n%s",
		policy.LabelKyvernoTTL, ownKeyChanged)
	p.validating = append(p.validating, in.labelled("validate-labels-kyverno", policy.LabelKyvernoTTL, []string{policy.LabelTTL}, changed,
		[]admissionv1.MatchCondition{reviewed, unowned}))
}

// labelled is the webhook for one label, of objects that have none of those before it.
func (in *Input) labelled(name, key string, earlier []string, changed string, conditions []admissionv1.MatchCondition) entry {
	// On UPDATE the API server selects by the old labels as well. The new ones decide.
	carried := []string{hasLabel(key)}
	requirements := label(key, true)
	for _, key := range earlier {
		carried = append(carried, "!"+hasLabel(key))
		requirements = append(requirements, label(key, false)...)
	}
	conditions = append([]admissionv1.MatchCondition{
		{Name: "carries-the-label", Expression: strings.Join(carried, " &&\n")},
		{Name: "label-is-new", Expression: changed},
	}, conditions...)
	out := in.entry(name, everything, nil, conditions...)
	out.objects = metav1.LabelSelector{MatchExpressions: requirements}
	return out
}

func hasLabel(key string) string { return fmt.Sprintf("object.?metadata.?labels[?%q].hasValue()", key) }

var everything = admissionv1.RuleWithOperations{
	Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
	Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}, Scope: new(admissionv1.AllScopes)},
}

// reviewed leaves out what the cluster lives by or what is never stored: a label on it is carried out, and not reviewed. Webhook
// configurations are never sent to any webhook; they are named for those who read this.
var reviewed = admissionv1.MatchCondition{Name: "is-reviewed", Expression: `!(request.kind.group in ["admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "coordination.k8s.io", "events.k8s.io"]) &&
!(request.kind.group == "" && request.kind.kind == "Event")`}

// unowned leaves out the ReplicaSets of Deployments: their labels are those of a template, and a Deployment that does not get its
// ReplicaSet does not heal.
var unowned = admissionv1.MatchCondition{Name: "not-a-deployments-replicaset", Expression: `!(request.kind.group == "apps" && request.kind.kind == "ReplicaSet" &&
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
