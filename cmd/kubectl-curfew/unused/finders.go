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
type kind struct{ name, resource, short string }

// finder finds unused objects of its kinds, as a cleanup policy does. One finder reads the cluster
// once for all of its kinds.
type finder struct {
	policy, condition string // names of both
	expression        string
	kinds             []kind // of the core group
}

// finders are all of them. Objects that are younger than an hour have no answer: see
// lookup.referenced.
var finders = []finder{
	{"unused", "unreferenced", "!lookup.referenced", []kind{
		{"ConfigMap", "configmaps", "cm"}, {"Secret", "secrets", ""}, {"ServiceAccount", "serviceaccounts", "sa"},
	}},
	{"unmounted-claims", "unmounted", "!lookup.mounted", []kind{{"PersistentVolumeClaim", "persistentvolumeclaims", "pvc"}}},
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

// findersOf are the finders of the kinds that a user named; none means all.
func findersOf(named []string) ([]finder, error) {
	known := map[string]bool{}
	var out []finder
	for _, of := range finders {
		var kinds []kind
		for _, one := range of.kinds {
			names := []string{strings.ToLower(one.name), one.resource, one.short}
			for _, name := range names {
				known[name] = true
			}
			if len(named) == 0 || slices.ContainsFunc(named, func(name string) bool { return slices.Contains(names, strings.ToLower(name)) }) {
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
const head = `# Deletes what "kubectl curfew unused" reports, once it was unused in four weekly runs in a row. It is a dry run:
# look at "kubectl curfew report %s" before you remove dryRun. manifests/samples/17-unused.yaml has the service account
# and the rights that lookups need. Add "get", "list" and "delete" for the resources below.
`

// manifest is the cleanup policy that deletes what the finder finds, in a namespace or in all.
func (f *finder) manifest(namespace string) string {
	var resources []string
	for _, one := range f.kinds {
		resources = append(resources, one.resource)
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
      - apiGroups: [""]
        resources: [%s]
%s  conditions:
    - name: %s
      expression: "%s"
  consecutiveRuns: 4
  maxDeletions: 100
`, f.policy, strings.Join(resources, ", "), in, f.condition, f.expression)
}

// compile compiles the policy as a single run without a limit, in all namespaces.
func (f *finder) compile(compiler *expression.Compiler) (*cleanup.Policy, error) {
	object := &v1alpha1.ClusterCleanupPolicy{}
	if err := yaml.UnmarshalStrict([]byte(f.manifest("")), object); err != nil {
		return nil, err
	}
	object.Spec.ConsecutiveRuns, object.Spec.MaxDeletions = 0, nil
	out, errs := cleanup.Compile(compiler, object)
	return out, errs.ToAggregate()
}
