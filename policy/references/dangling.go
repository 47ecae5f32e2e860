package references

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/quote"
)

// Referring are the built-in kinds whose own references are known, by resource.
var Referring = map[schema.GroupResource]string{
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"}:    "HorizontalPodAutoscaler",
	{Group: "networking.k8s.io", Resource: "ingresses"}:             "Ingress",
	{Group: admission, Resource: "mutatingwebhookconfigurations"}:   "MutatingWebhookConfiguration",
	{Group: admission, Resource: "validatingwebhookconfigurations"}: "ValidatingWebhookConfiguration",
	{Group: rbac, Resource: "clusterrolebindings"}:                  "ClusterRoleBinding",
	{Group: rbac, Resource: "rolebindings"}:                         "RoleBinding",
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:        "VolumeAttachment",
}

const admission = "admissionregistration.k8s.io"

const (
	// maxTargets bounds the references of one object. Its author decides how many it has.
	maxTargets = 1000
	// maxName is the longest name of an object.
	maxName = 253
)

// target is an object that another one refers to.
type target struct {
	kind            schema.GroupKind
	namespace, name string
}

// targets are the objects that candidates refer to, whether they exist, and the kinds that were
// scanned as a whole.
type targets struct {
	exists map[target]bool
	listed map[schema.GroupKind]bool
}

func (t *targets) scan(kind schema.GroupKind, namespace, name string) {
	for _, where := range []string{namespace, anywhere} {
		key := target{kind, where, name}
		if _, ok := t.exists[key]; ok {
			t.exists[key] = true
		}
	}
}

// Refers reports whether [Candidates.Dangling] is about a resource: one of [Referring], or a custom
// kind whose KindProfile has references.
func (c *Candidates) Refers(resource schema.GroupResource, kind schema.GroupKind) bool {
	return Referring[resource] != "" || !BuiltIn(kind.Group) && len(c.Fields[kind]) > 0
}

// AddReferring adds an object of a kind that [Candidates.Refers] is true for. Of an object with too
// many targets, or of too many objects, Dangling is not known.
func (c *Candidates) AddReferring(kind schema.GroupKind, object map[string]any) error {
	if err := c.more(); err != nil {
		return err
	}
	all, err := c.targetsOf(kind, object)
	if err != nil || len(c.targets.exists) >= maxCandidates {
		return nil // Dangling returns it.
	}
	for _, some := range all {
		for _, target := range some {
			c.targets.exists[target] = false
		}
	}
	return nil
}

// Listed notes that all objects of a kind were scanned.
func (c *Candidates) Listed(kind schema.GroupKind) { c.targets.listed[kind] = true }

// Dangling reports whether an object that was added, as it is now, refers to nothing that was
// scanned. It is an error if that is not known.
func (c *Candidates) Dangling(kind schema.GroupKind, object map[string]any) (bool, error) {
	namespace, name := identity(object)
	all, err := c.targetsOf(kind, object)
	if err != nil {
		return false, fmt.Errorf("%s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	dangles := false
	for _, some := range all {
		exists := len(some) == 0
		for _, target := range some {
			found, added := c.targets.exists[target]
			switch {
			case !c.targets.listed[target.kind]:
				return false, fmt.Errorf("%s %s/%s: whether %s %q exists is not known: its kind was not listed",
					kind.Kind, namespace, name, target.kind, target.name)
			case !added && len(c.targets.exists) >= maxCandidates:
				return false, fmt.Errorf("%s %s/%s is not a candidate: the cluster has too many references", kind.Kind, namespace, name)
			case !added:
				return false, fmt.Errorf("%s %s/%s is not a candidate: its references were written after Curfew listed its kind",
					kind.Kind, namespace, name)
			}
			exists = exists || found
		}
		dangles = dangles || !exists
	}
	// Controllers serve all Ingresses of a host with its certificate, and cert-manager deletes that
	// with the Ingress.
	if tls, _ := mapIn(object, "spec")["tls"].([]any); dangles && kind.Kind == "Ingress" && len(tls) > 0 {
		return false, fmt.Errorf("%s %s/%s: it has no backend, but its certificate may serve other Ingresses of the host", kind.Kind, namespace, name)
	}
	return dangles, nil
}

// targetsOf are the objects that an object refers to. It dangles if nothing exists of one group.
func (c *Candidates) targetsOf(kind schema.GroupKind, object map[string]any) ([][]target, error) {
	targetsOf := builtInTargets
	if fields := c.Fields[kind]; !BuiltIn(kind.Group) && len(fields) > 0 {
		targetsOf = func(_ schema.GroupKind, object map[string]any) ([][]target, error) {
			return fieldTargets(fields, object)
		}
	}
	all, err := targetsOf(kind, object)
	if err == nil && (len(all) > maxTargets || slices.ContainsFunc(all, func(some []target) bool { return len(some) > maxTargets })) {
		err = fmt.Errorf("it refers to more than %d objects", maxTargets)
	}
	return all, err
}

// fieldTargets are the objects that the fields of a KindProfile name, each a group of its own. A
// cluster-scoped object that names no namespace may mean any, and a target may be cluster-scoped.
func fieldTargets(fields []policy.Reference, object map[string]any) (out [][]target, err error) {
	for i := range fields {
		reference := &fields[i]
		reference.Each(object, func(namespace, name string) {
			switch {
			case err != nil || len(out) > maxTargets:
			case name == "" || len(namespace+name) > 2*maxName || strings.ContainsFunc(namespace+name, endsName):
				// A template such as {{workflow.name}}-data becomes a name later.
				err = fmt.Errorf("its %s names no object: %q", reference.Path, quote.Shorten(namespace+"/"+name))
			default:
				out = append(out, []target{{reference.Kind, cmp.Or(namespace, anywhere), name}, {reference.Kind, "", name}})
			}
		})
	}
	return out, err
}

// builtInTargets are the objects that an object of [Referring] refers to.
func builtInTargets(kind schema.GroupKind, object map[string]any) ([][]target, error) {
	namespace, _ := identity(object)
	switch kind.Group {
	case rbac:
		return bindingTargets(namespace, object), nil
	case admission:
		return webhookTargets(object), nil
	}
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("its spec is not known")
	}
	switch kind.Kind {
	case "HorizontalPodAutoscaler":
		version, _, _ := unstructured.NestedString(spec, "scaleTargetRef", "apiVersion")
		scaled, _, _ := unstructured.NestedString(spec, "scaleTargetRef", "kind")
		name, _, _ := unstructured.NestedString(spec, "scaleTargetRef", "name")
		parsed, err := schema.ParseGroupVersion(version)
		if err != nil || scaled == "" || name == "" {
			return nil, fmt.Errorf("its spec.scaleTargetRef names no object")
		}
		return [][]target{{{parsed.WithKind(scaled).GroupKind(), namespace, name}}}, nil
	case "VolumeAttachment":
		volume, _, _ := unstructured.NestedString(spec, "source", "persistentVolumeName")
		node, _ := spec["nodeName"].(string)
		if volume == "" || node == "" {
			return nil, fmt.Errorf("its spec names no PersistentVolume and Node")
		}
		return [][]target{{{schema.GroupKind{Kind: "PersistentVolume"}, "", volume}}, {{schema.GroupKind{Kind: "Node"}, "", node}}}, nil
	case "Ingress":
		return ingressTargets(namespace, spec, object)
	}
	return nil, fmt.Errorf("its references are not known")
}

// bindingTargets are the role of a binding, and its subjects. A user or a group always exists, and
// the API server makes its own bindings again.
func bindingTargets(namespace string, object map[string]any) [][]target {
	if _, own, _ := unstructured.NestedString(object, "metadata", "labels", "kubernetes.io/bootstrapping"); own {
		return nil
	}
	role, _ := object["roleRef"].(map[string]any)
	roleKind, _ := role["kind"].(string)
	name, _ := role["name"].(string)
	where := namespace
	if roleKind == "ClusterRole" {
		where = ""
	}
	out := [][]target{{{schema.GroupKind{Group: rbac, Kind: roleKind}, where, name}}}
	subjects, _ := object["subjects"].([]any)
	var accounts []target
	for _, item := range subjects {
		subject, _ := item.(map[string]any)
		if subject["kind"] != "ServiceAccount" {
			return out
		}
		space, _ := subject["namespace"].(string)
		name, _ := subject["name"].(string)
		if space == "" {
			space = namespace
		}
		accounts = append(accounts, target{schema.GroupKind{Kind: "ServiceAccount"}, space, name})
	}
	return append(out, accounts)
}

// webhookTargets are all Services of a configuration: as long as one exists, it is called. So is a
// URL.
func webhookTargets(object map[string]any) [][]target {
	webhooks, _ := object["webhooks"].([]any)
	var out []target
	for _, item := range webhooks {
		webhook, _ := item.(map[string]any)
		namespace, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "namespace")
		name, _, _ := unstructured.NestedString(webhook, "clientConfig", "service", "name")
		if name == "" {
			return nil
		}
		out = append(out, target{schema.GroupKind{Kind: "Service"}, namespace, name})
	}
	return [][]target{out}
}

// answers are parts of annotations by which a controller answers requests of an Ingress without its
// backends: nginx.ingress.kubernetes.io/permanent-redirect, alb.ingress.kubernetes.io/actions.NAME,
// traefik.ingress.kubernetes.io/router.middlewares, konghq.com/plugins,
// nginx.ingress.kubernetes.io/app-root, networking.gke.io/v1beta1.FrontendConfig,
// nginx.org/mergeable-ingress-type.
var answers = []string{
	"redirect", "snippet", "action", "backend", "response", "middleware", "plugin", "app-root", "FrontendConfig", "mergeable",
}

// ingressTargets are all backends of an Ingress: as long as one exists, it serves requests. A
// Secret for TLS that does not exist makes a controller use its own certificate.
func ingressTargets(namespace string, spec, object map[string]any) ([][]target, error) {
	annotations, _, _ := unstructured.NestedMap(object, "metadata", "annotations")
	for key := range annotations {
		for _, part := range answers {
			if strings.Contains(key, part) {
				return nil, fmt.Errorf("annotation %s may answer requests without a backend", key)
			}
		}
	}
	var backends []any
	if backend, ok := spec["defaultBackend"]; ok {
		backends = append(backends, backend)
	}
	rules, _ := spec["rules"].([]any)
	for _, item := range rules {
		rule, _ := item.(map[string]any)
		paths, _, _ := unstructured.NestedSlice(rule, "http", "paths")
		if len(paths) == 0 {
			return nil, fmt.Errorf("a rule without paths leads to the default backend of its controller")
		}
		for _, item := range paths {
			path, _ := item.(map[string]any)
			backends = append(backends, path["backend"])
		}
	}
	var out []target
	for _, item := range backends {
		backend, _ := item.(map[string]any)
		kind := schema.GroupKind{Kind: "Service"}
		name, _, _ := unstructured.NestedString(backend, "service", "name")
		if resource, ok := backend["resource"].(map[string]any); ok {
			kind.Group, _ = resource["apiGroup"].(string)
			kind.Kind, _ = resource["kind"].(string)
			name, _ = resource["name"].(string)
		}
		if name == "" {
			return nil, fmt.Errorf("one of its backends names no object")
		}
		out = append(out, target{kind, namespace, name})
	}
	return [][]target{out}, nil
}
