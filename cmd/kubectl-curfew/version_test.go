package main

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/controller/settings"
)

// published is the cluster of testdata with other settings of its controller. A value "-" removes a
// key.
func published(t *testing.T, change map[string]string) *fakeCluster {
	t.Helper()
	return withController(t, func(object *unstructured.Unstructured) *unstructured.Unstructured {
		data, _ := object.Object["data"].(map[string]any)
		for key, value := range change {
			if object.GetName() != settings.Name {
				break
			}
			if data[key] = value; value == "-" {
				delete(data, key)
			}
		}
		return object
	})
}

// A plugin of another release than the controller works as one of the same release does, and says
// that they differ. It guesses no setting that the other release does not publish.
func TestPluginOfAnotherRelease(t *testing.T) {
	plugin := console.Version
	t.Cleanup(func() { console.Version = plugin })
	const lacks = "ConfigMap curfew-settings in namespace \"curfew-system\" cannot be used: it has no key protect: " +
		"whether Curfew's controller runs with --dry-run, --enable, --protect or --kyverno-label is not known"
	differ := func(plugin, controller string) string {
		return "note: kubectl-curfew is " + plugin + ", and Curfew's controller is " + controller +
			": this answer follows the rules of " + plugin + ". Use kubectl-curfew " + controller + " for the controller's\n"
	}
	for name, test := range map[string]struct {
		plugin, controller string
		change             map[string]string // of the settings, beside the version
		says               []string          // all notes
		status             string            // of check version
	}{
		"the same":             {plugin: "v0.2.0", controller: "v0.2.0", status: "ok kubectl-curfew v0.2.0, controller v0.2.0"},
		"another patch":        {plugin: "v0.2.1", controller: "v0.2.0", status: "warning kubectl-curfew v0.2.1, controller v0.2.0"},
		"between releases":     {plugin: "v0.2.0-9-g0123abc", controller: "v0.2.0", status: "warning kubectl-curfew v0.2.0-9-g0123abc, controller v0.2.0"},
		"a plugin of a commit": {plugin: "0123abc", controller: "v0.2.0", status: "warning kubectl-curfew 0123abc, controller v0.2.0"},
		"an older plugin": {plugin: "v0.1.4", controller: "v0.2.0", change: map[string]string{"enable": "ttl,label,cleanup,deadline,tally,later", "later": "yes"},
			says: []string{differ("v0.1.4", "v0.2.0")}, status: "warning kubectl-curfew v0.1.4, controller v0.2.0"},
		"a newer plugin":         {plugin: "v0.10.0", controller: "v0.9.0", says: []string{differ("v0.10.0", "v0.9.0")}, status: "warning kubectl-curfew v0.10.0, controller v0.9.0"},
		"the next major release": {plugin: "v0.2.0", controller: "v1.2.0", says: []string{differ("v0.2.0", "v1.2.0")}, status: "warning kubectl-curfew v0.2.0, controller v1.2.0"},
		"a newer plugin misses a setting": {plugin: "v0.2.0", controller: "v0.1.0", change: map[string]string{"protect": "-"},
			says: []string{differ("v0.2.0", "v0.1.0"), "note: " + lacks + "\n"}, status: "warning kubectl-curfew v0.2.0, controller v0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, line := range []string{"expiring -n foo", "explain job/build -n ci", "status"} {
				console.Version = plugin
				_, usual, usually, _ := executeIn(t, newFakeCluster(t, objects(t)), scene{}, words(line)...)
				change := map[string]string{settings.Version: test.controller}
				for key, value := range test.change {
					change[key] = value
				}
				console.Version = test.plugin
				_, stdout, stderr, _ := executeIn(t, published(t, change), scene{}, words(line)...)
				notes := slices.Collect(strings.Lines(stderr))
				for known := range strings.Lines(usually) {
					notes = slices.DeleteFunc(notes, func(note string) bool { return note == known })
				}
				slices.Sort(notes)
				slices.Sort(test.says)
				if !slices.Equal(notes, test.says) {
					t.Errorf("%s: the notes are %q, want %q", line, notes, test.says)
				}
				if line == "status" {
					expectSame(t, "check version", rows(stdout)["version"], test.status)
				} else if test.change["protect"] == "" && stdout != usual {
					t.Errorf("%s prints\n%s\nand beside a controller of its release\n%s", line, stdout, usual)
				}
			}
		})
	}
}
