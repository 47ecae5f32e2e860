package references

import (
	"cmp"
	"iter"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maker is who makes names from a name: several of these. An operator puts names together from the
// name of its object, such as DATABASE-credentials: the object uses the candidates that have its
// name as a part, between dots and dashes. It does so in its namespace or, if it is cluster-scoped,
// in all. StatefulSets, also from other API groups, keep their claims when they are scaled down:
// VOLUME-NAME-0. A program reads objects whose names are compiled into it, and which resemble that
// of its workload or product: workflow-controller-configmap.
type maker uint8

const (
	statefulSet maker = 1 << iota
	operator
	workload
	part // of the name of a workload, between dashes
)

// maxMade bounds the names that others may be made from. Tests make it smaller.
var maxMade = 1_000_000

// anywhere stands for all namespaces, as for a cluster-scoped object, and is the name of none.
const anywhere = "*"

// products are labels whose values say which product an object is part of.
var products = []string{"app", "app.kubernetes.io/instance", "app.kubernetes.io/name", "app.kubernetes.io/part-of", "k8s-app", "release"}

// scanName notes the name of an object that others may be made from. A cluster-scoped candidate may
// be made from a name of any namespace.
func (c *Candidates) scanName(kind schema.GroupKind, namespace, name string, object map[string]any) {
	space, custom := c.spaces[cmp.Or(namespace, anywhere)], !BuiltIn(kind.Group)
	if custom {
		c.make(space, name, operator)
	} else if kind.Kind == "StatefulSet" {
		c.make(space, name, statefulSet)
	}
	c.scanProgram(kind, space, name, object)
	if namespace != "" && custom {
		c.make(c.spaces[""], name, operator)
	}
}

// scanProgram notes the names of a workload and its product, and their parts. The name of a workload
// that another object owns is made from the owner's.
func (c *Candidates) scanProgram(kind schema.GroupKind, s *space, name string, object map[string]any) {
	template := mapIn(object, "spec", "template")
	if template == nil && !runs(kind) {
		return
	}
	add := func(name string) {
		c.make(s, name, workload)
		for word := range strings.SplitSeq(name, "-") {
			c.make(s, word, part)
		}
	}
	metadata := mapIn(object, "metadata")
	if metadata["ownerReferences"] == nil {
		add(name)
	}
	for _, meta := range []map[string]any{metadata, mapIn(template, "metadata")} {
		labels, _ := meta["labels"].(map[string]any)
		for _, key := range products {
			value, _ := labels[key].(string)
			add(value)
		}
	}
}

// mapIn is the map in a field; nil if there is none.
func mapIn(object map[string]any, path ...string) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(object, path...)
	out, _ := value.(map[string]any)
	return out
}

func (c *Candidates) make(s *space, name string, by maker) {
	if s == nil || name == "" || s.made[name] == 0 && c.made == maxMade {
		return
	}
	if s.made[name] == 0 {
		c.made++
	}
	s.made[name] |= by
}

// madeFrom reports whether the name of a candidate may be made from another one, and the name of a
// workload whose program may know the candidate's.
func (c *Candidates) madeFrom(cand *candidate, ownLabels labels.Set) (used bool, known string) {
	everywhere := c.spaces[anywhere]
	asks := func(name string, by maker) {
		if known == "" && cand.in.made[name]&by != 0 {
			known = name
		}
	}
	random := hashed.MatchString(cand.name)
	for name, within := range parts(cand.name) {
		by := cand.in.made[name]
		if by&workload != 0 && !random && known == "" {
			known = name
		}
		by |= everywhere.made[name]
		if by&operator != 0 || by&statefulSet != 0 && within && cand.kind.Kind == claimKind {
			return true, ""
		}
	}
	if first, _, _ := strings.Cut(cand.name, "-"); !random {
		asks(first, part)
	}
	for _, key := range products {
		asks(ownLabels[key], workload)
	}
	return false, known
}

// hashed is the end of a name with a hash of the content, by Kustomize. No program knows it.
var hashed = regexp.MustCompile("-[bcdfghkmt2456789]{10}$")

// placeholder is what a class replaces by the name of a claim, or by an annotation of it.
var placeholder = regexp.MustCompile(`\$\{[^}]*\}`)

// scanTemplates notes the names of Secrets that a StorageClass or VolumeSnapshotClass makes from
// claims: ${pvc.name}. Both are cluster-scoped, so that no tenant writes them.
func (c *Candidates) scanTemplates(kind schema.GroupKind, object map[string]any) {
	if namespace, _ := identity(object); namespace != "" || !strings.HasSuffix(kind.Kind, "Class") {
		return
	}
	for key, value := range mapIn(object, "parameters") {
		text, _ := value.(string)
		key = strings.ToLower(key)
		if !strings.Contains(key, "secret") || strings.HasSuffix(key, "namespace") || !placeholder.MatchString(text) {
			continue
		}
		var fixed []string
		for _, piece := range placeholder.Split(text, -1) {
			fixed = append(fixed, regexp.QuoteMeta(piece))
		}
		c.templates = append(c.templates, regexp.MustCompile("^"+strings.Join(fixed, ".+")+"$"))
	}
}

// parts are the parts of a name that dots and dashes separate, alone and together, and whether the
// name goes on before and after them.
func parts(name string) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		ends := []int{}
		for i := range len(name) {
			if name[i] == '-' || name[i] == '.' {
				ends = append(ends, i)
			}
		}
		ends = append(ends, len(name))
		start := 0
		for i, next := range ends {
			for _, end := range ends[i:] {
				if !yield(name[start:end], start > 0 && end < len(name)) {
					return
				}
			}
			start = next + 1
		}
	}
}
