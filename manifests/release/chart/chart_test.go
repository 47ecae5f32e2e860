package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"

	"curfew.dev/curfew/manifests/release/chart/charttest"
)

var root = filepath.Join("..", "..", "..")

var created = time.Unix(1_700_000_000, 0)

var version = &Options{Root: root, Repository: "curfew", Version: "v0.1.0", Created: created}

// files are made once: kustomize builds the base with each component.
var files = sync.OnceValues(func() (map[string][]byte, error) { return Files(version) })

// values is one or more of the chart's.
type values = map[string]any

// render renders the chart as `helm install` does, with the schema checked, and returns NOTES.txt
// apart from the objects.
func render(t *testing.T, namespace string, set values) (objects map[string]object, notes string) {
	t.Helper()
	objects, notes, err := tryRender(t, namespace, set)
	must(t, err)
	return objects, notes
}

func tryRender(t *testing.T, namespace string, set values) (map[string]object, string, error) {
	t.Helper()
	files, err := files()
	must(t, err)
	manifests, notes, err := charttest.Render(files, namespace, set)
	if err != nil {
		return nil, "", err
	}
	objects, err := decode([]byte(manifests))
	if err != nil {
		t.Fatalf("%v\n%s", err, manifests)
	}
	return named(objects), notes, nil
}

const namespace = "curfew-system"

// id tells objects apart.
func id(o object) string {
	metadata, _ := o["metadata"].(object)
	return strings.ToLower(fmt.Sprint(o["kind"])) + "-" + fmt.Sprint(metadata["name"])
}

// kustomized builds the base with components. Helm makes the Namespace of a release itself.
func kustomized(t *testing.T, components ...string) map[string]object {
	t.Helper()
	data, err := Kustomize(root, components...)
	must(t, err)
	objects, err := decode(data)
	must(t, err)
	return named(slices.DeleteFunc(objects, func(o object) bool { return o["kind"] == "Namespace" }))
}

func named(objects []object) map[string]object {
	out := map[string]object{}
	for _, o := range objects {
		out[id(o)] = o
	}
	return out
}

// same compares what the chart renders with what kustomize builds, object by object, but for the
// label with the name of the release.
func same(t *testing.T, got, want map[string]object) {
	t.Helper()
	for _, o := range got {
		if labels := o["metadata"].(object)["labels"].(object); labels[instance] != "curfew" {
			t.Errorf("%s has the labels %v", id(o), labels)
		}
		unlabel(o)
	}
	for _, o := range want {
		unlabel(o)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch {
		case got[name] == nil:
			t.Errorf("the chart lacks %s", name)
		case !reflect.DeepEqual(got[name], want[name]):
			t.Errorf("%s differs:\n%s\nwant\n%s", name, show(got[name]), show(want[name]))
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("the chart has %s besides", name)
		}
	}
	if len(want) < 20 {
		t.Errorf("kustomize builds only %d objects", len(want))
	}
}

const instance = "app.kubernetes.io/instance"

// unlabel removes the label of the release, wherever it is.
func unlabel(o object) {
	for key, value := range o {
		if inner, ok := value.(object); ok {
			delete(inner, instance)
			if unlabel(inner); len(inner) == 0 && key == "labels" {
				delete(o, key) // CRDs have none in manifests/crd.
			}
		}
	}
}

func show(o object) string {
	text, _ := json.Marshal(o)
	return string(text)
}

// switches are the values that stand for each component.
var switches = map[string]values{
	"cert-manager":        {"certificates": "cert-manager"},
	"delete-anything":     {"deleteAnything": true},
	"fail-closed":         {"failClosed": true},
	"high-availability":   {"highAvailability": true},
	"http-api":            {"httpAPI": true},
	"leave-native-ttl":    {"leaveNativeTTL": true},
	"monitoring":          {"monitoring": true},
	"network-policy":      {"networkPolicy": values{"enabled": true}},
	"no-builtin-profiles": {"builtinProfiles": false},
	"precreated-webhooks": {"precreatedWebhooks": true},
	"secure-metrics":      {"metrics": values{"secure": true}},
	"tenant-view":         {"tenantView": true},
}

// asBase are values with which the chart runs the image of manifests/base, with plain metrics, and
// without the annotation helm.sh/resource-policy, which only Helm reads, and without Helm's hook.
func asBase(more ...values) values {
	out := values{"crds": values{"keep": false}, "image": values{"tag": "dev"}, "metrics": values{"secure": false},
		"waitForWebhook": values{"enabled": false}}
	for _, set := range more {
		maps.Copy(out, set)
	}
	return out
}

// TestChartIsTheBase: with each component, with all of them and with none, the chart renders
// exactly what kustomize builds.
func TestChartIsTheBase(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		got, _ := render(t, namespace, asBase())
		same(t, got, kustomized(t))
	})
	folders, err := filepath.Glob(filepath.Join(root, "manifests", "components", "*"))
	must(t, err)
	var every []string
	var all []values
	for _, folder := range folders {
		component := filepath.Base(folder)
		set, ok := switches[component]
		if !ok {
			t.Errorf("the chart has no value for component %s", component)
		}
		every, all = append(every, component), append(all, set)
		t.Run(component, func(t *testing.T) {
			got, _ := render(t, namespace, asBase(set))
			if base, _ := render(t, namespace, asBase()); reflect.DeepEqual(got, base) {
				t.Error("it changes nothing")
			}
			same(t, got, kustomized(t, component))
		})
	}
	t.Run("all", func(t *testing.T) {
		got, _ := render(t, namespace, asBase(all...))
		for _, account := range []string{"serviceaccount-curfew-metrics", "secret-curfew-metrics-token", "clusterrolebinding-curfew-metrics-reader"} {
			if got[account] == nil {
				t.Errorf("the chart lacks %s, with which Prometheus reads secure metrics", account)
			}
			delete(got, account)
		}
		same(t, got, kustomized(t, every...))
	})
}

// TestNamespace: in another namespace nothing is left of the one in the manifests.
func TestNamespace(t *testing.T) {
	const other = "42" // a number, which YAML would read as one
	base, _ := render(t, namespace, values{"monitoring": true})
	objects, notes := render(t, other, values{"monitoring": true})
	for name, o := range objects {
		if want := strings.ReplaceAll(show(base[name]), namespace, other); o["kind"] != "CustomResourceDefinition" && show(o) != want {
			t.Errorf("%s: %s, want %s", name, show(o), want)
		}
	}
	if !strings.Contains(notes, "--curfew-namespace 42") {
		t.Errorf("NOTES.txt does not say where Curfew is:\n%s", notes)
	}
}

// TestCRDs: by default an uninstallation keeps the CRDs, and with them all policies.
func TestCRDs(t *testing.T) {
	crds := func(set values) (all, kept int) {
		objects, _ := render(t, namespace, set)
		for _, o := range objects {
			if o["kind"] != "CustomResourceDefinition" {
				continue
			}
			all++
			if o["metadata"].(object)["annotations"].(object)["helm.sh/resource-policy"] == "keep" {
				kept++
			}
		}
		return all, kept
	}
	all, kept := crds(nil)
	if all < 8 || kept != all {
		t.Errorf("of %d CRDs %d are kept, want all", all, kept)
	}
	if all, kept := crds(values{"crds": values{"keep": false}}); all < 8 || kept != 0 {
		t.Errorf("of %d CRDs %d are kept, want none", all, kept)
	}
	if all, _ := crds(values{"crds": values{"install": false}}); all != 0 {
		t.Errorf("%d CRDs, want none", all)
	}
}

// TestTriggers: permissions that only a trigger needs which is switched off are left out, and
// nothing else. The controller removes finalizers of PodTallies while they are off.
func TestTriggers(t *testing.T) {
	deadlines := []string{"clusterrole-curfew-controller-deadlines"}
	cleanup := []string{"clusterrole-curfew-controller-cleanup", "role-curfew-controller-cleanup", "rolebinding-curfew-controller-cleanup"}
	base, _ := render(t, namespace, nil)
	for name, test := range map[string]struct {
		on   []any
		less []string
	}{
		"all named":          {[]any{"ttl", "label", "cleanup", "deadline", "tally"}, nil},
		"cleanup only":       {[]any{"cleanup"}, deadlines},
		"deadlines only":     {[]any{"deadline"}, cleanup},
		"neither of the two": {[]any{"ttl", "label"}, slices.Concat(deadlines, cleanup)},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := render(t, namespace, values{"triggers": test.on})
			for id, o := range base {
				if lacks := got[id] == nil; lacks != slices.Contains(test.less, id) {
					t.Errorf("%s is left out: %t", id, lacks)
				} else if o["kind"] != "Deployment" && !lacks && !reflect.DeepEqual(got[id], o) {
					t.Errorf("%s changes: %s", id, show(got[id]))
				}
			}
			if want := len(base) - len(test.less); len(got) != want {
				t.Errorf("%d objects, want %d", len(got), want)
			}
		})
	}
}

func all(objects map[string]object) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		out.WriteString(name + " " + show(objects[name]) + "\n")
	}
	return out.String()
}

// TestEveryValueDoesSomething: each value that the README lists changes the rendered manifests. A
// value that belongs to one Deployment changes only that Deployment.
func TestEveryValueDoesSomething(t *testing.T) {
	listed, err := readme(root)
	must(t, err)
	cluster, _ := render(t, namespace, nil)
	for path, change := range changes {
		base, set := cluster, nest(path, change.value)
		if other := beside[path]; other != "" {
			base, _ = render(t, namespace, nest(other, changes[other].value))
			put(set, other, changes[other].value)
		}
		if !bytes.Contains(listed, []byte("| `"+path+"` |")) {
			t.Errorf("%s is in no row of the README", path)
		}
		objects, _ := render(t, namespace, set)
		before, after := all(base), all(objects)
		if before == after || strings.Contains(before, change.shows) && change.shows != "" || !strings.Contains(after, change.shows) {
			t.Errorf("%s=%v does not add %s", path, change.value, change.shows)
		}
		part, _, deeper := strings.Cut(path, ".")
		if other := map[string]string{"webhook": "controller", "controller": "webhook"}[part]; deeper && other != "" {
			if name := "deployment-curfew-" + other; !reflect.DeepEqual(objects[name], base[name]) {
				t.Errorf("%s changes %s", path, name)
			}
		}
	}
	if rows := bytes.Count(listed, []byte("\n| `")); rows != len(changes) {
		t.Errorf("the README has %d values, and %d are tried", rows, len(changes))
	}
}

// TestSchema: misspelt values and wrong types are refused before anything is installed.
func TestSchema(t *testing.T) {
	for path, value := range map[string]any{
		"failclosed": true, "webhook.replica": 2, "image.pullpolicy": "Always",
		"failClosed": "yes", "webhook.replicas": -1, "image.digest": "latest", "triggers": []any{"ttls"}, "args": []any{"dry-run"},
		"controller.nodeSelector": values{"a": true}, "webhook.port": 443, "controller.port": 9443, "webhook.extraEnv": []any{values{"value": "a"}},
		"commonLabels": values{"app.kubernetes.io/name": "mine"}, "webhook.podLabels": values{"curfew.dev/ttl": "1h"},
		"issuerRef": values{"kind": "ClusterIssuer"}, "existingSecret": "a/b", "caBundle": "ca.crt", "networkPolicy": true, "testNamespace": "curfew-system",
	} {
		if _, _, err := tryRender(t, namespace, nest(path, value)); err == nil {
			t.Errorf("%s=%v is accepted", path, value)
		}
	}
	for _, both := range []values{
		{"failClosed": true, "webhook": values{"replicas": 0}}, {"webhook": values{"port": 8081}}, {"webhook": values{"healthPort": 18080, "metricsPort": 18080}},
		{"protect": nil}, {"protect": "infra"}, {"protect": []any{1}}, {"protect": []any{"Infra"}}, {"protect": []any{"a,b"}}, {"protect": []any{"-a"}}, {"protect": []any{""}},
	} {
		if _, _, err := tryRender(t, namespace, both); err == nil {
			t.Errorf("%v is accepted", both)
		}
	}
}

// TestRemovedValues: a release in listed namespaces is not upgraded to one with rights in the whole
// cluster before its owner has read how to move.
func TestRemovedValues(t *testing.T) {
	_, _, err := tryRender(t, namespace, values{"onlyNamespaces": []any{"a"}, "config": values{"p.yaml": "kind: X"}})
	if err == nil || !strings.Contains(err.Error(), "onlyNamespaces was removed: ") {
		t.Errorf("%v", err)
	}
}

// TestLint: Helm's linter finds nothing, and what make chart writes is what Helm loads.
func TestLint(t *testing.T) {
	o := *version
	o.Out = t.TempDir()
	path, err := Write(&o)
	must(t, err)
	for _, message := range lint.RunAll(filepath.Join(o.Out, "chart", "curfew"), nil, namespace).Messages {
		if message.Severity >= support.WarningSev {
			t.Error(message)
		}
	}
	packed, err := loader.Load(path)
	must(t, err)
	if packed.Name() != "curfew" || packed.Metadata.Version != "0.1.0" || packed.AppVersion() != "v0.1.0" || filepath.Base(path) != "curfew-0.1.0.tgz" {
		t.Errorf("%s has %+v", path, packed.Metadata)
	}
	first, err := os.ReadFile(path)
	must(t, err)
	if _, err := Write(&o); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || !bytes.Equal(first, again) {
		t.Errorf("%v: made twice, the archive differs", err)
	}
}

// TestInstallYAML: the single file is manifests/base, with the image of the version.
func TestInstallYAML(t *testing.T) {
	o := *version
	o.Repository = "registry.example.com/curfew"
	data, err := InstallYAML(&o, false)
	must(t, err)
	dryRun, err := InstallYAML(&o, true)
	must(t, err)
	dry := 0
	for _, text := range strings.Split(string(dryRun), "\n---\n") {
		var deployment struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Args []string } }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(text), &deployment); err == nil && deployment.Kind == "Deployment" && slices.Contains(deployment.Spec.Template.Spec.Containers[0].Args, "--dry-run") {
			dry++
		}
	}
	if live := regexp.MustCompile(`(?m)^ *- --dry-run\n`).ReplaceAll(dryRun, nil); dry != 2 || !bytes.Equal(live, data) {
		t.Errorf("install-dry-run.yaml: %d Deployments with --dry-run, want 2 and no other difference", dry)
	}
	want, err := Kustomize(root)
	must(t, err)
	const image = "image: registry.example.com/curfew:v0.1.0"
	if bytes.Count(data, []byte(image)) != 2 || string(bytes.ReplaceAll(data, []byte(image), []byte("image: curfew:dev"))) != string(want) {
		t.Error("install.yaml is not manifests/base with two images replaced")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
