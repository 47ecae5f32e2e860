package lint

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// assign sets or removes one field of an object and creates missing parents.
func assign(object map[string]any, assignment policy.Assignment) error {
	parent := object
	path := assignment.Path
	for i, name := range path[:len(path)-1] {
		switch next := parent[name].(type) {
		case map[string]any:
			parent = next
		case nil:
			if assignment.Value == nil {
				return nil
			}
			made := map[string]any{}
			parent[name] = made
			parent = made
		default:
			return fmt.Errorf("%s is %s and not an object, so that %s cannot be set", path[:i+1], describe(next), path)
		}
	}
	if name := path[len(path)-1]; assignment.Value == nil {
		delete(parent, name)
	} else {
		parent[name] = assignment.Value
	}
	return nil
}
