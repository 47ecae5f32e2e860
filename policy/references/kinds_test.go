package references

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Claims and classes are named in fields of their own, by annotations, and by names that
// StatefulSets put together. A class is used without a name if it is the default one, and a volume
// serves its claim.
func TestClaimsAndClasses(t *testing.T) {
	statefulSet := func(version, name string) string {
		return "{apiVersion: " + version + ", kind: StatefulSet, metadata: {namespace: ci, name: " + name + "}, spec: {replicas: 0}}"
	}
	const classes = "IngressClass gold, PriorityClass gold, RuntimeClass gold, StorageClass gold"
	for name, c := range map[string]struct{ object, want string }{
		"nothing":                       {"{apiVersion: v1, kind: Pod, metadata: {namespace: ci, name: p}}", ""},
		"a Pod":                         {"{apiVersion: v1, kind: Pod, metadata: {namespace: ci, name: p}, spec: {priorityClassName: gold, volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}}", "PersistentVolumeClaim ci/data, PriorityClass gold"},
		"a runtime class":               {"{apiVersion: v1, kind: Pod, metadata: {namespace: ci, name: p}, spec: {runtimeClassName: gold}}", "RuntimeClass gold"},
		"a suspended CronJob":           {"{apiVersion: batch/v1, kind: CronJob, metadata: {namespace: ci, name: p}, spec: {jobTemplate: {spec: {template: {spec: {priorityClassName: gold}}}}}}", "PriorityClass gold"},
		"a claim":                       {"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: ci, name: x}, spec: {storageClassName: gold}}", "StorageClass gold"},
		"a clone of a claim":            {"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {namespace: ci, name: x}, spec: {dataSource: {kind: PersistentVolumeClaim, name: data}}}", "PersistentVolumeClaim ci/data"},
		"a volume":                      {"{apiVersion: v1, kind: PersistentVolume, metadata: {name: x}, spec: {storageClassName: gold}}", "StorageClass gold"},
		"the volume of the claim":       {"{apiVersion: v1, kind: PersistentVolume, metadata: {name: x}, spec: {claimRef: {kind: PersistentVolumeClaim, namespace: ci, name: data}, csi: {volumeAttributes: {csi.storage.k8s.io/pvc/name: data}}}}", ""},
		"an Ingress":                    {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: ci, name: x}, spec: {ingressClassName: gold}}", "IngressClass gold"},
		"an annotation of an Ingress":   {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: ci, name: x, annotations: {kubernetes.io/ingress.class: gold}}}", classes},
		"a quota of a storage class":    {"{apiVersion: v1, kind: ResourceQuota, metadata: {namespace: ci, name: x}, spec: {hard: {gold.storageclass.storage.k8s.io/requests.storage: 1Gi}}}", classes},
		"a quota of a priority class":   {"{apiVersion: v1, kind: ResourceQuota, metadata: {namespace: ci, name: x}, spec: {scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [gold]}]}}}", classes},
		"a custom kind":                 {"{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x}, spec: {class: gold}}", classes},
		"a class made by an operator":   {"{apiVersion: example.com/v1, kind: Pool, metadata: {namespace: rook, name: tier}}", "StorageClass tier-block"},
		"the default priority class":    {"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: gold}, globalDefault: true}", "PriorityClass gold"},
		"another priority class":        {"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: gold}, globalDefault: false}", ""},
		"a StatefulSet":                 {statefulSet("apps/v1", "db"), "PersistentVolumeClaim ci/data-db-0"},
		"a StatefulSet of another name": {statefulSet("apps/v1", "d"), ""},
		"a StatefulSet of OpenKruise":   {statefulSet("apps.kruise.io/v1beta1", "db"), "PersistentVolumeClaim ci/data-db-0"},
		"a Deployment of that name":     {"{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: ci, name: db}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := []target{{schema.GroupKind{Kind: claimKind}, "ci", "data"}, {schema.GroupKind{Kind: claimKind}, "ci", "data-db-0"}, {schema.GroupKind{Group: "storage.k8s.io", Kind: "StorageClass"}, "", "tier-block"}}
			for resource, kind := range Kinds {
				if resource.Group != "" {
					all = append(all, target{schema.GroupKind{Group: resource.Group, Kind: kind}, "", "gold"})
				}
			}
			candidates, got := NewCandidates(), []string(nil)
			for _, target := range all {
				must(t, candidates.Add(target.kind, target.namespace, target.name, nil))
			}
			candidates.Scan(read(t, c.object))
			for _, target := range all {
				if referenced, err := candidates.Referenced(target.kind, target.namespace, target.name, nil); referenced && err == nil {
					got = append(got, strings.Replace(target.kind.Kind+" "+target.namespace+"/"+target.name, " /", " ", 1))
				}
			}
			slices.Sort(got)
			if strings.Join(got, ", ") != c.want {
				t.Errorf("%s refers to %q, want %q", c.object, got, c.want)
			}
		})
	}
}

// A selector selects Pods, and templates at any depth, of its own namespace.
func TestSelects(t *testing.T) {
	web := "{apiVersion: v1, kind: Service, metadata: {namespace: ci, name: web}, spec: {selector: {app: web, of: shop}}}"
	pod := func(namespace, labels string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {namespace: " + namespace + ", name: web, labels: {" + labels + "}}, spec: {}}"
	}
	slice := func(manager, endpoints string) string {
		return "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: ci, name: web-x, labels: {app: web, of: shop, kubernetes.io/service-name: web, endpointslice.kubernetes.io/managed-by: " + manager + "}}, endpoints: [" + endpoints + "]}"
	}
	budget := "{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {namespace: ci, name: web}, spec: {selector: {matchExpressions: [{key: app, operator: In, values: [web, api]}]}}}"
	network := "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: ci, name: all}, spec: {podSelector: {}}}"
	perPod := "{apiVersion: v1, kind: Service, metadata: {namespace: ci, name: web}, spec: {selector: {statefulset.kubernetes.io/pod-name: db-12}}}"
	statefulSet := func(namespace, name string) string {
		return "{apiVersion: apps/v1, kind: StatefulSet, metadata: {namespace: " + namespace + ", name: " + name + "}, spec: {replicas: 0, template: {metadata: {labels: {app: x}}}}}"
	}
	deployment := func(labels string) string {
		return "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: ci, name: d}, spec: {replicas: 0, template: {metadata: {labels: {" + labels + "}}}}}"
	}
	const template = "template: {metadata: {labels: {app: web, of: shop, more: x}}}"
	for name, c := range map[string]struct {
		object, scanned string
		want            bool
	}{
		"nothing":                            {web, "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: ci, name: c}}", false},
		"a Pod":                              {web, pod("ci", "app: web, of: shop, more: x"), true},
		"a Pod without one of the labels":    {web, pod("ci", "app: web"), false},
		"a Pod elsewhere":                    {web, pod("dev", "app: web, of: shop"), false},
		"a Deployment scaled to zero":        {web, "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: ci, name: d}, spec: {replicas: 0, " + template + "}}", true},
		"a label that Pods get later":        {web, deployment("app: web, more: x"), true},
		"another value of a label":           {web, deployment("app: web, of: bank"), false},
		"none of the labels":                 {web, deployment("more: x"), false},
		"a StatefulSet scaled to zero":       {perPod, statefulSet("ci", "db"), true},
		"another StatefulSet":                {perPod, statefulSet("ci", "d"), false},
		"a StatefulSet elsewhere":            {perPod, statefulSet("dev", "db"), false},
		"a cluster-scoped custom kind":       {web, "{apiVersion: example.com/v1, kind: Any, metadata: {name: x}, spec: {" + template + "}}", true},
		"one of a value's name":              {web, "{apiVersion: example.com/v1, kind: Any, metadata: {name: shop}}", true},
		"a suspended CronJob":                {web, "{apiVersion: batch/v1, kind: CronJob, metadata: {namespace: ci, name: d}, spec: {suspend: true, jobTemplate: {spec: {" + template + "}}}}", true},
		"labels of a Deployment itself":      {web, "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: ci, name: d, labels: {app: web, of: shop}}, spec: {template: {metadata: {labels: {app: other}}}}}", false},
		"a selector of a NetworkPolicy":      {web, "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {namespace: ci, name: d}, spec: {podSelector: {matchLabels: {app: web, of: shop}}}}", false},
		"a kind without a profile":           {web, "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x}, spec: {workers: [{pod: {" + template + "}}]}}", true},
		"labels for the Pods of an operator": {web, "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x}, spec: {podLabels: {app: web, of: shop}}}", true},
		"labels of a custom kind":            {web, "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x, labels: {app: web, of: shop}}}", true},
		"an operator's object of a value":    {web, "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: shop}}", true},
		"that elsewhere":                     {web, "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: dev, name: shop}}", false},
		"a Deployment of a value's name":     {web, "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: ci, name: shop}, spec: {}}", false},
		"its EndpointSlice without Pods":     {web, slice("endpointslice-controller.k8s.io", ""), false},
		"endpoints in its EndpointSlice":     {web, slice("endpointslice-controller.k8s.io", "{addresses: [10.0.0.1]}"), true},
		"an EndpointSlice by another":        {web, slice("example.com", ""), true},
		"Endpoints by hand":                  {web, "{apiVersion: v1, kind: Endpoints, metadata: {namespace: ci, name: web}, subsets: [{addresses: [{ip: 10.0.0.1}]}]}", true},
		"Endpoints without addresses":        {web, "{apiVersion: v1, kind: Endpoints, metadata: {namespace: ci, name: web}}", false},
		"a budget with expressions alone":    {budget, pod("ci", "app: api"), true},
		"a budget of other Pods":             {budget, pod("ci", "app: db"), false},
		"a NetworkPolicy for all Pods":       {network, "{apiVersion: v1, kind: Pod, metadata: {namespace: ci, name: p}}", true},
		"a NetworkPolicy for Pods to come":   {network, "{apiVersion: v1, kind: Pod, metadata: {namespace: dev, name: p}}", true},
		"a NetworkPolicy of no Pods":         {strings.Replace(network, "podSelector: {}", "podSelector: {matchLabels: {app: web}}", 1), pod("ci", "app: api"), false},
		"a template for a budget":            {budget, deployment("of: shop"), false},
		"an Ingress":                         {web, strings.ReplaceAll(ingress, "%s", ""), true},
		"an Ingress elsewhere":               {web, strings.Replace(strings.ReplaceAll(ingress, "%s", ""), "ci", "dev", 1), false},
		"a webhook":                          {web, "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: x}, webhooks: [{clientConfig: {service: {namespace: ci, name: web}}}]}", true},
		"an APIService":                      {web, "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1.example.com}, spec: {service: {namespace: ci, name: web}}}", true},
		"an HTTPRoute elsewhere":             {web, "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {namespace: dev, name: x}, spec: {rules: [{backendRefs: [{namespace: ci, name: web}]}]}}", true},
		"a host of Istio":                    {web, "{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {namespace: dev, name: x}, spec: {hosts: [web.ci.svc.cluster.local]}}", true},
		"an export to other clusters":        {web, "{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceExport, metadata: {namespace: ci, name: web}}", true},
		"an object that a name is made from": {strings.Replace(web, "name: web", "name: db-headless", 1), "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: db}}", true},
		"an address in a variable":           {web, "{apiVersion: v1, kind: Pod, metadata: {namespace: dev, name: x}, spec: {containers: [{env: [{name: E, value: 'http://web.ci.svc'}]}]}}", true},
		"a workload of its name":             {web, "{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: ci, name: web}, spec: {}}", false},
		"a ConfigMap that a volume names":    {web, "{apiVersion: v1, kind: Pod, metadata: {namespace: ci, name: x}, spec: {volumes: [{configMap: {name: web}}]}}", false},
		"its own EndpointSlice":              {web, strings.Replace(slice("endpointslice-controller.k8s.io", ""), "labels", "ownerReferences: [{apiVersion: v1, kind: Service, name: web}], labels", 1), false},
		"its own address":                    {web, "{apiVersion: networking.k8s.io/v1, kind: IPAddress, metadata: {name: 10.0.0.1}, spec: {parentRef: {resource: services, namespace: ci, name: web}}}", false},
		"a budget that an object names":      {budget, "{apiVersion: example.com/v1, kind: Any, metadata: {namespace: ci, name: x}, spec: {of: web}}", false},
	} {
		t.Run(name, func(t *testing.T) {
			kind, object := read(t, c.object)
			candidates := NewCandidates()
			must(t, candidates.AddSelector(kind, object))
			candidates.Scan(read(t, c.scanned))
			if got, err := candidates.Selects(kind, object); err != nil || got != c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

// A class may make the names of Secrets from claims.
func TestNamesThatClassesMake(t *testing.T) {
	kind := schema.GroupKind{Kind: "Secret"}
	for parameters, want := range map[string]string{
		"":                      "",
		"name-of-secret: fixed": "",
		"csi.storage.k8s.io/x-secret-name: '${pvc.name}'":                    "a, luks-a, luks-a-x, luksxa",
		"csi.storage.k8s.io/x-secret-name: 'luks-${pvc.name}'":               "luks-a, luks-a-x",
		"csiProvisionerSecretName: 'lu.s-${pvc.name}'":                       "",
		"secretName: '${pvc.name}-${pvc.annotations[''a.b/c'']}'":            "luks-a, luks-a-x",
		"csi.storage.k8s.io/x-secret-namespace: '${pvc.namespace}'":          "",
		"subDir: '${pvc.metadata.name}'":                                     "",
		"csi.storage.k8s.io/x-secret-name: '${pvc.name}-x', other-secret: 3": "luks-a-x",
	} {
		all := candidates(t, kind, "ci", "a", "luks-a", "luks-a-x", "luksxa")
		must(t, all.Add(schema.GroupKind{Kind: "ConfigMap"}, "ci", "luks-a", nil))
		class := func(metadata, parameters string) string {
			return "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {" + metadata + "}, parameters: {" + parameters + "}}"
		}
		all.Scan(read(t, class("name: c", parameters)))
		all.Scan(read(t, class("name: c, namespace: ci", "secretName: '${x}'"))) // A tenant's kind of that name.
		var got []string
		for _, name := range []string{"a", "luks-a", "luks-a-x", "luksxa"} {
			if _, err := all.Referenced(kind, "ci", name, nil); err != nil {
				got = append(got, name)
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: unknown %q, want %q", parameters, got, want)
		}
		if got := answer(all.Referenced(schema.GroupKind{Kind: "ConfigMap"}, "ci", "luks-a", nil)); got != "false" {
			t.Errorf("%s: a ConfigMap is %s", parameters, got)
		}
	}
}

// Pods do not decide about Services that lead elsewhere, and a selector that was changed since the
// list may select other Pods.
func TestSelectsIsUnknown(t *testing.T) {
	service := func(spec string) string {
		return "{apiVersion: v1, kind: Service, metadata: {namespace: ci, name: web}" + spec + "}"
	}
	for name, c := range map[string]struct{ listed, live string }{
		"no selector":         {service(", spec: {}"), service(", spec: {}")},
		"another name":        {service(", spec: {type: ExternalName, selector: {a: b}}"), service(", spec: {type: ExternalName, selector: {a: b}}")},
		"metadata alone":      {service(", spec: {selector: {a: b}}"), service("")},
		"a changed selector":  {service(", spec: {selector: {a: b}}"), service(", spec: {selector: {a: c}}")},
		"an invalid selector": {service(", spec: {selector: {a: [1]}}"), service(", spec: {selector: {a: [1]}}")},
	} {
		candidates := NewCandidates()
		must(t, candidates.AddSelector(read(t, c.listed)))
		if got, err := candidates.Selects(read(t, c.live)); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

const (
	hpa      = "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: ci, name: a}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}"
	ingress  = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: ci, name: a%s}, spec: {defaultBackend: {service: {name: web}}, rules: [{http: {paths: [{backend: {service: {name: api}}}]}}]}}"
	attached = "{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: a}, spec: {nodeName: n1, source: {persistentVolumeName: v1}}}"
	binding  = "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: ci, name: a}, roleRef: {kind: Role, name: r}, subjects: [%s]}"
)

// encrypted is an Ingress with a certificate.
var encrypted = strings.Replace(ingress, "spec: {", "spec: {tls: [{hosts: [example.com], secretName: tls}], ", 1)

// An object dangles if its target does not exist in the namespace, an Ingress if no backend does.
func TestDangling(t *testing.T) {
	object := func(version, kind, namespace, name string) string {
		return "{apiVersion: " + version + ", kind: " + kind + ", metadata: {namespace: " + namespace + ", name: " + name + "}}"
	}
	webhooks := func(configs ...string) string {
		out := ""
		for _, config := range configs {
			out += "{name: a.example.com, clientConfig: {" + config + "}}, "
		}
		return "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: a}, webhooks: [" + out + "]}"
	}
	plain, certificate := strings.ReplaceAll(ingress, "%s", ""), strings.ReplaceAll(encrypted, "%s", "")
	account := strings.ReplaceAll(binding, "%s", "{kind: ServiceAccount, name: sa, namespace: dev}")
	role := object("rbac.authorization.k8s.io/v1", "Role", "ci", "r")
	for name, c := range map[string]struct {
		object  string
		scanned []string
		want    bool
	}{
		"an HPA of nothing":                    {hpa, nil, true},
		"an HPA of a Deployment":               {hpa, []string{object("apps/v1", "Deployment", "ci", "web")}, false},
		"an HPA of a Deployment elsewhere":     {hpa, []string{object("apps/v1", "Deployment", "dev", "web")}, true},
		"an HPA of a StatefulSet":              {hpa, []string{object("apps/v1", "StatefulSet", "ci", "web")}, true},
		"an HPA of another group":              {hpa, []string{object("apps.kruise.io/v1", "Deployment", "ci", "web")}, true},
		"an Ingress without a backend":         {plain, nil, true},
		"an Ingress with a certificate":        {certificate, []string{object("v1", "Service", "ci", "web")}, false},
		"an Ingress with the default backend":  {plain, []string{object("v1", "Service", "ci", "web")}, false},
		"an Ingress with one backend":          {plain, []string{object("v1", "Service", "ci", "api")}, false},
		"an Ingress of backends elsewhere":     {plain, []string{object("v1", "Service", "dev", "api")}, true},
		"an Ingress that names none":           {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: ci, name: a}, spec: {}}", nil, false},
		"an attachment to a Node that is gone": {attached, []string{"{apiVersion: v1, kind: PersistentVolume, metadata: {name: v1}}"}, true},
		"an attachment":                        {attached, []string{"{apiVersion: v1, kind: PersistentVolume, metadata: {name: v1}}", "{apiVersion: v1, kind: Node, metadata: {name: n1}}"}, false},
		"a binding":                            {account, []string{role, object("v1", "ServiceAccount", "dev", "sa")}, false},
		"a binding without its role":           {account, []string{object("v1", "ServiceAccount", "dev", "sa")}, true},
		"an account of another namespace":      {account, []string{role, object("v1", "ServiceAccount", "ci", "sa")}, true},
		"webhooks of nothing":                  {webhooks("service: {namespace: ci, name: web}", "service: {namespace: ci, name: api}"), nil, true},
		"webhooks of a Service elsewhere":      {webhooks("service: {namespace: ci, name: web}"), []string{object("v1", "Service", "dev", "web")}, true},
		"one webhook of a Service":             {webhooks("service: {namespace: ci, name: web}", "service: {namespace: ci, name: api}"), []string{object("v1", "Service", "ci", "api")}, false},
		"a webhook at a URL":                   {webhooks("service: {namespace: ci, name: web}", "url: https://example.com"), nil, false},
		"no webhooks":                          {webhooks(), nil, false},
		"a binding of the API server":          {strings.Replace(account, "name: a}", "name: a, labels: {kubernetes.io/bootstrapping: rbac-defaults}}", 1), nil, false},
		"a binding of a group":                 {strings.ReplaceAll(binding, "%s", "{kind: Group, name: x}, {kind: ServiceAccount, name: sa}"), []string{role}, false},
	} {
		t.Run(name, func(t *testing.T) {
			kind, values := read(t, c.object)
			candidates := NewCandidates()
			must(t, candidates.AddReferring(kind, values))
			for _, text := range c.scanned {
				candidates.Scan(read(t, text))
			}
			for _, groupKind := range []schema.GroupKind{{Group: "apps", Kind: "Deployment"}, {Kind: "Service"}, {Kind: "Node"}, {Kind: "PersistentVolume"}, {Kind: "ServiceAccount"}, {Group: "rbac.authorization.k8s.io", Kind: "Role"}} {
				candidates.Listed(groupKind)
			}
			if got, err := candidates.Dangling(kind, values); err != nil || got != c.want {
				t.Errorf("%v, %v; want %v", got, err, c.want)
			}
		})
	}
}

// A kind that was not listed may have the target, and what an Ingress does without its backends is
// in annotations of its controller.
func TestDanglingIsUnknown(t *testing.T) {
	annotated := func(key string) string { return strings.ReplaceAll(ingress, "%s", ", annotations: {"+key+": x}") }
	hostOnly := strings.Replace(strings.ReplaceAll(ingress, "%s", ""), "rules: [", "rules: [{host: example.com}, ", 1)
	for name, c := range map[string]struct {
		listed, live string
		kind         schema.GroupKind
		known        bool
	}{
		"known":                  {hpa, hpa, schema.GroupKind{Group: "apps", Kind: "Deployment"}, true},
		"its kind is not listed": {hpa, hpa, schema.GroupKind{Kind: "Deployment"}, false},
		"another target":         {hpa, strings.ReplaceAll(hpa, "name: web", "name: api"), schema.GroupKind{Group: "apps", Kind: "Deployment"}, false},
		"metadata alone":         {hpa, "{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: ci, name: a}}", schema.GroupKind{Group: "apps", Kind: "Deployment"}, false},
		"another annotation":     {annotated("a/b"), annotated("a/b"), schema.GroupKind{Kind: "Service"}, true},
		"nginx redirects":        {annotated("nginx.ingress.kubernetes.io/permanent-redirect"), annotated("nginx.ingress.kubernetes.io/permanent-redirect"), schema.GroupKind{Kind: "Service"}, false},
		"a load balancer acts":   {annotated("alb.ingress.kubernetes.io/actions.ssl"), annotated("alb.ingress.kubernetes.io/actions.ssl"), schema.GroupKind{Kind: "Service"}, false},
		"nginx leads to a page":  {annotated("nginx.ingress.kubernetes.io/app-root"), annotated("nginx.ingress.kubernetes.io/app-root"), schema.GroupKind{Kind: "Service"}, false},
		"a frontend of GKE":      {annotated("networking.gke.io/v1beta1.FrontendConfig"), annotated("networking.gke.io/v1beta1.FrontendConfig"), schema.GroupKind{Kind: "Service"}, false},
		"one of several":         {annotated("nginx.org/mergeable-ingress-type"), annotated("nginx.org/mergeable-ingress-type"), schema.GroupKind{Kind: "Service"}, false},
		"a certificate":          {strings.ReplaceAll(encrypted, "%s", ""), strings.ReplaceAll(encrypted, "%s", ""), schema.GroupKind{Kind: "Service"}, false},
		"a rule without paths":   {hostOnly, hostOnly, schema.GroupKind{Kind: "Service"}, false},
		"a resource as backend":  {"{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: ci, name: a}, spec: {defaultBackend: {resource: {apiGroup: x.io, kind: Bucket, name: b}}}}", "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {namespace: ci, name: a}, spec: {defaultBackend: {resource: {apiGroup: x.io, kind: Bucket, name: b}}}}", schema.GroupKind{Kind: "Service"}, false},
	} {
		candidates := NewCandidates()
		must(t, candidates.AddReferring(read(t, c.listed)))
		candidates.Listed(c.kind)
		if got, err := candidates.Dangling(read(t, c.live)); (err == nil) != c.known || got != c.known {
			t.Errorf("%s: %v, %v; want it known: %v", name, got, err, c.known)
		}
	}
}
