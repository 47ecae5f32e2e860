package preview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	sigsyaml "sigs.k8s.io/yaml"
)

// The API version and kind of a [Case].
const (
	CaseVersion = "cli.curfew.dev/v1alpha1"
	CaseKind    = "CleanupTest"
)

// Case is a test of cleanup policies against manifests.
type Case struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name of the test; by default the path of its file.
	Name string `json:"name,omitempty"`
	// Policies and Manifests are files and folders, relative to the file of the test. Manifests may
	// have the policies in them.
	Policies  []string `json:"policies"`
	Manifests []string `json:"manifests"`
	// Policy is the name of the one that is tested, where there are several.
	Policy string `json:"policy,omitempty"`
	// Now is when the run starts.
	Now time.Time `json:"now"`
	// MatchedSince is since when all objects have matched in each run; by default this is the first.
	MatchedSince time.Time `json:"matchedSince,omitzero"`
	Expect       Expected  `json:"expect"`
}

// Expected is the result that a run must have.
type Expected struct {
	// Deleted are all objects that are deleted, and no others.
	Deleted []Selected `json:"deleted"`
	// Kept are some of the objects that the run keeps.
	Kept []Selected `json:"kept,omitempty"`
	// Stalled is the reason why the run deletes nothing.
	Stalled string `json:"stalled,omitempty"`
	// NextRuns are the first runs after Now.
	NextRuns []time.Time `json:"nextRuns,omitempty"`
}

// Selected is an object of the manifests.
type Selected struct {
	// APIVersion is needed only if several groups have the kind.
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Reason to keep it, as in status.lastRun.skipped; NoMatch if the policy does not match it.
	Reason string `json:"reason,omitempty"`
}

// String is the object as people name it: Job ci/build.
func (s Selected) String() string {
	if s.Namespace == "" {
		return s.Kind + " " + s.Name
	}
	return s.Kind + " " + s.Namespace + "/" + s.Name
}

// ReasonNoMatch is the reason to keep an object that the policy does not match.
const ReasonNoMatch = "NoMatch"

// ParseCase reads a test. Unknown fields are an error: a misspelt one would expect nothing.
func ParseCase(text []byte) (*Case, error) {
	out := &Case{}
	if err := sigsyaml.UnmarshalStrict(text, out); err != nil {
		return nil, err
	}
	given := map[string]bool{"manifests": len(out.Manifests) > 0, "now": !out.Now.IsZero(), "policies": len(out.Policies) > 0}
	missing := slices.DeleteFunc(slices.Sorted(maps.Keys(given)), func(field string) bool { return given[field] })
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s is missing", strings.Join(missing, ", "))
	}
	if out.MatchedSince.After(out.Now) {
		return nil, fmt.Errorf("matchedSince: %s is after now: write an earlier time", out.MatchedSince.Format(time.RFC3339))
	}
	if out.Expect.Stalled != "" && len(out.Expect.Deleted) > 0 {
		return nil, fmt.Errorf("expect: a run that is stalled deletes nothing: leave out deleted or stalled")
	}
	return out, nil
}

// Check compares a result with what a test expects, and returns the differences.
func (c *Case) Check(result *Result, files *Files) []string {
	stalled, is := "", "not stalled"
	if result.Stalled != nil {
		stalled, is = result.Stalled.Reason, fmt.Sprintf("%s (%s)", result.Stalled.Reason, result.Stalled)
	}
	var out []string
	if stalled != c.Expect.Stalled {
		out = append(out, fmt.Sprintf("stalled should be %s, and is: %s", cmp.Or(c.Expect.Stalled, "empty"), is))
	}
	deleted := slices.DeleteFunc(slices.Clone(result.Objects), func(o Object) bool { return o.Reason != "" || stalled != "" })
	for _, want := range c.Expect.Deleted {
		i := slices.IndexFunc(deleted, want.is)
		if i < 0 {
			out = append(out, fmt.Sprintf("%s should be deleted, and is kept: %s", want, why(want, result, files)))
			continue
		}
		deleted = slices.Delete(deleted, i, i+1)
	}
	for _, want := range c.Expect.Kept {
		switch reason := why(want, result, files); {
		case reason == absent:
			out = append(out, fmt.Sprintf("%s should be kept, and %s", want, absent))
		case slices.ContainsFunc(deleted, want.is):
			out = append(out, fmt.Sprintf("%s should be kept, and is deleted", want))
			deleted = slices.DeleteFunc(deleted, want.is)
		case want.Reason != "" && want.Reason != strings.Split(reason, " (")[0]:
			out = append(out, fmt.Sprintf("%s should be kept with reason %s, and its reason is %s", want, want.Reason, reason))
		}
	}
	for i := range deleted {
		out = append(out, fmt.Sprintf("%s is deleted, and is not expected to be", Selected{Kind: deleted[i].Kind, Namespace: deleted[i].Namespace, Name: deleted[i].Name}))
	}
	return append(out, c.checkRuns(result)...)
}

// absent is why an object is kept that does not exist.
const absent = "it is not among the manifests"

// why returns why an object is kept, with the reason in one word first.
func why(want Selected, result *Result, files *Files) string {
	if i := slices.IndexFunc(result.Objects, want.is); i >= 0 {
		object := &result.Objects[i]
		if object.Reason == "" {
			return "the run is stalled"
		}
		return object.Reason + " (" + object.Message + ")"
	}
	for i := range files.resources {
		for _, object := range files.objects[files.resources[i].GroupResource] {
			if want.is(Object{GroupVersionKind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName()}) {
				return ReasonNoMatch
			}
		}
	}
	return absent
}

func (s Selected) is(o Object) bool {
	named := s.Kind == o.Kind && s.Namespace == o.Namespace && s.Name == o.Name
	return named && (s.APIVersion == "" || s.APIVersion == o.GroupVersion().String())
}

func (c *Case) checkRuns(result *Result) []string {
	var out []string
	runs := result.Policy.Schedule.Upcoming(result.Now, len(c.Expect.NextRuns))
	for i, want := range c.Expect.NextRuns {
		have := "none"
		if i < len(runs) {
			have = runs[i].Format(time.RFC3339)
		}
		if i >= len(runs) || !runs[i].Equal(want) {
			out = append(out, fmt.Sprintf("run %d should be at %s, and it is at %s", i+1, want.Format(time.RFC3339), have))
		}
	}
	return out
}
