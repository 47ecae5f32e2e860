package world

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"

	"curfew.dev/curfew/controller/settings"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/wellknown"
)

// Controller is how Curfew's controller runs: its flags, by the ConfigMap that it publishes, and
// whether it runs at all (open.go). Without the ConfigMap the defaults apply.
type Controller struct {
	// Unknown says why the settings cannot be read; "" where they are known.
	Unknown string
	// Settings is whether the ConfigMap could be read, and Published its data.
	Settings  Presence
	Published map[string]string
	// Namespace that it runs in.
	Namespace string
	// User name that it has to the API server.
	User string
	// DryRun is --dry-run, Alias --kyverno-label, Protect --protect with its own namespace.
	DryRun, Alias bool
	Protect       []string
	// NoBuiltinProfiles is --builtin-profiles=false, LeaveNative --leave-native-ttl.
	NoBuiltinProfiles, LeaveNative bool
	// Off are the triggers that --enable leaves out.
	Off []policy.Trigger

	// State says whether it runs, and Why how that is known.
	// Served means that the API server serves Curfew's kinds.
	State    State
	Why      string
	Served   bool
	Lease    Lease
	Workload Workload
}

// Surroundings are what the settings mean for obstacles.
func (c Controller) Surroundings() judging.Surroundings {
	return judging.Surroundings{Protect: c.Protect, DryRun: c.DryRun, Off: c.Off}
}

// Name is its Deployment as kubectl takes it, by the name that manifests/deploy gives it.
func (c Controller) Name() string { return "deployment/curfew-controller -n " + c.Namespace }

// with applies published settings.
func (c Controller) with(data map[string]string) (Controller, error) {
	var errs []error
	flag := func(name string) string {
		value, ok := data[name]
		if !ok {
			errs = append(errs, fmt.Errorf("it has no key %s", name))
		}
		return value
	}
	boolean := func(name string) bool {
		value, err := strconv.ParseBool(flag(name))
		if _, ok := data[name]; ok && err != nil {
			errs = append(errs, fmt.Errorf("key %s: %w", name, err))
		}
		return value
	}
	c.DryRun, c.Alias = boolean("dry-run"), boolean("kyverno-label")
	c.NoBuiltinProfiles, c.LeaveNative = !boolean("builtin-profiles"), boolean("leave-native-ttl")
	c.Lease.Name, c.Lease.Unused = data["lease-name"], data["leader-elect"] == "false"
	list := func(name string) []string {
		return strings.FieldsFunc(flag(name), func(r rune) bool { return r == ',' })
	}
	c.Protect = append(list("protect"), flag("namespace"))
	enabled := list("enable")
	for _, trigger := range judging.Triggers() {
		if !slices.Contains(enabled, string(trigger.Name)) {
			c.Off = append(c.Off, trigger.Name)
		}
	}
	c.User = cmp.Or(data[settings.User], c.User)
	return c, errors.Join(errs...)
}

// State says whether Curfew's controller acts on due objects.
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
	c.Served = served
	set := func(state State, format string, values ...any) {
		c.State, c.Why = state, fmt.Sprintf(format, values...)
	}
	here := fmt.Sprintf("in namespace %q", c.Namespace)
	nothing := lease.Presence != Found && workload.Presence != Found && c.Settings != Found
	// Without a Lease that can be read, replicas that are ready are all that shows it.
	byReplicas := (lease.Unused || lease.Presence == Unread) && workload.Presence == Found
	switch {
	case nothing && !served:
		set(NotInstalled, "Curfew is not installed in this cluster: the API server serves no kind of group %s", wellknown.Group)
	case nothing && lease.Presence == Missing && c.Settings == Missing:
		set(NotInstalled, "Curfew does not run %s, which has no Lease %s and no ConfigMap %s; --curfew-namespace names another",
			here, lease.Name, settings.Name)
	case byReplicas && workload.Ready == 0:
		set(Stopped, "no replica of Curfew's controller runs: Deployment curfew-controller %s has 0 of %d ready", here, workload.Wanted)
	case byReplicas:
		set(Running, "ready replicas: %d of %d", workload.Ready, workload.Wanted)
	case lease.Unused:
		set(Unknown, "it has no Lease (--leader-elect=false), which would show it")
	case lease.Presence == Unread:
		set(Unknown, "you may not get leases/%s %s", lease.Name, here)
	case lease.Presence == Found && lease.Holder != "" && lease.Age.Abs() <= lease.Duration:
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
	return fmt.Sprintf("; ready replicas: %d of %d", w.Ready, w.Wanted)
}

// down is the obstacle that a controller which does not run is to everything that it would do.
func (c *Controller) down() []judging.Obstacle {
	if c.State != Stopped && c.State != NotInstalled {
		return nil
	}
	return []judging.Obstacle{{Kind: judging.ObstacleController, Message: c.Why, Stops: true}}
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

// otherRelease says that the controller and this plugin differ by more than patches, which change
// no rule; "" otherwise, and where one of them is not a release.
func (c *Controller) otherRelease(plugin string) string {
	ours, err := version.ParseSemantic(plugin)
	theirs, unknown := version.ParseSemantic(c.Published[settings.Version])
	if err != nil || unknown != nil || ours.Major() == theirs.Major() && ours.Minor() == theirs.Minor() {
		return ""
	}
	return fmt.Sprintf("kubectl-curfew is v%s, and Curfew's controller is v%s: this answer follows the rules of v%[1]s. "+
		"Use kubectl-curfew v%[2]s for the controller's", ours, theirs)
}

// unknown is the obstacle that explain shows for it.
func (c *Controller) unknown() []string {
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
		return nil // Status shows the reason.
	}
	for _, incomplete := range report.Incomplete {
		if incomplete.Group == kind.Group && incomplete.Kind == kind.Kind {
			return []string{fmt.Sprintf("whether Curfew's controller knows it: not all %s have been known to it since %s",
				kind.GroupResource(), incomplete.Since.UTC().Format(time.RFC3339))}
		}
	}
	return nil
}

// NotInstalledError is the answer of commands that make no sense without Curfew.
type NotInstalledError struct{ why string }

func (e *NotInstalledError) Error() string { return e.why }

// Lease is the Lease of the controller.
type Lease struct {
	Presence
	// Name is the value of --lease-name. Unused is --leader-elect=false: no process renews it.
	Name   string
	Unused bool
	// Holder is the replica that leads; "" where the last one released the Lease.
	Holder string
	// Age is the time since it was renewed, by the API server's clock. Duration is how long it
	// holds.
	Age, Duration time.Duration
}

func (l *Lease) set(spec *coordinationv1.LeaseSpec, now time.Time) {
	l.Duration = defaultLeaseDuration
	if spec.HolderIdentity != nil && spec.RenewTime != nil {
		l.Holder = *spec.HolderIdentity
	}
	if spec.LeaseDurationSeconds != nil {
		l.Duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	if spec.RenewTime != nil {
		l.Age = now.Sub(spec.RenewTime.Time).Truncate(time.Second)
	}
}

// Workload is the state of a Deployment of Curfew.
type Workload struct {
	Presence
	Wanted, Ready int32
	Image         string
	Args          []string
}

// defaultLease is the flag's default, and defaultLeaseDuration how long the Lease holds where it
// does not say so.
const (
	defaultLease         = "curfew-controller"
	defaultLeaseDuration = 15 * time.Second
)

// MadeHere is the label of the pauses that kubectl curfew pause made.
const MadeHere = "app.kubernetes.io/managed-by"

// Pause is a pause in the cluster.
type Pause struct {
	judging.Pause
	// Here: kubectl curfew pause made it.
	Here   bool
	object *unstructured.Unstructured
}

// Pauses are all pauses, with those that have ended, as far as the user may read them.
type Pauses struct {
	Presence Presence
	All      []Pause
}

// InEffect returns the pauses that have not ended.
func (p *Pauses) InEffect(now time.Time) []Pause {
	return slices.DeleteFunc(slices.Clone(p.All), func(pause Pause) bool { return pause.Over(now) })
}
