package convert

import (
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// cleanupPolicy is a CleanupPolicy or ClusterCleanupPolicy of Kyverno.
type cleanupPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Schedule                  string                     `json:"schedule"`
		Match                     filters                    `json:"match"`
		Exclude                   *filters                   `json:"exclude"`
		Conditions                *conditions                `json:"conditions"`
		Context                   []any                      `json:"context"`
		DeletionPropagationPolicy metav1.DeletionPropagation `json:"deletionPropagationPolicy"`
	} `json:"spec"`
	Status any `json:"status"`
}

func (c *converter) cleanupPolicy(text []byte) {
	var of cleanupPolicy
	unknown, err := decode(text, &of)
	d := c.draft(of.Kind, &of.ObjectMeta, of.Kind == "CleanupPolicy")
	if err != nil {
		c.lost(d.source, "", "cannot be read: %v", err)
		return
	}
	d.common(unknown)
	d.spec.PropagationPolicy = of.Spec.DeletionPropagationPolicy
	if value := of.Annotations[annotationPropagation]; value != "" && d.spec.PropagationPolicy == "" {
		d.spec.PropagationPolicy = metav1.DeletionPropagation(value)
	}
	d.propagation()
	if len(of.Spec.Context) > 0 {
		d.note("spec.context", "variables of the context are not supported: conditions that use them are not converted")
	}
	d.schedule(of.Spec.Schedule)
	all := d.merge(&of.Spec.Match)
	if len(all) == 0 {
		d.lost("spec.match", "is empty, or cannot be converted")
	}
	for i := range all {
		one := d
		if len(all) > 1 {
			one = d.part(i)
		}
		one.match(all[i].path, &all[i].resources)
		one.exclude(of.Spec.Exclude)
		one.conditions(of.Spec.Conditions)
		one.filtered("spec.match")
		one.owned()
		one.finish()
	}
	if len(all) == 0 {
		d.finish()
	}
}

// common is what the conversions of all of Kyverno's policies begin with.
func (d *draft) common(unknown []string) {
	for _, one := range unknown {
		d.lost("", "%s", one)
	}
	if d.namespaced {
		d.note("spec.serviceAccountName", "the policy deletes as service account %q of its namespace: give it get, list and delete on what the policy matches",
			d.options.ServiceAccount)
	}
}

func (d *draft) propagation() {
	switch d.spec.PropagationPolicy {
	case "", metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan:
	default:
		d.lost("spec.deletionPropagationPolicy", "%q is not Background, Foreground or Orphan", d.spec.PropagationPolicy)
		d.spec.PropagationPolicy = ""
	}
}

// owned keeps what Kyverno does: it deletes objects whose controller exists, too. With a wildcard
// that would be all that Deployments and Jobs create, again and again.
func (d *draft) owned() {
	wildcard := slices.ContainsFunc(d.spec.MatchConstraints.ResourceRules, func(r v1alpha1.ResourceRule) bool { return slices.Contains(r.Resources, "*") })
	if wildcard {
		d.note("spec.includeOwned", "objects whose controller exists are kept")
		return
	}
	d.spec.IncludeOwned = true
	d.note("spec.includeOwned", "objects whose controller exists are deleted, as before: remove it to keep them")
}

// filtered keeps what Kyverno skips: what it manages, and by its default resourceFilters its own
// namespace and some kinds. Which kinds these are its configuration may have changed.
func (d *draft) filtered(path string) {
	d.condition("not-kyverno", `object.metadata.?namespace.orValue("") != "kyverno" && `+
		`object.metadata.?labels[?"app.kubernetes.io/managed-by"].orValue("") != "kyverno"`)
	for _, rule := range d.spec.MatchConstraints.ResourceRules {
		for _, plural := range rule.Resources {
			if slices.Contains([]string{"*", "replicasets", "events", "nodes", "apiservices"}, plural) {
				d.lost(path, "%q: Kyverno's default resourceFilters keep Events, Nodes, APIServices and ReplicaSets, "+
					"so this may delete more than before. Exclude what they keep, then remove suspend", plural)
			}
			if slices.Contains([]string{"clusterroles", "clusterrolebindings"}, plural) {
				d.lost(path, "%q: Kyverno's default resourceFilters keep those whose names begin with kyverno:, "+
					"so this may delete more than before. Exclude them, then remove suspend", plural)
			}
		}
	}
}

// part is a policy for one of several filters. Together the parts delete what the source deletes.
func (d *draft) part(i int) *draft {
	out := *d
	out.findings = slices.Clone(d.findings)
	out.spec = *d.spec.DeepCopy()
	if i > 0 {
		out.name = fmt.Sprintf("%s-%d", d.name, i+1)
	}
	return &out
}

// placed is a filter and where it stands.
type placed struct {
	resources
	path string
}

// merge returns filters of which an object must match one. Those that differ in their kinds alone
// become one, if they have no names.
func (d *draft) merge(of *filters) []placed {
	if len(of.All) > 0 {
		return d.mergeAll(of)
	}
	var out []placed
	for i := range of.Any {
		one := placed{of.Any[i].Resources, fmt.Sprintf("spec.match.any[%d].resources", i)}
		same := slices.IndexFunc(out, func(p placed) bool {
			a, b := p.resources, one.resources
			a.Kinds, b.Kinds = nil, nil
			return reflect.DeepEqual(a, b)
		})
		if same < 0 {
			out = append(out, one)
			continue
		}
		out[same].Kinds = append(slices.Clone(out[same].Kinds), one.Kinds...)
	}
	return out
}

func (d *draft) mergeAll(of *filters) []placed {
	if len(of.Any) > 0 || len(of.All) > 1 {
		d.lost("spec.match", "several filters in all, or any beside all, are not supported")
		return nil
	}
	return []placed{{of.All[0].Resources, "spec.match.all[0].resources"}}
}
