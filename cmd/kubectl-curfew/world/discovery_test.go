package world

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"curfew.dev/curfew/policy/cleanup"
)

func TestRank(t *testing.T) {
	jobs := &metav1.APIResource{Name: "jobs", SingularName: "job", Kind: "Job", ShortNames: []string{"j"}}
	for text, want := range map[string]int{
		"jobs": byPlural, "jobs.batch": byPlural, "jobs.v1.batch": byPlural, "JOBS.bat": byPlural, "job": bySingular, "Job.batch": bySingular, "Job.v1.batch": bySingular,
		"j": byShortName, "j.batch": byShortName,
		"jobs.": 0, "jobs.v2.batch": 0, "jobs.other": 0, "jobsets": 0, "": 0, ".batch": 0,
	} {
		if have := rank(text, schema.GroupVersion{Group: "batch", Version: "v1"}, jobs); have != want {
			t.Errorf("%q: %d, want %d", text, have, want)
		}
	}
}

// stale is a discovery in which one group does not answer.
type stale struct{ discovery.DiscoveryInterface }

func (stale) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return nil, nil, &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "metrics.k8s.io", Version: "v1beta1"}: errors.New("stale")}}
}

// TestResourcesAreNotAll: a preview learns which groups discovery did not show, as a run does.
func TestResourcesAreNotAll(t *testing.T) {
	w := &cluster{clients: Clients{Discovery: stale{}}}
	w.discover = w.askDiscovery
	_, err := w.Resources(t.Context())
	silent := cleanup.SilentGroups(nil)
	if !errors.As(err, &silent) || !slices.Equal(silent, []string{"metrics.k8s.io"}) {
		t.Errorf("error is %v, want that metrics.k8s.io does not answer", err)
	}
	if notes := w.Notes(); !slices.Equal(notes, []string{"no answer from metrics.k8s.io: kinds of these groups are left out"}) {
		t.Errorf("notes are %q", notes)
	}
}
