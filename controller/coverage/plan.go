package coverage

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/registry"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Input is what decides which requests the API server has to send.
type Input struct {
	// Kinds with a profile that are served, beside those of Kubernetes itself.
	Kinds []registry.Served
	// Policies of the cluster.
	Policies []*v1alpha1.LifecyclePolicy
	// Namespace of Curfew itself, from which nothing is sent.
	Namespace string
	// Controller is the controller's ServiceAccount there; where it is empty, every labelled object is sent.
	Controller string
	// Deletable are resources of which that may delete objects in all namespaces, in an order that is always the same. The API
	// server is not asked about them.
	Deletable []schema.GroupResource
	// Alias has objects sent for label cleanup.kyverno.io/ttl as well.
	Alias bool
	// Protect are namespaces in which the controller deletes nothing, and DryRun is that it deletes nothing anywhere. Labels are sent
	// there, since they have no effect.
	Protect []string
	DryRun  bool

	// coarse conditions ask less, and have more sent: what the API server takes is limited.
	coarse bool
}

// maxPlan is how large the webhooks of a plan may become, in bytes. The API server stores no object of more than about 1.5 MB.
const maxPlan = 700_000

// entry is what is particular to one webhook.
type entry struct {
	name                string
	rules               []admissionv1.RuleWithOperations
	namespaces, objects metav1.LabelSelector
	conditions          []admissionv1.MatchCondition
}

// plan is what has to be sent, beside what the static configurations have sent.
type plan struct {
	mutating, validating []entry
}

func newPlan(in *Input) *plan {
	out := planned(in)
	if !in.coarse && (sizeOf(out.mutating) > maxPlan || sizeOf(out.validating) > maxPlan) {
		coarse := *in
		coarse.coarse = true
		return planned(&coarse)
	}
	return out
}

// sizeOf is about how large entries are when they are stored.
func sizeOf(entries []entry) int {
	const rest = 3000 // A CA bundle of two certificates, and the fields that all entries have.
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

func planned(in *Input) *plan {
	out := &plan{}
	var subjects []*sent
	for i := range in.Kinds {
		s := newSubject(&in.Kinds[i])
		s.coarse = in.coarse
		if s.Kind.Group != policy.Group { // Curfew's own objects are nobody's to limit.
			subjects = append(subjects, out.kind(in, s))
		}
	}
	var speakers []*speaker
	for _, object := range in.sorted() {
		if p := newSpeaker(object); p != nil {
			speakers = append(speakers, p)
		}
	}
	all := append(static(), subjects...)
	for _, s := range all {
		out.policies(in, s, speakers)
	}
	out.labels(in, all)
	out.mutating = merged(out.mutating)
	if in.coarse {
		out.validating = merged(out.validating)
	}
	number(out.mutating, ".kinds")
	number(out.validating, "")
	return out
}

// sorted are the policies in an order that is always the same.
func (in *Input) sorted() []*v1alpha1.LifecyclePolicy {
	return slices.SortedFunc(slices.Values(in.Policies), func(a, b *v1alpha1.LifecyclePolicy) int { return cmp.Compare(a.Name, b.Name) })
}

// sent is a kind, and which new objects of it are sent without any policy: policies have only the others sent.
type sent struct {
	*subject
	// label of the namespaces from which every new object is sent; empty where there is none.
	mutatingLabel, validatingLabel string
	// mutating and validating ask whether a new object is sent from all other namespaces; empty means no.
	mutating, validating string
	// updates asks whether an update is sent from all other namespaces; set where a changed deadline alone is not.
	updates string
	// unchanging kinds are validated and never given anything.
	unchanging bool
}

// kind adds the webhooks of a kind and says what they send.
func (p *plan) kind(in *Input, s *subject) *sent {
	touched := s.touched()
	create, both := s.rule(admissionv1.Create), s.rule(admissionv1.Create, admissionv1.Update)
	out := &sent{subject: s, validating: touched}
	if s.ClusterScoped {
		p.validating = append(p.validating, in.entry("validate."+s.name(), both, nil, concerns(touched)))
	} else {
		out.validatingLabel = policy.LabelInUse
		p.validating = append(p.validating,
			in.entry("validate."+s.name(), both, label(policy.LabelInUse, true),
				concerns("request.operation == \"CREATE\" ||\n"+touched)),
			in.entry("validate-marked."+s.name(), both, label(policy.LabelInUse, false), concerns(touched)))
	}
	if !s.Finishable() {
		return out // Nothing is ever filled in.
	}
	p.mutating = append(p.mutating, in.entry("changed-defaults", s.rule(admissionv1.Update), nil,
		admissionv1.MatchCondition{Name: "a-default-was-filled-in", Expression: wasDefaulted},
		admissionv1.MatchCondition{Name: "its-value-changes", Expression: s.valueChanges()}))
	defaulted := s.mayBeDefaulted()
	out.mutating = defaulted.Expression
	if s.ClusterScoped {
		p.mutating = append(p.mutating, in.entry("defaults-cluster", create, nil, defaulted))
		return out
	}
	out.mutatingLabel = policy.LabelInUse
	p.mutating = append(p.mutating,
		in.entry("defaults", create, label(policy.LabelInUse, true)),
		in.entry("defaults-marked", create, label(policy.LabelInUse, false), defaulted))
	return out
}

// wasDefaulted asks whether the object of an update carries the stamp of a default, which is to go once its value is changed.
const wasDefaulted = `["` + policy.AnnotationTTLSource + `", "` + policy.AnnotationDeadlineSource + `"].exists(k,
  oldObject.?metadata.?annotations[?k].orValue("` + string(policy.LevelObject) + `") != "` + string(policy.LevelObject) + `")`

// valueChanges asks whether an update changes a key of Curfew's on the object, or a field that a default may stand in.
func (s *subject) valueChanges() string {
	all := &places{}
	all.at(policy.FieldPath{"metadata"}).own = true
	for _, path := range []policy.FieldPath{s.TTL, s.TTLSucceeded, s.TTLFailed, s.Deadline} {
		if path != nil {
			all.at(path).value = true
		}
	}
	return versus(either(all.differ(s.object())))
}

// policies adds the webhooks by which the policies see new objects of a kind that nothing else has sent.
func (p *plan) policies(in *Input, s *sent, all []*speaker) {
	var giving, speaking, bounding []*speaker
	for _, candidate := range all {
		if !candidate.concerns(s.subject) {
			continue
		}
		gives := candidate.gives(s.subject)
		if gives && !s.unchanging {
			giving = append(giving, candidate)
		}
		bounds := candidate.bounds(s.subject)
		if gives && !s.unchanging || bounds {
			speaking = append(speaking, candidate)
		}
		if bounds && s.updates != "" {
			bounding = append(bounding, candidate)
		}
	}
	for _, of := range in.cells(giving) {
		p.mutating = append(p.mutating, in.spoken("policies", s.rule(admissionv1.Create),
			&of, s.mutatingLabel, s.mutating, of.spoken(s.subject, false)))
	}
	for _, of := range in.cells(speaking) {
		p.validating = append(p.validating, in.spoken("validate-policies."+s.name(), s.rule(admissionv1.Create), &of, s.validatingLabel, s.validating, of.spoken(s.subject, true)))
	}
	for _, of := range in.cells(bounding) {
		p.validating = append(p.validating, in.spoken("validate-deadlines."+s.name(), s.rule(admissionv1.Update), &of, s.validatingLabel, s.updates,
			s.bounded()+" &&\n("+of.selected()+")"))
	}
}

// spoken is the webhook of one cell.
func (in *Input) spoken(name string, rule admissionv1.RuleWithOperations, of *cell, inUse, otherwise, condition string) entry {
	namespaces := of.namespaces
	if inUse != "" {
		namespaces = append(label(inUse, false), namespaces...)
	}
	var conditions []admissionv1.MatchCondition
	if otherwise != "" {
		conditions = append(conditions, admissionv1.MatchCondition{Name: "nothing-else-sends-it", Expression: "!(\n" + indent(otherwise) + "\n)"})
	}
	conditions = append(conditions, admissionv1.MatchCondition{Name: "a-policy-may-speak", Expression: condition})
	out := in.entry(name, rule, namespaces, conditions...)
	if objects := of.objects(); objects != nil {
		out.objects = *objects
	}
	return out
}

// entry is a webhook that never has Curfew's own namespace sent, nor what is being deleted.
func (in *Input) entry(name string, rule admissionv1.RuleWithOperations, namespaces []metav1.LabelSelectorRequirement, conditions ...admissionv1.MatchCondition) entry {
	return entry{
		name:  name,
		rules: []admissionv1.RuleWithOperations{rule},
		namespaces: metav1.LabelSelector{MatchExpressions: append([]metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{in.Namespace}},
		}, namespaces...)},
		conditions: append([]admissionv1.MatchCondition{
			// Of a new object the API server drops a deletionTimestamp, after it asked the mutating webhooks.
			{Name: "not-being-deleted", Expression: isCreated + " || !object.?metadata.?deletionTimestamp.hasValue()"},
		}, conditions...),
	}
}

// cells are the parts of all namespaces that policies tell apart.
func (in *Input) cells(of []*speaker) []cell {
	if !in.coarse || len(of) == 0 {
		return cells(of)
	}
	var everywhere cell
	for _, p := range of {
		everywhere.speakers = append(everywhere.speakers, &speaker{name: p.name, spec: p.spec})
	}
	return []cell{everywhere}
}

func label(key string, there bool) []metav1.LabelSelectorRequirement {
	operator := metav1.LabelSelectorOpDoesNotExist
	if there {
		operator = metav1.LabelSelectorOpExists
	}
	return []metav1.LabelSelectorRequirement{{Key: key, Operator: operator}}
}

func concerns(expression string) admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: "concerns-curfew", Expression: expression}
}

func carries(expression string) admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: "carries-a-curfew-key", Expression: expression}
}

// merged makes one webhook of those that differ in their rules alone: the API server looks at each of them for every request.
func merged(entries []entry) []entry {
	var out []entry
	for _, one := range entries {
		at := slices.IndexFunc(out, func(other entry) bool {
			return equality.Semantic.DeepEqual(one.namespaces, other.namespaces) && equality.Semantic.DeepEqual(one.objects, other.objects) &&
				slices.Equal(one.conditions, other.conditions)
		})
		if at < 0 {
			out = append(out, one)
			continue
		}
		out[at].rules = append(out[at].rules, one.rules...)
	}
	return out
}

// number gives each webhook a name of its own: what it sends, and of which kinds.
func number(entries []entry, kinds string) {
	seen := map[string]int{}
	for i := range entries {
		name := entries[i].name
		seen[name]++
		if seen[name] > 1 {
			what, of, _ := strings.Cut(name, ".")
			name = fmt.Sprintf("%s-%d", what, seen[name])
			if of != "" {
				name += "." + of
			}
		}
		entries[i].name = name + kinds + "." + policy.Group
	}
}
