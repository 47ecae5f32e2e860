package e2e

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// unreached are permissions that Curfew needs and that no test of this package makes it use for
// sure, with the reason.
var unreached = map[string]string{
	"curfew-cleanup get jobs.batch":                                     "reads a Job again that changed since it was listed",
	"curfew-cleanup get namespaces":                                     "must be allowed before a condition sees a namespaceObject of the controller's",
	"curfew-cleanup get pods":                                           "reads a Pod again that changed since it was listed",
	"curfew-controller delete clustercleanupreports.curfew.dev":         "deletes old reports, as those in namespaces",
	"curfew-controller get cleanupapprovals.curfew.dev":                 "reads an approval again before a later batch of the run",
	"curfew-controller get clustercleanupapprovals.curfew.dev":          "the same",
	"curfew-controller get nodes":                                       "counts Pods whose Node is gone: controller/tally tests that",
	"curfew-controller get pipelineruns.tekton.dev":                     "reads an object again while a watch is behind",
	"curfew-controller get pytorchjobs.kubeflow.org":                    "the same",
	"curfew-controller get rayjobs.ray.io":                              "the same",
	"curfew-controller get sparkapplications.sparkoperator.k8s.io":      "the same",
	"curfew-controller get tfjobs.kubeflow.org":                         "the same",
	"curfew-controller get workflows.argoproj.io":                       "the same",
	"curfew-controller patch events.events.k8s.io":                      "adds to an Event that it created minutes ago",
	"curfew-controller update cleanuppolicies/status.curfew.dev":        "an older controller updates what this one patches",
	"curfew-controller update clustercleanuppolicies/status.curfew.dev": "the same",
	"curfew-controller update podtallies/status.curfew.dev":             "the same",
	"curfew-webhook update secrets curfew-webhook-tls":                  "rotates its CA: TestNoCallFails of test/e2e/serving, and nothing else may replace the Secret",
}

// everyGrantUsed: whatever the manifests grant to Curfew's accounts, some test made Curfew use. A run
// of some of the tests says nothing about it, nor does one in which Kubernetes deletes Jobs first.
func everyGrantUsed(ctx context.Context) error {
	if suite.inTreeTTL || !wholeRun() {
		return nil
	}
	granted, err := suite.cluster.Granted(ctx)
	if err != nil {
		return err
	}
	return judgeGrants(granted, unreached)
}

// judgeGrants is an error about permissions that are neither used nor excepted, and about exceptions
// without a permission.
func judgeGrants(used map[string]bool, excepted map[string]string) error {
	var wrong []string
	for grant, used := range used {
		if !used && excepted[grant] == "" {
			wrong = append(wrong, grant+": no test made Curfew use it")
		}
	}
	for grant := range excepted {
		if _, granted := used[grant]; !granted {
			wrong = append(wrong, grant+": is not granted, but excepted")
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fmt.Errorf("permissions in manifests/rbac:\n%s", strings.Join(wrong, "\n"))
}

// What everyGrantUsed must notice.
func TestGrantsAreJudged(t *testing.T) {
	parallel(t)
	excepted := map[string]string{"a get pods": "happens by chance"}
	for name, c := range map[string]struct {
		used map[string]bool
		want string
	}{
		"used":                      {map[string]bool{"a get pods": true, "a list pods": true}, ""},
		"excepted":                  {map[string]bool{"a get pods": false, "a list pods": true}, ""},
		"not used":                  {map[string]bool{"a get pods": true, "a list pods": false}, "a list pods: no test"},
		"excepted, but not granted": {map[string]bool{"a list pods": true}, "a get pods: is not granted"},
	} {
		err := judgeGrants(c.used, excepted)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// wholeRun reports whether all tests ran, except perhaps TestPeers.
func wholeRun() bool {
	value := func(name string) string {
		if f := flag.Lookup(name); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return value("test.run") == "" && (value("test.skip") == "" || value("test.skip") == "^TestPeers")
}
