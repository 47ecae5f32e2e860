package convert

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/webhook/lint"
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

// object is the policy as its manifest has it.
func (p *Policy) object() (map[string]any, error) {
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
	return object, nil
}

// schemas of Curfew's kinds.
var schemas = sync.OnceValues(func() (*lint.Schemas, error) {
	definitions, err := crd.All()
	if err != nil {
		return nil, err
	}
	return lint.NewSchemas(definitions)
})

// check returns why the API server would reject the policy by its schema.
func (p *Policy) check() error {
	known, err := schemas()
	if err != nil {
		return err
	}
	object, err := p.object()
	if err != nil {
		return err
	}
	_, err = known.Stored(context.Background(), object)
	return err
}

func (p *Policy) yaml() ([]byte, error) {
	object, err := p.object()
	if err != nil {
		return nil, err
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
