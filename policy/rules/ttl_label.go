package rules

import (
	"fmt"
	"time"

	"curfew.dev/curfew/policy"
)

// ttlLabel warns of a TTL label that cannot be read or lies in the past, and refuses one outside of the bounds. With
// --strict-labels it refuses the first two as well.
//
// Restricted field: metadata.labels[curfew.dev/ttl], or its alias with --kyverno-label. Allowed values: <n>m, <n>h, <n>d and sums, at least 1m; a date or an
// instant to come; within min-ttl, max-ttl and a policy's latestDate. What breaks nothing but those of policies with action Warn
// is warned about.
var ttlLabel = Rule{
	Name: "ttl-label",
	Check: func(s *Subject) []policy.Finding {
		key, text, ok := s.Options.ttlLabel(s.Facts)
		if !ok || s.IsTemplate() {
			return nil
		}
		path := policy.LabelPath(key)
		complain := s.warn
		if s.Options.StrictLabels {
			complain = s.deny
		}
		label, err := policy.ParseTTLLabel(text)
		if err != nil {
			return []policy.Finding{complain(path, text, err.Error())}
		}
		if s.Now.IsZero() {
			return nil
		}
		created := s.Created
		if created.IsZero() {
			created = s.Now
		}
		// The bounds first: what lies outside of them is kept, past or not, and does not go at once.
		if err := s.Scope.CheckLabel(label, created); err != nil {
			return []policy.Finding{outside(s, &policy.Setting{Path: path, Text: text}, err)}
		}
		if expiry := label.Expiry(created); !expiry.After(s.Now) {
			return []policy.Finding{complain(path, text, fmt.Sprintf(
				"%s was over at %s: the %s goes at once; use a later one", label, expiry.UTC().Format(time.RFC3339), s.Profile.Kind.Kind))}
		}
		if err := s.Scope.CheckLabelOfAll(label, created); err != nil {
			return []policy.Finding{s.warn(path, text, err.Error())}
		}
		return nil
	},
}
