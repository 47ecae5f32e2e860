package world

import (
	"errors"
	"sync"

	"curfew.dev/curfew/policy/platform"
)

// answers remembers by key what was read, and what is not known. It does not remember other errors.
type answers[V any] struct {
	mu    sync.Mutex
	known map[string]answer[V]
}

type answer[V any] struct {
	value V
	err   error
}

func (a *answers[V]) get(key string, read func() (V, error)) (V, error) {
	a.mu.Lock()
	known, ok := a.known[key]
	a.mu.Unlock()
	if ok {
		return known.value, known.err
	}
	value, err := read()
	if err == nil || errors.Is(err, platform.ErrUnknown) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.known == nil {
			a.known = map[string]answer[V]{}
		}
		a.known[key] = answer[V]{value, err}
	}
	return value, err
}
