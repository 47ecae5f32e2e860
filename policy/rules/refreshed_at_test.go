package rules

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// A refresh in the future, or one that cannot be read, would keep the object. A user who may not
// delete the object may not move its expiry to an earlier time.
func TestRefreshedAt(t *testing.T) {
	const path = "metadata.annotations[curfew.dev/refreshed-at]: "
	const mayNot = `sets when this Job is deleted, but you may not delete it yourself: ask for the verb delete on jobs.batch in namespace "ci"`
	created := noon.Add(-30 * 24 * time.Hour)
	with := func(label, refreshed string) map[string]any {
		out := job().Created(created)
		if label != "" {
			out.Label(wellknown.LabelTTL, label)
		}
		if refreshed != "" {
			out.Annotation(wellknown.AnnotationRefreshedAt, refreshed)
		}
		return out.Map()
	}
	fresh := func(object map[string]any) map[string]any { return put(object, "metadata.creationTimestamp", nil) }
	bounded := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("max-ttl", "31d"), nil)}
	ended := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("max-ttl", "29d"), nil)}
	soft := &resolution.Scope{Namespace: resolution.ParseNamespace("ci", annotated("max-ttl", "29d", "mode", "warn"), nil)}
	dated := &resolution.Scope{Policies: []*resolution.PlatformPolicy{{Name: "p", LatestDate: noon.Add(-12 * time.Hour)}}}
	const late = path + `is more than curfew.dev/max-ttl 29d of namespace "ci" after the creation: leave it unchanged, or create the object again`
	const now, anHourAgo, aMinuteAhead, later = "2026-12-24T12:00:00Z", "2026-12-24T11:00:00Z", "2026-12-24T12:01:00Z", "2026-12-24T12:01:01Z"
	for name, test := range map[string]struct {
		old, object map[string]any
		request     Request
		want        []string
	}{
		"now":                          {old: with("3d", ""), object: with("3d", now)},
		"a minute ahead":               {old: with("3d", ""), object: with("3d", aMinuteAhead)},
		"more than that":               {old: with("3d", ""), object: with("3d", later), want: []string{"error " + path + later + " is more than a minute in the future: use the present time"}},
		"more than that, a new object": {object: fresh(with("3d", later)), want: []string{"error " + path + later + " is more than a minute in the future: use the present time"}},
		"unreadable":                   {old: with("3d", ""), object: with("3d", "today"), want: []string{"error " + path + `"today" is not an RFC 3339 time: use one such as 2026-12-24T00:30:00Z`}},
		"unreadable before":            {old: with("3d", "today"), object: put(with("3d", "today"), "spec.suspend", true)},
		"no label":                     {old: with("", ""), object: with("", now), want: []string{"warning " + path + "has no effect without a duration in label curfew.dev/ttl: add one, or remove the annotation"}},
		"a date":                       {old: with("2027-01-01", ""), object: with("2027-01-01", now), want: []string{"warning " + path + "has no effect without a duration in label curfew.dev/ttl: add one, or remove the annotation"}},
		"beyond the bounds":            {old: with("3d", ""), object: with("3d", now), request: Request{Scope: bounded}, want: []string{"warning " + path + "the bounds count from the creation: the Job expires at 2026-12-25T12:00:00Z"}},
		"after the bounds":             {old: with("3d", ""), object: with("3d", now), request: Request{Scope: ended}, want: []string{"error " + late}},
		"again":                        {old: with("3d", anHourAgo), object: with("3d", now), request: Request{Scope: ended}, want: []string{"error " + late}},
		"before they were set":         {old: with("3d", now), object: put(with("3d", now), "spec.suspend", true), request: Request{Scope: ended}},
		"after soft bounds":            {old: with("3d", ""), object: with("3d", now), request: Request{Scope: soft}, want: []string{"warning " + path + "would be refused (mode warn): " + late[len(path):]}},
		"after the last day":           {old: with("3d", ""), object: with("3d", now), request: Request{Scope: dated}, want: []string{"error " + path + `is after latestDate 2026-12-24 of policy "p": leave it unchanged`}},
		"labelled after the bounds":    {old: with("", now), object: with("3d", now), request: Request{Scope: ended}, want: []string{"error " + late}},
		"exported, a new object":       {object: with("3d", now), request: Request{Scope: ended}},
		"a label after a refresh":      {old: with("", now), object: with("3d", now)},

		"removed, and may not delete":      {old: with("3d", now), object: with("3d", ""), request: Request{Access: Access{User: No}}, want: []string{"warning " + path + mayNot}},
		"moved back, and may not delete":   {old: with("3d", now), object: with("3d", anHourAgo), request: Request{Access: Access{User: No}, Options: Options{RequireDelete: true}}, want: []string{"error " + path + mayNot}},
		"made readable, may not delete":    {old: with("3d", "today"), object: with("3d", now), request: Request{Access: Access{User: No}}, want: []string{"warning " + path + mayNot}},
		"moved forward, may not delete":    {old: with("3d", anHourAgo), object: with("3d", now), request: Request{Access: Access{User: No}}},
		"added, and may not delete":        {old: with("3d", ""), object: with("3d", now), request: Request{Access: Access{User: No}}},
		"one before the creation removed":  {old: with("3d", "2020-01-01T00:00:00Z"), object: with("3d", ""), request: Request{Access: Access{User: No}}},
		"removed with a label of a date":   {old: with("2027-01-01", now), object: with("2027-01-01", ""), request: Request{Access: Access{User: No}}},
		"removed with its label":           {old: with("3d", now), object: with("", ""), request: Request{Access: Access{User: No}}},
		"removed by one who may delete it": {old: with("3d", now), object: with("3d", ""), request: Request{Access: Access{User: Yes}}},
	} {
		t.Run(name, func(t *testing.T) {
			request := test.request
			request.Operation, request.Object, request.Now = Create, test.object, noon
			request.Facts = policy.FactsOfObject(policy.JobProfile, test.object)
			if request.Scope == nil {
				request.Scope = &resolution.Scope{}
			}
			if test.old != nil {
				request.Operation, request.Old, request.OldFacts = Update, test.old, policy.FactsOfObject(policy.JobProfile, test.old)
			}
			var got []string
			for _, finding := range Review(&request).Findings {
				got = append(got, string(finding.Severity)+" "+finding.String())
			}
			equal(t, got, test.want)
		})
	}
}
