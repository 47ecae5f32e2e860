package main

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/change"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

const day = 24 * time.Hour

// advice are the commands that would change when it goes, or is stopped. None of them has it go at once, and none is known to be refused.
func (e *explained) advice() []string {
	name := e.kind.Name(e.of.Facts.Name)
	if e.of.Facts.Namespace != "" {
		name += " -n " + e.of.Facts.Namespace
	}
	var out []string
	for _, obstacle := range e.obstacles {
		out = append(out, e.against(obstacle.Kind, name)...)
	}
	if !e.of.Facts.Deleting && (!e.stopped() || e.unusable() || len(e.entries) == 0 && !e.kept()) {
		out = append(out, e.aboutExpiry(name)...)
		out = append(out, e.aboutDeadline(name)...)
	}
	return unique(out)
}

// aboutExpiry are the commands that would have it go at another time.
func (e *explained) aboutExpiry(name string) []string {
	for _, entry := range e.entries {
		switch {
		case entry.Trigger == policy.TriggerDeadline:
		case entry.Source.Level == policy.LevelRuntime:
			return []string{annotate(e.runtimeName(), ttlKey(e.of.Scope.Runtime.TTL, e.of.Facts.Outcome), e.longer(entry))}
		case entry.Expiry.IsZero() && entry.Value.Never && !entry.ByOutcome:
			return []string{annotate(name, ttlKey(e.of.Facts.TTLs(), e.of.Facts.Outcome), e.longer(entry))}
		default:
			return e.changing(entry, name)
		}
	}
	return e.given(name)
}

// runtimeName is the runtime that it uses as kubectl takes it.
func (e *explained) runtimeName() string {
	if e.runtime == nil {
		return "" // Nothing goes by the word of a runtime that cannot be told.
	}
	out := strings.ToLower(e.runtime.Kind.Kind) + "." + e.runtime.Kind.Group + "/" + e.runtime.Name
	if e.runtime.Namespace != "" {
		out += " -n " + e.runtime.Namespace
	}
	return out
}

// changing are the commands for what goes by its own word, or a default that it may overrule.
func (e *explained) changing(entry world.Entry, name string) []string {
	var out []string
	switch {
	case e.may(change.Target{By: day}):
		out = append(out, "kubectl curfew extend "+name+" --by 1d")
	case e.may(change.Target{Until: e.now.Add(day)}):
		out = append(out, "kubectl curfew extend "+name+" --until 1d")
	default:
		out = append(out, e.raise(e.longer(entry))...)
	}
	if _, err := change.Cancel(e.subject()); err == nil {
		out = append(out, "kubectl curfew cancel "+name)
	}
	return out
}

// given are the commands that would have it go at all, in a day or so.
func (e *explained) given(name string) []string {
	facts := e.of.Facts
	if facts.Profile.Finishable() {
		if to, ok := e.inADay(e.finished()); ok && e.may(change.Target{To: to}) {
			return []string{"kubectl curfew extend " + name + " --to " + policy.FormatDuration(to)}
		}
	}
	to, ok := e.inADay(facts.Created)
	if !ok {
		return e.raise(to)
	}
	out := "kubectl label " + name + " " + policy.LabelTTL + "=" + policy.FormatDuration(to)
	if _, ok := facts.Labels[policy.LabelTTL]; ok {
		out += " --overwrite"
	}
	return []string{out}
}

// inADay is a length of whole days from an instant that ends within the next day or a little later, moved into the bounds; ok is false
// where these leave no time to come.
func (e *explained) inADay(from time.Time) (length time.Duration, ok bool) {
	length = (e.now.Sub(from)/day + 1) * day
	if from.Add(length).Before(e.now.Add(time.Hour)) {
		length += day
	}
	bounded := e.of.Scope.EnforcedFor(e.of.Facts).ClampTTL(policy.TTL{After: length}).After
	if !from.Add(bounded).After(e.now) {
		return length, false
	}
	return bounded, true
}

// longer is a TTL by which it would go a day later than by what it has, and not in the next day.
func (e *explained) longer(entry world.Entry) time.Duration {
	from := e.finished()
	if entry.Trigger == policy.TriggerLabel {
		from = e.of.Facts.Created
	}
	if entry.Value.Never {
		length, _ := e.inADay(from)
		return length
	}
	return roundUp(max(entry.Value.After, e.now.Sub(from))+day, time.Hour)
}

// finished is when a TTL after finished begins.
func (e *explained) finished() time.Time {
	if facts := e.of.Facts; facts.Finished && !facts.FinishTime.IsZero() {
		return facts.FinishTime
	}
	return e.now
}

// raise is the command that lets it have a TTL that its bounds do not allow.
func (e *explained) raise(to time.Duration) []string {
	bounds := e.of.Scope.EnforcedFor(e.of.Facts)
	if bounds.CheckTTL(policy.TTL{After: to}) != nil && bounds.MaxTTL != nil {
		return []string{raised(bounds.MaxTTL, to)}
	}
	for _, said := range e.of.Scope.Policies {
		if !said.LatestDate.IsZero() && e.of.LabelKey != "" {
			return []string{"kubectl edit lifecyclepolicy " + said.Name + "   # its latest date is in the way"}
		}
	}
	return nil
}

func raised(bound *policy.Setting, to time.Duration) string {
	if bound.Source.Level == policy.LevelNamespace {
		return annotate("namespace "+bound.Source.Name, bound.Field(), to) + "   # it has all that this allows"
	}
	return "kubectl edit lifecyclepolicy " + bound.Source.Name + "   # it has all that this allows: " + bound.Field() + " " + bound.Text
}

// aboutDeadline are the commands that would have it stopped an hour later.
func (e *explained) aboutDeadline(name string) []string {
	for _, entry := range e.entries {
		if entry.Trigger != policy.TriggerDeadline || e.fixedDeadline() != "" {
			continue
		}
		began := entry.Expiry.Add(-entry.Value.After)
		to := roundUp(max(entry.Value.After, e.now.Sub(began))+time.Hour, time.Minute)
		bounds := e.of.Scope.EnforcedFor(e.of.Facts)
		if bounds.CheckDeadline(policy.TTL{After: to}) != nil && bounds.MaxDeadline != nil {
			return []string{raised(bounds.MaxDeadline, to)}
		}
		if e.annotatedDeadline() {
			return []string{annotate(name, policy.AnnotationActiveDeadline, to)}
		}
		return []string{fmt.Sprintf(`kubectl patch %s --type=merge -p '{"spec":{"activeDeadlineSeconds":%d}}'`, name, int64(to/time.Second))}
	}
	return nil
}

// annotatedDeadline reports whether its deadline is, or would be, an annotation.
func (e *explained) annotatedDeadline() bool {
	if own := e.of.Facts.Deadline(); own != nil {
		return own.Field() == policy.AnnotationActiveDeadline
	}
	return e.of.Facts.Profile.AnnotatedDeadline
}

// fixedDeadline says why no command is known that would have it stopped later; "" where there is one, or nothing stops it.
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

// subject is the object as those commands take it that would change it.
func (e *explained) subject() *change.Subject {
	return &change.Subject{Object: e.object, Explained: e.of, Alias: e.controller.Alias, Now: e.now}
}

// may reports whether extend would do it.
func (e *explained) may(target change.Target) bool {
	_, err := change.Extend(e.subject(), target)
	return err == nil
}

func annotate(name, key string, value time.Duration) string {
	return "kubectl annotate " + name + " " + key + "=" + policy.FormatDuration(value) + " --overwrite"
}

// ttlKey is the annotation of a level that decides for an outcome; the plain one where that is none.
func ttlKey(said policy.TTLSet, outcome policy.Outcome) string {
	switch decides := said.For(outcome); {
	case decides == nil:
	case decides == said.Succeeded:
		return policy.AnnotationTTLSucceeded
	case decides == said.Failed:
		return policy.AnnotationTTLFailed
	}
	return policy.AnnotationTTL
}

func roundUp(length, unit time.Duration) time.Duration {
	return (length + unit - 1).Truncate(unit)
}

// against are the commands that take an obstacle away, or show more of it. name is the object as kubectl takes it.
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
		return []string{"kubectl edit " + e.controller.Name() + "   # take --dry-run away"}
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

// unusable reports whether a value that cannot be used keeps the object.
func (e *explained) unusable() bool {
	for _, obstacle := range e.obstacles {
		if obstacle.Kind == policy.ObstacleValue {
			return true
		}
	}
	return false
}

func unique(all []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, one := range all {
		if !seen[one] {
			seen[one] = true
			out = append(out, one)
		}
	}
	return out
}
