package lint

import (
	"encoding/json"
	"fmt"
	"strings"

	sigsyaml "sigs.k8s.io/yaml"
)

// MarshalYAML writes a value as YAML by its JSON form. Characters that YAML allows in no text, and JSON does, are escaped.
func MarshalYAML(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, r := range string(text) {
		// Such characters stand nowhere but in strings, where JSON and YAML escape them alike.
		if r == 0x7f || (r >= 0x80 && r < 0xa0) || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return sigsyaml.JSONToYAML([]byte(out.String()))
}
