package policy_test

import (
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

var configMap = &policy.Profile{Name: "ConfigMap", Kind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}

// labelled is an object that was created an hour before noon, with labels.
func labelled(profile *policy.Profile, pairs ...string) *policy.Facts {
	meta := metav1.ObjectMeta{Namespace: "ci", Name: "a", UID: "u", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)), Labels: map[string]string{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		meta.Labels[pairs[i]] = pairs[i+1]
	}
	facts := policy.FactsOfMeta(profile, &meta)
	return &facts
}

func TestJudgeLabel(t *testing.T) {
	latest := func(p resolution.PlatformPolicy) *resolution.Scope {
		return &resolution.Scope{Policies: []*resolution.PlatformPolicy{&p}}
	}
	for name, row := range map[string]struct {
		label  string // of curfew.dev/ttl; "" for none
		alias  string // of Kyverno's
		key    string // which of them is asked; curfew.dev/ttl unless it says so
		change func(*policy.Facts)
		scope  *resolution.Scope
		in     time.Duration // from noon; 0 with action Keep
		action policy.Action
		reason string
		err    string
		dry    bool
	}{
		"not yet":           {label: "90m", in: 30 * time.Minute, action: policy.Wait},
		"now":               {label: "60m", action: policy.Delete},
		"long ago":          {label: "1m", in: -59 * time.Minute, action: policy.Delete},
		"a date":            {label: "2026-12-25", in: 12 * time.Hour, action: policy.Wait},
		"an instant":        {label: "2026-12-24T120001Z", in: time.Second, action: policy.Wait},
		"before it existed": {label: "2020-01-01", reason: "its TTL label cannot be used", err: "2020-01-01 expired before the object was created: use a later one"},
		"the second of it":  {label: "2026-12-24T110000Z", reason: "its TTL label cannot be used", err: "expired before the object was created"},
		"a second later":    {label: "2026-12-24T110001Z", in: -time.Hour + time.Second, action: policy.Delete},
		"zero":              {label: "0", reason: "its TTL label cannot be used", err: "0s expired before the object was created"},
		"none":              {reason: "has no TTL label"},
		"unreadable":        {label: "soon", reason: "its TTL label cannot be used", err: `metadata.labels[curfew.dev/ttl]: "soon" is neither`},
		"below a minute":    {label: "59s", in: -time.Hour + 59*time.Second, action: policy.Delete},
		"bare seconds":      {label: "5400", in: 30 * time.Minute, action: policy.Wait},
		"no whole second":   {label: "0.0000000000001h", reason: "its TTL label cannot be used", err: "is not a whole number of seconds"},
		"protected": {label: "1m", reason: "is protected by annotation curfew.dev/protect",
			change: func(f *policy.Facts) { f.Annotations = annotated("protect", "true") }},
		"protected by something unreadable": {label: "1m", reason: "is protected by annotation curfew.dev/protect",
			change: func(f *policy.Facts) { f.Annotations = annotated("protect", "ja") }},
		"not protected": {label: "60m", action: policy.Delete, change: func(f *policy.Facts) { f.Annotations = annotated("protect", "false") }},
		"being deleted": {label: "1m", reason: "is being deleted already", change: func(f *policy.Facts) { f.Deleting = true }},
		"Curfew's own kind": {label: "1m", reason: "is part of Curfew", err: "metadata.labels[curfew.dev/ttl]: Curfew never deletes a LifecyclePolicy: remove the label", change: func(f *policy.Facts) {
			f.Profile = &policy.Profile{Kind: schema.GroupVersionKind{Group: "curfew.dev", Version: "v1alpha1", Kind: "LifecyclePolicy"}}
		}},
		"Curfew's own kind, by the alias": {alias: "1m", key: wellknown.LabelKyvernoTTL, reason: "is part of Curfew", err: "metadata.labels[cleanup.kyverno.io/ttl]: Curfew never", change: func(f *policy.Facts) {
			f.Profile = &policy.Profile{Kind: schema.GroupVersionKind{Group: "curfew.dev", Version: "v1alpha1", Kind: "LifecyclePolicy"}}
		}},
		"Curfew's own kind, no label": {reason: "is part of Curfew", change: func(f *policy.Facts) {
			f.Profile = &policy.Profile{Kind: schema.GroupVersionKind{Group: "curfew.dev", Version: "v1alpha1", Kind: "LifecyclePolicy"}}
		}},
		"the definition of one": {label: "1m", reason: "is part of Curfew", change: func(f *policy.Facts) {
			f.Profile = &policy.Profile{Kind: schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}}
			f.Name = "lifecyclepolicies.curfew.dev"
		}},
		"another kind": {label: "60m", action: policy.Delete, change: func(f *policy.Facts) {
			f.Profile = &policy.Profile{Kind: schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}}
			f.Name = "things.notcurfew.dev"
		}},
		"no creation":         {label: "1m", reason: "its TTL label cannot be used", err: "use a date", change: func(f *policy.Facts) { f.Created = time.Time{} }},
		"no creation, a date": {label: "2026-12-24", in: -12 * time.Hour, action: policy.Delete, change: func(f *policy.Facts) { f.Created = time.Time{} }},
		"created in future":   {label: "1m", in: 61 * time.Minute, action: policy.Wait, change: func(f *policy.Facts) { f.Created = noon.Add(time.Hour) }},
		"not accounted for": {label: "1m", reason: "its Job has not accounted for it yet", change: func(f *policy.Facts) {
			f.Profile, f.Finalizers = policy.PodProfile, []string{wellknown.FinalizerJobTracking}
		}},
		"no Pod, a finalizer":  {label: "60m", action: policy.Delete, change: func(f *policy.Facts) { f.Finalizers = []string{wellknown.FinalizerJobTracking} }},
		"owned":                {label: "60m", action: policy.Delete, change: func(f *policy.Facts) { owner := controlledBy(true); f.Owner = &owner }},
		"above max-ttl":        {label: "60m", scope: &resolution.Scope{Namespace: namespaceOf("max-ttl", "30m")}, reason: "its TTL label cannot be used", err: `1h is above curfew.dev/max-ttl 30m of namespace "ci": use 30m or less`},
		"below min-ttl":        {label: "60m", scope: &resolution.Scope{Namespace: namespaceOf("min-ttl", "2h")}, reason: "its TTL label cannot be used", err: `1h is below curfew.dev/min-ttl 2h of namespace "ci": use 2h or more`},
		"max-ttl unreadable":   {label: "60m", scope: &resolution.Scope{Namespace: namespaceOf("max-ttl", "x")}, reason: "its TTL label cannot be used", err: "cannot be read"},
		"within bounds":        {label: "60m", scope: &resolution.Scope{Namespace: namespaceOf("max-ttl", "1h", "min-ttl", "1h")}, action: policy.Delete},
		"default-ttl":          {scope: &resolution.Scope{Namespace: namespaceOf("default-ttl", "1m")}, reason: "has no TTL label"},
		"dry-run":              {label: "60m", scope: &resolution.Scope{Namespace: namespaceOf("mode", "dry-run")}, action: policy.Delete, dry: true},
		"after the last day":   {label: "2026-12-24", scope: latest(resolution.PlatformPolicy{Name: "p", LatestDate: noon.Add(-24 * time.Hour)}), reason: "its TTL label cannot be used", err: `2026-12-24 is after latestDate 2026-12-23 of policy "p"`},
		"the last day unknown": {label: "60m", scope: latest(resolution.PlatformPolicy{Name: "p", LatestUnreadable: &lifetime.Setting{Path: "spec.bounds.latestDate", Err: errors.New("odd")}}), reason: "its TTL label cannot be used", err: "latestDate cannot be read: odd"},
		"warned only":          {label: "60m", scope: latest(resolution.PlatformPolicy{Mode: resolution.ModeWarn, LatestDate: noon.Add(-24 * time.Hour)}), action: policy.Delete},

		"alias":                     {alias: "60m", key: wellknown.LabelKyvernoTTL, action: policy.Delete},
		"alias, in Kyverno's words": {alias: "2mins", key: wellknown.LabelKyvernoTTL, in: -58 * time.Minute, action: policy.Delete},
		"alias, unreadable":         {alias: "5400", key: wellknown.LabelKyvernoTTL, reason: "its TTL label cannot be used", err: `metadata.labels[cleanup.kyverno.io/ttl]: "5400" is neither`},
		"alias is not enabled":      {alias: "1m", reason: "has no TTL label"},
		"alias beside the label":    {alias: "1m", label: "2h", key: wellknown.LabelKyvernoTTL, reason: "label curfew.dev/ttl decides"},
		"alias beside a bad label":  {alias: "1m", label: "soon", key: wellknown.LabelKyvernoTTL, reason: "label curfew.dev/ttl decides"},
		"the label beside an alias": {alias: "1m", label: "2h", in: time.Hour, action: policy.Wait},
	} {
		t.Run(name, func(t *testing.T) {
			facts := labelled(configMap)
			if row.label != "" {
				facts.Labels[wellknown.LabelTTL] = row.label
			}
			if row.alias != "" {
				facts.Labels[wellknown.LabelKyvernoTTL] = row.alias
			}
			if row.change != nil {
				row.change(facts)
			}
			if row.scope == nil {
				row.scope = &resolution.Scope{}
			}
			if row.key == "" {
				row.key = wellknown.LabelTTL
			}
			got := judging.JudgeLabel(facts, row.key, row.scope, noon)
			if got.Action != row.action || got.Reason != row.reason || got.DryRun != row.dry ||
				(got.Err != nil) != (row.err != "") || got.Err != nil && !strings.Contains(got.Err.Error(), row.err) {
				t.Errorf("got %+v", got)
			}
			if row.action != policy.Keep && (!got.Expiry.Equal(noon.Add(row.in)) || got.Trigger != policy.TriggerLabel || got.Source.Level != lifetime.LevelObject) {
				t.Errorf("expiry %s by %s from %s, want %s", got.Expiry, got.Trigger, got.Source, noon.Add(row.in))
			}
		})
	}
}

// S6: whatever stands in the label, an object is deleted no sooner than its value says, exactly;
// what cannot be read keeps it.
func TestAnyLabelKeepsAsLongAsItSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(
			rapid.StringMatching(`[0-9]{0,11}[mhdsw]?([0-9]{1,11}[mhd])?`),
			rapid.StringMatching(`-?[0-9.]{1,4}[a-zA-Z]?`),
			rapid.StringMatching(`[0-9]?\.[0-9]{1,20}[hdw]`),
			rapid.StringMatching(`[a-zA-Z0-9]([-a-zA-Z0-9_.]{0,61}[a-zA-Z0-9])?`),
			rapid.Just(""),
		).Draw(t, "label")
		facts := labelled(configMap, wellknown.LabelTTL, text)
		verdict := judging.JudgeLabel(facts, wellknown.LabelTTL, &resolution.Scope{}, noon)
		if verdict.Action == policy.Keep {
			if verdict.Err == nil {
				t.Fatalf("%q keeps the object without a report", text)
			}
			return
		}
		label, err := lifetime.ParseTTLLabel(text)
		life := big.NewRat(int64(verdict.Expiry.Sub(facts.Created)/time.Second), 1)
		if err != nil || label.At.IsZero() && exactly(text).Cmp(life) != 0 {
			t.Fatalf("%q: due at %s, created at %s (%v)", text, verdict.Expiry, facts.Created, err)
		}
	})
}
