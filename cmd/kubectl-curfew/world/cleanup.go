package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// CleanupPolicy is a cleanup policy of either kind.
type CleanupPolicy struct {
	// Kind is CleanupPolicy or ClusterCleanupPolicy.
	Kind string
	metav1.ObjectMeta
	Spec   v1alpha1.CleanupSpec
	Status v1alpha1.CleanupPolicyStatus
	// Compile compiles the policy.
	Compile func(*expression.Compiler) (*cleanup.Policy, field.ErrorList)
}

// String names the policy as kubectl does, with its namespace.
func (p *CleanupPolicy) String() string {
	out := strings.ToLower(p.Kind) + "/" + p.Name
	if p.Namespace != "" {
		out += fmt.Sprintf(" in namespace %q", p.Namespace)
	}
	return out
}

// Source names the policy as the source of deletions.
func (p *CleanupPolicy) Source() string {
	return (&cleanup.Policy{Namespace: p.Namespace, Name: p.Name}).ID()
}

func (p *CleanupPolicy) cluster() bool { return p.Kind == "ClusterCleanupPolicy" }

// at is a resource of the policy's scope: the first for a ClusterCleanupPolicy.
func (p *CleanupPolicy) at(cluster, namespaced string) schema.GroupVersionResource {
	if p.cluster() {
		return v1alpha1.GroupVersion.WithResource(cluster)
	}
	return v1alpha1.GroupVersion.WithResource(namespaced)
}

// cleanupKinds are the names of the kinds that a reference may begin with.
var cleanupKinds = map[string]string{
	"cleanuppolicy": v1alpha1.CleanupPolicies, "cleanuppolicies": v1alpha1.CleanupPolicies, "cup": v1alpha1.CleanupPolicies,
	"clustercleanuppolicy": v1alpha1.ClusterCleanupPolicies, "clustercleanuppolicies": v1alpha1.ClusterCleanupPolicies, "ccup": v1alpha1.ClusterCleanupPolicies,
}

// CleanupPolicy reads the policy that a user named: NAME, or KIND/NAME where policies of both kinds
// have that name.
func (w *World) CleanupPolicy(ctx context.Context, reference, namespace string) (*CleanupPolicy, error) {
	resources, name := []string{v1alpha1.CleanupPolicies, v1alpha1.ClusterCleanupPolicies}, reference
	if kind, of, ok := strings.Cut(reference, "/"); ok {
		resource := cleanupKinds[strings.TrimSuffix(strings.ToLower(kind), "."+wellknown.Group)]
		if resource == "" {
			return nil, fmt.Errorf("%q is no kind of cleanup policy: give cleanuppolicy/NAME or clustercleanuppolicy/NAME", kind)
		}
		resources, name = []string{resource}, of
	}
	var found []*CleanupPolicy
	var unread []string
	for _, resource := range resources {
		one, presence, err := w.readCleanupPolicy(ctx, resource, namespace, name)
		switch {
		case err != nil:
			return nil, err
		case presence == Found:
			found = append(found, one)
		case presence == Unread:
			unread = append(unread, resource)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("policies of two kinds have this name: give cleanuppolicy/%s or clustercleanuppolicy/%[1]s", name)
	case len(unread) > 0:
		return nil, fmt.Errorf("you may not get %s: ask for a role that allows it", strings.Join(unread, " or "))
	case len(resources) == 1 && resources[0] == v1alpha1.ClusterCleanupPolicies:
		return nil, fmt.Errorf("there is no ClusterCleanupPolicy %q", name)
	case len(resources) == 1:
		return nil, fmt.Errorf("there is no CleanupPolicy %q in namespace %q", name, namespace)
	}
	return nil, fmt.Errorf("there is no CleanupPolicy %q in namespace %q, and no ClusterCleanupPolicy of that name", name, namespace)
}

func (w *World) readCleanupPolicy(ctx context.Context, resource, namespace, name string) (*CleanupPolicy, Presence, error) {
	at := v1alpha1.GroupVersion.WithResource(resource)
	if resource == v1alpha1.ClusterCleanupPolicies {
		read, presence, err := Read[v1alpha1.ClusterCleanupPolicy](ctx, w, at, "", name)
		if presence != Found {
			return nil, presence, err
		}
		return clusterCleanupPolicy(read), presence, nil
	}
	read, presence, err := Read[v1alpha1.CleanupPolicy](ctx, w, at, namespace, name)
	if presence != Found {
		return nil, presence, err
	}
	return cleanupPolicy(read), presence, nil
}

func clusterCleanupPolicy(read *v1alpha1.ClusterCleanupPolicy) *CleanupPolicy {
	compile := func(c *expression.Compiler) (*cleanup.Policy, field.ErrorList) { return cleanup.Compile(c, read) }
	return &CleanupPolicy{"ClusterCleanupPolicy", read.ObjectMeta, read.Spec.CleanupSpec, read.Status, compile}
}

func cleanupPolicy(read *v1alpha1.CleanupPolicy) *CleanupPolicy {
	compile := func(c *expression.Compiler) (*cleanup.Policy, field.ErrorList) {
		return cleanup.CompileNamespaced(c, read)
	}
	return &CleanupPolicy{"CleanupPolicy", read.ObjectMeta, read.Spec.CleanupSpec, read.Status, compile}
}

// CleanupReports are the report pages of a policy that list objects, by run and page.
func (w *World) CleanupReports(ctx context.Context, p *CleanupPolicy) ([]*v1alpha1.CleanupReport, error) {
	pages, presence, err := w.reportPages(ctx, p)
	if err != nil {
		return nil, err
	}
	if presence == Unread {
		return nil, fmt.Errorf("you may not list %s: ask for a role that allows it", p.reports().Resource)
	}
	return slices.DeleteFunc(pages, func(page *v1alpha1.CleanupReport) bool { return len(page.Matched) > 0 }), nil
}

// CleanupMatched is in how many runs in a row objects have matched before a run that starts now.
func (w *World) CleanupMatched(ctx context.Context, p *CleanupPolicy, compiled *cleanup.Policy, now time.Time) (cleanup.Matched, error) {
	left := p.Status.Matches
	if left == nil {
		return nil, nil
	}
	due, _ := compiled.Schedule.Latest(left.ScheduledTime.Time, now)
	if due.IsZero() {
		due = compiled.Schedule.Next(left.ScheduledTime.Time)
	}
	pages, presence, err := w.reportPages(ctx, p)
	if err != nil {
		return nil, err
	}
	if presence == Unread {
		w.Note(fmt.Sprintf("you may not list %s: in how many runs objects have matched before is not known", p.reports().Resource))
	}
	return compiled.ReadMatched(left, due, func(number int32) ([]byte, error) {
		i := slices.IndexFunc(pages, func(page *v1alpha1.CleanupReport) bool {
			return page.Run == left.Run && page.Page == number && len(page.Matched) > 0
		})
		if i < 0 {
			return nil, nil
		}
		return pages[i].Matched, nil
	})
}

// reports is the resource of the policy's report pages.
func (p *CleanupPolicy) reports() schema.GroupVersionResource {
	return p.at(v1alpha1.ClusterCleanupReports, v1alpha1.CleanupReports)
}

func (w *World) reportPages(ctx context.Context, p *CleanupPolicy) ([]*v1alpha1.CleanupReport, Presence, error) {
	pages, presence, err := Items[v1alpha1.CleanupReport](ctx, w, p.reports(), p.Namespace, v1alpha1.LabelCleanupPolicyUID+"="+string(p.UID))
	slices.SortFunc(pages, func(a, b *v1alpha1.CleanupReport) int {
		return cmp.Or(strings.Compare(a.Run, b.Run), cmp.Compare(a.Page, b.Page))
	})
	return pages, presence, err
}

// ApproveCleanup creates the approval of a spec of a policy, by its hash, and reports whether there
// was none. The policy owns the approval, which is deleted with it.
func (w *World) ApproveCleanup(ctx context.Context, p *CleanupPolicy, hash string) (approval string, created bool, err error) {
	kind := strings.TrimSuffix(p.Kind, "Policy") + "Approval"
	name := fmt.Sprintf("%s-%.8s-%.8s", strings.TrimRight(p.Name[:min(len(p.Name), 200)], ".-"), p.UID, hash)
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.CleanupApprovalSpec{PolicyUID: p.UID, SpecHash: hash})
	if err != nil {
		return "", false, err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
	object.SetNamespace(p.Namespace)
	object.SetName(name)
	object.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: p.Kind, Name: p.Name, UID: p.UID}})
	client := w.clients.Objects.Resource(p.at(v1alpha1.ClusterCleanupApprovals, v1alpha1.CleanupApprovals)).Namespace(p.Namespace)
	approval = Kind{GroupVersionKind: object.GroupVersionKind()}.Name(name)
	_, err = client.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
	if !apierrors.IsAlreadyExists(err) {
		return approval, err == nil, err
	}
	known, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return approval, false, err
	}
	uid, _, _ := unstructured.NestedString(known.Object, "spec", "policyUID")
	approved, _, _ := unstructured.NestedString(known.Object, "spec", "specHash")
	if types.UID(uid) != p.UID || approved != hash {
		return approval, false, errors.New("an approval of something else has this name: delete it")
	}
	return approval, false, nil
}

// CleanupPolicies returns the policies that may delete objects of a namespace, or with "" of any.
// With clusterScoped it returns the policies that may delete cluster-scoped objects. unread are the
// kinds that the user may not list.
func (w *World) CleanupPolicies(ctx context.Context, namespace string, clusterScoped bool) (all []*CleanupPolicy, unread []string, err error) {
	add := func(resource string, presence Presence, err error) error {
		if err == nil && presence == Unread {
			unread = append(unread, resource)
		}
		if Gone(err) {
			err = nil
		}
		return err
	}
	wide, presence, err := Items[v1alpha1.ClusterCleanupPolicy](ctx, w, v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupPolicies), "", "")
	if err := add(v1alpha1.ClusterCleanupPolicies, presence, err); err != nil {
		return nil, nil, err
	}
	for _, one := range wide {
		all = append(all, clusterCleanupPolicy(one))
	}
	if clusterScoped {
		return all, unread, nil
	}
	narrow, presence, err := Items[v1alpha1.CleanupPolicy](ctx, w, v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies), namespace, "")
	if err := add(v1alpha1.CleanupPolicies, presence, err); err != nil {
		return nil, nil, err
	}
	for _, one := range narrow {
		all = append(all, cleanupPolicy(one))
	}
	return all, unread, nil
}

// BlockRun adds the obstacles to all cleanup runs to the entry of one policy.
func (w *World) BlockRun(entry *Entry) {
	around := w.Controller.Surroundings()
	blocked := slices.Concat(around.SwitchedOff(policy.TriggerCleanup), w.Controller.down(),
		w.heldByPause(entry.Kind.GroupVersionKind, entry.Namespace, entry.Name, policy.TriggerCleanup, entry.Expiry))
	if around.DryRun {
		blocked = append(blocked, judging.Obstacle{Kind: judging.ObstacleDryRun, Message: "the controller runs with --dry-run", Stops: true})
	}
	entry.Obstacles = append(blocked, entry.Obstacles...)
	entry.Uncertain = (entry.Uncertain || len(w.Controller.unknown()) > 0) && entry.Blocker() == nil
}

// HistoryLimits says how many finished Jobs the CronJob that owns a Job keeps; "" for none, and
// where the user may not list CronJobs.
func (w *World) HistoryLimits(ctx context.Context, facts *policy.Facts) (string, error) {
	name := cronJobOf(facts)
	if name == "" {
		return "", nil
	}
	limits, err := w.historyLimits(ctx, facts.Namespace)
	return limits[types.NamespacedName{Namespace: facts.Namespace, Name: name}], err
}

// AddHistory sets History of the Jobs that CronJobs own. It lists the CronJobs of the namespace, or
// with "" of all, once, and only if there are such Jobs.
func (w *World) AddHistory(ctx context.Context, namespace string, entries []*Entry) error {
	for _, entry := range entries {
		if entry.CronJob == "" {
			continue
		}
		limits, err := w.historyLimits(ctx, namespace)
		if err != nil {
			return err
		}
		entry.History = limits[types.NamespacedName{Namespace: entry.Namespace, Name: entry.CronJob}]
	}
	return nil
}

// historyLimits are the limits of the CronJobs of a namespace, or with "" of all, in words.
func (w *World) historyLimits(ctx context.Context, namespace string) (map[types.NamespacedName]string, error) {
	return w.histories.get(namespace, func() (map[types.NamespacedName]string, error) {
		all, _, err := Items[batchv1.CronJob](ctx, w, batchv1.SchemeGroupVersion.WithResource("cronjobs"), namespace, "")
		if status := apierrors.APIStatus(nil); errors.As(err, &status) && !Gone(err) {
			w.Note("history limits of CronJobs are not known: " + err.Error())
		} else if err != nil && !Gone(err) {
			return nil, err
		}
		out := map[types.NamespacedName]string{}
		for _, one := range all {
			out[types.NamespacedName{Namespace: one.Namespace, Name: one.Name}] = fmt.Sprintf("keeps the newest Jobs of CronJob %s: successfulJobsHistoryLimit %d, failedJobsHistoryLimit %d", one.Name,
				ptr.Deref(one.Spec.SuccessfulJobsHistoryLimit, 3), ptr.Deref(one.Spec.FailedJobsHistoryLimit, 1))
		}
		return out, nil
	})
}
