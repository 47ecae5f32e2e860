package feed

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
)

// What a test's source reads: Get from a cache, Read live.
type (
	namespaceReader interface {
		Get(ctx context.Context, name string) (*resolution.NamespacePolicy, error)
		Read(ctx context.Context, name string) (*resolution.NamespacePolicy, error)
	}
	policyReader interface {
		Get(ctx context.Context, kind schema.GroupKind) ([]*expression.Policy, error)
		Read(ctx context.Context, kind schema.GroupKind) ([]*expression.Policy, error)
		Failed(object string, errs []error)
	}
	runtimeReader interface {
		Get(ctx context.Context, reference *expression.Reference) (map[string]any, error)
		Read(ctx context.Context, reference *expression.Reference) (map[string]any, error)
	}
)

// reads is a platform.Source over fakes. Without policies and runtimes there are none.
type reads struct {
	namespaces namespaceReader
	policies   policyReader
	runtimes   runtimeReader
	counters   func(pod *policy.Facts, live bool) (*resolution.PodCounter, error)
	// profile is the one of the kind, apart from what the feed has; nil for none.
	profile func() *expression.Profile
	// kueue is platform.Snapshot.NoMultiKueue, of the cache or live; nil where that is never known.
	kueue func(live bool) (bool, error)
	live  bool
}

// over has a feed read these, from the cache and live.
func over(o *Options, change func(*reads)) {
	cached := &reads{}
	if before, ok := o.Cached.(*reads); ok {
		*cached = *before
	}
	change(cached)
	live := *cached
	live.live = true
	o.Cached, o.Live = cached, follow.Share(&live)
	if cached.policies != nil {
		o.Failed = cached.policies.Failed
	}
}

func (r *reads) Snapshot(ctx context.Context) (*platform.Snapshot, error) {
	var profiles []*expression.Profile
	if r.profile != nil {
		profiles = append(profiles, r.profile())
	}
	out := platform.SnapshotOf(profiles, nil)
	if r.kueue != nil {
		out.NoMultiKueue = func(context.Context) (bool, error) { return r.kueue(r.live) }
	}
	if r.policies == nil {
		return out, nil
	}
	read := r.policies.Get
	if r.live {
		read = r.policies.Read
	}
	policies, err := read(ctx, schema.GroupKind{})
	return out.WithPolicies(policies), err
}

func (r *reads) Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error) {
	if r.live {
		return r.namespaces.Read(ctx, name)
	}
	return r.namespaces.Get(ctx, name)
}

func (r *reads) Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error) {
	switch {
	case r.runtimes == nil:
		return nil, fmt.Errorf("runtimes cannot be read: this is a bug")
	case r.live:
		return r.runtimes.Read(ctx, reference)
	default:
		return r.runtimes.Get(ctx, reference)
	}
}

// PodCounter implements [platform.Source].
func (r *reads) PodCounter(_ context.Context, pod *policy.Facts) (*resolution.PodCounter, error) {
	if r.counters == nil {
		return nil, platform.ErrUnknown
	}
	return r.counters(pod, r.live)
}

var configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
