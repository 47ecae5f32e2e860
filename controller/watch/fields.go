package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// valueBytes is what a value takes beside its text.
	valueBytes = 64
	// maxDepth is more than the API server admits, and no threat to the stack.
	maxDepth = 20_000
)

type fieldsKey struct{}

// Fields has [Cap] leave out of objects all fields but those at whose path keep is true. "*" in a
// path is any item of a list. An object or a list at such a path stays, without what is in it. So
// the memory that an object takes is not up to its author: decoded, [{},{}] takes thirty times its
// text.
func Fields(ctx context.Context, keep func(path []string) bool) context.Context {
	return context.WithValue(ctx, fieldsKey{}, keep)
}

// prune reads an object, or a list of objects, without the fields that keep leaves out.
func prune(body []byte, keep func(path []string) bool, most int64) ([]byte, error) {
	p := &pruner{Decoder: json.NewDecoder(bytes.NewReader(body)), keep: keep, left: most}
	p.UseNumber()
	value, _, err := p.value()
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

type pruner struct {
	*json.Decoder
	keep func(path []string) bool
	left int64
	path []string
}

// keeps asks for the path where the document is read. The envelope of a list is kept.
func (p *pruner) keeps() bool {
	path := p.path
	if len(path) > 0 && path[0] == "items" {
		path = path[min(2, len(path)):]
	}
	return len(path) == 0 || p.keep(path)
}

func (p *pruner) value() (value any, kept bool, err error) {
	token, err := p.Token()
	if err != nil {
		return nil, false, err
	}
	value, kept = token, p.keeps()
	delim, nested := token.(json.Delim)
	if nested {
		value, kept, err = p.inside(delim == '{', kept)
	} else if kept {
		p.left -= int64(len(fmt.Sprint(token)))
	}
	if kept {
		p.left -= valueBytes
	}
	if err == nil && (p.left < 0 || len(p.path) > maxDepth) {
		err = apierrors.NewRequestEntityTooLargeError("too much of the object would be read")
	}
	return value, kept, err
}

// inside reads an object or a list after its first token.
func (p *pruner) inside(object, kept bool) (any, bool, error) {
	fields, items := map[string]any(nil), []any(nil)
	if kept {
		fields, items = map[string]any{}, []any{}
	}
	depth := len(p.path)
	for p.More() {
		name := "*"
		if object {
			token, err := p.Token()
			if err != nil {
				return nil, false, err
			}
			name, _ = token.(string)
		}
		p.path = append(p.path[:depth], name)
		value, ok, err := p.value()
		switch {
		case err != nil:
			return nil, false, err
		case !ok:
			continue
		case fields == nil:
			fields, kept = map[string]any{}, true
		}
		if object {
			fields[name] = value
		} else {
			items = append(items, value)
		}
	}
	_, err := p.Token()
	if object {
		return fields, kept, err
	}
	return items, kept, err
}
