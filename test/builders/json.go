package builders

import (
	"encoding/json"
	"errors"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// Map is the JSON form of an object as it comes from the API server: integers are int64, times are
// text in whole seconds. An object that cannot be written, which none of these packages makes,
// yields a map that says so.
func Map(object any) map[string]any {
	raw, err := json.Marshal(object)
	var out map[string]any
	if err = errors.Join(err, utiljson.Unmarshal(raw, &out)); err != nil {
		return map[string]any{"error": fmt.Sprint(err)}
	}
	return out
}
