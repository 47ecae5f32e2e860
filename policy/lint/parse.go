package lint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/fieldpath"
)

// readYAML parses each document twice: with the library that kubectl uses, which decides the
// values, and into nodes, which have lines and comments.
func (r *reader) readYAML(data []byte) {
	for _, chunk := range split(data) {
		if !r.begin() {
			return
		}
		document := Document{File: r.file, Index: r.index, Line: chunk.line, text: chunk.text, offset: chunk.line - 1}
		var root yaml.Node
		if err := yaml.Unmarshal(chunk.text, &root); err != nil {
			r.failYAML(document, err)
			continue
		}
		if err := boundAliases(&root, len(chunk.text)); err != nil {
			r.fail(chunk.line, err)
			continue
		}
		if len(root.Content) == 1 {
			document.node, document.root = root.Content[0], &root
			document.Line = document.node.Line + document.offset
		}
		text, err := sigsyaml.YAMLToJSONStrict(chunk.text)
		if err != nil {
			r.failYAML(document, err)
			continue
		}
		value, err := parse(text)
		if err != nil {
			r.fail(document.Line, err)
			continue
		}
		r.add(value, document)
	}
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// failYAML replaces the line within the document by the line of the file.
func (r *reader) failYAML(document Document, err error) {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "yaml: "), "unmarshal errors:\n")
	line := document.Line
	if match := yamlLine.FindStringSubmatchIndex(text); match != nil {
		if n, err := strconv.Atoi(text[match[2]:match[3]]); err == nil {
			line = n + document.offset
		}
		text = text[:match[0]] + text[match[1]:]
	}
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	r.failForeign(line, fmt.Errorf("not readable as YAML: %s", first), Foreign(document.text))
}

// boundAliases rejects a document whose aliases, written out, would be far larger than the document
// itself.
func boundAliases(root *yaml.Node, length int) error {
	limit := 2*length + 1<<20
	sizes := map[*yaml.Node]int{}
	size, ok := written(root, sizes, limit)
	if !ok {
		return errors.New("an alias refers to what contains it: write the value out")
	}
	if size > limit {
		return fmt.Errorf("its aliases come to more than %d bytes: write the values out", limit)
	}
	return nil
}

// ToJSON converts a YAML document within the limits of [Read], for texts that are not objects.
func ToJSON(text []byte) ([]byte, error) {
	if err := (Limits{}).withDefaults().check(Input{Data: text}); err != nil {
		return nil, err
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, err
	}
	if err := boundAliases(&root, len(text)); err != nil {
		return nil, err
	}
	return sigsyaml.YAMLToJSONStrict(text)
}

// written is about the size of a node with its aliases written out; above the limit it is not
// exact. ok is false for a node that contains itself.
func written(node *yaml.Node, sizes map[*yaml.Node]int, limit int) (size int, ok bool) {
	if node.Kind == yaml.AliasNode {
		if node.Alias == nil {
			return 1, true
		}
		return written(node.Alias, sizes, limit)
	}
	const open = -1
	if size, seen := sizes[node]; seen {
		return size, size != open
	}
	sizes[node] = open
	size = len(node.Value) + 1
	for _, inner := range node.Content {
		n, ok := written(inner, sizes, limit)
		if !ok {
			return 0, false
		}
		size = min(size+n, limit+1)
	}
	sizes[node] = size
	return size, true
}

// jsonSyntaxError distinguishes text that is not JSON from JSON that is rejected.
type jsonSyntaxError struct{ err error }

func (e *jsonSyntaxError) Error() string { return "not readable as JSON: " + e.err.Error() }

// readJSON reads consecutive JSON texts, as kubectl allows. It stops at a syntax error.
func (r *reader) readJSON(data []byte) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	decoder := json.NewDecoder(bytes.NewReader(data))
	// Lines are counted once, from where the last text ended.
	counted, lines := 0, 1
	lineAt := func(end int) int {
		lines += bytes.Count(data[counted:max(counted, end)], []byte("\n"))
		counted = max(counted, end)
		return lines
	}
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return
		}
		if !r.begin() {
			return
		}
		end := int(decoder.InputOffset())
		if err != nil {
			if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
				end = min(int(syntax.Offset), len(data))
			}
			r.failForeign(lineAt(end), &jsonSyntaxError{err}, Foreign(data))
			return
		}
		line := lineAt(end - len(raw))
		value, err := parse(raw)
		if err != nil {
			r.fail(line, err)
			continue
		}
		document := Document{File: r.file, Index: r.index, Line: line, offset: line - 1}
		var root yaml.Node
		// Almost all JSON is YAML. The rest has no lines.
		if err := yaml.Unmarshal(raw, &root); err == nil && len(root.Content) == 1 {
			document.node = root.Content[0]
		}
		r.add(value, document)
	}
}

// parse reads one JSON text and rejects duplicate keys, which kubectl would pass on ambiguously.
func parse(text []byte) (any, error) {
	var value any
	strict, err := kjson.UnmarshalStrict(text, &value)
	if err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, fmt.Errorf("%w: keep one of them", strict[0])
	}
	return value, nil
}

// lineOf is the line of a field, given by the path in findings: spec.replicatedJobs[0].template,
// metadata.annotations[curfew.dev/ttl]. For an absent field it is the line of its nearest parent.
func (d *Document) lineOf(field string) int {
	line, node := d.Line, d.node
	for _, name := range fieldpath.Names(field) {
		node = resolve(node)
		if node == nil {
			break
		}
		key, value := entry(node, name)
		if value == nil {
			break
		}
		line, node = key.Line+d.offset, value
	}
	return line
}

var expressionLine = regexp.MustCompile(`^line ([0-9]+), column `)

// lineOfFinding is the line of a field or, if the message names a line of an expression that is
// written as a block (|), that line of the file.
func (d *Document) lineOfFinding(field, message string) int {
	line := d.lineOf(field)
	node := d.node
	for _, name := range fieldpath.Names(field) {
		if node = child(node, name); node == nil {
			return line
		}
	}
	node = resolve(node)
	found := expressionLine.FindStringSubmatch(message)
	if found == nil || node == nil || node.Style&yaml.LiteralStyle == 0 {
		return line
	}
	within, err := strconv.Atoi(found[1])
	if err != nil {
		return line
	}
	return node.Line + d.offset + within
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
