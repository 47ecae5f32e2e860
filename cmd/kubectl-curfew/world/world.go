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

	metascheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/servertime"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/platform"
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
	// impersonates somebody, and who may do what is decided for the one who does so.
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
	// Pauses are those of deletions and stops.
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

	namespaces answers[*policy.NamespacePolicy]
	runtimes   answers[map[string]any]
	counters   answers[*policy.PodCounter]
	access     answers[permission]
	updates    answers[rules.Answer] // of LifecyclePolicies, by name
	pauses     answers[[]policy.Obstacle]
	histories  answers[map[types.NamespacedName]string]
	blockedBy  answers[map[types.UID]policy.Obstacle] // by namespace: see blockedIn
	fates      answers[fate]                          // of owners and Namespaces
	ownersRead atomic.Int64
	// unfed are kinds of which the controller does not look for finished objects, despite their
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

// lacksShown is how many of them the note names.
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
