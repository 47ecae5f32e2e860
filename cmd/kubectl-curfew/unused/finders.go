package unused

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// kind is a kind that the command reports on.
type kind struct{ group, name, resource, short string }

// finder finds unused objects of its kinds, as a cleanup policy does. One finder reads the cluster
// once for all of its kinds.
type finder struct {
	policy, condition string // names of both
	expression        string
	// named: it asks once for each object, so that a user has to name its kinds.
	named bool
	kinds []kind
}

// finders are all of them.
var finders = []finder{
	{"unused", "unreferenced", "!lookup.referenced", false, []kind{
		{"", "ConfigMap", "configmaps", "cm"}, {"", "Secret", "secrets", ""}, {"", "ServiceAccount", "serviceaccounts", "sa"},
		{"networking.k8s.io", "IngressClass", "ingressclasses", ""}, {"node.k8s.io", "RuntimeClass", "runtimeclasses", ""},
		{"scheduling.k8s.io", "PriorityClass", "priorityclasses", "pc"}, {"storage.k8s.io", "StorageClass", "storageclasses", "sc"},
	}},
	{"unmounted-claims", "unmounted", "!lookup.mounted", false, []kind{{"", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc"}}},
	{"idle-services", "selects-nothing", "!lookup.selects", false, []kind{{"", "Service", "services", "svc"}}},
	{"dangling", "dangling", "lookup.dangling", false, []kind{
		{"autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa"}, {"networking.k8s.io", "Ingress", "ingresses", "ing"},
	}},
	{"empty-namespaces", "empty", "!lookup.instances", true, []kind{{"", "Namespace", "namespaces", "ns"}}},
	{"empty-nodes", "empty", "!lookup.instances", true, []kind{{"", "Node", "nodes", "no"}}},
}

// kindNames are the kinds of all finders.
func kindNames() (out []string) {
	for i := range finders {
		for _, one := range finders[i].kinds {
			out = append(out, one.name)
		}
	}
	return out
}

// findersOf are the finders of the kinds that a user named; by default all that need no name.
func findersOf(named []string) ([]finder, error) {
	known := map[string]bool{}
	var out []finder
	for _, of := range finders {
		var kinds []kind
		for _, one := range of.kinds {
			names := []string{strings.ToLower(one.name), one.resource, one.short}
			chosen := len(named) == 0 && !of.named
			for _, name := range names {
				known[name] = true
				chosen = chosen || slices.ContainsFunc(named, func(given string) bool { return name != "" && strings.EqualFold(given, name) })
			}
			if chosen {
				kinds = append(kinds, one)
			}
		}
		if of.kinds = kinds; len(kinds) > 0 {
			out = append(out, of)
		}
	}
	for _, name := range named {
		if name == "" || !known[strings.ToLower(name)] {
			return nil, fmt.Errorf("--kind %q: give %s", name, strings.Join(kindNames(), ", "))
		}
	}
	return out, nil
}

// head is what the manifest of a policy begins with.
const head = `# Deletes what "kubectl curfew unused" reports, once it was unused in all runs of three weeks. It is a dry run: look
# at "kubectl curfew report %s" before you remove dryRun. manifests/samples/17-unused.yaml has the service account
# and the rights that lookups need. Add "get", "list" and "delete" for the resources below.
`

// manifest is the cleanup policy that deletes what the finder finds, in a namespace or in all.
func (f *finder) manifest(namespace string) string {
	rules := ""
	for rest := f.kinds; len(rest) > 0; {
		group, resources := rest[0].group, []string{}
		for ; len(rest) > 0 && rest[0].group == group; rest = rest[1:] {
			resources = append(resources, rest[0].resource)
		}
		rules += fmt.Sprintf("      - apiGroups: [%q]\n        resources: [%s]\n", group, strings.Join(resources, ", "))
	}
	in := ""
	if namespace != "" {
		in = fmt.Sprintf("    namespaceSelector:\n      matchLabels:\n        kubernetes.io/metadata.name: %q\n", namespace)
	}
	return fmt.Sprintf(head, f.policy) + fmt.Sprintf(`apiVersion: curfew.dev/v1alpha1
kind: ClusterCleanupPolicy
metadata:
  name: %s
spec:
  schedule: "0 5 * * sat"
  dryRun: true
  serviceAccountName: unused
  serviceAccountNamespace: curfew-cleanup
  matchConstraints:
    resourceRules:
%s%s  conditions:
    - name: %s
      expression: "%s"
  minUnused: 21d
  maxDeletions: 100
`, f.policy, rules, in, f.condition, f.expression)
}

// compile compiles the policy as a single run without a limit, in all namespaces.
func (f *finder) compile(compiler *expression.Compiler) (*cleanup.Policy, error) {
	object := &v1alpha1.ClusterCleanupPolicy{}
	if err := yaml.UnmarshalStrict([]byte(f.manifest("")), object); err != nil {
		return nil, err
	}
	object.Spec.MinUnused, object.Spec.MaxDeletions = nil, nil
	out, errs := cleanup.Compile(compiler, object)
	return out, errs.ToAggregate()
}
