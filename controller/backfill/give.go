package backfill

import (
	"context"
	"encoding/json"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"curfew.dev/curfew/policy"
)

// give writes the label that an object lacks, and reports whether the object has changed since.
func (l *Labels) give(ctx context.Context, of *kind, found finding, counts *counts) (moved bool, err error) {
	l.rate.Take(l.mono())
	facts := found.facts
	err = l.patch(ctx, of, found)
	answer := apierrors.APIStatus(nil)
	l.rate.Done(l.mono(), err == nil || !errors.As(err, &answer)) // Without an answer it may have been written.
	switch {
	case err == nil:
		counts.given++
		l.results.WithLabelValues("given").Inc()
		l.log.V(1).Info("given its default TTL label", "kind", of.Kind.Kind, "object", klog.KRef(facts.Namespace, facts.Name), "uid", facts.UID,
			"label", found.label, "source", found.said.Source.String())
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	default:
		counts.failed++
		l.results.WithLabelValues("failed").Inc()
		l.log.V(1).Info("could not be given its default TTL label", "kind", of.Kind.Kind, "object", klog.KRef(facts.Namespace, facts.Name), "reason", err.Error())
	}
	return false, nil
}

// patch writes the label and where it came from, if the object is still in the state that was
// judged.
func (l *Labels) patch(ctx context.Context, of *kind, found finding) error {
	facts := found.facts
	content := map[string]any{"uid": facts.UID, "resourceVersion": facts.ResourceVersion}
	for _, assignment := range policy.LabelAssignments(facts, found.label, found.said, true) {
		field, key := assignment.Path[1], assignment.Path[2]
		content[field] = map[string]any{key: assignment.Value}
	}
	patch, err := json.Marshal(map[string]any{"metadata": content})
	if err != nil {
		return err
	}
	_, err = l.options.Metadata.Resource(of.VersionResource()).Namespace(facts.Namespace).Patch(ctx, facts.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

const fieldManager = "curfew-defaults"
