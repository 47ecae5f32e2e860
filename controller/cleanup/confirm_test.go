package cleanup

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"curfew.dev/curfew/policy/v1alpha1"
)

// deletedAlready reports whether anything was deleted. No request is under way while an account or
// an approval is read.
func (c *cluster) deletedAlready() bool { return len(c.sent) > 0 }

// An account that is deleted in mid-run, or created again under its name, deletes nothing more than
// what was under way. Once it exists the run goes on, as it is then.
func TestAccountIsDeletedInMidRun(t *testing.T) {
	for name, after := range map[string]types.UID{"deleted": "", "created again": "another"} {
		t.Run(name, func(t *testing.T) {
			defer small(1)()
			c := newCluster(t)
			p := tmpPolicy(t, func(*v1alpha1.CleanupSpec) {})
			c.account = func() (types.UID, error) {
				switch {
				case !c.deletedAlready():
					return "account", nil
				case after == "":
					return "", fmt.Errorf("it does not exist: %w", errForbidden)
				}
				return after, nil
			}
			if err := c.work(t.Context(), p); !isForbidden(err) {
				t.Errorf("the run ended with %v", err)
			}
			if sent := len(c.sent); sent == 0 || sent > inFlight+1 {
				t.Errorf("WRONG DELETE: %d objects were deleted", sent)
			}
			if granted := c.condition(v1alpha1.ConditionPermissionsGranted); !strings.HasPrefix(granted, "False Forbidden") {
				t.Error(granted)
			}
			if sent := len(c.sent); after == "" {
				if err := c.work(t.Context(), p); !isForbidden(err) || len(c.sent) != sent {
					t.Errorf("without an account %d more were deleted: %v", len(c.sent)-sent, err)
				}
			}
			c.account = nil
			must(t, c.work(t.Context(), p))
			c.check("with an account")
		})
	}
}

// approvals has one approval of a policy while it is approved.
func approvals(uid types.UID, hash string, approved func() bool) *dynamicfake.FakeDynamicClient {
	resource := v1alpha1.GroupVersion.WithResource(v1alpha1.ClusterCleanupApprovals)
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		resource: "ClusterCleanupApprovalList", v1alpha1.GroupVersion.WithResource(v1alpha1.CleanupApprovals): "CleanupApprovalList"})
	approval := unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "yes"}, "spec": map[string]any{"policyUID": string(uid), "specHash": hash}}}
	client.PrependReactor("get", "*", func(did clienttesting.Action) (bool, runtime.Object, error) {
		if name := did.(clienttesting.GetAction).GetName(); name != "yes" || !approved() {
			return true, nil, apierrors.NewNotFound(resource.GroupResource(), name)
		}
		return true, approval.DeepCopy(), nil
	})
	client.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &unstructured.UnstructuredList{Object: map[string]any{}}
		if approved() {
			list.Items = append(list.Items, *approval.DeepCopy())
		}
		return true, list, nil
	})
	return client
}

// An approval that is deleted in mid-run ends the deletions. The rest of the run is a dry run.
func TestApprovalIsDeletedInMidRun(t *testing.T) {
	defer small(1)()
	c := newCluster(t)
	p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.Approval = v1alpha1.ApprovalRequired })
	objects := approvals(p.UID, p.Hash, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return !c.deletedAlready()
	})
	process := c.controller()
	process.options.Objects = objects
	if err := process.start(t.Context(), c.cur(p, start), start); err == nil || !strings.Contains(err.Error(), errUnapproved.Error()) {
		t.Errorf("the run ended with %v", err)
	}
	sent := len(c.sent)
	if sent == 0 || sent > inFlight+1 {
		t.Errorf("WRONG DELETE: %d objects were deleted", sent)
	}
	process = c.controller()
	process.options.Objects = objects
	name := ""
	process.options.Event = func(_ *unstructured.Unstructured, _, _, message string) { name = message }
	must(t, process.finish(t.Context(), c.cur(p, start), true))
	if want := fmt.Sprintf("deleted %d of ", sent); c.status.LastRun.DryRun || !strings.HasPrefix(name, want) || !strings.Contains(name, "would delete") {
		t.Errorf("it says %q, and dry run %t", name, c.status.LastRun.DryRun)
	}
	if stalled := c.condition(v1alpha1.ConditionStalled); len(c.sent) != sent || !strings.HasPrefix(stalled, "True WaitingForApproval") || c.status.Deleted != int64(sent) {
		t.Errorf("deleted %d, then %d, counted %d: %s", sent, len(c.sent), c.status.Deleted, stalled)
	}
}

// A run lists approvals once, to find its own. A role that may list approvals and not get them
// still lets approved policies run, and an answer of 429 delays its batch alone.
func TestApprovalsAreListedOnce(t *testing.T) {
	for name, mayGet := range map[string]bool{"with get": true, "without get": false, "busy once": true} {
		t.Run(name, func(t *testing.T) {
			defer small(1)()
			c := newCluster(t)
			p := tmpPolicy(t, func(s *v1alpha1.CleanupSpec) { s.Approval = v1alpha1.ApprovalRequired })
			objects, did := approvals(p.UID, p.Hash, func() bool { return true }), map[string]int{}
			if !mayGet {
				objects.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: v1alpha1.ClusterCleanupApprovals}, "yes", errForbidden)
				})
			}
			busy := name == "busy once"
			objects.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if now := busy && c.deletedAlready(); now {
					busy = false
					return true, nil, apierrors.NewTooManyRequests("busy", 8)
				}
				return false, nil, nil
			})
			process := c.controller()
			process.options.Objects = objects
			must(t, process.start(t.Context(), c.cur(p, start), start))
			if c.check("approved"); busy || c.status.LastRun.Phase != v1alpha1.RunCompleted {
				t.Errorf("the run is %s, %t", c.status.LastRun.Phase, busy)
			}
			for _, action := range objects.Actions() {
				did[action.GetVerb()]++
			}
			if did["get"] < 5 || mayGet && did["list"] != 1 {
				t.Errorf("%v, want 1 list and a read before each of 5 batches", did)
			}
		})
	}
}

// A policy whose account does not exist says so before its first run.
func TestAccountThatNeverExisted(t *testing.T) {
	c := newCluster(t)
	c.account = func() (types.UID, error) { return "", fmt.Errorf("it does not exist: %w", errForbidden) }
	must(t, c.controller().checkPermissions(t.Context(), c.cur(tmpPolicy(t, func(*v1alpha1.CleanupSpec) {}), start)))
	if granted := c.condition(v1alpha1.ConditionPermissionsGranted); !strings.HasPrefix(granted, "False Forbidden it does not exist") {
		t.Error(granted)
	}
}
