package platform

import (
	"context"
	"errors"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
)

// Source reads the objects that decide how Curfew treats an object: from a cache, live, from files,
// or once for a command.
//
// Namespace, Runtime and PodCounter may return [ErrUnknown], and Runtime an [UnreadableError]. Any
// other error ends [ContextOf].
type Source interface {
	// Snapshot is the platform to judge one object by.
	Snapshot(ctx context.Context) (*Snapshot, error)
	// Namespace returns the settings of a namespace. It is nil if the namespace does not exist any
	// more: Kubernetes deletes its objects.
	Namespace(ctx context.Context, name string) (*resolution.NamespacePolicy, error)
	// Runtime is the runtime that an object refers to. It is nil if there is none, or if its kind is
	// not served.
	Runtime(ctx context.Context, reference *expression.Reference) (map[string]any, error)
	// PodCounter returns the Job or PodTally that counts a Pod; nil for a Pod that nothing counts.
	PodCounter(ctx context.Context, pod *policy.Facts) (*resolution.PodCounter, error)
}

// ErrUnknown means that a [Source] has no way to find out. Callers must conclude nothing from it.
var ErrUnknown = errors.New("not known")

// UnreadableError means that a runtime cannot be read at the moment. The objects that use it are
// kept, as if it were gone (S6).
type UnreadableError struct{ Err error }

// Error implements error.
func (e *UnreadableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnreadableError) Unwrap() error { return e.Err }

// Offline is a [Source] without a cluster, which knows no namespace and no runtime.
type Offline struct{ Platform *Snapshot }

// Snapshot implements [Source].
func (o Offline) Snapshot(context.Context) (*Snapshot, error) { return o.Platform, nil }

// Namespace implements [Source].
func (Offline) Namespace(context.Context, string) (*resolution.NamespacePolicy, error) {
	return nil, ErrUnknown
}

// Runtime implements [Source].
func (Offline) Runtime(context.Context, *expression.Reference) (map[string]any, error) {
	return nil, ErrUnknown
}

// PodCounter implements [Source].
func (Offline) PodCounter(context.Context, *policy.Facts) (*resolution.PodCounter, error) {
	return nil, ErrUnknown
}
