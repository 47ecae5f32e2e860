package references

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy/wellknown"
)

// plain are labels and annotations with a domain that people and tools put on any object, and that
// no program is known to find objects by.
var plain = []string{
	"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/component",
	"kubectl.kubernetes.io/last-applied-configuration", wellknown.AnnotationProtect, // keeps the object by itself
	// Kubernetes puts these on each PersistentVolumeClaim: k8s.io/component-helpers, storage/volume
	"pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller", "volume.kubernetes.io/storage-provisioner",
	"volume.beta.kubernetes.io/storage-provisioner", "volume.kubernetes.io/selected-node",
}

// found are beginnings of labels without a domain that programs find objects by.
var found = []string{
	"grafana_",  // values.yaml of the chart grafana: sidecar.dashboards, datasources and alerts, label
	"loki_rule", // values.yaml of the chart loki: sidecar.rules.label
}

// named are beginnings of names that programs find objects by.
var named = []string{
	"alertmanager-",           // Prometheus operator, Alertmanager: default of spec.configSecret
	"bootstrap-token-",        // Kubernetes, pkg/bootstrap/api: BootstrapTokenSecretPrefix
	"sh.helm.release.v1.",     // Helm, pkg/storage/storage.go: HelmStorageType and makeKey
	"velero-repo-credentials", // Velero, pkg/repository/keys: the password of backups
}

// types are the types of Secrets that people create. A program finds Secrets of its own type, such
// as istio.io/ca-root or helm.sh/release.v1, by names that are compiled into it.
var types = []string{
	"Opaque", "kubernetes.io/tls", "kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg", "kubernetes.io/basic-auth",
	"kubernetes.io/ssh-auth",
}

// FieldSelectors select the objects of a kind that may be unused. The type of a Secret is in no
// metadata, and the API server selects by it.
func FieldSelectors(kind schema.GroupKind) (out []string) {
	if kind != (schema.GroupKind{Kind: "Secret"}) {
		return []string{""}
	}
	for _, name := range types {
		out = append(out, "type="+name)
	}
	return out
}

// FoundBy is the label, annotation or name by which a program may find an object that no other
// object names; "" for none. A key with a domain belongs to a program, such as Argo CD, Helm or
// Flux, unless it is known not to.
func FoundBy(name string, labels, annotations map[string]string) string {
	for _, prefix := range named {
		if strings.HasPrefix(name, prefix) {
			return "name " + name
		}
	}
	if labels["owner"] == "helm" { // Helm, pkg/storage/driver/{secrets,cfgmaps}.go: List
		return "label owner"
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		begins := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
		if slices.ContainsFunc(found, begins) || program(key) {
			return "label " + key
		}
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if program(key) {
			return "annotation " + key
		}
	}
	return ""
}

// program reports whether a label or annotation belongs to a program.
func program(key string) bool { return strings.Contains(key, "/") && !slices.Contains(plain, key) }
