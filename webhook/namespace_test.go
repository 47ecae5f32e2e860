package webhook

import (
	"context"
	"errors"
	"testing"
	"time"

	"curfew.dev/curfew/policy/resolution"
)

// hash1d and hash2d are hashes of the defaults in the table; since is a stamp from long ago.
var (
	hash1d = resolution.DefaultsHash(map[string]string{"curfew.dev/default-ttl": "1d"})
	hash2d = resolution.DefaultsHash(map[string]string{"curfew.dev/default-ttl": "2d"})
	since  = func(hash string) string { return resolution.FormatSince(t0.Add(-48*time.Hour), hash) }
	now    = func(hash string) string { return resolution.FormatSince(t0, hash) }
)

func TestMutateNamespace(t *testing.T) {
	for name, test := range map[string]struct {
		object, old string
		patch       string
	}{
		"default, added": {old: namespace("x: y", ""), object: namespace("x: y", "curfew.dev/default-ttl: 1d"),
			patch: `[{"op":"add","path":"/metadata/labels/curfew.dev~1in-use","value":"true"},{"op":"add","path":"/metadata/labels/curfew.dev~1pods-in-use","value":"true"},{"op":"add","path":"/metadata/annotations/curfew.dev~1default-since","value":"` + now(hash1d) + `"}]`},
		"default, unchanged":       {old: stamped("1d", since(hash1d)), object: stamped("1d", since(hash1d))},
		"in-use label taken":       {old: stamped("1d", since(hash1d)), object: namespace("curfew.dev/pods-in-use: 'true'", "curfew.dev/default-ttl: 1d, curfew.dev/default-since: "+since(hash1d)), patch: `[{"op":"add","path":"/metadata/labels/curfew.dev~1in-use","value":"true"}]`},
		"in-use label falsified":   {old: stamped("1d", since(hash1d)), object: namespace("curfew.dev/in-use: 'false', curfew.dev/pods-in-use: 'true'", "curfew.dev/default-ttl: 1d, curfew.dev/default-since: "+since(hash1d)), patch: `[{"op":"replace","path":"/metadata/labels/curfew.dev~1in-use","value":"true"}]`},
		"in-use label claimed":     {object: namespace("curfew.dev/in-use: 'true'", ""), patch: `[{"op":"remove","path":"/metadata/labels/curfew.dev~1in-use"}]`},
		"since of other defaults":  {object: stamped("1d", since(hash2d)), patch: `[{"op":"replace","path":"/metadata/annotations/curfew.dev~1default-since","value":"` + now(hash1d) + `"}]`},
		"since unreadable":         {object: stamped("1d", "yesterday"), patch: `[{"op":"replace","path":"/metadata/annotations/curfew.dev~1default-since","value":"` + now(hash1d) + `"}]`},
		"since in the future":      {object: stamped("1d", resolution.FormatSince(t0.Add(time.Hour), hash1d)), patch: `[{"op":"replace","path":"/metadata/annotations/curfew.dev~1default-since","value":"` + now(hash1d) + `"}]`},
		"since without a default":  {object: namespace("", "curfew.dev/default-since: "+since(hash1d)), patch: `[{"op":"remove","path":"/metadata/annotations/curfew.dev~1default-since"}]`},
		"since brought along":      {object: stamped("1d", since(hash1d))},
		"since moved back":         {old: stamped("1d", since(hash1d)), object: stamped("1d", "2001-01-01T00:00:00Z/"+hash1d), patch: `[{"op":"replace","path":"/metadata/annotations/curfew.dev~1default-since","value":"` + since(hash1d) + `"}]`},
		"since foreseen":           {old: stamped("1d", since(hash1d)), object: stamped("2d", since(hash2d)), patch: `[{"op":"replace","path":"/metadata/annotations/curfew.dev~1default-since","value":"` + now(hash2d) + `"}]`},
		"since taken":              {old: stamped("1d", since(hash1d)), object: namespace("curfew.dev/in-use: 'true', curfew.dev/pods-in-use: 'true'", "curfew.dev/default-ttl: 1d"), patch: `[{"op":"add","path":"/metadata/annotations/curfew.dev~1default-since","value":"` + since(hash1d) + `"}]`},
		"unreadable default":       {old: namespace("", ""), object: namespace("curfew.dev/in-use: 'true', curfew.dev/pods-in-use: 'true'", "curfew.dev/default-ttl: soon"), patch: `[{"op":"add","path":"/metadata/annotations/curfew.dev~1default-since","value":"` + now(resolution.DefaultsHash(map[string]string{"curfew.dev/default-ttl": "soon"})) + `"}]`},
		"being deleted":            {old: stamped("1d", since(hash1d)), object: "{apiVersion: v1, kind: Namespace, metadata: {name: ci, deletionTimestamp: '2026-08-01T00:00:00Z', annotations: {curfew.dev/default-ttl: 2d}}}"},
		"annotations all removed":  {old: stamped("1d", since(hash1d)), object: "{apiVersion: v1, kind: Namespace, metadata: {name: ci}}"},
		"since taken with the map": {old: namespace("", "curfew.dev/default-since: "+since(hash1d)), object: "{apiVersion: v1, kind: Namespace, metadata: {name: ci}}"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			response := w.ask(t, ask{path: PathMutateNamespace, namespace: "ci", object: test.object, old: test.old})
			if !response.Allowed || string(response.Patch) != test.patch || len(response.Warnings) > 0 {
				t.Errorf("allowed %v, warnings %q, patch\n%s\nwant\n%s", response.Allowed, response.Warnings, response.Patch, test.patch)
			}
			// Once more, a second later, over what became of it: nothing is restamped.
			became := patchedObject(t, test.object, response)
			again := w.ask(t, ask{path: PathMutateNamespace, namespace: "ci", object: became, old: became})
			if len(again.Patch) > 0 {
				t.Errorf("not idempotent: %s", again.Patch)
			}
			if w.namespaces.liveReads != 0 || w.count(t, "curfew_admission_patch_dropped_total") != 0 {
				t.Error("a namespace was read, or a patch dropped")
			}
		})
	}
}

func namespace(labels, annotations string) string {
	return "{apiVersion: v1, kind: Namespace, metadata: {name: ci, labels: {" + labels + "}, annotations: {" + annotations + "}}}"
}

func stamped(ttl, since string) string {
	return namespace("curfew.dev/in-use: 'true', curfew.dev/pods-in-use: 'true'", "curfew.dev/default-ttl: "+ttl+", curfew.dev/default-since: '"+since+"'")
}

// S6: a Namespace is stamped by the API server's time. While that is not known nothing is guessed:
// what fits stays, what does not fit is removed, and the controller stamps. The labels by which the
// API server selects are kept in step.
func TestNamespaceIsStampedByTheServersTime(t *testing.T) {
	behind := func(context.Context) (time.Time, error) { return t0.Add(time.Hour), nil }
	unknown := func(context.Context) (time.Time, error) {
		return time.Time{}, errors.New("the API server's time is not known")
	}
	both, ahead := "curfew.dev/in-use: 'true', curfew.dev/pods-in-use: 'true'", resolution.FormatSince(t0.Add(time.Hour), hash1d)
	for name, test := range map[string]struct {
		time                func(context.Context) (time.Time, error)
		object, old, expect string
	}{
		"behind, new default":      {time: behind, object: namespace(both, "curfew.dev/default-ttl: 1d"), expect: `[{"op":"add","path":"/metadata/annotations/curfew.dev~1default-since","value":"` + ahead + `"}]`},
		"behind, stamped just now": {time: behind, object: stamped("1d", ahead), old: stamped("1d", ahead)},
		"unknown, new default":     {time: unknown, object: namespace(both, "curfew.dev/default-ttl: 1d")},
		"unknown, labels":          {time: unknown, object: namespace("x: y", "curfew.dev/default-ttl: 1d"), expect: `[{"op":"add","path":"/metadata/labels/curfew.dev~1in-use","value":"true"},{"op":"add","path":"/metadata/labels/curfew.dev~1pods-in-use","value":"true"}]`},
		"unknown, fits":            {time: unknown, object: stamped("1d", since(hash1d)), old: stamped("1d", since(hash1d))},
		"unknown, changed":         {time: unknown, object: stamped("2d", since(hash1d)), old: stamped("1d", since(hash1d)), expect: `[{"op":"remove","path":"/metadata/annotations/curfew.dev~1default-since"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.ServerTime = test.time })
			response := w.ask(t, ask{path: PathMutateNamespace, namespace: "ci", object: test.object, old: test.old})
			if !response.Allowed || string(response.Patch) != test.expect {
				t.Errorf("allowed %v, patch\n%s\nwant\n%s", response.Allowed, response.Patch, test.expect)
			}
		})
	}
}
