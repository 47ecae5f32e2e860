package rules

import (
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

func compiled(t *testing.T, request *PlatformRequest, spec string) *expression.Policy {
	t.Helper()
	object := &v1alpha1.LifecyclePolicy{}
	object.Name = "platform"
	if err := yaml.UnmarshalStrict([]byte(spec), &object.Spec); err != nil {
		t.Fatal(err)
	}
	out, errs := expression.NewCompiler(16).Policy(object)
	request.OldErrors, request.Errors = request.Errors, errs
	request.OldPolicy, request.Policy = request.Policy, out
	return out
}

func TestReviewPlatform(t *testing.T) {
	labelled := func(name string, labels map[string]string, pairs ...string) *resolution.NamespacePolicy {
		return resolution.ParseNamespace(name, annotated(pairs...), labels)
	}
	dev := map[string]string{"env": "dev"}
	namespaces := []*resolution.NamespacePolicy{
		labelled("ci", dev, "max-ttl", "1d"), labelled("dev", dev, "max-ttl", "2d", "min-deadline", "2h"),
		labelled("odd", nil, "max-ttl", "?"), labelled("prod", nil, "min-ttl", "30d"),
	}
	for name, test := range map[string]struct {
		old, spec string
		options   Options
		want      []string
	}{
		"leaves nothing": {spec: `{match: {namespaceSelector: {matchLabels: {env: dev}}}, bounds: {minTTL: 7d, maxDeadline: 1h}}`, want: []string{
			`error spec.bounds.minTTL: 7d is above curfew.dev/max-ttl 1d of namespace "ci": lower it, or raise the other; the same in 1 more`,
			`error spec.bounds.maxDeadline: 1h is below curfew.dev/min-deadline 2h of namespace "dev": raise it, or lower the other`}},
		"only warns": {spec: `{mode: Warn, bounds: {maxTTL: 7d}}`, want: []string{`warning spec.bounds.maxTTL: 7d is below curfew.dev/min-ttl 30d of namespace "prod": raise it, or lower the other`}},
		"dry-run": {spec: `{mode: DryRun, bounds: {maxTTL: 7d}}`, want: []string{
			`warning spec.bounds.maxTTL: would be refused (mode DryRun): 7d is below curfew.dev/min-ttl 30d of namespace "prod": raise it, or lower the other`}},
		"not of all objects": {spec: `{match: {matchConditions: [{name: x, expression: "object.spec.suspend"}]}, bounds: {maxTTL: 7d}}`, want: []string{
			`warning spec.bounds.maxTTL: 7d is below curfew.dev/min-ttl 30d of namespace "prod": raise it, or lower the other`}},
		"stood there":     {old: `{bounds: {maxTTL: 7d}}`, spec: `{bounds: {maxTTL: 7d}, priority: 3}`},
		"one more by now": {old: `{match: {namespaceSelector: {matchLabels: {env: dev}}}, bounds: {minTTL: 36h}}`, spec: `{bounds: {minTTL: 3d}}`, want: []string{`error spec.bounds.minTTL: 3d is above curfew.dev/max-ttl 1d of namespace "ci": lower it, or raise the other; the same in 1 more`}},
		"at odds with itself": {spec: `{bounds: {minTTL: 7d, maxTTL: 1h}}`, want: []string{
			`error spec.bounds.minTTL: 7d is above maxTTL 1h: lower it, or raise the other`,
			`error spec.bounds.maxTTL: 1h is below curfew.dev/min-ttl 30d of namespace "prod": raise it, or lower the other`}},
		"short by its own limit": {spec: `{defaults: {ttl: {value: 5m}}, warnBelow: 10m}`, want: []string{
			`warning spec.defaults.ttl.value: 5m is under 600s: an object that gets it may be deleted before anyone reads its logs; use 600s or more`}},
		"not short by its own limit": {spec: `{defaults: {ttl: {value: 5s}}, warnBelow: 1s}`},
		"a label for what exists": {spec: `{match: {kinds: [{kind: ConfigMap}]}, defaults: {ttlLabel: {value: 7d}}, backfill: true}`, want: []string{
			`warning spec.backfill: existing objects that are older than 7d are deleted as soon as they are given the label; to see how many, use mode DryRun first`}},
		"a date for what exists": {spec: `{defaults: {ttlLabel: {value: "2099-12-24"}}, backfill: true}`},
		"a label that is not given": {spec: `{match: {kinds: [{kind: Namespace}, {group: batch, kind: CronJob}, {kind: ConfigMap}]}, defaults: {ttlLabel: {value: 7d}}}`, want: []string{
			`warning spec.match.kinds: objects of kind Namespace are given no TTL label: leave it out, or label them by hand`,
			`warning spec.match.kinds: objects of kind CronJob are given no TTL label: leave it out, or label them by hand`}},
		"bounds of the same kinds": {spec: `{match: {kinds: [{kind: Namespace}]}, bounds: {latestDate: "2099-12-24"}}`},
		"a short label": {spec: `{defaults: {ttlLabel: {value: 30s}}}`, want: []string{
			`warning spec.defaults.ttlLabel.value: 30s is under 60s: an object that gets it is deleted 30s after its creation; use 60s or more`}},
		"dry-run of both": {old: `{defaults: {ttl: {value: 1h}, deadline: {value: 1h}}}`, spec: `{mode: DryRun}`, want: []string{
			`warning spec.mode: Curfew deletes and stops nothing more by the defaults of this policy, but where admission filled in a native field, such as ttlSecondsAfterFinished or activeDeadlineSeconds of a Job, the kind's own controller acts on it: remove the field there`}},
		"dry-run that goes on":   {old: `{mode: DryRun, defaults: {ttl: {value: 1h}}}`, spec: `{mode: DryRun, defaults: {ttl: {value: 2h}}}`},
		"dry-run of a label":     {old: `{defaults: {ttlLabel: {value: 1h}}}`, spec: `{mode: DryRun, defaults: {ttlLabel: {value: 1h}}}`},
		"dry-run from the start": {spec: `{mode: DryRun, defaults: {ttl: {value: 1h}}}`},
		"not over":               {spec: `{defaults: {ttlLabel: {value: "2026-12-25"}}, bounds: {latestDate: "2026-12-24"}}`},
		"could not be used before": {old: `{defaults: {ttl: {expression: "objekt.x"}}}`, spec: `{defaults: {ttl: {expression: "objekt.x"}, ttlFailed: {value: 1y}}}`, want: []string{
			`error spec.defaults.ttlFailed.value: "1y" is not a duration: unit "y" is unknown; ` + durations + ", or never"}},
	} {
		t.Run(name, func(t *testing.T) {
			request := &PlatformRequest{Namespaces: namespaces, Options: test.options, Now: noon}
			if test.old != "" {
				compiled(t, request, test.old)
			}
			compiled(t, request, test.spec)
			var got []string
			for _, finding := range ReviewPlatform(request).Findings {
				got = append(got, string(finding.Severity)+" "+finding.String())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%q\nwant\n%q", got, test.want)
			}
		})
	}
}
