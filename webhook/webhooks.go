package webhook

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/rules"
	"curfew.dev/curfew/policy/v1alpha1"
)

// New registers the metrics and returns the webhooks.
func New(options Options) (*Webhooks, error) {
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
		compiling:   semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)/2))),
		load:        newLoad(options.Memory, metrics, log),
		policyLimit: newPolicyLimit(options.CleanupPolicies, options.CleanupMaxPolicies, options.Clock),
	}, nil
}

// Profiles returns the profiles by which the webhooks judge at this moment.
func (w *Webhooks) Profiles() policy.Profiles { return w.source.store.Snapshot().Profiles }

// answer decides about a decoded request at an instant.
type answer func(context.Context, *request, time.Time) admission.Response

// Register passes each endpoint to a server's function.
func (w *Webhooks) Register(handle func(path string, handler http.Handler)) {
	for path, answer := range map[string]answer{
		PathMutate:            w.mutate,
		PathValidate:          w.validate,
		PathMutateNamespace:   w.mutateNamespace,
		PathValidateNamespace: w.validateNamespace,
		PathValidatePolicy:    w.validatePolicy,
	} {
		handle(path, w.load.limited(path[1:], w.guarded(path[1:], answer)))
	}
}

// handle decodes a request, and has it answered at one instant unless it cannot concern Curfew.
func (w *Webhooks) handle(ctx context.Context, review *admission.Request, answer answer) admission.Response {
	if w.settings.Ready != nil {
		if err := w.settings.Ready(); err != nil {
			return w.failed(review, "curfew has just started, and does not know all policies yet", err)
		}
	}
	now := w.settings.Clock.Now()
	ctx, end := w.limited(ctx)
	defer end()
	request, err := w.decode(ctx, review)
	switch {
	case errors.Is(err, errUndecoded):
		return unread(err)
	case err != nil:
		return invalid(err)
	}
	if !request.reviewed() {
		return untouched()
	}
	return answer(ctx, request, now)
}

// kindLabel bounds the metric: anyone who reaches the port can make up kinds.
func (w *Webhooks) kindLabel(review *admission.Request) schema.GroupKind {
	kind := kindOf(review)
	if _, ok := w.Profiles()[kind.GroupKind()]; ok || kind.GroupKind() == namespaceKind.GroupKind() ||
		kind.Group == v1alpha1.GroupVersion.Group && w.compiles(kind.Kind) {
		return kind.GroupKind()
	}
	return otherKind
}

// decode reads the objects of a request. Only CREATE and UPDATE are reviewed; other operations have
// no facts.
func (w *Webhooks) decode(ctx context.Context, review *admission.Request) (*request, error) {
	out := &request{
		review:    review,
		operation: review.Operation,
		user:      rules.User{Name: review.UserInfo.Username},
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
	if out.object, out.facts, err = out.read(ctx, profile, "request.object", review.Object.Raw); err != nil {
		return nil, err
	}
	if out.operation == admissionv1.Update {
		out.old, out.oldFacts, err = out.read(ctx, profile, "request.oldObject", review.OldObject.Raw)
	}
	return out, err
}

// The methods below let webhook/api answer as admission would.

// Source returns the state of the cluster that the webhooks judge by.
func (w *Webhooks) Source() platform.Source { return w.source }

// Busy reports whether reviews take most of their memory. The HTTP API then refuses requests.
func (w *Webhooks) Busy() bool { return w.load.busy() }

// RuleOptions returns the settings of the rules.
func (w *Webhooks) RuleOptions() rules.Options { return w.options }

// Access reports whether a user who would make the request, and the controller, may delete the
// object. The cluster is not asked if the rules do not need it, nor about deleting if the profile
// does not name the resource.
func (w *Webhooks) Access(ctx context.Context, user authenticationv1.UserInfo, review *rules.Request) (rules.Access, error) {
	profile := review.Facts.Profile
	if profile.Resource == "" {
		return rules.Access{Policies: w.mayUpdate(ctx, rules.ProtectionDeniedBy(review), user)}, nil
	}
	resource := metav1.GroupVersionResource{Group: profile.Kind.Group, Version: profile.Kind.Version, Resource: profile.Resource}
	return w.access(ctx, review, resource, user)
}
