// Command generate joins the wrapped lines of the descriptions in the CustomResourceDefinitions.
// Their comments are wrapped at 100 columns, and kubectl explain wraps again at 76, which leaves
// every second line short. It also writes docs/reference-fields.md, the same descriptions as a
// page. go generate runs it after controller-gen.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	paths, err := filepath.Glob(filepath.Join(folder, "curfew.dev_*.yaml"))
	if err != nil {
		return fmt.Errorf("listing the definitions: %w", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err == nil {
			text, err = joined(text)
		}
		if err == nil {
			err = os.WriteFile(path, text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	text, err := page(folder)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, pagePath), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// joined is a definition whose descriptions have one line for each paragraph or item of a list.
func joined(text []byte) ([]byte, error) {
	var definition map[string]any
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return nil, err
	}
	walk(definition)
	out, err := yaml.Marshal(definition)
	return append([]byte("---\n"), out...), err
}

func walk(value any) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			walk(item)
		}
	case map[string]any:
		for key, item := range value {
			if text, ok := item.(string); ok && key == "description" {
				value[key] = join(text)
			}
			walk(item)
		}
	}
}

func join(text string) string {
	var out strings.Builder
	for i, line := range strings.Split(text, "\n") {
		starts := line == "" || strings.HasPrefix(line, "- ") || strings.HasPrefix(line, " ")
		switch {
		case i == 0:
		case starts || strings.HasSuffix(out.String(), "\n"):
			out.WriteByte('\n')
		default:
			out.WriteByte(' ')
		}
		out.WriteString(line)
	}
	return out.String()
}
