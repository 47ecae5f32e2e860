package convert

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
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

// Gather reads the settings of a file that apply to the policies of all files.
func (o *Options) Gather(file string, data []byte) {
	if o.known == nil {
		o.known = &settings{pruners: map[string]string{}, kor: map[string][]rawJSON{}}
	}
	(&converter{file: file, options: *o, gathering: true}).read(data)
}

// Source converts the documents of a file. It ignores objects that have nothing to do with cleanup.
func Source(file string, data []byte, options Options) Result {
	if options.known == nil {
		options.Gather(file, data)
	}
	c := &converter{file: file, options: options, compiler: expression.NewCompiler(1000)}
	c.read(data)
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
	Items             []rawJSON         `json:"items"`
	Rules             rawJSON           `json:"rules"`
	Data              map[string]string `json:"data"`
}

// document reads a document, and those inside it.
func (c *converter) document(text []byte, nesting int) {
	var of header
	// Other kinds may have other types in these fields. They are not of interest.
	_ = kjson.UnmarshalCaseSensitivePreserveInts(text, &of)
	switch {
	case of.Kind == "List" || strings.HasSuffix(of.Kind, "List") && len(of.Items) > 0:
		if nesting == 0 {
			c.lost(of.Kind, "items", "is not read: a list in lists")
			return
		}
		for _, item := range of.Items {
			c.document(item, nesting-1)
		}
	case of.Kind == "ConfigMap":
		c.configMap(&of, nesting)
	case of.Kind == "" && len(korLists(text)) > 0:
		convertKor(c, korLists(text))
	case !c.gathering:
		c.policy(text, &of)
	}
}

// policy converts an object, or a document without a kind.
func (c *converter) policy(text []byte, of *header) {
	group := schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).Group
	switch {
	case group == "policies.kyverno.io" && (of.Kind == "DeletingPolicy" || of.Kind == "NamespacedDeletingPolicy"):
		c.deletingPolicy(text)
	case group == "kyverno.io" && (of.Kind == "CleanupPolicy" || of.Kind == "ClusterCleanupPolicy"):
		c.cleanupPolicy(text)
	case group == "apps.projectsveltos.io" && of.Kind == "Cleaner":
		c.cleaner(text)
	case group == "operator.tekton.dev" && (of.Kind == "TektonConfig" || of.Kind == "TektonPruner"):
		c.operator(text, of.Kind)
	case of.Kind == "" && of.Rules != nil:
		c.janitorRules(text)
	default:
		c.labels(of)
	}
}

// labels reports Kyverno's labels on objects of any kind.
func (c *converter) labels(of *header) {
	name := of.Kind + " " + of.Name
	if value, ok := of.Labels[labelKyvernoTTL]; ok {
		c.add(Finding{File: c.file, Object: name, Field: "metadata.labels[" + labelKyvernoTTL + "]",
			Reason: fmt.Sprintf("write label curfew.dev/ttl: %q, or run Curfew with --kyverno-label", value)})
	}
	if _, ok := of.Annotations[annotationPropagation]; ok {
		c.lost(name, "metadata.annotations["+annotationPropagation+"]",
			"is not read: set --propagation, or propagationPolicy in the KindProfile of the kind")
	}
	if of.Labels["rbac.kyverno.io/aggregate-to-cleanup-controller"] == "true" {
		c.add(Finding{File: c.file, Object: name, Field: "metadata.labels",
			Reason: `add label curfew.dev/aggregate-to-controller: "true", so that Curfew gets these permissions`})
	}
}

// configMap reads what tools keep in ConfigMaps.
func (c *converter) configMap(of *header, nesting int) {
	if filters, ok := of.Data["resourceFilters"]; ok && c.gathering {
		if before := c.options.known.filters; before != nil {
			filters = *before + " " + filters // Keep what either of them names.
		}
		c.options.known.filters = &filters
	}
	if config, ok := of.Data["ns-config"]; ok && c.gathering {
		c.options.known.pruners[of.Namespace] = config
	}
	if !c.gathering {
		c.labels(of)
		if config, ok := of.Data["global-config"]; ok {
			c.globalConfig(c.draft("ConfigMap", &of.ObjectMeta, false), config)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(of.Data)) {
		if value := of.Data[key]; nesting > 0 && strings.Contains(value, "jmespath") {
			if rules, err := lint.ToJSON([]byte(value)); err == nil {
				c.document(rules, nesting-1)
			} else {
				c.lost("ConfigMap "+of.Name, "data["+key+"]", "cannot be read: %v", err)
			}
		}
	}
}

// globalConfig converts the ConfigMap of Tekton Pruner.
func (c *converter) globalConfig(source *draft, config string) {
	text, err := lint.ToJSON([]byte(config))
	if err != nil {
		c.lost(source.source, "data[global-config]", "cannot be read: %v", err)
		return
	}
	c.pruner(source, text)
}
