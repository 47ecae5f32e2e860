package feedset

import (
	"context"
	"strings"
	"time"

	"curfew.dev/curfew/controller/loop"
	"curfew.dev/curfew/controller/permission"
)

// Needs are the permissions that one purpose takes.
type Needs struct {
	// Reason is the label of the metric while one is missing.
	Reason string
	// Effect of that, for log lines; "" means that the kind is not watched.
	Effect string
	All    []permission.Need
}

// recheck is the longest wait before missing permissions are checked again: no event reports that
// one was granted. The first checks come sooner, since an API server that has just started refuses
// requests until it has read the roles.
const recheck = time.Minute

// ask asks until all permissions are granted, and reports those that are not, once. It returns
// false once ctx is done.
func (s *Set) ask(ctx context.Context, source *Source, spec *Spec, needs *Needs) bool {
	if s.options.Lacks == nil || len(needs.All) == 0 {
		return ctx.Err() == nil
	}
	defer source.Skipped.DeleteLabelValues(spec.Kind.Group, spec.Kind.Kind, needs.Reason)
	reported := ""
	for backoff := loop.NewBackoffOf(time.Second, recheck); ; {
		missing, err := s.options.Lacks(ctx, spec.Namespace, needs.All)
		switch {
		case err != nil:
			source.Log.V(1).Info("could not ask for permissions, trying again", "kind", spec.Kind.Kind, "reason", err.Error())
		case len(missing) == 0:
			return true
		default:
			source.Skipped.WithLabelValues(spec.Kind.Group, spec.Kind.Kind, needs.Reason).Set(1)
			if text := needs.text(missing); text != reported {
				reported = text
				source.report(spec, needs, text)
			}
		}
		if !loop.Pause(ctx, s.options.Clock, backoff.Next()) {
			return false
		}
	}
}

// text lists the missing permissions for log lines: only the verbs if all needs are for the kind
// itself.
func (n *Needs) text(missing []permission.Need) string {
	var out []string
	for _, need := range missing {
		if n.Effect == "" {
			out = append(out, need.Verb)
		} else {
			out = append(out, need.String())
		}
	}
	return strings.Join(out, ", ")
}

func (s *Source) report(spec *Spec, needs *Needs, missing string) {
	if needs.Effect == "" {
		s.Log.Info("kind is skipped: grant its verbs to a ClusterRole with label curfew.dev/aggregate-to-controller",
			"kind", spec.Kind.Kind, "resource", spec.VersionResource().String(), "missing", missing)
		return
	}
	s.Log.Info("Curfew lacks a permission: grant it to a ClusterRole with label curfew.dev/aggregate-to-controller",
		"kind", spec.Kind.Kind, "missing", missing, "effect", needs.Effect)
}
