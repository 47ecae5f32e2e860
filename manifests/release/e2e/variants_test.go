package e2e

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"curfew.dev/curfew/manifests/release/chart"
	"curfew.dev/curfew/test/harness"
)

// variants are values that change which objects are installed. Package chart tests that the
// components of kustomize make the same objects.
var variants = map[string]map[string]any{
	"cert-manager":        {"certificates": "cert-manager"},
	"delete-anything":     {"deleteAnything": true},
	"fail-closed":         {"failClosed": true},
	"high-availability":   {"highAvailability": true},
	"http-api":            {"httpAPI": true},
	"leave-native-ttl":    {"leaveNativeTTL": true},
	"monitoring":          {"monitoring": true},
	"no-builtin-profiles": {"builtinProfiles": false},
	"precreated-webhooks": {"precreatedWebhooks": true},
	"tenant-view":         {"tenantView": true},
	"issuer":              {"certificates": "cert-manager", "issuerRef": map[string]any{"name": "corporate", "kind": "ClusterIssuer"}},
	"secret":              {"existingSecret": "mine"},
	"host network":        {"httpAPI": true, "webhook": map[string]any{"hostNetwork": true, "port": 10250, "httpAPIPort": 18443}},
	"network policies":    {"httpAPI": true, "networkPolicy": map[string]any{"enabled": true}},
	"plain metrics":       {"monitoring": true, "metrics": map[string]any{"secure": false}},
	"service monitor":     {"serviceMonitor": map[string]any{"enabled": true}},
	"everything else": {
		"commonLabels":     map[string]any{"team": "platform"},
		"crds":             map[string]any{"keep": false},
		"image":            map[string]any{"repository": "registry.example.com/curfew", "digest": "sha256:" + strings.Repeat("0", 64)},
		"imagePullSecrets": []any{map[string]any{"name": "registry"}}, "triggers": []any{"ttl"}, "args": []any{"--dry-run"},
		"webhook": map[string]any{
			"replicas": 5, "args": []any{"--require-delete"}, "podAnnotations": map[string]any{"a": "b"}, "podLabels": map[string]any{"a": "b"},
			"annotations": map[string]any{"a": "b"}, "extraEnv": []any{map[string]any{"name": "A", "value": "b"}},
			"extraVolumes":      []any{map[string]any{"name": "v", "emptyDir": map[string]any{}}},
			"extraVolumeMounts": []any{map[string]any{"name": "v", "mountPath": "/v"}}, "securityContext": map[string]any{"runAsNonRoot": true},
			"topologySpreadConstraints": []any{map[string]any{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}},
			"nodeSelector":              map[string]any{"disk": "ssd"},
			"tolerations":               []any{map[string]any{"operator": "Exists"}}, "priorityClassName": "system-cluster-critical",
			"affinity": map[string]any{"nodeAffinity": map[string]any{"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{
				"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{map[string]any{"key": "disk", "operator": "Exists"}}}}}}},
		},
	},
}

// documents are the distinct objects of all variants and of install.yaml, by variant. An object is
// listed where it comes first.
func documents(t *testing.T) map[string]string {
	t.Helper()
	install, err := chart.InstallYAML(&chart.Options{Root: root, Repository: "curfew", Version: version}, false)
	must(t, err)
	texts := map[string]string{"install.yaml": string(install)}
	for name, values := range variants {
		texts[name] = render(t, harness.Namespace, values)
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		var fresh []string
		for document := range strings.SplitSeq(texts[name], "\n---\n") {
			if document = strings.TrimSpace(document); document != "" && !seen[document] {
				seen[document] = true
				fresh = append(fresh, document)
			}
		}
		if len(fresh) == 0 {
			t.Errorf("%s: nothing of its own", name)
		}
		texts[name] = strings.Join(fresh, "\n---\n")
	}
	return texts
}

// accept has the API server judge every object of every variant, and of install.yaml, without
// keeping it. What a variant shares with those before is judged once.
func accept(ctx context.Context, t *testing.T, cluster *harness.Cluster) {
	t.Helper()
	for name, text := range documents(t) {
		if err := apply(ctx, cluster, text, "--dry-run=server", "--validate=strict", "--force-conflicts"); err != nil {
			t.Errorf("%s: the API server does not accept it: %v", name, err)
		}
	}
}
