package rules

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
	"curfew.dev/curfew/test/builders"
)

// denying is a policy with bounds.protect: Deny.
func denying(name string, mode resolution.Mode, err error) *resolution.PlatformPolicy {
	return &resolution.PlatformPolicy{Name: name, Mode: mode, Protect: &lifetime.Setting{Path: "spec.bounds.protect", Text: "Deny", Err: err}}
}

// A policy may deny the annotation that protects an object, to all but those who may update the
// policy. Only what a request changes counts.
func TestProtection(t *testing.T) {
	const (
		message = `metadata.annotations[curfew.dev/protect]: is against bounds.protect of policy "p": leave it out, or ask for the verb update on that LifecyclePolicy`
		unknown = " (whether you may is not known)"
	)
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	plain, shielded := job().Map(), job().Annotation(wellknown.AnnotationProtect, "true").Map()
	copied := job().Label(wellknown.LabelMultiKueueOrigin, "hub").Map()
	open := job().Annotation(wellknown.AnnotationProtect, "false").Map()
	deny, named := denying("p", "", nil), denying("p", "", nil)
	named.NamesKind = true
	thing := func(label string, protected bool) map[string]any {
		metadata := map[string]any{"name": "a", "namespace": "ci", "labels": map[string]any{}, "annotations": map[string]any{}}
		if label != "" {
			metadata["labels"] = map[string]any{wellknown.LabelTTL: label}
		}
		if protected {
			metadata["annotations"] = map[string]any{wellknown.AnnotationProtect: "true"}
		}
		return map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
	}
	only := func(policies ...*resolution.PlatformPolicy) []*resolution.PlatformPolicy { return policies }
	for name, c := range map[string]struct {
		old, object map[string]any
		profile     *policy.Profile
		policies    []*resolution.PlatformPolicy
		namespace   map[string]string
		may         map[string]Answer
		want        []string
		retry       bool
	}{
		"created":                        {object: shielded, policies: only(deny), may: map[string]Answer{"p": No}, want: []string{"error " + message}},
		"by one who may update it":       {object: shielded, policies: only(deny), may: map[string]Answer{"p": Yes}},
		"by one who may update another":  {object: shielded, policies: only(deny), may: map[string]Answer{"q": Yes, "p": No}, want: []string{"error " + message}},
		"without an answer":              {object: shielded, policies: only(deny), want: []string{"error " + message + unknown}},
		"no answer yet":                  {object: shielded, policies: only(deny), may: map[string]Answer{"p": Later}, retry: true, want: []string{"error " + message + " (whether you may is not known yet: try again in a second)"}},
		"not protected":                  {object: open, policies: only(deny)},
		"no policy denies it":            {object: shielded, policies: only(&resolution.PlatformPolicy{Name: "p"})},
		"added":                          {old: plain, object: shielded, policies: only(deny), want: []string{"error " + message + unknown}},
		"false, and now true":            {old: open, object: shielded, policies: only(deny), want: []string{"error " + message + unknown}},
		"it stands":                      {old: shielded, object: job().Annotation(wellknown.AnnotationProtect, "true").TTL(60).Map(), policies: only(deny)},
		"removed":                        {old: shielded, object: plain, policies: only(deny)},
		"mode Warn":                      {object: shielded, policies: only(denying("p", resolution.ModeWarn, nil)), want: []string{"warning " + message}},
		"mode DryRun":                    {object: shielded, policies: only(denying("p", resolution.ModeDryRun, nil)), want: []string{"warning metadata.annotations[curfew.dev/protect]: would be refused (mode DryRun): " + message[len("metadata.annotations[curfew.dev/protect]: "):]}},
		"one warns, one denies":          {object: shielded, policies: only(denying("a", resolution.ModeWarn, nil), deny), may: map[string]Answer{"p": No}, want: []string{"error " + message}},
		"they may update one of two":     {object: shielded, policies: only(denying("a", "", nil), deny), may: map[string]Answer{"a": Yes, "p": No}, want: []string{"error " + message}},
		"the namespace is in dry-run":    {object: shielded, policies: only(deny), namespace: annotated("mode", "dry-run"), may: map[string]Answer{"p": No}, want: []string{"error " + message}},
		"its match cannot be evaluated":  {object: shielded, policies: only(denying("p", "", errors.New("no such key"))), may: map[string]Answer{"p": No}, want: []string{"error " + message}},
		"its evaluation was stopped":     {object: shielded, policies: only(denying("p", "", &lifetime.UndecidedError{Err: errors.New("out of time"), Retry: true})), retry: true, want: []string{`error metadata.annotations[curfew.dev/protect]: bounds.protect of policy "p" cannot be checked: out of time: try again in a second`}},
		"a copy":                         {object: copied, policies: only(deny), may: map[string]Answer{"p": No}, want: []string{"error " + strings.Replace(message, "annotations[curfew.dev/protect]", "labels[kueue.x-k8s.io/multikueue-origin]", 1)}},
		"a copy, by MultiKueue":          {object: copied, policies: only(deny), may: map[string]Answer{"p": Yes}},
		"a copy, as before":              {old: copied, object: job().Label(wellknown.LabelMultiKueueOrigin, "hub").TTL(60).Map(), policies: only(deny)},
		"a Job template":                 {object: builders.MakeCronJob("ci", "a").JobAnnotation(wellknown.AnnotationProtect, "true").Map(), profile: policy.CronJobProfile, policies: only(deny), may: map[string]Answer{"p": No}, want: []string{"error spec.jobTemplate." + message}},
		"no profile, no label":           {object: thing("", true), profile: policy.Profiles{}.For(widget), policies: only(deny)},
		"no profile, a label":            {object: thing("1d", true), profile: policy.Profiles{}.For(widget), policies: only(deny), may: map[string]Answer{"p": No}, want: []string{"error " + message}},
		"no profile, the kind is named":  {object: thing("", true), profile: policy.Profiles{}.For(widget), policies: only(named), may: map[string]Answer{"p": No}, want: []string{"error " + message}},
		"protected first, then labelled": {old: thing("", true), object: thing("1d", true), profile: policy.Profiles{}.For(widget), policies: only(deny), may: map[string]Answer{"p": No}, want: []string{"error " + message}},
		"being deleted":                  {old: plain, object: job().Annotation(wellknown.AnnotationProtect, "true").Deleting(noon).Map(), policies: only(deny)},
	} {
		t.Run(name, func(t *testing.T) {
			profile := policy.JobProfile
			if c.profile != nil {
				profile = c.profile
			}
			request := &Request{Operation: Create, Object: c.object, Facts: policy.FactsOfObject(profile, c.object), Now: noon, Access: Access{Policies: c.may},
				Scope: &resolution.Scope{Policies: c.policies, Creating: c.old == nil, Namespace: resolution.ParseNamespace("ci", c.namespace, nil)}}
			if c.old != nil {
				request.Operation, request.Old, request.OldFacts = Update, c.old, policy.FactsOfObject(profile, c.old)
			}
			var got []string
			for _, finding := range Review(request).Findings {
				if finding.Rule == protection.Name {
					got = append(got, string(finding.Severity)+" "+finding.String())
					if finding.Retry != c.retry {
						t.Errorf("to be tried again: %t", finding.Retry)
					}
				}
			}
			equal(t, got, c.want)
			request.Access = Access{}
			asked, asks := ProtectionDeniedBy(request), slices.ContainsFunc(c.policies, func(p *resolution.PlatformPolicy) bool { return c.may[p.Name] != Unknown })
			if asks && len(asked) != len(c.policies) || len(c.want) == 0 && !asks && asked != nil {
				t.Errorf("asks about %q", asked)
			}
		})
	}
}

// What a controller creates is admitted with what its template has: the template is denied.
func TestProtectionInTemplates(t *testing.T) {
	kinds := shipped(t)
	const trainer = "trainer.kubeflow.org"
	pods := denying("pods", "", nil)
	below := func(kind schema.GroupKind) func(*resolution.NamespacePolicy) []*resolution.PlatformPolicy {
		return func(*resolution.NamespacePolicy) []*resolution.PlatformPolicy {
			if kind != policy.PodProfile.Kind.GroupKind() {
				return nil
			}
			return []*resolution.PlatformPolicy{{Name: "other"}, pods}
		}
	}
	for _, place := range []struct {
		group, kind, metadata string
		pod                   bool
	}{
		{"apps", "Deployment", "spec.template.metadata", true},
		{"apps", "StatefulSet", "spec.template.metadata", true},
		{"apps", "StatefulSet", "spec.volumeClaimTemplates[].metadata", false},
		{"apps", "DaemonSet", "spec.template.metadata", true},
		{"apps", "ReplicaSet", "spec.template.metadata", true},
		{"", "ReplicationController", "spec.template.metadata", true},
		{"", "PodTemplate", "template.metadata", true},
		{"batch", "Job", "spec.template.metadata", true},
		{"batch", "CronJob", "spec.jobTemplate.metadata", false},
		{"batch", "CronJob", "spec.jobTemplate.spec.template.metadata", true},
		{"jobset.x-k8s.io", "JobSet", "spec.replicatedJobs[].template.spec.template.metadata", true},
		{trainer, "TrainingRuntime", "spec.template.metadata", false},
		{trainer, "TrainJob", "spec", false},
	} {
		profile := kinds[schema.GroupKind{Group: place.group, Kind: place.kind}]
		if profile == nil {
			t.Errorf("no profile of %s", place.kind)
			continue
		}
		with := func(value string) map[string]any {
			return put(object(place.kind, map[string]any{}), place.metadata+".annotations", map[string]any{wellknown.AnnotationProtect: value})
		}
		for name, c := range map[string]struct {
			old, object map[string]any
			policies    []*resolution.PlatformPolicy
			may         map[string]Answer
			want        string
		}{
			"created":                  {object: with("true"), policies: []*resolution.PlatformPolicy{denying("p", "", nil)}, want: "p"},
			"by one who may update it": {object: with("true"), policies: []*resolution.PlatformPolicy{denying("p", "", nil)}, may: map[string]Answer{"p": Yes, "pods": Yes}},
			"unreadable protects":      {object: with("yes"), policies: []*resolution.PlatformPolicy{denying("p", "", nil)}, want: "p"},
			"not protected":            {object: with("false"), policies: []*resolution.PlatformPolicy{denying("p", "", nil)}},
			"added":                    {old: with("false"), object: with("true"), policies: []*resolution.PlatformPolicy{denying("p", "", nil)}, want: "p"},
			"it stands":                {old: with("true"), object: with("true"), policies: []*resolution.PlatformPolicy{denying("p", "", nil)}},
			"a policy for Pods alone":  {object: with("true"), want: map[bool]string{true: "pods"}[place.pod]},
		} {
			request := &Request{Operation: Create, Object: c.object, Facts: policy.FactsOfObject(profile, c.object), Now: noon, Access: Access{Policies: c.may},
				Scope: &resolution.Scope{Policies: c.policies, Creating: c.old == nil, Namespace: resolution.ParseNamespace("ci", nil, nil)}, Below: below}
			if c.old != nil {
				request.Operation, request.Old, request.OldFacts = Update, c.old, policy.FactsOfObject(profile, c.old)
			}
			var got, want []string
			for _, finding := range Review(request).Findings {
				if finding.Rule == protection.Name {
					got = append(got, string(finding.Severity)+" "+finding.String())
				}
			}
			if c.want != "" {
				want = []string{"error " + strings.ReplaceAll(place.metadata, "[]", "[0]") + ".annotations[curfew.dev/protect]: is against bounds.protect of policy \"" + c.want +
					"\": leave it out, or ask for the verb update on that LifecyclePolicy (whether you may is not known)"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s with %s, %s: %q, want %q", place.kind, place.metadata, name, got, want)
			}
			if asked := ProtectionDeniedBy(request); c.want != "" && !slices.Contains(asked, c.want) || c.want == "" && asked != nil {
				t.Errorf("%s with %s, %s: asks about %q", place.kind, place.metadata, name, asked)
			}
		}
	}
}
