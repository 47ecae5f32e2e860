package discovery

import (
	"context"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/permission"
)

// followRoles follows the roles that are bound to Curfew, once it is known who it is. It returns
// false once ctx is done.
func (l *Labels) followRoles(ctx context.Context, group *sync.WaitGroup) bool {
	identity, ok := l.identity(ctx)
	if !ok {
		return false
	}
	l.bindings = permission.NewBindings(identity, l.Again)
	version := func(object *unstructured.Unstructured) string { return object.GetResourceVersion() }
	run := func(resource string, read func(*unstructured.Unstructured) string, changed func(key string, old, new *string)) {
		mirror := follow.NewMirror(l.options.RBAC(resource), read, l.options.Clock, l.log)
		mirror.OnChange(changed)
		group.Go(func() { mirror.Run(ctx) })
	}
	for _, kind := range []string{"roles", "rolebindings"} {
		for _, resource := range []string{kind, "cluster" + kind} {
			if kind == "roles" {
				run(resource, version, l.bindings.RoleChanged)
			} else {
				run(resource, l.bindings.Read, l.bindings.BindingChanged)
			}
		}
	}
	return true
}

// identity asks until there is an answer. An API server before Kubernetes 1.28 has none; then only
// the timer notices changed permissions.
func (l *Labels) identity(ctx context.Context) (permission.Identity, bool) {
	for backoff := loop.NewBackoff(); ; {
		identity, err := l.options.Identify(ctx)
		if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
			return identity, ctx.Err() == nil
		}
		l.log.Info("could not ask who Curfew is, trying again", "reason", err.Error())
		loop.Pause(ctx, l.options.Clock, backoff.Next())
	}
}

// namespaces returns the namespaces in which more may be granted than everywhere.
func (l *Labels) namespaces() []string {
	if l.options.Only {
		return l.options.Namespaces
	}
	out := append(l.bindings.Namespaces(), l.options.Namespaces...)
	slices.Sort(out)
	return slices.Compact(out)
}
