package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	yamlv3 "go.yaml.in/yaml/v3"
	admissionv1 "k8s.io/api/admission/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

var update = flag.Bool("update", false, "rewrite what the cases in testdata/cases want")

// goldenFile is a file of testdata/cases (README.md). Each case is a merge patch on the base.
type goldenFile struct {
	Base  json.RawMessage            `json:"base"`
	Bases map[string]json.RawMessage `json:"bases"`
	Cases map[string]json.RawMessage `json:"cases"`
}

// goldenCase is a request as kubectl would cause it, and the cluster that it comes to.
type goldenCase struct {
	Shows string `json:"shows"`
	Base  string `json:"base"`
	// ForLabel: the request is sent because of a label, as objects of any kind are.
	ForLabel   bool                                    `json:"forLabel"`
	User       string                                  `json:"user"`
	Settings   goldenSettings                          `json:"settings"`
	Object     json.RawMessage                         `json:"object"`
	Was        json.RawMessage                         `json:"was"`
	Namespaces map[string]metav1.ObjectMeta            `json:"namespaces"`
	Policies   map[string]v1alpha1.LifecyclePolicySpec `json:"policies"`
	Runtimes   map[string]map[string]any               `json:"runtimes"`
	Want       json.RawMessage                         `json:"want"`
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

// goldenWant is the answer of both webhooks. It is written, and compared as text.
type goldenWant struct {
	Patch    []yamlv3.Node `yaml:"patch,omitempty"`
	Denied   string        `yaml:"denied,omitempty"`
	Fields   []string      `yaml:"fields,omitempty,flow"`
	Warnings []string      `yaml:"warnings,omitempty"`
	Audit    goldenAudit   `yaml:"audit,omitempty,flow"`
}

type goldenAudit struct {
	Mutate   any `yaml:"mutate,omitempty"`
	Validate any `yaml:"validate,omitempty"`
}

// TestGolden sends the object of each case through the mutating webhook, and the result through the
// validating one. Each rule has a case.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	known, err := platform.New(builtinProfiles(t))
	must(t, err)
	fileOf, seen := map[string]string{}, map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		cases := goldenCases(t, file, text)
		wants := map[string]string{}
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			if other, ok := fileOf[name]; ok {
				t.Errorf("%s is in %s and in %s", name, other, file)
			}
			fileOf[name] = file
			t.Run(name, func(t *testing.T) {
				response, want := cases[name].answer(t, known)
				for _, rule := range strings.Split(response.AuditAnnotations[auditRules], ",") {
					seen[rule] = true
				}
				wants[name] = want
			})
		}
		compareWants(t, file, string(text), wants)
	}
	names := rules.PlatformRules()
	for _, rule := range rules.All() {
		names = append(names, rule.Name)
	}
	for _, name := range names {
		if !seen[name] {
			t.Errorf("rule %s has no case", name)
		}
	}
}

// compareWants compares the answers of a file, or writes them into it.
func compareWants(t *testing.T, file, text string, answered map[string]string) {
	t.Helper()
	rewritten := replaceWants(text, func(name, old string) string {
		have, ok := answered[name]
		if !ok { // -run selected another case.
			return old
		}
		if have != old && !*update {
			t.Errorf("%s: %s answered\n%s\nwant\n%s\n-update rewrites the file", file, name, have, old)
		}
		return have
	})
	if *update {
		must(t, os.WriteFile(file, []byte(rewritten), 0o644))
	}
}

// goldenCases returns the cases of a file, each merged into its base.
func goldenCases(t *testing.T, path string, text []byte) map[string]*goldenCase {
	t.Helper()
	file := goldenFile{}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	out, unused := map[string]*goldenCase{}, maps.Clone(file.Bases)
	for name, patch := range file.Cases {
		named := goldenCase{}
		if err := json.Unmarshal(patch, &named); err != nil {
			t.Fatalf("%s: %s: %v", path, name, err)
		}
		delete(unused, named.Base)
		base := file.Base
		if named.Base != "" {
			base = mergePatch(t, base, file.Bases[named.Base])
		}
		g := &goldenCase{}
		decoder := json.NewDecoder(bytes.NewReader(mergePatch(t, base, patch)))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(g); err != nil {
			t.Fatalf("%s: %s: %v", path, name, err)
		}
		g.Was = named.Was // As it is written: merging drops what a patch removes.
		if g.Shows == "" || g.Want == nil {
			t.Errorf("%s: %s needs shows and want; -update fills in an empty want", path, name)
		}
		out[name] = g
	}
	for name := range unused {
		t.Errorf("%s: no case has the base %s", path, name)
	}
	return out
}

func mergePatch(t *testing.T, base, patch json.RawMessage) json.RawMessage {
	t.Helper()
	out, err := jsonpatch.MergePatch(base, patch)
	must(t, err)
	return out
}

var (
	caseLine = regexp.MustCompile(`^  ([a-z0-9-]+):\n$`)
	wantLine = regexp.MustCompile(`^    want:`)
	wantMore = regexp.MustCompile(`^     `)
)

// replaceWants replaces what each case of a file wants, and leaves every other line as it is.
func replaceWants(text string, replace func(name, old string) string) string {
	out, name := strings.Builder{}, ""
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		if match := caseLine.FindStringSubmatch(lines[i]); match != nil {
			name = match[1]
		}
		if !wantLine.MatchString(lines[i]) {
			out.WriteString(lines[i])
			continue
		}
		old := lines[i]
		for ; i+1 < len(lines) && wantMore.MatchString(lines[i+1]); i++ {
			old += lines[i+1]
		}
		out.WriteString(replace(name, old))
	}
	return out.String()
}

// world is a Curfew in the cluster of the case. The catalog is shared and cleared, as compiling its
// profiles takes longest.
func (c *goldenCase) world(t *testing.T, known *platform.Store) *world {
	t.Helper()
	for name, spec := range c.Policies {
		known.SetPolicy(&v1alpha1.LifecyclePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})
		t.Cleanup(func() { known.PutPolicy(name, nil) })
	}
	namespaces := goldenNamespaces{}
	for name, meta := range c.Namespaces {
		namespaces[name] = resolution.ParseNamespace(name, meta.Annotations, meta.Labels)
	}
	const controller = "system:serviceaccount:curfew-system:curfew-controller"
	access := &answers{of: map[string]bool{
		person:     !slices.Contains(c.Settings.MayNotDelete, "user"),
		controller: !slices.Contains(c.Settings.MayNotDelete, "controller"),
		robot:      true,
	}}
	return newWorld(t, func(o *Options) {
		o.Platform, o.Namespaces, o.Runtimes, o.Access = known, namespaces, &runtimes{objects: c.Runtimes}, access
		o.ControllerUser, o.CleanupUser = controller, controller
		o.AnnotationsOnly, o.RequireDelete, o.StrictLabels = c.Settings.NativeTTLOff, c.Settings.RequireDelete, c.Settings.StrictLabels
		o.WarnExpired = c.Settings.WarnExpired
		o.KyvernoLabel, o.CleanupInterval = c.Settings.KyvernoLabel, 5*time.Minute
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

// answer asks both webhooks of the kind, and returns the answer of the validating one and the want
// of a case. It also checks that a mutation never warns, and that a second call at the same instant
// changes nothing.
func (c *goldenCase) answer(t *testing.T, known *platform.Store) (*admissionv1.AdmissionResponse, string) {
	t.Helper()
	w := c.world(t, known)
	meta := metav1.PartialObjectMetadata{}
	must(t, json.Unmarshal(c.Object, &meta))
	mutate, validate := PathMutate, PathValidate
	group := meta.GroupVersionKind().Group
	switch {
	case group == wellknown.Group && !c.ForLabel:
		mutate, validate = "", PathValidatePolicy
	case group == "" && meta.Kind == "Namespace":
		mutate, validate = PathMutateNamespace, PathValidateNamespace
	}
	asked := ask{namespace: meta.Namespace, user: c.User, object: string(c.Object)}
	resource, _ := apimeta.UnsafeGuessKindToResource(meta.GroupVersionKind())
	asked.resource = metav1.GroupVersionResource(resource)
	if c.Was != nil {
		asked.old = string(mergePatch(t, c.Object, c.Was))
	}
	want := goldenWant{}
	if mutate != "" {
		asked.path = mutate
		response := w.ask(t, asked)
		if !response.Allowed || len(response.Warnings) > 0 {
			t.Errorf("the mutating webhook answered %+v", response)
		}
		want.Audit.Mutate = goldenAnnotations(t, response)
		want.Patch = goldenPatch(t, response.Patch)
		asked.object = patchedObject(t, asked.object, response)
		w.clock.now = t0
		if again := w.ask(t, asked); len(again.Patch) > 0 {
			t.Errorf("a second call has a patch as well: %s", again.Patch)
		}
	}
	asked.path = validate
	response := w.ask(t, asked)
	if len(response.Patch) > 0 {
		t.Errorf("the validating webhook has a patch: %s", response.Patch)
	}
	want.Warnings, want.Audit.Validate = response.Warnings, goldenAnnotations(t, response)
	if want.Fields = deniedFields(t, response); !response.Allowed {
		want.Denied = response.Result.Message
	}
	return response, want.text(t)
}

// goldenAnnotations are the audit annotations, or "none". A case leaves out {decision: allowed}.
func goldenAnnotations(t *testing.T, response *admissionv1.AdmissionResponse) any {
	t.Helper()
	for key := range response.AuditAnnotations {
		if strings.Contains(key, "/") {
			t.Errorf("the API server drops the audit annotation %q", key)
		}
	}
	switch {
	case len(response.AuditAnnotations) == 0:
		return "none"
	case maps.Equal(response.AuditAnnotations, map[string]string{auditDecision: "allowed"}):
		return nil
	}
	return response.AuditAnnotations
}

// goldenPatch are the operations of a JSON patch, each to be written on one line.
func goldenPatch(t *testing.T, patch []byte) []yamlv3.Node {
	t.Helper()
	var out []yamlv3.Node
	must(t, yamlv3.Unmarshal(patch, &out))
	var plain func(*yamlv3.Node)
	plain = func(node *yamlv3.Node) {
		node.Style &^= yamlv3.DoubleQuotedStyle
		for _, inner := range node.Content {
			plain(inner)
		}
	}
	for i := range out {
		plain(&out[i])
	}
	return out
}

// text is the want as the lines of a case.
func (w *goldenWant) text(t *testing.T) string {
	t.Helper()
	out := bytes.Buffer{}
	encoder := yamlv3.NewEncoder(&out)
	encoder.SetIndent(2)
	must(t, encoder.Encode(w))
	if out.String() == "{}\n" {
		return "    want: {}\n"
	}
	return "    want:\n" + regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(out.String(), "      $1")
}
