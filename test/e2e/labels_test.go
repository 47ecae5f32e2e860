package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/harness"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	jobs       = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
)

// objects is a client for any kind.
func (s *space) objects(resource schema.GroupVersionResource) dynamic.NamespaceableResourceInterface {
	s.Helper()
	client, err := dynamic.NewForConfig(suite.cluster.Config)
	s.ok(err)
	return client.Resource(resource)
}

// follow has the observer keep the events of one more kind in the namespace.
func (s *space) follow(kind string, resource schema.GroupVersionResource) {
	s.Helper()
	watcher, err := s.objects(resource).Namespace(s.name).Watch(s.ctx, metav1.ListOptions{})
	s.ok(err)
	go s.observer.Follow(kind, watcher)
}

// until is the label's form of an instant.
func until(t time.Time) string { return lifetime.TTLLabel{At: t}.String() }

// newObject creates an object of any kind with labels.
func (s *space) newObject(resource schema.GroupVersionResource, kind, name string, labels ...string) *unstructured.Unstructured {
	s.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(resource.GroupVersion().WithKind(kind))
	object.SetName(name)
	object.SetLabels(pairs(labels))
	created, err := s.objects(resource).Namespace(s.name).Create(s.ctx, object, metav1.CreateOptions{})
	s.ok(err)
	return created
}

func (s *space) newConfigMap(name string, labels ...string) *unstructured.Unstructured {
	s.Helper()
	return s.newObject(configMaps, "ConfigMap", name, labels...)
}

func (s *space) patchConfigMap(name, patch string) error {
	client, err := dynamic.NewForConfig(suite.cluster.Config)
	if err != nil {
		return err
	}
	_, err = client.Resource(configMaps).Namespace(s.name).Patch(s.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

var grantOnce sync.Once

// labelSpace is a space in which the labels of ConfigMaps are carried out: their deletion has been
// granted, and noticed.
func labelSpace(t *testing.T, annotations ...string) *space {
	t.Helper()
	s := newSpace(t, annotations...)
	s.grantConfigMaps()
	s.follow("ConfigMap", configMaps)
	return s
}

func (s *space) grantConfigMaps() {
	s.Helper()
	grantOnce.Do(func() {
		s.grant("e2e-config-maps", configMaps)
		s.awaitWatched("ConfigMap", true)
		s.poll("the labels of ConfigMaps to be reviewed", func(context.Context) (bool, error) {
			expired := labelledAs("v1", "ConfigMap", "probe", wellknown.LabelTTL, "2020-01-01")
			return s.kubectlInput(s.manifest(expired), "create", "--dry-run=server", "-f", "-").failed, nil
		})
	})
}

// grant lets the controller list, watch and delete kinds, by a ClusterRole that the one in
// manifests/rbac takes up.
func (s *space) grant(name string, resources ...schema.GroupVersionResource) {
	s.Helper()
	var rules []string
	for _, resource := range resources {
		rules = append(rules, fmt.Sprintf(`{"apiGroups":[%q],"resources":[%q],"verbs":["get","list","watch","delete"]}`, resource.Group, resource.Resource))
	}
	s.expectSuccess(s.kubectlInput(fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":%q,
		"labels":{"curfew.dev/aggregate-to-controller":"true"}},"rules":[%s]}`, name, strings.Join(rules, ",")), "apply", "-f", "-"))
}

// awaitWatched waits until the controller says of a kind that its labels are carried out, or are
// not.
func (s *space) awaitWatched(kind string, watched bool) {
	s.Helper()
	k := schema.ParseGroupKind(kind)
	skipped := fmt.Sprintf(`curfew_label_kinds_skipped{group=%q,kind=%q,reason="permission"} 1`, k.Group, k.Kind)
	s.awaitMetrics("kind "+kind+" to be watched or skipped", func(text string) bool {
		return strings.Contains(text, skipped) != watched && !strings.Contains(text, "curfew_label_kinds_watched 0")
	})
}

// awaitMetrics asks for the controller's metrics until they are as they should be; nothing tells
// when they change.
func (s *space) awaitMetrics(what string, condition func(string) bool) {
	s.Helper()
	var text string
	err := harness.Poll(s.ctx, s.Name()+": "+what, func(ctx context.Context) (bool, error) {
		var err error
		text, err = suite.controller.Scrape(ctx)
		return err == nil && condition(text), nil
	})
	if err != nil {
		s.Fatalf("waited in vain for %s: %v\n%s", what, err, strings.Join(grep(text, "curfew_label"), "\n"))
	}
}

func grep(text, what string) (out []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, what) {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return out
}

// justBefore returns a moment before an instant: when Curfew has deleted a canary that was due one
// second earlier.
func (s *space) justBefore(t time.Time) {
	s.Helper()
	entry, name := s.canary()
	entry.newConfigMap(name, wellknown.LabelTTL, lifetime.FormatDuration(max(second, time.Until(t).Truncate(second)-second)))
	entry.awaitAbsent(configMaps, name)
}

// A label may be put on, lowered, raised, refreshed and taken off, right before the object is due as
// well.
func TestLabelsChangeRightBeforeExpiry(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	margin := s.slack(3 * second)
	life := 6*second + 2*margin
	expiry := now().Add(life)
	refreshed := s.newConfigMap("refreshed", wellknown.LabelTTL, lifetime.FormatDuration(life))
	taken := s.newConfigMap("taken", wellknown.LabelTTL, until(expiry))
	raised := s.newConfigMap("raised", wellknown.LabelTTL, until(expiry))
	spoiled := s.newConfigMap("spoiled", wellknown.LabelTTL, until(expiry))
	protected := s.newConfigMap("protected", wellknown.LabelTTL, until(expiry))
	lowered := s.newConfigMap("lowered", wellknown.LabelTTL, "30d")
	late := s.newConfigMap("late")
	unchanged := s.newConfigMap("unchanged", wellknown.LabelTTL, until(expiry))

	s.justBefore(expiry.Add(-margin))
	when := now().UTC().Truncate(second)
	patches := map[string]string{
		"refreshed": `{"metadata":{"annotations":{"` + wellknown.AnnotationRefreshedAt + `":"` + when.Format(time.RFC3339) + `"}}}`,
		"taken":     `{"metadata":{"labels":{"` + wellknown.LabelTTL + `":null}}}`,
		"raised":    `{"metadata":{"labels":{"` + wellknown.LabelTTL + `":"` + until(expiry.Add(margin)) + `"}}}`,
		"spoiled":   `{"metadata":{"labels":{"` + wellknown.LabelTTL + `":"soon"}}}`,
		"protected": `{"metadata":{"annotations":{"` + wellknown.AnnotationProtect + `":"true"}}}`,
		"lowered":   `{"metadata":{"labels":{"` + wellknown.LabelTTL + `":"` + until(expiry) + `"}}}`,
		"late":      `{"metadata":{"labels":{"` + wellknown.LabelTTL + `":"` + until(expiry) + `"}}}`,
	}
	errs := make(chan error, len(patches))
	for name, patch := range patches {
		go func() { errs <- s.patchConfigMap(name, patch) }()
	}
	for range patches {
		s.ok(<-errs)
	}

	s.notEarly(s.awaitDeletion(unchanged), expiry)
	s.notEarly(s.awaitDeletion(lowered), expiry)
	s.notEarly(s.awaitDeletion(late), expiry)
	s.stillThere(raised)
	s.notEarly(s.awaitDeletion(raised), expiry.Add(margin))
	s.notEarly(s.awaitDeletion(refreshed), when.Add(life))
	s.outlastLabel(expiry)
	for _, kept := range []metav1.Object{taken, spoiled, protected} {
		s.stillThere(kept)
	}
	s.awaitLog(suite.controller.Log, s.name+"/unchanged", "deleted", `"trigger":"label"`, string(unchanged.GetUID()))
	s.awaitLog(suite.controller.Log, s.name+"/spoiled", "kept", "neither a duration nor a date")
}

// S1: the label changes while the DELETE is under way. Whoever deletes by name or by UID alone
// deletes it now.
func TestLabelChangedUnderTheDelete(t *testing.T) {
	parallel(t)
	for name, patch := range map[string]string{
		"raised":    `{"metadata":{"labels":{"` + wellknown.LabelTTL + `":"30d"}}}`,
		"taken":     `{"metadata":{"labels":{"` + wellknown.LabelTTL + `":null}}}`,
		"protected": `{"metadata":{"annotations":{"` + wellknown.AnnotationProtect + `":"true"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			parallel(t)
			s := labelSpace(t)
			expiry := s.ahead(3 * second)
			defer suite.proxy.BeforeDelete(s.name, "it", func() { s.okInHook(s.patchConfigMap("it", patch)) })()
			it := s.newConfigMap("it", wellknown.LabelTTL, until(expiry))
			s.outlastLabel(expiry)
			s.stillThere(it)
			s.onlyConflicts("it")
		})
	}
}

// A TTL and a label on one Job: the earlier deletes it, and the other one changes nothing.
func TestTheEarlierOfTTLAndLabel(t *testing.T) {
	parallel(t)
	s := labelSpace(t)
	wait, start := s.slack(4*second), now()
	early, late := start.Add(wait), start.Add(wait+30*second)
	byLabel := s.finishJob("by-label", start, ttl(hour), labelled(until(early)))
	byTTL := s.finishJob("by-ttl", start, ttl(wait), labelled(until(late)))
	running := s.newJob(job("running", labelled(until(early)), inTemplate(hold, "true")))
	s.notEarly(s.awaitDeletion(byLabel), early)
	s.notEarly(s.awaitDeletion(byTTL), early)
	s.notEarly(s.awaitDeletion(running), early)
	// A list that was taken before the deletion may bring a trigger to try once more; the other one
	// sends nothing.
	for name, trigger := range map[string]string{"by-label": "label", "by-ttl": "ttl"} {
		s.awaitLog(suite.controller.Log, s.name+"/"+name, "deleted", `"trigger":"`+trigger+`"`)
		for _, line := range logLines(suite.controller.Log, s.name+"/"+name, `"trigger":"`) {
			if !strings.Contains(line, `"trigger":"`+trigger+`"`) {
				t.Errorf("%s: not only by %s: %s", name, trigger, line)
			}
		}
	}
}

// Protected namespaces, Curfew's own objects and what lies outside of the bounds are not touched.
func TestLabelsThatAreNotCarriedOut(t *testing.T) {
	parallel(t)
	s := labelSpace(t, wellknown.AnnotationMaxTTL, "1h")
	const due = "2s"
	own := s.newConfigMap("own", wellknown.LabelTTL, due, wellknown.LabelPartOf, wellknown.PartOfCurfew) // which is no protection
	protected := &unstructured.Unstructured{}
	protected.SetGroupVersionKind(configMaps.GroupVersion().WithKind("ConfigMap"))
	protected.SetName("e2e-" + s.name)
	protected.SetLabels(map[string]string{wellknown.LabelTTL: due})
	for _, namespace := range []string{"kube-public", harness.Namespace} {
		_, err := s.objects(configMaps).Namespace(namespace).Create(s.ctx, protected, metav1.CreateOptions{})
		s.ok(err)
	}
	defer func() {
		for _, namespace := range []string{"kube-public", harness.Namespace} {
			if err := s.objects(configMaps).Namespace(namespace).Delete(context.Background(), protected.GetName(), metav1.DeleteOptions{}); err != nil {
				t.Errorf("it is gone from %s, a protected namespace: %v", namespace, err)
			}
		}
	}()
	gone := s.newConfigMap("gone", wellknown.LabelTTL, due)
	s.awaitGone(gone)
	s.awaitGone(own)
	s.outlastLabel(now().Add(2 * second))
}
