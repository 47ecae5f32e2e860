package stop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/v1alpha1"
	"curfew.dev/curfew/policy/wellknown"
)

// defaultCondition is the type of the condition that says that an object failed.
const defaultCondition = "Failed"

// conditions describes where in one state of an object the mark is to be written.
type conditions struct {
	// status and list report whether status, and the list of conditions in it, are there.
	status, list bool
	// at is the index of each condition, by its type.
	at map[string]int
}

func conditionsOf(object map[string]any) conditions {
	var out conditions
	var status map[string]any
	status, out.status = object["status"].(map[string]any)
	var list []any
	list, out.list = status["conditions"].([]any)
	for i, each := range list {
		condition, _ := each.(map[string]any)
		if kind, ok := condition["type"].(string); ok {
			if out.at == nil {
				out.at = map[string]int{}
			}
			out.at[kind] = i
		}
	}
	return out
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// patch returns a JSON Patch (RFC 6902) that writes a condition into exactly the state that was
// seen. It replaces an existing condition of the same type and never adds a second one (a CRD need
// not declare that conditions are keyed by type). It also writes the given fields of the status.
func (c conditions) patch(uid types.UID, resourceVersion string, condition metav1.Condition, fields map[string]string) ([]byte, error) {
	write := operation{Op: "add", Path: "/status/conditions/-", Value: condition}
	i, there := c.at[condition.Type]
	switch {
	case there:
		write = operation{Op: "replace", Path: "/status/conditions/" + strconv.Itoa(i), Value: condition}
	case !c.status:
		write = operation{Op: "add", Path: "/status", Value: map[string]any{"conditions": []metav1.Condition{condition}}}
	case !c.list:
		write.Path, write.Value = "/status/conditions", []metav1.Condition{condition}
	}
	patch := []operation{
		{Op: "test", Path: "/metadata/uid", Value: uid},
		{Op: "test", Path: "/metadata/resourceVersion", Value: resourceVersion},
		write,
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		patch = append(patch, operation{Op: "add", Path: "/status/" + escaped.Replace(name), Value: fields[name]})
	}
	return json.Marshal(patch)
}

// escaped escapes a name for a JSON Pointer (RFC 6901).
var escaped = strings.NewReplacer("~", "~0", "/", "~1")

// mark fails the object itself, in the state that was judged. The step holds if the object is
// marked already, by Curfew or by another controller.
func (s *stopping) mark(ctx context.Context, step v1alpha1.StopStep) (bool, error) {
	if !s.seen.exceeded.IsZero() {
		s.begun = true
		return true, nil
	}
	t, err := s.options.ServerTime(ctx)
	if err != nil {
		return false, err
	}
	now := s.options.Clock.Now()
	condition := s.condition(step, t)
	patch, err := s.seen.conditions.patch(s.due.UID, s.due.ResourceVersion, condition, step.Status)
	if err != nil {
		return false, err
	}
	// The answer is not used. Asking for the metadata only costs both sides least.
	_, err = s.options.Metadata.Resource(s.plan.Resource).Namespace(s.due.Namespace).
		Patch(ctx, s.due.Name, types.JSONPatchType, patch, s.patchOptions(), "status")
	s.took = s.options.Clock.Now().Sub(now)
	switch {
	case statusCode(err) == http.StatusUnprocessableEntity:
		// The object has changed since it was seen, so that the engine judges it live, or the API
		// server does not accept the mark: a read shows which.
		s.confirmed = false
		if changed := s.confirm(ctx); changed != nil {
			return false, changed
		}
		return false, fmt.Errorf("marking %s %s/%s as failed: %w", s.plan.Kind.Kind, s.due.Namespace, s.due.Name, err)
	case apierrors.IsNotFound(err):
		// The object is gone, or its kind has no status subresource: a read shows which.
		if gone := s.confirm(ctx); gone != nil {
			return false, gone
		}
		return false, faultf("%s %s/%s cannot be marked as failed, since %s has no status subresource: add it to the CustomResourceDefinition",
			s.plan.Kind.Kind, s.due.Namespace, s.due.Name, s.plan.Resource.GroupResource())
	case err != nil:
		return false, fmt.Errorf("marking %s %s/%s as failed: %w", s.plan.Kind.Kind, s.due.Namespace, s.due.Name, err)
	case s.due.DryRun:
		return true, nil
	}
	s.marked, s.begun, s.confirmed = true, true, true
	s.markAccepted(condition, now)
	return true, nil
}

// fieldManager is the name under which the API server notes who wrote the mark.
const fieldManager = "curfew-deadline"

func (s *stopping) patchOptions() metav1.PatchOptions {
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if s.due.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return options
}

func (s *stopping) condition(step v1alpha1.StopStep, now time.Time) metav1.Condition {
	kind := cmp.Or(step.ConditionType, defaultCondition)
	return metav1.Condition{
		Type: kind, Status: metav1.ConditionTrue, Reason: policy.ReasonDeadlineExceeded,
		LastTransitionTime: metav1.NewTime(now), Message: s.message(now),
	}
}

// message names the deadline, how long the object was active, and which setting decided.
func (s *stopping) message(now time.Time) string {
	if s.seen.started.IsZero() {
		return "was active beyond its deadline"
	}
	text := fmt.Sprintf("was active for %s, longer than its deadline of %s", now.Sub(s.seen.started).Round(time.Second), s.seen.deadline)
	if s.due.Source != "" && s.due.Source != string(lifetime.LevelObject) {
		text += " from " + s.due.Source
	}
	return text
}

// markAccepted counts, logs and reports a mark, once.
func (s *stopping) markAccepted(condition metav1.Condition, now time.Time) {
	late := max(0, now.Add(s.took).Sub(s.due.Expiry))
	s.marks.WithLabelValues(s.plan.Kind.Group, s.plan.Kind.Kind).Inc()
	s.lateness.WithLabelValues(s.plan.Kind.Group, s.plan.Kind.Kind).Observe(late.Seconds())
	s.log.Info("failed", "kind", s.plan.Kind.Kind, "object", s.due.ObjectName(), "uid", s.due.UID,
		"reason", condition.Reason, "message", condition.Message, "lateness", late, "source", s.due.Source)
	if s.options.Marked != nil {
		s.options.Marked(Mark{Kind: s.plan.Kind, Namespace: s.due.Namespace, Name: s.due.Name, UID: s.due.UID, Message: condition.Message})
	}
}

func statusCode(err error) int {
	if status, ok := err.(apierrors.APIStatus); ok {
		return int(status.Status().Code)
	}
	return 0
}

// suspend sets the kind's own field. The UID in the patch protects an object that was re-created
// under the same name (S2). The resourceVersion protects an object that has completed or was given
// more time since it was judged (S1). If this attempt has written the mark, that patch has checked
// the resourceVersion already.
func (s *stopping) suspend(ctx context.Context) (_ bool, err error) {
	if s.seen.suspended && !s.seen.exceeded.IsZero() {
		s.begun = true
		return true, nil
	}
	if len(s.plan.Suspend) == 0 {
		return false, faultf("%s has no field that suspends it: name one in fields.suspend of its KindProfile", s.plan.Kind.Kind)
	}
	value := s.plan.SuspendValue
	for i := len(s.plan.Suspend) - 1; i >= 0; i-- {
		value = map[string]any{s.plan.Suspend[i]: value}
	}
	body := value.(map[string]any)
	metadata, _ := body["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		body["metadata"] = metadata
	}
	metadata["uid"] = s.due.UID
	if !s.marked {
		metadata["resourceVersion"] = s.due.ResourceVersion
	}
	if s.seen.exceeded.IsZero() && !s.marked && s.seen.generation != 0 {
		if metadata["annotations"], err = s.record(ctx); err != nil {
			return false, err
		}
	}
	patch, err := json.Marshal(body)
	if err != nil {
		return false, err
	}
	_, err = s.options.Objects.Resource(s.plan.Resource).Namespace(s.due.Namespace).
		Patch(ctx, s.due.Name, types.MergePatchType, patch, s.patchOptions())
	if err != nil {
		return false, fmt.Errorf("suspending %s %s/%s: %w", s.plan.Kind.Kind, s.due.Namespace, s.due.Name, err)
	}
	s.begun, s.confirmed = true, true
	return true, nil
}

// record returns the annotation by which Curfew recognises its own suspension: a suspended object
// has no deadline, but Curfew still has to stop its Pods. The patch changes the spec once. The next
// change of the spec invalidates the record.
func (s *stopping) record(ctx context.Context) (map[string]string, error) {
	now, err := s.options.ServerTime(ctx)
	if err != nil {
		return nil, err
	}
	return map[string]string{wellknown.AnnotationSuspendedAt: judging.SuspensionRecord(now, s.seen.generation+1)}, nil
}
