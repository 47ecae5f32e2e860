package world

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/servertime"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Clients connect to the API server as the user.
type Clients struct {
	Discovery Discovery
	Objects   dynamic.Interface
	Metadata  metadata.Interface
	// ServerTime is the API server's time, at most a second ahead; nil means that it is not known.
	ServerTime func(context.Context) (time.Time, error)
	// As connects as another user. It is nil where that is impossible: the user already
	// impersonates another user, and the API server checks the rights of the user who does so.
	As func(user string) (Clients, error)
}

// NewClients makes them all from one configuration.
func NewClients(config *rest.Config) (Clients, error) {
	var out Clients
	skew := servertime.NewSkew(clock.RealClock{})
	config = rest.CopyConfig(config)
	if original := rest.CopyConfig(config); config.Impersonate.UserName == "" {
		out.As = func(user string) (Clients, error) {
			as := rest.CopyConfig(original)
			as.Impersonate.UserName = user // The API server adds the groups of a service account.
			return NewClients(as)
		}
	}
	config.Wrap(skew.Wrap)
	out.ServerTime = servertime.NewServerTime(skew, func(context.Context) error {
		_, err := out.Discovery.ServerVersion()
		return err
	}).Now
	plain := rest.CopyConfig(config)
	plain.GroupVersion, plain.NegotiatedSerializer = &schema.GroupVersion{}, metascheme.Codecs.WithoutConversion()
	var errs [3]error
	client, err := rest.RESTClientFor(plain)
	out.Discovery, errs[0] = &discoveryClient{client}, err
	out.Objects, errs[1] = dynamic.NewForConfig(config)
	out.Metadata, errs[2] = metadata.NewForConfig(config)
	if err := errors.Join(errs[:]...); err != nil {
		return out, fmt.Errorf("client of the API server: %w", err)
	}
	return out, nil
}

// Options of a world.
type Options struct {
	// Builtin are the built-in profiles.
	Builtin []*v1alpha1.KindProfile
	// Namespace that Curfew runs in.
	Namespace string
	Now       time.Time
	// Policies and Profiles are treated as if they were applied now.
	Policies []*v1alpha1.LifecyclePolicy
	Profiles []*v1alpha1.KindProfile
}

// World is everything that decides about expiry, as far as the user may read it. It is safe for
// concurrent use.
type World struct {
	// Controller is how Curfew's controller runs.
	Controller Controller
	// Pauses of deletions and stops.
	Pauses Pauses

	clients  Clients
	options  Options
	platform *platform.Snapshot
	// discover asks once which kinds are served.
	discover func() (discovered, error)

	mu    sync.Mutex
	notes []string
	// lacks are permissions that a full answer takes, such as "get namespaces/foo".
	lacks []string

	namespaces answers[*resolution.NamespacePolicy]
	runtimes   answers[map[string]any]
	counters   answers[*resolution.PodCounter]
	access     answers[permission]
	updates    answers[rules.Answer] // of LifecyclePolicies, by name
	pauses     answers[[]judging.Obstacle]
	histories  answers[map[types.NamespacedName]string]
	blockedBy  answers[map[types.UID]judging.Obstacle] // by namespace: see blockedIn
	fates      answers[fate]                           // of owners and Namespaces
	ownersRead atomic.Int64
	// unfed are kinds whose finished objects the controller does not look for, despite their
	// profile.
	unfed map[schema.GroupKind]bool
	// noReviews: the user may not ask what others may do.
	noReviews atomic.Bool
}

// Open reads what applies to all objects. A missing permission is a note, not an error.
func Open(ctx context.Context, clients Clients, options Options) (*World, error) {
	w := &World{clients: clients, options: options, unfed: map[schema.GroupKind]bool{}}
	w.discover = sync.OnceValues(w.askDiscovery)
	for _, read := range []func(context.Context) error{w.readController, w.readLiveness, w.readPauses, w.readPlatform} {
		if err := read(ctx); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// ServerTime is the API server's time, or the local one where that is not known.
func (w *World) ServerTime(ctx context.Context, local time.Time) time.Time {
	if w.clients.ServerTime != nil {
		if at, err := w.clients.ServerTime(ctx); err == nil {
			return at.In(local.Location())
		}
	}
	return local
}

// Platform has the profiles and policies.
func (w *World) Platform() *platform.Snapshot { return w.platform }

// Note keeps a note for the user, once.
func (w *World) Note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.notes, text) {
		w.notes = append(w.notes, text)
	}
}

func (w *World) note(format string, values ...any) { w.Note(fmt.Sprintf(format, values...)) }

// lack keeps a permission that the user lacks for the one note about all of them.
func (w *World) lack(format string, values ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := fmt.Sprintf(format, values...); !slices.Contains(w.lacks, text) {
		w.lacks = append(w.lacks, text)
	}
}

// lacksShown is how many permissions the note names.
const lacksShown = 2

// Notes say what could not be read, and what that means for the answer.
func (w *World) Notes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lacks) == 0 {
		return slices.Clone(w.notes)
	}
	named := slices.Sorted(slices.Values(w.lacks))
	if more := len(named) - lacksShown; more > 0 {
		named = append(named[:lacksShown], fmt.Sprintf("%d more", more))
	}
	permits := "component tenant-view permits it"
	if slices.ContainsFunc(w.lacks, func(lack string) bool { return strings.HasPrefix(lack, "get namespaces/") }) {
		permits = "component tenant-view and role view permit it"
	}
	note := "you may not " + strings.Join(named, ", ") + ": what they say is not known; " + permits
	return append([]string{note}, w.notes...)
}

// readPlatform reads profiles and policies, and adds those that are treated as if they were
// applied.
func (w *World) readPlatform(ctx context.Context) error {
	builtin := w.options.Builtin
	if w.Controller.NoBuiltinProfiles {
		builtin = profiles.Typed(builtin)
	}
	known, err := platform.New(builtin)
	if err != nil {
		return err
	}
	taughtHere, err := readAll[v1alpha1.KindProfile](ctx, w, v1alpha1.KindProfiles)
	if err != nil {
		return err
	}
	for _, object := range taughtHere {
		if errs := known.SetProfile(object); len(errs) > 0 {
			w.note("KindProfile %s cannot be used: %s", object.Name, errs.ToAggregate())
		}
	}
	for _, object := range w.options.Profiles {
		if errs := known.SetProfile(object); len(errs) > 0 {
			return fmt.Errorf("KindProfile %s cannot be used: %w", object.Name, errs.ToAggregate())
		}
	}
	policies, err := readAll[v1alpha1.LifecyclePolicy](ctx, w, v1alpha1.LifecyclePolicies)
	if err != nil {
		return err
	}
	for _, object := range policies {
		if errs := known.SetPolicy(object); len(errs) > 0 {
			w.note("LifecyclePolicy %s cannot be used: %s", object.Name, errs.ToAggregate())
		}
	}
	for _, object := range w.options.Policies {
		// The controller would stamp it like this: the defaults apply to objects that are created
		// from now on.
		object = object.DeepCopy()
		object.Status.Defaults = expression.StampPolicy(object, w.options.Now)
		if errs := known.SetPolicy(object); len(errs) > 0 {
			return fmt.Errorf("LifecyclePolicy %s cannot be used: %w", object.Name, errs.ToAggregate())
		}
	}
	w.platform = known.Snapshot()
	taught := map[schema.GroupKind]bool{}
	for _, object := range slices.Concat(taughtHere, w.options.Profiles) {
		kind := schema.GroupKind{Group: object.Spec.Kind.Group, Kind: object.Spec.Kind.Kind}
		if taught[kind] = true; object.Spec.State != nil && !custom(kind.Group) && !policy.HasOwnCode(kind) {
			w.undefined(kind)
		}
	}
	return w.readDefinitions(ctx, known, taught)
}

// undefined notes a kind whose finished objects the controller does not look for, whatever its
// KindProfile says. Without a CustomResourceDefinition it does so for Jobs and Pods only.
func (w *World) undefined(kind schema.GroupKind) {
	w.unfed[kind] = true
	w.note("the finish time in the KindProfile of %s has no effect: no CustomResourceDefinition defines the kind", kind)
}

// readAll reads all objects of one of Curfew's kinds. There are none where Curfew is not installed.
func readAll[T any](ctx context.Context, w *World, resource string) ([]*T, error) {
	var out []*T
	at := v1alpha1.GroupVersion.WithResource(resource)
	err := pages(ctx, w.lister(at, metav1.NamespaceAll), metav1.ListOptions{}, func(item runtime.Object) error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
		if err != nil {
			return err
		}
		object := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, object); err != nil {
			u := unstructured.Unstructured{Object: content}
			return fmt.Errorf("%s %s has a form that this version does not know: %w", u.GetKind(), u.GetName(), err)
		}
		out = append(out, object)
		return nil
	})
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		w.lack("list %s.%s", resource, v1alpha1.GroupVersion.Group)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing %s: %w", resource, err)
	}
	return out, nil
}

var definitionResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// readDefinitions adapts the profiles to the installed versions of their kinds. Without the
// permission they apply as written, which differs for a few kinds in old versions only.
func (w *World) readDefinitions(ctx context.Context, known *platform.Store, taught map[schema.GroupKind]bool) error {
	served, err := w.served()
	if err != nil {
		return err
	}
	for _, profile := range w.platform.Profiles {
		at := schema.GroupResource{Group: profile.Kind.Group, Resource: profile.Resource}
		if _, ok := served[at]; !ok || profile.State == nil || !custom(profile.Kind.Group) {
			continue
		}
		object, err := w.clients.Objects.Resource(definitionResource).Get(ctx, at.String(), metav1.GetOptions{})
		if apierrors.IsForbidden(err) {
			return nil
		}
		if apierrors.IsNotFound(err) {
			if taught[profile.Kind.GroupKind()] {
				w.undefined(profile.Kind.GroupKind())
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", at, err)
		}
		definition := expression.DefinitionOf(object.Object)
		known.SetDefinition(object.GetName(), &definition)
		compiled := w.platform.Compiled(profile.Kind.GroupKind())
		if compiled == nil {
			continue
		}
		if _, ok := definition.Serves(compiled); !ok {
			w.unfed[profile.Kind.GroupKind()] = true
			w.note("%s is not served in the version or scope of profile %s: no TTL after finished applies to it", at, profile.Name)
		}
	}
	w.platform = known.Snapshot()
	return nil
}

// custom reports whether the kinds of a group have CustomResourceDefinitions.
func custom(group string) bool { return group != "" && group != "batch" && group != "apps" }
