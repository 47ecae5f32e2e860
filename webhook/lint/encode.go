package lint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"
)

// MarshalYAML writes a value as YAML, with the field names of its JSON form.
func MarshalYAML(value any) ([]byte, error) {
	text, err := MarshalJSON(value)
	if err != nil {
		return nil, err
	}
	return sigsyaml.JSONToYAML(text)
}

// MarshalJSON writes a value as JSON that is also YAML: it escapes the characters that YAML does
// not allow.
func MarshalJSON(value any) ([]byte, error) {
	var text, out bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	for _, r := range strings.TrimSuffix(text.String(), "\n") {
		// Such characters stand nowhere but in strings, where JSON and YAML escape them alike.
		if r == 0x7f || (r >= 0x80 && r < 0xa0) || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.Bytes(), nil
}
