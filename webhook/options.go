package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/metadata"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/tally"
)

// The paths that the webhook configurations name.
const (
	PathMutate            = "/mutate"
	PathValidate          = "/validate"
	PathMutateNamespace   = "/mutate-namespace"
	PathValidateNamespace = "/validate-namespace"
	PathValidatePolicy    = "/validate-policy"
)

// Clock tells the time. One request reads it once.
type Clock interface {
	Now() time.Time
}

// Options configure the webhooks.
type Options struct {
	// CleanupInterval is the shortest time between two runs of a cleanup policy.
	CleanupInterval time.Duration
	// CleanupPolicies lists CleanupPolicies, and CleanupMaxPolicies is how many of a namespace are
	// admitted. With nil they are not counted.
	CleanupPolicies    metadata.Interface
	CleanupMaxPolicies int
	// Platform holds the profiles and policies.
	Platform *platform.Store
	// Ready returns why Platform does not hold all of them yet: requests are then left to the failure
	// policy. Nil means that it does.
	Ready func() error
	// Runtimes reads the runtimes that objects use; nil means that none is read.
	Runtimes RuntimeGetter
	// Objects reads objects that use a runtime, to count them; nil means that they are not counted.
	Objects ObjectLister
	// Owners reads the owners of objects that a controller creates and a rule denies, and the Pods that
	// Bindings change. Nil means that none is read: such objects are admitted, and Bindings are not
	// reviewed.
	Owners OwnerReader
	// ControllerAccounts is --controller-accounts: controllers besides those that profiles name.
	ControllerAccounts []string
	// Namespaces reads the settings of namespaces.
	Namespaces NamespaceGetter
	// Tallies reads the PodTallies; nil means that trigger tally is off.
	Tallies TallyGetter
	// Clock tells the time.
	Clock Clock
	// ServerTime is the API server's time, by which Namespaces are stamped. An error means that it is
	// unknown: the stamp is then left to the controller. Nil means Clock.
	ServerTime func(context.Context) (time.Time, error)
	// Registerer takes the metrics.
	Registerer prometheus.Registerer
	// WarnBelow is the TTL under which authors are warned; zero means [rules.DefaultWarnBelow].
	WarnBelow time.Duration
	// AnnotationsOnly is --native-ttl=off: defaults become annotations, so that only Curfew deletes.
	AnnotationsOnly bool
	// Access reports whether the user who sets a TTL, and the controller, may delete the object; nil
	// means that this is not checked.
	Access AccessReviewer
	// ControllerUser is the controller's user name, such as
	// system:serviceaccount:curfew-system:curfew-controller.
	ControllerUser string
	// CleanupUser is the user as whom ClusterCleanupPolicies without a service account delete.
	CleanupUser string
	// RequireDelete is --require-delete: only users who may delete an object may set its TTL.
	RequireDelete bool
	// StrictLabels is --strict-labels: an unreadable TTL label is denied.
	StrictLabels bool
	// WarnExpired is --expired-labels=warn: a TTL label that is expired when it is set is warned
	// about instead of denied.
	WarnExpired bool
	// KyvernoLabel is --kyverno-label: label cleanup.kyverno.io/ttl is judged as curfew.dev/ttl is.
	KyvernoLabel bool
	// Controller has the settings of the controller: the namespaces that it protects, and --dry-run.
	Controller judging.Surroundings
	// Memory is the process's memory limit in bytes. Reviews share a part of it. Zero means
	// [DefaultMemory].
	Memory int64
	// Logger is used for errors inside Curfew; the zero value means controller-runtime's.
	Logger logr.Logger
}

// OwnerReader reads the objects that references name, such as the controller owners of others.
type OwnerReader interface {
	// Read asks the API server. Nil without an error means that the object is gone, or that another
	// one has its name.
	Read(ctx context.Context, namespace string, owner *metav1.OwnerReference) (map[string]any, error)
}

// AccessReviewer reports whether a user may use what.Verb on an object; delete if it is empty.
type AccessReviewer interface {
	May(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error)
}

// RuntimeGetter reads the runtimes that objects refer to.
type RuntimeGetter interface {
	// Runtime returns nil if there is no such runtime, or if its kind is not served.
	Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error)
}

// ObjectLister reads objects from the API server.
type ObjectLister interface {
	// Each calls f for objects of a resource, in one namespace or, with "", in all. It bounds how many
	// it reads, and reports whether there are more.
	Each(ctx context.Context, resource schema.GroupVersionResource, namespace string, f func(object map[string]any)) (more bool, err error)
}

// TallyGetter reads the PodTallies.
type TallyGetter interface {
	// In returns the PodTallies of a namespace, from a cache. It is an error until all are known.
	In(namespace string) ([]*tally.Tally, error)
}

// NamespaceGetter reads the settings of a namespace.
type NamespaceGetter interface {
	// Namespace may answer from a cache. It reads a namespace live that the cache lacks.
	Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error)
	// LiveNamespace asks the API server.
	LiveNamespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error)
}

// NamespaceLister may be implemented by a [NamespaceGetter] as well.
type NamespaceLister interface {
	// Bounded are the namespaces with bounds, from a cache.
	Bounded() []*resolution.NamespacePolicy
}

// Webhooks are the admission endpoints.
type Webhooks struct {
	source   *source
	compiler *expression.Compiler
	settings Options
	counting sync.Mutex
	// ownerReads and podReads are the reads of owners, and of the Pods of Bindings, that may be under
	// way.
	ownerReads, podReads *semaphore.Weighted
	metrics              *metrics
	log                  logr.Logger
	options              rules.Options
	load                 *load
	// compiling is for reviews that compile expressions: as many as are compiled at once.
	compiling *semaphore.Weighted
	// inherited are denied values that owners had, so that a rollout of a thousand Pods reads its
	// ReplicaSet a few times. Only values that let an object pass are kept.
	inherited *cache.LRUExpireCache
	// evaluating is how long the policies for one object may take.
	evaluating  time.Duration
	policyLimit *policyLimit // nil: there is none
}

// maxReads bounds the owners that are read at the same time, and the Pods. Each may have megabytes,
// and anyone who reaches the port without a client certificate can post reviews.
const maxReads = 4
