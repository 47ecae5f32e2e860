package coverage

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"curfew.dev/curfew/controller/registry"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
)

// subject is one kind: where in its objects what concerns Curfew can stand.
type subject struct {
	*policy.Profile
	schema *expression.Schema
	// typed kinds are those of Kubernetes itself: their objects have the shape of their Go types.
	typed bool
	// coarse conditions ask less.
	coarse bool
	// fields concern Curfew where they are there on CREATE, and where they change: native TTLs, and forbidden fields.
	fields []policy.FieldPath
	// deadlines concern Curfew where they change, and on CREATE where something bounds them.
	deadlines []policy.FieldPath
	// inherited leads to metadata that other objects get: that of templates, and what the kind's controller copies.
	inherited []policy.FieldPath
	// runtime is where a new object names what may give it a default deadline; nil where nothing does.
	runtime policy.FieldPath
}

// newSubject is a kind that a CustomResourceDefinition serves.
func newSubject(kind *registry.Served) *subject {
	out := &subject{Profile: kind.Profile.Profile, schema: kind.Schema}
	out.addProfile()
	out.add(&out.fields, kind.TTL...)
	out.add(&out.deadlines, kind.Deadline...)
	for _, forbidden := range kind.Forbidden {
		out.add(&out.fields, forbidden.Path)
	}
	if kind.Runtime != nil && kind.RuntimeDeadline && out.HasDeadline() && out.schema.Has(kind.Runtime.NamePath()) {
		out.runtime = kind.Runtime.NamePath()
	}
	return out
}

// typedSubject is a kind of Kubernetes itself.
func typedSubject(profile *policy.Profile) *subject {
	out := &subject{Profile: profile, typed: true}
	out.addProfile()
	return out
}

func (s *subject) addProfile() {
	s.add(&s.fields, s.TTL, s.TTLSucceeded, s.TTLFailed)
	s.add(&s.deadlines, s.Deadline)
	s.addPodTemplates(nil, s.Profile)
	s.add(&s.inherited, s.InheritedMetadata...)
	for _, template := range s.Templates {
		inner := template.Profile
		s.add(&s.inherited, template.Path.Child("metadata"))
		for _, path := range []policy.FieldPath{inner.TTL, inner.TTLSucceeded, inner.TTLFailed} {
			s.add(&s.fields, below(template.Path, path))
		}
		s.add(&s.deadlines, below(template.Path, inner.Deadline))
		s.addPodTemplates(template.Path, inner)
	}
}

// rawTTL is a field that a Pod does not have. Kinds that keep unknown fields in their pod templates may carry it.
var rawTTL = policy.FieldPath{"spec", policy.JobProfile.TTL[len(policy.JobProfile.TTL)-1]}

func (s *subject) addPodTemplates(prefix policy.FieldPath, profile *policy.Profile) {
	for _, path := range profile.PodTemplates {
		path = below(prefix, path)
		s.add(&s.inherited, below(path, policy.FieldPath{"metadata"}))
		if !s.typed {
			s.add(&s.fields, below(path, rawTTL))
		}
	}
}

// below is a path that begins where a prefix ends; nil where there is no path.
func below(prefix, path policy.FieldPath) policy.FieldPath {
	if path == nil {
		return nil
	}
	return prefix.Child(path...)
}

// add leaves out what the installed version of the kind cannot have, and what is there already.
func (s *subject) add(to *[]policy.FieldPath, paths ...policy.FieldPath) {
	for _, path := range paths {
		known := slices.ContainsFunc(*to, func(other policy.FieldPath) bool { return slices.Equal(other, path) })
		if path != nil && !known && s.schema.Has(path) {
			*to = append(*to, path)
		}
	}
}

// object is the whole object.
func (s *subject) object() node {
	return node{is: "object", was: "old", typed: s.typed, schema: s.schema}
}

// either joins conditions of which one has to hold.
func either(conditions []string) string { return strings.Join(conditions, " ||\n") }

// keysDiffer asks whether a request adds, changes or removes a key of Curfew's on the object itself.
var keysDiffer = keyed(metadata(node{is: "object", was: "old"}.field("metadata")), objectKeys)

// ownKey asks the same, alone.
var ownKey = versus(keysDiffer)

// maxCondition is how long a condition of one kind may become. The API server takes ever longer to compile longer ones, and takes
// none at all of more than 100,000 characters, nor a configuration with one.
const maxCondition = 8000

// touched asks whether a new object says something that concerns Curfew, or an update changes it, in any namespace. Where that would
// take too much asking, every new object is sent, and every update of anything but metadata and status.
func (s *subject) touched() string {
	all := &places{}
	all.at(policy.FieldPath{"metadata"}).own = true
	for _, path := range s.inherited {
		all.at(path).inherited = true
	}
	for _, path := range s.fields {
		all.at(path).value = true
	}
	terms := all.differ(s.object())
	if len(s.deadlines) > 0 {
		terms = append(terms, "request.operation != \"CREATE\" && (\n"+indent(s.deadlinesDiffer())+")")
	}
	out := versus(either(terms))
	if len(out) > maxCondition || s.coarse {
		return "request.operation == \"CREATE\" ||\nobject.?metadata.?generation != oldObject.?metadata.?generation ||\n" + ownKey
	}
	return out
}

// mayBeDefaulted asks, wherever an object is created, whether it may be given a default without any namespace or policy: it carries a key of
// Curfew's, or uses a runtime, which may have a deadline.
func (s *subject) mayBeDefaulted() admissionv1.MatchCondition {
	if s.runtime == nil {
		return carries(ownKey)
	}
	uses := &places{}
	uses.at(s.runtime).value = true
	return concerns(versus(either(append([]string{keysDiffer}, uses.differ(s.object())...))))
}

// deadlinesDiffer asks for deadlines where old is the old object.
func (s *subject) deadlinesDiffer() string {
	all := &places{}
	for _, path := range s.deadlines {
		all.at(path).value = true
	}
	return either(all.differ(s.object()))
}

// bounded asks whether a new object has a deadline, or an update changes it.
func (s *subject) bounded() string {
	return limited(versus(s.deadlinesDiffer()))
}

// mayGetDefault asks whether a new object may be given a default: nothing that a controller owns is, and no Pod that never ends
// (policy.NoDefault). Without it a policy for Pods would have every Pod of every Deployment sent.
func (s *subject) mayGetDefault() string {
	owned := `o.?controller.orValue(false) == true`
	if s.Kind.GroupKind() == policy.JobProfile.Kind.GroupKind() {
		owned += ` && o.?kind.orValue("") != "CronJob"`
	}
	// Of more owners than that each would have to be looked at.
	out := `[object.?metadata.?ownerReferences.orValue([])].exists(owners, size(owners) > ` + strconv.Itoa(maxItems) + ` || !owners.exists(o, ` + owned + `))`
	if s.Kind.GroupKind() == policy.PodProfile.Kind.GroupKind() {
		out += ` && object.?spec.?restartPolicy.orValue("Always") != "Always"`
	}
	return out
}

// rule is the kind in a webhook's rules.
func (s *subject) rule(operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	scope := admissionv1.NamespacedScope
	if s.ClusterScoped {
		scope = admissionv1.ClusterScope
	}
	return admissionv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionv1.Rule{
			APIGroups: []string{s.Kind.Group}, APIVersions: []string{s.Kind.Version}, Resources: []string{s.Resource}, Scope: &scope,
		},
	}
}

// maxName leaves room for what else stands in the name of a webhook, which has at most 253 characters.
const maxName = 200

// name is the kind in the names of webhooks.
func (s *subject) name() string {
	if s.coarse {
		return "kinds"
	}
	name := s.Resource + "." + cmp.Or(s.Kind.Group, "core")
	if len(name) > maxName {
		sum := sha256.Sum256([]byte(name))
		name = s.Resource + "." + hex.EncodeToString(sum[:8])
	}
	return name
}
