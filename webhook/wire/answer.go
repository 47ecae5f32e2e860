package wire

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
)

// AppendAnswer appends an AdmissionReview with a response.
func AppendAnswer(to []byte, response *admissionv1.AdmissionResponse) ([]byte, error) {
	to = append(to, `{"kind":"`+kind+`","apiVersion":"`+apiVersion+`","response":{"uid":`...)
	to = appendString(to, string(response.UID))
	if response.Allowed {
		to = append(to, `,"allowed":true`...)
	} else {
		to = append(to, `,"allowed":false`...)
	}
	if response.Result != nil {
		status, err := json.Marshal(response.Result)
		if err != nil {
			return nil, fmt.Errorf("writing the status: %w", err)
		}
		to = append(append(to, `,"status":`...), status...)
	}
	if len(response.Patch) > 0 {
		to = append(to, `,"patchType":"`+string(admissionv1.PatchTypeJSONPatch)+`","patch":"`...)
		to = base64.StdEncoding.AppendEncode(to, response.Patch)
		to = append(to, '"')
	}
	if len(response.AuditAnnotations) > 0 {
		to = append(to, `,"auditAnnotations":`...)
		separator := byte('{')
		for _, key := range slices.Sorted(maps.Keys(response.AuditAnnotations)) {
			to = append(to, separator)
			to = append(appendString(to, key), ':')
			to = appendString(to, response.AuditAnnotations[key])
			separator = ','
		}
		to = append(to, '}')
	}
	if len(response.Warnings) > 0 {
		to = append(to, `,"warnings":`...)
		separator := byte('[')
		for _, warning := range response.Warnings {
			to = appendString(append(to, separator), warning)
			separator = ','
		}
		to = append(to, ']')
	}
	return append(to, `}}`...), nil
}

// Operation is one operation of a JSON Patch (RFC 6902). Its path contains no list index.
type Operation struct {
	// Op is add, replace or remove.
	Op string
	// Path lists the names of the members, from the root of the object.
	Path []string
	// Value is a string, an int64, or a map of such values and maps.
	Value any
}

// errMissing means that a parent in the path of a patch is missing.
var errMissing = errors.New("is not there")

// Applies returns why a patch cannot be applied to the object as it was sent, or nil. It goes over
// the object once. No operation may depend on an earlier one.
func (o *Object) Applies(patch []Operation) error {
	s := scanner{text: o.Raw}
	open := make([]*Operation, len(patch))
	for i := range patch {
		if len(patch[i].Path) == 0 {
			return errors.New("the patch replaces the object")
		}
		open[i] = &patch[i]
	}
	return s.applies(open, 0)
}

// applies looks up the operations in the next object, which is depth names below the root. The text
// is known to be valid.
func (s *scanner) applies(wanted []*Operation, depth int) error {
	var space [4]error
	found := append(space[:0], make([]error, len(wanted))...)
	for i, operation := range wanted {
		if len(operation.Path) > depth+1 || operation.Op != "add" {
			found[i] = errMissing
		}
	}
	err := s.members(func(name string) error {
		s.next()
		from := s.at
		s.pass()
		for i, operation := range wanted {
			if operation.Path[depth] != name {
				continue
			}
			// Of two members with the same name the later counts.
			if found[i] = nil; len(operation.Path) > depth+1 {
				inner := scanner{text: s.text[:s.at], at: from}
				found[i] = inner.applies(wanted[i:i+1], depth+1)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, err := range found {
		if errors.Is(err, errMissing) && depth == 0 {
			return fmt.Errorf("%s %s: a part of the path %w", wanted[i].Op, pointer(wanted[i].Path), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// AppendPatch appends a patch.
func AppendPatch(to []byte, patch []Operation) ([]byte, error) {
	to = append(to, '[')
	for i := range patch {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(to, `{"op":`...)
		to = appendString(to, patch[i].Op)
		to = append(to, `,"path":`...)
		to = appendString(to, pointer(patch[i].Path))
		if patch[i].Op != "remove" {
			to = append(to, `,"value":`...)
			var err error
			if to, err = appendValue(to, patch[i].Value); err != nil {
				return nil, err
			}
		}
		to = append(to, '}')
	}
	return append(to, ']'), nil
}

func appendValue(to []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case string:
		return appendString(to, value), nil
	case int64:
		return strconv.AppendInt(to, value, 10), nil
	case map[string]any:
		to = append(to, '{')
		for i, name := range slices.Sorted(maps.Keys(value)) {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(appendString(to, name), ':')
			var err error
			if to, err = appendValue(to, value[name]); err != nil {
				return nil, err
			}
		}
		return append(to, '}'), nil
	default:
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("writing a value of the patch: %w", err)
		}
		return append(to, text...), nil
	}
}

// appendString appends a JSON string.
func appendString(to []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil {
				return append(to, `""`...) // A string can always be written.
			}
			return append(to, quoted...)
		}
	}
	to = append(to, '"')
	to = append(to, text...)
	return append(to, '"')
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// pointer writes a path as a JSON Pointer (RFC 6901).
func pointer(path []string) string {
	var out strings.Builder
	for _, name := range path {
		out.WriteByte('/')
		if strings.ContainsAny(name, "~/") {
			name = pointerEscapes.Replace(name)
		}
		out.WriteString(name)
	}
	return out.String()
}
