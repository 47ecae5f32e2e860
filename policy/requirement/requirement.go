package requirement

import (
	_ "embed" // of fields.txt
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Origin marks the errors of [Unmet], for the reason of condition Ready.
const Origin = "requirement"

//go:embed fields.txt
var text string

// Known is the table of this version.
var Known = sync.OnceValue(func() *Table {
	out, err := Parse(text)
	if err != nil {
		return &Table{newest: first} // A test parses the text. A table that knows nothing holds everything (S6).
	}
	return out
})

// Table lists which fields and values of each kind a version of Curfew knows.
type Table struct {
	// since is the first version that knows a field, by kind and path. The path of a value is
	// path=value, that of a map with any keys path.*, and path= marks a field with listed values.
	since map[string]map[string]*version.Version
	// newest is the version of the newest field.
	newest *version.Version
}

// first is the first version that holds an object for a newer one. Older versions ignore records.
var first = version.MustParseSemantic("v0.1.0")

// Parse reads lines of a kind, a path and a version.
func Parse(text string) (*Table, error) {
	out := &Table{since: map[string]map[string]*version.Version{}, newest: first}
	for line := range strings.Lines(text) {
		parts := strings.Fields(line)
		if len(parts) != 3 {
			return nil, fmt.Errorf("%q is not a kind, a path and a version", line)
		}
		since, err := version.ParseSemantic(parts[2])
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		if out.since[parts[0]] == nil {
			out.since[parts[0]] = map[string]*version.Version{}
		}
		out.since[parts[0]][parts[1]] = since
		if path, _, value := strings.Cut(parts[1], "="); value {
			out.since[parts[0]][path+"="] = since
		}
		if out.newest.LessThan(since) {
			out.newest = since
		}
	}
	return out, nil
}

// found are the fields and values of a spec, with the first version that knows each. It is nil for
// what this version does not know.
type found map[string]*version.Version

func (t *Table) find(kind string, object map[string]any) found {
	out := found{}
	if spec, ok := object["spec"]; ok {
		out.add(t.since[kind], "spec", spec)
	}
	return out
}

// add adds a field, and everything below it.
func (f found) add(since map[string]*version.Version, path string, value any) {
	if f[path] = since[path]; since[path] == nil || since[path+".*"] != nil {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for name, child := range value {
			f.add(since, path+"."+name, child)
		}
	case []any:
		for _, item := range value {
			f.add(since, path+"[*]", item)
		}
	case string:
		if since[path+"="] != nil && value != "" {
			f.add(since, path+"="+value, nil)
		}
	}
}

// unknown explains why each field that this version does not know stops it.
func (f found) unknown() map[string]string {
	out := map[string]string{}
	for path, since := range f {
		if since == nil {
			out[path] = "this version of Curfew does not know it and would run without it: upgrade Curfew, or remove it"
		}
	}
	return out
}

// Unknown returns the fields and values of a spec that this version does not know.
func Unknown(kind string, object map[string]any) field.ErrorList {
	return refused(Known().find(kind, object).unknown())
}

// Unmet is [Table.Unmet] for the fields that this version knows.
func Unmet(kind string, object map[string]any) field.ErrorList { return Known().Unmet(kind, object) }

// Record is [Table.Record] for the fields that this version knows.
func Record(kind string, object map[string]any) *metav1.Condition {
	return Known().Record(kind, object)
}

// Unmet returns what an object of one of Curfew's kinds needs and this version does not have. The
// object must then not run (S6).
func (t *Table) Unmet(kind string, object map[string]any) field.ErrorList {
	all, had := t.find(kind, object), recordOf(object)
	why := all.unknown()
	switch {
	case had == nil:
	case had.needs == nil:
		why["status.conditions"] = fmt.Sprintf("condition %s cannot be read: upgrade Curfew, or delete the object and create it again",
			v1alpha1.ConditionRequires)
	case t.newest.LessThan(had.needs):
		for _, path := range had.paths {
			// A change of the spec does not end this: it need not be a decision about a field that an
			// older CustomResourceDefinition hides.
			why[path] = fmt.Sprintf("it needs Curfew v%s, and this version would run without it: upgrade Curfew, "+
				"or delete the object and create it without it", had.needs)
		}
	case had.current:
		for _, path := range had.paths {
			if _, has := all[path]; !has {
				why[path] = "an older CustomResourceDefinition has dropped it from the spec: apply the object again, " +
					"or change the spec to run without it"
			}
		}
	}
	return refused(why)
}

func refused(why map[string]string) (errs field.ErrorList) {
	for _, path := range slices.Sorted(maps.Keys(why)) {
		errs = append(errs, field.Forbidden(field.NewPath(quote.Shorten(path)), why[path]).WithOrigin(Origin))
	}
	return errs
}

// Record returns the condition that tells an older Curfew which fields newer than the first version
// a spec uses, and the version that knows all of them. It is nil if nothing has to be written.
func (t *Table) Record(kind string, object map[string]any) *metav1.Condition {
	had := recordOf(object)
	out := &metav1.Condition{Type: v1alpha1.ConditionRequires, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNewerFields}
	out.ObservedGeneration, _, _ = unstructured.NestedInt64(object, "metadata", "generation")
	if len(t.Unmet(kind, object)) > 0 {
		if had == nil || had.current || had.needs == nil || !t.newest.LessThan(had.needs) {
			return nil
		}
		// The spec was changed since. Otherwise the newer version would take the loss for a decision.
		out.Message = had.message
		return out
	}
	needs, paths, all := first, []string{}, t.find(kind, object)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if since := all[path]; first.LessThan(since) {
			paths = append(paths, path)
			if needs.LessThan(since) {
				needs = since
			}
		}
	}
	out.Message = fmt.Sprintf("v%s: %s", needs, strings.Join(paths, ", "))
	switch {
	case len(paths) == 0 && had == nil, had != nil && had.current && had.message == out.Message:
		return nil
	case len(paths) == 0:
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, v1alpha1.ReasonNoNewerFields, "every version knows all fields"
	}
	return out
}

// record is condition Requires. Its message is like "v0.2.0: spec.one, spec.other".
type record struct {
	message string
	paths   []string
	// needs is the version that knows the paths; nil if the message cannot be read.
	needs *version.Version
	// current reports whether the record is about the generation that the object has.
	current bool
}

// recordOf is the record that an object has; nil if there is none.
func recordOf(object map[string]any) *record {
	conditions, _, _ := unstructured.NestedFieldNoCopy(object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, item := range list {
		condition, _ := item.(map[string]any)
		if condition["type"] != v1alpha1.ConditionRequires || condition["status"] != string(metav1.ConditionTrue) {
			continue
		}
		generation, _, _ := unstructured.NestedInt64(object, "metadata", "generation")
		observed, _ := condition["observedGeneration"].(int64)
		out := &record{current: observed == generation}
		out.message, _ = condition["message"].(string)
		needs, paths, _ := strings.Cut(out.message, ": ")
		if paths != "" {
			out.paths = strings.Split(paths, ", ")
			out.needs, _ = version.ParseSemantic(needs)
		}
		return out
	}
	return nil
}
