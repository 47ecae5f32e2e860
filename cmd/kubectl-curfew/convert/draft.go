package convert

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"

	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lint"
	"curfew.dev/curfew/policy/schedule"
	"curfew.dev/curfew/policy/v1alpha1"
)

// minInterval between runs of a cleanup policy.
const minInterval = 5 * time.Minute

// maxConditions of a policy.
const maxConditions = 16

// maxPolicies that a file becomes. Each is compiled.
const maxPolicies = 1000

// Options are settings that the sources do not have.
type Options struct {
	// ServiceAccount of converted policies in namespaces. Kyverno's policies name none.
	ServiceAccount string
	// Schedule of converted rules of kube-janitor, which has an interval instead.
	Schedule string
	// DeploymentTime is kube-janitor's --deployment-time-annotation, "none" if it runs without, or
	// "" if that is not known. A rules file does not show it.
	DeploymentTime string
}

// Finding is something in a source that the user must know.
type Finding struct {
	File, Object, Field, Reason string
	// Lost means that the source could not be converted faithfully: the policy deletes nothing, or is
	// not written. Otherwise the finding is a note.
	Lost bool
}

// String is the finding on one line.
func (f Finding) String() string {
	parts := []string{f.File, f.Object, f.Field, f.Reason}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// Result of a conversion.
type Result struct {
	Policies []Policy
	// Findings of all policies, and of what became none.
	Findings []Finding
}

// converter converts the documents of files.
type converter struct {
	file      string
	options   Options
	compiler  *expression.Compiler
	result    Result
	documents []document
	// filters are Kyverno's resourceFilters; nil if its ConfigMap is not among the documents.
	filters *string
	// exceptions are the PolicyExceptions, by the policy that they name; "" is any policy.
	exceptions map[string]string
}

func (c *converter) add(finding Finding) { c.result.Findings = append(c.result.Findings, finding) }

func (c *converter) lost(object, field, format string, args ...any) {
	c.add(Finding{File: c.file, Object: object, Field: field, Reason: fmt.Sprintf(format, args...), Lost: true})
}

// Policy is a converted policy.
type Policy struct {
	// Object is its manifest, and Spec its spec without the service account.
	Object *unstructured.Unstructured
	Spec   *v1alpha1.CleanupSpec
	// Source names the object that it comes from.
	Source string
	// Findings about it.
	Findings []Finding
}

// draft is a policy while it is converted.
type draft struct {
	*converter
	source          string
	name, namespace string
	namespaced      bool
	spec            v1alpha1.CleanupSpec
	findings        []Finding
}

func (c *converter) draft(kind string, meta *metav1.ObjectMeta, namespaced bool) *draft {
	source := kind + " " + meta.Name
	if meta.Namespace != "" {
		source = kind + " " + meta.Namespace + "/" + meta.Name
	}
	return &draft{converter: c, source: source, name: meta.Name, namespace: meta.Namespace, namespaced: namespaced}
}

// decode begins a policy from an object, or returns nil if it cannot be read. A field that is not
// known may restrict the policy, so the draft loses it.
func (c *converter) decode(text []byte, into any, typeMeta *metav1.TypeMeta, meta *metav1.ObjectMeta) *draft {
	unknown, err := json.UnmarshalStrict(text, into)
	d := c.draft(typeMeta.Kind, meta, typeMeta.Kind == "CleanupPolicy" || typeMeta.Kind == "NamespacedDeletingPolicy")
	if err != nil {
		c.lost(d.source, "", "cannot be read: %v", err)
		return nil
	}
	for _, problem := range unknown {
		d.lost("", "%v", problem)
	}
	if d.namespaced {
		d.note("spec.serviceAccountName", "the policy deletes as service account %q of its namespace: "+
			"give it get, list and delete on what the policy matches", d.options.ServiceAccount)
	}
	return d
}

// lost records a part that is not converted. The policy will be suspended, and has a condition that
// is false, so that it deletes nothing even if it is resumed.
func (d *draft) lost(field, format string, args ...any) {
	d.note(field, format, args...)
	d.findings[len(d.findings)-1].Lost = true
}

// note records a difference that deletes nothing more than before.
func (d *draft) note(field, format string, args ...any) {
	d.findings = append(d.findings, Finding{File: d.file, Object: d.source, Field: field, Reason: fmt.Sprintf(format, args...)})
}

// orphans keeps the Pods of Jobs and ReplicationControllers where a tool sends no
// propagationPolicy: the API server's default for these kinds is Orphan.
func (d *draft) orphans(field string) {
	if d.spec.PropagationPolicy != "" {
		return
	}
	orphaned, others := "", false
	for _, rule := range d.spec.MatchConstraints.ResourceRules {
		for _, plural := range rule.Resources {
			switch {
			case plural == "jobs" && slices.Contains(rule.APIGroups, "batch"), plural == "replicationcontrollers" && slices.Contains(rule.APIGroups, ""):
				orphaned = plural
			default:
				others = true
			}
		}
	}
	switch {
	case orphaned == "":
	case others:
		d.lost(field, "is absent: Pods of %s were kept, and Curfew deletes them: keep %[1]s out of the policy and write one of their own "+
			"with propagationPolicy: Orphan, or set Background in the source", orphaned)
	default:
		d.spec.PropagationPolicy = metav1.DeletePropagationOrphan
		d.note(field, "is absent, so the Pods of %s stay as before: remove propagationPolicy to delete them as well", orphaned)
	}
}

// condition adds a condition under a free name. If the policy has as many conditions as it can
// have, it joins the condition with the last one.
func (d *draft) condition(name, expression string) {
	if n := len(d.spec.Conditions); n == maxConditions {
		last := &d.spec.Conditions[n-1].Expression
		*last = v1alpha1.Expression(fmt.Sprintf("(%s) && (%s)", *last, expression))
		return
	}
	name = name[:min(len(name), 60)]
	unique := name
	for i := 2; slices.ContainsFunc(d.spec.Conditions, func(c v1alpha1.CleanupCondition) bool { return c.Name == unique }); i++ {
		unique = fmt.Sprintf("%s-%d", name, i)
	}
	d.spec.Conditions = append(d.spec.Conditions, v1alpha1.CleanupCondition{Name: unique, Expression: v1alpha1.Expression(expression)})
}

// schedule takes over a cron schedule. Every minute becomes every five minutes, which deletes the
// same, and later.
func (d *draft) schedule(text string) {
	parsed, err := schedule.Parse(text, "")
	switch {
	case err == nil && parsed.Never():
		err = fmt.Errorf("schedule %q never fires", text)
	case err == nil && parsed.MinInterval() < minInterval:
		fields := strings.Fields(text)
		if len(fields) == 5 && (fields[0] == "*" || strings.HasPrefix(fields[0], "*/")) {
			fields[0] = "*/5"
			d.spec.Schedule = strings.Join(fields, " ")
			d.note("spec.schedule", "%q is more frequent than every 5 minutes: it becomes %q", text, d.spec.Schedule)
			return
		}
		err = fmt.Errorf("schedule %q is more frequent than every 5 minutes", text)
	}
	if err != nil {
		d.lost("spec.schedule", "%v: %q is used instead", err, "@daily")
		text = "@daily"
	}
	d.spec.Schedule = text
}

// finish checks the policy and adds it to the result.
func (d *draft) finish() {
	defer d.report()
	switch {
	case d.name == "" || len(d.spec.MatchConstraints.ResourceRules) == 0:
		d.lost("spec", "is not written: it has no name, or nothing to match")
		return
	case len(d.result.Policies) == maxPolicies:
		d.lost("spec", "is not written: the file becomes more than %d policies", maxPolicies)
		return
	case slices.ContainsFunc(d.findings, func(f Finding) bool { return f.Lost }):
		d.spec.Suspend = true
		d.condition("not-converted", "false")
	}
	if policy, err := d.policy(); err != nil {
		d.lost("spec", "is not written: %v", err)
	} else {
		d.result.Policies = append(d.result.Policies, policy)
	}
}

// report adds the findings to the result. Several policies from one source share some.
func (d *draft) report() {
	for _, finding := range d.findings {
		if !slices.Contains(d.result.Findings, finding) {
			d.add(finding)
		}
	}
}

// policy fails if the controller or the API server would reject the policy.
func (d *draft) policy() (Policy, error) {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&d.spec)
	if err != nil {
		return Policy{}, fmt.Errorf("write %s: %w", d.source, err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterCleanupPolicy"))
	object.SetName(d.name)
	if d.namespaced {
		object.SetKind("CleanupPolicy")
		object.SetNamespace(d.namespace)
		spec["serviceAccountName"] = d.options.ServiceAccount
	}
	compiled := object.DeepCopy()
	if d.namespaced && d.namespace == "" {
		compiled.SetNamespace("default") // A namespace tells the two kinds apart.
	}
	if _, errs, _ := cleanup.Read(d.compiler, compiled); len(errs) > 0 {
		return Policy{}, errs.ToAggregate()
	}
	known, err := schemas()
	if err == nil {
		_, err = known.Stored(context.Background(), object.Object)
	}
	return Policy{Object: object, Spec: &d.spec, Source: d.source, Findings: d.findings}, err
}

// schemas of Curfew's kinds.
var schemas = sync.OnceValues(func() (*lint.Schemas, error) {
	_, out, err := session.Builtin()
	return out, err
})
