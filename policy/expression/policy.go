package expression

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Policy is a compiled LifecyclePolicy. It is safe for concurrent use.
type Policy struct {
	Name string
	// Generation of the object that was compiled.
	Generation int64
	Priority   int32
	// Action is what happens to an object outside the bounds.
	Action v1alpha1.Action
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
	// Bounds, each with its source. One that cannot be read has an error.
	Bounds policy.Bounds
	// latestUnreadable is the latest date if it is not a date; else nil.
	latestUnreadable *policy.Setting

	match                  match
	ttl, succeeded, failed *value
	deadline, label        *value
	source                 policy.Source
	asksNamespace          bool
	readsNamespace         bool
	readsRuntime           bool
	matchAsksRuntime       bool
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
		Action:     cmp.Or(spec.Action, v1alpha1.ActionDeny),
		Backfill:   spec.Backfill,
		Hash:       DefaultsHash(object),
		source:     policy.Source{Level: policy.LevelPolicy, Name: object.Name},
		match:      c.match(path.Child("match"), &spec.Match, &errs),
	}
	out.matchAsksRuntime = c.reads(varRuntime)
	if at, hash, ok := policy.ParseSince(object.Status.DefaultSince); ok && hash == out.Hash {
		out.Since = at
	}
	if defaults := spec.Defaults; defaults != nil {
		at := path.Child("defaults")
		out.ttl = c.ttlValue(at.Child("ttl"), defaults.TTL, &errs)
		out.succeeded = c.ttlValue(at.Child("ttlSucceeded"), defaults.TTLSucceeded, &errs)
		out.failed = c.ttlValue(at.Child("ttlFailed"), defaults.TTLFailed, &errs)
		out.deadline = c.durationValue(at.Child("deadline"), defaults.Deadline, &errs)
		out.label = c.labelValue(at.Child("ttlLabel"), defaults.TTLLabel, &errs)
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
		if out.WarnBelow, err = policy.ParseDuration(string(*spec.WarnBelow)); err != nil {
			errs = append(errs, field.Invalid(path.Child("warnBelow"), string(*spec.WarnBelow), err.Error()))
		}
	}
	return out, errs
}

func (p *Policy) bounds(path *field.Path, spec *v1alpha1.Bounds, errs *field.ErrorList) {
	if spec == nil {
		return
	}
	bound := func(name string, text *v1alpha1.Duration, result Result) *policy.Setting {
		if text == nil {
			return nil
		}
		at := path.Child(name)
		setting := &policy.Setting{Path: at.String(), Source: p.source, Text: string(*text)}
		setting.TTL, setting.Err = parseTTL(setting.Text, false)
		if setting.Err == nil && result == ResultDuration {
			setting.Err = checkDeadline(setting.TTL.After)
		}
		if setting.Err != nil {
			*errs = append(*errs, field.Invalid(at, setting.Text, setting.Err.Error()))
		}
		return setting
	}
	p.Bounds = policy.Bounds{
		TTL:      policy.Range{Min: bound("minTTL", spec.MinTTL, ResultTTL), Max: bound("maxTTL", spec.MaxTTL, ResultTTL)},
		Deadline: policy.Range{Min: bound("minDeadline", spec.MinDeadline, ResultDuration), Max: bound("maxDeadline", spec.MaxDeadline, ResultDuration)},
	}
	for _, pair := range p.Bounds.Contradictions() {
		*errs = append(*errs, field.Invalid(field.NewPath(pair.Low.Path), pair.Low.Text, pair.At(pair.Low)))
	}
	if spec.LatestDate != nil {
		day, err := time.Parse(time.DateOnly, *spec.LatestDate)
		if err != nil {
			at := path.Child("latestDate")
			*errs = append(*errs, field.Invalid(at, *spec.LatestDate, "use a date such as 2026-12-31"))
			p.latestUnreadable = &policy.Setting{Path: at.String(), Source: p.source, Text: *spec.LatestDate,
				Err: fmt.Errorf("%q is no date: use one such as 2026-12-31", policy.Shorten(*spec.LatestDate))}
			return
		}
		p.LatestDate = day.Add(24*time.Hour - time.Second)
	}
}

// Concerns reports whether the policy can match objects of a kind.
func (p *Policy) Concerns(kind schema.GroupKind) bool { return p.match.concerns(kind) }

// ConstantTTLs are the default TTLs that are not expressions.
func (p *Policy) ConstantTTLs() []*policy.Setting {
	var out []*policy.Setting
	for _, v := range []*value{p.ttl, p.succeeded, p.failed} {
		if v != nil && v.constant != nil {
			out = append(out, v.constant)
		}
	}
	return out
}

// ConstantLabel is the default TTL label, unless it is an expression; else nil.
func (p *Policy) ConstantLabel() *policy.Setting {
	if p.label == nil {
		return nil
	}
	return p.label.constant
}

// Bounding has the bounds of the policy in a namespace, whatever the object; nil where it has none
// there. A policy that may not match all objects of its kinds only warns.
func (p *Policy) Bounding(namespace *policy.NamespacePolicy) *policy.PlatformPolicy {
	if p.Bounds == (policy.Bounds{}) || !p.match.namespaces.Matches(labels.Set(namespace.Labels)) {
		return nil
	}
	some := p.match.err != nil || !p.match.labels.Empty() || len(p.match.conditions) > 0
	return &policy.PlatformPolicy{Name: p.Name, Bounds: p.Bounds, WarnOnly: some || p.Action == v1alpha1.ActionWarn}
}

// For evaluates the policy for one object and reports whether it matches. Variables hold the
// object, its namespace (only its metadata is used) and its runtime.
//
// The errors are those of evaluating, for the condition Ready and for metrics; each is also in the
// result. If the match cannot be evaluated, every setting of the policy becomes an error in the
// result: the object is kept (S6), and no request is denied.
func (p *Policy) For(ctx context.Context, facts *policy.Facts, variables *Variables) (*policy.PlatformPolicy, bool, []error) {
	if len(p.match.kinds) == 0 && facts.Profile.Unknown {
		// Every kind with a profile, and this has none: it is given nothing. The bounds hold for
		// the labels of all kinds.
		bounds, _, errs := LabelBounds(ctx, []*Policy{p}, facts, variables, true)
		if len(bounds) == 0 {
			return nil, false, nil
		}
		return bounds[0], true, errs
	}
	matched, err := p.match.holds(ctx, facts, variables)
	if err != nil {
		err = p.failure(err)
		said := p.unusable(err)
		if !p.givesLabel(facts.Profile) {
			said.Label = nil
		}
		return said, true, []error{err}
	}
	if !matched {
		return nil, false, nil
	}
	out := &policy.PlatformPolicy{
		Name: p.Name, Bounds: p.Bounds, Since: p.Since, Backfill: p.Backfill,
		WarnOnly: p.Action == v1alpha1.ActionWarn, WarnBelow: p.WarnBelow,
		LatestDate: p.LatestDate, LatestUnreadable: p.latestUnreadable,
		TTL: policy.TTLSet{
			All:       p.ttl.setting(ctx, p.source, variables),
			Succeeded: p.succeeded.setting(ctx, p.source, variables),
			Failed:    p.failed.setting(ctx, p.source, variables),
		},
		Deadline: p.deadline.setting(ctx, p.source, variables),
	}
	if p.givesLabel(facts.Profile) {
		out.Label = p.Label(ctx, variables)
	}
	var errs []error
	for _, setting := range append(out.TTL.Settings(), out.Deadline, out.Label) {
		if setting != nil && setting.Err != nil {
			errs = append(errs, p.failure(fmt.Errorf("%s: %w", setting.Path, setting.Err)))
		}
	}
	return out, true, errs
}

// givesLabel reports whether the policy may give objects of a kind its TTL label. Kinds that never
// finish must be named: a label for all kinds is not meant for the Deployments of the cluster.
// Kinds without a profile are never sent to admission for a default.
func (p *Policy) givesLabel(profile *policy.Profile) bool {
	return profile.Finishable() || !profile.Unknown && !profile.Unchanging() && p.match.names(profile.Kind.GroupKind())
}

// Label is the TTL label that the policy gives to an object that it matches; nil where it gives
// none. The setting has Text and, if the label cannot be computed, Err.
func (p *Policy) Label(ctx context.Context, variables *Variables) *policy.Setting {
	if p.label == nil || p.label.constant != nil {
		if p.label == nil {
			return nil
		}
		return p.label.constant
	}
	text, err := p.label.program.Label(ctx, variables)
	if err == nil && text == "" {
		return nil
	}
	return &policy.Setting{Path: p.label.path, Source: p.source, Text: text, Err: err}
}

// PolicyError is an evaluation of a policy that failed for one object, which is kept for that
// reason.
type PolicyError struct {
	// Policy and Generation identify the policy.
	Policy     string
	Generation int64
	// Err names the field and the reason.
	Err error
}

// Error names the policy, the field and why.
func (e *PolicyError) Error() string { return fmt.Sprintf("policy %q: %v", e.Policy, e.Err) }

// Unwrap returns the reason.
func (e *PolicyError) Unwrap() error { return e.Err }

func (p *Policy) failure(err error) error {
	return &PolicyError{Policy: p.Name, Generation: p.Generation, Err: err}
}

// unusable has err in the place of everything that the policy sets.
func (p *Policy) unusable(err error) *policy.PlatformPolicy {
	in := func(path string) *policy.Setting { return &policy.Setting{Path: path, Source: p.source, Err: err} }
	out := &policy.PlatformPolicy{Name: p.Name, Since: p.Since, Backfill: p.Backfill, WarnOnly: p.Action == v1alpha1.ActionWarn}
	if p.ttl != nil || p.succeeded != nil || p.failed != nil {
		out.TTL.All = in("spec.match")
	}
	if p.deadline != nil {
		out.Deadline = in("spec.match")
	}
	if !p.LatestDate.IsZero() || p.latestUnreadable != nil {
		out.LatestUnreadable = in("spec.bounds.latestDate")
	}
	if p.label != nil {
		out.Label = in("spec.match")
	}
	out.Bounds = p.Bounds
	for _, bound := range []**policy.Setting{&out.Bounds.TTL.Min, &out.Bounds.TTL.Max, &out.Bounds.Deadline.Min, &out.Bounds.Deadline.Max} {
		if *bound != nil {
			*bound = in((*bound).Path)
		}
	}
	return out
}

// Sort puts policies in the order of precedence: the highest priority first, equals by name.
func Sort(policies []*Policy) {
	slices.SortFunc(policies, func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
	})
}
