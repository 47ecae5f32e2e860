package follow

import (
	"fmt"
	"slices"
	"sync"

	"curfew.dev/curfew/policy/expression"
)

// failures records the errors of a policy's expressions on objects, for the condition Ready: the
// first few of each generation, since one expression can fail on any number of objects.
type failures struct {
	mu       sync.Mutex
	byPolicy map[string]failure
}

type failure struct {
	generation int64
	// reasons are told once, whatever the object; errs are the same with the object that was the
	// first.
	reasons []string
	errs    []error
}

// maxFailures is how many failures of a policy are told. One is enough to see that something is
// wrong, and several expressions may be.
const maxFailures = 3

// add reports whether there is something new to tell.
func (f *failures) add(object string, failed *expression.PolicyError) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.byPolicy[failed.Policy]
	if one.generation > failed.Generation {
		return false
	}
	if one.generation < failed.Generation {
		one = failure{generation: failed.Generation}
	}
	reason := failed.Err.Error()
	if len(one.errs) == maxFailures || slices.Contains(one.reasons, reason) {
		return false
	}
	one.reasons = append(one.reasons, reason)
	one.errs = append(one.errs, fmt.Errorf("%w (%s, which is kept)", failed.Err, object))
	if f.byPolicy == nil {
		f.byPolicy = map[string]failure{}
	}
	f.byPolicy[failed.Policy] = one
	return true
}

// of are the failures of a generation of a policy.
func (f *failures) of(policy string, generation int64) []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.byPolicy[policy]; one.generation == generation {
		return slices.Clone(one.errs)
	}
	return nil
}

func (f *failures) forget(policy string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byPolicy, policy)
}
