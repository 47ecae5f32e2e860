package cleanup

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/controller/follow"
	"curfew.dev/curfew/policy/cleanup"
	"curfew.dev/curfew/policy/v1alpha1"
)

// store is what a run keeps in the API server: the status of its policy and its report pages.
type store struct {
	clock             clock.Clock
	client            survey.Clients
	policies, reports dynamic.ResourceInterface
	policy            *cleanup.Policy
	// kinds of the policy and its pages.
	kind, reportKind string
	reportResource   schema.GroupVersionResource
	// reportBytes is how much all report pages of the namespace may take; 0 means any number.
	reportBytes int64
	// resourceVersion of the policy, and status as it was last read or written.
	resourceVersion string
	status          v1alpha1.CleanupPolicyStatus
}

// newStore keeps the runs of a policy, as it was just read.
func newStore(
	clock clock.Clock, client dynamic.Interface, policy *cleanup.Policy, version string, status v1alpha1.CleanupPolicyStatus,
) *store {
	s := &store{
		clock: clock, client: survey.Clients{Objects: client}, policy: policy, resourceVersion: version, status: status,
		kind: "ClusterCleanupPolicy", reportKind: "ClusterCleanupReport",
	}
	policies, reports := v1alpha1.ClusterCleanupPolicies, v1alpha1.ClusterCleanupReports
	if policy.Namespace != "" {
		s.kind, s.reportKind = "CleanupPolicy", "CleanupReport"
		policies, reports = v1alpha1.CleanupPolicies, v1alpha1.CleanupReports
	}
	s.reportResource = v1alpha1.GroupVersion.WithResource(reports)
	s.policies = client.Resource(v1alpha1.GroupVersion.WithResource(policies)).Namespace(policy.Namespace)
	s.reports = client.Resource(s.reportResource).Namespace(policy.Namespace)
	return s
}

func (s *store) current() *v1alpha1.CleanupPolicyStatus { return &s.status }

// writeStatus replaces the status. A policy that was edited meanwhile is read again: its spec does
// not matter here. A status that is not the one this store wrote last ends the run.
func (s *store) writeStatus(ctx context.Context, status *v1alpha1.CleanupPolicyStatus) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.CleanupPolicy{Status: *status})
	if err != nil {
		return fmt.Errorf("status of %s: %w", s.policy.ID(), err)
	}
	// As the API server stores it: times are in whole seconds.
	stored, err := statusOf(&unstructured.Unstructured{Object: content})
	if err != nil {
		return err
	}
	err = follow.Overwrite(ctx, s.clock, errGone, func(ctx context.Context) error {
		patch, err := follow.StatusPatch(s.policy.UID, s.resourceVersion, content["status"])
		if err != nil {
			return err
		}
		options := metav1.PatchOptions{FieldManager: fieldManager}
		written, err := s.policies.Patch(ctx, s.policy.Name, types.JSONPatchType, patch, options, "status")
		if err == nil {
			s.resourceVersion, s.status = written.GetResourceVersion(), stored
		}
		return err
	}, func(ctx context.Context) (written bool, err error) { return s.reread(ctx, &stored) })
	if err != nil {
		return fmt.Errorf("writing the status of %s: %w", s.policy.ID(), err)
	}
	return nil
}

// confirm reads the policy live. It is an error if it is not what the run applies any more.
func (s *store) confirm(ctx context.Context) error {
	live, err := s.policies.Get(ctx, s.policy.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && (live.GetUID() != s.policy.UID || live.GetDeletionTimestamp() != nil):
		return errGone
	case err != nil:
		return fmt.Errorf("reading %s: %w", s.policy.ID(), err)
	}
	if live.GetGeneration() != s.policy.Generation {
		return errChanged
	}
	return nil
}

// reread reads the policy after a conflict. It reports whether the status is the wanted one: the
// answer to an earlier write was lost.
func (s *store) reread(ctx context.Context, wanted *v1alpha1.CleanupPolicyStatus) (written bool, err error) {
	live, err := s.policies.Get(ctx, s.policy.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return false, err
	case live.GetUID() != s.policy.UID:
		return false, errGone
	}
	status, err := statusOf(live)
	if err != nil {
		return false, err
	}
	if written = equalStatus(&status, wanted); !written && !equalStatus(&status, &s.status) {
		return false, errOvertaken
	}
	s.resourceVersion, s.status = live.GetResourceVersion(), status
	return written, nil
}

// owned implements storage.
func (s *store) owned(ctx context.Context) error {
	_, err := s.reread(ctx, &s.status)
	if apierrors.IsNotFound(err) {
		return errGone
	}
	return err
}

// writePage implements storage. Server-side apply would cost the API server twice as much for a
// page of 75 kB.
func (s *store) writePage(ctx context.Context, page *page) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&page.fields)
	if err != nil {
		return fmt.Errorf("report %s: %w", page.name, err)
	}
	object, controller := &unstructured.Unstructured{Object: content}, true
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(s.reportKind))
	object.SetNamespace(s.policy.Namespace)
	object.SetName(page.name)
	object.SetResourceVersion(page.version)
	object.SetLabels(map[string]string{v1alpha1.LabelCleanupPolicyUID: string(s.policy.UID), v1alpha1.LabelCleanupRun: page.fields.Run})
	object.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: s.kind, Name: s.policy.Name, UID: s.policy.UID, Controller: &controller,
	}})
	var written *unstructured.Unstructured
	if page.version == "" {
		written, err = s.reports.Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		written, err = s.patchPage(ctx, object)
	}
	if err != nil {
		return fmt.Errorf("writing report %s: %w", page.name, err)
	}
	page.version = written.GetResourceVersion()
	return nil
}

// patchPage replaces all fields of a page that exists in this version.
func (s *store) patchPage(ctx context.Context, page *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	whole := map[string]any{"dryRun": nil, "deleted": nil, "truncated": nil, "objects": nil, "summary": nil, "matched": nil}
	maps.Copy(whole, page.Object) // What a merge patch does not name stays as it is.
	data, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	return s.reports.Patch(ctx, page.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: fieldManager})
}

// readPage implements storage.
func (s *store) readPage(ctx context.Context, name string) (fields *v1alpha1.CleanupReportFields, version string, err error) {
	object, err := s.reports.Get(ctx, name, metav1.GetOptions{})
	if follow.IsGone(err) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading report %s: %w", name, err)
	}
	page := &v1alpha1.CleanupReport{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, page); err != nil {
		return nil, "", fmt.Errorf("reading report %s: %w", name, err)
	}
	if page.Policy.UID != s.policy.UID {
		return nil, page.ResourceVersion, nil
	}
	return &page.CleanupReportFields, page.ResourceVersion, nil
}

func statusOf(object *unstructured.Unstructured) (v1alpha1.CleanupPolicyStatus, error) {
	out := &v1alpha1.CleanupPolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out); err != nil {
		return v1alpha1.CleanupPolicyStatus{}, fmt.Errorf("reading the status of %s: %w", object.GetName(), err)
	}
	return out.Status, nil
}
