package backfill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"curfew.dev/curfew/controller/deletion"
	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// object labels one object if it lacks a label. If the object has changed since it was listed,
// object judges it once more in its newest state; the next round judges objects that keep changing.
// An error ends the list: something that concerns more than this object could not be read.
func (l *Labels) object(ctx context.Context, info *kind, meta *metav1.PartialObjectMetadata, counts *counts) error {
	moved, err := l.label(ctx, info, meta, counts)
	if err != nil || !moved {
		return err
	}
	newest, err := l.options.Metadata.Resource(info.VersionResource()).Namespace(meta.Namespace).Get(ctx, meta.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return l.unreadable(ctx, counts, fmt.Errorf("reading %s %s/%s: %w", info.GroupResource(), meta.Namespace, meta.Name, err))
	default:
		if moved, err = l.label(ctx, info, newest, counts); err != nil || !moved {
			return err
		}
	}
	counts.moved++
	l.results.WithLabelValues("moved").Inc()
	return nil
}

// unreadable counts an object that cannot be read. Beyond a number of them, the visit ends.
func (l *Labels) unreadable(ctx context.Context, counts *counts, err error) error {
	if ctx.Err() != nil || len(counts.unreadable) == maxUnreadable {
		return err
	}
	counts.failed++
	counts.unreadable = append(counts.unreadable, err)
	l.results.WithLabelValues("failed").Inc()
	return nil
}

// label makes one attempt on one state of an object, and reports whether the object has changed
// since.
func (l *Labels) label(ctx context.Context, info *kind, meta *metav1.PartialObjectMetadata, counts *counts) (moved bool, err error) {
	may, err := l.mayLack(ctx, info, meta)
	if err != nil || !may {
		return false, err
	}
	for wait := l.rate.Wait(l.mono()); wait > 0; wait = l.rate.Wait(l.mono()) {
		if !loop.Pause(ctx, l.options.Clock, wait) {
			return false, ctx.Err()
		}
	}
	found, err := l.judge(ctx, info, meta)
	unreadable := (*unreadableError)(nil)
	switch {
	case errors.As(err, &unreadable):
		return false, l.unreadable(ctx, counts, err)
	case err != nil:
		return false, err
	case found.withheld || found.label != "" && l.options.DryRun:
		counts.dryRun++
		return false, nil
	case found.label == "" && found.said != nil:
		if errors.Is(found.said.Err, resolution.ErrNeedsBackfill) {
			counts.withheld++
		}
		l.log.V(1).Info("no default TTL label", "kind", info.Kind.Kind, "object", klog.KObj(meta), "reason", found.said.Err.Error())
		return false, nil
	case found.label == "":
		return false, nil
	}
	return l.give(ctx, info, found, counts)
}

// mono is the time since the start, which no change of the wall clock moves.
func (l *Labels) mono() time.Duration { return l.options.Clock.Since(l.began) }

// mayLack reports whether an object may lack a label, judged by its metadata and cached namespaces.
func (l *Labels) mayLack(ctx context.Context, info *kind, meta *metav1.PartialObjectMetadata) (bool, error) {
	facts := policy.FactsOfMeta(info.profile, &meta.ObjectMeta)
	_, given := facts.Annotations[wellknown.AnnotationLabelSource]
	if given || facts.Deleting || facts.Protected() || l.protected(facts.Namespace) || facts.Owner != nil && !facts.OwnedByCronJob() {
		return false, nil
	}
	variables := &expression.Variables{}
	if facts.Namespace != "" {
		var err error
		if variables.NamespacePolicy, err = l.options.Cached.Namespace(ctx, facts.Namespace); err != nil {
			return false, fmt.Errorf("reading namespace %q: %w", facts.Namespace, err)
		}
		if variables.NamespacePolicy == nil {
			return false, nil // It is gone, and its objects go with it.
		}
	}
	return slices.ContainsFunc(info.policies, func(p *expression.Policy) bool { return p.MayLabel(ctx, &facts, variables) }), nil
}

// finding is the label that an object lacks.
type finding struct {
	facts *policy.Facts // of the state that was judged
	label string        // "" if it lacks none
	said  *lifetime.Setting
	// withheld means that the object gets no label only because of a dry run.
	withheld bool
}

// subject is the object that is judged: its metadata, and all of it once it was read whole.
type subject struct {
	meta  *metav1.PartialObjectMetadata
	whole map[string]any
}

// judge decides which label an object lacks. It reads the policies and the namespace live only if
// the cached ones say that the object lacks a label.
func (l *Labels) judge(ctx context.Context, info *kind, meta *metav1.PartialObjectMetadata) (finding, error) {
	object := &subject{meta: meta}
	found, err := l.judgeBy(ctx, l.options.Cached, info, object)
	if err != nil || found.label == "" {
		return found, err
	}
	return l.judgeBy(ctx, l.options.Live, info, object)
}

// pinned is a source whose snapshot stays the same while one object is judged.
type pinned struct {
	platform.Source
	snapshot *platform.Snapshot
}

func (p pinned) Snapshot(context.Context) (*platform.Snapshot, error) { return p.snapshot, nil }

// judgeBy judges an object by one source. The policies of that source decide whether the object is
// read whole, since they may have changed after the list began.
func (l *Labels) judgeBy(ctx context.Context, source platform.Source, info *kind, object *subject) (found finding, err error) {
	snapshot, err := source.Snapshot(ctx)
	if err == nil {
		err = snapshot.Incomplete()
	}
	if err != nil {
		return finding{}, err
	}
	facts, content, err := l.read(ctx, newKind(info.Place, snapshot), object)
	if err != nil || facts == nil {
		return finding{}, err
	}
	now, err := l.options.ServerTime(ctx)
	if err != nil {
		return finding{}, fmt.Errorf("the API server's time: %w", err)
	}
	around, err := platform.ContextOf(ctx, pinned{source, snapshot}, platform.Whole(facts, content))
	if err != nil {
		return finding{}, err
	}
	if len(around.Failures) > 0 && l.options.Failed != nil {
		l.options.Failed(info.Kind.Kind+" "+klog.KRef(facts.Namespace, facts.Name).String(), around.Failures)
	}
	if facts.Namespace != "" && (around.Namespace == nil || around.NamespaceUnknown) {
		return finding{}, nil
	}
	around.Protected = l.protected(facts.Namespace)
	found.facts, found.withheld = facts, resolution.WithheldLabel(facts, &around.Scope, now) != ""
	found.label, found.said = resolution.MissingLabel(facts, &around.Scope, now)
	return found, nil
}

// unreadableError means that one object cannot be read. Others may be.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// read returns the facts and the JSON form of the object, read whole if a policy needs that. It
// returns nil if the object is gone.
func (l *Labels) read(ctx context.Context, info *kind, object *subject) (*policy.Facts, map[string]any, error) {
	meta := object.meta
	if info.whole && object.whole == nil {
		read, err := l.options.Whole.Resource(info.VersionResource()).Namespace(meta.Namespace).Get(ctx, meta.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil, nil
		case err != nil:
			return nil, nil, &unreadableError{fmt.Errorf("reading %s %s/%s: %w", info.GroupResource(), meta.Namespace, meta.Name, err)}
		}
		object.whole = read.Object
	}
	if object.whole != nil {
		return policy.FactsOfObjectContext(ctx, info.profile, object.whole), object.whole, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(meta)
	if err != nil {
		return nil, nil, err
	}
	content["apiVersion"], content["kind"] = info.GroupVersion().String(), info.Kind.Kind
	return new(policy.FactsOfMeta(info.profile, &meta.ObjectMeta)), content, nil
}

// skippedLabels are the labels of the metric for a kind that is called "Deployment.apps" in logs.
func skippedLabels(name string) prometheus.Labels {
	kind := schema.ParseGroupKind(name)
	return prometheus.Labels{"group": kind.Group, "kind": kind.Kind, "reason": "permission"}
}

// give writes the label that an object lacks, and reports whether the object has changed since.
func (l *Labels) give(ctx context.Context, info *kind, found finding, counts *counts) (moved bool, err error) {
	l.rate.Take(l.mono())
	facts := found.facts
	err = l.patch(ctx, info, found)
	l.rate.Done(l.mono(), err == nil || !deletion.Answered(err)) // Without an answer it may have been written.
	switch {
	case err == nil:
		counts.given++
		l.results.WithLabelValues("given").Inc()
		l.log.V(1).Info("given its default TTL label", "kind", info.Kind.Kind, "object", klog.KRef(facts.Namespace, facts.Name), "uid", facts.UID,
			"label", found.label, "source", found.said.Source.String())
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	default:
		counts.failed++
		l.results.WithLabelValues("failed").Inc()
		l.log.V(1).Info("could not be given its default TTL label", "kind", info.Kind.Kind,
			"object", klog.KRef(facts.Namespace, facts.Name), "reason", err.Error())
	}
	return false, nil
}

// patch writes the label and where it came from, if the object is still in the state that was
// judged.
func (l *Labels) patch(ctx context.Context, info *kind, found finding) error {
	facts := found.facts
	content := map[string]any{"uid": facts.UID, "resourceVersion": facts.ResourceVersion}
	for _, assignment := range resolution.LabelAssignments(facts, found.label, found.said, true) {
		field, key := assignment.Path[1], assignment.Path[2]
		content[field] = map[string]any{key: assignment.Value}
	}
	patch, err := json.Marshal(map[string]any{"metadata": content})
	if err != nil {
		return err
	}
	_, err = l.options.Metadata.Resource(info.VersionResource()).Namespace(facts.Namespace).
		Patch(ctx, facts.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

const fieldManager = "curfew-defaults"
