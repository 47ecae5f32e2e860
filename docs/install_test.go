package docs_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// TestPatchesForManagedClusters: each patch of that section leaves the containers' ports and the flags
// in step, and the Service leads to the webhook's.
func TestPatchesForManagedClusters(t *testing.T) {
	_, section, _ := strings.Cut(pages(t)["docs/install.md"], "\n## Managed clusters\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := yamlBlocks(section)
	if len(blocks) != 1 {
		t.Fatalf("%d patches, want that for EKS", len(blocks))
	}
	for _, patch := range blocks {
		var kustomization types.Kustomization
		if err := yaml.Unmarshal([]byte(patch), &kustomization); err != nil {
			t.Fatal(err)
		}
		built, err := applyPatches(kustomization.Patches)
		if err != nil {
			t.Errorf("%v of\n%s", err, patch)
			continue
		}
		for _, resource := range built.Resources() {
			switch resource.GetKind() + " " + resource.GetName() {
			case "Deployment curfew-webhook":
				var deployment appsv1.Deployment
				if err := yaml.UnmarshalStrict([]byte(resource.MustYaml()), &deployment); err != nil {
					t.Fatal(err)
				}
				container := deployment.Spec.Template.Spec.Containers[0]
				flags := map[string]string{}
				for _, arg := range container.Args { // The last one takes effect.
					name, value, _ := strings.Cut(arg, "=")
					flags[name] = strings.TrimPrefix(value, ":")
				}
				want := map[string]string{"webhook": flags["--port"], "health": flags["--health-addr"], "metrics": flags["--metrics-addr"]}
				have := map[string]string{}
				for _, port := range container.Ports {
					have[port.Name] = fmt.Sprint(port.ContainerPort)
				}
				if !maps.Equal(have, want) || want["webhook"] == "10250" {
					t.Errorf("the ports are %v, the flags say %v, in\n%s", have, want, patch)
				}
			case "Service curfew-webhook":
				if !strings.Contains(resource.MustYaml(), "targetPort: webhook") {
					t.Errorf("the Service does not lead to the port by name: %s", resource.MustYaml())
				}
			}
		}
	}
}
