package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/test/harness"
)

// attack is what three tenants do with cleanup policies, reports and accounts while the objects of
// the others expire.
type attack struct {
	cluster *harness.Cluster
	world   *world
	custom  dynamic.Interface
	// size is how many policies and how many forged reports each tenant has.
	size int
	// throttle answers 429 to each DELETE of the tenant throttled.
	throttle *deleteWebhook
}

// The namespaces of the tenants. Each has size policies, size reports that claim to be of one of
// them, and an account with hundreds of large roles.
const (
	// expensive has conditions that cost as much as they may, and are evaluated again before each DELETE.
	expensive = "attack-expensive"
	// throttled has a webhook that answers its account 429.
	throttled = "attack-throttled"
	// bound has an account that is deleted again and again.
	bound = "attack-bound"
)

const (
	// attackObjects is how many ConfigMaps of each name a tenant has: keep-*, which no policy may
	// delete, and drop-*.
	attackObjects = 200
	attackRoles   = 300
	janitor       = "janitor"
	// costly is true and costs 986,665, just below the limit of one evaluation.
	costly = `[1,2,3,4,5,6,7,8].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, ` +
		`[1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a+b+c+d+e > 0)))))`
)

var tenants = []string{expensive, throttled, bound}

// honest has what ClusterCleanupPolicies delete beside the attack.
const honest = "attack-honest"

func newAttack(cluster *harness.Cluster, world *world, size int) (*attack, error) {
	custom, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		return nil, err
	}
	out := &attack{cluster: cluster, world: world, custom: custom, size: size, throttle: newDeleteWebhook(newRandom(0, 0))}
	out.throttle.only = denyThrottled
	return out, nil
}

// prepare creates all objects that the attack needs, while no webhook answers that would refuse
// some. Only Curfew may write reports, so prepare removes that rule for a while.
func (a *attack) prepare(ctx context.Context) error {
	for _, tenant := range tenants {
		if err := a.cluster.NewNamespace(ctx, tenant, nil); err != nil {
			return err
		}
		if _, stderr, err := a.cluster.KubectlInput(ctx, strings.ReplaceAll(attackAccount, "$", tenant), "apply", "-f", "-"); err != nil {
			return fmt.Errorf("make the account of %s: %w\n%s", tenant, err, stderr)
		}
	}
	if _, stderr, err := a.cluster.Kubectl(ctx, "delete", "validatingadmissionpolicybinding", "curfew-status"); err != nil {
		return fmt.Errorf("let others write reports: %w\n%s", err, stderr)
	}
	if err := a.throttle.register(ctx, a.world, "attack-throttle", "system:serviceaccount:"+throttled+":"+janitor, onDelete("", "configmaps")); err != nil {
		return err
	}
	if err := a.prepareHonest(ctx); err != nil {
		return err
	}
	// The first policy is the oldest, and runs.
	if err := a.many(ctx, 1, a.policy); err != nil {
		return err
	}
	pause(ctx, 2*time.Second)
	return errors.Join(a.many(ctx, 2*attackObjects, a.object), a.many(ctx, a.size, a.policy), a.many(ctx, a.size, a.report), a.many(ctx, attackRoles, a.role))
}

// many makes so many things for each tenant.
func (a *attack) many(ctx context.Context, count int, do func(ctx context.Context, tenant string, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loaders)
	for _, tenant := range tenants {
		for i := range count {
			group.Go(func() error { return do(ctx, tenant, i) })
		}
	}
	return group.Wait()
}

func (a *attack) object(ctx context.Context, tenant string, i int) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("keep-%d", i)}}
	if i%2 == 1 {
		object.Name = fmt.Sprintf("drop-%d", i)
	}
	_, err := a.world.typed.CoreV1().ConfigMaps(tenant).Create(ctx, object, metav1.CreateOptions{})
	return unlessThere(err)
}

// policy makes one that runs each minute. Curfew runs the oldest ones of a namespace.
func (a *attack) policy(ctx context.Context, tenant string, i int) error {
	rule := map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": []any{"drop-*"}}
	spec := map[string]any{"schedule": "* * * * *", "serviceAccountName": janitor, "matchConstraints": map[string]any{"resourceRules": []any{rule}}}
	if tenant == expensive {
		spec["conditions"] = []any{map[string]any{"name": "a", "expression": costly}, map[string]any{"name": "b", "expression": "!lookup.owned"}}
	}
	return a.create(ctx, "CleanupPolicy", tenant, fmt.Sprint("p-", i), nil, map[string]any{"spec": spec})
}

// prepareHonest makes a namespace with objects and a ClusterCleanupPolicy that deletes some of them.
func (a *attack) prepareHonest(ctx context.Context) error {
	if err := a.cluster.NewNamespace(ctx, honest, nil); err != nil {
		return err
	}
	if _, stderr, err := a.cluster.KubectlInput(ctx, strings.ReplaceAll(honestPolicy, "$", honest), "apply", "-f", "-"); err != nil {
		return fmt.Errorf("make a ClusterCleanupPolicy: %w\n%s", err, stderr)
	}
	for i := range 2 * attackObjects {
		if err := a.object(ctx, honest, i); err != nil {
			return err
		}
	}
	return nil
}

func (a *attack) policies(tenant string) dynamic.ResourceInterface {
	return a.custom.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupPolicies)).Namespace(tenant)
}

// report makes one that claims to be of the first policy, as a page of another run each.
func (a *attack) report(ctx context.Context, tenant string, i int) error {
	first, err := a.policies(tenant).Get(ctx, "p-0", metav1.GetOptions{})
	if err != nil {
		return err
	}
	uid := string(first.GetUID())
	run := time.Now().UTC().Add(-time.Duration(i)*time.Minute).Format("20060102-1504") + "-" + uid[:8]
	var objects []any
	for j := range 100 {
		name := fmt.Sprintf("keep-%d", 2*j)
		objects = append(objects, map[string]any{"version": "v1", "kind": "ConfigMap", "resource": "configmaps", "namespace": tenant, "name": name, "uid": name, "resourceVersion": "1"})
	}
	labels := map[string]string{prefix + "cleanup-policy-uid": uid, prefix + "cleanup-run": run}
	fields := map[string]any{"policy": map[string]any{"name": "p-0", "uid": uid}, "run": run, "page": int64(1), "objects": objects}
	return insist(ctx, func(ctx context.Context) error {
		err := a.create(ctx, "CleanupReport", tenant, fmt.Sprintf("p-0-%s-1", run), labels, fields)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) { // The rule is still in effect.
			return apierrors.NewServiceUnavailable(err.Error())
		}
		return err
	})
}

// role binds a large role to an account once more.
func (a *attack) role(ctx context.Context, tenant string, i int) error {
	large := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}
	for j := range 1000 {
		large.Rules[0].ResourceNames = append(large.Rules[0].ResourceNames, fmt.Sprintf("a-name-as-long-as-names-are-%d", j))
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("large-", i)}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: large.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: janitor}},
	}
	_, err := a.world.typed.RbacV1().Roles(tenant).Create(ctx, large, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = a.world.typed.RbacV1().RoleBindings(tenant).Create(ctx, binding, metav1.CreateOptions{})
	}
	return err
}

func (a *attack) create(ctx context.Context, kind, namespace, name string, labels map[string]string, fields map[string]any) error {
	object := &unstructured.Unstructured{Object: fields}
	object.SetAPIVersion(v1alpha1.GroupVersion.String())
	object.SetKind(kind)
	object.SetName(name)
	object.SetLabels(labels)
	to := v1alpha1.GroupVersion.WithResource(map[string]string{"CleanupPolicy": v1alpha1.CleanupPolicies, "CleanupReport": v1alpha1.CleanupReports}[kind])
	_, err := a.custom.Resource(to).Namespace(namespace).Create(ctx, object, metav1.CreateOptions{})
	return unlessThere(err)
}

// unlessThere is the error of a creation whose object is not there.
func unlessThere(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// run deletes an account and creates it again until ctx ends, and makes more to delete.
func (a *attack) run(ctx context.Context) error {
	accounts := a.world.typed.CoreV1().ServiceAccounts(bound)
	for i := 2 * attackObjects; ; i += 20 {
		for j := range 10 {
			if err := errors.Join(a.object(ctx, bound, i+2*j+1), a.object(ctx, expensive, i+2*j+1)); err != nil {
				return ignoreEnd(ctx, err)
			}
		}
		pause(ctx, 2*time.Second)
		if err := accounts.Delete(ctx, janitor, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return ignoreEnd(ctx, err)
		}
		pause(ctx, time.Second)
		_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: janitor}}, metav1.CreateOptions{})
		if unlessThere(err) != nil {
			return ignoreEnd(ctx, err)
		}
	}
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("attack: %w", err)
}

// check returns what was deleted that no policy may delete, and an error if there was no attack.
func (a *attack) check(ctx context.Context) (wrong []string, err error) {
	for _, tenant := range tenants {
		keep, drop, err := a.left(ctx, tenant)
		if err != nil {
			return nil, err
		}
		if keep < attackObjects {
			wrong = append(wrong, fmt.Sprintf("%d ConfigMaps of %s that match no policy", attackObjects-keep, tenant))
		}
		if drop < attackObjects && tenant == throttled {
			wrong = append(wrong, fmt.Sprintf("%d ConfigMaps of %s that a webhook keeps", attackObjects-drop, tenant))
		}
		policies, err := a.policies(tenant).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		runs := 0
		for i := range policies.Items {
			if _, began, _ := unstructured.NestedMap(policies.Items[i].Object, "status", "lastRun"); began {
				runs++
			}
		}
		if runs == 0 {
			return nil, fmt.Errorf("no policy of %s has run: it has attacked no tenant", tenant)
		}
	}
	if a.throttle.gave(denyThrottled) == 0 {
		return nil, fmt.Errorf("no DELETE of %s was answered 429", throttled)
	}
	return wrong, a.checkHonest(ctx)
}

// checkHonest is an error unless the ClusterCleanupPolicy has deleted what it matches, and no more.
// Its run may be under way.
func (a *attack) checkHonest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, honestWithin)
	defer cancel()
	for {
		keep, drop, err := a.left(ctx, honest)
		switch {
		case err != nil:
			return fmt.Errorf("ConfigMaps of %s: %w", honest, err)
		case keep == attackObjects && drop == 0:
			return nil
		case keep < attackObjects || ctx.Err() != nil:
			return fmt.Errorf("a ClusterCleanupPolicy has left %d of %d ConfigMaps to keep and %d to delete", keep, attackObjects, drop)
		}
		pause(ctx, time.Second)
	}
}

// honestWithin is how long the next run of a ClusterCleanupPolicy may take: it starts each minute.
const honestWithin = 90 * time.Second

// left is how many ConfigMaps of each name a namespace has.
func (a *attack) left(ctx context.Context, namespace string) (keep, drop int, err error) {
	list, err := a.world.typed.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	for i := range list.Items {
		switch name, _, _ := strings.Cut(list.Items[i].Name, "-"); name {
		case "keep":
			keep++
		case "drop":
			drop++
		}
	}
	return keep, drop, nil
}

// attackAccount is an account that may delete ConfigMaps of a namespace, and as which Curfew acts.
const attackAccount = `
{apiVersion: v1, kind: ServiceAccount, metadata: {name: janitor, namespace: $}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: janitor, namespace: $}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, delete]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: janitor, namespace: $},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: janitor}, subjects: [{kind: ServiceAccount, name: janitor}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: curfew-impersonate, namespace: $},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: curfew-impersonate}, subjects: [{kind: ServiceAccount, name: curfew-controller, namespace: curfew-system}]}
`

// honestPolicy is a ClusterCleanupPolicy, and what its account may do.
const honestPolicy = `
{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: honest}, spec: {schedule: "* * * * *", matchConstraints: {
 namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $}}, resourceRules: [{apiGroups: [""], resources: [configmaps], resourceNames: ["drop-*"]}]}}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: swept, namespace: $}, rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, delete]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: swept, namespace: $},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: swept}, subjects: [{kind: ServiceAccount, name: curfew-cleanup, namespace: curfew-system}]}
`
