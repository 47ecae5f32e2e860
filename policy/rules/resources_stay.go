package rules

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
)

// resourcesStay warns of a TTL label on an object whose deletion leaves other resources behind: an
// Argo CD Application without the finalizer that deletes its resources, the Secret in which Helm
// stores a revision of a release, and a Velero Backup, which Velero's sync controller creates again
// while the object storage has it.
var resourcesStay = Rule{
	Name:   "resources-stay",
	Fields: labelFields,
	Check: func(s *Subject) {
		key, text, ok := s.Options.ttlLabel(s.Facts)
		if _, err := lifetime.ParseLabel(key, text); !ok || err != nil || s.IsTemplate() {
			return
		}
		warn := func(message string) {
			s.warn(policy.LabelPath(key), text, "when this "+s.Profile.Kind.Kind+" is deleted, "+message)
		}
		switch kind := s.Profile.Kind.GroupKind(); {
		case kind == argoApplication && !slices.ContainsFunc(s.Finalizers, deletesResources):
			warn("Argo CD keeps its resources: add finalizer " + resourcesFinalizer)
		case kind == veleroBackup:
			warn("its data stays, and Velero creates it again: set spec.ttl, or use velero backup delete")
		case kind.Group == "" && s.Labels["owner"] == "helm" && strings.HasPrefix(s.Name, helmRevision):
			warn("the objects of its Helm release stay: use helm uninstall")
		}
	},
}

var (
	argoApplication = schema.GroupKind{Group: "argoproj.io", Kind: "Application"}
	veleroBackup    = schema.GroupKind{Group: "velero.io", Kind: "Backup"}
)

// resourcesFinalizer may end in a propagation, such as /background.
const resourcesFinalizer = "resources-finalizer.argocd.argoproj.io"

func deletesResources(finalizer string) bool { return strings.HasPrefix(finalizer, resourcesFinalizer) }

// helmRevision begins the names under which Helm 3 stores revisions, in Secrets or ConfigMaps with
// label owner=helm.
const helmRevision = "sh.helm.release.v1."
