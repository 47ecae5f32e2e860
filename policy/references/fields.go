package references

import (
	"slices"

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
