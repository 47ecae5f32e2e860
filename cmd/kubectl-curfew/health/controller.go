package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/manifests/crd"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/wellknown"
)

// controller checks that a replica leads.
func (r *reader) controller() (State, string) {
	c := &r.w.Controller
	switch c.State {
	case world.Running:
		return replicas(&c.Workload, c.Why)
	case world.Unknown:
		return Unknown, c.Why
	default:
		return Failed, c.Why
	}
}

// replicas adds the replicas of a Deployment to a message. It is a warning where some are not
// ready.
func replicas(workload *world.Workload, message string) (State, string) {
	if workload.Presence != world.Found {
		return OK, message
	}
	if ready := fmt.Sprintf("ready replicas: %d of %d", workload.Ready, workload.Wanted); ready != message {
		message += "; " + ready
	}
	if workload.Ready < workload.Wanted {
		return Warning, message
	}
	return OK, message
}

// triggers shows which are switched on. A dry run deletes nothing.
func (r *reader) triggers() (State, string) {
	c := &r.w.Controller
	if c.Unknown != "" {
		return Unknown, c.Unknown
	}
	on := strings.Join(strings.Split(c.Published["enable"], ","), ", ")
	off := console.Map(c.Off, func(trigger policy.Trigger) string { return string(trigger) })
	message := "on: " + on
	if len(off) > 0 {
		message += "; off: " + strings.Join(off, ", ")
	}
	if c.LeaveNative {
		message += "; a Job's own ttlSecondsAfterFinished is left to Kubernetes (--leave-native-ttl)"
	}
	if c.DryRun {
		return Warning, message + "; the controller only reports due objects (--dry-run)"
	}
	return OK, message
}

// backlogAfter is how long an object may be due until that is a warning.
const backlogAfter = 5 * time.Minute

// deletions shows the backlog and the pauses.
func (r *reader) deletions() (State, string) {
	if r.noReport != "" {
		return Unknown, r.noReport
	}
	report := &r.report
	state, parts := OK, []string{console.Count(report.Tracked, "object waits for its expiry", "objects wait for their expiry")}
	if report.Overdue > 0 {
		text := console.Count(report.Overdue, "is overdue", "are overdue")
		if report.OldestDue != nil {
			text += ", the oldest since " + r.when(*report.OldestDue)
			if r.now.Sub(*report.OldestDue) > backlogAfter {
				state = Warning
			}
		}
		parts = append(parts, text)
	}
	for _, some := range []struct {
		count int
		what  string
	}{
		{report.Blocked, "cannot be deleted or stopped (Events DeleteRefused, StopRefused, DeleteConflict)"},
		{report.Stuck, "terminating for long"},
	} {
		if some.count > 0 {
			state, parts = Warning, append(parts, fmt.Sprintf("%d %s", some.count, some.what))
		}
	}
	if report.IncompleteKinds > 0 {
		state, parts = Warning, slices.Insert(parts, 0, r.incomplete())
	}
	if report.Paused.Count > 0 {
		state, parts = Warning, slices.Insert(parts, 0, named(report.Paused, "; "))
	}
	if report.AllPaused {
		state = Failed
	}
	return r.live(state, strings.Join(parts, "; "))
}

// incomplete shows the kinds whose objects the controller does not all know. It cannot delete the
// unknown objects when they are due.
func (r *reader) incomplete() string {
	list := settings.List{Count: r.report.IncompleteKinds}
	for _, kind := range r.report.Incomplete {
		list.First = append(list.First, fmt.Sprintf("%s (since %s)", kind.GroupKind(), r.when(kind.Since)))
	}
	return "not all objects are known of kind " + named(list, ", ")
}

// permissions shows which kinds Curfew leaves alone because it may not delete them.
func (r *reader) permissions() (State, string) {
	if r.noReport != "" {
		return Unknown, r.noReport
	}
	var parts []string
	state := OK
	if r.report.Skipped.Count > 0 {
		state = Warning
		parts = append(parts, "kinds with a profile are skipped: "+named(r.report.Skipped, ", "))
	}
	if !slices.Contains(r.w.Controller.Off, policy.TriggerLabel) {
		parts = append(parts, "TTL labels have an effect on "+console.Count(r.report.LabelKinds, "kind"))
		if r.report.Unlabelled.Count > 0 {
			parts = append(parts, fmt.Sprintf("and not on %d that the controller may not delete", r.report.Unlabelled.Count))
			labelled, unknown := r.w.Unheeded(r.ctx)
			if len(labelled) > 0 {
				state, parts = Warning, append(parts, "although there are labeled objects of "+named(settings.ListOf(labelled), ", "))
			}
			if unknown > 0 {
				r.note("whether there are labeled objects of %s more is not known: you may not list them, "+
					"or not ask what the controller may do", console.Count(unknown, "kind"))
			}
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "none is missing")
	}
	return r.live(state, strings.Join(parts, ", "))
}

// named are the first few of a list.
func named(list settings.List, separator string) string {
	const most = 3
	out := strings.Join(list.First[:min(most, len(list.First))], separator)
	if more := list.Count - most; more > 0 {
		out += fmt.Sprintf("%sand %d more", separator, more)
	}
	return out
}

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// kinds checks that the CustomResourceDefinitions belong to this version.
func (r *reader) kinds() (State, string) {
	wanted, err := crd.All()
	if err != nil {
		return Unknown, err.Error()
	}
	var missing, unready, other []string
	for _, want := range wanted {
		have, presence, err := world.Read[apiextensionsv1.CustomResourceDefinition](r.ctx, r.w, definitions, "", want.Name)
		if err != nil {
			r.note("%s", err)
		}
		switch presence {
		case world.Unread:
			if r.w.Controller.State == world.NotInstalled {
				return Failed, r.w.Controller.Why
			}
			r.note("you may not get customresourcedefinitions: it is not known whether Curfew's have the schemas of this version")
			return Unknown, "not read"
		case world.Missing:
			missing = append(missing, want.Name)
			continue
		}
		if !apihelpers.IsCRDConditionTrue(have, apiextensionsv1.Established) {
			unready = append(unready, want.Name)
		}
		if !equality.Semantic.DeepEqual(versions(want), versions(have)) {
			other = append(other, want.Name)
		}
	}
	switch {
	case len(missing) == len(wanted):
		return Failed, "no CustomResourceDefinition of group " + wellknown.Group + " exists"
	case len(missing) > 0:
		return Failed, "missing: " + strings.Join(missing, ", ")
	case len(unready) > 0:
		return Failed, "not established: " + strings.Join(unready, ", ")
	case len(other) > 0:
		return Warning, fmt.Sprintf("other schemas than in kubectl-curfew %s: %s", console.Version, strings.Join(other, ", "))
	}
	return OK, fmt.Sprintf("%d kinds of group %s are served", len(wanted), wellknown.Group)
}

// versions are the schemas by version.
func versions(definition *apiextensionsv1.CustomResourceDefinition) map[string]*apiextensionsv1.CustomResourceValidation {
	out := map[string]*apiextensionsv1.CustomResourceValidation{}
	for i := range definition.Spec.Versions {
		out[definition.Spec.Versions[i].Name] = definition.Spec.Versions[i].Schema
	}
	return out
}

// statusPolicy is the ValidatingAdmissionPolicy of manifests/rbac/status.yaml, and its binding.
const statusPolicy = "curfew-status"

// statuses checks that only Curfew may write the statuses of its kinds and its reports.
func (r *reader) statuses() (State, string) {
	const hides = "who may write the statuses of Curfew's kinds"
	const others = ": anyone with permission for the statuses of Curfew's kinds can falsify them"
	policies := admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")
	bindings := admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicybindings")
	_, policy := get[admissionv1.ValidatingAdmissionPolicy](r, policies, "", statusPolicy, hides)
	read, binding := get[admissionv1.ValidatingAdmissionPolicyBinding](r, bindings, "", statusPolicy, hides)
	switch {
	case policy == world.Missing:
		return Warning, "there is no ValidatingAdmissionPolicy " + statusPolicy + others
	case binding == world.Missing:
		return Warning, "there is no ValidatingAdmissionPolicyBinding " + statusPolicy + others
	case policy != world.Found || binding != world.Found:
		return Unknown, "not read"
	case !slices.Contains(read.Spec.ValidationActions, admissionv1.Deny):
		return Warning, "ValidatingAdmissionPolicyBinding " + statusPolicy + " does not deny" + others
	}
	return OK, "only Curfew may write them"
}
