package harness

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"

	"curfew.dev/curfew/policy/wellknown"
)

// Grant is one verb on one resource that a role gives to an account of Curfew's namespace.
type Grant struct {
	Account, Verb string
	// On is the resource with its group, and its subresource if there is one.
	On schema.GroupResource
	// Name is that of a single object; empty for all.
	Name string
}

// String is how lists of exceptions write it.
func (g Grant) String() string {
	on := g.On.String()
	if g.Name != "" {
		on += " " + g.Name
	}
	return strings.Join([]string{g.Account, g.Verb, on}, " ")
}

// Granted are the verbs of Curfew's roles, as far as the API server serves the resource, and whether
// one of its accounts has used them, according to the audit log.
func (c *Cluster) Granted(ctx context.Context) (map[string]bool, error) {
	granted, err := c.grants(ctx)
	if err != nil {
		return nil, err
	}
	_, lists, err := c.Client.Discovery().ServerGroupsAndResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) { // A group of a test may be about to go.
		return nil, fmt.Errorf("list the served resources: %w", err)
	}
	served := map[schema.GroupResource]bool{{Resource: "serviceaccounts"}: true}
	for _, list := range lists {
		groupVersion, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			served[schema.GroupResource{Group: groupVersion.Group, Resource: resource.Name}] = true
		}
	}
	used, err := c.used()
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, grant := range granted {
		if served[grant.On] {
			out[grant.String()] = false
		}
	}
	for use := range used {
		if _, byName := out[use.String()]; !byName {
			use.Name = ""
		}
		if _, granted := out[use.String()]; granted {
			out[use.String()] = true
		}
	}
	return out, nil
}

// used are the requests of Curfew's accounts that RBAC allowed, as the narrowest grants that allow
// them. Requests that a test sends as one of these accounts are not Curfew's.
func (c *Cluster) used() (map[Grant]bool, error) {
	const accounts = "system:serviceaccount:" + Namespace + ":"
	used := map[Grant]bool{}
	err := c.eachAudited(func(event *auditEvent) {
		if event.ResponseStatus.Code == http.StatusForbidden || !strings.HasPrefix(event.User.Username, accounts) {
			return
		}
		add := func(user, verb string, on schema.GroupResource, name string) {
			if account, own := strings.CutPrefix(user, accounts); own {
				used[Grant{account, verb, on, name}] = true
			}
		}
		user, row := event.User.Username, event.ObjectRef
		if as := event.ImpersonatedUser.Username; as != "" {
			add(user, "impersonate", schema.GroupResource{Resource: "serviceaccounts"}, as[strings.LastIndex(as, ":")+1:])
			user = as
		}
		on := schema.GroupResource{Group: row.APIGroup, Resource: row.Resource}
		if row.Subresource != "" {
			on.Resource += "/" + row.Subresource
		}
		add(user, event.Verb, on, row.Name)
		if event.Verb == "watch" && strings.Contains(event.RequestURI, "sendInitialEvents=true") {
			add(user, "list", on, row.Name) // client-go lists where the API server does not stream.
		}
		if event.Verb == "patch" && event.ResponseStatus.Code == http.StatusCreated {
			add(user, "create", on, row.Name) // A server-side apply that creates needs both verbs.
		}
	})
	return used, err
}

// grants are the rules of the roles that Curfew's manifests bind to its accounts.
func (c *Cluster) grants(ctx context.Context) ([]Grant, error) {
	labelled := metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=curfew"}
	clusterRoles, err := c.Client.RbacV1().ClusterRoles().List(ctx, labelled)
	if err != nil {
		return nil, fmt.Errorf("list the ClusterRoles: %w", err)
	}
	roles, err := c.Client.RbacV1().Roles(Namespace).List(ctx, labelled)
	if err != nil {
		return nil, fmt.Errorf("list the Roles: %w", err)
	}
	clusterBindings, err := c.Client.RbacV1().ClusterRoleBindings().List(ctx, labelled)
	if err != nil {
		return nil, fmt.Errorf("list the ClusterRoleBindings: %w", err)
	}
	bindings, err := c.Client.RbacV1().RoleBindings(Namespace).List(ctx, labelled)
	if err != nil {
		return nil, fmt.Errorf("list the RoleBindings: %w", err)
	}
	bound := map[rbacv1.RoleRef][]rbacv1.Subject{}
	for _, binding := range clusterBindings.Items {
		bound[binding.RoleRef] = append(bound[binding.RoleRef], binding.Subjects...)
	}
	for _, binding := range bindings.Items {
		bound[binding.RoleRef] = append(bound[binding.RoleRef], binding.Subjects...)
	}
	var out []Grant
	add := func(kind, name string, rules []rbacv1.PolicyRule) {
		for _, subject := range bound[rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}] {
			out = append(out, expand(subject.Name, rules)...)
		}
	}
	for i := range clusterRoles.Items {
		role := &clusterRoles.Items[i]
		_, feature := role.Labels[wellknown.LabelFeature]
		switch _, kinds := role.Labels[wellknown.LabelAggregate]; {
		case role.AggregationRule != nil: // It collects the rules of other roles.
		case feature || kinds || role.Name == "curfew-impersonate":
			out = append(out, expand("curfew-controller", role.Rules)...)
		default:
			add("ClusterRole", role.Name, role.Rules)
		}
	}
	for i := range roles.Items {
		add("Role", roles.Items[i].Name, roles.Items[i].Rules)
	}
	return out, nil
}

// WaitForRoles returns when Curfew's aggregated ClusterRoles have all rules of the roles that they
// select. The controller manager copies them, a moment after a role was created.
func WaitForRoles(ctx context.Context, client kubernetes.Interface) error {
	return Poll(ctx, "the aggregated ClusterRoles", func(ctx context.Context) (bool, error) {
		list, err := client.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=curfew"})
		if err != nil {
			return false, fmt.Errorf("list the ClusterRoles: %w", err)
		}
		for _, whole := range list.Items {
			if whole.AggregationRule == nil {
				continue
			}
			selector, err := metav1.LabelSelectorAsSelector(&whole.AggregationRule.ClusterRoleSelectors[0])
			if err != nil {
				return false, err
			}
			for _, part := range list.Items {
				lacks := func(rule rbacv1.PolicyRule) bool {
					return !slices.ContainsFunc(whole.Rules, func(has rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(has, rule) })
				}
				if selector.Matches(labels.Set(part.Labels)) && slices.ContainsFunc(part.Rules, lacks) {
					return false, nil
				}
			}
		}
		return true, nil
	})
}

func expand(account string, rules []rbacv1.PolicyRule) (out []Grant) {
	for _, rule := range rules {
		names := rule.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					for _, name := range names {
						out = append(out, Grant{account, verb, schema.GroupResource{Group: group, Resource: resource}, name})
					}
				}
			}
		}
	}
	return out
}
