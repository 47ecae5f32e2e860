package policy_test

import (
	"errors"
	"math/big"
	"strconv"
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
		"not yet":                           {label: "90m", in: 30 * time.Minute, action: policy.Wait},
		"now":                               {label: "60m", action: policy.Delete},
		"an instant":                        {label: "2026-12-24T120001Z", in: time.Second, action: policy.Wait},
		"before it existed":                 {label: "2020-01-01", reason: "its TTL label cannot be used", err: "2020-01-01 expired before the object was created: use a later one"},
		"the second of it":                  {label: "2026-12-24T110000Z", reason: "its TTL label cannot be used", err: "expired before the object was created"},
		"a second later":                    {label: "2026-12-24T110001Z", in: -time.Hour + time.Second, action: policy.Delete},
		"none":                              {reason: "has no TTL label"},
		"unreadable":                        {label: "soon", reason: "its TTL label cannot be used", err: `metadata.labels[curfew.dev/ttl]: "soon" is neither`},
		"below a minute":                    {label: "59s", in: -time.Hour + 59*time.Second, action: policy.Delete},
		"no whole second":                   {label: "0.0000000000001h", reason: "its TTL label cannot be used", err: "is not a whole number of seconds"},
		"protected":                         {label: "1m", reason: "is protected by annotation curfew.dev/protect", change: func(f *policy.Facts) { f.Annotations = annotated("protect", "true") }},
		"protected by something unreadable": {label: "1m", reason: "is protected by annotation curfew.dev/protect", change: func(f *policy.Facts) { f.Annotations = annotated("protect", "ja") }},
		"being deleted":                     {label: "1m", reason: "is being deleted already", change: func(f *policy.Facts) { f.Deleting = true }},
		"Curfew's own kind":                 {label: "1m", reason: "is part of Curfew", err: "metadata.labels[curfew.dev/ttl]: Curfew never deletes a LifecyclePolicy: remove the label", change: ofKind("curfew.dev", "LifecyclePolicy", "a")},
		"Curfew's own kind, by the alias":   {alias: "1m", key: wellknown.LabelKyvernoTTL, reason: "is part of Curfew", err: "metadata.labels[cleanup.kyverno.io/ttl]: Curfew never", change: ofKind("curfew.dev", "LifecyclePolicy", "a")},
		"Curfew's own kind, no label":       {reason: "is part of Curfew", change: ofKind("curfew.dev", "LifecyclePolicy", "a")},
		"the definition of one":             {label: "1m", reason: "is part of Curfew", change: ofKind("apiextensions.k8s.io", "CustomResourceDefinition", "lifecyclepolicies.curfew.dev")},
		"another kind":                      {label: "60m", action: policy.Delete, change: ofKind("apiextensions.k8s.io", "CustomResourceDefinition", "things.notcurfew.dev")},
		"no creation":                       {label: "1m", reason: "its TTL label cannot be used", err: "use a date", change: func(f *policy.Facts) { f.Created = time.Time{} }},
		"no creation, a date":               {label: "2026-12-24", in: -12 * time.Hour, action: policy.Delete, change: func(f *policy.Facts) { f.Created = time.Time{} }},
		"created in future":                 {label: "1m", in: 61 * time.Minute, action: policy.Wait, change: func(f *policy.Facts) { f.Created = noon.Add(time.Hour) }},
		"not accounted for": {label: "1m", reason: "its Job has not accounted for it yet", change: func(f *policy.Facts) {
			f.Profile, f.Finalizers = policy.PodProfile, []string{wellknown.FinalizerJobTracking}
		}},
		"no Pod, a finalizer":  {label: "60m", action: policy.Delete, change: func(f *policy.Facts) { f.Finalizers = []string{wellknown.FinalizerJobTracking} }},
		"owned":                {label: "60m", action: policy.Delete, change: func(f *policy.Facts) { owner := controlledBy(true); f.Owner = &owner }},
		"above max-ttl":        {label: "60m", scope: &resolution.Scope{Namespace: namespaceOf("max-ttl", "30m")}, reason: "its TTL label cannot be used", err: `1h is above curfew.dev/max-ttl 30m of namespace "ci": use 30m or less`},
		"below min-ttl":        {label: "60m", scope: &resolution.Scope{Namespace: namespaceOf("min-ttl", "2h")}, reason: "its TTL label cannot be used", err: `1h is below curfew.dev/min-ttl 2h of namespace "ci": use 2h or more`},
		"max-ttl unreadable":   {label: "60m", scope: &resolution.Scope{Namespace: namespaceOf("max-ttl", "x")}, reason: "its TTL label cannot be used", err: "cannot be read"},
		"within bounds":        {label: "60m", scope: &resolution.Scope{Namespace: namespaceOf("max-ttl", "1h", "min-ttl", "1h")}, action: policy.Delete},
		"dry-run":              {label: "60m", scope: &resolution.Scope{Namespace: namespaceOf("mode", "dry-run")}, action: policy.Delete, dry: true},
		"after the last day":   {label: "2026-12-24", scope: latest(resolution.PlatformPolicy{Name: "p", LatestDate: noon.Add(-24 * time.Hour)}), reason: "its TTL label cannot be used", err: `2026-12-24 is after latestDate 2026-12-23 of policy "p"`},
		"the last day unknown": {label: "60m", scope: latest(resolution.PlatformPolicy{Name: "p", LatestUnreadable: &lifetime.Setting{Path: "spec.bounds.latestDate", Err: errors.New("odd")}}), reason: "its TTL label cannot be used", err: "latestDate cannot be read: odd"},
		"warned only":          {label: "60m", scope: latest(resolution.PlatformPolicy{Mode: resolution.ModeWarn, LatestDate: noon.Add(-24 * time.Hour)}), action: policy.Delete},

		"refreshed":               {label: "60m", in: 30 * time.Minute, action: policy.Wait, change: refreshed("2026-12-24T11:30:00Z")},
		"refreshed, and over":     {label: "10m", in: -20 * time.Minute, action: policy.Delete, change: refreshed("2026-12-24T11:30:00Z")},
		"refreshed too early":     {label: "60m", action: policy.Delete, change: refreshed("2026-12-24T10:30:00Z")},
		"refreshed in the future": {label: "60m", in: 3 * time.Hour, action: policy.Wait, change: refreshed("2026-12-24T14:00:00Z")},
		"refreshed by a word":     {label: "1m", reason: "its last refresh cannot be read", err: `metadata.annotations[curfew.dev/refreshed-at]: "now" is not an RFC 3339 time`, change: refreshed("now")},
		"refreshed by nothing":    {label: "1m", reason: "its last refresh cannot be read", err: `"" is not an RFC 3339 time`, change: refreshed("")},
		"a date, refreshed":       {label: "2026-12-24T110001Z", in: -time.Hour + time.Second, action: policy.Delete, change: refreshed("2026-12-24T11:30:00Z")},
		"refreshed up to max-ttl": {label: "60m", in: 20 * time.Minute, action: policy.Wait, scope: &resolution.Scope{Namespace: namespaceOf("max-ttl", "80m")}, change: refreshed("2026-12-24T11:50:00Z")},
		"a newer max-ttl":         {label: "20m", in: 10 * time.Minute, action: policy.Wait, scope: &resolution.Scope{Namespace: namespaceOf("max-ttl", "20m")}, change: refreshed("2026-12-24T11:50:00Z")},
		"a newer last day":        {label: "20m", in: 10 * time.Minute, action: policy.Wait, scope: latest(resolution.PlatformPolicy{Name: "p", LatestDate: noon.Add(-20 * time.Minute)}), change: refreshed("2026-12-24T11:50:00Z")},
		"refreshed up to a date":  {label: "60m", in: 20 * time.Minute, action: policy.Wait, scope: latest(resolution.PlatformPolicy{Name: "p", LatestDate: noon.Add(20 * time.Minute)}), change: refreshed("2026-12-24T11:50:00Z")},
		"refreshed, warned only":  {label: "60m", in: 50 * time.Minute, action: policy.Wait, scope: latest(resolution.PlatformPolicy{Mode: resolution.ModeWarn, LatestDate: noon}), change: refreshed("2026-12-24T11:50:00Z")},
		"alias, refreshed":        {alias: "60m", key: wellknown.LabelKyvernoTTL, in: 30 * time.Minute, action: policy.Wait, change: refreshed("2026-12-24T11:30:00Z")},

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
			if got.Action != row.action || got.Reason != row.reason || got.DryRun != row.dry || (got.Err != nil) != (row.err != "") || got.Err != nil && !strings.Contains(got.Err.Error(), row.err) {
				t.Errorf("verdict %+v, want %s, %q, dry-run %t, error %q", got, row.action, row.reason, row.dry, row.err)
			}
			if row.action != policy.Keep && (!got.Expiry.Equal(noon.Add(row.in)) || got.Trigger != policy.TriggerLabel || got.Source.Level != lifetime.LevelObject) {
				t.Errorf("expiry %s by %s from %s, want %s", got.Expiry, got.Trigger, got.Source, noon.Add(row.in))
			}
		})
	}
}

func ofKind(group, kind, name string) func(*policy.Facts) {
	return func(f *policy.Facts) {
		f.Profile, f.Name = &policy.Profile{Kind: schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}}, name
	}
}

func refreshed(instant string) func(*policy.Facts) {
	return func(f *policy.Facts) { f.Annotations = annotated("refreshed-at", instant) }
}

// S6: whatever stands in the refresh, an object is deleted no sooner than without one, and no later
// than the bounds allow from its creation, unless a report says so. A bound that ended before the
// refresh was set later, or lowered: it deletes nothing.
func TestRefreshNeverHastens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		life := rapid.IntRange(1, 400).Draw(t, "minutes")
		most := rapid.IntRange(1, 800).Draw(t, "max-ttl")
		text := rapid.OneOf(
			rapid.Map(rapid.IntRange(-300, 900), func(minutes int) string { return noon.Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339) }),
			rapid.StringMatching(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})`),
			rapid.String(),
		).Draw(t, "refreshed-at")
		scope := &resolution.Scope{Namespace: namespaceOf("max-ttl", strconv.Itoa(most)+"m")}
		facts := labelled(configMap, wellknown.LabelTTL, strconv.Itoa(life)+"m")
		before := judging.JudgeLabel(facts, wellknown.LabelTTL, scope, noon)
		refreshed(text)(facts)
		after := judging.JudgeLabel(facts, wellknown.LabelTTL, scope, noon)
		instant, _ := facts.LabelClock()
		limit := facts.Created.Add(time.Duration(most) * time.Minute)
		switch {
		case after.Action == policy.Keep && after.Err == nil:
			t.Fatalf("%q keeps the object without a report", text)
		case after.Action == policy.Keep:
		case before.Action == policy.Keep || after.Expiry.Before(before.Expiry):
			t.Fatalf("%q: due at %s, and at %s without it (%v)", text, after.Expiry, before.Expiry, before.Err)
		case limit.Before(instant) && !after.Expiry.Equal(instant.Add(time.Duration(life)*time.Minute)):
			t.Fatalf("%q: due at %s by a newer max-ttl %dm, label %dm", text, after.Expiry, most, life)
		case !limit.Before(instant) && after.Expiry.After(limit):
			t.Fatalf("%q: due at %s, created at %s, max-ttl %dm", text, after.Expiry, facts.Created, most)
		}
	})
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
