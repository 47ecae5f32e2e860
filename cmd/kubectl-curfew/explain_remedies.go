package main

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// against are the commands that remove an obstacle, or show more of it. name is the object in the
// form that kubectl takes.
func (e *explained) against(kind policy.ObstacleKind, name string) []string {
	switch facts := e.of.Facts; kind {
	case policy.ObstacleProtection:
		namespace := facts.Namespace
		if facts.IsNamespace() {
			namespace = facts.Name
		}
		switch {
		case facts.Protected():
			return []string{"kubectl annotate " + name + " " + policy.AnnotationProtect + "-"}
		case !facts.CurfewsOwn() && e.controller.Unknown == "" && namespace != e.controller.Namespace:
			return []string{"kubectl edit " + e.controller.Name() + "   # take " + namespace + " out of --protect"}
		}
	case policy.ObstacleDryRun:
		if namespace := e.of.Scope.Namespace; namespace != nil && namespace.Mode == policy.ModeDryRun {
			return []string{"kubectl annotate namespace " + namespace.Name + " " + policy.AnnotationMode + "-"}
		}
		for _, trigger := range []policy.Trigger{policy.TriggerTTL, policy.TriggerLabel} {
			if of, held := e.of.HeldBy(trigger); held {
				return []string{"kubectl edit lifecyclepolicy " + of.Name + "   # its mode is DryRun"}
			}
		}
		return []string{"kubectl edit " + e.controller.Name() + "   # take --dry-run away"}
	case policy.ObstacleOff:
		return []string{"kubectl edit " + e.controller.Name() + "   # add it to --enable, here and in deployment/curfew-webhook"}
	case policy.ObstacleTerminating, policy.ObstacleFinalizer:
		if len(facts.Finalizers) > 0 {
			return []string{"kubectl get " + name + " -o jsonpath='{.metadata.finalizers}'"}
		}
	case policy.ObstacleOwner:
		group, _, found := strings.Cut(facts.Owner.APIVersion, "/")
		if !found {
			group = ""
		}
		owner := world.Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Kind: facts.Owner.Kind}}.Name(facts.Owner.Name)
		if facts.Namespace != "" {
			owner += " -n " + facts.Namespace
		}
		return []string{"kubectl curfew explain " + owner}
	case policy.ObstaclePermission:
		role, resource := "curfew-controller-"+e.kind.Resource, e.kind.GroupResource()
		return []string{
			"kubectl create clusterrole " + role + " --verb=get,list,watch,delete --resource=" + resource.String(),
			"kubectl label clusterrole " + role + " " + policy.LabelAggregate + "=true",
		}
	case policy.ObstacleController:
		return e.controller.Remedies()
	case policy.ObstacleBreaker:
		goes, _ := e.of.Goes()
		switch goes.Source.Level {
		case policy.LevelPolicy:
			return []string{"kubectl describe lifecyclepolicy " + goes.Source.Name}
		case policy.LevelNamespace:
			return []string{"kubectl describe namespace " + goes.Source.Name}
		default:
			return []string{"kubectl describe namespace " + facts.Namespace}
		}
	}
	return nil
}

// aboutDeadline are the commands that would extend the deadline by an hour.
func (e *explained) aboutDeadline(name string) []string {
	for _, entry := range e.entries {
		if entry.Trigger != policy.TriggerDeadline || e.fixedDeadline() != "" {
			continue
		}
		began := entry.Expiry.Add(-entry.Value.After)
		to := roundUp(max(entry.Value.After, e.now.Sub(began))+time.Hour, time.Minute)
		bounds := e.enforced()
		if bounds.CheckDeadline(policy.TTL{After: to}) != nil && bounds.Deadline.Max != nil {
			return []string{raised(bounds.Deadline.Max, to)}
		}
		if e.annotatedDeadline() {
			return []string{annotate(name, policy.AnnotationActiveDeadline, to)}
		}
		return []string{fmt.Sprintf(`kubectl patch %s --type=merge -p '{"spec":{"activeDeadlineSeconds":%d}}'`, name, int64(to/time.Second))}
	}
	return nil
}

// annotatedDeadline reports whether the deadline is, or would be, an annotation.
func (e *explained) annotatedDeadline() bool {
	if own := e.of.Facts.Deadline(); own != nil {
		return own.Field() == policy.AnnotationActiveDeadline
	}
	return e.of.Facts.Profile.AnnotatedDeadline
}

// fixedDeadline says why no command can extend the deadline; "" where one can, or there is none.
func (e *explained) fixedDeadline() string {
	profile := e.of.Facts.Profile
	switch {
	case e.deadline() == "" || e.of.Facts.Deleting:
		return ""
	case profile.ImmutableDeadline, e.of.Facts.IsPod(): // The API server lets that of a Pod be lowered alone.
		return "its deadline cannot be put off any more"
	case e.annotatedDeadline(), e.kind.Group == "batch" && e.kind.Kind == "Job":
		return ""
	default:
		return "its deadline stands in " + profile.Deadline.String() + ": whether that can be changed by now its own controller decides"
	}
}
