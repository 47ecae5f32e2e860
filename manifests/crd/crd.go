// Package crd holds the CustomResourceDefinitions of Curfew's own kinds, generated from
// policy/v1alpha1. The command line and the HTTP API validate with them as the API server would,
// without a cluster.
package crd

import (
	"embed"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/wellknown"
)

//go:embed *.yaml
var files embed.FS

// All decodes every definition, in the order of the file names.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir(".")
	if err != nil {
		return nil, fmt.Errorf("listing CustomResourceDefinitions: %w", err)
	}
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), wellknown.Group+"_") {
			continue
		}
		text, err := files.ReadFile(entry.Name())
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", entry.Name(), err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(text, definition); err != nil {
			return nil, fmt.Errorf("reading %s: %w", entry.Name(), err)
		}
		out = append(out, definition)
	}
	return out, nil
}
