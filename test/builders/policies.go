package builders

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy/v1alpha1"
)

// What [LifecyclePolicies] select by.
const (
	// LabelTeam is on namespaces; policies match TeamPayments and teams that no namespace has.
	LabelTeam    = "example.org/team"
	TeamPayments = "payments"
	// LabelProbe is on objects: its value is the number of policies; the last policy selects it.
	LabelProbe = "test.curfew.dev/policies"
)

// LifecyclePolicies are so many policies as a large cluster may have them. Of ten, five are for
// single teams' namespaces, one of these with a CEL condition too; two have CEL conditions alone,
// one of these bounds and the other an expression for its default; one matches by the labels of
// objects, one speaks of Pods, and one has bounds for everybody. Priorities differ. One in fifty is
// for [TeamPayments]. The last policy is the probe, by which it shows that all are in force: the
// one that selects [LabelProbe].
func LifecyclePolicies(count int) []*v1alpha1.LifecyclePolicy {
	var out []*v1alpha1.LifecyclePolicy
	for i := range count {
		p := &v1alpha1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("bench-%03d", i)}}
		p.Spec.Priority = int32(i * 7 % 100)
		p.Spec.Defaults = ttlDefault(fmt.Sprintf("%dh", 24+i))
		jobs := []v1alpha1.GroupKind{{Group: "batch", Kind: "Job"}}
		switch i % 10 {
		case 0, 1, 2, 3, 4:
			name := fmt.Sprintf("team-%d", i/10*5+i%10)
			if i%50 == 0 {
				name = TeamPayments
			}
			p.Spec.Match = v1alpha1.Match{Kinds: jobs, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelTeam: name}}}
			if i%10 == 4 {
				p.Spec.Match.MatchConditions = condition("parallel", "object.spec.?parallelism.orValue(1) > 4")
			}
		case 5:
			p.Spec.Match = v1alpha1.Match{Kinds: jobs, MatchConditions: condition("queued", fmt.Sprintf(
				`object.metadata.?labels["kueue.x-k8s.io/queue-name"].orValue("") == "queue-%d"`, i))}
			p.Spec.Defaults, p.Spec.Bounds = nil, &v1alpha1.Bounds{MaxTTL: ptr.To(v1alpha1.Duration("7d"))}
		case 6:
			p.Spec.Match = v1alpha1.Match{Kinds: jobs, MatchConditions: condition("accelerated", fmt.Sprintf(
				`object.spec.template.spec.containers.exists(c, c.?resources.?limits[?"example.org/accelerator-%d"].hasValue())`, i))}
			p.Spec.Defaults.TTL = &v1alpha1.TTLValue{Expression: ptr.To(v1alpha1.Expression(`object.spec.?backoffLimit.orValue(6) == 0 ? "2d" : "1d"`))}
		case 7:
			p.Spec.Match = v1alpha1.Match{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/part-of": fmt.Sprintf("system-%d", i)}}}
		case 8:
			p.Spec.Match.Kinds = []v1alpha1.GroupKind{{Group: "", Kind: "Pod"}}
		case 9:
			p.Spec.Defaults = nil
			p.Spec.Bounds = &v1alpha1.Bounds{MaxTTL: ptr.To(v1alpha1.Duration("30d"))}
		}
		if i == count-1 {
			p.Spec.Match = v1alpha1.Match{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelProbe: fmt.Sprint(count)}}}
			p.Spec.Priority, p.Spec.Bounds, p.Spec.Defaults = 1000, nil, ttlDefault("1h")
		}
		out = append(out, p)
	}
	return out
}

func ttlDefault(text string) *v1alpha1.Defaults {
	return &v1alpha1.Defaults{TTL: &v1alpha1.TTLValue{Value: ptr.To(v1alpha1.TTL(text))}}
}

func condition(name, text string) []v1alpha1.MatchCondition {
	return []v1alpha1.MatchCondition{{Name: name, Expression: v1alpha1.Expression(text)}}
}
