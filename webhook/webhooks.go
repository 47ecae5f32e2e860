package webhook

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/webhook/wire"
)

// New checks the options, registers the metrics and returns the webhooks.
func New(options Options) (*Webhooks, error) {
	if err := options.validate(); err != nil {
		return nil, err
	}
	metrics, err := newMetrics(options.Registerer)
	if err != nil {
		return nil, err
	}
	log := options.Logger
	if log.GetSink() == nil {
		log = logf.Log.WithName("webhook")
	}
	return &Webhooks{
		source:     &source{store: options.Platform, namespaces: options.Namespaces, runtimes: options.Runtimes, tallies: options.Tallies},
		compiler:   expression.NewCompiler(expression.DefaultCacheSize),
		settings:   options,
		ownerReads: semaphore.NewWeighted(maxReads),
		podReads:   semaphore.NewWeighted(maxReads),
		inherited:  cache.NewLRUExpireCacheWithClock(maxAnswers, options.Clock),
		metrics:    metrics,
		log:        log,
		options: rules.Options{
			WarnBelow: options.WarnBelow, RequireDelete: options.RequireDelete, StrictLabels: options.StrictLabels,
			WarnExpiredLabels: options.WarnExpired, KyvernoLabel: options.KyvernoLabel,
			Controller: options.Controller, ControllerUser: options.ControllerUser, ControllerAccounts: options.ControllerAccounts,
		},
		evaluating:  defaultEvaluating,
		load:        newLoad(options.MaxReview, options.Memory),
		policyLimit: newPolicyLimit(options.CleanupPolicies, options.CleanupMaxPolicies, options.Clock),
	}, nil
}

// Profiles returns the profiles by which the webhooks judge at this moment.
func (w *Webhooks) Profiles() policy.Profiles { return w.source.store.Snapshot().Profiles }

// Register passes each endpoint to a server's function. They count and measure themselves.
func (w *Webhooks) Register(handle func(path string, handler http.Handler)) {
	for path, review := range w.endpoints() {
		handle(path, w.handler(path, review))
	}
}

func (w *Webhooks) endpoints() map[string]reviewFunc {
	return map[string]reviewFunc{
		PathMutate:            w.mutate,
		PathValidate:          w.validate,
		PathMutateNamespace:   w.mutateNamespace,
		PathValidateNamespace: w.validateNamespace,
		PathValidatePolicy:    w.validatePolicy,
	}
}

func (w *Webhooks) handler(path string, review reviewFunc) *handler {
	return &handler{webhooks: w, name: path[1:], review: review}
}

// reviewFunc answers one decoded request at the instant now.
type reviewFunc func(ctx context.Context, request *request, now time.Time) answer

// handler does the work that all endpoints share: it reads the clock, decodes, recovers, counts and
// logs errors.
type handler struct {
	webhooks *Webhooks
	// name of the endpoint in metrics.
	name   string
	review reviewFunc
}

// handle answers a review.
func (h *handler) handle(ctx context.Context, review *wire.Review) answer {
	start := h.webhooks.settings.Clock.Now()
	out := h.answer(ctx, review, start)
	out.response.UID = types.UID(review.UID)
	if out.err != nil {
		h.webhooks.log.Error(out.err, "request could not be reviewed", "webhook", h.name, "operation", review.Operation,
			"kind", kindOf(review).String(), "object", klog.KRef(review.Namespace, review.Name), "requestID", review.UID)
	}
	h.webhooks.metrics.reviewed(h.name, h.kindLabel(review), review.Operation, out.outcome, h.webhooks.settings.Clock.Now().Sub(start))
	return out
}

// answer turns a panic into an error, which neither denies the request nor ends the process (S8).
func (h *handler) answer(ctx context.Context, review *wire.Review, now time.Time) (out answer) {
	defer func() {
		if reason := recover(); reason != nil {
			out = failed("curfew failed while it reviewed the request", fmt.Errorf("panic: %v\n%s", reason, debug.Stack()))
		}
	}()
	if !h.webhooks.reaches(review) {
		return untouched()
	}
	ctx, end := h.webhooks.limited(ctx)
	defer end()
	request, err := h.webhooks.decode(ctx, review)
	if err != nil {
		return invalid(err)
	}
	if !request.reviewed() {
		return untouched()
	}
	return h.review(ctx, request, now)
}

// reaches reports whether a request is about one of the namespaces that the webhooks work in. The
// configuration of an administrator may send others.
func (w *Webhooks) reaches(review *wire.Review) bool {
	namespace := review.Namespace
	if kindOf(review).GroupKind() == namespaceKind.GroupKind() {
		namespace = review.Name
	}
	return len(w.settings.Only) == 0 || slices.Contains(w.settings.Only, namespace)
}

// kindLabel bounds the metric: anyone who reaches the port can make up kinds.
func (h *handler) kindLabel(review *wire.Review) schema.GroupKind {
	kind := kindOf(review)
	if _, ok := h.webhooks.Profiles()[kind.GroupKind()]; ok || kind.GroupKind() == namespaceKind.GroupKind() ||
		kind.Group == v1alpha1.GroupVersion.Group && h.webhooks.compiles(kind.Kind) {
		return kind.GroupKind()
	}
	return otherKind
}

// decode reads the objects of a request. Only CREATE and UPDATE are reviewed; other operations have
// no facts.
func (w *Webhooks) decode(ctx context.Context, review *wire.Review) (*request, error) {
	out := &request{
		review:    review,
		operation: admissionv1.Operation(review.Operation),
		user:      rules.User{Name: review.Username},
		kind:      kindOf(review),
		resource:  review.Resource,
	}
	if !out.reviewed() {
		return out, nil
	}
	profile := w.Profiles().For(out.kind)
	if profile.Unknown { // It is made for this request alone.
		profile.Resource = out.resource.Resource
	}
	var err error
	if out.object, out.facts, err = out.read(ctx, profile, "request.object", &review.Object); err != nil {
		return nil, err
	}
	if out.operation == admissionv1.Update {
		out.old, out.oldFacts, err = out.read(ctx, profile, "request.oldObject", &review.Old)
	}
	return out, err
}

// The methods below let webhook/api answer as admission would.

// Source returns the state of the cluster that the webhooks judge by.
func (w *Webhooks) Source() platform.Source { return w.source }

// Busy reports whether a large review is under way. The HTTP API then refuses requests.
func (w *Webhooks) Busy() bool { return w.load.large.Load() > 0 }

// RuleOptions returns the settings of the rules.
func (w *Webhooks) RuleOptions() rules.Options { return w.options }

// Access reports whether a user who would make the request, and the controller, may delete the
// object. The cluster is not asked if the rules do not need it, nor about deleting if the profile
// does not name the resource.
func (w *Webhooks) Access(ctx context.Context, user authenticationv1.UserInfo, review *rules.Request) (rules.Access, error) {
	profile, who := review.Facts.Profile, func() (authenticationv1.UserInfo, error) { return user, nil }
	if profile.Resource == "" {
		return rules.Access{Policies: w.mayUpdate(ctx, rules.ProtectionDeniedBy(review), who)}, nil
	}
	resource := metav1.GroupVersionResource{Group: profile.Kind.Group, Version: profile.Kind.Version, Resource: profile.Resource}
	return w.access(ctx, review, resource, who)
}
