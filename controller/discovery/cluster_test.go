package discovery

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/expire"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/permission"
	"curfew.dev/curfew/test/builders"
)

// cluster is what [Labels] sees and does in these tests.
type cluster struct {
	services, roles, bindings *builders.Source
	feeds                     *Set

	mu         sync.Mutex
	served     []*metav1.APIResourceList
	failed     map[schema.GroupVersion]error
	down       error
	custom     map[schema.GroupResource]Kind
	rules      map[string][]authorizationv1.ResourceRule // by namespace; permission.Nowhere is everywhere
	incomplete bool
	reviews    int // lists of rules
	asked      int // single permissions
	broken     map[string]bool
	running    map[string]int
	doubled    bool
	forgot     []string
	judged     []string
	refuse     map[string]func() // of feeds that run: calls forbidden
	lines      []string
	// propagation is what profiles say, and unprofiled that they are not known; asks is what the feeds
	// were made with.
	propagation map[schema.GroupKind]metav1.DeletionPropagation
	unprofiled  error
	asks        map[string]metav1.DeletionPropagation
	aggregated  map[string]bool // what the feeds were told of their kinds
}

func (e *cluster) Rules(_ context.Context, namespace string) (permission.Grants, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reviews++
	if e.down != nil {
		return permission.Grants{}, e.down
	}
	if e.incomplete {
		return permission.Grants{Incomplete: true}, nil
	}
	return permission.Grants{Rules: append(slices.Clone(e.rules[permission.Nowhere]), e.rules[namespace]...)}, nil
}

func (e *cluster) MayDelete(_ context.Context, resource schema.GroupVersionResource, namespace string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if namespace == "" {
		namespace = permission.Nowhere
	}
	return permission.Grants{Rules: e.rules[namespace]}.Cover(resource.GroupResource()), nil
}

func (e *cluster) discover(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down != nil {
		return nil, nil, e.down
	}
	groups := map[string]*metav1.APIGroup{}
	var order []*metav1.APIGroup
	for _, list := range e.served {
		version, _ := schema.ParseGroupVersion(list.GroupVersion)
		if groups[version.Group] == nil {
			groups[version.Group] = &metav1.APIGroup{Name: version.Group, PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: list.GroupVersion}}
			order = append(order, groups[version.Group])
		}
		groups[version.Group].Versions = append(groups[version.Group].Versions, metav1.GroupVersionForDiscovery{GroupVersion: list.GroupVersion})
	}
	if len(e.failed) > 0 {
		return order, e.served, &discovery.ErrGroupDiscoveryFailed{Groups: e.failed}
	}
	return order, e.served, nil
}

// planted is a feed that runs.
type planted struct {
	cluster *cluster
	name    string
	handle  expire.Kind
}

// tracker forgets what feeds tracked, as the engine does.
type tracker struct {
	*cluster
	handles map[expire.Kind]*Spec
}

func (t tracker) Hold(expire.Kind, bool) {}

func (t tracker) ForgetKind(kind expire.Kind) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := testName(t.handles[kind])
	for other := range t.running {
		t.doubled = t.doubled || other == name || sameObjects(other, name)
	}
	t.forgot = append(t.forgot, name)
}

func (p *planted) Run(ctx context.Context) error {
	e := p.cluster
	e.mu.Lock()
	e.running[p.name]++
	for other, count := range e.running {
		// In two namespaces at once is how it should be; everywhere and in one, or in two versions, is
		// not.
		e.doubled = e.doubled || other == p.name && count > 1 || other != p.name && sameObjects(other, p.name)
	}
	e.mu.Unlock()
	<-ctx.Done()
	<-time.After(100 * time.Millisecond) // It takes a while to end.
	e.mu.Lock()
	e.running[p.name]--
	if e.running[p.name] == 0 {
		delete(e.running, p.name)
	}
	e.mu.Unlock()
	return nil
}

func sameObjects(a, b string) bool {
	resource := func(name string) string { before, _, _ := strings.Cut(name, "."); return before }
	return resource(a) == resource(b) && strings.HasSuffix(a, "~") == strings.HasSuffix(b, "~") &&
		(!strings.Contains(a, "@") || !strings.Contains(b, "@"))
}

func (p *planted) RejudgeNamespace(name string) { p.note(name) }
func (p *planted) RejudgeAll()                  { p.note("*") }
func (p *planted) Handles() []expire.Kind       { return []expire.Kind{p.handle} }

func (p *planted) note(what string) {
	p.cluster.mu.Lock()
	defer p.cluster.mu.Unlock()
	p.cluster.judged = append(p.cluster.judged, p.name+":"+what)
}

func testName(t *Spec) string {
	out := t.Resource.Resource + "." + t.Kind.Version
	if t.Namespace != "" {
		out += "@" + t.Namespace
	}
	if t.Purpose == Alias {
		out += "~"
	}
	return out
}

func everything() []authorizationv1.ResourceRule { return rule("*", "*") }

func rule(group string, resources ...string) []authorizationv1.ResourceRule {
	return []authorizationv1.ResourceRule{{Verbs: []string{"get", "list", "watch", "delete"}, APIGroups: []string{group}, Resources: resources}}
}

func resources(version string, all ...metav1.APIResource) *metav1.APIResourceList {
	return &metav1.APIResourceList{GroupVersion: version, APIResources: all}
}

func resource(name, kind string, verbs ...string) metav1.APIResource {
	if len(verbs) == 0 {
		verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	}
	return metav1.APIResource{Name: name, Kind: kind, Namespaced: true, Verbs: verbs}
}

func clusterWide(r metav1.APIResource) metav1.APIResource { r.Namespaced = false; return r }

// keep runs a keeper until the test ends. Call it inside a synctest bubble.
func keep(t *testing.T, prepare func(*cluster), change func(*LabelsOptions)) (*cluster, *Labels) {
	t.Helper()
	e := &cluster{
		services: builders.MakeSource(), roles: builders.MakeSource(), bindings: builders.MakeSource(),
		custom: map[schema.GroupResource]Kind{}, rules: map[string][]authorizationv1.ResourceRule{permission.Nowhere: everything()},
		broken: map[string]bool{}, running: map[string]int{}, refuse: map[string]func(){},
		propagation: map[schema.GroupKind]metav1.DeletionPropagation{}, asks: map[string]metav1.DeletionPropagation{},
		aggregated: map[string]bool{},
		served: []*metav1.APIResourceList{resources("v1",
			resource("configmaps", "ConfigMap"), resource("secrets", "Secret"), clusterWide(resource("nodes", "Node")))},
	}
	if prepare != nil {
		prepare(e)
	}
	none := builders.MakeSource()
	handles := map[expire.Kind]*Spec{}
	e.feeds = NewSet(SetOptions{Clock: clock.RealClock{}, Tracker: tracker{e, handles}})
	options := LabelsOptions{
		Feeds: e.feeds,
		Make: func(spec *Spec) (Feed, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.broken[spec.Resource.Resource] {
				return nil, errors.New("broken")
			}
			e.refuse[testName(spec)] = spec.Forbidden
			e.asks[testName(spec)], e.aggregated[testName(spec)] = spec.Propagation, spec.Aggregated
			feed := &planted{cluster: e, name: testName(spec), handle: expire.Kind(len(handles) + 1)}
			handles[feed.handle] = spec
			return feed, nil
		},
		Discover: e.discover, APIServices: e.services, Granter: e,
		Definitions: func() (map[schema.GroupResource]Kind, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			out := map[schema.GroupResource]Kind{}
			for key, kind := range e.custom {
				out[key] = kind
			}
			return out, nil
		},
		Propagation: func(kind schema.GroupKind) (metav1.DeletionPropagation, error) {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.propagation[kind], e.unprofiled
		},
		Identify: func(context.Context) (permission.Identity, error) {
			return permission.Identity{User: "system:serviceaccount:curfew-system:curfew-controller", Groups: []string{"system:serviceaccounts"}}, nil
		},
		RBAC: func(resource string) follow.Source {
			switch resource {
			case "clusterroles":
				return e.roles
			case "rolebindings":
				return e.bindings
			default:
				return none
			}
		},
		Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(),
		Log: funcr.New(func(_, line string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.lines = append(e.lines, line)
		}, funcr.Options{}),
	}
	if change != nil {
		change(&options)
	}
	l := NewLabels(options)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() { _ = l.Run(ctx) })
	group.Go(func() { _ = e.feeds.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		group.Wait()
		if e.doubled {
			t.Error("two feeds of one kind ran at once, or one was forgotten while it ran")
		}
	})
	return e, l
}

func (e *cluster) edit(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
}

func (e *cluster) expect(t *testing.T, want ...string) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	var got []string
	for name := range e.running {
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("watched: %v\nwant:    %v", got, want)
	}
}

// count is how many series a collector has, and value that of the first.
func count(t *testing.T, collector prometheus.Collector) int { return len(series(t, collector)) }

func value(t *testing.T, collector prometheus.Collector) float64 {
	t.Helper()
	all := series(t, collector)
	if len(all) == 0 {
		t.Fatal("no series")
	}
	return all[0]
}

func series(t *testing.T, collector prometheus.Collector) []float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	must(t, registry.Register(collector))
	families, err := registry.Gather()
	must(t, err)
	var out []float64
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			out = append(out, metric.GetGauge().GetValue())
		}
	}
	return out
}

func widgets() (schema.GroupResource, Kind) {
	kind := Kind{GroupVersionKind: schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}, Resource: "widgets"}
	return kind.GroupResource(), kind
}

func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var must = builders.Must
