package main

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
)

// TestAnotherClientWasFirst: the command reads an object again that changed meanwhile, so that it
// never patches a state that it has not judged. It gives up after some attempts. An object that was
// created again under the same name is another object.
func TestAnotherClientWasFirst(t *testing.T) {
	configMaps := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	for name, test := range map[string]struct {
		// times are how often another client was first; meanwhile is its change each time.
		times     int
		meanwhile func(demo *unstructured.Unstructured)
		args      []string
		code      int
		want      string // the end of the message
		sent      int
		last      string // a part of the last patch
	}{
		"another label": {
			times: 1, meanwhile: func(demo *unstructured.Unstructured) { demo.SetLabels(map[string]string{"curfew.dev/ttl": "20d"}) },
			args: words("extend cm/demo --by 1d"), want: "extended: 2027-01-14 09:00:00 CET (was: 2027-01-13 09:00:00 CET)\n", sent: 2, last: `"curfew.dev/ttl":"21d"`,
		},
		"protected by now": {
			times: 1, meanwhile: func(demo *unstructured.Unstructured) {
				demo.SetAnnotations(map[string]string{"curfew.dev/protect": "true"})
			},
			args: words("expire-now cm/demo"), code: 1, want: "would stay: is protected by annotation curfew.dev/protect\n", sent: 1,
		},
		"still selected": {
			times: 1, meanwhile: func(demo *unstructured.Unstructured) {
				demo.SetLabels(map[string]string{"more": "x", "curfew.dev/ttl": "14d"})
			},
			args: words("extend cm -l curfew.dev/ttl=14d --by 1d --yes"), want: "extended: 2027-01-08 09:00:00 CET (was: 2027-01-07 09:00:00 CET)\n", sent: 2,
		},
		"no longer selected": {
			times: 1, meanwhile: func(demo *unstructured.Unstructured) { demo.SetLabels(map[string]string{"curfew.dev/ttl": "20d"}) },
			args: words("expire-now cm -l curfew.dev/ttl=14d --yes"), code: 1, want: "changed in between and no longer matches -l curfew.dev/ttl=14d: it is left as it is\n", sent: 1,
		},
		"created again": {
			times: 1, meanwhile: func(demo *unstructured.Unstructured) { demo.SetUID("another") },
			args: words("extend cm/demo --by 1d"), code: 1, want: "was deleted and created again in between: check it and try again\n", sent: 1,
		},
		"again and again": {times: 100, meanwhile: func(*unstructured.Unstructured) {}, args: words("extend cm/demo --by 1d"), code: 1, want: "the object has been modified\n", sent: 5},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newFakeCluster(t, objects(t))
			left, version := test.times, 7
			cluster.objects.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if left--; left < 0 {
					return false, nil, nil
				}
				patch, _ := action.(clienttesting.PatchAction)
				cluster.patched = append(cluster.patched, string(patch.GetPatch()))
				object, err := cluster.objects.Tracker().Get(configMaps, "default", "demo")
				if err != nil {
					t.Error(err)
				}
				demo, _ := object.(*unstructured.Unstructured)
				demo = demo.DeepCopy()
				version++
				demo.SetResourceVersion(strings.Repeat("1", version))
				test.meanwhile(demo)
				if err := cluster.objects.Tracker().Update(configMaps, demo, "default"); err != nil {
					t.Error(err)
				}
				return true, nil, apierrors.NewConflict(configMaps.GroupResource(), "demo", errModified)
			})
			code, stdout, stderr, sent := executeIn(t, cluster, scene{}, test.args...)
			expectExit(t, "the command", code, test.code, stdout+stderr)
			expectEnd(t, "output", stdout+stderr, test.want)
			if expectCount(t, "requests", sent, test.sent); len(sent) > 0 {
				expectPart(t, "last request", sent[len(sent)-1], test.last, true)
			}
		})
	}
}

type modified struct{}

func (modified) Error() string { return "the object has been modified" }

var errModified = modified{}

// TestDryRunIsSentAsSuch: only --dry-run=server sends a dry run.
func TestDryRunIsSentAsSuch(t *testing.T) {
	for flag, want := range map[string][]string{"none": nil, "server": {metav1.DryRunAll}} {
		cluster := newFakeCluster(t, objects(t))
		code, _, stderr, sent := executeIn(t, cluster, scene{}, "extend", "cm/demo", "--by", "1d", "--dry-run="+flag)
		if code != console.ExitOK || len(sent) != 1 {
			t.Fatalf("%s: exit status %d, %q: %s", flag, code, sent, stderr)
		}
		for _, action := range cluster.objects.Actions() {
			if patch, ok := action.(clienttesting.PatchActionImpl); ok && strings.Join(patch.PatchOptions.DryRun, " ") != strings.Join(want, " ") {
				t.Errorf("--dry-run=%s was sent with %q", flag, patch.PatchOptions.DryRun)
			}
		}
	}
}
