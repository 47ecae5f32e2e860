package coverage

import (
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"curfew.dev/curfew/policy"
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
	all := &paths{}
	all.at(fieldpath.FieldPath{"metadata"}).own = true
	for _, path := range k.inherited {
		all.at(path).inherited = true
	}
	for _, path := range k.fields {
		all.at(path).value = true
	}
	terms := all.differ(k.object())
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
	uses := &paths{}
	uses.at(k.runtime).value = true
	return concerns(withOld(anyOf(append([]string{ownKeysDiffer}, uses.differ(k.object())...))))
}

// ttlChanges asks whether a request sets, changes or removes a Curfew key on a runtime, or its TTL.
func (k *kind) ttlChanges() string {
	all := &paths{}
	all.at(fieldpath.FieldPath{"metadata"}).own = true
	for _, path := range k.ttls {
		all.at(path).value = true
	}
	return withOld(anyOf(all.differ(k.object())))
}

// deadlinesDiffer asks whether a deadline changes, where old is the old object.
func (k *kind) deadlinesDiffer() string {
	all := &paths{}
	for _, path := range k.deadlines {
		all.at(path).value = true
	}
	return anyOf(all.differ(k.object()))
}

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
	out := `[object.?metadata.?ownerReferences.orValue([])].exists(owners, size(owners) > ` + strconv.Itoa(maxItems) + ` || !owners.exists(o, ` + owned + `))`
	if k.Kind.GroupKind() == policy.PodProfile.Kind.GroupKind() {
		out += ` && object.?spec.?restartPolicy.orValue("Always") != "Always"`
	}
	return out
}

// wasDefaulted asks whether the object of an update carries the stamp of a default, which a changed
// value removes.
const wasDefaulted = `["` + wellknown.AnnotationTTLSource + `", "` + wellknown.AnnotationDeadlineSource + `"].exists(k,
  oldObject.?metadata.?annotations[?k].orValue("` + string(lifetime.LevelObject) + `") != "` + string(lifetime.LevelObject) + `")`

// valueChanges asks whether an update changes a Curfew key on the object, or a native field that
// may hold a default.
func (k *kind) valueChanges() string {
	all := &paths{}
	all.at(fieldpath.FieldPath{"metadata"}).own = true
	for _, path := range []fieldpath.FieldPath{k.TTL, k.TTLSucceeded, k.TTLFailed, k.Deadline} {
		if path != nil {
			all.at(path).value = true
		}
	}
	return withOld(anyOf(all.differ(k.object())))
}

func concerns(expression string) admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: "concerns-curfew", Expression: expression}
}
