package manifests

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// known has every type that stands in a manifest.
var known = func() *runtime.Scheme {
	out := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme, cmapi.AddToScheme} {
		utilruntime.Must(add(out))
	}
	return out
}()

// decode turns each YAML document into its API type and fails on unknown and duplicate fields.
func decode(t *testing.T, source string, data []byte) []runtime.Object {
	t.Helper()
	var objects []runtime.Object
	reader := utilyaml.NewYAMLReader(newBuffered(data))
	for {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		gvk := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
		obj, err := known.New(gvk)
		if gvk.Group == "trainer.kubeflow.org" {
			obj, err = &unstructured.Unstructured{}, nil // Trainer's own CRDs judge it, in test/e2e.
		}
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		if err := yaml.UnmarshalStrict(doc, obj); err != nil {
			t.Errorf("%s: the %s is not valid: %v", source, kind.Kind, err)
		}
		objects = append(objects, obj)
	}
}

// build does what kubectl kustomize does.
func build(t *testing.T, dir string) []runtime.Object {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatalf("building %s: %v", dir, err)
	}
	data, err := resources.AsYaml()
	must(t, err)
	return decode(t, dir, data)
}

func only[T runtime.Object](objects []runtime.Object) []T {
	var found []T
	for _, obj := range objects {
		if o, ok := obj.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

func TestEveryFileDecodesStrictlyAndIsBuilt(t *testing.T) {
	built := map[string]int{}
	for _, dir := range []string{"base", "overlays/local"} {
		built[dir] = len(build(t, dir))
	}
	inFiles := map[string]int{}
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" || entry.Name() == "kustomization.yaml" {
			return err
		}
		top, _, _ := strings.Cut(path, string(filepath.Separator))
		if top == "overlays" || top == "components" || top == "chart" { // patches and values, not objects: seen where they are applied
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		inFiles[top] += len(decode(t, path, data))
		return nil
	})
	must(t, err)
	local := inFiles["crd"] + inFiles["namespace"] + inFiles["rbac"] + inFiles["flowcontrol"] + inFiles["webhook"]
	if all := local + inFiles["deploy"]; built["base"] != all {
		t.Errorf("base builds %d objects of %d in the files: a kustomization.yaml misses one", built["base"], all)
	}
	if built["overlays/local"] != local {
		t.Errorf("overlays/local builds %d objects, want %d: all but deploy", built["overlays/local"], local)
	}
	if inFiles["samples"] == 0 {
		t.Error("no samples")
	}
}

func TestWebhookSettings(t *testing.T) {
	objects := build(t, "base")
	services := only[*corev1.Service](objects)
	for _, w := range webhooks(t, objects) {
		if w.configName != "curfew" {
			t.Errorf("%s configuration is named %q, RBAC and certs know it as curfew", w.config, w.configName)
		}
		if w.timeout == nil || *w.timeout > 5 || *w.timeout < 1 {
			t.Errorf("%s %s: timeoutSeconds %v, want 1 to 5", w.config, w.name, w.timeout)
		}
		if w.failure == nil || *w.failure != admissionv1.Ignore {
			t.Errorf("%s %s: failurePolicy is not Ignore (S8)", w.config, w.name)
		}
		if w.sideEffects == nil || *w.sideEffects != admissionv1.SideEffectClassNone {
			t.Errorf("%s %s: sideEffects is not None: dry-run requests would fail", w.config, w.name)
		}
		if len(w.conditions) > 64 {
			t.Errorf("%s %s: %d matchConditions, want at most 64", w.config, w.name, len(w.conditions))
		}
		if len(w.client.CABundle) != 0 {
			t.Errorf("%s %s: a CA bundle in the manifest would overwrite the injected one", w.config, w.name)
		}
		selector, err := metav1.LabelSelectorAsSelector(w.namespaces)
		if err != nil || selector.Matches(labels.Set{"kubernetes.io/metadata.name": "curfew-system", "curfew.dev/in-use": "true", "curfew.dev/pods-in-use": "true"}) {
			t.Errorf("%s %s: applies to Curfew's own namespace (%v)", w.config, w.name, err)
		}
		if !slices.ContainsFunc(services, func(s *corev1.Service) bool {
			return s.Name == w.client.Service.Name && s.Namespace == w.client.Service.Namespace && slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == *w.client.Service.Port })
		}) {
			t.Errorf("%s %s: its Service is not in the base", w.config, w.name)
		}
		for _, rule := range w.rules {
			for _, list := range [][]string{rule.APIGroups, rule.APIVersions, rule.Resources} {
				if slices.ContainsFunc(list, func(s string) bool {
					_, sub, _ := strings.Cut(s, "/")
					return strings.Contains(s, "*") || !slices.Contains([]string{"", "status", "finalize", "binding"}, sub)
				}) {
					t.Errorf("%s %s: wildcard, or a subresource that is none of metadata's, in %v", w.config, w.name, list)
				}
			}
			if slices.Contains(rule.Operations, admissionv1.Delete) {
				t.Errorf("%s %s: subscribes to DELETE, where object is null", w.config, w.name)
			}
			if w.config == "mutating" && rule.Resources[0] != "namespaces" && !slices.Equal(rule.Operations, []admissionv1.OperationType{admissionv1.Create}) && w.name != "changed-defaults.curfew.dev" {
				t.Errorf("%s: objects are mutated on CREATE only, but for the stamp of a default that is changed", w.name)
			}
		}
	}
}

// The names of the roles for users of the CLI. Only viewers aggregates, to view.
const (
	viewers  = "curfew-view"
	monitors = "curfew-status"
)

func TestViewersOnlyRead(t *testing.T) {
	objects := build(t, "base")
	var rules []rbacv1.PolicyRule
	for _, r := range only[*rbacv1.ClusterRole](objects) {
		if _, aggregated := r.Labels["rbac.authorization.k8s.io/aggregate-to-view"]; aggregated != (r.Name == viewers) {
			t.Errorf("ClusterRole %s: aggregates to view: %t", r.Name, aggregated)
		}
		for _, to := range []string{"edit", "admin"} {
			if _, aggregated := r.Labels["rbac.authorization.k8s.io/aggregate-to-"+to]; aggregated {
				t.Errorf("ClusterRole %s aggregates to %s", r.Name, to)
			}
		}
		if r.Name == viewers || r.Name == monitors {
			rules = append(rules, r.Rules...)
		}
	}
	for _, r := range only[*rbacv1.Role](objects) {
		if r.Name == viewers || r.Name == monitors {
			rules = append(rules, r.Rules...)
		}
	}
	reads := []string{"get", "list", "watch"}
	for _, rule := range rules {
		if slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains(reads, verb) }) {
			t.Errorf("rule %v, want reads alone", rule)
		}
	}
	if len(rules) < 10 {
		t.Errorf("only %d rules", len(rules))
	}
}

func TestRBACHasNothingToSpare(t *testing.T) {
	objects := build(t, "base")
	check := func(name string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, list := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames} {
				if slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, "*") }) {
					t.Errorf("%s: wildcard in %v", name, rule)
				}
			}
			for _, verb := range []string{"deletecollection", "escalate", "bind", "impersonate"} {
				own := verb == "impersonate" && slices.Equal(rule.ResourceNames, []string{"curfew-cleanup"})
				if slices.Contains(rule.Verbs, verb) && name != "ClusterRole curfew-impersonate" && !own {
					t.Errorf("%s: verb %s in %v", name, verb, rule)
				}
			}
			if slices.Contains(rule.Resources, "secrets") && len(rule.ResourceNames) == 0 && !slices.Equal(rule.Verbs, []string{"create"}) {
				t.Errorf("%s: Secrets without a name: %v", name, rule)
			}
			for resource, who := range map[string]string{"tokenreviews": "", "subjectaccessreviews": "ClusterRole curfew-webhook"} {
				if slices.Contains(rule.Resources, resource) && name != who {
					t.Errorf("%s: it may create %s: by default nothing serves the HTTP API or secure metrics", name, resource)
				}
			}
			if slices.Contains(rule.Resources, "configmaps") && !slices.Equal(rule.ResourceNames, []string{settings.Name}) {
				t.Errorf("%s: ConfigMaps beside the settings: %v", name, rule)
			}
		}
	}
	roles := map[string]bool{}
	for _, r := range only[*rbacv1.ClusterRole](objects) {
		check("ClusterRole "+r.Name, r.Rules)
		_, kind := r.Labels["curfew.dev/aggregate-to-controller"]
		_, feature := r.Labels[wellknown.LabelFeature]
		if !kind && !feature && r.Name != viewers {
			roles["ClusterRole/"+r.Name] = true
		}
		for _, rule := range r.Rules {
			if slices.Contains(rule.Resources, "secrets") || slices.Contains(rule.Resources, "leases") || slices.Contains(rule.Resources, "configmaps") {
				t.Errorf("ClusterRole %s: %v belong in a Role of Curfew's namespace", r.Name, rule.Resources)
			}
		}
	}
	for _, r := range only[*rbacv1.Role](objects) {
		check("Role "+r.Name, r.Rules)
		if r.Name != viewers {
			roles["Role/"+r.Name] = true
		}
		if r.Namespace != "curfew-system" {
			t.Errorf("Role %s is in namespace %q", r.Name, r.Namespace)
		}
	}

	accounts := map[string]bool{}
	for _, a := range only[*corev1.ServiceAccount](objects) {
		accounts[a.Namespace+"/"+a.Name] = true
	}
	bound := func(name string, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if !roles[ref.Kind+"/"+ref.Name] {
			t.Errorf("binding %s: no %s %s", name, ref.Kind, ref.Name)
		}
		delete(roles, ref.Kind+"/"+ref.Name)
		for _, s := range subjects {
			shared := s.Name == "curfew-cleanup" && ref.Name == "curfew-controller-kinds"
			if s.Kind != "ServiceAccount" || !accounts[s.Namespace+"/"+s.Name] || !strings.HasPrefix(ref.Name, s.Name) && !shared {
				t.Errorf("binding %s: subject %v", name, s)
			}
		}
	}
	for _, b := range only[*rbacv1.ClusterRoleBinding](objects) {
		bound(b.Name, b.RoleRef, b.Subjects)
	}
	for _, b := range only[*rbacv1.RoleBinding](objects) {
		bound(b.Name, b.RoleRef, b.Subjects)
	}
	// An admin binds them: one in the namespaces whose CleanupPolicies may run, and nowhere else
	// (S10), one to those who may count Pods, two to those who may pause deletions, or see the
	// pauses, and two to monitors.
	if !maps.Equal(roles, map[string]bool{"ClusterRole/curfew-impersonate": true, "ClusterRole/curfew-edit-tallies": true,
		"ClusterRole/curfew-pause": true, "ClusterRole/curfew-view-pauses": true,
		"ClusterRole/" + monitors: true, "Role/" + monitors: true}) {
		t.Errorf("no subject is bound to %v", roles)
	}
}

func TestDeployments(t *testing.T) {
	objects := build(t, "base")
	deployments := only[*appsv1.Deployment](objects)
	if len(deployments) != 2 {
		t.Fatalf("%d Deployments, want webhook and controller", len(deployments))
	}
	for _, d := range deployments {
		pod := labels.Set(d.Spec.Template.Labels)
		if selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err != nil || !selector.Matches(pod) {
			t.Errorf("%s: selector does not match its own Pods (%v)", d.Name, err)
		}
		budgets := 0
		for _, b := range only[*policyv1.PodDisruptionBudget](objects) {
			selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			must(t, err)
			if selector.Matches(pod) {
				budgets++
				if b.Spec.MaxUnavailable.IntValue() >= int(*d.Spec.Replicas) {
					t.Errorf("%s: the budget lets every replica go", b.Name)
				}
			}
		}
		if budgets != 1 {
			t.Errorf("%s: %d PodDisruptionBudgets match its Pods; eviction wants exactly one", d.Name, budgets)
		}

		spec := d.Spec.Template.Spec
		if *d.Spec.Replicas < 2 || len(spec.TopologySpreadConstraints) == 0 || spec.ServiceAccountName != d.Name {
			t.Errorf("%s: replicas, spread or ServiceAccount", d.Name)
		}
		if spec.HostNetwork || spec.HostPID || spec.HostIPC || len(spec.Volumes) != 0 || spec.SecurityContext.RunAsNonRoot == nil ||
			spec.SecurityContext.RunAsUser != nil || !*spec.SecurityContext.RunAsNonRoot || spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: Pod is not restricted", d.Name)
		}
		c := spec.Containers[0]
		if sc := c.SecurityContext; *sc.AllowPrivilegeEscalation || !*sc.ReadOnlyRootFilesystem || !slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) {
			t.Errorf("%s: container is not restricted", d.Name)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() || c.ReadinessProbe == nil || c.LivenessProbe == nil {
			t.Errorf("%s: resources or probes are missing", d.Name)
		}
		if !strings.HasSuffix(d.Name, c.Args[0]) {
			t.Errorf("%s runs subcommand %q", d.Name, c.Args[0])
		}
	}
	for _, s := range only[*corev1.Service](objects) {
		if !slices.ContainsFunc(deployments, func(d *appsv1.Deployment) bool {
			return labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) &&
				slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == s.Spec.Ports[0].TargetPort.StrVal })
		}) {
			t.Errorf("Service %s selects no Pod", s.Name)
		}
	}
}

func TestFlowSchemasUseBuiltInLevels(t *testing.T) {
	for _, f := range only[*flowcontrolv1.FlowSchema](build(t, "base")) {
		if level := f.Spec.PriorityLevelConfiguration.Name; level != "leader-election" && level != "workload-low" && (level != "workload-high" || f.Name != "curfew-pauses") {
			t.Errorf("%s: priority level %q", f.Name, level)
		}
		for _, rule := range f.Spec.Rules {
			for _, s := range rule.Subjects {
				if s.ServiceAccount == nil || s.ServiceAccount.Namespace != "curfew-system" || !slices.Contains([]string{"curfew-controller", "curfew-cleanup"}, s.ServiceAccount.Name) {
					t.Errorf("%s: catches requests of others: %v", f.Name, s)
				}
			}
		}
	}
}
