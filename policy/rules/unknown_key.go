package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// unknownKey warns of a key with Curfew's prefix that Curfew does not know, such as a misspelt one.
// Match conditions only look known keys up (S9), so that this rule sees requests that are sent for
// another reason, and Namespaces.
var unknownKey = Rule{
	Name:   "unknown-key",
	Fields: []string{UnknownNamespaceKey},
	Beside: []string{UnknownKey},
	Check: func(s *Subject) {
		if strings.Contains(s.Prefix, "[") {
			return // An object can have tens of thousands of templates in lists (S9).
		}
		for _, key := range unknownKeys(s.Annotations) {
			s.warn(policy.AnnotationPath(key), s.Annotations[key], unknown(key))
		}
		for _, key := range unknownKeys(s.Labels) {
			s.warn(policy.LabelPath(key), s.Labels[key], unknown(key))
		}
	},
}

// maxUnknown bounds the work for one map. A longer key is none that the API server accepts.
const (
	maxUnknown = 10
	maxKey     = len(wellknown.Prefix) + 63
)

// unknownKeys are the first of the keys that Curfew does not know.
func unknownKeys(fields map[string]string) []string {
	out := slices.DeleteFunc(slices.Sorted(maps.Keys(fields)), func(key string) bool {
		return !strings.HasPrefix(key, wellknown.Prefix) || len(key) > maxKey || policy.Known(key)
	})
	return out[:min(len(out), maxUnknown)]
}

func unknown(key string) string {
	fix := "remove it, or correct its name"
	if near := nearest(key); near != "" {
		fix = fmt.Sprintf("did you mean %s?", near)
	}
	return "is not a key of Curfew, and has no effect: " + fix
}

// writtenKeys are the keys that people write.
var writtenKeys = slices.Concat(wellknown.NamespaceAnnotations, wellknown.LifetimeAnnotations,
	[]string{wellknown.AnnotationPodTTL, wellknown.AnnotationProtect, wellknown.LabelTTL})

// nearest is the known key that differs least, "" where none is near. Up to a third of the letters
// may differ.
func nearest(key string) string {
	name := strings.TrimPrefix(key, wellknown.Prefix)
	found, least := "", max(1, len(name)/3)+1
	for _, known := range writtenKeys {
		if d := distance(name, strings.TrimPrefix(known, wellknown.Prefix)); d < least {
			found, least = known, d
		}
	}
	switch found {
	case "":
		return ""
	case wellknown.LabelTTL:
		return "label " + found
	default:
		return "annotation " + found
	}
}

// distance is how many letters have to be inserted, removed, replaced or swapped with the next one
// to make one text of the other.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replaced := last[j]
			if a[i] != b[j] {
				replaced++
			}
			row[j+1] = min(replaced, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
