package convert

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/v1alpha1"
)

// maxSelectors of a Cleaner.
const maxSelectors = 100

// cleaner is a Cleaner of k8s-cleaner 0.23.
type cleaner struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ResourcePolicySet struct {
			ResourceSelectors   []cleanerSelector `json:"resourceSelectors"`
			AggregatedSelection string            `json:"aggregatedSelection"`
		} `json:"resourcePolicySet"`
		Action        string `json:"action"`
		DeleteOptions *struct {
			GracePeriodSeconds *int64                     `json:"gracePeriodSeconds"`
			PropagationPolicy  metav1.DeletionPropagation `json:"propagationPolicy"`
		} `json:"deleteOptions"`
		Schedule                string `json:"schedule"`
		StartingDeadlineSeconds *int64 `json:"startingDeadlineSeconds"`
		OccurrenceThreshold     int32  `json:"occurrenceThreshold"`
		BlastRadiusLimit        *struct {
			MaxCount      *int64 `json:"maxCount"`
			MaxPercentage *int32 `json:"maxPercentage"`
		} `json:"blastRadiusLimit"`
		// Actions beside the deletion.
		Transform         string `json:"transform"`
		Notifications     []any  `json:"notifications"`
		StoreResourcePath string `json:"storeResourcePath"`
		Rollback          any    `json:"rollback"`
	} `json:"spec"`
	Status any `json:"status"`
}

// cleanerSelector selects objects of one kind.
type cleanerSelector struct {
	Namespace         string `json:"namespace"`
	NamespaceSelector string `json:"namespaceSelector"`
	Group             string `json:"group"`
	Version           string `json:"version"`
	Kind              string `json:"kind"`
	LabelFilters      []struct {
		Key       string `json:"key"`
		Operation string `json:"operation"`
		Value     string `json:"value"`
	} `json:"labelFilters"`
	Evaluate string `json:"evaluate"`
	// ExcludeDeleted is true in each of Curfew's policies: an object that is being deleted is kept.
	ExcludeDeleted *bool `json:"excludeDeleted"`
	// Only evaluate reads these.
	MetricSource  any   `json:"metricSource"`
	MetricQueries []any `json:"metricQueries"`
	IncludeEvents bool  `json:"includeEvents"`
	LogSource     any   `json:"logSource"`

	path string
}

func (c *converter) cleaner(text []byte) {
	var policy cleaner
	d := c.decode(text, &policy, &policy.TypeMeta, &policy.ObjectMeta)
	if d == nil {
		return
	}
	spec := &policy.Spec
	selectors := cleanerParts(spec.ResourcePolicySet.ResourceSelectors)
	switch {
	case len(spec.ResourcePolicySet.ResourceSelectors) > maxSelectors:
		c.lost(d.source, "spec.resourcePolicySet.resourceSelectors", "more than %d are not converted: split the Cleaner", maxSelectors)
		return
	case !slices.Contains([]string{"", "Delete", "Scan"}, spec.Action):
		c.lost(d.source, "spec.action", "%q does not delete, and Curfew does nothing else: keep k8s-cleaner for it, see %s",
			spec.Action, noCounterpart)
		return
	}
	if lua := spec.ResourcePolicySet.AggregatedSelection; lua != "" && len(spec.ResourcePolicySet.ResourceSelectors) > 1 {
		c.lost(d.source, "spec.resourcePolicySet.aggregatedSelection", "Lua is not converted, see %s", noCounterpart)
		return
	}
	convertCleaner(d, &policy, len(selectors))
	for i := range selectors {
		draft := d.part(i)
		selectCleaned(draft, &selectors[i])
		if lua := spec.ResourcePolicySet.AggregatedSelection; lua != "" {
			draft.lost("spec.resourcePolicySet.aggregatedSelection", "Lua is not converted: write a condition in CEL, see %s", noCounterpart)
		}
		draft.orphans("spec.deleteOptions.propagationPolicy")
		if limit := spec.BlastRadiusLimit; limit != nil && limit.MaxPercentage != nil && len(selectors[i].LabelFilters) > 0 {
			draft.lost("spec.blastRadiusLimit.maxPercentage", "%d: Curfew counts percent of all objects of the kind, "+
				"k8s-cleaner of those that pass labelFilters: lower it", *limit.MaxPercentage)
		}
		draft.owned()
		draft.finish()
	}
	if len(selectors) == 0 {
		d.finish()
	}
}

// convertCleaner takes over the fields that the policies of all selectors share.
func convertCleaner(d *draft, policy *cleaner, parts int) {
	spec := &policy.Spec
	text := spec.Schedule
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			d.spec.TimeZone, text, _ = strings.Cut(rest, " ")
			text = strings.TrimSpace(text)
			break
		}
	}
	d.schedule(text)
	d.spec.DryRun = spec.Action == "Scan"
	d.spec.StartingDeadlineSeconds = spec.StartingDeadlineSeconds
	switch n := spec.OccurrenceThreshold; {
	case n > 100:
		d.spec.ConsecutiveRuns = 100
		d.lost("spec.occurrenceThreshold", "%d: consecutiveRuns is 100 at most", n)
	case n > 1:
		d.spec.ConsecutiveRuns = n
	}
	if options := spec.DeleteOptions; options != nil {
		d.spec.PropagationPolicy = options.PropagationPolicy
		if options.GracePeriodSeconds != nil {
			d.note("spec.deleteOptions.gracePeriodSeconds", "%d: the Pod's own terminationGracePeriodSeconds applies",
				*options.GracePeriodSeconds)
		}
	}
	d.propagation()
	if limit := spec.BlastRadiusLimit; limit != nil {
		d.spec.MaxPercentage = limit.MaxPercentage
		switch {
		case limit.MaxCount != nil && *limit.MaxCount < 1:
			d.lost("spec.blastRadiusLimit.maxCount", "%d: the Cleaner deletes nothing", *limit.MaxCount)
		case limit.MaxCount != nil:
			d.spec.MaxDeletions = limit.MaxCount
		}
		if parts > 1 {
			d.lost("spec.blastRadiusLimit", "applies to each of %d policies, to all selectors together before: lower it in each", parts)
		}
	}
	beside := map[string]bool{"notifications": len(spec.Notifications) > 0, "storeResourcePath": spec.StoreResourcePath != "",
		"rollback": spec.Rollback != nil}
	for field, set := range beside {
		if set {
			d.note("spec."+field, "Curfew has reports and metrics, and keeps no copy of what it deletes: see %s", noCounterpart)
		}
	}
	slices.SortFunc(d.findings, func(a, b Finding) int { return strings.Compare(a.Field, b.Field) })
}

// cleanerParts are the selectors that become a policy each. k8s-cleaner adds namespace to
// namespaceSelector, so a selector with both is two.
func cleanerParts(all []cleanerSelector) []cleanerSelector {
	var out []cleanerSelector
	for i, selector := range all[:min(len(all), maxSelectors)] {
		selector.path = fmt.Sprintf("spec.resourcePolicySet.resourceSelectors[%d]", i)
		if selector.Namespace != "" && selector.NamespaceSelector != "" {
			other := selector
			other.Namespace, selector.NamespaceSelector = "", ""
			out = append(out, other)
		}
		out = append(out, selector)
	}
	return out
}

// selectCleaned takes over one selector.
func selectCleaned(d *draft, chosen *cleanerSelector) {
	match := &d.spec.MatchConstraints
	resource := plural(chosen.Kind)
	if builtinOf(resource, []string{chosen.Group}) == nil {
		d.note(chosen.path+".kind", "%q: the plural %s is a guess: check it by kubectl api-resources", chosen.Kind, resource)
	}
	// k8s-cleaner compares the group exactly.
	rule := v1alpha1.ResourceRule{APIGroups: []string{chosen.Group}, Resources: []string{resource}}
	if chosen.Version != "" {
		rule.APIVersions = []string{chosen.Version}
	}
	match.ResourceRules = []v1alpha1.ResourceRule{rule}
	if chosen.NamespaceSelector != "" {
		selector, err := metav1.ParseToLabelSelector(chosen.NamespaceSelector)
		if err != nil {
			d.lost(chosen.path+".namespaceSelector", "%q: %v", chosen.NamespaceSelector, err)
		}
		match.NamespaceSelector = selector
	}
	if chosen.Namespace != "" {
		match.NamespaceSelector = inNamespaces(nil, []string{chosen.Namespace})
	}
	operators := map[string]metav1.LabelSelectorOperator{"Equal": metav1.LabelSelectorOpIn, "Different": metav1.LabelSelectorOpNotIn,
		"Has": metav1.LabelSelectorOpExists, "DoesNotHave": metav1.LabelSelectorOpDoesNotExist}
	for i, filter := range chosen.LabelFilters {
		operator, ok := operators[filter.Operation]
		if !ok {
			d.lost(fmt.Sprintf("%s.labelFilters[%d].operation", chosen.path, i),
				"%q is not Equal, Different, Has or DoesNotHave", filter.Operation)
			continue
		}
		requirement := metav1.LabelSelectorRequirement{Key: filter.Key, Operator: operator}
		if operator == metav1.LabelSelectorOpIn || operator == metav1.LabelSelectorOpNotIn {
			requirement.Values = []string{filter.Value}
		}
		match.ObjectSelector = both(match.ObjectSelector, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{requirement}})
	}
	if chosen.Evaluate != "" {
		section := fromLua
		if strings.Contains(chosen.Evaluate, "cleaner/ttl") || strings.Contains(chosen.Evaluate, "cleaner/expires") {
			section = "docs/from-k8s-cleaner.md#cleaners-that-are-a-ttl"
		}
		if chosen.MetricSource != nil || chosen.IncludeEvents || chosen.LogSource != nil {
			section = noCounterpart
		}
		d.lost(chosen.path+".evaluate", "Lua is not converted: write a condition in CEL, see %s", section)
	}
}

// Where the docs show what to write instead.
const (
	fromLua       = "docs/from-k8s-cleaner.md#from-lua-to-cel"
	noCounterpart = "docs/from-k8s-cleaner.md#no-counterpart"
)
