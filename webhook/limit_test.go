package webhook

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// A namespace gets no more CleanupPolicies than run. Policies that exist can be changed, and where
// they cannot be counted the controller decides.
func TestCleanupPoliciesAreCounted(t *testing.T) {
	const object = `{"apiVersion":"curfew.dev/v1alpha1","kind":"CleanupPolicy","metadata":{"namespace":%q,"name":"a"},"spec":{"schedule":%q,"serviceAccountName":"janitor",` +
		`"matchConstraints":{"resourceRules":[{"apiGroups":[""],"resources":["configmaps"]}]}}}`
	const full = `namespace "plain" has 2 CleanupPolicies, and no more than 2 of them run (--cleanup-max-policies)`
	clock := clocktesting.NewFakeClock(time.Now())
	have, lists, failure := 0, 0, error(nil)
	scheme := metadatafake.NewTestScheme()
	must(t, metav1.AddMetaToScheme(scheme))
	client := metadatafake.NewSimpleMetadataClient(scheme)
	client.PrependReactor("list", "cleanuppolicies", func(did clienttesting.Action) (bool, runtime.Object, error) {
		lists++
		list, found := &metav1.List{}, 0
		by := did.(clienttesting.ListActionImpl).GetListRestrictions().Fields
		for i := range have {
			if did.GetNamespace() == "plain" && by.Matches(fields.Set{"metadata.name": fmt.Sprint("p", i)}) {
				found++
			}
		}
		if found > 0 { // A page of one, as asked for.
			list.RemainingItemCount = ptr.To(int64(found - 1))
			list.Items = []runtime.RawExtension{{Object: &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "curfew.dev/v1alpha1", Kind: "CleanupPolicy"}}}}
		}
		return true, list, failure
	})
	w := newWorld(t, func(o *Options) { o.CleanupPolicies, o.CleanupMaxPolicies, o.Clock = client, 2, clock })
	daily, weekly := fmt.Sprintf(object, "plain", "@daily"), fmt.Sprintf(object, "plain", "@weekly")
	for _, c := range []struct {
		name   string
		ask    ask
		have   int
		failed error
		denied bool
		lists  int
		why    string
	}{
		{name: "none", ask: ask{object: daily}, lists: 1},
		{name: "one", ask: ask{object: daily}, have: 1, lists: 1},
		{name: "two", ask: ask{object: daily}, have: 2, denied: true, lists: 2},
		{name: "two, a moment later", ask: ask{object: daily}, have: 2, denied: true, lists: 1},
		{name: "one of two", ask: ask{object: strings.Replace(daily, `"name":"a"`, `"name":"p1"`, 1)}, have: 2, lists: 2},
		{name: "a third without a name", ask: ask{object: strings.Replace(daily, `"name":"a"`, `"generateName":"a-"`, 1)}, have: 2, denied: true, lists: 1},
		{name: "denied anyway", ask: ask{object: strings.Replace(daily, "janitor", "", 1)}, have: 2, denied: true, why: "spec.serviceAccountName"},
		{name: "a change", ask: ask{object: weekly, old: daily}, have: 2},
		{name: "another namespace", ask: ask{object: fmt.Sprintf(object, "ci", "@daily")}, have: 2, lists: 1},
		{name: "a ClusterCleanupPolicy", ask: ask{object: strings.Replace(strings.Replace(daily, "CleanupPolicy", "ClusterCleanupPolicy", 1), `"namespace":"plain",`, "", 1)}, have: 2},
		{name: "no answer", ask: ask{object: daily}, failed: errors.New("busy"), lists: 1},
	} {
		if c.name != "two, a moment later" {
			clock.Step(2 * fullFor)
		}
		have, lists, failure = c.have, 0, c.failed
		c.ask.path, c.ask.namespace = PathValidatePolicy, "plain"
		switch c.name {
		case "another namespace":
			c.ask.namespace = "ci"
		case "a ClusterCleanupPolicy":
			c.ask.namespace = ""
		}
		response, why := w.ask(t, c.ask), cmp.Or(c.why, full)
		if response.Allowed == c.denied || c.denied && !strings.Contains(response.Result.Message, why) || lists != c.lists {
			t.Errorf("%s: allowed %t %+v; %d lists, want %d", c.name, response.Allowed, response.Result, lists, c.lists)
		}
	}
}
