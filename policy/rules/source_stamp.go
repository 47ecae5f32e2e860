package rules

import (
	"curfew.dev/curfew/policy"
)

// sourceStamp refuses to write what Curfew alone writes: a value that is marked as somebody's default escapes the bounds when
// the controller judges it. Taking the mark away is allowed: it gives no rights, and kubectl replace does it.
//
// Restricted fields: metadata.annotations[curfew.dev/ttl-source, deadline-source] on UPDATE.
// Allowed values: unchanged, or absent.
var sourceStamp = Rule{
	Name: "source-stamp",
	Transition: func(r *Request) []policy.Finding {
		var out []policy.Finding
		for _, key := range []string{policy.AnnotationTTLSource, policy.AnnotationDeadlineSource} {
			now, ok := r.Facts.Annotations[key]
			before, had := r.OldFacts.Annotations[key]
			if ok && (!had || now != before) {
				out = append(out, policy.Finding{Field: policy.AnnotationPath(key), Value: now, Severity: policy.Deny,
					Message: "is written by Curfew alone: leave it as it is, or remove it"})
			}
		}
		return out
	},
}
