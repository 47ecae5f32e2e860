package lint

import (
	"bytes"
	"cmp"
	"reflect"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/resolution"
)

// YAML writes the manifest. If the source was YAML, the author's order and comments are kept; if
// nothing was filled in, every byte is. A manifest that cannot be edited (a default would land
// behind an alias) is written with sorted keys. Results of one source share nodes: do not write
// them concurrently.
func (r *Result) YAML() ([]byte, error) {
	document := r.Document
	if len(r.assigned) == 0 && len(document.text) > 0 {
		text := bytes.TrimLeft(bytes.TrimRight(document.text, " \t\r\n"), "\r\n")
		return append(bytes.Clone(text), '\n'), nil
	}
	if document.node != nil && document.node.Style&yaml.FlowStyle == 0 {
		if text, ok := document.edited(r.assigned); ok && reads(text, r.Manifest) {
			return text, nil
		}
	}
	return MarshalYAML(r.Manifest)
}

// edited writes the nodes with the assignments made.
func (d *Document) edited(assignments []resolution.Assignment) ([]byte, bool) {
	for _, assignment := range assignments {
		if !assignNode(d.node, assignment) {
			return nil, false
		}
	}
	whole := cmp.Or(d.root, d.node)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if compactSequences(d.node) {
		encoder.CompactSeqIndent()
	}
	if err := encoder.Encode(whole); err != nil {
		return nil, false
	}
	if err := encoder.Close(); err != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// assignNode reports false if the path leads through an alias, whose other users must not change.
func assignNode(node *yaml.Node, assignment resolution.Assignment) bool {
	last := len(assignment.Path) - 1
	for _, name := range assignment.Path[:last] {
		if node.Kind != yaml.MappingNode {
			return false
		}
		_, next := entry(node, name)
		switch {
		case next == nil && assignment.Value == nil:
			return true
		case next == nil:
			next = &yaml.Node{Kind: yaml.MappingNode}
			node.Content = append(node.Content, scalar(name), next)
		case next.Kind == yaml.ScalarNode && next.Tag == "!!null":
			// "annotations:" with nothing behind it
			*next = yaml.Node{Kind: yaml.MappingNode, HeadComment: next.HeadComment, LineComment: next.LineComment, FootComment: next.FootComment}
		}
		node = next
	}
	return node.Kind == yaml.MappingNode && setNode(node, assignment.Path[last], assignment.Value)
}

func setNode(mapping *yaml.Node, name string, value any) bool {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value != name {
			continue
		}
		if value == nil {
			mapping.Content = append(mapping.Content[:i:i], mapping.Content[i+2:]...)
			return true
		}
		have := mapping.Content[i+1]
		if have.Kind != yaml.ScalarNode || have.Anchor != "" {
			return false
		}
		fresh := scalar(value)
		have.Value, have.Tag, have.Style = fresh.Value, fresh.Tag, fresh.Style
		return true
	}
	if value != nil {
		mapping.Content = append(mapping.Content, scalar(name), scalar(value))
	}
	return true
}

// scalar returns a value as a node. The library quotes strings that YAML would read as another
// type.
func scalar(value any) *yaml.Node {
	var node yaml.Node
	if err := node.Encode(value); err != nil {
		// Strings and integers can always be encoded.
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return &node
}

// compactSequences reports whether the author writes list items at the column of their key.
func compactSequences(node *yaml.Node) bool {
	for i, inner := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 1 && inner.Kind == yaml.SequenceNode && inner.Style&yaml.FlowStyle == 0 && inner.Column > 0 {
			return inner.Column == node.Content[i-1].Column
		}
		if compactSequences(inner) {
			return true
		}
	}
	return false
}

// reads reports whether a text parses to exactly this object.
func reads(text []byte, want map[string]any) bool {
	asJSON, err := sigsyaml.YAMLToJSONStrict(text)
	if err != nil {
		return false
	}
	have, err := parse(asJSON)
	return err == nil && reflect.DeepEqual(have, any(want))
}
