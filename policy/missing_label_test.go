package policy_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// labelPolicy gives a TTL label to objects younger than a day.
func labelPolicy(text string, change ...func(*resolution.PlatformPolicy)) *resolution.PlatformPolicy {
	source := lifetime.Source{Level: lifetime.LevelPolicy, Name: "p"}
	out := &resolution.PlatformPolicy{Name: "p", Since: noon.Add(-24 * time.Hour), Label: &lifetime.Setting{Path: "spec.defaults.ttlLabel.value", Text: text, Source: source}}
	for _, f := range change {
		f(out)
	}
	return out
}

func backfill(p *resolution.PlatformPolicy) { p.Backfill = true }

func atMost(text string) func(*resolution.PlatformPolicy) {
	return func(p *resolution.PlatformPolicy) {
		ttl, err := lifetime.ParseTTL(text)
		p.Bounds.Label.Max = &lifetime.Setting{Path: "spec.bounds.maxTTLLabel", Text: text, TTL: ttl, Err: err}
	}
}

// existing is a ConfigMap of that age.
func existing(age time.Duration, change ...func(*policy.Facts)) *policy.Facts {
	profile := policy.Profiles{}.For(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	out := &policy.Facts{Profile: profile, Namespace: "ci", Name: "a", Created: noon.Add(-age)}
	for _, f := range change {
		f(out)
	}
	return out
}

func annotation(key, value string) func(*policy.Facts) {
	return func(f *policy.Facts) { f.Annotations = map[string]string{key: value} }
}

func withLabel(key string) func(*policy.Facts) {
	return func(f *policy.Facts) { f.Labels = map[string]string{key: "30d"} }
}

// service is Service kubernetes of a namespace.
func service(namespace string) func(*policy.Facts) {
	return func(f *policy.Facts) {
		f.Profile = policy.Profiles{}.For(schema.GroupVersionKind{Version: "v1", Kind: "Service"})
		f.Namespace, f.Name = namespace, "kubernetes"
	}
}

func cronJobsJob(f *policy.Facts) {
	f.Profile = policy.JobProfile
	f.Owner = &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "CronJob", Name: "nightly", Controller: new(true)}
}

// An existing object gets the label of the policy that decides if it is younger than the default,
// or if the policy backfills, unless something keeps it from getting one at creation too.
func TestMissingLabel(t *testing.T) {
	const hour, week = time.Hour, 7 * 24 * time.Hour
	dryRun := resolution.ParseNamespace("ci", map[string]string{wellknown.AnnotationMode: "dry-run"}, nil)
	for name, row := range map[string]struct {
		facts     *policy.Facts
		policies  []*resolution.PlatformPolicy
		namespace *resolution.NamespacePolicy
		protected bool
		want, err string
	}{
		"younger than the default":      {facts: existing(hour), policies: []*resolution.PlatformPolicy{labelPolicy("2d")}, want: "2d"},
		"older":                         {facts: existing(week), policies: []*resolution.PlatformPolicy{labelPolicy("30d")}},
		"as old":                        {facts: existing(24 * hour), policies: []*resolution.PlatformPolicy{labelPolicy("30d")}},
		"older, backfill":               {facts: existing(week), policies: []*resolution.PlatformPolicy{labelPolicy("30d", backfill)}, want: "30d"},
		"expired when it is given":      {facts: existing(week), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}, want: "2d"},
		"came to match when it was old": {facts: existing(20 * hour), policies: []*resolution.PlatformPolicy{labelPolicy("10h")}, err: resolution.ErrNeedsBackfill.Error()},
		"it would expire soon":          {facts: existing(20 * hour), policies: []*resolution.PlatformPolicy{labelPolicy("20h59m")}, err: resolution.ErrNeedsBackfill.Error()},
		"it would expire later":         {facts: existing(20 * hour), policies: []*resolution.PlatformPolicy{labelPolicy("21h")}, want: "21h"},
		"old, backfill":                 {facts: existing(20 * hour), policies: []*resolution.PlatformPolicy{labelPolicy("10h", backfill)}, want: "10h"},
		"clamped to what expires soon":  {facts: existing(20 * hour), policies: []*resolution.PlatformPolicy{labelPolicy("2d", atMost("20h30m"))}, err: resolution.ErrNeedsBackfill.Error()},
		"the default's age is unknown":  {facts: existing(hour), policies: []*resolution.PlatformPolicy{labelPolicy("2d", func(p *resolution.PlatformPolicy) { p.Since = time.Time{} })}},
		"another policy would backfill": {facts: existing(week), policies: []*resolution.PlatformPolicy{{}, labelPolicy("30d"), labelPolicy("60d", backfill)}},
		"the policy is in dry-run":      {facts: existing(hour), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill, func(p *resolution.PlatformPolicy) { p.Mode = resolution.ModeDryRun })}},
		"has a label":                   {facts: existing(hour, withLabel(wellknown.LabelTTL)), policies: []*resolution.PlatformPolicy{labelPolicy("2d")}},
		"has the alias":                 {facts: existing(hour, withLabel(wellknown.LabelKyvernoTTL)), policies: []*resolution.PlatformPolicy{labelPolicy("2d")}},
		"its label was removed":         {facts: existing(hour, annotation(wellknown.AnnotationLabelSource, "policy/p")), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}},
		"protected":                     {facts: existing(hour, annotation(wellknown.AnnotationProtect, "true")), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}},
		"in a protected namespace":      {facts: existing(hour), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}, protected: true},
		"in dry-run":                    {facts: existing(hour), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}, namespace: dryRun},
		"being deleted":                 {facts: existing(hour, func(f *policy.Facts) { f.Deleting = true }), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}},
		"no creation time":              {facts: existing(hour, func(f *policy.Facts) { f.Created = time.Time{} }), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}},
		"a child":                       {facts: existing(hour, func(f *policy.Facts) { f.Owner = &metav1.OwnerReference{Kind: "Widget"} }), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}},
		"its own TTL is never":          {facts: existing(hour, annotation(wellknown.AnnotationTTL, "never")), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}},
		"never, if it failed":           {facts: existing(hour, annotation(wellknown.AnnotationTTLFailed, "never")), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}},
		"never by a default": {facts: existing(hour, func(f *policy.Facts) {
			f.Annotations = map[string]string{wellknown.AnnotationTTL: "never", wellknown.AnnotationTTLSource: "policy/p"}
		}), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}, want: "2d"},
		"its own TTL cannot be read":     {facts: existing(hour, annotation(wellknown.AnnotationTTL, "soon")), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}},
		"its own TTL is an hour":         {facts: existing(hour, annotation(wellknown.AnnotationTTL, "1h")), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}, want: "2d"},
		"the API server's Service":       {facts: existing(hour, service("default")), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}},
		"another Service":                {facts: existing(hour, service("ci")), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}, want: "2d"},
		"a CronJob's Job":                {facts: existing(hour, cronJobsJob), policies: []*resolution.PlatformPolicy{labelPolicy("10s", backfill)}, want: "1m"},
		"the root CA":                    {facts: existing(hour, func(f *policy.Facts) { f.Name = "kube-root-ca.crt" }), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill)}},
		"cannot be computed":             {facts: existing(hour), policies: []*resolution.PlatformPolicy{labelPolicy("soon", backfill)}, err: `"soon" is neither a duration nor a date: use one of them (90s, 1h30m, 7d; 2026-12-24, 2026-12-24T003000Z)`},
		"a date":                         {facts: existing(week), policies: []*resolution.PlatformPolicy{labelPolicy("2026-12-31", backfill)}, want: "2026-12-31"},
		"a date that is over":            {facts: existing(week), policies: []*resolution.PlatformPolicy{labelPolicy("2026-12-23", backfill)}, err: "2026-12-23 is over: use a later date"},
		"clamped":                        {facts: existing(week), policies: []*resolution.PlatformPolicy{labelPolicy("2026-12-31", backfill, atMost("10d"))}, want: "10d"},
		"clamped to an instant long ago": {facts: existing(week), policies: []*resolution.PlatformPolicy{labelPolicy("2026-12-31", backfill, atMost("2d"))}, err: "2026-12-31 is longer than the bounds allow an object of this age: raise them, or use a duration"},
		"a bound that cannot be read":    {facts: existing(hour), policies: []*resolution.PlatformPolicy{labelPolicy("2d", atMost("long"))}, err: `maxTTLLabel cannot be read: "long" is not a duration: ` + fix + ", or never"},
		"latest date before its expiry":  {facts: existing(week), policies: []*resolution.PlatformPolicy{labelPolicy("30d", backfill, func(p *resolution.PlatformPolicy) { p.LatestDate = noon.Add(24 * time.Hour) })}, want: "2026-12-25T120000Z"},
		"latest date after its expiry":   {facts: existing(week), policies: []*resolution.PlatformPolicy{labelPolicy("2d", backfill, func(p *resolution.PlatformPolicy) { p.LatestDate = noon.Add(-time.Hour) })}, want: "2d"},
		"latest date is over, not young": {facts: existing(hour), policies: []*resolution.PlatformPolicy{labelPolicy("2d", func(p *resolution.PlatformPolicy) { p.LatestDate = noon.Add(-time.Hour) })}, err: `latestDate 2026-12-24 of policy "p" is over: raise it`},
	} {
		scope := &resolution.Scope{Policies: row.policies, Namespace: row.namespace, Protected: row.protected}
		got, setting := resolution.MissingLabel(row.facts, scope, noon)
		if got != row.want || errorText(setting) != row.err {
			t.Errorf("%s: got %q, error %q; want %q, %q", name, got, errorText(setting), row.want, row.err)
		}
		if got == "" {
			continue
		}
		text := ""
		for _, assignment := range resolution.LabelAssignments(row.facts, got, setting, true) {
			text += assignment.Path.String() + "=" + assignment.Value.(string) + " "
		}
		if want := "metadata.labels.curfew.dev/ttl=" + row.want + " metadata.annotations.curfew.dev/ttl-label-source=policy/p " + row.want + " backfill "; text != want {
			t.Errorf("%s: writes %s, want %s", name, text, want)
		}
	}
}

// Only a label that carries the stamp of its policy is announced as a default.
func TestDefaultedLabelIsStamped(t *testing.T) {
	scope := &resolution.Scope{Creating: true, Policies: []*resolution.PlatformPolicy{labelPolicy("30d")}}
	for stamp, want := range map[string]bool{"": false, "policy/q 30d": false, "policy/p": false, "policy/p 3d": false, "policy/p 30d": true} {
		facts := existing(0, withLabel(wellknown.LabelTTL), annotation(wellknown.AnnotationLabelSource, stamp))
		if got := resolution.DefaultedLabel(facts, scope, noon) != nil; got != want {
			t.Errorf("stamp %q: a default is %t, want %t", stamp, got, want)
		}
	}
}

// What a cluster depends on is given no label, whatever policies say.
func TestEssentialKind(t *testing.T) {
	for kind, want := range map[schema.GroupKind]bool{
		{Kind: "Namespace"}: true, {Kind: "PersistentVolume"}: true, {Kind: "Node"}: true, {Kind: "Event"}: true, {Kind: "Endpoints"}: true,
		{Group: "events.k8s.io", Kind: "Event"}: true, {Group: "coordination.k8s.io", Kind: "Lease"}: true,
		{Group: "discovery.k8s.io", Kind: "EndpointSlice"}: true, {Group: "rbac.authorization.k8s.io", Kind: "Role"}: true,
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: true, {Group: "apiregistration.k8s.io", Kind: "APIService"}: true,
		{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}: true, {Group: "curfew.dev", Kind: "LifecyclePolicy"}: true,
		{Kind: "ConfigMap"}: false, {Group: "apps", Kind: "Deployment"}: false, {Group: "example.com", Kind: "Namespace"}: false, {Kind: "PersistentVolumeClaim"}: false,
	} {
		if got := policy.EssentialKind(kind); got != want {
			t.Errorf("%s: %t, want %t", kind, got, want)
		}
	}
}
