package lint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

const namespaceCI = `apiVersion: v1
kind: Namespace
metadata:
  name: ci
  annotations:
    curfew.dev/default-ttl: 1d
    curfew.dev/max-ttl: 7d
---
`

// noon is when tests take place.
var noon = time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)

var (
	builtin = sync.OnceValues(func() (*platform.Store, error) {
		all, err := profiles.All()
		if err != nil {
			return nil, err
		}
		return platform.New(all)
	})
	schemas = sync.OnceValues(func() (*Schemas, error) {
		definitions, err := crd.All()
		if err != nil {
			return nil, err
		}
		return NewSchemas(definitions)
	})
)

func offline(t testing.TB) Options {
	t.Helper()
	store, err := builtin()
	must(t, err)
	own, err := schemas()
	must(t, err)
	return Options{Source: platform.Offline{Platform: store.Snapshot()}, Schemas: own, Now: noon}
}

func lintText(t *testing.T, text string, options Options) []*Result {
	t.Helper()
	documents, errs := Read(Input{Name: "f.yaml", Data: []byte(text)}, Limits{})
	must(t, errs...)
	results, err := Lint(t.Context(), documents, options)
	must(t, err)
	return results
}

// lines are findings as a test compares them.
func lines(results []*Result) []string {
	var out []string
	for _, finding := range NewReport(results).Findings {
		out = append(out, fmt.Sprintf("%s:%d %s %s %s %s", finding.File, finding.Line, finding.Severity, finding.Object, finding.Rule, finding.Finding))
	}
	return out
}

func TestLint(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"nothing to say": {text: namespaceCI + "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: ci}\n"},
		"a raw TTL in a pod template, which only is found here": {
			text: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  template:\n    spec:\n      ttlSecondsAfterFinished: 5\n",
			want: []string{"f.yaml:7 error Deployment default/a pod-template-ttl spec.template.spec.ttlSecondsAfterFinished: " +
				"a pod template cannot have a TTL: remove it; what a Deployment runs does not finish"},
		},
		"a raw TTL in the pod template of a CronJob": {
			text: "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: a}\nspec:\n  jobTemplate:\n    spec:\n      template:\n        spec:\n          ttlSecondsAfterFinished: 5\n",
			want: []string{"f.yaml:9 error CronJob default/a pod-template-ttl spec.jobTemplate.spec.template.spec.ttlSecondsAfterFinished: " +
				"a pod template cannot have a TTL: set spec.jobTemplate.spec.ttlSecondsAfterFinished"},
		},
		"a bound of a Namespace among the documents, wherever it stands": {
			text: "apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: a-, namespace: ci}\nspec:\n  ttlSecondsAfterFinished: 864000\n---\n" + namespaceCI,
			want: []string{`f.yaml:5 error Job ci/a-* bounds spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 7d of namespace "ci": use 7d or less`},
		},
		"a Namespace with an unreadable value": {
			text: "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ci\n  annotations:\n    curfew.dev/mode: strict\n",
			want: []string{`f.yaml:6 error Namespace ci namespace-values metadata.annotations[curfew.dev/mode]: "strict" is not a mode: use enforce, warn or dry-run`},
		},
		"mode warn refuses nothing": {
			text: "apiVersion: v1\nkind: Namespace\nmetadata: {name: ci, annotations: {curfew.dev/mode: warn, curfew.dev/max-ttl: 1d}}\n---\n" +
				"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: ci}\nspec: {ttlSecondsAfterFinished: 864000}\n",
			want: []string{`f.yaml:8 warning Job ci/a bounds spec.ttlSecondsAfterFinished: would be refused (mode warn): 864000 (10d) is above curfew.dev/max-ttl 1d of namespace "ci": use 1d or less`},
		},
		"the default namespace": {
			text: "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, annotations: {curfew.dev/max-ttl: 1d}}\n---\n" +
				"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {ttlSecondsAfterFinished: 864000}\n",
			want: []string{`f.yaml:8 error Job default/a bounds spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 1d of namespace "default": use 1d or less`},
		},
		"a default that finds no place": {
			text: "apiVersion: v1\nkind: Namespace\nmetadata: {name: ci, annotations: {curfew.dev/default-ttl: 1d}}\n---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: a, namespace: ci}\nspec: 5\n",
			want: []string{"f.yaml:8 warning Job ci/a fillable spec: takes no default: spec is 5 and not an object, so that spec.ttlSecondsAfterFinished cannot be set"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if have := lines(lintText(t, test.text, offline(t))); !slices.Equal(have, test.want) {
				t.Errorf("have\n\t%s\nwant\n\t%s", strings.Join(have, "\n\t"), strings.Join(test.want, "\n\t"))
			}
		})
	}
}

func TestSamplesAreClean(t *testing.T) {
	files, _ := filepath.Glob("../../manifests/samples/*.yaml")
	recipes, err := filepath.Glob("../../manifests/samples/recipes/*.yaml")
	if err != nil || len(files) == 0 || len(recipes) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	var documents []*Document
	for _, file := range slices.Concat(files, recipes) {
		data, err := os.ReadFile(file)
		must(t, err)
		read, errs := Read(Input{Name: file, Data: data}, Limits{})
		must(t, errs...)
		documents = append(documents, read...)
	}
	results, err := Lint(t.Context(), documents, offline(t))
	must(t, err)
	report := NewReport(results)
	if !report.Allowed {
		t.Errorf("errors in the samples: %v", lines(results))
	}
	if len(report.Defaults) == 0 {
		t.Error("no default was filled in: the Namespaces among the samples were not heeded")
	}
}

// cluster is a world with the namespaces and runtimes that it names.
type cluster struct {
	snapshot   *platform.Snapshot // nil for what comes with Curfew
	namespaces map[string]*resolution.NamespacePolicy
	runtimes   map[string]map[string]any
	err        error
	asked      []string
}

func (c *cluster) Snapshot(context.Context) (*platform.Snapshot, error) {
	if c.snapshot != nil {
		return c.snapshot, nil
	}
	store, err := builtin()
	return store.Snapshot(), err
}

func (c *cluster) Namespace(_ context.Context, name string) (*resolution.NamespacePolicy, error) {
	c.asked = append(c.asked, name)
	if c.err != nil {
		return nil, c.err
	}
	if namespace, ok := c.namespaces[name]; ok {
		return namespace, nil
	}
	return nil, fmt.Errorf("reading: %w", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name))
}

func (c *cluster) Runtime(_ context.Context, reference *expression.Reference) (map[string]any, error) {
	c.asked = append(c.asked, reference.String())
	return c.runtimes[reference.String()], c.err
}

// PodCounter implements [platform.Source].
func (*cluster) PodCounter(context.Context, *policy.Facts) (*resolution.PodCounter, error) {
	return nil, platform.ErrUnknown
}

func TestOnline(t *testing.T) {
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {ttlSecondsAfterFinished: 864000}\n"
	world := &cluster{namespaces: map[string]*resolution.NamespacePolicy{"ci": resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationMaxTTL: "2d"}, nil)}}
	for name, test := range map[string]struct {
		text, namespace string
		want            []string
	}{
		"the cluster's namespace": {job, "ci", []string{`f.yaml:4 error Job ci/a bounds spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 2d of namespace "ci": use 2d or less`}},
		"a posted namespace over the cluster's": {namespaceCI + job, "ci", []string{
			`f.yaml:12 error Job ci/a bounds spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 7d of namespace "ci": use 7d or less`}},
		"a namespace that does not exist": {job, "new", []string{
			`f.yaml:3 warning Job new/a known-namespace metadata.namespace: namespace "new" does not exist yet: its defaults and bounds are not known; send it along`}},
		"a namespace that only the documents have": {strings.ReplaceAll(namespaceCI, "name: ci", "name: new") + job, "new", []string{
			`f.yaml:12 error Job new/a bounds spec.ttlSecondsAfterFinished: 864000 (10d) is above curfew.dev/max-ttl 7d of namespace "new": use 7d or less`}},
	} {
		t.Run(name, func(t *testing.T) {
			options := offline(t)
			options.Source, options.Namespace = world, test.namespace
			if have := lines(lintText(t, test.text, options)); !slices.Equal(have, test.want) {
				t.Errorf("have %q, want %q", have, test.want)
			}
		})
	}
	options := offline(t)
	options.Source = &cluster{err: errors.New("no route")}
	documents, _ := Read(Input{Data: []byte(job)}, Limits{})
	if _, err := Lint(t.Context(), documents, options); err == nil || err.Error() != "Job a: no route" {
		t.Errorf("a cluster that cannot be asked: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Lint(ended, documents, offline(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	for _, change := range []func(*Options){func(o *Options) { o.Source = nil }, func(o *Options) { o.Now = time.Time{} }} {
		lacking := offline(t)
		change(&lacking)
		if _, err := Lint(t.Context(), documents, lacking); err == nil {
			t.Error("taken without profiles, or without the time")
		}
	}
}

func TestOptionsReachTheRules(t *testing.T) {
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {ttlSecondsAfterFinished: 600}\n"
	options := offline(t)
	options.Rules = rules.Options{WarnBelow: time.Hour}
	want := []string{"f.yaml:4 warning Job default/a short-ttl spec.ttlSecondsAfterFinished: 600 (10m) is under 3600s: the Job may be deleted before anyone reads its logs; use 3600s or more"}
	if have := lines(lintText(t, job, options)); !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}

func TestAccess(t *testing.T) {
	job := "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {ttlSecondsAfterFinished: 600}\n"
	options := offline(t)
	options.Access = func(_ context.Context, review *rules.Request) (rules.Access, error) {
		if rules.SetsLifetime(review) == nil {
			t.Error("asked without the manifest's facts")
		}
		return rules.Access{User: rules.No}, nil
	}
	if have := lines(lintText(t, job, options)); len(have) != 1 || !strings.Contains(have[0], "f.yaml:4 warning Job default/a user-may-delete") {
		t.Errorf("have %q", have)
	}
	options.Access = func(context.Context, *rules.Request) (rules.Access, error) {
		return rules.Access{}, errors.New("no route")
	}
	documents, _ := Read(Input{Data: []byte(job)}, Limits{})
	if _, err := Lint(t.Context(), documents, options); err == nil || err.Error() != "Job a: no route" {
		t.Errorf("access that cannot be told: %v", err)
	}
}

// S9: posted content never directs a read of the cluster, which the caller may not be allowed to
// read.
func TestPostedContentReadsNothing(t *testing.T) {
	profile := func(group, version, kind, resource, path string) string {
		return "apiVersion: curfew.dev/v1alpha1\nkind: KindProfile\nmetadata: {name: runs.x.dev}\nspec:\n  kind: {group: x.dev, version: v1, kind: Run, resource: runs}\n" +
			"  state: {finished: \"false\", finishTime: \"null\", outcome: \"'Failed'\"}\n" +
			"  runtime:\n    reference: {name: spec.plan, defaultKind: " + kind + "}\n" +
			"    kinds: [{group: \"" + group + "\", version: " + version + ", kind: " + kind + ", resource: " + resource + ", ttl: [" + path + "]}]\n---\n"
	}
	run := "apiVersion: x.dev/v1\nkind: Run\nmetadata: {name: a, namespace: team-b}\nspec: {plan: theirs}\n---\n"
	asking := func(variable string) string {
		return "apiVersion: curfew.dev/v1alpha1\nkind: LifecyclePolicy\nmetadata: {name: p}\nspec: {defaults: {ttl: {expression: 'string(" + variable + ".spec.secret)'}}}\n---\n"
	}
	posted := "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainingRuntime\nmetadata: {name: torch, namespace: ci}\nspec: {secret: 3h}\n---\n"
	for name, test := range map[string]struct {
		text  string
		asked []string
		says  string
	}{
		"a profile that points at a runtime":      {text: profile("trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes", "spec.secret") + run, asked: []string{"team-b"}},
		"a profile that points at a Secret":       {text: profile("", "v1", "Secret", "secrets", "data.password") + run, asked: []string{"team-b"}},
		"a policy that looks at the runtime":      {text: asking("runtime") + trainJob, asked: []string{"ci"}},
		"a policy that looks at a posted runtime": {text: asking("runtime") + posted + trainJob, asked: []string{"ci"}},
		"a policy that looks at the namespace":    {text: asking("namespaceObject") + plainJob, says: `namespace "ci" is not among the manifests, and policy "p" asks about it: send it along`},
		"nothing of that kind":                    {text: trainJob, asked: []string{"ci", "TrainingRuntime ci/torch"}},
	} {
		t.Run(name, func(t *testing.T) {
			theirs := map[string]any{"metadata": map[string]any{"name": "theirs"}, "spec": map[string]any{"secret": "hunter2"}, "data": map[string]any{"password": "hunter2"}}
			world := &cluster{runtimes: map[string]map[string]any{"TrainingRuntime team-b/theirs": theirs, "Secret team-b/theirs": theirs, "TrainingRuntime ci/torch": theirs},
				namespaces: map[string]*resolution.NamespacePolicy{"ci": resolution.ParseNamespace("ci", map[string]string{"secret": "hunter2"}, nil)}}
			options := offline(t)
			options.Source = world
			found := strings.Join(lines(lintText(t, test.text, options)), "\n")
			if strings.Contains(found, "hunter2") {
				t.Errorf("found %s", found)
			}
			if !strings.Contains(found, test.says) {
				t.Errorf("found %s, want %s", found, test.says)
			}
			if !slices.Equal(world.asked, test.asked) {
				t.Errorf("asked the cluster for %q, want %q", world.asked, test.asked)
			}
		})
	}
}

// S9: a value below a field is named for what it is, and never repeated.
func TestFindingsRepeatNoContents(t *testing.T) {
	for _, value := range []string{"{password: hunter2}", "[hunter2]", "{a: {b: [hunter2]}}"} {
		for _, text := range []string{
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {ttlSecondsAfterFinished: " + value + ", activeDeadlineSeconds: " + value + ", suspend: " + value + "}\n",
			"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: a}\nspec: {runtimeRef: {name: " + value + "}}\n",
		} {
			found := lines(lintText(t, text, offline(t)))
			if len(found) == 0 || strings.Contains(strings.Join(found, ""), "hunter2") {
				t.Errorf("%s: found %q", text, found)
			}
		}
	}
}

// S9: texts that cannot be read count as documents, and lines are counted once.
func TestStreamsAreBounded(t *testing.T) {
	for _, format := range []string{"1 ", "{}\n", "1\n"} {
		_, errs := Read(Input{Data: []byte(strings.Repeat(format, 500_000)), JSON: true}, Limits{Documents: 2000})
		limit := (*LimitError)(nil)
		if len(errs) != 1 || !errors.As(errs[0], &limit) || limit.What != "documents" {
			t.Errorf("%q: %d errors, the first is %.100v", format, len(errs), errs[0])
		}
	}
	_, errs := Read(Input{Data: []byte("1\n\n2\n 3 4\n"), JSON: true}, Limits{})
	var where []int
	for _, err := range errs {
		document := (*DocumentError)(nil)
		if errors.As(err, &document) {
			where = append(where, document.Line)
		}
	}
	if !slices.Equal(where, []int{1, 3, 4, 4}) {
		t.Errorf("lines %v", where)
	}
}

// TestExplain: the default of a namespace decides, the status of a manifest means nothing, and a
// default label counts from now.
func TestExplain(t *testing.T) {
	const text = namespaceCI + `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: ci, creationTimestamp: "2020-01-01T00:00:00Z"},
  status: {conditions: [{type: Complete, status: "True", lastTransitionTime: "2020-01-02T00:00:00Z"}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: ci}}
---
{apiVersion: curfew.dev/v1alpha1, kind: LifecyclePolicy, metadata: {name: p}, spec: {match: {kinds: [{kind: ConfigMap}]}, defaults: {ttlLabel: {value: 2d}}}}
`
	documents, errs := Read(Input{Data: []byte(text)}, Limits{})
	must(t, errs...)
	linter, err := linterFor(t.Context(), documents, offline(t))
	must(t, err)
	job, known, err := linter.Explain(t.Context(), documents[1])
	if err != nil || !known {
		t.Fatal(err)
	}
	if value := job.Effective.Succeeded; job.Facts.Finished || value.Source.String() != "namespace/ci" || value.TTL.String() != "1d" || resolution.Decider(job.TTL).Source.String() != "namespace/ci" {
		t.Errorf("the Job gets %+v, finished: %t", value, job.Facts.Finished)
	}
	labelled, _, err := linter.Explain(t.Context(), documents[2])
	must(t, err)
	if want := noon.Add(48 * time.Hour); labelled.LabelKey != wellknown.LabelTTL || !labelled.ByLabel.Expiry.Equal(want) || labelled.ByLabel.Source.String() != "policy/p" {
		t.Errorf("the ConfigMap expires by %q at %s, want %s", labelled.LabelKey, labelled.ByLabel.Expiry, want)
	}
}

var must = builders.Must
