package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"curfew.dev/curfew/test/harness"
)

// unlimited are writes that a role grants and no admission policy limits, and what a thief gains:
// docs/security.md says so, too. A trailing star stands for any ending.
var unlimited = map[string]string{
	"create events*": "false Events", "patch events*": "false Events",
	"patch lifecyclepolicies/status.curfew.dev": "a false status", "patch kindprofiles/status.curfew.dev": "a false status",
	"update cleanuppolicies/status.curfew.dev": "a false status", "update clustercleanuppolicies/status.curfew.dev": "a false status",
	"patch cleanuppolicies/status.curfew.dev": "a false status", "patch clustercleanuppolicies/status.curfew.dev": "a false status",
	"update podtallies/status.curfew.dev":  "false counts",
	"patch podtallies/status.curfew.dev":   "false counts",
	"create cleanupreports.curfew.dev":     "false reports",
	"patch cleanupreports.curfew.dev":      "false reports",
	"create clustercleanupreports*":        "false reports",
	"patch clustercleanupreports*":         "false reports",
	"create leases.coordination.k8s.io":    "that no controller leads",
	"update leases.coordination.k8s.io*":   "that no controller leads",
	"create configmaps curfew-settings":    "false settings",
	"patch configmaps curfew-settings":     "false settings",
	"create selfsubject*":                  "an answer about itself",
	"create subjectaccessreviews*":         "an answer about others",
	"create tokenreviews*":                 "whose token it is that it has",
	"update secrets curfew-webhook-tls":    "the CA, which the account reads as well",
	"impersonate serviceaccounts*":         "what curfew-cleanup may delete",
	"patch trainingruntimes*":              "nothing: a test of package manifests sends these, since the kinds are not installed here",
	"patch clustertrainingruntimes*":       "nothing, as above",
	"patch jobsets/status.jobset.x-k8s.io": "a failed JobSet", "patch trainjobs/status.trainer.kubeflow.org": "a failed TrainJob",
}

// planned is the metadata that the controller writes on its own webhook configurations.
var planned = []string{"labels", "annotations", "ownerReferences"}

// thefts are changes of metadata that have effects.
var thefts = map[string]any{
	"labels":          map[string]any{"pod-security.kubernetes.io/enforce": "privileged"},
	"annotations":     map[string]any{"scheduler.alpha.kubernetes.io/node-selector": "a=b"},
	"finalizers":      []any{"thief.example.com/a"},
	"ownerReferences": []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "a"}},
}

// writeAllGranted sends a request for each verb and subresource that Curfew's roles grant for writes.
// An admission policy refuses it, or unlimited has it: nothing that is granted later is forgotten.
func writeAllGranted(ctx context.Context, t *testing.T, cluster *harness.Cluster) {
	granted, err := cluster.Granted(ctx)
	must(t, err)
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(cluster.Client.Discovery()))
	admin, err := dynamic.NewForConfig(cluster.Config)
	must(t, err)
	thieves := map[string]*rest.Config{}
	tried := 0
	for _, grant := range slices.Sorted(maps.Keys(granted)) {
		words := append(strings.Fields(grant), "")
		account, verb, on, name := words[0], words[1], words[2], words[3]
		if !slices.Contains([]string{"create", "update", "patch"}, verb) || account == "curfew-cleanup" || known(verb+" "+strings.TrimSpace(on+" "+name)) {
			continue
		}
		if thieves[account] == nil {
			thieves[account], err = cluster.StealToken(ctx, account)
			must(t, err)
		}
		client, err := dynamic.NewForConfig(thieves[account])
		must(t, err)
		where, sub := schema.ParseGroupResource(on), ""
		where.Resource, sub, _ = strings.Cut(where.Resource, "/")
		resource, err := mapper.ResourceFor(where.WithVersion(""))
		must(t, err)
		if tried++; verb == "create" {
			kind, err := mapper.KindFor(resource)
			must(t, err)
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetGroupVersionKind(kind)
			object.SetName("thief")
			_, err = scope(client, resource).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if !limited(err) {
				t.Errorf("a thief uses %q: %v", grant, err)
			}
			continue
		}
		if name == "" {
			name = map[string]string{"pods": "victim", "namespaces": "ci"}[where.Resource]
		}
		object, err := scope(admin, resource).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && name == "curfew-kinds" { // No controller could run here.
			continue
		}
		must(t, err)
		for field, value := range thefts {
			if err := write(ctx, scope(client, resource), verb, sub, object, field, value); account == "curfew-controller" && name == "curfew-kinds" && slices.Contains(planned, field) {
				must(t, err)
			} else if !limited(err) {
				t.Errorf("a thief uses %q for %s: %v", grant, field, err)
			}
		}
	}
	if tried < 5 {
		t.Errorf("%d grants were tried: has the form of %v changed?", tried, granted)
	}
}

func known(write string) bool {
	for each := range unlimited {
		if prefix, any := strings.CutSuffix(each, "*"); write == each || any && strings.HasPrefix(write, prefix) {
			return true
		}
	}
	return false
}

// scope is where a thief looks for objects of a kind.
func scope(client dynamic.Interface, resource schema.GroupVersionResource) dynamic.ResourceInterface {
	switch resource.Resource {
	case "pods":
		return client.Resource(resource).Namespace("ci")
	case "secrets":
		return client.Resource(resource).Namespace(harness.Namespace)
	}
	return client.Resource(resource)
}

func write(ctx context.Context, client dynamic.ResourceInterface, verb, sub string, object *unstructured.Unstructured, field string, value any) error {
	var subresources []string
	if sub != "" {
		subresources = []string{sub}
	}
	if verb == "update" {
		changed := object.DeepCopy()
		if err := unstructured.SetNestedField(changed.Object, value, "metadata", field); err != nil {
			return err
		}
		_, err := client.Update(ctx, changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{field: value}})
	if err != nil {
		return err
	}
	_, err = client.Patch(ctx, object.GetName(), "application/merge-patch+json", patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources...)
	return err
}
