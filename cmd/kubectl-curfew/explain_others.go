package main

import (
	"fmt"
	"slices"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
)

// withAnother reports whether the object is deleted with another one before its own expiry, or
// without one.
func (e *explained) withAnother() bool {
	if e.cascade == nil {
		return false
	}
	for _, entry := range e.entries {
		if entry.Trigger != policy.TriggerDeadline {
			return e.cascade.First(&entry, e.held())
		}
	}
	return true
}

// overtaken reports whether another one than Curfew deletes the object first: obstacles then stop
// Curfew, and not the deletion.
func (e *explained) overtaken() bool {
	return e.withAnother() || slices.ContainsFunc(e.entries, func(entry world.Entry) bool { return entry.Native != nil })
}

// cascadeText says with which other object this one is deleted, and when.
func (e *explained) cascadeText(is string) string {
	with, entry := e.cascade.Kind.Kind+" "+e.cascade.Name, e.cascade.Entry
	switch {
	case e.cascade.Gone:
		return fmt.Sprintf("%s left to the garbage collector: its owner %s is gone", is, with)
	case e.cascade.Deleting:
		return fmt.Sprintf("%s deleted with %s, which is being deleted", is, with)
	case entry.Expiry.IsZero():
		return fmt.Sprintf("%s deleted with %s, %s", is, with, expires(entry, e.now.Location()))
	default:
		return fmt.Sprintf("%s deleted with %s at %s, %s", is, with, expires(entry, e.now.Location()), relative(entry.Expiry, e.now))
	}
}

// nativeSummary is the answer where the kind's own controller deletes the object, and Curfew does
// not, or would later.
func (e *explained) nativeSummary(entry *world.Entry) string {
	when := expires(entry, e.now.Location())
	if !entry.Expiry.IsZero() {
		when += ", " + relative(entry.Expiry, e.now)
	}
	why := ", before Curfew would"
	switch {
	case e.of.Effective.LeftToKubernetes(e.of.Facts):
		why = ", which is left to Kubernetes (--leave-native-ttl)"
	case e.blocked():
		why = ", whatever keeps Curfew from it"
	}
	return fmt.Sprintf("expires %s: %s deletes it by %s%s",
		when, e.of.Facts.Profile.NativeDeleter(), settingText(entry.Native.Setting.Field(), entry.Native.Setting), why)
}

// alsoDeletedBy is what deletes the object beside Curfew.
func (e *explained) alsoDeletedBy() [][]string {
	var out [][]string
	if native := e.native; native != nil {
		text := settingText(native.Setting.Field(), native.Setting)
		switch {
		case native.Expiry.IsZero():
		case world.NativeDeletion(e.of.Facts, e.now) == nil && !e.of.Facts.Deleting:
			text += ": due " + relative(native.Expiry, e.now) + ", so that controller is switched off here, or refused"
		default:
			text += ": " + instant(native.Expiry, e.now.Location())
		}
		out = append(out, []string{"   " + e.of.Facts.Profile.NativeDeleter(), text})
	}
	if e.history != "" {
		out = append(out, []string{"   CronJob controller", e.history})
	}
	if e.cascade != nil {
		by := "garbage collector"
		if e.cascade.OfNamespace() {
			by = "namespace controller"
		}
		out = append(out, []string{"   " + by, e.cascadeText("it is")})
	}
	return out
}

// meantToStay reports whether somebody keeps the object from Curfew on purpose.
func (e *explained) meantToStay() bool {
	purpose := []policy.ObstacleKind{policy.ObstacleProtection, policy.ObstacleDryRun, policy.ObstacleValue}
	return slices.ContainsFunc(e.obstacles, func(o policy.Obstacle) bool { return slices.Contains(purpose, o.Kind) })
}

// againstOthers are the commands that keep the object from those who delete it beside Curfew.
func (e *explained) againstOthers(name string) []string {
	var out []string
	for _, entry := range e.entries {
		if entry.Native == nil || e.withAnother() || !e.meantToStay() {
			continue
		}
		path, err := policy.ParseFieldPath(entry.Native.Setting.Path)
		if err != nil {
			continue
		}
		patch := "null"
		for i := len(path) - 1; i >= 0; i-- {
			patch = fmt.Sprintf("{%q:%s}", path[i], patch)
		}
		out = append(out, fmt.Sprintf("kubectl patch %s --type=merge -p '%s'   # else %s deletes it", name, patch, e.of.Facts.Profile.NativeDeleter()))
	}
	if e.withAnother() && !e.cascade.Gone {
		other := e.cascade.Kind.Name(e.cascade.Name)
		if e.cascade.Namespace != "" {
			other += " -n " + e.cascade.Namespace
		}
		out = append(out, "kubectl curfew explain "+other)
	}
	return out
}
