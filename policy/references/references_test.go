package references

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/test/builders"
)

// read parses an object.
func read(t *testing.T, text string) (schema.GroupKind, map[string]any) {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	version, _ := content["apiVersion"].(string)
	kind, _ := content["kind"].(string)
	return schema.FromAPIVersionAndKind(version, kind).GroupKind(), content
}

var three = []string{"ConfigMap", "Secret", "ServiceAccount"}

// scanned are the candidates of three kinds in namespaces ci and prod, all named settings, that
// objects refer to.
func scanned(t *testing.T, objects ...string) string {
	t.Helper()
	c := NewCandidates()
	for _, kind := range three {
		for _, namespace := range []string{"ci", "prod"} {
			must(t, c.Add(schema.GroupKind{Kind: kind}, namespace, "settings", nil))
		}
	}
	for _, text := range objects {
		c.Scan(read(t, text))
	}
	var out []string
	for _, kind := range three {
		for _, namespace := range []string{"ci", "prod"} {
			if referenced, err := c.Referenced(schema.GroupKind{Kind: kind}, namespace, "settings", nil); referenced && err == nil {
				out = append(out, namespace+" "+kind)
			}
		}
	}
	return strings.Join(out, ", ")
}

const everywhere = "ci ConfigMap, prod ConfigMap, ci Secret, prod Secret, ci ServiceAccount, prod ServiceAccount"

func TestWhatObjectsName(t *testing.T) {
	pod := func(spec string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {namespace: ci, name: p}, spec: {" + spec + "}}"
	}
	container := func(fields string) string { return pod("containers: [{name: c, " + fields + "}]") }
	for name, c := range map[string]struct{ object, want string }{
		"nothing":                        {pod(""), ""},
		"a volume":                       {pod("volumes: [{name: v, configMap: {name: settings}}]"), "ci ConfigMap"},
		"an optional volume":             {pod("volumes: [{name: v, configMap: {name: settings, optional: true}}]"), "ci ConfigMap"},
		"a projected volume":             {pod("volumes: [{name: v, projected: {sources: [{secret: {name: settings}}]}}]"), "ci Secret"},
		"a volume with a Secret":         {pod("volumes: [{name: v, secret: {secretName: settings}}]"), "ci Secret"},
		"a CSI volume":                   {pod("volumes: [{name: v, csi: {driver: d, nodePublishSecretRef: {name: settings}}}]"), everywhere},
		"attributes of a CSI volume":     {pod("volumes: [{name: v, csi: {driver: d, volumeAttributes: {mountPath: settings}}}]"), everywhere},
		"an environment variable":        {container("env: [{name: E, valueFrom: {configMapKeyRef: {name: settings, key: k}}}]"), "ci ConfigMap"},
		"an optional variable":           {container("env: [{name: E, valueFrom: {secretKeyRef: {name: settings, key: k, optional: true}}}]"), "ci Secret"},
		"all variables":                  {container("envFrom: [{secretRef: {name: settings}}]"), "ci Secret"},
		"of an init container":           {pod("initContainers: [{name: c, envFrom: [{configMapRef: {name: settings}}]}]"), "ci ConfigMap"},
		"of an ephemeral container":      {pod("ephemeralContainers: [{name: c, envFrom: [{configMapRef: {name: settings}}]}]"), "ci ConfigMap"},
		"an argument":                    {container(`args: ["--config=$(POD_NAMESPACE)/settings"]`), everywhere},
		"an argument for elsewhere":      {container(`args: ["--config=prod/settings"]`), everywhere},
		"a key of it in an argument":     {container(`args: [settings.password]`), everywhere},
		"a line of a script":             {container(`args: ['set -e\nsettings']`), everywhere},
		"JSON within JSON":               {container(`args: ['{\u0022secret\u0022:\u0022settings\u0022}']`), everywhere},
		"JSON within that":               {container(`args: ['{\\u0022secret\\u0022:\\u0022settings\\u0022}']`), everywhere},
		"an escape of YAML":              {container(`args: ['a\x22settings\x22']`), everywhere},
		"an address":                     {container(`args: ['?of=ci%2fsettings%20']`), everywhere},
		"an address within another":      {container(`args: ['?of=ci%252fsettings']`), everywhere},
		"a namespace in an address":      {container(`args: ['?of=%2fprod%2fsettings']`), everywhere},
		"a folder of Windows":            {container(`args: ['C:\settings']`), everywhere},
		"the value of a variable":        {container("env: [{name: E, value: settings}]"), everywhere},
		"image pull secrets":             {pod("imagePullSecrets: [{name: settings}]"), "ci Secret"},
		"a service account":              {pod("serviceAccountName: settings"), "ci ServiceAccount"},
		"names within the Pod":           {"{apiVersion: v1, kind: Pod, metadata: {namespace: ci, name: settings, labels: {app: settings}}, spec: {containers: [{name: settings, image: settings, volumeMounts: [{name: settings, mountPath: /settings}]}], volumes: [{name: settings, emptyDir: {}}]}}", ""},
		"a Pod elsewhere":                {"{apiVersion: v1, kind: Pod, metadata: {namespace: dev, name: p}, spec: {serviceAccountName: settings}}", ""},
		"a suspended CronJob":            {"{apiVersion: batch/v1, kind: CronJob, metadata: {namespace: ci}, spec: {suspend: true, jobTemplate: {spec: {template: {spec: {volumes: [{name: v, configMap: {name: settings}}]}}}}}}", "ci ConfigMap"},
		"a Deployment scaled to zero":    {"{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: ci}, spec: {replicas: 0, template: {spec: {serviceAccountName: settings}}}}", "ci ServiceAccount"},
		"an older revision":              {"{apiVersion: apps/v1, kind: ControllerRevision, metadata: {namespace: ci}, data: {spec: {template: {spec: {volumes: [{secret: {secretName: settings}}]}}}}}", "ci Secret"},
		"an Ingress":                     {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: ci}, spec: {tls: [{secretName: settings}]}}", "ci Secret"},
		"a backend of an Ingress":        {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: ci}, spec: {rules: [{http: {paths: [{backend: {service: {name: settings, port: {name: settings}}}}]}}]}}", ""},
		"an annotation":                  {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: ci, annotations: {nginx.ingress.kubernetes.io/auth-secret: ci/settings}}}", everywhere},
		"what kubectl applied":           {`{apiVersion: v1, kind: Service, metadata: {namespace: ci, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"metadata":{"name":"settings"}}'}}}`, ""},
		"a subject of another namespace": {"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: dev}, subjects: [{kind: ServiceAccount, name: settings, namespace: ci}]}", "ci ServiceAccount"},
		"a subject by its user name":     {"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: dev}, subjects: [{kind: User, name: 'system:serviceaccount:ci:settings'}]}", everywhere},
		"the role of a binding":          {"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: ci}, roleRef: {kind: Role, name: settings}}", ""},
		"a cluster-wide binding":         {"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, subjects: [{kind: ServiceAccount, name: settings, namespace: ci}]}", "ci ServiceAccount, prod ServiceAccount"},
		"a resourceName of a role":       {"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: ci}, rules: [{resourceNames: [settings]}]}", everywhere},
		"a reference of another kind":    {"{apiVersion: v1, kind: PersistentVolume, spec: {storageos: {secretRef: {kind: secret, name: settings, namespace: ci}}}}", "ci Secret, prod Secret"},
		"what an HPA scales":             {"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: ci}, spec: {scaleTargetRef: {kind: Deployment, name: settings}}}", ""},
		"Secrets of a service account":   {"{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: ci, name: sa}, secrets: [{name: settings}], imagePullSecrets: [{name: settings}]}", everywhere},
		"the token of a service account": {"{apiVersion: v1, kind: Secret, metadata: {namespace: ci, name: t, annotations: {kubernetes.io/service-account.name: settings}}}", everywhere},
		"parameters of a policy":         {"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingAdmissionPolicyBinding, spec: {paramRef: {name: settings, namespace: ci}}}", everywhere},
		"the text of a ConfigMap":        {"{apiVersion: v1, kind: ConfigMap, metadata: {namespace: ci, name: other}, data: {image: 'secret: \"settings\"'}}", everywhere},
		"itself":                         {"{apiVersion: v1, kind: ConfigMap, metadata: {namespace: ci, name: settings}, data: {name: settings}}", strings.Replace(everywhere, "ci ConfigMap, ", "", 1)},
		"an owner":                       {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x, ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: settings}]}}", "ci ConfigMap"},
		"another owner":                  {"{apiVersion: v1, kind: Pod, metadata: {namespace: ci, name: x, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: settings}]}}", ""},
		"a custom kind":                  {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x}, spec: {anything: [settings]}}", everywhere},
		"a custom kind for elsewhere":    {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: dev, name: x}, spec: {ref: {namespace: ci, name: settings}}}", everywhere},
		"a custom kind elsewhere":        {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: dev, name: x}, spec: {ref: settings}}", everywhere},
		"a key of a custom kind":         {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x}, spec: {secrets: {settings: {}}}}", everywhere},
		"a custom kind of that name":     {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: settings}}", everywhere},
		"a label of a custom kind":       {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x, labels: {of: settings}}}", everywhere},
		"a cluster-scoped custom kind":   {"{apiVersion: example.com/v1, kind: Any, metadata: {name: x}, spec: {secretName: settings}}", everywhere},
		"fields of a manager":            {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x, managedFields: [{manager: settings}]}}", ""},
		"a longer name":                  {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x}, spec: {ref: settings-2}}", ""},
		"a cleanup policy":               {"{apiVersion: curfew.dev/v1alpha1, kind: CleanupPolicy, metadata: {namespace: ci, name: settings}, spec: {serviceAccountName: settings, matchConstraints: {resourceRules: [{resourceNames: [settings]}]}}}", "ci ServiceAccount"},
		"a cluster-wide cleanup policy":  {"{apiVersion: curfew.dev/v1alpha1, kind: ClusterCleanupPolicy, metadata: {name: x}, spec: {serviceAccountName: settings, serviceAccountNamespace: ci}}", "ci ServiceAccount, prod ServiceAccount"},
		"a schema":                       {"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {versions: [{schema: {openAPIV3Schema: {description: settings}}}]}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := scanned(t, c.object); got != c.want {
				t.Errorf("%s refers to %q, want %q", c.object, got, c.want)
			}
		})
	}
}

// The program that reads an object decides the namespace: that of a gateway's Pods, of Workflows or
// PipelineRuns, or one that another object names.
func TestNamespaceIsImplied(t *testing.T) {
	for name, c := range map[string]struct{ object, namespace string }{
		"a credential of Istio":              {"{apiVersion: networking.istio.io/v1, kind: Gateway, metadata: {name: g, namespace: default}, spec: {servers: [{tls: {credentialName: settings}}]}}", "prod"},
		"artifacts of Argo":                  {"{apiVersion: v1, kind: ConfigMap, metadata: {name: workflow-controller-configmap, namespace: argo}, data: {artifactRepository: 's3: {accessKeySecret: {name: settings, key: k}}'}}", "ci"},
		"an account for Tekton":              {"{apiVersion: v1, kind: ConfigMap, metadata: {name: config-defaults, namespace: tekton}, data: {default-service-account: settings}}", "ci"},
		"a pull secret of a template":        {"{apiVersion: v1, kind: ConfigMap, metadata: {name: pod-template, namespace: airflow}, data: {pod.yaml: 'imagePullSecrets: [{name: settings}]'}}", "prod"},
		"a variable for other namespaces":    {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: dev}, spec: {template: {spec: {containers: [{name: c, env: [{name: E, value: settings}]}]}}}}", "ci"},
		"an annotation for other namespaces": {"{apiVersion: v1, kind: Service, metadata: {name: s, namespace: dev, annotations: {example.com/from: settings}}}", "ci"},
	} {
		if got := scanned(t, c.object); !strings.Contains(got, c.namespace+" Secret") {
			t.Errorf("%s refers to %q", name, got)
		}
	}
}

// An object does not use itself. Once a second object has its name in its content, it is used.
func TestObjectsNameEachOther(t *testing.T) {
	for n, want := range []string{"", "ci, dev", "ci, dev, prod"} {
		c := NewCandidates()
		kind, all := schema.GroupKind{Kind: "ConfigMap"}, []string{"ci", "dev", "prod"}
		for _, namespace := range all {
			must(t, c.Add(kind, namespace, "settings", nil))
		}
		for _, namespace := range []string{"prod", "ci"}[:n] {
			for range 2 { // in two versions
				c.Scan(read(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: "+namespace+"}, data: {name: settings}}"))
			}
		}
		var got []string
		for _, namespace := range all {
			if used, err := c.Referenced(kind, namespace, "settings", nil); used && err == nil {
				got = append(got, namespace)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%d name it: %q are used, want %s", n, got, want)
		}
	}
}

// What was not listed may have been named before it existed: the answer is unknown.
func TestCandidateIsNew(t *testing.T) {
	c := NewCandidates()
	must(t, c.Add(schema.GroupKind{Kind: "ConfigMap"}, "ci", "a", nil))
	for _, other := range []target{{schema.GroupKind{Kind: "Secret"}, "ci", "a"}, {schema.GroupKind{Kind: "ConfigMap"}, "prod", "a"}, {schema.GroupKind{Kind: "ConfigMap"}, "ci", "b"}} {
		if _, err := c.Referenced(other.kind, other.namespace, other.name, nil); err == nil {
			t.Errorf("%+v is known", other)
		}
	}
}

func TestTooManyCandidates(t *testing.T) {
	before := maxCandidates
	maxCandidates = 2
	defer func() { maxCandidates = before }()
	c := NewCandidates()
	for i, want := range []bool{false, false, true} {
		if err := c.Add(schema.GroupKind{Kind: "ConfigMap"}, "ci", fmt.Sprint(i), nil); (err != nil) != want {
			t.Errorf("object %d: %v", i, err)
		}
	}
}

func TestFoundBy(t *testing.T) {
	for _, c := range []struct {
		name, label, annotation, want string
	}{
		{"a", "", "", ""},
		{"a", "app", "note", ""},
		{"a", "app.kubernetes.io/name", "kubectl.kubernetes.io/last-applied-configuration", ""},
		{"a", "", "curfew.dev/protect", ""}, // It keeps the object by itself.
		{"a", "app.kubernetes.io/part-of", "", "label app.kubernetes.io/part-of"},
		{"a", "app.kubernetes.io/managed-by", "", "label app.kubernetes.io/managed-by"},
		{"a", "argocd.argoproj.io/secret-type", "", "label argocd.argoproj.io/secret-type"},
		{"a", "kustomize.toolkit.fluxcd.io/name", "", "label kustomize.toolkit.fluxcd.io/name"},
		{"a", "grafana_dashboard", "", "label grafana_dashboard"},
		{"a", "loki_rule", "", "label loki_rule"},
		{"a", "owner", "", ""},
		{"a", "", "meta.helm.sh/release-name", "annotation meta.helm.sh/release-name"},
		{"a", "", "kubernetes.io/service-account.name", "annotation kubernetes.io/service-account.name"},
		{"bootstrap-token-5emitj", "", "", "name bootstrap-token-5emitj"},
		{"sh.helm.release.v1.web.v3", "", "", "name sh.helm.release.v1.web.v3"},
		{"velero-repo-credentials", "", "", "name velero-repo-credentials"},
		{"alertmanager-main", "", "", "name alertmanager-main"},
	} {
		labels, annotations := map[string]string{}, map[string]string{}
		if c.label != "" {
			labels[c.label] = "x"
		}
		if c.annotation != "" {
			annotations[c.annotation] = "x"
		}
		if got := FoundBy(c.name, labels, annotations); got != c.want {
			t.Errorf("%+v is found by %q", c, got)
		}
	}
	if got := FoundBy("a", map[string]string{"owner": "helm"}, nil); got != "label owner" {
		t.Errorf("Helm finds it by %q", got)
	}
}

// A Pod costs the same however many namespaces have a name that it names.
func TestScanCostsNoMoreWithNamespaces(t *testing.T) {
	cost := func(namespaces int, spec map[string]any, elsewhere bool) float64 {
		c := NewCandidates()
		for i := range namespaces {
			must(t, c.Add(schema.GroupKind{Kind: "Secret"}, fmt.Sprint("ns", i), "settings", nil))
		}
		pod := map[string]any{"metadata": map[string]any{"namespace": "ns1"}, "spec": spec}
		out := testing.AllocsPerRun(10, func() { c.Scan(schema.GroupKind{Kind: "Pod"}, pod) })
		for namespace, want := range map[string]bool{"ns0": elsewhere, "ns1": true} {
			if got, err := c.Referenced(schema.GroupKind{Kind: "Secret"}, namespace, "settings", nil); err != nil || got != want {
				t.Errorf("in %s: %v, %v", namespace, got, err)
			}
		}
		return out
	}
	for elsewhere, spec := range map[bool]map[string]any{false: {"imagePullSecrets": []any{map[string]any{"name": "settings"}}}, true: {"x": "settings", "y": "--from=settings"}} {
		if few, many := cost(2, spec, elsewhere), cost(10_000, spec, elsewhere); many > few {
			t.Errorf("%v allocations with two namespaces, %v with 10,000", few, many)
		}
	}
}

// The message names the one reason why an object is no candidate.
func TestNoCandidate(t *testing.T) {
	c := NewCandidates()
	for name, want := range map[string]string{
		"ConfigMap kube-root-ca.crt":               "Kubernetes needs it",
		"ServiceAccount default":                   "Kubernetes needs it",
		"ConfigMap a.b.c.d.e.f":                    "its name has too many dots or dashes",
		"Secret " + strings.Repeat("a-", 33) + "a": "its name has too many dots or dashes",
		"Secret token":                             "programs use Secrets of its type",
		"ConfigMap late":                           "it was created after Curfew listed its kind",
	} {
		kind, object, _ := strings.Cut(name, " ")
		_, err := c.Referenced(schema.GroupKind{Kind: kind}, "ci", object, nil)
		if have := fmt.Sprint(err); have != fmt.Sprintf("%s ci/%s is not a candidate: %s", kind, object, want) {
			t.Errorf("%s: %s, want %s", name, have, want)
		}
	}
}

// A name with dots is found within a longer text, or is no candidate.
func TestNamesWithDots(t *testing.T) {
	const long = "a.b.c.d.e.f"
	for text, want := range map[string][]string{
		"b":              {"b"},
		"b.c":            {"b", "b.c"},
		"--from=b.c/key": {"b", "b.c"},
		"x.b.c.key.":     {"b", "b.c"},
		"v.w.x.y.z.b.c":  {"b", "b.c"},
		"a.b.c.d.e":      {"a.b.c.d.e", "b", "b.c"},
		"x.a.b.c.d.e.y":  {"a.b.c.d.e", "b", "b.c"},
		"bb.cc":          nil,
		"..--..":         nil,
	} {
		c, got := NewCandidates(), []string(nil)
		names := []string{"a.b.c.d.e", "b", "b.c"}
		for _, name := range append(names, long) {
			must(t, c.Add(schema.GroupKind{Kind: "ConfigMap"}, "ci", name, nil))
		}
		c.Scan(schema.GroupKind{Kind: "Pod"}, map[string]any{"metadata": map[string]any{"namespace": "ci"}, "spec": map[string]any{"x": text}})
		for _, name := range names {
			if referenced, err := c.Referenced(schema.GroupKind{Kind: "ConfigMap"}, "ci", name, nil); err != nil {
				t.Error(err)
			} else if referenced {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", text, got, want)
		}
		if _, err := c.Referenced(schema.GroupKind{Kind: "ConfigMap"}, "ci", long, nil); err == nil {
			t.Errorf("%s is a candidate", long)
		}
	}
}

var must = builders.Must
