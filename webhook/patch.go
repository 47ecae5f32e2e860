package webhook

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"

	"curfew.dev/curfew/policy"
)

// operation is one of a JSON Patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// patchFor is the smallest JSON Patch that makes the assignments hold, or nil where they hold already. It is applied to
// the raw object once, so that what is returned is known to apply. The object is changed in passing.
func patchFor(raw []byte, object map[string]any, assignments []policy.Assignment) ([]byte, error) {
	var draft draft
	for _, assignment := range assignments {
		if err := draft.assign(object, assignment); err != nil {
			return nil, err
		}
	}
	if len(draft.operations) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(draft.operations)
	if err != nil {
		return nil, fmt.Errorf("writing the patch: %w", err)
	}
	return patch, applies(raw, patch)
}

// applies says why a patch cannot be applied to an object, or returns nil.
func applies(raw, patch []byte) error {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return fmt.Errorf("reading the patch: %w", err)
	}
	if _, err := decoded.Apply(raw); err != nil {
		return fmt.Errorf("applying the patch: %w", err)
	}
	return nil
}

// draft gathers operations.
type draft struct {
	operations []operation
	// created are the pointers of parents that the draft itself adds. What is put into them is part of that one operation,
	// which holds the same map.
	created map[string]bool
}

func (d *draft) assign(object map[string]any, assignment policy.Assignment) error {
	path := assignment.Path
	if len(path) == 0 || path.Pointer() == "" {
		return fmt.Errorf("%q leads to no single field", path.String())
	}
	parent, at, inCreated := object, "", false
	for _, name := range path[:len(path)-1] {
		at += "/" + policy.EscapePointer(name)
		value := parent[name]
		if value == nil {
			if assignment.Value == nil {
				return nil
			}
			added := map[string]any{}
			parent[name] = added
			if !inCreated {
				d.add(at, added)
				inCreated = true
			}
			parent = added
			continue
		}
		next, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %T and not an object, so that %s cannot be set", at, value, path)
		}
		parent, inCreated = next, inCreated || d.created[at]
	}
	name := path[len(path)-1]
	at += "/" + policy.EscapePointer(name)
	have, present := parent[name]
	switch {
	case assignment.Value == nil && !present, present && have == assignment.Value && have != nil:
		return nil
	case assignment.Value == nil:
		delete(parent, name)
		if !inCreated {
			d.operations = append(d.operations, operation{Op: "remove", Path: at})
		}
		return nil
	}
	parent[name] = assignment.Value
	switch {
	case inCreated:
	case present:
		d.operations = append(d.operations, operation{Op: "replace", Path: at, Value: assignment.Value})
	default:
		d.operations = append(d.operations, operation{Op: "add", Path: at, Value: assignment.Value})
	}
	return nil
}

func (d *draft) add(pointer string, value map[string]any) {
	if d.created == nil {
		d.created = map[string]bool{}
	}
	d.created[pointer] = true
	d.operations = append(d.operations, operation{Op: "add", Path: pointer, Value: value})
}
