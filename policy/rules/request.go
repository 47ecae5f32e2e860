package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/fieldpath"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Operation is the operation of the request.
type Operation string

// The operations that admission reviews.
const (
	Create Operation = "CREATE"
	Update Operation = "UPDATE"
)

// User is who makes the request.
type User struct {
	Name string
}

// IsPerson reports whether the user is a person, judging by the name: not a service account, a node
// or another part of the system.
func (u User) IsPerson() bool {
	return !strings.HasPrefix(u.Name, "system:") || u.Name == "system:admin"
}

// Options are the settings of the rules.
type Options struct {
	// WarnBelow is the TTL under which authors are warned; zero means DefaultWarnBelow.
	WarnBelow time.Duration
	// RequireDelete is --require-delete: only users who may delete an object may set a TTL on it.
	RequireDelete bool
	// StrictLabels is --strict-labels: an unreadable TTL label is denied instead of warned about.
	StrictLabels bool
	// WarnExpiredLabels is --expired-labels=warn: a TTL label that is expired when it is set is
	// warned about instead of denied.
	WarnExpiredLabels bool
	// KyvernoLabel is --kyverno-label: label cleanup.kyverno.io/ttl is judged like curfew.dev/ttl,
	// on objects without the latter.
	KyvernoLabel bool
	// ControllerUser is the user name of Curfew's controller, the only one who may write
	// curfew.dev/finished-at.
	ControllerUser string
	// ControllerAccounts is --controller-accounts: controllers besides those that profiles name. See
	// [Request.ByController].
	ControllerAccounts []string
	// Controller are the settings that keep the controller from deleting objects.
	Controller judging.Surroundings
}

// ttlLabel is the label by which an object expires, and its value.
func (o Options) ttlLabel(facts *policy.Facts) (key, text string, ok bool) {
	if text, ok = facts.Labels[wellknown.LabelTTL]; ok || !o.KyvernoLabel {
		return wellknown.LabelTTL, text, ok
	}
	text, ok = facts.Labels[wellknown.LabelKyvernoTTL]
	return wellknown.LabelKyvernoTTL, text, ok
}

// DefaultWarnBelow is the TTL under which authors are warned that logs and status will be deleted
// before they look.
const DefaultWarnBelow = time.Minute

func (o Options) warnBelow() time.Duration { return cmp.Or(o.WarnBelow, DefaultWarnBelow) }

// unlessRequired is the severity of a TTL whose author may not delete the objects.
func (o Options) unlessRequired() Severity {
	if o.RequireDelete {
		return Deny
	}
	return Warn
}

// Request is one change to one object, with the object's context. Old is nil on CREATE.
type Request struct {
	Operation   Operation
	User        User
	Object, Old map[string]any
	Facts       *policy.Facts
	OldFacts    *policy.Facts
	Scope       *resolution.Scope
	// Filled is the scope of a new object before admission filled in its defaults, where other
	// policies match it now.
	Filled *resolution.Scope
	// Outer returns the policies whose bounds apply in a namespace: to anything for the review of a
	// Namespace, to the objects that use it for that of a runtime, to Pods for that of a Job. Nil
	// means none.
	Outer func(*resolution.NamespacePolicy) []*resolution.PlatformPolicy
	// Below returns the policies whose bounds apply in a namespace to objects of a kind, for what
	// controllers create from templates. Nil means none.
	Below     func(schema.GroupKind) func(*resolution.NamespacePolicy) []*resolution.PlatformPolicy
	Effective *resolution.Effective
	Access    Access
	Reached   Reached
	Options   Options
	// Now is the instant of the request; zero if there is none, so that nothing is expired.
	Now time.Time

	attested bool
	// forged are the stamps of a new object that admission did not write.
	forged []string
	// protect are the policies that deny the protection of objects of a kind.
	protect map[schema.GroupKind][]*resolution.PlatformPolicy
	report
}

// attest reads a new object as admission must: a deletionTimestamp means nothing, since the API
// server drops it, and a stamp that Curfew did not write is ignored.
func (r *Request) attest() {
	if r.Operation != Create || r.attested {
		return
	}
	facts, forged := resolution.Attested(r.Facts, r.Scope, r.Filled)
	created := *facts
	created.Deleting, created.DeletingSince = false, time.Time{}
	r.Facts, r.forged, r.attested = &created, forged, true
}

// Subject is an object that a rule checks, or a template of one inside another object.
type Subject struct {
	*Request
	*policy.Facts
	Object map[string]any
	// Prefix leads from the root of the object to the template; empty for the object itself.
	Prefix string
	// Inherited means that TTL keys in the metadata of the template are denied, so that other rules
	// skip them.
	Inherited bool
}

// IsTemplate reports whether the subject is a template inside another object.
func (s *Subject) IsTemplate() bool { return s.Prefix != "" }

func (s *Subject) path(field string) string {
	if s.Prefix == "" {
		return field
	}
	return s.Prefix + "." + field
}

// deny and warn make findings about a field of the subject.
func (s *Subject) deny(field, value, message string) *Finding {
	return s.report.deny(s.path(field), value, message)
}

func (s *Subject) warn(field, value, message string) *Finding {
	return s.report.warn(s.path(field), value, message)
}

// within names the namespace of an object, as the end of a phrase.
func within(facts *policy.Facts) string {
	if facts.Namespace == "" {
		return ""
	}
	return fmt.Sprintf(" in namespace %q", facts.Namespace)
}

// subjects are the object of a request, old or new, and the templates inside it.
func (r *Request) subjects(facts *policy.Facts, object map[string]any) []*Subject {
	out := []*Subject{{Request: r, Facts: facts, Object: object}}
	for _, template := range facts.Profile.Templates {
		metadata := template.Path.Child("metadata")
		same := func(path fieldpath.FieldPath) bool { return slices.Equal(path, metadata) }
		inherited := slices.ContainsFunc(facts.Profile.InheritedMetadata, same)
		template.Path.Walk(object, func(path string, value any) {
			inner, ok := value.(map[string]any)
			if !ok {
				return
			}
			templated := policy.FactsOfObject(template.Profile, inner)
			templated.Namespace = facts.Namespace
			out = append(out, &Subject{Request: r, Facts: templated, Object: inner, Prefix: path, Inherited: inherited})
		})
	}
	return out
}

// byController reports whether Curfew's own controller sent the request.
func (r *Request) byController() bool {
	return r.Options.ControllerUser != "" && r.User.Name == r.Options.ControllerUser
}

// Answer is the result of an access review.
type Answer uint8

// The answers. Unknown is the zero value: there was no review, and there will be none. Later means
// that the review got no answer this time.
const (
	Unknown Answer = iota
	Yes
	No
	Later
)

// Access has the results of access reviews about deleting the object. Rules have no client: the
// edge asks if [SetsLifetime] or [ProtectionDeniedBy] returns something.
type Access struct {
	// User is whether the user who makes the request may delete the object.
	User Answer
	// Controller is whether Curfew's controller may delete it.
	Controller Answer
	// Also has the answers about [Lifetime.Also], or nil.
	Also *Access
	// Policies are whether the user may update the LifecyclePolicies of [ProtectionDeniedBy], by name.
	Policies map[string]Answer
}

// Reached is how many finished objects a runtime's TTL reaches by backfill. Rules have no client:
// the edge counts if [Backfills] says so.
type Reached struct {
	// Known is false if the edge did not count.
	Known bool
	Count int
	// More means that there may be more than Count.
	More bool
}

// filledInBy is the source of the TTL of a new object: its author, unless a stamp that Curfew wrote
// names a default or a runtime.
func filledInBy(facts *policy.Facts) lifetime.Source {
	return lifetime.ParseSource(facts.Annotations[wellknown.AnnotationTTLSource])
}

// warnBelow is the value of the first policy that sets one, else the flag.
func (s *Subject) warnBelow() time.Duration {
	if s.Scope != nil {
		for _, platformPolicy := range s.Scope.Policies {
			if platformPolicy.WarnBelow > 0 {
				return platformPolicy.WarnBelow
			}
		}
	}
	return s.Options.warnBelow()
}

// protecting returns the policies that deny the protection of objects of a kind in the request's
// namespace. An object can have tens of thousands of templates: each kind is looked up once (S9).
func (r *Request) protecting(kind schema.GroupKind) []*resolution.PlatformPolicy {
	if r.Below == nil || r.Scope.Namespace == nil {
		return nil
	}
	out, ok := r.protect[kind]
	if !ok {
		silent := func(p *resolution.PlatformPolicy) bool { return p.Protect == nil }
		out = slices.DeleteFunc(r.Below(kind)(r.Scope.Namespace), silent)
		if r.protect == nil {
			r.protect = map[schema.GroupKind][]*resolution.PlatformPolicy{}
		}
		r.protect[kind] = out
	}
	return out
}
