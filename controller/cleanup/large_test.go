package cleanup

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/feed"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Tenants may write approvals, and reports have thousands of objects: whatever their size, a page
// of them takes a few megabytes.
func TestLargeApprovalsAndReports(t *testing.T) {
	const total = 16
	var mu sync.Mutex
	small, listed := 0, map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodDelete {
			_, _ = fmt.Fprint(w, "{}")
			return
		}
		mu.Lock()
		defer mu.Unlock()
		from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		to, next := min(total, from+limit), ""
		if to < total {
			next = strconv.Itoa(to)
		}
		if from > 0 && to-from <= 8 {
			small++
		}
		_, _ = fmt.Fprintf(w, `{"kind":"List","apiVersion":"curfew.dev/v1alpha1","metadata":{"continue":%q},"items":[`, next)
		for i := from; i < to; i++ {
			listed[r.URL.Path+strconv.Itoa(i)] = true
			_, _ = fmt.Fprintf(w, `{"apiVersion":"curfew.dev/v1alpha1","kind":"X","metadata":{"name":"x%d","labels":{%q:"run-%d"},"annotations":{"a":%q}}}%s`,
				i, v1alpha1.LabelCleanupRun, i, strings.Repeat("x", 1<<19), strings.Repeat(",", min(1, to-1-i)))
		}
		_, _ = fmt.Fprint(w, "]}")
	}))
	defer server.Close()
	client, err := feed.NewObjects(&rest.Config{Host: server.URL})
	must(t, err)
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.Approval = v1alpha1.ApprovalRequired })
	process := newCluster(t).controller()
	process.options.Objects = client
	r, err := process.newRun(&current{policy: p, ledger: &ledger{store: newCluster(t)}}, &v1alpha1.CleanupRun{})
	must(t, err)
	if approved, err := r.approved(t.Context()); approved || err != nil {
		t.Errorf("approved %v, %v", approved, err)
	}
	if err := newStore(clock.RealClock{}, client, p, "1", v1alpha1.CleanupPolicyStatus{}).prune(t.Context(), "", start); err != nil {
		t.Error(err)
	}
	if small < 4 || len(listed) != 2*total {
		t.Errorf("%d small pages, %d objects listed", small, len(listed))
	}
}
