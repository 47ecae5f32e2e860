package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/watch"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/wellknown"
)

// Runtimes follows the training runtimes and the other objects that workloads refer to, for the
// kinds that are served.
type Runtimes struct {
	source func(resource schema.GroupVersionResource) Source
	client dynamic.Interface
	store  *platform.Store
	clock  clock.Clock
	log    logr.Logger

	stamper  runtimeStamper
	mu       sync.Mutex
	followed map[schema.GroupVersionResource]*followedRuntimes
	group    sync.WaitGroup
	changed  []func(resource schema.GroupVersionResource, namespace string)
}

type followedRuntimes struct {
	mirror *Mirror[map[string]any]
	fields readFields // that are in the mirror
	cancel context.CancelFunc
}

// maxObject is how large an object may be of which some fields are read, and maxWhole one that is
// read whole: decoded, it takes up to fifty times as much.
const maxObject, maxWhole = 2 << 20, 256 << 10

// readFields are the paths of all fields that are read of objects.
type readFields []fieldpath.FieldPath

// runtimeFields are the fields that judgements read of runtimes: these, and much of the metadata.
// Tenants write runtimes of megabytes, and every replica follows them all (S9).
func runtimeFields(paths []fieldpath.FieldPath) readFields {
	out := readFields{{"apiVersion"}, {"kind"}}
	for _, name := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"} {
		out = append(out, fieldpath.FieldPath{"metadata", name})
	}
	for _, key := range wellknown.ObjectKeys {
		out = append(out, fieldpath.FieldPath{"metadata", "annotations", key})
	}
	out = append(out, paths...)
	slices.SortFunc(out, func(a, b fieldpath.FieldPath) int { return len(a) - len(b) })
	return out
}

func (f readFields) has(path []string) bool {
	return slices.ContainsFunc(f, func(field fieldpath.FieldPath) bool { return slices.Equal(field, fieldpath.FieldPath(path)) })
}

func (f readFields) covers(paths []fieldpath.FieldPath) bool {
	return !slices.ContainsFunc(paths, func(path fieldpath.FieldPath) bool { return !f.has(path) })
}

// pick does for an object of a watch what [watch.Fields] does for those of a list. The fields begin
// with the shortest.
func (f readFields) pick(object map[string]any) map[string]any {
	out := map[string]any{}
	for _, field := range f {
		value, ok := field.Get(object)
		if !ok {
			continue
		}
		switch value.(type) {
		case map[string]any:
			value = map[string]any{}
		case []any:
			value = []any{}
		}
		_ = unstructured.SetNestedField(out, value, field...) // It fails only where object has no such field.
	}
	return out
}

// fewFields lists runtimes without the other fields.
type fewFields struct {
	Source
	readFields
}

// List implements [Source].
func (s fewFields) List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	return s.Source.List(watch.Fields(ctx, s.has), options)
}

func newRuntimes(options Options, store *platform.Store) *Runtimes {
	return &Runtimes{
		source: options.Source, client: options.Client, store: store, clock: options.Clock, log: options.Log.WithName("runtimes"),
		followed: map[schema.GroupVersionResource]*followedRuntimes{},
	}
}

// OnChange registers a function that is called when a runtime comes, changes or goes; namespace is
// "" for one that is cluster-scoped. Call it before the follower starts.
func (r *Runtimes) OnChange(f func(resource schema.GroupVersionResource, namespace string)) {
	r.changed = append(r.changed, f)
}

// Runtime reads a runtime from the cache, and live if the cache lacks it or a field of it. Nil means
// that there is none.
func (r *Runtimes) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	key := reference.Name
	if reference.Namespace != "" {
		key = reference.Namespace + "/" + reference.Name
	}
	r.mu.Lock()
	runtimes := r.followed[resourceOf(reference)]
	r.mu.Unlock()
	if runtimes != nil && !reference.Whole && runtimes.fields.covers(reference.Fields) {
		if known, ok := runtimes.mirror.Get(key); ok {
			return known, nil
		}
	}
	return r.LiveRuntime(ctx, reference)
}

// LiveRuntime asks the API server. Nil means that there is none. One that is too large is an error.
func (r *Runtimes) LiveRuntime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	if reference.Whole {
		ctx = watch.Bound(ctx, maxWhole)
	} else {
		ctx = watch.Bound(watch.Fields(ctx, runtimeFields(reference.Fields).has), maxObject)
	}
	read, err := r.client.Resource(resourceOf(reference)).Namespace(reference.Namespace).Get(ctx, reference.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return read.Object, nil
}

func resourceOf(reference *expression.Reference) schema.GroupVersionResource {
	return reference.Kind.GroupVersion().WithResource(reference.Resource)
}

// sets reports whether some runtime has a deadline or a TTL, as far as the runtimes are known.
func (r *Runtimes) sets(rt *expression.Runtime) (says, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known = true
	for _, resource := range rt.Resources() {
		followed := r.followed[resource]
		if followed == nil || !followed.fields.covers(rt.Paths()) {
			known = false
			continue
		}
		all, err := followed.mirror.All()
		known = known && err == nil
		for _, runtime := range all {
			says = says || rt.Sets(runtime)
		}
	}
	return says, known
}

// follow starts to follow the runtimes of the served kinds, and stops with runtimes that no kind
// uses any more.
func (r *Runtimes) follow(ctx context.Context, snapshot *platform.Snapshot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted, paths := map[schema.GroupVersionResource]bool{}, []fieldpath.FieldPath(nil)
	for profile := range snapshot.Installed() {
		if profile.Runtime == nil {
			continue
		}
		for _, resource := range profile.Runtime.Resources() {
			wanted[resource] = true
		}
		paths = append(paths, profile.Runtime.Paths()...)
		for _, kind := range profile.Runtime.Kinds() {
			paths = append(paths, snapshot.Profiles.For(kind).RuntimeTTLs...)
		}
	}
	fields := runtimeFields(paths)
	for resource, runtimes := range r.followed {
		if !wanted[resource] || !runtimes.fields.covers(fields) {
			runtimes.cancel()
			delete(r.followed, resource)
		}
	}
	for resource := range wanted {
		if runtimes := r.followed[resource]; runtimes != nil {
			runtimes.mirror.Wake()
			r.stampAll(resource, runtimes)
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		source := fewFields{r.source(resource), fields}
		added := &followedRuntimes{cancel: cancel, fields: fields, mirror: NewMirror(source, func(object *unstructured.Unstructured) map[string]any {
			return fields.pick(object.Object)
		}, r.clock, r.log.WithValues("resource", resource.GroupResource().String()))}
		added.mirror.Unserved = unserved(r.source(definitionResource), resource)
		added.mirror.OnChange(r.changedOf(resource))
		r.followed[resource] = added
		r.group.Go(func() { added.mirror.Run(ctx) })
	}
}

// changedOf stamps the runtimes of a kind that change, and notifies all who registered.
func (r *Runtimes) changedOf(resource schema.GroupVersionResource) func(key string, old, new *map[string]any) {
	return func(key string, _, new *map[string]any) {
		if new != nil {
			r.stamper.stampLater(resource, key)
		} else { // A standby stamps none, and hears of runtimes for as long as it stands by.
			r.stamper.stampNever(resource, key)
		}
		namespace, _, namespaced := strings.Cut(key, "/")
		if !namespaced {
			namespace = ""
		}
		for _, f := range r.changed {
			f(resource, namespace)
		}
	}
}

// Objects reads some objects of any kind, and keeps no more than one at a time (S9).
type Objects struct{ client rest.Interface }

const (
	// maxEach bounds the objects that one list reads, and eachBytes their size.
	maxEach   = 500
	eachBytes = 16 << 20
)

// NewObjects makes a reader with the credentials of a config.
func NewObjects(config *rest.Config) (*Objects, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return &Objects{client}, nil
}

// Each calls f for objects of a resource, in one namespace or, with "", in all. It reports whether
// there are more than it read. After an error, f may have been called for some.
func (o *Objects) Each(
	ctx context.Context, resource schema.GroupVersionResource, namespace string, f func(object map[string]any),
) (more bool, err error) {
	path := []string{"/apis", resource.Group, resource.Version}
	if resource.Group == "" {
		path = []string{"/api", resource.Version}
	}
	request := o.client.Get().AbsPath(path...).NamespaceIfScoped(namespace, namespace != "").Resource(resource.Resource)
	body, err := request.Param("limit", strconv.Itoa(maxEach)).SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		return false, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	defer func() { _ = body.Close() }()
	more, err = eachOf(io.LimitReader(body, eachBytes), f)
	if err != nil {
		return false, fmt.Errorf("listing %s: %w", resource.GroupResource(), err)
	}
	return more, nil
}

// eachOf reads a list in JSON, one item after the other.
func eachOf(from io.Reader, f func(object map[string]any)) (more bool, err error) {
	list := json.NewDecoder(from)
	if _, err := list.Token(); err != nil {
		return false, err
	}
	for list.More() {
		name, err := list.Token()
		if err != nil {
			return more, err
		}
		switch name {
		case "items":
			err = items(list, f)
		case "metadata":
			var metadata struct{ Continue string }
			err = list.Decode(&metadata)
			more = metadata.Continue != ""
		default:
			err = list.Decode(&json.RawMessage{})
		}
		if err != nil {
			return more, err
		}
	}
	return more, nil
}

func items(list *json.Decoder, f func(object map[string]any)) error {
	if begin, err := list.Token(); err != nil || begin != json.Delim('[') {
		return errors.Join(err, errors.New("items is not a list"))
	}
	for list.More() {
		var text json.RawMessage
		if err := list.Decode(&text); err != nil {
			return err
		}
		object := map[string]any{}
		if err := utiljson.Unmarshal(text, &object); err != nil {
			return err
		}
		f(object)
	}
	_, err := list.Token()
	return err
}
