package cleanup_test

import (
	"context"
	"errors"
	"testing"
)

const volumes = `{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [persistentvolumes, persistentvolumeclaims]}]}, conditions: [{name: x, expression: '`

// A lookup without an answer keeps the object, whatever operators make of the error. Without the
// lookup each of these policies deletes it.
func TestUnknownLookupsKeep(t *testing.T) {
	unanswered := func(string) (bool, error) { return false, errors.New("the list failed") }
	for expression, lookup := range map[string]func(string) (bool, error){
		"!lookup.mounted": unanswered,
		"!lookup.mounted || object.metadata.name == \"a\"":                            unanswered,
		"object.metadata.name != \"a\" || !lookup.mounted || true":                    unanswered,
		"!(lookup.mounted && object.metadata.name == \"b\")":                          unanswered,
		"[1, 2].exists(i, i == 1 ? lookup.mounted : true)":                            unanswered,
		"[true, lookup.mounted][0] || true":                                           unanswered,
		"!lookup.bound || true":                                                       nil,
		"!lookup.mounted || !lookup.bound || true":                                    nil,
		"object.metadata.name == \"a\" && (lookup.selectedByService || true)":         nil,
		"object.metadata.name == \"a\" && (lookup.selectedByService == true || true)": unanswered,
	} {
		for _, kind := range []string{"PersistentVolume, metadata: {namespace: null}", "PersistentVolumeClaim"} {
			o := object(t, "{kind: "+kind+", spec: {}}")
			o.Lookup = lookup
			got := compile(t, volumes+expression+"'}]}").Judge(context.Background(), o)
			if said(got) != "LookupFailed" && said(got) != "EvaluationFailed" {
				t.Errorf("%s, %s: %s", kind, expression, said(got))
			}
		}
	}
	newest := compile(t, `{matchConstraints: {resourceRules: [{apiGroups: [""], resources: [persistentvolumeclaims]}]}, keepNewest: {count: 1, groupBy: '(lookup.mounted || true) ? "a" : "b"'}}`)
	o := object(t, "{kind: PersistentVolumeClaim}")
	o.Lookup = unanswered
	if got := newest.Judge(context.Background(), o); said(got) != "LookupFailed" {
		t.Errorf("in groupBy: %s", said(got))
	}
	// The same object is judged again with the current answers.
	o.Lookup = func(string) (bool, error) { return false, nil }
	if got := newest.Judge(context.Background(), o); said(got) != "delete" {
		t.Errorf("with an answer: %s", said(got))
	}
}

// A list of metadata shows neither spec nor status: no lookup is asked whether such a volume is
// mounted, since the answer would be that it has no claim.
func TestLookupsNeedTheirFields(t *testing.T) {
	for _, c := range []struct{ expression, object, want string }{
		{"!lookup.mounted", "{kind: PersistentVolume, metadata: {namespace: null}}", "EvaluationFailed"},
		{"!lookup.mounted", "{kind: PersistentVolume, metadata: {namespace: null}, spec: {}}", "delete"},
		{"!lookup.mounted", "{kind: PersistentVolumeClaim}", "delete"},
		{"!lookup.bound", "{kind: PersistentVolume, metadata: {namespace: null}, spec: {}}", "EvaluationFailed"},
		{"!lookup.bound", "{kind: PersistentVolume, metadata: {namespace: null}, status: {phase: Released}}", "delete"},
	} {
		p, o := compile(t, volumes+c.expression+"'}]}"), object(t, c.object)
		o.Lookup = func(string) (bool, error) { return false, nil }
		if got := p.Judge(context.Background(), o); said(got) != c.want {
			t.Errorf("%s of %s: %s %s, want %s", c.expression, c.object, said(got), got.Message, c.want)
		}
		if !p.NeedsObject() {
			t.Errorf("%s reads metadata alone", c.expression)
		}
	}
	if compile(t, volumes+"!lookup.owned'}]}").NeedsObject() {
		t.Error("lookup.owned reads whole objects")
	}
}
