package catalog

import (
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Catalog is what the platform says, kept in step with its objects. Whoever changes it swaps a whole [Snapshot]; readers take that
// without a lock. It is safe for concurrent use.
type Catalog struct {
	compiler *expression.Compiler
	current  atomic.Pointer[Snapshot]

	mu    sync.Mutex
	parts parts
}

// New returns a catalog of the profiles that come with Curfew (manifests/profiles), without policies.
func New(builtin []*v1alpha1.KindProfile) (*Catalog, error) {
	out := &Catalog{compiler: expression.NewCompiler(expression.DefaultCacheSize), parts: parts{
		policies:    map[string]*expression.Policy{},
		profiles:    map[string]*expression.Profile{},
		definitions: map[string]*expression.Definition{},
	}}
	for _, object := range builtin {
		profile, errs := out.compiler.Profile(object)
		if err := errs.ToAggregate(); err != nil {
			return nil, fmt.Errorf("built-in profile %s: %w", object.Name, err)
		}
		out.parts.builtin = append(out.parts.builtin, profile)
	}
	out.current.Store(out.parts.snapshot())
	return out, nil
}

// Snapshot is the catalog as it stands at one moment. Nothing in it is changed.
func (c *Catalog) Snapshot() *Snapshot { return c.current.Load() }

// SetPolicy adds a LifecyclePolicy or takes its new generation. What cannot be used of it means keep (S6) and is returned.
func (c *Catalog) SetPolicy(object *v1alpha1.LifecyclePolicy) field.ErrorList {
	compiled, errs := c.compiler.Policy(object)
	c.change(func() { c.parts.policies[object.Name] = compiled })
	return errs
}

// RemovePolicy forgets a LifecyclePolicy.
func (c *Catalog) RemovePolicy(name string) { c.change(func() { delete(c.parts.policies, name) }) }

// SetProfile adds a KindProfile or takes its new generation. What cannot be used of it means keep (S6) and is returned.
func (c *Catalog) SetProfile(object *v1alpha1.KindProfile) field.ErrorList {
	compiled, errs := c.compiler.Profile(object)
	c.change(func() { c.parts.profiles[object.Name] = compiled })
	return errs
}

// RemoveProfile forgets a KindProfile, so that a built-in one of the kind speaks again.
func (c *Catalog) RemoveProfile(name string) { c.change(func() { delete(c.parts.profiles, name) }) }

// SetDefinition notes what a CustomResourceDefinition serves: profiles then hold as they do for the installed version of their
// kind. The profile of a kind of which no definition is known holds as it is written.
func (c *Catalog) SetDefinition(name string, definition *expression.Definition) {
	c.define(name, func() { c.parts.definitions[name] = definition })
}

// RemoveDefinition forgets a CustomResourceDefinition.
func (c *Catalog) RemoveDefinition(name string) {
	c.define(name, func() { delete(c.parts.definitions, name) })
}

// define changes a definition. Most are of kinds without a profile, and change nothing for anybody.
func (c *Catalog) define(name string, change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.parts.definitions[name]
	change()
	if c.parts.profiled(before) || c.parts.profiled(c.parts.definitions[name]) {
		c.current.Store(c.parts.snapshot())
	}
}

func (c *Catalog) change(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.current.Store(c.parts.snapshot())
}
