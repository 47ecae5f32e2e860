package webhookconfig

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/wellknown"
)

const isCreated = `request.operation == "CREATE"`

// ownKeysDiffer asks whether a request adds, changes or removes a Curfew key on the object itself,
// where old is the old object.
var ownKeysDiffer = keysDiffer(metadata(node{now: "object", old: "old"}.field("metadata")), objectKeys)

// ownKeyChanged asks the same in a condition of its own.
var ownKeyChanged = withOld(ownKeysDiffer)

// maxCondition bounds the length of one kind's condition. The API server takes ever longer to
// compile longer ones, and refuses a configuration with one of more than 100,000 characters.
const maxCondition = 8000

// anyOf joins conditions.
func anyOf(conditions []string) string { return strings.Join(conditions, " ||\n") }

// allOf makes one condition of several. The API server evaluates every condition of a webhook, but
// within one expression it stops at the first that is false. An error counts as before: beside a
// condition that is false it does not matter.
func allOf(name string, conditions ...admissionv1.MatchCondition) admissionv1.MatchCondition {
	terms := make([]string, 0, len(conditions))
	for _, condition := range conditions {
		terms = append(terms, "// "+condition.Name+"\n(\n"+indent(condition.Expression)+"\n)")
	}
	return admissionv1.MatchCondition{Name: name, Expression: strings.Join(terms, " &&\n")}
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }

// limited returns a condition, or one that always holds where that is too long for the API server.
func limited(condition string) string {
	if len(condition) > maxCondition {
		return "true"
	}
	return condition
}

// touched asks whether a new object says something that concerns Curfew, or an update changes it,
// in any namespace. If that would be too long, every new object is sent, and every update of more
// than metadata and status.
func (k *kind) touched() string {
	terms := k.differ(true, k.inherited, k.fields...)
	if len(k.deadlines) > 0 {
		terms = append(terms, "request.operation != \"CREATE\" && (\n"+indent(k.deadlinesDiffer())+")")
	}
	out := withOld(anyOf(terms))
	if len(out) > maxCondition || k.coarse {
		return isCreated + " ||\nobject.?metadata.?generation != oldObject.?metadata.?generation ||\n" + ownKeyChanged
	}
	return out
}

// workloadTouched asks the same of workloads that run forever, in whichever of two places a kind
// has its pod template.
var workloadTouched = withOld(ownKeysDiffer + " ||\n" + keysDiffer(slices.Concat(
	metadata(node{now: "object", old: "old"}.field("spec").field("template").field("metadata")),
	metadata(node{now: "object", old: "old"}.field("template").field("metadata"))), quoted(wellknown.TemplateKeys)))

// mayBeDefaulted asks whether a new object may get a default without any namespace or policy: it
// carries a Curfew key, or uses a runtime, which may have a deadline.
func (k *kind) mayBeDefaulted() admissionv1.MatchCondition {
	if k.runtime == nil {
		return admissionv1.MatchCondition{Name: "carries-a-curfew-key", Expression: ownKeyChanged}
	}
	return concerns(withOld(anyOf(append([]string{ownKeysDiffer}, k.differ(false, nil, k.runtime)...))))
}

// deadlinesDiffer asks whether a deadline changes, where old is the old object.
func (k *kind) deadlinesDiffer() string { return anyOf(k.differ(false, nil, k.deadlines...)) }

// deadlineChanged asks whether a new object has a deadline, or an update changes it.
func (k *kind) deadlineChanged() string { return limited(withOld(k.deadlinesDiffer())) }

// mayGetDefault asks whether resolution.NoDefault lets a new object have a default: no object with
// a controller owner, and no Pod that never ends. Without it a policy for Pods would send every Pod
// of every Deployment.
func (k *kind) mayGetDefault() string {
	owned := `o.?controller.orValue(false) == true`
	if k.Kind.GroupKind() == policy.JobProfile.Kind.GroupKind() {
		owned += ` && o.?kind.orValue("") != "CronJob"`
	}
	// An object with more owners than maxItems is sent, since looking at each would cost too much.
	out := `[object.?metadata.?ownerReferences.orValue([])].exists(owners, size(owners) > ` + strconv.Itoa(maxItems) +
		` || !owners.exists(o, ` + owned + `))`
	if k.Kind.GroupKind() == policy.PodProfile.Kind.GroupKind() {
		out += ` && object.?spec.?restartPolicy.orValue("Always") != "Always"`
	}
	return out
}

// mayChangeDefault asks whether the object of an update carries the stamp of a default, or of a
// deadline that Curfew may have copied, or loses a TTL, which is filled in again.
func (k *kind) mayChangeDefault() string {
	const had, lost = "oldObject.?metadata.?annotations[?k].hasValue()", "!object.?metadata.?annotations[?k].hasValue()"
	terms := []string{
		fmt.Sprintf("oldObject.?metadata.?annotations[?%q].orValue(%q) != %[2]q", wellknown.AnnotationTTLSource, lifetime.LevelObject),
		fmt.Sprintf("oldObject.?metadata.?annotations[?%q].hasValue()", wellknown.AnnotationDeadlineSource),
		quoted(wellknown.TTLAnnotations) + ".exists(k, " + had + " && " + lost + ")",
	}
	for _, path := range []fieldpath.FieldPath{k.TTL, k.TTLSucceeded, k.TTLFailed} {
		if path != nil && k.schema.Has(path) {
			field := node{now: "object", old: "oldObject"}
			for _, name := range path {
				field = field.field(name)
			}
			terms = append(terms, field.old+".hasValue() && !"+field.now+".hasValue()")
		}
	}
	return anyOf(terms)
}

func concerns(expression string) admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: "concerns-curfew", Expression: expression}
}

// node is a field in CEL, in the requested and the old state of an object. Both are plain values,
// or optionals that are empty where the field is absent.
//
// An expression that fails counts as "do not call", or as a denial where validation fails closed.
// Optional selection only fails on a list, so the type is asked wherever the schema does not
// promise a list or a map.
//
// optMap and optFlatMap are macros that repeat their target: a chain of them takes the API server
// endless time and memory to compile. Many comprehensions in a row take it the square of their
// number. So neither is used.
//
// Evaluation costs the same however much an object holds (S9): keys are looked up, lists are walked
// up to a limit, and only scalars are compared. Objects beyond a limit are sent.
type node struct {
	now, old string
	// typed objects have the shape of their Go types.
	typed bool
	// schema of the field; nil if it is unknown.
	schema *expression.Schema
	// depth is the number of lists around the field, whose variables need different names.
	depth int
}

// reserved names of CEL cannot be selected with a dot.
var reserved = []string{"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
	"namespace", "null", "package", "return", "true", "var", "void", "while"}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// field selects a field by name.
func (n node) field(name string) node {
	step := ".?" + name
	if !identifier.MatchString(name) || slices.Contains(reserved, name) {
		step = "[?" + quote(name) + "]"
	}
	return node{now: n.now + step, old: n.old + step, typed: n.typed, schema: n.schema.At(name), depth: n.depth}
}

// withOld lets a condition compare the object with old, which is empty on CREATE, so that
// everything is new then. It also declares the lists that the condition uses, which would otherwise
// be repeated in it.
func withOld(condition string) string {
	out := "[request.operation == \"CREATE\" ? {} : oldObject].exists(old,\n" + indent(condition) + ")"
	for _, list := range []struct{ name, text string }{
		{objectKeys, quoted(wellknown.ObjectKeys)}, {"few", listOf(maxInnerItems, strconv.Itoa)}, {"many", listOf(maxItems, strconv.Itoa)},
	} {
		if strings.Contains(condition, list.name+".exists(") {
			out = "[" + list.text + "].exists(" + list.name + ",\n" + out + ")"
		}
	}
	return out
}

// maxItems and maxInnerItems bound how many items of a list, and of a list within an item, a
// condition looks at.
const (
	maxItems      = 32
	maxInnerItems = 8
)

// anyItem asks whether a condition holds for an item of a list, compared with the old item at the
// same index. A list that is too long counts as one that does.
func (n node) anyItem(condition func(node) string) string {
	limit, indexes, depth := maxItems, "many", ""
	if n.depth > 0 {
		limit, indexes, depth = maxInnerItems, "few", strconv.Itoa(n.depth+1)
	}
	lists, index := "l"+depth, "i"+depth
	list := func(text string) string {
		if n.typed || n.schema.Shape() == expression.ShapeList {
			return text + ".orValue([])"
		}
		return "type(" + text + ".orValue(null)) == list ? " + text + ".value() : []"
	}
	item := n
	item.now, item.old, item.schema, item.depth = lists+"[0][?"+index+"]", lists+"[1][?"+index+"]", n.schema.At("*"), n.depth+1
	return fmt.Sprintf("[[%s, %s]].exists(%s, size(%[3]s[0]) > %[4]d || size(%[3]s[1]) > %[4]d ||\n"+
		"  %[5]s.exists(%[6]s, (%[6]s < size(%[3]s[0]) || %[6]s < size(%[3]s[1])) && (%[7]s)))",
		list(n.now), list(n.old), lists, limit, indexes, index, condition(item))
}

// pairs lists the new and old values of fields.
func pairs(fields []node) string {
	texts := make([]string, 0, len(fields))
	for _, field := range fields {
		texts = append(texts, "["+field.now+", "+field.old+"]")
	}
	return strings.Join(texts, ",\n  ")
}

// objectKeys are the keys by which an object concerns Curfew, as [withOld] declares them.
const objectKeys = "keys"

// metadata returns the maps of keys in an object's or template's metadata.
func metadata(n node) []node { return []node{n.field("annotations"), n.field("labels")} }

// keysDiffer asks whether a request adds, changes or removes one of the keys in one of the maps. A
// value that is not a string is never compared, since it can have any size.
func keysDiffer(maps []node, keys string) string {
	return "[\n  " + pairs(maps) + "\n].exists(pair, [pair.map(m, type(m.orValue(null)) == map ? m.value() : {})].exists(m,\n  " +
		keys + ".exists(k,\n" +
		"    k in m[0] ? !(k in m[1]) || type(m[0][k]) != string || m[0][k] != m[1][k] : k in m[1])))"
}

// valuesDiffer asks whether one of several fields changes. A list or map in a field that need not
// be a scalar counts as a change, since it can have any size.
func valuesDiffer(fields []node) []string {
	var out []string
	var open []node
	for _, field := range fields {
		if field.typed || field.schema.Shape() == expression.ShapeScalar {
			out = append(out, field.now+" != "+field.old)
		} else {
			open = append(open, field)
		}
	}
	if len(open) > 0 {
		out = append(out, "["+pairs(open)+"].exists(f, type(f[0].orValue(null)) == list || type(f[0].orValue(null)) == map || f[0] != f[1])")
	}
	return out
}

// listOf is a list in CEL.
func listOf(length int, item func(index int) string) string {
	out := make([]string, length)
	for i := range out {
		out[i] = item(i)
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// quoted is a list of strings in CEL.
func quoted(texts []string) string {
	return listOf(len(texts), func(i int) string { return quote(texts[i]) })
}

// quote writes a string as CEL reads it, which has the escapes of Go.
func quote(text string) string { return strconv.Quote(text) }

// paths is a tree of field paths, so that a condition walks what they share only once.
type paths struct {
	// own marks the object's metadata, and inherited the metadata of a template in it: their keys
	// concern Curfew. value marks a field.
	own, inherited, value bool
	below                 map[string]*paths
}

// differ returns terms that ask whether a request changes one of several fields, one of the object's
// own keys, or one of the keys of inherited metadata. A nil path is left out.
func (k *kind) differ(own bool, inherited []fieldpath.FieldPath, fields ...fieldpath.FieldPath) []string {
	all := &paths{}
	all.at(fieldpath.FieldPath{"metadata"}).own = own
	for _, path := range inherited {
		all.at(path).inherited = true
	}
	for _, path := range fields {
		if path != nil {
			all.at(path).value = true
		}
	}
	return all.differ(node{now: "object", old: "old", typed: k.typed, schema: k.schema})
}

// at returns the node of a path.
func (p *paths) at(path fieldpath.FieldPath) *paths {
	for _, part := range path {
		if p.below == nil {
			p.below = map[string]*paths{}
		}
		if p.below[part] == nil {
			p.below[part] = &paths{}
		}
		p = p.below[part]
	}
	return p
}

// differ returns terms that ask whether a request changes one of the paths. One of them has to be
// true.
func (p *paths) differ(n node) []string {
	var found found
	p.collect(n, &found)
	var terms []string
	if len(found.own) > 0 {
		terms = append(terms, keysDiffer(found.own, objectKeys))
	}
	if len(found.inherited) > 0 {
		terms = append(terms, keysDiffer(found.inherited, "("+objectKeys+" + "+quoted([]string{wellknown.LabelKyvernoTTL})+")"))
	}
	return slices.Concat(terms, found.lists, valuesDiffer(found.values))
}

// found groups nodes that one term can ask about together.
type found struct {
	own, inherited, values []node
	lists                  []string
}

func (p *paths) collect(n node, found *found) {
	if p.own {
		found.own = append(found.own, metadata(n)...)
	}
	if p.inherited {
		found.inherited = append(found.inherited, metadata(n)...)
	}
	if p.value {
		found.values = append(found.values, n)
	}
	for _, part := range slices.Sorted(maps.Keys(p.below)) {
		below := p.below[part]
		if part == "*" {
			found.lists = append(found.lists, n.anyItem(func(item node) string { return strings.Join(below.differ(item), " || ") }))
			continue
		}
		below.collect(n.field(part), found)
	}
}
