package policy_test

import (
	"testing"
	"time"

	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

func at(key string) string { return "metadata.annotations[curfew.dev/" + key + "]" }

func TestParseNamespaceErrors(t *testing.T) {
	const bad = `"soon" is not a duration: ` + fix
	for name, test := range map[string]struct {
		annotations map[string]string
		want        []string
	}{
		"nothing":           {},
		"readable":          {annotations: annotated("default-ttl", "1d", "max-ttl", "7d", "mode", "warn", "backfill", "true")},
		"no backfill":       {annotations: annotated("backfill", "false")},
		"ttl":               {annotations: annotated("default-ttl", "soon"), want: []string{at("default-ttl") + ": " + bad + ", or never"}},
		"ttl succeeded":     {annotations: annotated("default-ttl-succeeded", "soon"), want: []string{at("default-ttl-succeeded") + ": " + bad + ", or never"}},
		"ttl failed":        {annotations: annotated("default-ttl-failed", "soon"), want: []string{at("default-ttl-failed") + ": " + bad + ", or never"}},
		"pod ttl":           {annotations: annotated("default-pod-ttl", "soon"), want: []string{at("default-pod-ttl") + ": " + bad + ", or never"}},
		"deadline":          {annotations: annotated("default-deadline", "soon"), want: []string{at("default-deadline") + ": " + bad}},
		"deadline of 0":     {annotations: annotated("default-deadline", "0"), want: []string{at("default-deadline") + `: "0" is below 1: a deadline is 1s or more`}},
		"deadline of never": {annotations: annotated("default-deadline", "never"), want: []string{at("default-deadline") + `: "never" is not a duration: ` + fix}},
		"bounds": {
			annotations: annotated("min-ttl", "soon", "max-ttl", "never", "min-deadline", "0", "max-deadline", "soon"),
			want:        []string{at("min-ttl") + ": " + bad, at("max-ttl") + `: "never" is not a duration: ` + fix, at("min-deadline") + `: "0" is below 1: a deadline is 1s or more`, at("max-deadline") + ": " + bad},
		},
		"mode":     {annotations: annotated("mode", "audit"), want: []string{at("mode") + `: "audit" is not a mode: use enforce, warn or dry-run`}},
		"backfill": {annotations: annotated("backfill", "yes"), want: []string{at("backfill") + `: "yes" is neither "true" nor "false": use one of them`}},
		"all at once": {
			annotations: annotated("default-ttl", "soon", "mode", "", "backfill", ""),
			want:        []string{at("default-ttl") + ": " + bad + ", or never", at("mode") + `: "" is not a mode: use enforce, warn or dry-run`, at("backfill") + `: "" is neither "true" nor "false": use one of them`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := resolution.ParseNamespace("ci", test.annotations, nil)
			var lines []string
			for _, err := range got.Errors {
				lines = append(lines, err.Field+": "+err.Detail)
			}
			equal(t, lines, test.want)
		})
	}
}

// Whatever is wrong with a namespace, its policy can be asked, and what cannot be read means keep
// (S6).
func TestParseNamespaceIsUsable(t *testing.T) {
	namespace := resolution.ParseNamespace("ci", annotated("default-ttl", "soon", "default-ttl-failed", "7d", "max-ttl", "?", "mode", "??", "backfill", "???"), nil)
	if namespace.Mode != resolution.ModeDryRun {
		t.Errorf("an unreadable mode is %s, want dry-run, which keeps everything", namespace.Mode)
	}
	if namespace.Backfill {
		t.Error("an unreadable backfill is true")
	}
	if all := namespace.TTL.For(lifetime.Succeeded); all == nil || all.Err == nil {
		t.Errorf("default-ttl = %+v, want a setting with its error", all)
	}
	if failed := namespace.TTL.For(lifetime.Failed); failed == nil || failed.Err != nil || failed.TTL.After != 7*24*time.Hour {
		t.Errorf("default-ttl-failed = %+v, want 7d", failed)
	}
	if !namespace.HasDefaults() || !namespace.InUse() || !namespace.PodsInUse() {
		t.Error("an unreadable default counts as none")
	}
}

func TestInUse(t *testing.T) {
	for name, test := range map[string]struct {
		annotations           map[string]string
		inUse, pods, defaults bool
	}{
		"mode":     {annotations: annotated("mode", "warn")},
		"ttl":      {annotations: annotated("default-ttl", "1d"), inUse: true, pods: true, defaults: true},
		"outcome":  {annotations: annotated("default-ttl-failed", "1d"), inUse: true, pods: true, defaults: true},
		"pod ttl":  {annotations: annotated("default-pod-ttl", "1d"), inUse: true, pods: true, defaults: true},
		"deadline": {annotations: annotated("default-deadline", "1d"), inUse: true, defaults: true},
		"bound":    {annotations: annotated("max-ttl", "1d"), inUse: true},
	} {
		t.Run(name, func(t *testing.T) {
			got := resolution.ParseNamespace("ci", test.annotations, nil)
			if got.InUse() != test.inUse || got.PodsInUse() != test.pods || got.HasDefaults() != test.defaults {
				t.Errorf("in use %t, pods %t, defaults %t; want %+v", got.InUse(), got.PodsInUse(), got.HasDefaults(), test)
			}
		})
	}
}

func TestDefaultSince(t *testing.T) {
	noon := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	hash := resolution.DefaultsHash(annotated("default-ttl", "1d"))
	for name, test := range map[string]struct {
		annotations map[string]string
		want        time.Time
	}{
		"fits":             {annotated("default-ttl", "1d", "default-since", "2026-12-24T12:00:00Z/"+hash), noon},
		"other zone":       {annotated("default-ttl", "1d", "default-since", "2026-12-24T13:00:00+01:00/"+hash), noon},
		"absent":           {annotated("default-ttl", "1d"), time.Time{}},
		"other default":    {annotated("default-ttl", "1h", "default-since", "2026-12-24T12:00:00Z/"+hash), time.Time{}},
		"a default more":   {annotated("default-ttl", "1d", "default-pod-ttl", "1h", "default-since", "2026-12-24T12:00:00Z/"+hash), time.Time{}},
		"a bound more":     {annotated("default-ttl", "1d", "max-ttl", "1h", "default-since", "2026-12-24T12:00:00Z/"+hash), time.Time{}},
		"no hash":          {annotated("default-ttl", "1d", "default-since", "2026-12-24T12:00:00Z"), time.Time{}},
		"unreadable time":  {annotated("default-ttl", "1d", "default-since", "yesterday/"+hash), time.Time{}},
		"mode is no value": {annotated("default-ttl", "1d", "mode", "warn", "default-since", "2026-12-24T12:00:00Z/"+hash), noon},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resolution.ParseNamespace("ci", test.annotations, nil).Since; !got.Equal(test.want) {
				t.Errorf("since %v, want %v", got, test.want)
			}
		})
	}
	if got := resolution.FormatSince(noon.In(time.FixedZone("", 3600)), "abc"); got != "2026-12-24T12:00:00Z/abc" {
		t.Errorf("FormatSince = %q", got)
	}
	if got := resolution.DefaultsHash(annotated("mode", "warn")); got != "" {
		t.Errorf("hash of no defaults = %q", got)
	}
	if resolution.DefaultsHash(annotated("default-ttl", "1d")) == resolution.DefaultsHash(annotated("default-pod-ttl", "1d")) {
		t.Error("the hash does not tell keys apart")
	}
}

func TestStampNamespace(t *testing.T) {
	now := time.Date(2026, 12, 24, 12, 0, 0, 0, time.UTC)
	hash := resolution.DefaultsHash(annotated("default-ttl", "1d"))
	fresh := resolution.FormatSince(now, hash)
	early := resolution.FormatSince(now.Add(-time.Hour), hash)
	for name, test := range map[string]struct {
		annotations map[string]string
		want        resolution.NamespaceStamp
	}{
		"nothing":          {nil, resolution.NamespaceStamp{}},
		"left over":        {annotated("default-since", early), resolution.NamespaceStamp{}},
		"new":              {annotated("default-ttl", "1d"), resolution.NamespaceStamp{InUse: "true", PodsInUse: "true", Since: fresh}},
		"known":            {annotated("default-ttl", "1d", "default-since", early), resolution.NamespaceStamp{InUse: "true", PodsInUse: "true", Since: early}},
		"other hash":       {annotated("default-ttl", "1d", "default-since", resolution.FormatSince(now, "abc")), resolution.NamespaceStamp{InUse: "true", PodsInUse: "true", Since: fresh}},
		"in the future":    {annotated("default-ttl", "1d", "default-since", resolution.FormatSince(now.Add(time.Hour), hash)), resolution.NamespaceStamp{InUse: "true", PodsInUse: "true", Since: fresh}},
		"unreadable":       {annotated("default-ttl", "1d", "default-since", "?"), resolution.NamespaceStamp{InUse: "true", PodsInUse: "true", Since: fresh}},
		"only a bound":     {annotated("max-ttl", "1d"), resolution.NamespaceStamp{InUse: "true"}},
		"only a deadline":  {annotated("default-deadline", "1d"), resolution.NamespaceStamp{InUse: "true", Since: resolution.FormatSince(now, resolution.DefaultsHash(annotated("default-deadline", "1d")))}},
		"unreadable value": {annotated("default-ttl", "?"), resolution.NamespaceStamp{InUse: "true", PodsInUse: "true", Since: resolution.FormatSince(now, resolution.DefaultsHash(annotated("default-ttl", "?")))}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := resolution.StampNamespace(test.annotations, false, now); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			// While the time is not known, what fits is left alone and nothing else is said.
			if instant, noted, _ := resolution.ParseSince(test.annotations[wellknown.AnnotationDefaultSince]); test.want.Since != "" {
				test.want.Since = ""
				if !instant.IsZero() && noted == resolution.DefaultsHash(test.annotations) {
					test.want.Since = test.annotations[wellknown.AnnotationDefaultSince]
				}
			}
			if got := resolution.StampNamespace(test.annotations, false, time.Time{}); got != test.want {
				t.Errorf("got %+v while the time is not known, want %+v", got, test.want)
			}
		})
	}
}
