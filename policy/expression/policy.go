package expression

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/quote"
	"curfew.dev/curfew/policy/requirement"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Policy is a compiled LifecyclePolicy. It is safe for concurrent use.
type Policy struct {
	Name string
	// Generation of the object that was compiled.
	Generation int64
	Priority   int32
	// Mode selects how the defaults and bounds apply.
	Mode resolution.Mode
	// WarnBelow is the TTL under which authors are warned; zero where the policy sets none.
	WarnBelow time.Duration
	// LatestDate is the last instant that a TTL label may name, the end of the day in UTC; zero
	// means no bound.
	LatestDate time.Time
	// Hash of the inputs of the defaults, and Since when they apply to objects that bypassed
	// admission; zero if the status does not have it, or has it for other defaults.
	Hash  string
	Since time.Time
	// Backfill lets the defaults reach older objects.
	Backfill bool
	// Propagation of deletions; "" where the policy sets none, or is in dry-run.
	Propagation metav1.DeletionPropagation
	// Bounds, each with its source. One that cannot be read has an error.
	Bounds lifetime.Bounds
	// latestUnreadable is the latest date if it is not a date; else nil.
	latestUnreadable *lifetime.Setting
	// protect denies the annotation that protects objects; else nil.
	protect *lifetime.Setting

	match                  match
	ttl, succeeded, failed *value
	deadline, label        *value
	source                 lifetime.Source
	asksNamespace          bool
	readsNamespace         bool
	readsRuntime           bool
	matchAsksRuntime       bool
}

// modes of a LifecyclePolicy. Absent means Enforce, which the schema fills in.
var modes = map[v1alpha1.PolicyMode]resolution.Mode{
	"": resolution.ModeEnforce, v1alpha1.PolicyEnforce: resolution.ModeEnforce,
	v1alpha1.PolicyWarn: resolution.ModeWarn, v1alpha1.PolicyDryRun: resolution.ModeDryRun,
}

// Policy compiles a LifecyclePolicy. The result is usable in spite of errors: a part that cannot be
// used means keep (S6).
func (c *Compiler) Policy(object *v1alpha1.LifecyclePolicy) (*Policy, field.ErrorList) {
	c = c.forObject()
	var errs field.ErrorList
	spec, path := &object.Spec, field.NewPath("spec")
	out := &Policy{
		Name:       object.Name,
		Generation: object.Generation,
		Priority:   spec.Priority,
		Mode:       modes[spec.Mode],
		Backfill:   spec.Backfill,
		Hash:       DefaultsHash(object),
		source:     lifetime.Source{Level: lifetime.LevelPolicy, Name: object.Name},
		match:      c.match(path.Child("match"), &spec.Match, &errs),
	}
	if out.Mode == "" { // The schema allows no such mode. In dry-run the policy deletes nothing (S6).
		out.Mode = resolution.ModeDryRun
		errs = append(errs, field.NotSupported(path.Child("mode"), spec.Mode, slices.Sorted(maps.Keys(modes))[1:]))
	}
	if out.Mode != resolution.ModeDryRun {
		out.Propagation = spec.PropagationPolicy
	}
	out.matchAsksRuntime = c.reads(varRuntime)
	if since := object.Status.Defaults; since != nil && since.Hash == out.Hash {
		out.Since = since.SinceTime.Time
		if created := object.CreationTimestamp.Time; out.Since.Before(created) {
			out.Since = created // Someone else wrote it: a default reaches nothing older than its policy (S6).
		}
	}
	if defaults := spec.Defaults; defaults != nil {
		child := path.Child("defaults")
		out.ttl = c.ttlValue(child.Child("ttl"), defaults.TTL, &errs)
		out.succeeded = c.ttlValue(child.Child("ttlSucceeded"), defaults.TTLSucceeded, &errs)
		out.failed = c.ttlValue(child.Child("ttlFailed"), defaults.TTLFailed, &errs)
		out.deadline = c.durationValue(child.Child("deadline"), defaults.Deadline, &errs)
		out.label = c.labelValue(child.Child("ttlLabel"), defaults.TTLLabel, &errs)
		for _, v := range []*value{out.ttl, out.succeeded, out.failed, out.deadline, out.label} {
			if v != nil && v.constant != nil {
				v.constant.Source = out.source
			}
		}
	}
	out.readsNamespace, out.readsRuntime = c.reads(varNamespaceObject), c.reads(varRuntime)
	out.asksNamespace = !out.match.namespaces.Empty() || out.readsNamespace
	out.bounds(path.Child("bounds"), spec.Bounds, &errs)
	if spec.WarnBelow != nil {
		var err error
		if out.WarnBelow, err = lifetime.ParseDuration(string(*spec.WarnBelow)); err != nil {
			errs = append(errs, field.Invalid(path.Child("warnBelow"), string(*spec.WarnBelow), err.Error()))
		}
	}
	return out, errs
}

// ReadPolicy is [Compiler.Policy] for a LifecyclePolicy in its JSON form. Objects that it may match
// are left as they are if it needs a newer Curfew.
func (c *Compiler) ReadPolicy(object map[string]any) (*v1alpha1.LifecyclePolicy, *Policy, field.ErrorList) {
	typed := &v1alpha1.LifecyclePolicy{}
	held := readInto(typed, "LifecyclePolicy", object)
	out, errs := c.Policy(typed)
	out.match.err = errors.Join(out.match.err, held.ToAggregate())
	return typed, out, append(errs, held...)
}

// readInto decodes an object of one of Curfew's kinds, and returns why this version cannot use it.
func readInto(typed any, kind string, object map[string]any) field.ErrorList {
	held := requirement.Unmet(kind, object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed); err != nil {
		held = append(held, field.Invalid(field.NewPath("spec"), field.OmitValueType{}, err.Error()))
	}
	return held
}

func (p *Policy) bounds(path *field.Path, spec *v1alpha1.Bounds, errs *field.ErrorList) {
	if spec == nil {
		return
	}
	bound := func(name string, text *v1alpha1.Duration, result Result) *lifetime.Setting {
		if text == nil {
			return nil
		}
		child := path.Child(name)
		setting := &lifetime.Setting{Path: child.String(), Source: p.source, Text: string(*text)}
		setting.TTL, setting.Err = parseTTL(setting.Text, false)
		if setting.Err == nil && result == ResultDuration {
			setting.Err = checkDeadline(setting.TTL.After)
		}
		if setting.Err != nil {
			*errs = append(*errs, field.Invalid(child, setting.Text, setting.Err.Error()))
		}
		return setting
	}
	p.Bounds = lifetime.Bounds{
		TTL:   lifetime.Range{Min: bound("minTTL", spec.MinTTL, ResultTTL), Max: bound("maxTTL", spec.MaxTTL, ResultTTL)},
		Label: lifetime.Range{Min: bound("minTTLLabel", spec.MinTTLLabel, ResultTTL), Max: bound("maxTTLLabel", spec.MaxTTLLabel, ResultTTL)},
		Deadline: lifetime.Range{
			Min: bound("minDeadline", spec.MinDeadline, ResultDuration), Max: bound("maxDeadline", spec.MaxDeadline, ResultDuration),
		},
	}
	for _, pair := range p.Bounds.Contradictions() {
		*errs = append(*errs, field.Invalid(field.NewPath(pair.Low.Path), pair.Low.Text, pair.At(pair.Low)))
	}
	if spec.Protect != "" { // The schema allows no other value than Deny.
		p.protect = &lifetime.Setting{Path: path.Child("protect").String(), Source: p.source, Text: string(spec.Protect)}
	}
	if spec.LatestDate != nil {
		day, err := time.Parse(time.DateOnly, *spec.LatestDate)
		if err != nil {
			child := path.Child("latestDate")
			*errs = append(*errs, field.Invalid(child, *spec.LatestDate, "use a date such as 2026-12-31"))
			p.latestUnreadable = &lifetime.Setting{Path: child.String(), Source: p.source, Text: *spec.LatestDate,
				Err: fmt.Errorf("%q is not a date: use one such as 2026-12-31", quote.Shorten(*spec.LatestDate))}
			return
		}
		p.LatestDate = day.Add(24*time.Hour - time.Second)
	}
}

// Concerns reports whether the policy can match objects of a kind.
func (p *Policy) Concerns(kind schema.GroupKind) bool { return p.match.concerns(kind) }

// GivesTTL reports whether the policy has a default TTL after finished.
func (p *Policy) GivesTTL() bool { return p.ttl != nil || p.succeeded != nil || p.failed != nil }

// GivesDeadline reports whether the policy has a default deadline.
func (p *Policy) GivesDeadline() bool { return p.deadline != nil }

// ConstantTTLs are the default TTLs that are not expressions.
func (p *Policy) ConstantTTLs() []*lifetime.Setting {
	var out []*lifetime.Setting
	for _, v := range []*value{p.ttl, p.succeeded, p.failed} {
		if v != nil && v.constant != nil {
			out = append(out, v.constant)
		}
	}
	return out
}

// ConstantLabel is the default TTL label, unless it is an expression; else nil.
func (p *Policy) ConstantLabel() *lifetime.Setting {
	if p.label == nil {
		return nil
	}
	return p.label.constant
}

// Bounding has the bounds of the policy in a namespace, whatever the object; nil where it has none
// there. A policy that may not match all objects of its kinds warns instead of rejecting.
func (p *Policy) Bounding(namespace *resolution.NamespacePolicy) *resolution.PlatformPolicy {
	if p.Bounds == (lifetime.Bounds{}) && p.protect == nil || !p.match.namespaces.Matches(labels.Set(namespace.Labels)) {
		return nil
	}
	out := &resolution.PlatformPolicy{Name: p.Name, Bounds: p.Bounds, Mode: p.Mode, Protect: p.protect}
	if some := p.match.err != nil || !p.match.labels.Empty() || len(p.match.conditions) > 0; some && p.Mode == resolution.ModeEnforce {
		out.Mode = resolution.ModeWarn
	}
	return out
}

// Sort puts policies in the order of precedence: the highest priority first, equals by name.
func Sort(policies []*Policy) {
	slices.SortFunc(policies, func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
}

// AsksNamespace reports whether the policy depends on more of an object's namespace than its name.
func (p *Policy) AsksNamespace() bool { return p.asksNamespace }

// ReadsNamespace reports whether an expression of the policy reads the namespace of an object.
func (p *Policy) ReadsNamespace() bool { return p.readsNamespace }

// ReadsRuntime reports whether an expression of the policy reads the runtime of an object.
func (p *Policy) ReadsRuntime() bool { return p.readsRuntime }

// MatchAsksRuntime reports whether the policy's match depends on the runtime of an object.
func (p *Policy) MatchAsksRuntime() bool { return p.matchAsksRuntime }

// VariesIn reports whether the policy may match, or set, something else for each object of a kind
// in a namespace.
func (p *Policy) VariesIn(namespace *resolution.NamespacePolicy) bool {
	if !p.match.namespaces.Matches(labels.Set(namespace.Labels)) {
		return false
	}
	computed := func(v *value) bool { return v != nil && v.constant == nil }
	return p.match.err != nil || !p.match.labels.Empty() || len(p.match.conditions) > 0 ||
		slices.ContainsFunc([]*value{p.ttl, p.succeeded, p.failed, p.deadline, p.label}, computed)
}

// DefaultsHash is a short hash of everything that decides which object gets which default: the
// defaults, the bounds that clamp them, the match, the priority, and whether the mode is DryRun. It
// is "" for a policy without defaults.
func DefaultsHash(object *v1alpha1.LifecyclePolicy) string {
	if object.Spec.Defaults == nil {
		return ""
	}
	decides := v1alpha1.LifecyclePolicySpec{
		Match: object.Spec.Match, Defaults: object.Spec.Defaults, Bounds: object.Spec.Bounds, Priority: object.Spec.Priority,
	}
	if object.Spec.Mode == v1alpha1.PolicyDryRun {
		// What was created in the meantime is older than the defaults once they apply (S6).
		decides.Mode = object.Spec.Mode
	}
	text, err := json.Marshal(&decides)
	if err != nil {
		// Plain data always marshals. If it ever did not, no hash fits, and the defaults reach
		// nothing older (S6).
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// StampPolicy says what status.defaults of a policy must be now; nil for a policy without defaults.
// One whose hash fits is kept. One that does not, or is in the future, or before the policy's
// creation, becomes now, so that a new default never reaches older objects (S6).
func StampPolicy(object *v1alpha1.LifecyclePolicy, now time.Time) *v1alpha1.DefaultsStatus {
	hash, stands := DefaultsHash(object), object.Status.Defaults
	if created := object.CreationTimestamp.Time; now.Before(created) {
		now = created // API servers differ by a second.
	}
	switch {
	case hash == "":
		return nil
	case stands != nil && stands.Hash == hash && !stands.SinceTime.IsZero() &&
		!stands.SinceTime.After(now) && !stands.SinceTime.Time.Before(object.CreationTimestamp.Time):
		return stands
	default:
		return &v1alpha1.DefaultsStatus{SinceTime: metav1.NewTime(now.UTC().Truncate(time.Second)), Hash: hash}
	}
}

// maxMessage is the longest message of a condition that the API server accepts.
const maxMessage = 32768

// Ready is the condition that shows whether a generation of a policy or profile can be used: the
// errors of its compilation, or else of its evaluation. The caller sets lastTransitionTime, for
// instance by meta.SetStatusCondition.
func Ready(generation int64, compiling field.ErrorList, evaluating []error) metav1.Condition {
	condition := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, ObservedGeneration: generation,
		Reason: v1alpha1.ReasonAccepted, Message: "everything can be used",
	}
	var lines []string
	switch {
	case len(compiling) > 0:
		condition.Reason = v1alpha1.ReasonInvalidField
		for _, err := range compiling {
			switch err.Origin {
			case originExpression:
				condition.Reason = v1alpha1.ReasonInvalidExpression
			case requirement.Origin:
				condition.Reason = v1alpha1.ReasonNeedsNewerVersion
			}
			// Without the value: an expression is long, and stands in the spec.
			lines = append(lines, err.Field+": "+err.Detail)
		}
	case len(evaluating) > 0:
		condition.Reason = v1alpha1.ReasonEvaluationFailed
		for _, err := range evaluating {
			lines = append(lines, err.Error())
		}
	default:
		return condition
	}
	condition.Status = metav1.ConditionFalse
	condition.Message = strings.Join(lines, "; ")
	if runes := []rune(condition.Message); len(runes) > maxMessage {
		condition.Message = string(runes[:maxMessage-1]) + "…"
	}
	return condition
}

func (c *Compiler) match(path *field.Path, spec *v1alpha1.Match, errs *field.ErrorList) match {
	out := match{kinds: spec.Kinds}
	out.namespaces = selector(path.Child("namespaceSelector"), spec.NamespaceSelector, &out, errs)
	out.labels = selector(path.Child("objectSelector"), spec.ObjectSelector, &out, errs)
	for i := range spec.MatchConditions {
		source := string(spec.MatchConditions[i].Expression)
		child := path.Child("matchConditions").Index(i).Child("expression")
		compiled := condition{name: spec.MatchConditions[i].Name}
		if compiled.program, compiled.err = c.Compile(source, ScopePolicy, ResultBool); compiled.err != nil {
			*errs = append(*errs, invalidExpression(child, source, compiled.err))
		}
		out.conditions = append(out.conditions, compiled)
	}
	return out
}

// ConcernsLabels reports whether the policy bounds TTL labels, or sets the propagation of
// deletions.
func (p *Policy) ConcernsLabels() bool {
	return p.Propagation != "" || p.Bounds.Label != (lifetime.Range{}) || !p.LatestDate.IsZero() || p.latestUnreadable != nil
}

// NeedsWhole reports whether it takes more of an object than its metadata to know the bounds that
// policies set for its TTL label, or whether one of them gave the object its label.
func NeedsWhole(policies []*Policy) bool {
	return slices.ContainsFunc(policies, func(p *Policy) bool {
		return p.ConcernsLabels() && p.NeedsObject() || p.HasLabel() && (p.NeedsObject() || p.ComputesLabel())
	})
}

// NeedsObject reports whether the policy's match needs more of an object than its metadata.
func (p *Policy) NeedsObject() bool { return len(p.match.conditions) > 0 }

// NotLabelled are the kinds that the policy names and gives no TTL label to, although it has one.
func (p *Policy) NotLabelled() []schema.GroupKind {
	var out []schema.GroupKind
	for _, named := range p.match.kinds {
		kind := schema.GroupKind{Group: named.Group, Kind: named.Kind}
		if p.label != nil && (policy.EssentialKind(kind) || policy.UnchangingKind(kind)) {
			out = append(out, kind)
		}
	}
	return out
}

// HasLabel reports whether the policy has a default TTL label.
func (p *Policy) HasLabel() bool { return p.label != nil }

// ComputesLabel reports whether an expression computes the policy's TTL label.
func (p *Policy) ComputesLabel() bool { return p.label != nil && p.label.program != nil }
