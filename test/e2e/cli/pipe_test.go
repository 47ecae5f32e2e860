package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"curfew.dev/curfew/policy/wellknown"
)

// TestPipe: what a list names is changed in its own namespace, and only if it is the very object.
// One of the same name in the namespace of the user, and one that was deleted and created again
// since, stay as they are.
func TestPipe(t *testing.T) {
	w := laid(t)
	for _, namespace := range []string{"pipe-a", "pipe-b"} {
		w.space(t, namespace, nil)
		w.configMap(t, namespace, "demo", map[string]string{wellknown.LabelTTL: "2099-01-01", "pipe": "yes"})
	}
	expiries := func() string {
		return kubectl(t, `get configmaps -A --field-selector metadata.name=demo -o jsonpath='{range .items[*]}{.metadata.namespace}={.metadata.labels.curfew\.dev/ttl} {end}'`).stdout
	}
	before := expiries()
	if !strings.Contains(before, "default=") || !strings.Contains(before, "pipe-a=2099-01-01 pipe-b=2099-01-01") {
		t.Fatalf("expiries %s", before)
	}
	list := kubectl(t, "curfew expiring configmaps -A -l pipe=yes -o json").stdout
	var document struct{ APIVersion, Kind string }
	if err := json.Unmarshal([]byte(list), &document); err != nil || document.APIVersion != "cli.curfew.dev/v1alpha1" || document.Kind != "ExpiryList" {
		t.Errorf("%+v, %v", document, err)
	}
	kubectl(t, "delete configmap demo -n pipe-b")
	w.configMap(t, "pipe-b", "demo", map[string]string{wellknown.LabelTTL: "2099-01-01", "pipe": "yes"})
	got := typed(t, line{text: "kubectl curfew extend -f - --by 1d --yes", stdin: list})
	if got.code != 1 || !strings.Contains(got.stdout, "configmap/demo in namespace pipe-a extended: 2099-01-02 00:00:00 UTC") ||
		!strings.Contains(got.stderr, "error: configmap/demo in namespace pipe-b: was deleted and created again") {
		t.Errorf("exit status %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if have, want := expiries(), strings.Replace(before, "pipe-a=2099-01-01", "pipe-a=2099-01-02", 1); have != want {
		t.Errorf("expiries are then %s, want %s", have, want)
	}
	// Twice is once, and kubectl's own lists are read as well.
	again := "kubectl get configmaps -A -l pipe=yes -o json | kubectl curfew extend -f - --until 2099-01-02 --yes"
	for range 2 {
		if got := typed(t, line{text: again}); got.code != 0 || !strings.Contains(got.stdout, "configmap/demo in namespace pipe-a unchanged: expires at 2099-01-02 00:00:00 UTC already") {
			t.Errorf("exit status %d\n%s%s", got.code, got.stdout, got.stderr)
		}
	}
	if have := expiries(); !strings.Contains(have, "pipe-a=2099-01-02 pipe-b=2099-01-02") {
		t.Errorf("expiries are then %s", have)
	}
}
