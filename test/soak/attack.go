package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/test/harness"
)

// attack is what three tenants do with cleanup policies, reports and accounts while the objects of
// the others expire.
type attack struct {
	cluster *harness.Cluster
	world   *world
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

func newAttack(cluster *harness.Cluster, world *world, size int) *attack {
	out := &attack{cluster: cluster, world: world, size: size, throttle: newDeleteWebhook(newRandom(0, 0))}
	out.throttle.only = denyThrottled
	return out
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
	if err := a.throttle.register(ctx, a.cluster, "attack-throttle", "system:serviceaccount:"+throttled+":"+janitor, onDelete("", "configmaps")); err != nil {
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
	name := fmt.Sprintf("keep-%d", i)
	if i%2 == 1 {
		name = fmt.Sprintf("drop-%d", i)
	}
	return a.create(ctx, "configmaps", tenant, name, nil, map[string]any{})
}

// policy makes one that runs each minute. Curfew runs the oldest ones of a namespace.
func (a *attack) policy(ctx context.Context, tenant string, i int) error {
	rule := map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": []any{"drop-*"}}
	spec := map[string]any{"schedule": "* * * * *", "serviceAccountName": janitor, "matchConstraints": map[string]any{"resourceRules": []any{rule}}}
	if tenant == expensive {
		spec["conditions"] = []any{map[string]any{"name": "a", "expression": costly}, map[string]any{"name": "b", "expression": "!lookup.owned"}}
	}
	return a.create(ctx, "cleanuppolicies", tenant, fmt.Sprint("p-", i), nil, map[string]any{"spec": spec})
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

// report makes one that claims to be of the first policy, as a page of another run each.
func (a *attack) report(ctx context.Context, tenant string, i int) error {
	first, err := a.world.of("cleanuppolicies", tenant).Get(ctx, "p-0", metav1.GetOptions{})
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
		err := a.create(ctx, "cleanupreports", tenant, fmt.Sprintf("p-0-%s-1", run), labels, fields)
		if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) { // The rule is still in effect.
			return apierrors.NewServiceUnavailable(err.Error())
		}
		return err
	})
}

// role binds a large role to an account once more.
func (a *attack) role(ctx context.Context, tenant string, i int) error {
	var names []any
	for j := range 1000 {
		names = append(names, fmt.Sprintf("a-name-as-long-as-names-are-%d", j))
	}
	rule := map[string]any{"verbs": []any{"get"}, "apiGroups": []any{""}, "resources": []any{"configmaps"}, "resourceNames": names}
	return errors.Join(
		a.create(ctx, "roles", tenant, "large", nil, map[string]any{"rules": []any{rule}}),
		a.create(ctx, "rolebindings", tenant, fmt.Sprint("large-", i), nil, map[string]any{
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "large"},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": janitor}},
		}))
}

// create creates an object unless it is there.
func (a *attack) create(ctx context.Context, resource, namespace, name string, labels map[string]string, fields map[string]any) error {
	object := &unstructured.Unstructured{Object: fields}
	object.SetGroupVersionKind(served[resource])
	object.SetName(name)
	object.SetLabels(labels)
	_, err := a.world.of(resource, namespace).Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// run deletes an account and creates it again until ctx ends, and makes more to delete.
func (a *attack) run(ctx context.Context) error {
	accounts := a.world.of("serviceaccounts", bound)
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
		if err := a.create(ctx, "serviceaccounts", bound, janitor, nil, map[string]any{}); err != nil {
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
		policies, err := a.world.of("cleanuppolicies", tenant).List(ctx, metav1.ListOptions{})
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
	list, err := a.world.of("configmaps", namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	for i := range list.Items {
		switch name, _, _ := strings.Cut(list.Items[i].GetName(), "-"); name {
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
