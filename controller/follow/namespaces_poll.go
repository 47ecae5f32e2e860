package follow

import (
	"context"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/go-logr/logr"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
)

// pollEvery is how often listed namespaces are read. Their state at a deletion is read live.
const pollEvery = 5 * time.Second

// Poll reads listed namespaces one by one, where no role permits to watch all. A namespace that
// may not be read is unknown: whatever is judged by it is kept.
type Poll struct {
	*Namespaces
	names   []string
	read    atomic.Bool
	refused map[string]bool // those that were last reported as unreadable
}

// NewPoll makes a Poll of these namespaces.
func NewPoll(names []string, reader client.Reader, clock clock.Clock, log logr.Logger) *Poll {
	p := &Poll{names: names, refused: map[string]bool{}, Namespaces: &Namespaces{
		reader: reader, clock: clock, log: log.WithName("namespaces"),
		known: map[string]*policy.NamespacePolicy{}, metas: map[string]*metav1.PartialObjectMetadata{},
	}}
	p.synced = p.read.Load
	return p
}

// Fresh reads a namespace whenever it is asked about one, and once for all who ask at the same
// time. Admission would otherwise fill in defaults that were replaced since the last poll.
type Fresh struct {
	*Namespaces
	shared *shared[*policy.NamespacePolicy]
}

// Fresh answers from the API server instead of from the last poll.
func (p *Poll) Fresh() *Fresh { return &Fresh{p.Namespaces, newShared[*policy.NamespacePolicy]()} }

// Namespace asks the API server.
func (f *Fresh) Namespace(ctx context.Context, name string) (*policy.NamespacePolicy, error) {
	return f.shared.get(ctx, name, func(ctx context.Context) (*policy.NamespacePolicy, error) { return f.LiveNamespace(ctx, name) })
}

// NeedLeaderElection is false: a replica that waits for the lease knows its namespaces.
func (p *Poll) NeedLeaderElection() bool { return false }

// Start reads the namespaces until ctx is done.
func (p *Poll) Start(ctx context.Context) error {
	for {
		for _, name := range p.names {
			p.look(ctx, name)
		}
		p.read.Store(true)
		if !loop.Pause(ctx, p.clock, pollEvery) {
			return nil
		}
	}
}

func (p *Poll) look(ctx context.Context, name string) {
	p.mu.RLock()
	old := p.metas[name]
	p.mu.RUnlock()
	meta := NamespaceMeta()
	err := p.reader.Get(ctx, types.NamespacedName{Name: name}, meta)
	switch {
	case err == nil:
		delete(p.refused, name)
		if old == nil || old.ResourceVersion != meta.ResourceVersion {
			_, _ = StripNamespace(meta) // It never fails.
			p.observe(meta)
		}
		return
	case ctx.Err() != nil:
		return
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		if old != nil {
			p.forget(old)
		}
	}
	if !p.refused[name] {
		p.refused[name] = true
		p.log.Info("a listed namespace cannot be read: all of its objects are kept", "namespace", name, "reason", err.Error())
	}
}
