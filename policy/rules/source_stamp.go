package rules

import (
	"fmt"

	"curfew.dev/curfew/policy"
)

// sourceStamp denies to write what Curfew alone writes: a value that is marked as somebody's default escapes the bounds when
// the controller judges it. Removing the mark is allowed: it gives no rights, and kubectl replace does it. A new object with a
// mark that Curfew did not write was not changed by the mutating webhook, which corrects it: the value counts as its author's.
//
// Restricted fields: metadata.annotations[curfew.dev/ttl-source, deadline-source].
// Allowed values: on UPDATE unchanged, absent, or "object" where there was another, which Curfew writes once the value is changed and
// which gives no rights either; on CREATE any other than Curfew's own is warned about.
var sourceStamp = Rule{
	Name: "source-stamp",
	Review: func(r *Request) []policy.Finding {
		var out []policy.Finding
		if r.Operation == Create {
			for _, key := range r.forged {
				text, _ := annotationsPath.Child(key).Get(r.Object)
				out = append(out, policy.Finding{Field: policy.AnnotationPath(key), Value: fmt.Sprint(text), Severity: policy.Warn,
					Message: "was not written by Curfew, so that the value counts as yours: remove it"})
			}
			return out
		}
		if r.OldFacts == nil {
			return nil
		}
		for _, key := range []string{policy.AnnotationTTLSource, policy.AnnotationDeadlineSource} {
			now, ok := r.Facts.Annotations[key]
			before, had := r.OldFacts.Annotations[key]
			if ok && (!had || now != before) && !(had && now == string(policy.LevelObject)) {
				out = append(out, policy.Finding{Field: policy.AnnotationPath(key), Value: now, Severity: policy.Deny,
					Message: "is written by Curfew alone: leave it as it is, or remove it"})
			}
		}
		return out
	},
}

var annotationsPath = policy.FieldPath{"metadata", "annotations"}
