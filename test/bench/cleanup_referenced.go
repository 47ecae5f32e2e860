package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/harness"
)

// referencedOptions are the flags of what a lookup takes.
var referencedOptions struct{ objects, rounds, runs int }

func init() {
	register(bench{
		name: "cleanup_referenced", about: "lookup.referenced: kubectl curfew preview beside a bare list, and the memory of a run on half as many candidates", position: 37,
		run: runCleanupReferenced,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&referencedOptions.objects, "cleanup_referenced-objects", 10000, "how many ConfigMaps match; as many do not")
			fs.IntVar(&referencedOptions.rounds, "cleanup_referenced-rounds", 5, "how many rounds; each lists once and previews once; 0: none")
			fs.IntVar(&referencedOptions.runs, "cleanup_referenced-runs", 3, "how many runs of the controller for its memory; 0: none")
		},
	})
}

// runCleanupReferenced previews a policy that looks for references to all ConfigMaps, in objects of
// every kind, beside a list of them. Each is of an age at which it does. Then the controller runs
// such a policy.
func runCleanupReferenced(ctx context.Context, e *environment) ([]result, error) {
	o := referencedOptions
	if err := e.grantLists(ctx); err != nil {
		return nil, err
	}
	var out []result
	if o.rounds > 0 {
		var err error
		out, err = e.preview(ctx, o.objects, o.rounds, "cleanup.referenced.vs_list", notReferenced,
			"--at", time.Now().Add(2*time.Hour).UTC().Format(time.RFC3339))
		if err != nil {
			return nil, err
		}
	}
	if o.runs == 0 {
		return out, nil
	}
	extra, err := e.referencedMemory(ctx, o.objects/2, o.runs)
	return append(out, memoryRow("cleanup.referenced.extra_mb", extra)...), err
}

// notReferenced is the condition of a policy that deletes what nothing refers to.
const notReferenced = "!lookup.referenced"

// referencers is how many PodTemplates refer to each ConfigMap that is kept: with as many ConfigMaps
// that nothing refers to, there is a referrer for each candidate.
const referencers = 2

// referencedMemory has the controller delete ConfigMaps that nothing refers to, and keep as many
// that PodTemplates refer to. It returns what memory that took.
func (e *environment) referencedMemory(ctx context.Context, objects, runs int) (extra []float64, err error) {
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := e.grantLabels(ctx, client); err != nil {
		return nil, err
	}
	policies, err := dynamic.NewForConfig(e.config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	cluster, err := harness.OpenCluster(e.clusterDir())
	if err != nil {
		return nil, err
	}
	c := &referenced{cluster: cluster, cleaned: cleaned{labelled: labelled{client},
		policies: policies.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupPolicies)), others: jobSet{prefix: "used", count: objects}}}
	var memory extraMemory
	d := &contest{env: e, name: "cleanup_referenced", jobs: objects, rounds: runs, load: c}
	_, _, err = d.drain(ctx, e, []contestant{{name: theCurfew, about: "Curfew", start: memory.start}})
	if err == nil {
		err = c.allKept(ctx)
	}
	err = errors.Join(err, c.labelled.clear(ctx, c.others), client.CoreV1().PodTemplates(benchNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	return memory.extra(), err
}

// referenced makes ConfigMaps fall due because nothing refers to them, beside others.
type referenced struct {
	cleaned
	cluster *harness.Cluster
}

// namespace makes the namespace, and once the others and what refers to them.
func (r *referenced) namespace(ctx context.Context) error {
	if err := r.labelled.namespace(ctx); err != nil || r.made {
		return err
	}
	r.made = true
	if err := r.create(ctx, r.others); err != nil {
		return err
	}
	return r.others.each(ctx, loaders, func(ctx context.Context, name string) error {
		volume := corev1.Volume{Name: "settings", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}
		for range referencers {
			_, err := r.client.CoreV1().PodTemplates(benchNamespace).Create(ctx, &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{GenerateName: "of-"},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "bench"}},
					Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}, Volumes: []corev1.Volume{volume}}}}, metav1.CreateOptions{})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// create makes ConfigMaps that are two hours old: no lookup decides about younger ones.
func (r *referenced) create(ctx context.Context, set jobSet) error {
	if err := r.labelled.create(ctx, set); err != nil {
		return err
	}
	created := time.Now().Add(-2 * time.Hour)
	return set.each(ctx, loaders, func(ctx context.Context, name string) error {
		done, err := r.cluster.Age(ctx, resourceConfigMaps, benchNamespace, name, created)
		if err == nil && !done {
			err = errors.New("it was written meanwhile")
		}
		return err
	})
}

// finish creates the policy.
func (r *referenced) finish(ctx context.Context, set jobSet, due time.Time) error {
	policy := policyOf(set.prefix, scheduleAt(due))
	conditions := []any{map[string]any{"name": "unused", "expression": notReferenced}}
	if err := unstructured.SetNestedSlice(policy.Object, conditions, "spec", "conditions"); err != nil {
		return fmt.Errorf("write the policy: %w", err)
	}
	return r.apply(ctx, policy)
}

// grantLists lets cleanup policies list all that may refer to an object.
func (e *environment) grantLists(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-lists"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"list"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta,
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "curfew-cleanup", Namespace: "curfew-system"}},
	}
	_, err = client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
	if err == nil {
		_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("let cleanup policies list all kinds: %w", err)
	}
	return nil
}
