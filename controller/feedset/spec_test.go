package feedset_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"curfew.dev/curfew/controller/feedset"
	"curfew.dev/curfew/policy/expression"
)

// With listed namespaces no feed watches anything but one of them.
func TestIn(t *testing.T) {
	names := func(specs []*feedset.Spec) (out []string) {
		for _, one := range specs {
			out = append(out, one.Version+" in "+one.Namespace)
		}
		return out
	}
	plain, cluster, run := spec(feedset.Finish, "", "plain"), spec(feedset.Finish, "", "cluster"), spec(feedset.Finish, "", "run")
	cluster.ClusterScoped = true
	run.Profile = &expression.Profile{Runtime: &expression.Runtime{}}
	all := []*feedset.Spec{plain, cluster, run}
	if got := feedset.In(nil, all); !slices.Equal(got, all) {
		t.Errorf("without namespaces: %q", names(got))
	}
	if got := names(feedset.In([]string{"a", "b"}, all)); !slices.Equal(got, []string{"plain in a", "plain in b"}) {
		t.Errorf("got %q, want the spec in a and the spec in b", got)
	}
	if plain.Namespace != "" {
		t.Error("the spec itself was changed")
	}
}

// The Pods of a Job are judged again by the feed of its namespace, where feeds have namespaces.
func TestPodsOfListedNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, set, apply := begin(t, nil)
		typed := feedset.In([]string{"a", "b"}, feedset.Typed())
		apply(slices.DeleteFunc(typed, func(one *feedset.Spec) bool { return one.Resource.Resource != "pods" })...)
		time.Sleep(time.Minute)
		w.events = nil
		set.RejudgePods("b", "uid", true)
		w.expect(t, "b judges the Pods of uid in b")
		set.RejudgePods("a", "", false)
		if !slices.Contains(w.events, "a judges a") {
			t.Errorf("got %q, want all Pods of a judged", w.events)
		}
	})
}
