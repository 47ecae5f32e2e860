package convert

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// janitorRule is a rule of kube-janitor. The first rule that matches an object decides its TTL.
type janitorRule struct {
	ID        string   `json:"id"`
	Resources []string `json:"resources"`
	JMESPath  string   `json:"jmespath"`
	TTL       string   `json:"ttl"`
}

var (
	janitorTTL = regexp.MustCompile(`^[0-9]{1,9}[smhdw]$`)
	janitorID  = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
)

// forever is longer than any TTL.
const forever = time.Duration(1<<63 - 1)

// ttl is how long an object lives by the rule.
func (r *janitorRule) ttl() (time.Duration, error) {
	if r.TTL == "forever" {
		return forever, nil
	}
	if !janitorTTL.MatchString(r.TTL) {
		return 0, fmt.Errorf("%q is not a TTL such as 7d", r.TTL)
	}
	ttl, err := lifetime.ParseDuration(r.TTL)
	if ttl == 0 && err == nil { // kube-janitor deletes by a TTL above zero only.
		ttl = forever
	}
	return ttl, err
}

// matches is the rule's expression in CEL.
func (r *janitorRule) matches() (*node, string, error) {
	n, err := parseJMESPath(r.JMESPath)
	if err != nil {
		return nil, "", err
	}
	text, err := janitor.truth(n, true)
	return n, text, err
}

func (c *converter) janitorRules(text []byte) {
	var file struct {
		Rules []janitorRule `json:"rules"`
	}
	unknown, err := json.UnmarshalStrict(text, &file)
	if err != nil {
		c.lost("", "rules", "cannot be read: %v", err)
		return
	}
	c.add(Finding{File: c.file, Object: "rules", Reason: "a rules file does not say which namespaces and resources kube-janitor's flags " +
		"--include-namespaces, --exclude-namespaces, --include-resources and --exclude-resources leave out: " +
		"narrow matchConstraints in the same way"})
	for i := range file.Rules {
		old := &file.Rules[i]
		path := fmt.Sprintf("rules[%d]", i)
		d := c.draft("rule", &metav1.ObjectMeta{Name: old.ID}, false)
		for _, problem := range unknown {
			if text := problem.Error(); strings.Contains(text, path+".") || !strings.Contains(text, "rules[") {
				d.lost("", "%s", text)
			}
		}
		d.janitorRule(path, old, file.Rules[:i])
	}
}

func (d *draft) janitorRule(path string, old *janitorRule, earlier []janitorRule) {
	if !janitorID.MatchString(old.ID) || len(old.ID) > 63 {
		d.lost(path+".id", "%q is not a name", old.ID)
		d.name = ""
	}
	ttl, err := old.ttl()
	if err != nil {
		d.lost(path+".ttl", "%v", err)
	}
	if ttl == forever && err == nil {
		d.note(path, "keeps objects forever: it becomes a condition of the rules after it")
		d.report()
		return
	}
	d.schedule(d.options.Schedule)
	d.janitorResources(path, old)
	n, text, matchErr := old.matches()
	if matchErr != nil {
		d.lost(path+".jmespath", "%q: %v", old.JMESPath, matchErr)
	} else {
		d.condition("matches", text)
	}
	if err != nil {
		d.condition("age", "false")
	} else {
		for _, since := range d.clocks() {
			d.condition("age", fmt.Sprintf("now - timestamp(%s) > duration(%q)", since, ttl.String()))
		}
	}
	d.condition("no-ttl", `!object.metadata.?annotations[?"janitor/ttl"].hasValue()`)
	for i := range earlier {
		d.earlier(&earlier[i], old, ttl)
	}
	if matchErr == nil && mentionsContext(n) {
		d.note(path+".jmespath", "lookup.mounted is true for a claim that any Pod or pod template refers to, also the template of a CronJob")
	}
	d.owned()
	d.finish()
}

// clocks are the times from which kube-janitor counts, the latest of them. Beside its annotation,
// an object may have Curfew's, so that pipelines can be changed one by one.
func (d *draft) clocks() []string {
	const created = "object.metadata.creationTimestamp"
	out := []string{created}
	switch given := d.options.DeploymentTime; given {
	case "":
		d.lost("rules", "a rules file does not show whether kube-janitor runs with --deployment-time-annotation, "+
			"by which objects live longer: convert with the same flag, or with --deployment-time-annotation=none")
	case "none":
	default:
		for _, key := range slices.Compact([]string{given, wellknown.AnnotationRefreshedAt}) {
			out = append(out, fmt.Sprintf("object.metadata.?annotations[?%q].orValue(%s)", key, created))
		}
	}
	return out
}

// earlier keeps the objects that an earlier rule gives a longer TTL.
func (d *draft) earlier(rule, later *janitorRule, ttl time.Duration) {
	longer, err := rule.ttl()
	if !overlap(rule.Resources, later.Resources) || err == nil && longer <= ttl {
		return
	}
	field := "rules[" + rule.ID + "]"
	n, text, matchErr := rule.matches()
	switch {
	case err != nil:
		d.lost(field, "comes first, and its TTL is not readable")
	case matchErr != nil:
		d.lost(field, "comes first with a longer TTL, and cannot be converted: %v", matchErr)
	case mentionsContext(n):
		d.lost(field, "comes first with a longer TTL, and the opposite of _context is not supported")
	default:
		d.condition("not-"+rule.ID, "!("+ofKinds(rule.Resources, text)+")")
	}
}

// ofKinds restricts an expression to the kinds of the resources, if all of them are known.
func ofKinds(resources []string, text string) string {
	var kinds []string
	for _, plural := range resources {
		known := builtinBy(func(b *builtin) bool { return b.plural == plural })
		if known == nil {
			return text
		}
		kinds = append(kinds, known.kind)
	}
	return anyOf("object.kind", kinds) + " && " + text
}

func overlap(a, b []string) bool {
	return slices.Contains(a, "*") || slices.Contains(b, "*") ||
		slices.ContainsFunc(a, func(n string) bool { return slices.Contains(b, n) })
}

// janitorResources takes over the resources, which kube-janitor names without a group.
func (d *draft) janitorResources(path string, old *janitorRule) {
	match := &d.spec.MatchConstraints
	byGroup := map[string][]string{}
	for _, plural := range old.Resources {
		known := builtinBy(func(b *builtin) bool { return b.plural == plural })
		switch {
		case plural == "*":
			byGroup["*"] = []string{"*"}
			d.condition("namespaced", "has(object.metadata.namespace)")
			d.spec.Exclude = &v1alpha1.CleanupExclusion{ResourceRules: []v1alpha1.ResourceRule{
				{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"}}}}
			d.note(path+".resources", "a wildcard never matches what a cluster depends on, such as Namespaces and RBAC: name them if you mean them")
		case !resourceName.MatchString(plural):
			d.lost(path+".resources", "%q is not the plural name of a resource", plural)
		case known == nil:
			byGroup["*"] = append(byGroup["*"], plural)
			d.note(path+".resources", "%q matches this resource of any group: name the group in apiGroups", plural)
		case known.cluster && known.plural != "namespaces":
			d.lost(path+".resources", "%q is cluster-scoped: kube-janitor deletes it only with --include-cluster-resources", plural)
			byGroup[known.group] = append(byGroup[known.group], plural)
		default:
			byGroup[known.group] = append(byGroup[known.group], plural)
		}
	}
	if slices.Contains(byGroup["*"], "*") {
		byGroup = map[string][]string{"*": {"*"}}
	}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		match.ResourceRules = append(match.ResourceRules, v1alpha1.ResourceRule{APIGroups: []string{group}, Resources: byGroup[group]})
	}
}

var resourceName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
