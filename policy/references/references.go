package references

import (
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

// Candidates are objects that may be deleted, and what other objects say about them.
type Candidates struct {
	// Fields name objects, by the kinds that have them. Their KindProfiles say so.
	Fields map[schema.GroupKind][]policy.Reference

	byName     map[string]map[string][]*candidate // by name and namespace
	namespaces map[string]*ordered
	all        ordered               // of all namespaces
	selectors  map[string]*selectors // by namespace
	everywhere *selectors            // of all namespaces
	roles      []*candidate          // all ClusterRoles
	targets    targets
	count      int
}

// ordered are the candidates of a namespace in the order of their names, and of their names read
// backwards.
type ordered struct {
	forwards, backwards []*candidate
	claims              []*candidate // PersistentVolumeClaims
	sorted              bool
}

type candidate struct {
	kind            schema.GroupKind
	namespace, name string
	referenced      bool
	// labels of a ClusterRole, by which others aggregate it.
	labels labels.Set
}

// NewCandidates returns an empty set.
func NewCandidates() *Candidates {
	return &Candidates{
		byName: map[string]map[string][]*candidate{}, namespaces: map[string]*ordered{}, selectors: map[string]*selectors{},
		everywhere: newSelectors(), targets: targets{exists: map[target]bool{}, listed: map[schema.GroupKind]bool{}},
	}
}

// more is an error if there are too many candidates.
func (c *Candidates) more() error {
	if c.count++; c.count > maxCandidates {
		return fmt.Errorf("looking up references: the cluster has more than %d objects of the matched kinds", maxCandidates)
	}
	return nil
}

// Add adds an object of [Kinds], for [Candidates.Referenced]. It is an error if there are too many.
// A name of too many parts, which might be overlooked, is never a candidate.
func (c *Candidates) Add(kind schema.GroupKind, namespace, name string) error {
	if err := c.more(); err != nil {
		return err
	}
	if strings.Count(name, ".") >= maxParts {
		return nil
	}
	one := &candidate{kind: kind, namespace: namespace, name: name}
	if c.byName[name] == nil {
		c.byName[name] = map[string][]*candidate{}
	}
	c.byName[name][namespace] = append(c.byName[name][namespace], one)
	if c.namespaces[namespace] == nil {
		c.namespaces[namespace] = &ordered{}
	}
	of := c.namespaces[namespace]
	of.add(one)
	c.all.add(one)
	if kind.Kind == claimKind {
		of.claims = append(of.claims, one)
	}
	return nil
}

// AddRole adds an object of [Roles], for [Candidates.Referenced].
func (c *Candidates) AddRole(kind schema.GroupKind, namespace, name string, labels map[string]string) error {
	if err := c.Add(kind, namespace, name); err != nil {
		return err
	}
	if all := c.byName[name][namespace]; kind.Kind == "ClusterRole" && len(all) > 0 {
		one := all[len(all)-1]
		one.labels = labels
		c.roles = append(c.roles, one)
	}
	return nil
}

// scanRoles notes the role of a binding, and the ClusterRoles that another one aggregates. Their
// names may have any character, so that no text shows where they begin and end.
func (c *Candidates) scanRoles(namespace string, object map[string]any) {
	if ref, ok := object["roleRef"].(map[string]any); ok {
		name, _ := ref["name"].(string)
		in := namespace
		if ref["kind"] == "ClusterRole" {
			in = ""
		}
		for _, one := range c.byName[name][in] {
			one.referenced = one.referenced || one.kind.Group == rbac && one.kind.Kind == ref["kind"]
		}
	}
	selectors, _, _ := unstructured.NestedSlice(object, "aggregationRule", "clusterRoleSelectors")
	for _, item := range selectors {
		content, _ := item.(map[string]any)
		of := &metav1.LabelSelector{}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, of)
		selector, invalid := metav1.LabelSelectorAsSelector(of)
		for _, one := range c.roles {
			one.referenced = one.referenced || err != nil || invalid != nil || selector.Matches(one.labels)
		}
	}
}

// Referenced reports whether an object that was scanned names a candidate. It is an error if it is
// no candidate: earlier objects may name it, or a program may find it.
func (c *Candidates) Referenced(kind schema.GroupKind, namespace, name string) (bool, error) {
	all := c.byName[name][namespace]
	i := slices.IndexFunc(all, func(one *candidate) bool { return one.kind == kind })
	if i < 0 {
		return false, fmt.Errorf("%s %s/%s is no candidate: it is new, its name has too many dots, Kubernetes needs it, "+
			"or programs use Secrets of its type", kind.Kind, namespace, name)
	}
	if !all[i].referenced && kind.Group == rbac && strings.ContainsFunc(name, endsName) {
		return false, fmt.Errorf("%s %s/%s: no binding names it, but its name has characters that are not found in other objects",
			kind.Kind, namespace, name)
	}
	return all[i].referenced, nil
}

// Scan notes what an object says about candidates. It names candidates of its own namespace, of
// each namespace that it names as well, and cluster-scoped ones. A cluster-scoped object may mean
// any namespace. No object refers to itself. An operator may put names together from the name of
// its object, such as DATABASE-credentials: the object uses all candidates that extend its name, in
// its namespace or, if it is cluster-scoped, in all.
func (c *Candidates) Scan(kind schema.GroupKind, object map[string]any) {
	namespace, name := identity(object)
	c.targets.scan(kind, namespace, name)
	c.scanSelectors(kind, namespace, name, object)
	if len(c.byName) == 0 {
		return
	}
	s := &scan{
		candidates: c, builtIn: BuiltIn(kind.Group), words: map[word]bool{}, namespaces: map[string]bool{namespace: true, "": true},
	}
	s.walk("", "", object)
	for word := range s.words {
		refers := func(all []*candidate) {
			for _, one := range all {
				itself := kind == one.kind && namespace == one.namespace && name == one.name
				// A volume serves its claim, and does not use it.
				serves := kind == schema.GroupKind{Kind: "PersistentVolume"} && one.kind.Kind == claimKind
				one.referenced = one.referenced || !itself && !serves && (word.kind == "" || word.kind == one.kind.Kind)
			}
		}
		all := c.byName[word.name]
		if namespace != "" && len(s.namespaces) < len(all) {
			for in := range s.namespaces {
				refers(all[in])
			}
			continue
		}
		for in, some := range all {
			if namespace == "" || s.namespaces[in] {
				refers(some)
			}
		}
	}
	c.scanFields(kind, object)
	c.scanName(kind, namespace, name)
	if kind.Group == rbac {
		c.scanRoles(namespace, object)
	}
	if isDefault, _ := object["globalDefault"].(bool); isDefault && kind.Kind == "PriorityClass" { // It is used without a name.
		for _, one := range c.byName[name][""] {
			one.referenced = one.referenced || one.kind == kind
		}
	}
}

// scanFields notes the candidates that the fields of a KindProfile name. A cluster-scoped object
// that names no namespace may mean any.
func (c *Candidates) scanFields(kind schema.GroupKind, object map[string]any) {
	for i := range c.Fields[kind] {
		of := &c.Fields[kind][i]
		of.Each(object, func(namespace, name string) {
			named := c.byName[name]
			if namespace != "" {
				named = map[string][]*candidate{namespace: named[namespace], "": named[""]}
			}
			for _, all := range named {
				for _, one := range all {
					one.referenced = one.referenced || one.kind == of.Kind
				}
			}
		})
	}
}

// scanName notes the candidates whose names are made from the name of an object. StatefulSets, also
// from other API groups, keep their claims when they are scaled down: VOLUME-NAME-0.
func (c *Candidates) scanName(kind schema.GroupKind, namespace, name string) {
	builtIn := BuiltIn(kind.Group)
	if of := c.namespaces[namespace]; of != nil && (!builtIn || kind.Kind == "StatefulSet") {
		for _, claim := range of.claims {
			claim.referenced = claim.referenced || strings.Contains(claim.name, "-"+name+"-")
		}
	}
	if builtIn {
		return
	}
	if namespace == "" { // It may have its objects in any namespace.
		c.all.extend(name)
		return
	}
	for _, in := range []string{namespace, ""} {
		if of := c.namespaces[in]; of != nil {
			of.extend(name)
		}
	}
}

// identity is the namespace and the name of an object.
func identity(object map[string]any) (namespace, name string) {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ = metadata["namespace"].(string)
	name, _ = metadata["name"].(string)
	return namespace, name
}

func (o *ordered) add(one *candidate) {
	o.forwards, o.backwards, o.sorted = append(o.forwards, one), append(o.backwards, one), false
}

// extend notes that an operator uses the candidates whose names extend a name by a dash.
func (o *ordered) extend(name string) {
	if !o.sorted {
		slices.SortFunc(o.forwards, func(a, b *candidate) int { return strings.Compare(a.name, b.name) })
		slices.SortFunc(o.backwards, func(a, b *candidate) int { return strings.Compare(backwards(a.name), backwards(b.name)) })
		o.sorted = true
	}
	mark := func(all []*candidate, prefix string, read func(string) string) {
		at, _ := slices.BinarySearchFunc(all, prefix, func(one *candidate, prefix string) int { return strings.Compare(read(one.name), prefix) })
		for ; at < len(all) && strings.HasPrefix(read(all[at].name), prefix); at++ {
			all[at].referenced = true
		}
	}
	mark(o.forwards, name+"-", strings.Clone)
	mark(o.backwards, backwards("-"+name), backwards)
}

func backwards(name string) string {
	out := []byte(name)
	slices.Reverse(out)
	return string(out)
}

// word is the name of candidates, and the kind that counts; "" for any.
type word struct{ name, kind string }

// scan collects what one object names: names of candidates, and namespaces that have candidates.
type scan struct {
	candidates *Candidates
	builtIn    bool
	words      map[word]bool
	namespaces map[string]bool
}

// walk takes the value of a field. parent is the field that contains the field; the items of a list
// have the name of the list.
func (s *scan) walk(parent, field string, value any) {
	switch value := value.(type) {
	case string:
		s.text(value, kindNamed(s.builtIn, parent, field))
	case []any:
		for _, item := range value {
			s.walk(parent, field, item)
		}
	case map[string]any:
		for key, child := range value {
			if ignored(s.builtIn, field, key) {
				continue
			}
			if kind, _ := value["kind"].(string); key == "name" && namesKind(s.builtIn, field, kind) {
				name, _ := child.(string)
				s.text(name, kind)
				continue
			}
			// Names may be keys, as in secrets: {db: …}. A ResourceQuota has keys such as
			// gold.storageclass.storage.k8s.io/requests.storage.
			if !s.builtIn || field == "hard" {
				s.text(key, "")
			}
			s.walk(field, key, child)
		}
	}
}

// escapes are characters of JSON, YAML and URLs within a string: \nsettings, or %252fsettings.
var escapes = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbf])|%(25)*[0-9a-fA-F]{2}`)

// text collects the names in a text, such as --config=ci/settings or db.password, also those after
// an escaped character. Only candidates of one kind count unless it is empty.
func (s *scan) text(text, kind string) {
	s.plain(text, kind)
	if strings.ContainsAny(text, `\%`) {
		s.plain(escapes.ReplaceAllLiteralString(text, " "), kind)
	}
}

func (s *scan) plain(text, kind string) {
	for word := range strings.FieldsFuncSeq(text, endsName) {
		for rest, more := strings.Trim(word, ".-"), true; more; _, rest, more = strings.Cut(rest, ".") {
			for end, parts := 0, 0; parts < maxParts && end < len(rest); parts++ {
				if dot := strings.IndexByte(rest[end:], '.'); dot >= 0 {
					end += dot
				} else {
					end = len(rest)
				}
				s.word(rest[:end], kind)
				end++
			}
		}
	}
}

func (s *scan) word(name, kind string) {
	if s.candidates.namespaces[name] != nil {
		s.namespaces[name] = true
	}
	if s.candidates.byName[name] != nil {
		s.words[word{name, kind}] = true
	}
}

// endsName reports whether a character is in no name.
func endsName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.'
}
