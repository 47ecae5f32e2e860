package manifests

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"curfew.dev/curfew/certs"
	"curfew.dev/curfew/policy/judging"
)

// component is the base with a component, as an overlay builds it.
func component(t *testing.T, name string) []runtime.Object {
	t.Helper()
	files := filesys.MakeFsInMemory()
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return files.WriteFile("/manifests/"+path, data)
	})
	must(t, err)
	overlay := "resources: [../../base]\ncomponents: [../../components/" + name + "]\n"
	must(t, files.WriteFile("/manifests/overlays/mine/kustomization.yaml", []byte(overlay)))
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/manifests/overlays/mine")
	must(t, err)
	data, err := resources.AsYaml()
	must(t, err)
	return decode(t, "overlay", data)
}

// given reports which Deployments have an argument.
func given(objects []runtime.Object, argument string) []string {
	var out []string
	for _, d := range only[*appsv1.Deployment](objects) {
		if slices.Contains(d.Spec.Template.Spec.Containers[0].Args, argument) {
			out = append(out, d.Name)
		}
	}
	slices.Sort(out)
	return out
}

// TestLeaveNativeTTL: the component gives the controller the flag, and changes nothing else.
func TestLeaveNativeTTL(t *testing.T) {
	objects := component(t, "leave-native-ttl")
	if got := given(objects, "--leave-native-ttl"); !slices.Equal(got, []string{"curfew-controller"}) {
		t.Errorf("given to %v, want the controller alone", got)
	}
	if len(objects) != len(build(t, "base")) {
		t.Errorf("%d objects, %d in the base", len(objects), len(build(t, "base")))
	}
}

// TestTenantView: the component lets all users read the platform's own objects and Curfew's settings,
// and nothing that belongs to a tenant.
func TestTenantView(t *testing.T) {
	objects := component(t, "tenant-view")
	if more := len(objects) - len(build(t, "base")); more != 3 {
		t.Errorf("%d objects more than the base, want a role and two bindings", more)
	}
	everybody := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool { return s.Kind == "Group" })
	}
	bound := map[string]bool{}
	for _, b := range only[*rbacv1.ClusterRoleBinding](objects) {
		if everybody(b.Subjects) {
			bound[b.RoleRef.Kind+"/"+b.RoleRef.Name] = true
		}
	}
	for _, b := range only[*rbacv1.RoleBinding](objects) {
		if everybody(b.Subjects) {
			bound[b.RoleRef.Kind+"/"+b.RoleRef.Name] = true
		}
	}
	if want := map[string]bool{"ClusterRole/curfew-tenant-view": true, "Role/curfew-view": true}; !maps.Equal(bound, want) {
		t.Errorf("all users get %v, want %v", bound, want)
	}
	for _, role := range only[*rbacv1.ClusterRole](objects) {
		if role.Name != "curfew-tenant-view" {
			continue
		}
		verbs := map[string]string{}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				verbs[resource] = strings.Join(rule.Verbs, " ")
			}
		}
		const all = "get list watch"
		if want := map[string]string{"lifecyclepolicies": all, "kindprofiles": all, "deletionpauses": all, "clustercleanuppolicies": "get list"}; !maps.Equal(verbs, want) {
			t.Errorf("all users get %v, want %v", verbs, want)
		}
	}
}

// TestNoBuiltinProfiles: the component takes the built-in profiles from both Deployments, and the
// permissions for their kinds, and nothing else.
func TestNoBuiltinProfiles(t *testing.T) {
	objects, base := component(t, "no-builtin-profiles"), build(t, "base")
	if got := given(objects, "--builtin-profiles=false"); !slices.Equal(got, []string{"curfew-controller", "curfew-webhook"}) {
		t.Errorf("given to %v, want both", got)
	}
	names := func(of []runtime.Object) (out []string) {
		for _, role := range only[*rbacv1.ClusterRole](of) {
			out = append(out, role.Name)
		}
		return out
	}
	builtin := []string{"curfew-controller-builtin-kinds", "curfew-controller-deadlines", "curfew-controller-runtimes"}
	want := slices.DeleteFunc(names(base), func(name string) bool { return slices.Contains(builtin, name) })
	if got := names(objects); !slices.Equal(got, want) || len(objects) != len(base)-len(builtin) {
		t.Errorf("%d objects with ClusterRoles %v; want %d less than %d, with %v", len(objects), got, len(builtin), len(base), want)
	}
}

// TestFailClosed: with the component every validating webhook fails closed, the controller's own
// included, and no mutating one does. An outage refuses nothing in the namespaces that are protected.
func TestFailClosed(t *testing.T) {
	objects := component(t, "fail-closed")
	if base := build(t, "base"); len(webhooks(t, objects)) != len(webhooks(t, base)) {
		t.Errorf("%d webhooks, %d in the base: the component has a name that is gone", len(webhooks(t, objects)), len(webhooks(t, base)))
	}
	for _, w := range webhooks(t, objects) {
		if closed := *w.failure == admissionv1.Fail; closed != (w.config == "validating") {
			t.Errorf("%s %s: failurePolicy %s", w.config, w.name, *w.failure)
		}
	}
	for _, configuration := range only[*admissionv1.ValidatingWebhookConfiguration](objects) {
		for _, w := range configuration.Webhooks {
			want := `!(request.?namespace.orValue("") in ["` + strings.Join(judging.DefaultProtect(), `", "`) + `"])`
			if !slices.Contains(w.MatchConditions, admissionv1.MatchCondition{Name: "not-protected", Expression: want}) || len(w.MatchConditions) < 2 {
				t.Errorf("%s has the conditions %v, and not %s", w.Name, w.MatchConditions, want)
			}
		}
	}
	if got := given(objects, "--fail-closed"); !slices.Equal(got, []string{"curfew-controller"}) {
		t.Errorf("given to %v, want the controller, whose own webhooks stay open otherwise", got)
	}
	for _, d := range only[*appsv1.Deployment](objects) {
		want := map[string]string{"curfew-webhook": "system-cluster-critical"}[d.Name]
		if got := d.Spec.Template.Spec.PriorityClassName; got != want {
			t.Errorf("%s has PriorityClass %q, want %q", d.Name, got, want)
		}
	}
	if quotas := only[*corev1.ResourceQuota](objects); len(quotas) != 1 || quotas[0].Spec.ScopeSelector.MatchExpressions[0].Values[0] != "system-cluster-critical" ||
		quotas[0].Spec.Hard.Pods().Value() < 1_000_000 {
		t.Errorf("quotas %+v, want one that permits the class and limits nothing", quotas)
	}
}

// TestCertManager: with the component the webhook serves a mounted certificate, may not touch
// Secrets and changes no webhook configuration, which carry the annotation for cainjector.
func TestCertManager(t *testing.T) {
	objects := component(t, "cert-manager")
	if got := given(objects, "--certificates=cert-manager"); !slices.Equal(got, []string{"curfew-webhook"}) {
		t.Errorf("given to %v, want the webhook", got)
	}
	for _, d := range only[*appsv1.Deployment](objects) {
		pod := d.Spec.Template.Spec
		if d.Name == "curfew-webhook" && (len(pod.Volumes) != 1 || pod.Volumes[0].Secret.SecretName != "curfew-webhook-tls" || !*pod.Volumes[0].Secret.Optional ||
			pod.Containers[0].VolumeMounts[0].MountPath != "/etc/curfew/tls") {
			t.Errorf("volumes %+v, mounts %+v", pod.Volumes, pod.Containers[0].VolumeMounts)
		}
	}
	for _, c := range only[*cmapi.Certificate](objects) {
		want := certs.ServiceDNSNames("curfew-webhook", c.Namespace)
		if c.Name == "curfew-webhook" && (!slices.Equal(c.Spec.DNSNames[:len(want)], want) || c.Spec.SecretName != certs.DefaultSecretName) {
			t.Errorf("Certificate of %v in %s, want %v in %s", c.Spec.DNSNames, c.Spec.SecretName, want, certs.DefaultSecretName)
		}
	}
	annotated := 0
	for _, object := range objects {
		switch c := object.(type) {
		case *admissionv1.MutatingWebhookConfiguration:
			annotated += len(c.Annotations[injectFrom]) / len("curfew-system/curfew-webhook")
		case *admissionv1.ValidatingWebhookConfiguration:
			annotated += len(c.Annotations[injectFrom]) / len("curfew-system/curfew-webhook")
		}
	}
	if annotated != 2 {
		t.Errorf("%d configurations are annotated, want 2", annotated)
	}
	for _, role := range only[*rbacv1.Role](objects) {
		for _, rule := range role.Rules {
			if slices.Contains(rule.Resources, "secrets") {
				t.Errorf("Role %s permits %v of Secrets", role.Name, rule.Verbs)
			}
		}
	}
	for _, role := range only[*rbacv1.ClusterRole](objects) {
		if role.Name == "curfew-webhook-certificates" && !slices.Equal(role.Rules[0].Verbs, []string{"get"}) {
			t.Errorf("it permits %v, want get", role.Rules[0].Verbs)
		}
	}
}

const injectFrom = "cert-manager.io/inject-ca-from"

// TestHighAvailability: with the component a node that fails takes at most one webhook replica of
// three with it, where there are three nodes, and one controller replica of two.
func TestHighAvailability(t *testing.T) {
	replicas := map[string]int32{}
	for _, d := range only[*appsv1.Deployment](component(t, "high-availability")) {
		replicas[d.Name] = *d.Spec.Replicas
		spread := d.Spec.Template.Spec.TopologySpreadConstraints[0]
		if spread.TopologyKey != corev1.LabelHostname || spread.MaxSkew != 1 || spread.WhenUnsatisfiable != corev1.DoNotSchedule ||
			spread.NodeTaintsPolicy == nil || *spread.NodeTaintsPolicy != corev1.NodeInclusionPolicyHonor {
			t.Errorf("%s is spread by %+v", d.Name, spread)
		}
	}
	if want := map[string]int32{"curfew-webhook": 3, "curfew-controller": 2}; !maps.Equal(replicas, want) {
		t.Errorf("replicas %v, want %v", replicas, want)
	}
}
