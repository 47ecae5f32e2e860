package e2e

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/v1alpha1"
)

// sample is what a policy of manifests/samples deletes and keeps, of what the test creates.
type sample struct {
	Owners, Deleted, Kept, Young []sampled
}

// sampled is an object. Its status is written as its controller would.
type sampled struct {
	unstructured.Unstructured
	await string
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *sampled) UnmarshalJSON(text []byte) error {
	var content map[string]any
	if err := yaml.Unmarshal(text, &content); err != nil {
		return err
	}
	o.await, _ = content["await"].(string)
	delete(content, "await")
	o.Object = content
	return nil
}

// String is Kind/name.
func (o *sampled) String() string { return o.GetKind() + "/" + o.GetName() }

// Each cleanup policy among the samples, with the rights of its service account alone, deletes
// exactly what it should. All of them are prepared before the first is waited for. Their lookups
// read all kinds and keep everything while one cannot be listed, so that no other test runs beside
// this one.
func TestCleanupSamples(t *testing.T) {
	policies, rights := readCleanupSamples(t)
	s := newSpace(t)
	s.ok(installProjects())
	s.expectSuccess(s.kubectlInput(s.manifest(rights...), "apply", "--namespace=", "-f", "-"))
	s.applyVirtualMachines()
	t.Cleanup(func() { s.afterwards("delete", "namespace", "curfew-cleanup", "--wait=false") })
	text := string(readFile(t, "testdata/cleanup-samples.yaml"))
	var all []*prepared
	for _, name := range slices.Sorted(maps.Keys(policies)) {
		s := newSpace(t)
		var samples map[string]sample
		start := time.Now().UTC()
		s.ok(yaml.Unmarshal([]byte(strings.NewReplacer("SPACE", s.name, "BEFORE", start.Add(-time.Hour).Format(time.RFC3339),
			"AFTER", start.Add(time.Hour).Format(time.RFC3339)).Replace(text)), &samples))
		entry := samples[name]
		if len(entry.Deleted) == 0 || len(entry.Kept) == 0 {
			t.Fatalf("testdata/cleanup-samples.yaml does not say what %s deletes and keeps", name)
		}
		if len(samples) != len(policies)+1 {
			t.Fatalf("testdata/cleanup-samples.yaml has %d policies and manifests/samples %d", len(samples)-1, len(policies))
		}
		all = append(all, s.prepareSample(policies[name], &entry))
	}
	compareAll(all)
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// readCleanupSamples reads the cleanup policies among the samples, by name, and all else in their
// files.
func readCleanupSamples(t *testing.T) (policies map[string]*unstructured.Unstructured, rights []any) {
	t.Helper()
	files, err := filepath.Glob("../../manifests/samples/*-cleanup-*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	policies = map[string]*unstructured.Unstructured{}
	for _, file := range files {
		for _, document := range strings.Split(string(readFile(t, file)), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch {
			case strings.HasSuffix(object.GetKind(), "CleanupPolicy"):
				policies[object.GetName()] = object
			case object.GetNamespace() != "foo" && object.GetName() != "foo":
				rights = append(rights, object.Object)
			}
		}
	}
	return policies, rights
}

// prepared is a sample whose policy will run on the objects that were created.
type prepared struct {
	*space
	policy  string
	of      *sample
	created map[string]*unstructured.Unstructured
}

// prepareSample creates the objects and the policy.
func (s *space) prepareSample(policy *unstructured.Unstructured, entry *sample) *prepared {
	s.Helper()
	if policy.GetNamespace() != "" {
		s.applySampleRights(policy.GetNamespace())
	}
	created, cut := map[string]*unstructured.Unstructured{}, time.Time{}
	_, newest, _ := unstructured.NestedMap(policy.Object, "spec", "keepNewest")
	for i, list := range [][]sampled{entry.Owners, entry.Deleted, entry.Kept} {
		for i := range list {
			s.createSampled(created, &list[i])
		}
		if newest || i == 2 {
			cut = s.nextSecond() // Objects created from here on are younger.
		}
	}
	for i := range entry.Young {
		s.createSampled(created, &entry.Young[i])
	}
	if readsCluster(policy) { // It keeps objects that are less than an hour old.
		cut = cut.Add(-2 * hour)
		for _, object := range created {
			if scheme.Scheme.Recognizes(object.GroupVersionKind()) {
				s.age(object, object.GetCreationTimestamp().Add(-2*hour))
			}
		}
	}
	return &prepared{s, s.applySample(policy, cut), entry, created}
}

// readsCluster reports whether a policy has a lookup that reads every kind.
func readsCluster(policy *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(policy.Object, "spec", "conditions")
	return regexp.MustCompile(`lookup\.(referenced|selects|dangling|instances)`).MatchString(fmt.Sprint(conditions))
}

// applyVirtualMachines installs a kind that no KindProfile describes.
func (s *space) applyVirtualMachines() {
	s.Helper()
	s.expectSuccess(s.kubectlInput(string(readFile(s.T, "testdata/virtualmachines.yaml")), "apply", "--namespace=", "-f", "-"))
	s.expectSuccess(s.kubectl("wait", "--for=condition=Established", "customresourcedefinition/virtualmachines.kubevirt.io", "--timeout=10m"))
	s.poll("discovery of VirtualMachines", func(context.Context) (bool, error) { // It follows a moment later.
		return strings.Contains(s.kubectl("api-resources", "--api-group=kubevirt.io", "--cached=false", "-o", "name").stdout, "virtualmachines"), nil
	})
}

// compareAll waits for all runs and compares what they deleted.
func compareAll(all []*prepared) {
	for len(all) > 0 {
		all[0].Helper()
		var left []*prepared
		all[0].poll(fmt.Sprintf("the runs of %s and %d others", all[0].policy, len(all)-1), func(context.Context) (bool, error) {
			left = slices.DeleteFunc(slices.Clone(all), (*prepared).compare)
			return len(left) < len(all), nil
		})
		all = left
	}
}

// compare reports whether the run has ended, and then compares what it deleted.
func (p *prepared) compare() (ended bool) {
	p.Helper()
	status := p.awaitStatus(p.policy, "the status", func(*v1alpha1.CleanupPolicyStatus) bool { return true })
	if status.LastRun == nil || status.LastRun.Phase == v1alpha1.RunRunning {
		return false
	}
	var want []string
	for i := range p.of.Deleted {
		want = append(want, p.of.Deleted[i].String())
	}
	slices.Sort(want)
	if deleted := p.deleted(want); !slices.Equal(deleted, want) {
		p.Errorf("%s deleted %v\nwant %v", p.policy, deleted, want)
	}
	// Nor anything that the test did not create.
	if status.Deleted != int64(len(want)) || reasonOf(status, v1alpha1.ConditionStalled) != "none" {
		p.Errorf("%s deleted %d, want %d; stalled: %s; %+v", p.policy, status.Deleted, len(want), reasonOf(status, v1alpha1.ConditionStalled), status.LastRun)
	}
	return true
}

// deleted are the created objects that are deleted, but for those in a Namespace that is wanted.
func (p *prepared) deleted(want []string) (out []string) {
	p.Helper()
	for key, object := range p.created {
		if !slices.Contains(want, "Namespace/"+object.GetNamespace()) && p.isDeleted(object) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// applySampleRights gives the service account of a namespaced sample its rights here.
func (s *space) applySampleRights(namespace string) {
	s.Helper()
	text := string(readFile(s.T, "../../manifests/samples/15-cleanup-namespaces.yaml"))
	for _, document := range strings.Split(text, "\n---\n") {
		if strings.Contains(document, "namespace: "+namespace+"\n") && !strings.Contains(document, "kind: CleanupPolicy\n") {
			s.apply(strings.ReplaceAll(document, "namespace: "+namespace, "namespace: "+s.name))
		}
	}
}

var ageLimit = regexp.MustCompile(`now - timestamp\((.*)\) > duration\("(.*)"\)`)

// applySample applies a policy for this space alone, due now. Its clock is such that
// what the policy demands to be older than any time must be older than cut, unless that is zero.
func (s *space) applySample(policy *unstructured.Unstructured, cut time.Time) (name string) {
	s.Helper()
	name, spec := policy.GetName(), policy.Object["spec"].(map[string]any)
	match := spec["matchConstraints"].(map[string]any)
	switch rule := match["resourceRules"].([]any)[0].(map[string]any); {
	case policy.GetNamespace() != "":
		policy.SetNamespace(s.name)
	case slices.ContainsFunc(rule["resources"].([]any), func(r any) bool { return r == "namespaces" || r == "persistentvolumes" }):
		if rule["resourceNames"] == nil {
			rule["resourceNames"] = []any{"*"}
		}
		for i, pattern := range rule["resourceNames"].([]any) {
			rule["resourceNames"].([]any)[i] = s.name + "-" + pattern.(string)
		}
	default:
		match["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: s.name}}
	}
	if policy.GetNamespace() == "" {
		name = s.name + "-" + name
		policy.SetName(name)
		s.Cleanup(func() { s.afterwards("delete", "clustercleanuppolicy", name, "--ignore-not-found") })
	}
	conditions, _ := spec["conditions"].([]any)
	for _, condition := range conditions {
		condition := condition.(map[string]any)
		if cut.IsZero() {
			break
		}
		condition["expression"] = ageLimit.ReplaceAllStringFunc(condition["expression"].(string), func(text string) string {
			age, err := time.ParseDuration(ageLimit.FindStringSubmatch(text)[2])
			s.ok(err)
			return fmt.Sprintf("timestamp(%q)%s", cut.Add(age).UTC().Format(time.RFC3339), strings.TrimPrefix(text, "now"))
		})
	}
	delete(spec, "approval")
	delete(spec, "dryRun")
	delete(spec, "timeZone")
	delete(spec, "minUnused")
	delete(spec, "consecutiveRuns") // It has one run here: see TestCleanupConsecutiveRuns.
	spec["schedule"] = lastMinute()
	s.apply(s.manifest(policy.Object))
	s.makeDue(name)
	return name
}

// createSampled creates an object, writes its status and waits for its phase.
func (s *space) createSampled(created map[string]*unstructured.Unstructured, entry *sampled) {
	s.Helper()
	object := entry.DeepCopy()
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	delete(object.Object, "status")
	owners := object.GetOwnerReferences()
	for i := range owners {
		owners[i].UID = created[owners[i].Kind+"/"+owners[i].Name].GetUID()
	}
	if len(owners) > 0 {
		object.SetOwnerReferences(owners)
	}
	client := s.clientOf(object)
	out, err := client.Create(s.ctx, object, metav1.CreateOptions{})
	s.ok(err)
	created[entry.String()] = out
	if isClusterScoped(out) {
		s.Cleanup(func() { s.afterwards("delete", out.GetKind(), out.GetName(), "--ignore-not-found", "--wait=false") })
	}
	if status != nil {
		// A controller may write at the same time.
		s.poll("the status of "+entry.String(), func(ctx context.Context) (bool, error) {
			live, err := client.Get(ctx, out.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			live.Object["status"] = status
			_, err = client.UpdateStatus(ctx, live, metav1.UpdateOptions{})
			if apierrors.IsConflict(err) {
				return false, nil
			}
			return true, err
		})
	}
	if entry.await != "" {
		s.poll(entry.String()+" to be "+entry.await, func(ctx context.Context) (bool, error) {
			live, err := client.Get(ctx, out.GetName(), metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			phase, _, _ := unstructured.NestedString(live.Object, "status", "phase")
			return phase == entry.await, nil
		})
	}
}

// clientOf is a client for the kind of an object.
func (s *space) clientOf(object *unstructured.Unstructured) dynamic.ResourceInterface {
	s.Helper()
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	if isClusterScoped(object) {
		return s.objects(resource)
	}
	return s.objects(resource).Namespace(cmp.Or(object.GetNamespace(), s.name))
}

func isClusterScoped(object *unstructured.Unstructured) bool {
	return object.GetKind() == "Namespace" || object.GetKind() == "PersistentVolume"
}

// isDeleted reports whether an object is gone or being deleted.
func (s *space) isDeleted(object *unstructured.Unstructured) bool {
	s.Helper()
	live, err := s.clientOf(object).Get(s.ctx, object.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true
	}
	s.ok(err)
	return live.GetUID() != object.GetUID() || live.GetDeletionTimestamp() != nil
}

// nextSecond waits for the next whole second, by which the API server tells creations apart.
func (s *space) nextSecond() time.Time {
	s.Helper()
	next := time.Now().Truncate(time.Second).Add(time.Second)
	s.poll("the next second", func(context.Context) (bool, error) { return !time.Now().Before(next), nil })
	return next
}
