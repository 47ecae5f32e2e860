package convert

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Write writes policies as YAML documents, with their findings as comments.
func Write(out io.Writer, policies []Policy) error {
	for i := range policies {
		text, err := policies[i].yaml()
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return nil
}

func (p *Policy) yaml() ([]byte, error) {
	var typed any = p.Cluster
	if p.Namespaced != nil {
		typed = p.Namespaced
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", p.Source, err)
	}
	delete(object, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
	}
	text, err := yaml.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", p.Source, err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# From %s.\n", p.Source)
	p.comments(&out, "Not converted, so the policy is suspended:", true)
	p.comments(&out, "To check:", false)
	out.Write(text)
	return out.Bytes(), nil
}

func (p *Policy) comments(out io.Writer, title string, lost bool) {
	for _, finding := range p.Findings {
		if finding.Lost != lost {
			continue
		}
		if title != "" {
			fmt.Fprintf(out, "# %s\n", title)
			title = ""
		}
		text := Finding{Field: finding.Field, Reason: finding.Reason}.String()
		fmt.Fprintf(out, "#   %s\n", strings.Join(strings.Fields(text), " "))
	}
}
