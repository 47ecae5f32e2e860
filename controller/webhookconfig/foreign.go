package webhookconfig

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/wellknown"
)

// enforcerDisabled is the label that exempts a configuration from AKS's admissions enforcer, which
// adds requirements to the namespaceSelector of every webhook.
const enforcerDisabled = "admissions.enforcer/disabled"

// keepForeign leaves a namespaceSelector alone that has all wanted requirements and more, because
// another controller may add them again for ever. It returns the foreign requirements. Anyone who
// can update the configuration can exempt namespaces this way: kubectl curfew status shows it.
//
// A requirement that the plan does not want may also be Curfew's own, of an earlier plan that
// selected less. So a selector is left alone only while the plan wants the one that this process
// last wrote or saw.
func (c *configuration) keepForeign(have, want *webhooks) (foreign []string) {
	present := selectorsByName(have)
	for i := range want.Webhooks {
		webhook := &want.Webhooks[i]
		wanted, all := allRequirements(webhook.NamespaceSelector), allRequirements(present[webhook.Name])
		if slices.EqualFunc(allRequirements(c.selectors[webhook.Name]), wanted, equal) && len(without(wanted, all)) == 0 {
			webhook.NamespaceSelector = present[webhook.Name]
			foreign = append(foreign, inWords(want, without(all, wanted))...)
		}
	}
	return foreign
}

// selectorsByName are the namespaceSelectors of a configuration by webhook.
func selectorsByName(configuration *webhooks) map[string]*metav1.LabelSelector {
	out := map[string]*metav1.LabelSelector{}
	if configuration != nil {
		for i := range configuration.Webhooks {
			out[configuration.Webhooks[i].Name] = configuration.Webhooks[i].NamespaceSelector
		}
	}
	return out
}

// foreignIn returns the requirements of the static configuration that manifests/webhook lacks.
// Curfew's own requirements of labels are there once in a webhook.
func foreignIn(static *webhooks, namespace string) (foreign []string) {
	own := metav1.LabelSelectorRequirement{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{namespace}}
	for i := range static.Webhooks {
		others := without(allRequirements(static.Webhooks[i].NamespaceSelector), []metav1.LabelSelectorRequirement{own})
		for _, key := range []string{wellknown.LabelInUse, wellknown.LabelPodsInUse} {
			index := slices.IndexFunc(others, func(r metav1.LabelSelectorRequirement) bool {
				return r.Key == key && (r.Operator == metav1.LabelSelectorOpExists || r.Operator == metav1.LabelSelectorOpDoesNotExist)
			})
			if index >= 0 {
				others = slices.Delete(others, index, index+1)
			}
		}
		foreign = append(foreign, inWords(static, others)...)
	}
	return foreign
}

// without returns the requirements that others lack.
func without(all, others []metav1.LabelSelectorRequirement) []metav1.LabelSelectorRequirement {
	return slices.DeleteFunc(slices.Clone(all), func(requirement metav1.LabelSelectorRequirement) bool {
		return slices.ContainsFunc(others, func(other metav1.LabelSelectorRequirement) bool { return equal(requirement, other) })
	})
}

func inWords(configuration *webhooks, foreign []metav1.LabelSelectorRequirement) (out []string) {
	for _, requirement := range foreign {
		selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}}
		out = append(out, configuration.Kind+" "+configuration.Name+": "+metav1.FormatLabelSelector(selector))
	}
	return out
}
