package manifests

import (
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/cel/environment"

	"curfew.dev/curfew/controller/discovery"
	"curfew.dev/curfew/controller/webhookconfig"
)

// bySelection are the webhooks that send a new object which may get a default label.
const bySelection = "default-labels.kinds.curfew.dev validate-default-labels.curfew.dev"

var defaultLabelRequests = map[string]request{
	"ConfigMap":                       {resource: "configmaps", new: bare, namespace: "env=dev", wants: bySelection},
	"ConfigMap, in use":               {resource: "configmaps", new: bare, namespace: "env=dev in-use", wants: bySelection},
	"ConfigMap elsewhere":             {resource: "configmaps", new: bare, wants: none},
	"ConfigMap of Curfew's":           {resource: "configmaps", new: bare, namespace: "env=dev own", wants: none},
	"ConfigMap, protected":            {resource: "configmaps", new: bare, namespace: "env=dev kubernetes.io/metadata.name=kube-system", wants: none},
	"ConfigMap with a label":          {resource: "configmaps", new: labelledWith("curfew.dev/ttl: 1d"), namespace: "env=dev", wants: none},
	"ConfigMap with an owner":         {resource: "configmaps", new: "{metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: Pod, name: o, uid: u, controller: true}]}}", namespace: "env=dev", wants: none},
	"ConfigMap with another owner":    {resource: "configmaps", new: "{metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: Pod, name: o, uid: u}]}}", namespace: "env=dev", wants: bySelection},
	"ConfigMap that was given one":    {resource: "configmaps", new: "{metadata: {name: a, labels: {curfew.dev/ttl: 1d}, annotations: {curfew.dev/ttl-label-source: policy/a}}}", namespace: "env=dev", wants: byLabel},
	"ConfigMap changed":               {resource: "configmaps", old: bare, new: "{metadata: {name: a, labels: {app: y}}}", namespace: "env=dev", wants: none},
	"ConfigMap, label removed":        {resource: "configmaps", old: labelledWith("curfew.dev/ttl: 30d"), new: bare, namespace: "env=dev", wants: "removed-labels.kinds.curfew.dev -"},
	"ConfigMap, label changed":        {resource: "configmaps", old: labelledWith("curfew.dev/ttl: 30d"), new: labelledWith("curfew.dev/ttl: 31d"), namespace: "env=dev", wants: byLabel},
	"ConfigMap, stamped, label gone":  {resource: "configmaps", old: labelledWith("curfew.dev/ttl: 30d"), new: "{metadata: {name: a, annotations: {curfew.dev/ttl-label-source: policy/a}}}", namespace: "env=dev", wants: none},
	"label removed by the status":     {resource: "configmaps", sub: "status", old: labelledWith("curfew.dev/ttl: 30d"), new: bare, namespace: "env=dev", wants: "removed-labels.kinds.curfew.dev -"},
	"Secret, label removed":           {resource: "secrets", old: labelledWith("curfew.dev/ttl: 30d"), new: bare, namespace: "env=dev", wants: none},
	"custom kind":                     {resource: "things", new: bare, namespace: "env=dev", wants: "default-labels-2.kinds.curfew.dev validate-default-labels-2.curfew.dev"},
	"custom kind without a label":     {resource: "things", new: "{metadata: {name: a}}", namespace: "env=dev", wants: none},
	"kind that no policy names":       {resource: "services", new: bare, namespace: "env=dev", wants: none},
	"cluster-scoped, by selector":     {resource: "nodes", new: bare, wants: none},
	"kind of a wildcard":              {resource: "persistentvolumeclaims", new: bare, namespace: "env=dev", wants: none},
	"essential kind":                  {resource: "clusterroles", new: bare, wants: none},
	"essential kind that is a volume": {resource: "persistentvolumes", new: bare, wants: none},
}

// What a policy with a default TTL label names is sent once, whether it has a profile or not, and
// nothing else is.
func TestDefaultLabelsConditions(t *testing.T) {
	input := &webhookconfig.Input{Kinds: served(t), Namespace: "curfew-system", Controller: "curfew-controller", Protect: []string{"kube-system"}}
	for _, resource := range []string{"configmaps", "things", "services", "nodes", "persistentvolumeclaims", "clusterroles", "persistentvolumes", "jobsets", "deployments"} {
		scoped := resource == "nodes" || resource == "clusterroles" || resource == "persistentvolumes"
		input.Places = append(input.Places, discovery.Place{Kind: discovery.Kind{GroupVersionKind: kinds[resource], Resource: resource, ClusterScoped: scoped}})
	}
	entries := coveredWith(t, input,
		"{metadata: {name: a}, spec: {match: {kinds: [{kind: ConfigMap}, {kind: Node}, {group: apps, kind: Deployment}, {group: gone.example.com, kind: Gone}], namespaceSelector: {matchLabels: {env: dev}}}, defaults: {ttlLabel: {value: 7d}}}}",
		"{metadata: {name: b}, spec: {match: {kinds: [{group: example.com, kind: Thing}, {kind: '*'}], namespaceSelector: {matchLabels: {env: dev}}, objectSelector: {matchLabels: {app: x}}}, defaults: {ttlLabel: {value: 7d}}}}",
		"{metadata: {name: c}, spec: {match: {kinds: [{group: rbac.authorization.k8s.io, kind: ClusterRole}, {kind: PersistentVolume}]}, defaults: {ttlLabel: {value: 7d}}}}",
		"{metadata: {name: d}, spec: {match: {kinds: [{kind: Service}]}, defaults: {ttl: {value: 7d}}}}",
		"{metadata: {name: e}, spec: {defaults: {ttlLabel: {value: 7d}}, match: {objectSelector: {matchLabels: {app: nothing}}}}}")
	env := environment.MustBaseEnvSet(oldest)
	for _, w := range entries {
		if strings.Contains(w.name, "labels") {
			compile(t, w, env)
		}
	}
	evaluate(t, entries, defaultLabelRequests)
}

// A policy that denies protection of a kind without a profile has a request sent that protects an
// object. Kinds that no policy names are sent for their label alone.
func TestProtectionConditions(t *testing.T) {
	input := &webhookconfig.Input{Kinds: served(t), Namespace: "curfew-system", Controller: "curfew-controller"}
	for _, resource := range []string{"configmaps", "services", "deployments"} {
		input.Places = append(input.Places, discovery.Place{Kind: discovery.Kind{GroupVersionKind: kinds[resource], Resource: resource}})
	}
	entries := coveredWith(t, input, "{metadata: {name: a}, spec: {match: {kinds: [{kind: ConfigMap}, {group: apps, kind: Deployment}], namespaceSelector: {matchLabels: {env: dev}}}, bounds: {protect: Deny}}}",
		"{metadata: {name: b}, spec: {bounds: {protect: Deny}}}")
	env := environment.MustBaseEnvSet(oldest)
	for _, w := range entries {
		if strings.Contains(w.name, "protection") {
			compile(t, w, env)
		}
	}
	const shielded, other = "{metadata: {name: a, annotations: {curfew.dev/protect: 'true'}}}", "{metadata: {name: a, annotations: {curfew.dev/protect: 'true'}, labels: {app: x}}}"
	const sent = "- validate-protection.curfew.dev"
	evaluate(t, entries, map[string]request{
		"created":             {resource: "configmaps", new: shielded, namespace: "env=dev", wants: sent},
		"not protected":       {resource: "configmaps", new: bare, namespace: "env=dev", wants: none},
		"added":               {resource: "configmaps", old: bare, new: shielded, namespace: "env=dev", wants: sent},
		"added by its status": {resource: "configmaps", sub: "status", old: bare, new: shielded, namespace: "env=dev", wants: sent},
		"a status":            {resource: "configmaps", sub: "status", old: bare, new: "{metadata: {name: a, labels: {app: x}}}", namespace: "env=dev", wants: none},
		"a scale":             {resource: "configmaps", sub: "scale", old: bare, new: shielded, namespace: "env=dev", wants: none},
		"changed":             {resource: "configmaps", old: "{metadata: {name: a, annotations: {curfew.dev/protect: 'false'}}}", new: shielded, namespace: "env=dev", wants: sent},
		"unchanged":           {resource: "configmaps", old: shielded, new: other, namespace: "env=dev", wants: none},
		"removed":             {resource: "configmaps", old: shielded, new: bare, namespace: "env=dev", wants: none},
		"elsewhere":           {resource: "configmaps", new: shielded, wants: none},
		"kind not named":      {resource: "services", new: shielded, namespace: "env=dev", wants: none},
		"… but labelled":      {resource: "services", new: "{metadata: {name: a, annotations: {curfew.dev/protect: 'true'}, labels: {curfew.dev/ttl: 1d}}}", namespace: "env=dev", wants: byLabel},
		"labelled":            {resource: "configmaps", new: "{metadata: {name: a, annotations: {curfew.dev/protect: 'true'}, labels: {curfew.dev/ttl: 1d}}}", namespace: "env=dev", wants: byLabel},
		"protected, labelled": {resource: "services", old: shielded, new: "{metadata: {name: a, annotations: {curfew.dev/protect: 'true'}, labels: {curfew.dev/ttl: 1d}}}", namespace: "env=dev", wants: byLabel},
	})
}

// A kind that has a profile is sent as such, not a second time.
func TestDefaultLabelOfAKindWithAProfile(t *testing.T) {
	policy := "{metadata: {name: a}, spec: {match: {kinds: [{group: apps, kind: Deployment}]}, defaults: {ttlLabel: {value: 7d}}}}"
	input := &webhookconfig.Input{Kinds: served(t), Namespace: "curfew-system", Controller: "curfew-controller",
		Places: []discovery.Place{everywhere("deployments")}}
	evaluate(t, coveredWith(t, input, policy), map[string]request{"Deployment": {resource: "deployments", new: bareJob, wants: "policies.kinds.curfew.dev validate-policies.deployments.apps.curfew.dev"}})
}
