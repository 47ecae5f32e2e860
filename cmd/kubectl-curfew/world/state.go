package world

import (
	"fmt"
	"strings"
	"time"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy"
)

// State says whether Curfew's controller acts on what is due.
type State string

// The states of the controller.
const (
	Running      State = "Running"
	Stopped      State = "Stopped"
	NotInstalled State = "NotInstalled"
	Unknown      State = "Unknown"
)

// judge sets the state. served: the API server serves Curfew's kinds.
func (c *Controller) judge(served bool) {
	lease, workload := &c.Lease, &c.Workload
	set := func(state State, format string, values ...any) {
		c.State, c.Why = state, fmt.Sprintf(format, values...)
	}
	here := fmt.Sprintf("in namespace %q", c.Namespace)
	nothing := lease.Presence != Found && workload.Presence != Found && c.Settings != Found
	// Without a Lease that can be read, replicas that are ready are all that shows it.
	byReplicas := (lease.Unused || lease.Presence == Unread) && workload.Presence == Found
	switch {
	case nothing && !served:
		set(NotInstalled, "Curfew is not installed in this cluster: the API server serves no kind of group %s", policy.Group)
	case nothing && lease.Presence == Missing && c.Settings == Missing:
		set(NotInstalled, "Curfew does not run %s, which has no Lease %s and no ConfigMap %s; --curfew-namespace names another", here, lease.Name, settings.Name)
	case byReplicas && workload.Ready == 0:
		set(Stopped, "no replica of Curfew's controller runs: Deployment curfew-controller %s has 0 of %d ready", here, workload.Wanted)
	case byReplicas:
		set(Running, "%d of %d replicas are ready", workload.Ready, workload.Wanted)
	case lease.Unused:
		set(Unknown, "it has no Lease (--leader-elect=false), which would show it")
	case lease.Presence == Unread:
		set(Unknown, "you may not get leases/%s %s", lease.Name, here)
	case lease.fresh():
		set(Running, "%s leads, and renewed its Lease %s ago", lease.Holder, max(0, lease.Age))
	case lease.Presence == Missing:
		set(Stopped, "no replica of Curfew's controller leads: there is no Lease %s %s%s", lease.Name, here, workload.suffix())
	case lease.Holder == "":
		set(Stopped, "no replica of Curfew's controller leads: the last one ended %s ago%s", lease.Age, workload.suffix())
	case lease.Age < 0:
		set(Stopped, "the clock of Curfew's controller is wrong: it renewed its Lease %s after the API server's time", -lease.Age)
	default:
		set(Stopped, "no replica of Curfew's controller leads: %s last renewed its Lease %s ago%s", lease.Holder, lease.Age, workload.suffix())
	}
}

// suffix adds the replicas to a message, where they are known.
func (w *Workload) suffix() string {
	if w.Presence != Found {
		return ""
	}
	return fmt.Sprintf("; %d of %d replicas are ready", w.Ready, w.Wanted)
}

// down is the obstacle that a controller which does not run is to everything that it would do.
func (c *Controller) down() []policy.Obstacle {
	if c.State != Stopped && c.State != NotInstalled {
		return nil
	}
	return []policy.Obstacle{{Kind: policy.ObstacleController, Message: c.Why, Stops: true}}
}

// Remedies are commands that bring the controller back, or show more of it.
func (c *Controller) Remedies() []string {
	switch {
	case c.State != Stopped:
		return nil
	case c.Workload.Presence == Found && c.Workload.Wanted == 0:
		return []string{"kubectl scale " + c.Name() + " --replicas=2"}
	default:
		return []string{"kubectl describe pods -n " + c.Namespace + " -l app.kubernetes.io/component=controller"}
	}
}

// Unread says which flags, and whether the controller runs, cannot be known, and why.
func (c *Controller) Unread() (what, why string) {
	switch {
	case c.State == NotInstalled, c.Unknown == "" && c.State != Unknown:
		return "", ""
	case c.Unknown == "":
		return "whether Curfew's controller runs", c.Why
	case c.State != Unknown:
		return "whether Curfew's controller runs with --dry-run, --enable, --protect or --kyverno-label", c.Unknown
	case c.Settings == Unread && c.Lease.Presence == Unread:
		return "whether and how Curfew's controller runs",
			fmt.Sprintf("you may not get configmaps/%s and leases/%s in namespace %q", settings.Name, c.Lease.Name, c.Namespace)
	default:
		return "whether and how Curfew's controller runs", c.Unknown + ", and " + c.Why
	}
}

// confined says what a controller with --only-namespaces does otherwise than this command assumes;
// "" for others.
func (c *Controller) confined() string {
	only := c.Published["only-namespaces"]
	if only == "" {
		return ""
	}
	return fmt.Sprintf("Curfew's controller works in these namespaces only: %s. It deletes nothing elsewhere, and takes policies and profiles "+
		"from files, which are not known here", strings.ReplaceAll(only, ",", ", "))
}

// unknown is what explain shows of it.
func (c *Controller) unknown() []string {
	if only := c.confined(); only != "" {
		return []string{only}
	}
	if what, why := c.Unread(); what != "" {
		return []string{what + ": " + why}
	}
	return nil
}

// incomplete says that the controller does not know all objects of a kind, by its report, and so
// perhaps not this one.
func (c *Controller) incomplete(kind Kind) []string {
	report, _, ok, err := settings.ReadReport(c.Published)
	if !ok || err != nil {
		return nil // Status shows what is wrong with it.
	}
	for _, one := range report.Incomplete {
		if one.Group == kind.Group && one.Kind == kind.Kind {
			return []string{fmt.Sprintf("whether Curfew's controller knows it: not all %s have been known to it since %s", kind.GroupResource(), one.Since.UTC().Format(time.RFC3339))}
		}
	}
	return nil
}

// noteController notes what users have to know first.
func (w *World) noteController() {
	c := &w.Controller
	switch c.State {
	case Stopped:
		w.note("%s: Curfew deletes and stops nothing until one does", c.Why)
	case NotInstalled:
		w.note("%s", c.Why)
	}
	if only := c.confined(); only != "" {
		w.note("%s", only)
	}
	var lacks []string
	if c.Settings == Unread && c.State != NotInstalled {
		lacks = append(lacks, "configmaps/"+settings.Name)
	}
	if c.State == Unknown && c.Lease.Presence == Unread && !c.Lease.Unused {
		lacks = append(lacks, "leases/"+c.Lease.Name)
	}
	what, why := c.Unread()
	switch {
	case len(lacks) > 0 && (c.Settings != Found || c.Unknown == ""):
		w.lack("get %s in namespace %q", strings.Join(lacks, " and "), c.Namespace)
	case what != "" && (c.Settings != Missing || c.State == Unknown):
		w.note("%s: %s is not known", why, what)
	}
}

// NotInstalledError is the answer of commands that make no sense without Curfew.
type NotInstalledError struct{ why string }

func (e *NotInstalledError) Error() string { return e.why }

// Installed fails where Curfew is not installed.
func (w *World) Installed() error {
	if w.Controller.State == NotInstalled {
		return &NotInstalledError{w.Controller.Why}
	}
	return nil
}
