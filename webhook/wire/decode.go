package wire

import (
	"fmt"
	"strconv"
)

// object decodes the next object, without the member named without. Of two members with the same
// name the later counts. Its own loop saves a closure for each object.
func (s *scanner) object(without string) (map[string]any, error) {
	if err := s.open('{', "an object"); err != nil {
		return nil, err
	}
	out := map[string]any{}
	for first := true; ; first = false {
		done, err := s.more('}', first)
		if done || err != nil {
			return out, err
		}
		name, err := s.name()
		switch {
		case err != nil:
		case name == without && name != "":
			err = s.skip()
		default:
			out[name], err = s.value()
		}
		if err != nil {
			return nil, err
		}
	}
}

// kubernetesObject decodes a Kubernetes object without its metadata.managedFields.
func (s *scanner) kubernetesObject() (map[string]any, error) {
	out := map[string]any{}
	err := s.members(func(name string) (err error) {
		if name == "metadata" && s.next() == '{' {
			out[name], err = s.object("managedFields")
		} else {
			out[name], err = s.value()
		}
		return err
	})
	return out, err
}

// value decodes the next value.
func (s *scanner) value() (any, error) {
	switch s.next() {
	case '{':
		return s.object("")
	case '[':
		return s.list()
	case '"':
		return s.string()
	case 't', 'f', 'n':
		return s.literal()
	default:
		text, whole, err := s.number()
		if err != nil {
			return nil, err
		}
		if whole {
			if number, err := strconv.ParseInt(text, 10, 64); err == nil {
				return number, nil
			}
		}
		number, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, s.fail(fmt.Sprintf("the number %s is too large", text))
		}
		return number, nil
	}
}

func (s *scanner) list() ([]any, error) {
	if err := s.open('[', "a list"); err != nil {
		return nil, err
	}
	out := []any{}
	for first := true; ; first = false {
		done, err := s.more(']', first)
		if done || err != nil {
			return out, err
		}
		value, err := s.value()
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
}
