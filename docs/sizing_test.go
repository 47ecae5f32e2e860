package docs_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// TestRequestsCoverIdleProcesses: each container requests at least the memory that its process takes
// with nothing to do. make bench measures the controller's. For the webhook, sizing.md has the peak of
// small reviews.
func TestRequestsCoverIdleProcesses(t *testing.T) {
	data, err := os.ReadFile("performance.json")
	if err != nil {
		t.Fatal(err)
	}
	var measured []struct {
		Name, Unit string
		Value      float64
	}
	if err := json.Unmarshal(data, &measured); err != nil {
		t.Fatal(err)
	}
	idle := map[string]*resource.Quantity{}
	for _, one := range measured {
		if one.Name == "memory.empty.resident" && one.Unit == "MB" {
			idle["controller"] = resource.NewQuantity(int64(one.Value*1e6), resource.DecimalSI)
		}
	}
	page, err := os.ReadFile("sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	if found := regexp.MustCompile(`\n\| small reviews \| (\d+) MiB resident`).FindSubmatch(page); found != nil {
		peak := resource.MustParse(string(found[1]) + "Mi")
		idle["webhook"] = &peak
	}
	for _, part := range []string{"controller", "webhook"} {
		text, err := os.ReadFile(filepath.Join(root, "manifests", "deploy", part+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var deployment appsv1.Deployment
		if err := yaml.Unmarshal(text, &deployment); err != nil {
			t.Fatal(err)
		}
		requests := deployment.Spec.Template.Spec.Containers[0].Resources.Requests
		if need := idle[part]; need == nil || requests.Memory().Cmp(*need) < 0 {
			t.Errorf("%s requests %s of memory, idle it takes %s", part, requests.Memory(), need)
		}
	}
}
