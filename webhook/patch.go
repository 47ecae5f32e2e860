package webhook

import (
	"fmt"
	"reflect"
	"slices"

	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/webhook/wire"
)

// patchFor returns the smallest JSON Patch that makes the assignments, or nil if there is nothing
// to change. It is checked against the raw object, so that it is known to apply. It changes the
// object's fields.
func patchFor(object *wire.Object, assignments []resolution.Assignment) ([]byte, error) {
	var draft draft
	for _, assignment := range assignments {
		if err := draft.assign(object.Fields, assignment); err != nil {
			return nil, err
		}
	}
	if len(draft.operations) == 0 {
		return nil, nil
	}
	if err := object.Applies(draft.operations); err != nil {
		return nil, err
	}
	return wire.AppendPatch(nil, draft.operations)
}

// draft collects operations.
type draft struct {
	operations []wire.Operation
	// created are the paths of parents that the draft adds. Their members are part of the same
	// operation, which has the same map.
	created [][]string
}

func (d *draft) assign(object map[string]any, assignment resolution.Assignment) error {
	path := assignment.Path
	if len(path) == 0 || slices.Contains(path, "*") {
		return fmt.Errorf("%q leads to no single field", path.String())
	}
	parent, inCreated := object, false
	for i, name := range path[:len(path)-1] {
		value := parent[name]
		if value == nil {
			if assignment.Value == nil {
				return nil
			}
			added := map[string]any{}
			parent[name] = added
			if !inCreated {
				d.created = append(d.created, path[:i+1])
				d.add("add", path[:i+1], added)
				inCreated = true
			}
			parent = added
			continue
		}
		next, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %T and not an object, so that %s cannot be set", path[:i+1].Pointer(), value, path)
		}
		parent, inCreated = next, inCreated || d.creates(path[:i+1])
	}
	name := path[len(path)-1]
	have, present := parent[name]
	switch {
	case assignment.Value == nil && !present, present && reflect.DeepEqual(have, assignment.Value) && have != nil:
		return nil
	case assignment.Value == nil:
		delete(parent, name)
		if !inCreated {
			d.add("remove", path, nil)
		}
		return nil
	}
	parent[name] = assignment.Value
	switch {
	case inCreated:
	case present:
		d.add("replace", path, assignment.Value)
	default:
		d.add("add", path, assignment.Value)
	}
	return nil
}

func (d *draft) add(op string, path []string, value any) {
	d.operations = append(d.operations, wire.Operation{Op: op, Path: path, Value: value})
}

func (d *draft) creates(path []string) bool {
	return slices.ContainsFunc(d.created, func(created []string) bool { return slices.Equal(created, path) })
}
