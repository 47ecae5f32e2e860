package harness

import (
	"slices"
	"testing"
)

// What the manifests ship is what runs, but for the flags that are given.
func TestShippedArgs(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string][]string{
		"controller": {"controller", "--leader-elect", "--namespace=curfew-system"},
		"webhook":    {"webhook", "--port=10250", "--namespace=curfew-system", "--drain-delay=5s"},
	} {
		others := []string{"--health-addr", "127.0.0.1:1", "--metrics-addr=127.0.0.1:2"}
		got, err := ShippedArgs(root, command, others...)
		if want = append(want, others...); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v, %q, want %q", err, got, want)
		}
	}
	if _, err := ShippedArgs(root, "neither"); err == nil {
		t.Error("a command without a Deployment has arguments")
	}
}
