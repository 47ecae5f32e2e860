package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
)

// Ten recipes, each with the rights that docs/recipes.md gives its account, delete of the objects in
// their CleanupTests exactly what these expect. One is played after the other, since they have
// objects of the same names. No other test runs beside this one, as for TestCleanupSamples.
func TestCleanupRecipes(t *testing.T) {
	for _, name := range []string{
		"dangling-autoscalers", "dangling-ingresses", "empty-namespaces", "generated-configmaps", "idle-services", "stale-leases",
		"unmounted-claims", "unused-configmaps", "unused-secrets", "unused-serviceaccounts",
	} {
		compareAll([]*prepared{newSpace(t).prepareRecipe(name)})
	}
}

// prepareRecipe creates the objects of a recipe's CleanupTest, as old as they are in it, and the
// policy.
func (s *space) prepareRecipe(name string) *prepared {
	s.Helper()
	policy := &unstructured.Unstructured{}
	s.ok(yaml.Unmarshal(readFile(s.T, "../../manifests/samples/recipes/"+name+".yaml"), &policy.Object))
	head, documents, _ := strings.Cut(string(readFile(s.T, "../../cmd/kubectl-curfew/testdata/recipes/"+name+".yaml")), "\n---\n")
	test, err := preview.ParseCase([]byte(head))
	s.ok(err)
	r := &recipe{space: s, home: test.Expect.Deleted[0].Namespace, later: time.Since(test.Now), created: map[string]*unstructured.Unstructured{}}
	if strings.Contains(documents, "\nkind: VirtualMachine\n") {
		s.applyVirtualMachines()
	}
	var kinds []string // of the objects that the policy may delete
	entry := &sample{}
	for _, object := range test.Expect.Deleted {
		kinds = append(kinds, object.Kind)
		var deleted sampled
		deleted.Object = map[string]any{}
		deleted.SetKind(object.Kind)
		deleted.SetName(object.Name)
		if object.Kind == "Namespace" {
			deleted.SetName(r.in(object.Name))
		}
		entry.Deleted = append(entry.Deleted, deleted)
	}
	for document := range strings.SplitSeq(documents, "\n---\n") {
		r.create(document, kinds)
	}
	s.applyRecipeRights(policy)
	return &prepared{s, s.applySample(policy, time.Time{}), entry, r.created}
}

// recipe is a CleanupTest whose objects are created.
type recipe struct {
	*space
	home    string        // is the namespace that has this space's name here
	later   time.Duration // is how much later it is than in the test
	created map[string]*unstructured.Unstructured
}

// in is the name that a namespace of the test has here.
func (r *recipe) in(namespace string) string {
	if namespace == r.home {
		return r.name
	}
	return r.name + "-" + namespace
}

var (
	momentText    = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.0+)?Z`)
	namespaceText = regexp.MustCompile(`\bnamespace: ([a-z0-9-]+)`)
)

// create creates an object with its times and namespaces moved, unless it is in a namespace of the
// system.
func (r *recipe) create(document string, kinds []string) {
	r.Helper()
	document = momentText.ReplaceAllStringFunc(document, func(text string) string {
		t, err := time.Parse(time.RFC3339, text)
		r.ok(err)
		layout := time.RFC3339
		if strings.Contains(text, ".") {
			layout = metav1.RFC3339Micro
		}
		return t.Add(r.later).UTC().Format(layout)
	})
	object := &sampled{}
	r.ok(yaml.Unmarshal([]byte(document), object))
	space := object.GetNamespace()
	if object.GetKind() == "Namespace" {
		space = object.GetName()
	}
	if strings.HasPrefix(space, "kube-") || space == metav1.NamespaceDefault {
		return
	}
	document = namespaceText.ReplaceAllStringFunc(document, func(text string) string { return "namespace: " + r.in(strings.TrimPrefix(text, "namespace: ")) })
	r.ok(yaml.Unmarshal([]byte(document), object))
	if object.GetKind() == "Namespace" {
		object.SetName(r.in(space))
	} else {
		r.needNamespace(object.GetNamespace())
	}
	created := object.GetCreationTimestamp().Time
	if key := object.String(); slices.Contains([]string{"ConfigMap/kube-root-ca.crt", "ServiceAccount/default"}, key) {
		r.poll(key, func(ctx context.Context) (bool, error) { // Kubernetes creates it.
			live, err := r.clientOf(&object.Unstructured).Get(ctx, object.GetName(), metav1.GetOptions{})
			r.created[key] = live
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil, err
		})
	} else {
		r.createSampled(r.created, object)
	}
	if slices.Contains(kinds, object.GetKind()) {
		r.age(r.created[object.String()], created)
	}
}

// needNamespace creates a namespace that the test does not have as an object.
func (r *recipe) needNamespace(name string) {
	r.Helper()
	if name == r.name || r.created["Namespace/"+name] != nil {
		return
	}
	namespace := &sampled{}
	namespace.Object = map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}
	r.createSampled(r.created, namespace)
	r.ok(suite.cluster.WaitForServiceAccount(r.ctx, name))
}

// applyRecipeRights creates the account of a recipe here, and gives it the rights that
// docs/recipes.md names.
func (s *space) applyRecipeRights(policy *unstructured.Unstructured) {
	s.Helper()
	const group = "rbac.authorization.k8s.io"
	match, _, _ := unstructured.NestedSlice(policy.Object, "spec", "matchConstraints", "resourceRules")
	var rules []any
	for _, value := range match {
		rule := value.(map[string]any)
		rules = append(rules, map[string]any{"apiGroups": rule["apiGroups"], "resources": rule["resources"], "verbs": []any{"get", "list", "delete"}})
	}
	if readsCluster(policy) {
		rules = append(rules, map[string]any{"apiGroups": []any{"*"}, "resources": []any{"*"}, "verbs": []any{"list"}})
	}
	account, _, _ := unstructured.NestedString(policy.Object, "spec", "serviceAccountName")
	s.ok(unstructured.SetNestedField(policy.Object, s.name, "spec", "serviceAccountNamespace"))
	role := map[string]any{"apiVersion": group + "/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": s.name}, "rules": rules}
	s.apply(s.manifest(role) + fmt.Sprintf(`
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: %[1]s}}
---
{apiVersion: %[3]s/v1, kind: RoleBinding, metadata: {name: curfew-impersonate}, roleRef: {apiGroup: %[3]s, kind: ClusterRole, name: curfew-impersonate}, subjects: [{kind: ServiceAccount, name: curfew-controller, namespace: curfew-system}]}
---
{apiVersion: %[3]s/v1, kind: ClusterRoleBinding, metadata: {name: %[2]s}, roleRef: {apiGroup: %[3]s, kind: ClusterRole, name: %[2]s}, subjects: [{kind: ServiceAccount, name: %[1]s, namespace: %[2]s}]}`, account, s.name, group))
	s.Cleanup(func() { s.afterwards("delete", "clusterrolebinding,clusterrole", s.name) })
}
