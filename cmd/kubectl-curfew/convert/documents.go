package convert

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lint"
)

// maxNesting of lists in lists, and of documents in ConfigMaps.
const maxNesting = 3

// document is one that is neither a list nor a ConfigMap.
type document struct {
	file string
	text []byte
	header
}

// Source converts the documents of a file.
func Source(file string, data []byte, options Options) Result {
	return Sources([]lint.Input{{Name: file, Data: data}}, options)
}

// Sources converts the documents of files. It ignores objects that have nothing to do with cleanup.
func Sources(files []lint.Input, options Options) Result {
	c := &converter{options: options, compiler: expression.NewCompiler(1000), exceptions: map[string]string{}}
	for i := range files {
		c.file = files[i].Name
		c.read(files[i].Data)
	}
	for i := range c.documents {
		c.file = c.documents[i].file
		c.policy(c.documents[i].text, &c.documents[i].header)
	}
	return c.result
}

func (c *converter) read(data []byte) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 0; ; n++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil && n == lint.DefaultMaxDocuments {
			err = &lint.LimitError{What: "documents", Have: n + 1, Max: n}
		}
		if err != nil {
			c.lost("", "", "cannot be read: %v", err)
			return
		}
		text, err := lint.ToJSON(document)
		if err != nil {
			c.lost("", "", "cannot be read: %v", err)
			continue
		}
		c.document(text, maxNesting)
	}
}

// header has the fields that all documents may have.
type header struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Items             []json.RawMessage `json:"items"`
	Rules             json.RawMessage   `json:"rules"`
	Data              map[string]string `json:"data"`
}

// document reads a document, and those inside it.
func (c *converter) document(text []byte, nesting int) {
	var head header
	// Other kinds may have other types in these fields. They are not of interest.
	_ = kjson.UnmarshalCaseSensitivePreserveInts(text, &head)
	switch {
	case head.Kind == "List" || strings.HasSuffix(head.Kind, "List") && len(head.Items) > 0:
		if nesting == 0 {
			c.lost(head.Kind, "items", "is not read: a list in lists")
			return
		}
		for _, item := range head.Items {
			c.document(item, nesting-1)
		}
	case head.Kind == "ConfigMap":
		c.configMap(&head, nesting)
	case head.Kind == "PolicyException":
		c.exception(text, &head)
	default:
		c.documents = append(c.documents, document{c.file, text, head})
	}
}

// policy converts an object, or a document without a kind.
func (c *converter) policy(text []byte, head *header) {
	group := schema.FromAPIVersionAndKind(head.APIVersion, head.Kind).Group
	switch {
	case group == "policies.kyverno.io" && (head.Kind == "DeletingPolicy" || head.Kind == "NamespacedDeletingPolicy"):
		c.deletingPolicy(text)
	case group == "kyverno.io" && (head.Kind == "CleanupPolicy" || head.Kind == "ClusterCleanupPolicy"):
		c.cleanupPolicy(text)
	case group == "apps.projectsveltos.io" && head.Kind == "Cleaner":
		c.cleaner(text)
	case head.Kind == "" && head.Rules != nil:
		c.janitorRules(text)
	}
}

// exception reads which DeletingPolicies a PolicyException of Kyverno restricts. One of another group
// is for policies that delete nothing.
func (c *converter) exception(text []byte, head *header) {
	if schema.FromAPIVersionAndKind(head.APIVersion, head.Kind).Group != "policies.kyverno.io" {
		return
	}
	var exception struct {
		Spec struct {
			PolicyRefs []struct {
				Name string `json:"name"`
			} `json:"policyRefs"`
		} `json:"spec"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &exception); err != nil {
		c.exceptions[""] = "PolicyException " + head.Name // It may name any policy.
	}
	for _, policy := range exception.Spec.PolicyRefs {
		c.exceptions[policy.Name] = "PolicyException " + head.Name
	}
}

// configMap reads what tools keep in ConfigMaps.
func (c *converter) configMap(head *header, nesting int) {
	if filters, ok := head.Data["resourceFilters"]; ok {
		if before := c.filters; before != nil {
			filters = *before + " " + filters // Keep what either of them names.
		}
		c.filters = &filters
	}
	for _, key := range slices.Sorted(maps.Keys(head.Data)) {
		if value := head.Data[key]; nesting > 0 && strings.Contains(value, "jmespath") {
			if rules, err := lint.ToJSON([]byte(value)); err == nil {
				c.document(rules, nesting-1)
			} else {
				c.lost("ConfigMap "+head.Name, "data["+key+"]", "cannot be read: %v", err)
			}
		}
	}
}
