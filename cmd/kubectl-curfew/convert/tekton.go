package convert

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/v1alpha1"
)

// prunerLimits are the limits of Tekton Pruner 0.4 at one level. An absent one is no limit.
type prunerLimits struct {
	Level     string `json:"enforcedConfigLevel"`
	TTL       *int64 `json:"ttlSecondsAfterFinished"`
	Succeeded *int64 `json:"successfulHistoryLimit"`
	Failed    *int64 `json:"failedHistoryLimit"`
	History   *int64 `json:"historyLimit"`
}

// runLimits are the limits that become a policy each.
var runLimits = []string{"ttl", "succeeded", "failed"}

// of returns the limit of a name.
func (l *prunerLimits) of(name string) *int64 {
	switch name {
	case "ttl":
		return l.TTL
	case "succeeded":
		return cmp.Or(l.Succeeded, l.History)
	}
	return cmp.Or(l.Failed, l.History)
}

// prunerRuns are limits of the runs of one Pipeline or Task, or of a selector.
type prunerRuns struct {
	prunerLimits
	Name     string `json:"name"`
	Selector []struct {
		MatchLabels      map[string]string `json:"matchLabels"`
		MatchAnnotations map[string]string `json:"matchAnnotations"`
	} `json:"selector"`
}

// prunerSpec are the limits of a namespace.
type prunerSpec struct {
	prunerLimits
	PipelineRuns []prunerRuns `json:"pipelineRuns"`
	TaskRuns     []prunerRuns `json:"taskRuns"`
}

// prunerConfig is the global-config of Tekton Pruner.
type prunerConfig struct {
	prunerSpec
	Namespaces map[string]prunerSpec `json:"namespaces"`
}

// Conditions of runs. They fail, and so keep the run, where the status is absent.
const (
	runFinished  = `has(object.status.completionTime)`
	runSucceeded = `object.status.conditions.exists(c, c.type == "Succeeded" && c.reason in ["Succeeded", "Completed"])`
	// runAlone is false for the TaskRuns of a PipelineRun.
	runAlone = `object.kind != "TaskRun" || object.metadata.?labels[?"tekton.dev/pipelineRun"].orValue("") == "" && ` +
		`!object.metadata.?ownerReferences.orValue([]).exists(o, o.kind == "PipelineRun")`
	// runElsewhere is false in the namespaces that the pruners leave alone.
	runElsewhere = `!object.metadata.namespace.matches("^(kube|openshift)-|^tekton-(pipelines|operator)$")`
)

// pruner converts global-config of Tekton Pruner, with the ns-configs that were gathered.
func (c *converter) pruner(source *draft, text []byte) {
	var of prunerConfig
	unknown, err := decode(text, &of)
	if err != nil {
		c.lost(source.source, "global-config", "cannot be read: %v", err)
		return
	}
	source.unknown(unknown)
	if !knownLevel(source, cmp.Or(of.Level, "resource")) {
		source.report()
		return
	}
	names := append(slices.Collect(maps.Keys(of.Namespaces)), slices.Collect(maps.Keys(c.options.known.pruners))...)
	slices.Sort(names)
	var own []string
	for _, namespace := range slices.Compact(names) {
		spec, known := of.Namespaces[namespace]
		level := cmp.Or(spec.Level, of.Level, "resource")
		if level == "global" || !knownLevel(source, level) {
			continue
		}
		own = append(own, namespace)
		base := &spec.prunerLimits
		if !known {
			base = &of.prunerLimits
		}
		if level == "namespace" {
			spec = prunerSpec{}
			if given := c.options.known.pruners[namespace]; given != "" && !readNamespace(source, namespace, given, &spec) {
				continue
			}
		}
		pruneScope(source, "-"+namespace, inNamespaces(nil, []string{namespace}), &spec, func(name string) *int64 {
			if level == "namespace" {
				return cmp.Or(spec.of(name), base.of(name))
			}
			return base.of(name)
		})
	}
	var rest *metav1.LabelSelector
	if len(own) > 0 {
		rest = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: own}}}
	}
	pruneScope(source, "", rest, &prunerSpec{}, of.of)
	source.report()
}

// knownLevel reports whether Tekton Pruner deletes anything at a level.
func knownLevel(source *draft, level string) bool {
	known := slices.Contains([]string{"global", "namespace", "resource"}, level)
	if !known {
		source.lost("enforcedConfigLevel", "%q is not global, namespace or resource: Tekton Pruner deletes nothing", level)
	}
	return known
}

// readNamespace reads an ns-config. A namespace whose ns-config cannot be read gets no policy.
func readNamespace(source *draft, namespace, text string, into *prunerSpec) bool {
	decoded, err := lint.ToJSON([]byte(text))
	if err == nil {
		var unknown []string
		unknown, err = decode(decoded, into)
		source.unknown(unknown)
	}
	if err != nil {
		source.lost("ns-config of namespace "+namespace, "cannot be read: %v", err)
	}
	return err == nil
}

// pruneScope writes the policies of some namespaces.
func pruneScope(source *draft, suffix string, namespaces *metav1.LabelSelector, spec *prunerSpec, limit func(name string) *int64) {
	if len(spec.PipelineRuns)+len(spec.TaskRuns) == 0 {
		pruneRuns(source, suffix, namespaces, []string{"pipelineruns", "taskruns"}, nil, limit)
		return
	}
	pruneRuns(source, suffix+"-pipelineruns", namespaces, []string{"pipelineruns"}, spec.PipelineRuns, limit)
	pruneRuns(source, suffix+"-taskruns", namespaces, []string{"taskruns"}, spec.TaskRuns, limit)
}

// pruneRuns writes the policies of some kinds. The first group that matches a run decides: groups
// with a name come before groups with a selector. The limits of the namespace apply to a run of no
// group, and to limits that its group leaves out.
func pruneRuns(source *draft, suffix string, namespaces *metav1.LabelSelector, kinds []string, groups []prunerRuns,
	limit func(name string) *int64) {
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b prunerRuns) int { return cmp.Compare(min(len(b.Name), 1), min(len(a.Name), 1)) })
	var earlier, named []string
	if len(groups) > 0 && groups[0].Name != "" { // This annotation gives a run another name.
		named = []string{`!object.metadata.?annotations[?"pruner.tekton.dev/resourceNameLabelKey"].hasValue()`}
	}
	for i := range groups {
		group := &groups[i]
		matches := group.matches(strings.TrimSuffix(kinds[0], "runs"))
		if group.Level != "" {
			source.broader("enforcedConfigLevel", "%q of %s: remove it, or write these policies by hand", group.Level, kinds[0])
		}
		terms := append(slices.Concat(named, earlier), matches)
		earlier = append(earlier, "!("+matches+")")
		if group.Name != "" {
			group.History = nil // Tekton Pruner ignores it beside a name.
		}
		for _, name := range runLimits {
			if value := group.of(name); value != nil {
				prune(source, fmt.Sprintf("%s-%d-%s", suffix, i+1, name), namespaces, kinds, name, *value, terms)
			}
		}
	}
	for _, name := range runLimits {
		terms := slices.Clone(named)
		for i, term := range earlier {
			if groups[i].of(name) != nil {
				terms = append(terms, term)
			}
		}
		if value := limit(name); value != nil {
			prune(source, suffix+"-"+name, namespaces, kinds, name, *value, terms)
		}
	}
}

// matches is a condition for the runs of the group.
func (g *prunerRuns) matches(of string) string {
	if g.Name != "" {
		return fmt.Sprintf(`object.metadata.?labels[?"tekton.dev/%s"] == optional.of(%q)`, of, g.Name)
	}
	var out []string
	for _, selector := range g.Selector {
		var terms []string
		for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
			terms = append(terms, fmt.Sprintf("object.metadata.?labels[?%q] == optional.of(%q)", key, selector.MatchLabels[key]))
		}
		for _, key := range slices.Sorted(maps.Keys(selector.MatchAnnotations)) {
			terms = append(terms, fmt.Sprintf("object.metadata.?annotations[?%q] == optional.of(%q)", key, selector.MatchAnnotations[key]))
		}
		out = append(out, cmp.Or(strings.Join(terms, " && "), "true"))
	}
	return cmp.Or(strings.Join(out, " || "), "false")
}

// prune writes the policy of one limit.
func prune(source *draft, suffix string, namespaces *metav1.LabelSelector, kinds []string, name string, limit int64, terms []string) {
	if limit < 0 {
		return // No limit.
	}
	d := pruningDraft(source, "tekton-pruner"+suffix, kinds)
	d.schedule(d.options.Schedule)
	d.spec.MatchConstraints.NamespaceSelector = namespaces
	for _, term := range terms {
		d.condition("group", term)
	}
	switch name {
	case "ttl":
		d.condition("age", fmt.Sprintf("now - timestamp(object.status.completionTime) > duration(\"%ds\")", limit))
		d.condition("no-ttl", `object.metadata.?annotations[?"pruner.tekton.dev/ttlSecondsAfterFinished"].orValue("") != "-1"`)
	case "succeeded":
		d.condition(name, runSucceeded)
	default:
		d.condition(name, "!"+runSucceeded)
	}
	if name != "ttl" && limit > 0 {
		d.spec.KeepNewest = &v1alpha1.KeepNewest{Count: int32(min(limit, 1<<30))}
	}
	d.finish()
}

// pruningDraft begins a policy for runs that have finished.
func pruningDraft(source *draft, name string, kinds []string) *draft {
	d := source.part(0)
	d.name = name
	d.spec.MatchConstraints.ResourceRules = []v1alpha1.ResourceRule{{APIGroups: []string{"tekton.dev"}, Resources: kinds}}
	d.condition("finished", runFinished)
	d.condition("namespaces", runElsewhere)
	if slices.Contains(kinds, "taskruns") {
		d.condition("alone", runAlone)
	}
	return d
}

// jobPruner is spec.pruner of a TektonConfig of the Tekton Operator.
type jobPruner struct {
	Disabled                bool     `json:"disabled"`
	Resources               []string `json:"resources"`
	Keep                    *int32   `json:"keep"`
	KeepSince               *int64   `json:"keep-since"`
	PrunePerResource        bool     `json:"prune-per-resource"`
	Schedule                string   `json:"schedule"`
	StartingDeadlineSeconds *int64   `json:"startingDeadlineSeconds"`
}

// operator is a TektonConfig or TektonPruner of the Tekton Operator.
type operator struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Disabled bool    `json:"disabled"`
		Global   rawJSON `json:"global-config"`
		Pruner   rawJSON `json:"pruner"`
		Tekton   struct {
			Disabled bool    `json:"disabled"`
			Global   rawJSON `json:"global-config"`
		} `json:"tektonpruner"`
	} `json:"spec"`
}

func (c *converter) operator(text []byte, kind string) {
	var of operator
	_, err := decode(text, &of)
	d := c.draft(kind, &of.ObjectMeta, false)
	if err != nil {
		c.lost(d.source, "", "cannot be read: %v", err)
		return
	}
	disabled, global := of.Spec.Disabled, of.Spec.Global
	if kind == "TektonConfig" {
		disabled, global = of.Spec.Tekton.Disabled, of.Spec.Tekton.Global
		if of.Spec.Pruner != nil {
			c.jobPruner(d.part(0), of.Spec.Pruner)
		}
	}
	if global != nil && !disabled {
		c.pruner(d, global)
	}
}

// jobPruner converts the pruner that runs tkn in a CronJob.
func (c *converter) jobPruner(source *draft, text []byte) {
	var of jobPruner
	unknown, err := decode(text, &of)
	zero := of.Keep != nil && *of.Keep <= 0 || of.KeepSince != nil && *of.KeepSince <= 0
	switch {
	case err != nil:
		c.lost(source.source, "spec.pruner", "cannot be read: %v", err)
		return
	case of.Disabled || of.Schedule == "" || zero:
		source.note("spec.pruner", "deletes nothing: it is disabled, has no schedule, or keep or keep-since is 0")
		source.report()
		return
	}
	source.unknown(unknown)
	source.note("spec.pruner", "namespaces with an annotation operator.tekton.dev/prune.… are left out: write a policy for each")
	if of.Keep == nil && of.KeepSince == nil {
		keep := int32(100)
		of.Keep = &keep
	}
	if len(of.Resources) == 0 {
		of.Resources = []string{"pipelinerun"}
	}
	if of.PrunePerResource {
		source.broader("spec.pruner.prune-per-resource",
			"true: runs of a Pipeline or Task that does not exist anymore were kept, and Curfew deletes them")
	}
	for i, resource := range of.Resources {
		plural, known := map[string]string{"pipelineruns": "pipelineruns", "pipelinerun": "pipelineruns", "pr": "pipelineruns",
			"taskruns": "taskruns", "taskrun": "taskruns", "tr": "taskruns"}[strings.ToLower(strings.TrimSpace(resource))]
		if !known {
			source.lost(fmt.Sprintf("spec.pruner.resources[%d]", i), "%q is not pipelinerun or taskrun", resource)
			continue
		}
		d := pruningDraft(source, "tekton-keep-"+plural, []string{plural})
		d.schedule(of.Schedule)
		d.spec.StartingDeadlineSeconds = of.StartingDeadlineSeconds
		d.condition("annotated", `!namespaceObject.metadata.?annotations.orValue({}).exists(k, k.startsWith("operator.tekton.dev/prune."))`)
		if of.KeepSince != nil {
			d.condition("age", fmt.Sprintf("now - timestamp(object.status.completionTime) > duration(\"%dm\")", *of.KeepSince))
		}
		if of.Keep != nil {
			started := v1alpha1.Expression("timestamp(object.status.startTime)")
			d.spec.KeepNewest = &v1alpha1.KeepNewest{Count: *of.Keep, SortBy: &started}
			if of.PrunePerResource {
				group := v1alpha1.Expression(fmt.Sprintf("object.metadata.labels[%q]", "tekton.dev/"+strings.TrimSuffix(plural, "runs")))
				d.spec.KeepNewest.GroupBy = &group
			}
		}
		d.finish()
	}
	source.report()
}
