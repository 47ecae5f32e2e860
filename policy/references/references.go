package references

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
)

// Kinds are the kinds whose references are known, by resource. Other kinds are used without being
// named: a Service by its address, a PersistentVolume by its claim.
var Kinds = map[schema.GroupResource]string{
	{Resource: "configmaps"}: "ConfigMap", {Resource: "secrets"}: "Secret", {Resource: "serviceaccounts"}: "ServiceAccount",
	{Resource: "persistentvolumeclaims"}:                      claimKind,
	{Group: "networking.k8s.io", Resource: "ingressclasses"}:  "IngressClass",
	{Group: "node.k8s.io", Resource: "runtimeclasses"}:        "RuntimeClass",
	{Group: "scheduling.k8s.io", Resource: "priorityclasses"}: "PriorityClass",
	{Group: "storage.k8s.io", Resource: "storageclasses"}:     "StorageClass",
}

// Roles are the kinds that bindings name, by resource. No policy deletes them by a lookup, and
// reports show them.
var Roles = map[schema.GroupResource]string{
	{Group: rbac, Resource: "clusterroles"}: "ClusterRole", {Group: rbac, Resource: "roles"}: "Role",
}

const rbac = "rbac.authorization.k8s.io"

const claimKind = "PersistentVolumeClaim"

// maxCandidates bounds the memory of [Candidates]. Tests make it smaller.
var maxCandidates = 100_000

// maxParts bounds the parts of a name, between its dots, that is found within a longer text.
const maxParts = 5

// maxSeparators bounds the dots and dashes of a name, and with them the time to find the names that
// it was made from.
const maxSeparators = 32

// Candidates are objects that may be deleted, and what other objects say about them.
type Candidates struct {
	// Fields name objects, by the kinds that have them. Their KindProfiles say so.
	Fields map[schema.GroupKind][]policy.Reference

	spaces     map[string]*space     // that have candidates, and anywhere
	named      map[string]*candidate // the first of a name; the others follow
	mentioned  mentions
	made       int // names
	chosen     chosen
	templates  []*regexp.Regexp      // of names of Secrets
	selectors  map[string]*selectors // by namespace
	everywhere *selectors            // of all namespaces
	aggregates []labels.Selector     // of ClusterRoles
	targets    targets
	count      int
}

// mentions are names that count in every namespace, each with the candidate that alone has it in
// its own content; nil if another object names it. No object refers to itself.
type mentions map[string]*candidate

func (m mentions) add(name string, by *candidate) {
	if before, ok := m[name]; !ok {
		m[name] = by
	} else if before != by {
		m[name] = nil
	}
}

func (m mentions) of(c *candidate) bool {
	by, ok := m[c.name]
	return ok && by != c
}

// space is a namespace: the first candidate of each name, and names that others may be made from.
type space struct {
	name string
	at   map[string]*candidate
	made map[string]maker
}

var nowhere = &space{}

type candidate struct {
	kind       schema.GroupKind
	in         *space
	name       string
	referenced bool
	// next has the same name, and beside the same namespace as well.
	next, beside *candidate
}

// NewCandidates returns an empty set.
func NewCandidates() *Candidates {
	return &Candidates{
		spaces: map[string]*space{anywhere: {name: anywhere, made: map[string]maker{}}}, named: map[string]*candidate{}, mentioned: mentions{},
		chosen:    chosen{labels: map[string]bool{}, by: map[string][]choice{}},
		selectors: map[string]*selectors{}, everywhere: newSelectors(),
		targets: targets{exists: map[target]bool{}, listed: map[schema.GroupKind]bool{}},
	}
}

// more is an error if there are too many candidates.
func (c *Candidates) more() error {
	if c.count++; c.count > maxCandidates {
		return fmt.Errorf("looking up references: the cluster has more than %d objects of the matched kinds", maxCandidates)
	}
	return nil
}

// Add adds an object of [Kinds] or [Roles], for [Candidates.Referenced]. It is an error if there are
// too many. A name of too many parts, which might be overlooked, is never a candidate.
func (c *Candidates) Add(kind schema.GroupKind, namespace, name string, labels map[string]string) error {
	if len(labels) <= maxLabels {
		c.chosen.add(labels)
	}
	if len(c.chosen.labels) > maxMarks {
		return fmt.Errorf("looking up references: the objects of the matched kinds have more than %d labels", maxMarks)
	}
	return c.add(kind, namespace, name)
}

func (c *Candidates) add(kind schema.GroupKind, namespace, name string) error {
	if err := c.more(); err != nil {
		return err
	}
	if overlooked(name) {
		return nil
	}
	s := c.spaces[namespace]
	if s == nil {
		s = &space{name: namespace, at: map[string]*candidate{}, made: map[string]maker{}}
		c.spaces[namespace] = s
	}
	added := &candidate{kind: kind, in: s, name: name, next: c.named[name], beside: s.at[name]}
	c.named[name], s.at[name] = added, added
	return nil
}

// overlooked reports whether a name has so many parts that a longer text may hide it.
func overlooked(name string) bool {
	dots := strings.Count(name, ".")
	return dots >= maxParts || dots+strings.Count(name, "-") > maxSeparators
}

// scanRoles notes the role of a binding, and the ClusterRoles that another one aggregates. Their
// names may have any character, so that no text shows where they begin and end.
func (c *Candidates) scanRoles(namespace string, object map[string]any) {
	if ref, ok := object["roleRef"].(map[string]any); ok {
		name, _ := ref["name"].(string)
		where := namespace
		if ref["kind"] == "ClusterRole" {
			where = ""
		}
		for candidate := c.first(where, name); candidate != nil; candidate = candidate.beside {
			candidate.referenced = candidate.referenced || candidate.kind.Group == rbac && candidate.kind.Kind == ref["kind"]
		}
	}
	selectors, _, _ := unstructured.NestedSlice(object, "aggregationRule", "clusterRoleSelectors")
	for _, item := range selectors {
		content, _ := item.(map[string]any)
		labelSelector := &metav1.LabelSelector{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, labelSelector)
		selector, invalid := metav1.LabelSelectorAsSelector(labelSelector)
		if err != nil || invalid != nil {
			selector = labels.Everything()
		}
		c.aggregates = append(c.aggregates, selector)
	}
}

// first is the first candidate of a namespace and name; the others are beside it.
func (c *Candidates) first(namespace, name string) *candidate {
	return cmp.Or(c.spaces[namespace], nowhere).at[name]
}

func (c *Candidates) find(kind schema.GroupKind, namespace, name string) *candidate {
	cand := c.first(namespace, name)
	for cand != nil && cand.kind != kind {
		cand = cand.beside
	}
	return cand
}

// Referenced reports whether an object that was scanned names a candidate, or selects it by its
// current labels. An object that is not a candidate is an error: earlier objects may name it, or a
// program may find it.
func (c *Candidates) Referenced(kind schema.GroupKind, namespace, name string, ownLabels labels.Set) (bool, error) {
	candidate := c.find(kind, namespace, name)
	if candidate == nil {
		why := "it was created after Curfew listed its kind"
		switch {
		case policy.EssentialName(kind, name):
			why = "Kubernetes needs it"
		case overlooked(name):
			why = "its name has too many dots or dashes"
		case kind.Kind == "Secret":
			why = "programs use Secrets of its type"
		}
		return false, fmt.Errorf("%s %s is not a candidate: %s", kind.Kind, strings.TrimPrefix(namespace+"/"+name, "/"), why)
	}
	made, program := c.madeFrom(candidate, ownLabels)
	chosen, known := c.chosen.chooses(ownLabels)
	switch {
	case candidate.referenced, made, chosen, c.mentioned.of(candidate), kind.Kind == "ClusterRole" &&
		slices.ContainsFunc(c.aggregates, func(selector labels.Selector) bool { return selector.Matches(ownLabels) }):
		return true, nil
	case !known:
		return false, fmt.Errorf("%s %s/%s is not a candidate: its labels were written after Curfew listed its kind", kind.Kind, namespace, name)
	case c.made >= maxMade:
		return false, fmt.Errorf("looking up references: the cluster has more than %d names that others may be made from", maxMade)
	case kind.Group == rbac && strings.ContainsFunc(name, endsName):
		return false, fmt.Errorf("%s %s/%s: no binding names it, but its name has characters that are not found in other objects",
			kind.Kind, namespace, name)
	case kind.Kind == "Secret" && slices.ContainsFunc(c.templates, func(template *regexp.Regexp) bool { return template.MatchString(name) }):
		return false, fmt.Errorf("%s %s/%s: no object names it, but a storage class may make its name from that of a claim", kind.Kind, namespace, name)
	case kind.Kind != "Service" && program != "":
		return false, fmt.Errorf("%s %s/%s: no object names it, but a workload of its namespace has %q in its name or labels, and may read it "+
			"by a name that its program knows", kind.Kind, namespace, name, program)
	}
	return false, nil
}

// Scan notes what an object says about candidates. Custom kinds, texts and fields that may name
// several kinds mean any namespace: a program decides where it reads. A field of a built-in kind
// that names one kind means the namespace of its object, each that the object names as well, and
// cluster-scoped objects. No object refers to itself.
func (c *Candidates) Scan(kind schema.GroupKind, object map[string]any) {
	namespace, name := identity(object)
	c.targets.scan(kind, namespace, name)
	c.scanSelectors(kind, namespace, name, object)
	if len(c.named) == 0 {
		return
	}
	s := &scan{
		candidates: c, builtIn: BuiltIn(kind.Group), words: map[word]bool{}, namespaces: map[string]bool{namespace: true, "": true},
	}
	s.labels = len(c.chosen.labels) > 0 && (!s.builtIn || runs(kind) || kind.Group == admission)
	s.walk("", "", object)
	where := s.namespaces
	if namespace == "" {
		where = nil // all
	}
	serves, own := serving[kind], c.find(kind, namespace, name)
	for word := range s.words {
		if word.kind == "" && serves == "" {
			c.mentioned.add(c.named[word.name].name, own)
			continue
		}
		c.each(word.name, where, func(cand *candidate) {
			cand.referenced = cand.referenced || cand != own && cand.kind.Kind != serves && (word.kind == "" || word.kind == cand.kind.Kind)
		})
	}
	c.scanFields(kind, object)
	c.scanTemplates(kind, object)
	c.scanName(kind, namespace, name, object)
	if kind.Group == rbac {
		c.scanRoles(namespace, object)
	}
	if isDefault, _ := object["globalDefault"].(bool); isDefault && kind.Kind == "PriorityClass" && own != nil {
		own.referenced = true // without a name
	}
}

// serving are kinds that serve an object of another one, and do not use it.
var serving = map[schema.GroupKind]string{
	{Kind: "PersistentVolume"}: claimKind, {Kind: "Endpoints"}: "Service", {Group: "discovery.k8s.io", Kind: "EndpointSlice"}: "Service",
}

// each calls f for the candidates of a name in some namespaces; with nil, in all. Its time grows
// with the number of candidates or of namespaces, whichever is smaller.
func (c *Candidates) each(name string, namespaces map[string]bool, f func(*candidate)) {
	looked := 0
	for candidate := c.named[name]; candidate != nil; candidate = candidate.next {
		if looked++; namespaces == nil || namespaces[candidate.in.name] {
			f(candidate)
		}
		if namespaces == nil || looked < len(namespaces) {
			continue
		}
		for where := range namespaces {
			for cand := c.first(where, name); cand != nil; cand = cand.beside {
				f(cand)
			}
		}
		return
	}
}

// scanFields notes the candidates that the fields of a KindProfile name. A cluster-scoped object
// that names no namespace may mean any.
func (c *Candidates) scanFields(kind schema.GroupKind, object map[string]any) {
	for i := range c.Fields[kind] {
		reference := &c.Fields[kind][i]
		reference.Each(object, func(namespace, name string) {
			where := map[string]bool(nil)
			if namespace != "" {
				where = map[string]bool{namespace: true, "": true}
			}
			c.each(name, where, func(cand *candidate) { cand.referenced = cand.referenced || cand.kind == reference.Kind })
		})
	}
}

// identity is the namespace and the name of an object.
func identity(object map[string]any) (namespace, name string) {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ = metadata["namespace"].(string)
	name, _ = metadata["name"].(string)
	return namespace, name
}
