package rules

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

const laterOrNow = `use a later one, or run "kubectl delete job.batch/a -n ci" or "kubectl curfew expire-now job.batch/a -n ci"`

// A label that is expired when it is set would delete the object at once. Denied is only what the
// request itself sets, and only where a deletion would follow.
func TestExpiredLabel(t *testing.T) {
	const path = "metadata.labels[curfew.dev/ttl]: "
	const wouldDelete = "error " + path + "3d expired at 2026-11-27T12:00:00Z: Curfew would delete the Job at once; " + laterOrNow
	const before = "2026-12-24 expired at 2026-12-24T00:00:00Z, before the Job was created"
	old := func(labels ...string) map[string]any {
		out := job().Created(noon.Add(-30 * 24 * time.Hour))
		for i := 0; i+1 < len(labels); i += 2 {
			out.Label(labels[i], labels[i+1])
		}
		return out.Map()
	}
	protected := func(object map[string]any) map[string]any {
		return put(object, "metadata.annotations", map[string]any{wellknown.AnnotationProtect: "true"})
	}
	created := func(labels ...string) map[string]any { return put(old(labels...), "metadata.creationTimestamp", nil) }
	refreshed := func(labels ...string) map[string]any {
		return put(old(labels...), "metadata.annotations", map[string]any{wellknown.AnnotationRefreshedAt: "2026-12-22T12:00:00Z"})
	}
	bounded := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("max-ttl", "29d"), nil)}
	dryRun := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("mode", "dry-run"), nil)}
	warnMode := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("mode", "warn"), nil)}
	relaxed, alias := Options{WarnExpiredLabels: true}, Options{KyvernoLabel: true}
	const ttl, kyverno = wellknown.LabelTTL, wellknown.LabelKyvernoTTL
	for name, test := range map[string]struct {
		old, object map[string]any
		request     Request
		want        []string
	}{
		"a short life for an old object": {old: old(), object: old(ttl, "3d"), want: []string{wouldDelete}},
		"by backfill":                    {old: old(), object: old(ttl, "3d"), request: Request{User: User{Name: curfewItself}, Options: Options{ControllerUser: curfewItself}}},
		"by a user, and backfill exists": {old: old(), object: old(ttl, "3d"), request: Request{User: User{Name: "dana"}, Options: Options{ControllerUser: curfewItself}}, want: []string{wouldDelete}},
		"relaxed":                        {old: old(), object: old(ttl, "3d"), request: Request{Options: relaxed}, want: []string{"warning " + path + "3d expired at 2026-11-27T12:00:00Z: Curfew deletes the Job at once; use a later one"}},
		"relaxed, and kept for lack of rights": {old: old(), object: old(ttl, "3d"), request: Request{Options: relaxed, Access: Access{Controller: No}},
			want: []string{"warning " + path + "3d expired at 2026-11-27T12:00:00Z: Curfew would delete the Job at once, but may not; use a later one"}},
		"a namespace does not soften it":    {old: old(), object: old(ttl, "3d"), request: Request{Scope: warnMode}, want: []string{wouldDelete}},
		"a lack of rights does not, either": {old: old(), object: old(ttl, "3d"), request: Request{Access: Access{Controller: No}}, want: []string{wouldDelete}},
		"refreshed, and the bounds end sooner": {old: refreshed(), object: refreshed(ttl, "3d"), request: Request{Scope: bounded},
			want: []string{"error " + path + "3d expired at 2026-12-23T12:00:00Z: Curfew would delete the Job at once; " + laterOrNow}},
		"refreshed, and no bounds":       {old: refreshed(), object: refreshed(ttl, "3d")},
		"another one that is expired":    {old: old(ttl, "2d"), object: old(ttl, "3d"), want: []string{wouldDelete}},
		"it expires now":                 {old: old(), object: old(ttl, "30d"), want: []string{"error " + path + "30d expired at 2026-12-24T12:00:00Z: Curfew would delete the Job at once; " + laterOrNow}},
		"it expires in a second":         {old: old(), object: old(ttl, "2026-12-24T120001Z")},
		"it expired long ago, unchanged": {old: old(ttl, "3d"), object: put(old(ttl, "3d"), "spec.suspend", true)},
		"… and loses its protection":     {old: protected(old(ttl, "3d")), object: old(ttl, "3d")},
		"it is removed":                  {old: old(ttl, "3d"), object: old()},
		"an object being deleted":        {old: old(), object: put(old(ttl, "3d"), "metadata.deletionTimestamp", "2026-12-24T00:00:00Z")},
		"a protected object": {old: protected(old()), object: protected(old(ttl, "3d")),
			want: []string{"warning " + path + "3d expired at 2026-11-27T12:00:00Z: Curfew would delete the Job at once, but the Job is protected by annotation curfew.dev/protect; use a later one"}},
		"a dry run": {old: old(), object: old(ttl, "3d"), request: Request{Scope: dryRun},
			want: []string{"warning " + path + `3d expired at 2026-11-27T12:00:00Z: Curfew would delete the Job at once, but namespace "ci" is in dry-run: Curfew only reports due objects; use a later one`}},

		"a restored object":            {object: created(ttl, "2026-12-24"), want: []string{"error " + path + before + ": use a later one"}},
		"… relaxed":                    {object: created(ttl, "2026-12-24"), request: Request{Options: relaxed}, want: []string{"warning " + path + before + ": Curfew keeps it; use a later one"}},
		"a manifest that was exported": {object: old(ttl, "2026-12-24"), want: []string{"error " + path + before + ": use a later one"}},
		"… with a duration":            {object: old(ttl, "3d")},
		"a new object with none left":  {object: created(ttl, "0"), want: []string{"error " + path + "0s expired at 2026-12-24T12:00:00Z, before the Job was created: use a later one"}},
		"a child of a controller": {object: controlled(created(ttl, "2026-12-24"), "batch/v1", "CronJob", "nightly"), request: Request{User: User{Name: "jane"}},
			want: []string{"error " + path + before + ": use a later one"}},

		"the alias":                      {old: old(), object: old(kyverno, "3d"), request: Request{Options: alias}, want: []string{"error metadata.labels[cleanup.kyverno.io/ttl]: 3d expired at 2026-11-27T12:00:00Z: Curfew would delete the Job at once; " + laterOrNow}},
		"the alias, not understood":      {old: old(), object: old(kyverno, "3d")},
		"the alias, outranked":           {old: old(ttl, "60d"), object: old(ttl, "60d", kyverno, "3d"), request: Request{Options: alias}},
		"the alias, outranked no longer": {old: old(ttl, "60d", kyverno, "3d"), object: old(kyverno, "3d"), request: Request{Options: alias}, want: []string{"error metadata.labels[cleanup.kyverno.io/ttl]: 3d expired at 2026-11-27T12:00:00Z: Curfew would delete the Job at once; " + laterOrNow}},
	} {
		t.Run(name, func(t *testing.T) {
			request := test.request
			request.Now = noon
			equal(t, judge(expiredLabel, policy.JobProfile, request, test.old, test.object), test.want)
		})
	}
	clusterWide := policy.Profiles{}.For(schema.GroupVersionKind{Version: "v1", Kind: "PersistentVolume"})
	volume := func(labels map[string]any) map[string]any {
		return map[string]any{"metadata": map[string]any{"name": "disk", "creationTimestamp": "2026-12-01T00:00:00Z", "labels": labels}}
	}
	equal(t, judge(expiredLabel, clusterWide, Request{Now: noon}, volume(nil), volume(map[string]any{ttl: "3d"})), []string{"error " + path +
		`3d expired at 2026-12-04T00:00:00Z: Curfew would delete the PersistentVolume at once; use a later one, or run "kubectl delete persistentvolume/disk" or "kubectl curfew expire-now persistentvolume/disk"`})
}
