package world

import (
	"fmt"
	"maps"
	"testing"
)

// TestSettingsAreRead: a setting is read or reported as unusable, and never guessed.
func TestSettingsAreRead(t *testing.T) {
	before := Controller{Namespace: "here", User: "someone", Protect: []string{"kube-system", "here"}}
	published := map[string]string{"dry-run": "false", "kyverno-label": "false", "namespace": "here", "protect": "prod,infra", "user": "me", "enable": "ttl,label,cleanup,deadline,tally", "builtin-profiles": "true", "leave-native-ttl": "false"}
	for name, test := range map[string]struct {
		change map[string]string
		want   string
	}{
		"as published":         {nil, "me false false [prod infra here] []"},
		"dry-run":              {map[string]string{"dry-run": "true"}, "me true false [prod infra here] []"},
		"alias":                {map[string]string{"kyverno-label": "true"}, "me false true [prod infra here] []"},
		"nothing is protected": {map[string]string{"protect": ""}, "me false false [here] []"},
		"another namespace":    {map[string]string{"namespace": "other"}, "me false false [prod infra other] []"},
		"no user":              {map[string]string{"user": ""}, "someone false false [prod infra here] []"},
		"a trigger is off":     {map[string]string{"enable": "label,deadline"}, "me false false [prod infra here] [ttl cleanup tally]"},
		"a bad value":          {map[string]string{"dry-run": "perhaps"}, `key dry-run: strconv.ParseBool: parsing "perhaps": invalid syntax`},
		"a missing key":        {map[string]string{"protect": "-"}, "it has no key protect"},
	} {
		data := maps.Clone(published)
		for key, value := range test.change {
			if data[key] = value; value == "-" {
				delete(data, key)
			}
		}
		have, err := before.with(data)
		text := fmt.Sprint(have.User, " ", have.DryRun, " ", have.Alias, " ", have.Protect, " ", have.Off)
		if err != nil {
			text = err.Error()
		}
		if text != test.want {
			t.Errorf("%s: %s, want %s", name, text, test.want)
		}
	}
}
