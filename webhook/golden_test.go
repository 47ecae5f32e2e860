package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

var update = flag.Bool("update", false, "write testdata/cases/*/response.yaml anew")

const (
	goldenCases = "testdata/cases"
	goldenIndex = "testdata/cases.yaml"
)

// goldenRequest is request.yaml: a request as kubectl would cause it, and the settings of the
// Curfew that it comes to.
type goldenRequest struct {
	// ForLabel: it is sent because of a label, as objects of any kind are.
	ForLabel  bool            `json:"forLabel"`
	User      string          `json:"user"`
	Settings  goldenSettings  `json:"settings"`
	Object    json.RawMessage `json:"object"`
	OldObject json.RawMessage `json:"oldObject"`
}

type goldenSettings struct {
	NativeTTLOff  bool `json:"nativeTTLOff"`
	RequireDelete bool `json:"requireDelete"`
	StrictLabels  bool `json:"strictLabels"`
	WarnExpired   bool `json:"warnExpired"`
	KyvernoLabel  bool `json:"kyvernoLabel"`
	// MayNotDelete lists who may not delete the object: user, controller.
	MayNotDelete []string `json:"mayNotDelete"`
}

// goldenResponse is response.yaml: what the mutating webhook did, and what the validating one said
// of the result.
type goldenResponse struct {
	Mutate   *goldenMutation `json:"mutate,omitempty"`
	Validate goldenReview    `json:"validate"`
}

type goldenMutation struct {
	Patch []json.RawMessage `json:"patch,omitempty"`
	// Diff is the patch again, by the fields of the object.
	Diff  []string          `json:"diff,omitempty"`
	Audit map[string]string `json:"audit,omitempty"`
}

type goldenReview struct {
	Allowed bool   `json:"allowed"`
	Message string `json:"message,omitempty"`
	// Fields are those that the message speaks of, for machines.
	Fields   []string          `json:"fields,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Audit    map[string]string `json:"audit,omitempty"`
}

// TestGolden sends the request of each folder of testdata/cases through the mutating webhook and
// what comes of it through the validating one, and compares both answers with response.yaml. The
// index says what each case holds.
func TestGolden(t *testing.T) {
	index := map[string]string{}
	readYAML(t, goldenIndex, &index)
	folders, err := os.ReadDir(goldenCases)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if _, ok := index[folder.Name()]; !ok || !folder.IsDir() {
			t.Errorf("%s/%s is not in %s", goldenCases, folder.Name(), goldenIndex)
		}
	}
	known, err := platform.New(builtinProfiles(t))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(index)) {
		t.Run(name, func(t *testing.T) {
			if index[name] == "" {
				t.Errorf("%s does not say what the case holds", goldenIndex)
			}
			have := runGolden(t, known, filepath.Join(goldenCases, name))
			for _, rule := range strings.Split(have.Validate.Audit[auditRules], ",") {
				seen[rule] = true
			}
		})
	}
	names := rules.PlatformRules()
	for _, rule := range rules.All() {
		names = append(names, rule.Name)
	}
	for _, name := range names {
		if !seen[name] {
			t.Errorf("no case has rule %s speak", name)
		}
	}
}

func runGolden(t *testing.T, known *platform.Store, folder string) goldenResponse {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains([]string{"request.yaml", "response.yaml", "namespace.yaml", "policies.yaml", "runtimes.yaml"}, file.Name()) {
			t.Errorf("%s is no file of a case", file.Name())
		}
	}
	request := goldenRequest{}
	readYAML(t, filepath.Join(folder, "request.yaml"), &request)
	have := request.answer(t, goldenWorld(t, known, folder, request.Settings))
	text, err := yaml.Marshal(have)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "response.yaml")
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return have
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, want) {
		t.Errorf("answered\n%s\nwant\n%s\n-update writes it anew", text, want)
	}
	return have
}

// goldenWorld is a Curfew over the files that lie beside the request. The catalog is shared and
// cleared, as compiling its profiles takes longest.
func goldenWorld(t *testing.T, known *platform.Store, folder string, settings goldenSettings) *world {
	t.Helper()
	for _, text := range documents(t, filepath.Join(folder, "policies.yaml")) {
		object := parsed[v1alpha1.LifecyclePolicy](t, text)
		known.SetPolicy(object)
		t.Cleanup(func() { known.PutPolicy(object.Name, nil) })
	}
	namespaces := goldenNamespaces{}
	for _, text := range documents(t, filepath.Join(folder, "namespace.yaml")) {
		object := parsed[metav1.PartialObjectMetadata](t, text)
		namespaces[object.Name] = resolution.ParseNamespace(object.Name, object.Annotations, object.Labels)
	}
	getter := &runtimes{objects: map[string]map[string]any{}}
	for _, text := range documents(t, filepath.Join(folder, "runtimes.yaml")) {
		object := *parsed[map[string]any](t, text)
		getter.objects[object["metadata"].(map[string]any)["name"].(string)] = object
	}
	const controller = "system:serviceaccount:curfew-system:curfew-controller"
	access := &answers{of: map[string]bool{
		person: !slices.Contains(settings.MayNotDelete, "user"), controller: !slices.Contains(settings.MayNotDelete, "controller"), robot: true,
	}}
	return newWorld(t, func(o *Options) {
		o.Platform, o.Namespaces, o.Runtimes, o.Access, o.ControllerUser, o.CleanupUser = known, namespaces, getter, access, controller, controller
		o.AnnotationsOnly, o.RequireDelete, o.StrictLabels = settings.NativeTTLOff, settings.RequireDelete, settings.StrictLabels
		o.WarnExpired = settings.WarnExpired
		o.KyvernoLabel = settings.KyvernoLabel
		o.Controller.Protect = []string{"curfew-system", "kube-system"}
	})
}

type goldenNamespaces map[string]*resolution.NamespacePolicy

func (n goldenNamespaces) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	return n.LiveNamespace(ctx, name)
}

func (n goldenNamespaces) LiveNamespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	if namespace, ok := n[name]; ok {
		return namespace, nil
	}
	return nil, errors.New("the case has no such namespace")
}

// Bounded implements [NamespaceLister].
func (n goldenNamespaces) Bounded() []*resolution.NamespacePolicy {
	var out []*resolution.NamespacePolicy
	for _, name := range slices.Sorted(maps.Keys(n)) {
		if n[name].Bounds != (lifetime.Bounds{}) {
			out = append(out, n[name])
		}
	}
	return out
}

// answer asks both webhooks of the kind. It also checks what every mutation has in common: it never
// warns, and a second call at the same instant changes nothing.
func (r *goldenRequest) answer(t *testing.T, w *world) goldenResponse {
	t.Helper()
	meta := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(r.Object, &meta); err != nil {
		t.Fatal(err)
	}
	mutate, validate := PathMutate, PathValidate
	group := meta.GroupVersionKind().Group
	switch {
	case group == wellknown.Group && !r.ForLabel:
		mutate, validate = "", PathValidatePolicy
	case group == "" && meta.Kind == "Namespace":
		mutate, validate = PathMutateNamespace, PathValidateNamespace
	}
	asked := ask{namespace: meta.Namespace, user: r.User, object: string(r.Object), old: string(r.OldObject)}
	out := goldenResponse{}
	if mutate != "" {
		asked.path = mutate
		response := w.ask(t, asked)
		if !response.Allowed || len(response.Warnings) > 0 {
			t.Errorf("the mutating webhook answered %+v", response)
		}
		mutation := goldenMutation{Audit: response.AuditAnnotations}
		if len(response.Patch) > 0 {
			if err := json.Unmarshal(response.Patch, &mutation.Patch); err != nil {
				t.Fatal(err)
			}
		}
		before := asked.object
		asked.object = patchedObject(t, before, response)
		mutation.Diff = diff(t, before, asked.object)
		out.Mutate = &mutation
		w.clock.now = t0
		if again := w.ask(t, asked); len(again.Patch) > 0 {
			t.Errorf("a second call has a patch as well: %s", again.Patch)
		}
	}
	asked.path = validate
	out.Validate = review(t, w.answered(t, asked))
	return out
}

func review(t *testing.T, response *admissionv1.AdmissionResponse) goldenReview {
	t.Helper()
	out := goldenReview{Allowed: response.Allowed, Warnings: response.Warnings, Audit: response.AuditAnnotations}
	if len(response.Patch) > 0 {
		t.Errorf("the validating webhook has a patch: %s", response.Patch)
	}
	if !response.Allowed {
		out.Message = response.Result.Message
		for _, cause := range response.Result.Details.Causes {
			out.Fields = append(out.Fields, cause.Field)
		}
	}
	return out
}

// diff is what differs between two objects, a line a field.
func diff(t *testing.T, before, after string) []string {
	t.Helper()
	old, now := map[string]string{}, map[string]string{}
	flatten(t, before, old)
	flatten(t, after, now)
	var out []string
	for _, path := range slices.Sorted(maps.Keys(old)) {
		if now[path] != old[path] {
			out = append(out, "- "+path+": "+old[path])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		if now[path] != old[path] {
			out = append(out, "+ "+path+": "+now[path])
		}
	}
	return out
}

func flatten(t *testing.T, text string, into map[string]string) {
	t.Helper()
	var object any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, at any)
	walk = func(path string, at any) {
		switch value := at.(type) {
		case map[string]any:
			for key, inner := range value {
				walk(path+"["+key+"]", inner)
			}
		case []any:
			for i, inner := range value {
				walk(fmt.Sprintf("%s[%d]", path, i), inner)
			}
		default:
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			into[path] = string(text)
		}
	}
	for key, value := range object.(map[string]any) {
		walk(key, value)
	}
}

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// documents returns the documents of a file, or none if there is no such file.
func documents(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n---\n")
}
