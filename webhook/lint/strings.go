package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"curfew.dev/curfew/policy"
)

// notStrings are Curfew's annotations and labels whose value is no string, such as a duration
// without quotes. The API server rejects the object without naming the fix.
func notStrings(object map[string]any) []policy.Finding {
	metadata, _ := object["metadata"].(map[string]any)
	var out []policy.Finding
	for _, of := range []string{"annotations", "labels"} {
		values, _ := metadata[of].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if !strings.HasPrefix(key, policy.Prefix) && key != policy.LabelKyvernoTTL {
				continue
			}
			finding := policy.Finding{Rule: RuleSchema, Field: fmt.Sprintf("metadata.%s[%s]", of, key), Severity: policy.Deny}
			switch value := values[key].(type) {
			case string:
				continue
			case bool, int64, float64:
				finding.Message = fmt.Sprintf(`%v is not a string: write it in quotes: "%[1]v"`, value)
			default:
				finding.Message = policy.Describe(value) + " is not a string"
			}
			out = append(out, finding)
		}
	}
	return out
}
