package engine

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// maxPayloads bounds how many payloads are kept. An object whose payload was dropped is judged
// live before the action.
const maxPayloads = 1 << 16

// payloads keeps the payloads of judged states, for triggers with payloads. Entries of other
// triggers pay nothing for it.
type payloads struct {
	of *lru.Cache // payloadKey → payload
}

type payloadKey struct {
	trigger uint8
	uid     types.UID
}

type payload struct {
	resourceVersion string
	value           any
}

func newPayloads(most int) payloads { return payloads{of: lru.New(most)} }

// keep remembers the payload of a state and replaces an earlier one.
func (p payloads) keep(t *trigger, o *Object) {
	if t.Payload && o.Payload != nil {
		p.of.Add(payloadKey{t.id, types.UID(strings.Clone(string(o.UID)))}, payload{strings.Clone(o.ResourceVersion), o.Payload})
	}
}

// get returns the payload of exactly this state, or nil if it is not known.
func (p payloads) get(t *trigger, o *Object) any {
	found, _ := p.of.Get(payloadKey{t.id, o.UID})
	if known, ok := found.(payload); ok && known.resourceVersion == o.ResourceVersion {
		return known.value
	}
	return nil
}

func (p payloads) drop(t *trigger, uid types.UID) {
	if t.Payload {
		p.of.Remove(payloadKey{t.id, uid})
	}
}
