package explain

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

const day = 24 * time.Hour

// advice are commands that would change the expiry or the deadline. None of them expires the object
// at once, and none is known to be rejected.
func (e *explained) advice() []string {
	name := e.kind.Name(e.of.Facts.Name) + flagOf(e.of.Facts.Namespace)
	if e.of.Facts.Deleting {
		return unique(e.againstObstacles(name))
	}
	out := append(e.againstOthers(name), e.againstObstacles(name)...)
	if e.cleanedFirst() != nil {
		if _, err := change.Protect(e.subject()); err == nil {
			out = append(out, "kubectl annotate "+name+" "+wellknown.AnnotationProtect+"=true")
		}
		return unique(out)
	}
	if !e.withAnother() && (!e.blocked() || e.obstructed(judging.ObstacleValue) || len(e.entries) == 0 && !e.kept()) {
		out = append(out, e.aboutExpiry(name)...)
		out = append(out, e.aboutDeadline(name)...)
	}
	return unique(out)
}

func (e *explained) againstObstacles(name string) []string {
	var out []string
	for _, obstacle := range e.obstacles {
		if obstacle.Kind == judging.ObstaclePermission && e.kind.ClusterScoped && len(e.entries) == 0 {
			continue // No setting asks Curfew to delete it.
		}
		out = append(out, e.against(obstacle.Kind, name)...)
		for _, pause := range e.pauses {
			if obstacle.Kind == judging.ObstaclePause && obstacle.Message == pause.Message() {
				out = append(out, "kubectl curfew resume "+pause.Name)
			}
		}
	}
	return out
}

// aboutExpiry are the commands that would change the expiry.
func (e *explained) aboutExpiry(name string) []string {
	for _, entry := range e.entries {
		switch {
		case judging.Stops(entry.Trigger), judging.InfoOf(entry.Trigger).Judge != nil:
		case entry.Source.Level == lifetime.LevelRuntime:
			return []string{annotate(e.runtimeName(), ttlKey(e.of.Scope.Runtime.TTL, e.of.Facts.Outcome), e.longer(entry))}
		case entry.Expiry.IsZero() && entry.Value.Never && !entry.ByOutcome:
			return []string{annotate(name, ttlKey(e.of.Facts.TTLs(), e.of.Facts.Outcome), e.longer(entry))}
		default:
			return e.changing(entry, name)
		}
	}
	if e.backfillLeavesTime() {
		return []string{"kubectl annotate " + e.runtimeName() + " " + wellknown.AnnotationBackfill + "=true" +
			"   # its TTL then deletes whatever finished before it"}
	}
	return e.given(name)
}

// backfillLeavesTime reports whether backfill on its runtime would delete the object, and not at
// once.
func (e *explained) backfillLeavesTime() bool {
	facts := e.of.Facts
	if !facts.Finished || !e.of.Effective.TTL(facts.Outcome).Unreached() {
		return false
	}
	setting := e.of.Scope.Runtime.TTL.For(facts.Outcome)
	return setting != nil && setting.Err == nil && !setting.TTL.Never && facts.FinishTime.Add(setting.TTL.After).After(e.now)
}

// runtimeName is the runtime in the form that kubectl takes.
func (e *explained) runtimeName() string {
	if e.runtime == nil {
		return "" // An unknown runtime decides nothing.
	}
	return world.Kind{GroupVersionKind: e.runtime.Kind}.Name(e.runtime.Name) + flagOf(e.runtime.Namespace)
}

// changing are the commands for an expiry that the object decides, or may override.
func (e *explained) changing(entry world.Entry, name string) []string {
	var out []string
	switch {
	case e.may(change.Target{By: day}):
		out = append(out, "kubectl curfew extend "+name+" --by 1d")
	case e.may(change.Target{Until: e.now.Add(day)}):
		out = append(out, "kubectl curfew extend "+name+" --until 1d")
	default:
		out = append(out, e.raise(e.boundsOf(entry.Trigger), e.longer(entry))...)
	}
	if _, err := change.Keep(e.subject()); err == nil {
		out = append(out, "kubectl curfew keep "+name)
	}
	return out
}

// given are the commands that would give it an expiry, about a day from now.
func (e *explained) given(name string) []string {
	facts := e.of.Facts
	if e.kind.ClusterScoped && !facts.IsNamespace() && e.of.LabelKey == "" {
		return nil // Such an object rarely is temporary, and belongs to everybody.
	}
	if facts.Profile.Finishable() {
		if to, ok := e.inADay(e.enforced().TTL, e.finished()); ok && e.may(change.Target{To: to}) {
			return []string{"kubectl curfew extend " + name + " --to " + lifetime.FormatDuration(to)}
		}
	}
	bounds := e.enforced().Label
	to, ok := e.inADay(bounds, facts.Created)
	if !ok {
		return e.raise(bounds, to)
	}
	out := "kubectl label " + name + " " + wellknown.LabelTTL + "=" + lifetime.FormatDuration(to)
	if _, ok := facts.Labels[wellknown.LabelTTL]; ok {
		out += " --overwrite"
	}
	return []string{out}
}

// inADay is a number of whole days, counted from an instant, that ends about a day from now, moved
// into the bounds. ok is false where the bounds allow no time in the future.
func (e *explained) inADay(bounds lifetime.Range, from time.Time) (length time.Duration, ok bool) {
	length = (e.now.Sub(from)/day + 1) * day
	if from.Add(length).Before(e.now.Add(time.Hour)) {
		length += day
	}
	bounded := bounds.Clamp(lifetime.TTL{After: length}).After
	if !from.Add(bounded).After(e.now) {
		return length, false
	}
	return bounded, true
}

// longer is a TTL that expires a day later than the present one, and at least a day from now.
func (e *explained) longer(entry world.Entry) time.Duration {
	from := e.finished()
	if entry.Trigger == policy.TriggerLabel {
		from, _ = e.of.Facts.LabelClock()
	}
	if entry.Value.Never {
		length, _ := e.inADay(e.boundsOf(entry.Trigger), from)
		return length
	}
	return roundUp(max(entry.Value.After, e.now.Sub(from))+day, time.Hour)
}

// enforced are the bounds that a new value must keep.
func (e *explained) enforced() lifetime.Bounds {
	return e.of.Scope.BoundsFor(e.of.Facts, resolution.EnforcedBounds)
}

// boundsOf returns the enforced bounds of TTLs, or of labels.
func (e *explained) boundsOf(trigger policy.Trigger) lifetime.Range {
	if trigger == policy.TriggerLabel {
		return e.enforced().Label
	}
	return e.enforced().TTL
}

// finished is when a TTL after finished starts.
func (e *explained) finished() time.Time {
	if facts := e.of.Facts; facts.Finished && !facts.FinishTime.IsZero() {
		return facts.FinishTime
	}
	return e.now
}

// raise is the command that raises the bound which does not allow a TTL.
func (e *explained) raise(bounds lifetime.Range, to time.Duration) []string {
	if value := (lifetime.TTL{After: to}); bounds.Max != nil && bounds.Clamp(value) != value {
		return []string{raised(bounds.Max, to)}
	}
	for _, platformPolicy := range e.of.Scope.Policies {
		if !platformPolicy.LatestDate.IsZero() && e.of.LabelKey != "" {
			return []string{"kubectl edit lifecyclepolicy " + platformPolicy.Name + "   # its latest date is in the way"}
		}
	}
	return nil
}

func raised(bound *lifetime.Setting, to time.Duration) string {
	if bound.Source.Level == lifetime.LevelNamespace {
		return annotate("namespace "+bound.Source.Name, bound.Field(), to) + "   # it has all that this allows"
	}
	return "kubectl edit lifecyclepolicy " + bound.Source.Name + "   # it has all that this allows: " + bound.Field() + " " + bound.Text
}

// subject is the object in the form that package change takes.
func (e *explained) subject() *change.Subject {
	return &change.Subject{Object: e.object, Explained: e.of, Alias: e.controller.Alias, Now: e.now}
}

// may reports whether extend would succeed.
func (e *explained) may(target change.Target) bool {
	_, err := change.Extend(e.subject(), target)
	return err == nil
}

func annotate(name, key string, value time.Duration) string {
	return "kubectl annotate " + name + " " + key + "=" + lifetime.FormatDuration(value) + " --overwrite"
}

// ttlKey is the annotation of a level that decides for an outcome, by default the plain one.
func ttlKey(ttlSet lifetime.TTLSet, outcome lifetime.Outcome) string {
	switch decides := ttlSet.For(outcome); {
	case decides == nil:
	case decides == ttlSet.Succeeded:
		return wellknown.AnnotationTTLSucceeded
	case decides == ttlSet.Failed:
		return wellknown.AnnotationTTLFailed
	}
	return wellknown.AnnotationTTL
}

func roundUp(length, unit time.Duration) time.Duration {
	return (length + unit - 1).Truncate(unit)
}

func unique(all []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(line string) bool {
		known := seen[line]
		seen[line] = true
		return known
	})
}

// against are the commands that remove an obstacle, or show more of it. name is the object in the
// form that kubectl takes.
func (e *explained) against(kind judging.ObstacleKind, name string) []string {
	switch facts := e.of.Facts; kind {
	case judging.ObstacleProtection:
		namespace := facts.Namespace
		if facts.IsNamespace() {
			namespace = facts.Name
		}
		switch {
		case facts.Protected():
			return []string{"kubectl annotate " + name + " " + wellknown.AnnotationProtect + "-"}
		case !facts.CurfewsOwn() && e.controller.Unknown == "" && namespace != e.controller.Namespace:
			return []string{"kubectl edit " + e.controller.Name() + "   # take " + namespace + " out of --protect"}
		}
	case judging.ObstacleDryRun:
		if namespace := e.of.Scope.Namespace; namespace != nil && namespace.Mode == resolution.ModeDryRun {
			return []string{"kubectl annotate namespace " + namespace.Name + " " + wellknown.AnnotationMode + "-"}
		}
		for _, trigger := range []policy.Trigger{policy.TriggerTTL, policy.TriggerLabel} {
			if source, held := e.of.HeldBy(trigger); held {
				return []string{"kubectl edit lifecyclepolicy " + source.Name + "   # its mode is DryRun"}
			}
		}
		return []string{"kubectl edit " + e.controller.Name() + "   # take --dry-run away"}
	case judging.ObstacleOff:
		return []string{"kubectl edit " + e.controller.Name() + "   # add it to --enable, here and in deployment/curfew-webhook"}
	case judging.ObstacleTerminating, judging.ObstacleFinalizer:
		if len(facts.Finalizers) > 0 {
			return []string{"kubectl get " + name + " -o jsonpath='{.metadata.finalizers}'"}
		}
	case judging.ObstacleOwner:
		owner := world.Kind{GroupVersionKind: schema.FromAPIVersionAndKind(facts.Owner.APIVersion, facts.Owner.Kind)}
		return []string{"kubectl curfew explain " + owner.Name(facts.Owner.Name) + flagOf(facts.Namespace)}
	case judging.ObstaclePermission:
		role, resource := "curfew-controller-"+e.kind.Resource, e.kind.GroupResource()
		return []string{
			"kubectl create clusterrole " + role + " --verb=get,list,watch,delete --resource=" + resource.String(),
			"kubectl label clusterrole " + role + " " + wellknown.LabelAggregate + "=true",
		}
	case judging.ObstacleController:
		return e.controller.Remedies()
	case judging.ObstacleBreaker:
		goes, _ := e.of.Goes()
		switch goes.Source.Level {
		case lifetime.LevelPolicy:
			return []string{"kubectl describe lifecyclepolicy " + goes.Source.Name}
		case lifetime.LevelNamespace:
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
		if bounds.CheckDeadline(lifetime.TTL{After: to}) != nil && bounds.Deadline.Max != nil {
			return []string{raised(bounds.Deadline.Max, to)}
		}
		if e.annotatedDeadline() {
			return []string{annotate(name, wellknown.AnnotationActiveDeadline, to)}
		}
		return []string{fmt.Sprintf(`kubectl patch %s --type=merge -p '{"spec":{"activeDeadlineSeconds":%d}}'`, name, int64(to/time.Second))}
	}
	return nil
}

// annotatedDeadline reports whether the deadline is, or would be, an annotation.
func (e *explained) annotatedDeadline() bool {
	if own := e.of.Facts.Deadline(); own != nil {
		return own.Field() == wellknown.AnnotationActiveDeadline
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
		return "its deadline is set in " + profile.Deadline.String() + ": only its controller decides whether it can still change"
	}
}
