package lint

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// lineOf is the line of a field, given by the path in findings: spec.replicatedJobs[0].template,
// metadata.annotations[curfew.dev/ttl]. For an absent field it is the line of its nearest parent.
func (d *Document) lineOf(field string) int {
	line, at := d.Line, d.node
	for _, name := range pathNames(field) {
		at = resolve(at)
		if at == nil {
			break
		}
		key, value := entry(at, name)
		if value == nil {
			break
		}
		line, at = key.Line+d.offset, value
	}
	return line
}

var expressionLine = regexp.MustCompile(`^line ([0-9]+), column `)

// lineOfFinding is the line of a field or, if the message names a line of an expression that is
// written as a block (|), that line of the file.
func (d *Document) lineOfFinding(field, message string) int {
	line := d.lineOf(field)
	at := d.node
	for _, name := range pathNames(field) {
		if at = child(at, name); at == nil {
			return line
		}
	}
	at = resolve(at)
	found := expressionLine.FindStringSubmatch(message)
	if found == nil || at == nil || at.Style&yaml.LiteralStyle == 0 {
		return line
	}
	within, err := strconv.Atoi(found[1])
	if err != nil {
		return line
	}
	return at.Line + d.offset + within
}

// pathNames splits a field path. Text in brackets is one name, including dots.
func pathNames(field string) []string {
	var out []string
	for field != "" {
		if rest, ok := strings.CutPrefix(field, "["); ok {
			name, after, found := strings.Cut(rest, "]")
			if !found {
				return out
			}
			out, field = append(out, name), after
			continue
		}
		field = strings.TrimPrefix(field, ".")
		end := strings.IndexAny(field, ".[")
		if end < 0 {
			end = len(field)
		}
		if end > 0 {
			out = append(out, field[:end])
		} else if field != "" && field[0] == '.' {
			return out
		}
		field = field[end:]
	}
	return out
}

// entry is a child of a node and the node at which it begins: the key of a mapping, or the item of
// a sequence itself.
func entry(node *yaml.Node, name string) (key, value *yaml.Node) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i], node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}

func child(node *yaml.Node, name string) *yaml.Node {
	if node = resolve(node); node == nil {
		return nil
	}
	_, value := entry(node, name)
	return value
}

func sequence(node *yaml.Node) []*yaml.Node {
	if node = resolve(node); node == nil || node.Kind != yaml.SequenceNode {
		return nil
	}
	return node.Content
}

func resolve(node *yaml.Node) *yaml.Node {
	if node != nil && node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
