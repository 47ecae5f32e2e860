package references

import (
	"regexp"
	"slices"
	"strings"

	"curfew.dev/curfew/policy/wellknown"
)

// builtIn are the API groups whose kinds are Go types that TestFieldsOfBuiltInKinds looks through,
// of k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator, and Curfew's own.
var builtIn = []string{
	"", "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "autoscaling", "batch",
	"certificates.k8s.io", "discovery.k8s.io", "flowcontrol.apiserver.k8s.io", "internal.apiserver.k8s.io", "networking.k8s.io",
	"node.k8s.io", "policy", "rbac.authorization.k8s.io", "resource.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
	wellknown.Group,
}

// BuiltIn reports whether the fields of an API group's kinds are known, the same in each version.
func BuiltIn(group string) bool { return slices.Contains(builtIn, group) }

// noReference are fields of built-in kinds that name no object of [Kinds], with all that they
// contain, each after the field that contains it. All other fields count. A test lists the Go types
// that have these fields, and fails when a release of Kubernetes adds one.
var noReference = set(
	// metav1.ObjectMeta, and a copy of the object as kubectl apply sent it
	"metadata.name", "metadata.generateName", "metadata.namespace", "metadata.uid", "metadata.labels",
	"annotations.kubectl.kubernetes.io/last-applied-configuration",
	// selectors of labels
	"spec.selector", "spec.nodeSelector", "podSelector.matchLabels", "namespaceSelector.matchLabels", "labelSelector.matchLabels",
	// corev1.Container and corev1.ContainerStatus
	"containers.name", "initContainers.name", "ephemeralContainers.name",
	"containers.image", "initContainers.image", "ephemeralContainers.image",
	"containerStatuses.name", "initContainerStatuses.name", "ephemeralContainerStatuses.name",
	"containerStatuses.image", "initContainerStatuses.image", "ephemeralContainerStatuses.image",
	"containerStatuses.imageID", "initContainerStatuses.imageID", "ephemeralContainerStatuses.imageID",
	// names within a Pod or Service: corev1.Volume, VolumeMount, VolumeDevice, EnvVar, ContainerPort
	"volumes.name", "volumeMounts.name", "volumeMounts.mountPath", "volumeMounts.subPath", "volumeDevices.name", "volumeDevices.devicePath",
	"env.name", "ports.name", "port.name",
	// keys and paths: corev1.KeyToPath and its kin, HTTPGetAction, networkingv1.HTTPIngressPath
	"configMapKeyRef.key", "secretKeyRef.key", "items.key", "items.path", "httpGet.path", "paths.path",
	// Kubernetes makes one for each Service: networkingv1.IPAddressSpec
	"spec.parentRef",
	// what a policy matches: admissionregistrationv1.NamedRuleWithOperations, and cleanup policies
	"resourceRules.resourceNames",
	// texts: metav1.Condition, corev1.ContainerImage, apiextensionsv1.CustomResourceValidation
	"conditions.message", "images.names", "schema.openAPIV3Schema",
)

// kindsNamed are fields of built-in kinds that name objects of one kind, each after the field that
// contains it.
var kindsNamed = map[string]string{
	// corev1.ConfigMapVolumeSource, ConfigMapProjection, ConfigMapEnvSource, ConfigMapKeySelector
	"configMap.name": "ConfigMap", "configMapRef.name": "ConfigMap", "configMapKeyRef.name": "ConfigMap",
	// corev1.SecretVolumeSource, SecretProjection, SecretEnvSource, SecretReference, SecretKeySelector
	"secret.secretName": "Secret", "secret.name": "Secret", "secretRef.name": "Secret", "secretKeyRef.name": "Secret",
	// corev1.PodSpec and corev1.ServiceAccount, networkingv1.IngressTLS
	"imagePullSecrets.name": "Secret", "tls.secretName": "Secret",
	"spec.serviceAccountName": "ServiceAccount", "spec.serviceAccount": "ServiceAccount",
	// corev1.PodSpec, PersistentVolumeClaimVolumeSource and PersistentVolumeClaimSpec, IngressSpec
	"persistentVolumeClaim.claimName": claimKind, "spec.priorityClassName": "PriorityClass", "spec.runtimeClassName": "RuntimeClass",
	"spec.storageClassName": "StorageClass", "spec.ingressClassName": "IngressClass",
	// networkingv1.IngressServiceBackend, admissionregistrationv1.WebhookClientConfig and its kin, appsv1.StatefulSetSpec
	"service.name": "Service", "spec.serviceName": "Service",
}

func set(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

func ignored(builtIn bool, parent, field string) bool {
	return parent == "metadata" && field == "managedFields" || builtIn && noReference[parent+"."+field]
}

// kindNamed is the kind that a field names; "" for any.
func kindNamed(builtIn bool, parent, field string) string {
	if !builtIn {
		return ""
	}
	return kindsNamed[parent+"."+field]
}

// ofTheirKind are fields of built-in kinds with a reference to an object of the kind that is beside
// the name.
var ofTheirKind = []string{"claimRef", "ownerReferences", "roleRef", "scaleTargetRef", "subjects", "targetRef"}

// namesKind reports whether a field is a reference to an object of its kind alone. A User of RBAC
// may be a ServiceAccount.
func namesKind(builtIn bool, field, kind string) bool {
	if kind == "" || kind == "User" {
		return false
	}
	return field == "ownerReferences" || builtIn && slices.Contains(ofTheirKind, field)
}

// word is the name of candidates, and the kind that counts; "" for any.
type word struct{ name, kind string }

// scan collects what one object names: names of candidates, and namespaces that have candidates.
type scan struct {
	candidates *Candidates
	builtIn    bool
	labels     bool // may be named here: not in metadata, also of a template, whose labels choose no others
	words      map[word]bool
	namespaces map[string]bool
}

// walk takes the value of a field. parent is the field that contains the field; the items of a list
// have the name of the list.
func (s *scan) walk(parent, field string, value any) {
	switch value := value.(type) {
	case string:
		s.text(value, kindNamed(s.builtIn, parent, field))
		if s.labels && (!s.builtIn || field == "args" || field == "command" || field == "value") {
			option, _, _ := strings.Cut(value, "=")
			s.candidates.chosen.text(value, expected(field) || strings.HasPrefix(option, "-") && expected(option))
		}
	case []any:
		for i, item := range value {
			s.walk(parent, field, item)
			option, _ := value[max(i-1, 0)].(string)
			if text, ok := item.(string); ok && s.labels && expected(option) { // --selector before its argument
				s.candidates.chosen.text(text, true)
			}
		}
	case map[string]any:
		labels := s.labels
		if labels && (!s.builtIn || parent == "paramRef") {
			s.candidates.chosen.selector(value)
		}
		if name, ok := value["name"].(string); ok && labels && expected("-"+name) { // of a variable
			text, _ := value["value"].(string)
			s.candidates.chosen.text(text, true)
		}
		for key, child := range value {
			if ignored(s.builtIn, field, key) {
				continue
			}
			if kind, _ := value["kind"].(string); key == "name" && namesKind(s.builtIn, field, kind) {
				name, _ := child.(string)
				s.text(name, kind)
				continue
			}
			// Names may be keys, as in secrets: {db: …}. A ResourceQuota has keys such as
			// gold.storageclass.storage.k8s.io/requests.storage.
			if !s.builtIn || field == "hard" {
				s.text(key, "")
			}
			s.labels = labels && key != "metadata"
			if s.labels && !s.builtIn {
				s.candidates.chosen.text(key, false)
				if strings.HasSuffix(strings.ToLower(key), "selector") {
					s.candidates.chosen.selector(map[string]any{"matchLabels": child})
				}
			}
			s.walk(field, key, child)
			s.labels = labels
		}
	}
}

// escapes are characters of JSON, YAML and URLs within a string: \nsettings, or %252fsettings.
var escapes = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbf])|%(25)*[0-9a-fA-F]{2}`)

// text collects the names in a text, such as --config=ci/settings or db.password, also those after
// an escaped character. Only candidates of one kind count unless it is empty.
func (s *scan) text(text, kind string) {
	s.plain(text, kind)
	if strings.ContainsAny(text, `\%`) {
		s.plain(escapes.ReplaceAllLiteralString(text, " "), kind)
	}
}

func (s *scan) plain(text, kind string) {
	for word := range strings.FieldsFuncSeq(text, endsName) {
		for rest, more := strings.Trim(word, ".-"), true; more; _, rest, more = strings.Cut(rest, ".") {
			for end, parts := 0, 0; parts < maxParts && end < len(rest); parts++ {
				if dot := strings.IndexByte(rest[end:], '.'); dot >= 0 {
					end += dot
				} else {
					end = len(rest)
				}
				s.word(rest[:end], kind)
				end++
			}
		}
	}
}

func (s *scan) word(name, kind string) {
	if s.candidates.spaces[name] != nil {
		s.namespaces[name] = true
	}
	if s.candidates.named[name] != nil {
		s.words[word{name, kind}] = true
	}
}

// endsName reports whether a character is in no name.
func endsName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
}
