package preview

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/report"
)

// Data is the result of a run, for programs.
type Data struct {
	console.List[previewItem]
	Policy console.ObjectData `json:"policy" doc:"the cleanup policy"`
	// whose rights the policy has, as NAMESPACE/NAME; absent where no cluster was asked
	Account  string               `json:"serviceAccount,omitempty"`
	OwnRight bool                 `json:"ownRights,omitempty" doc:"objects were listed with your rights, not with those that the account has"`
	Listed   int64                `json:"listed" doc:"objects that were looked at"`
	Deleted  int64                `json:"wouldDelete" doc:"objects that the run would delete"`
	Counts   []report.CountData   `json:"counts,omitempty" doc:"objects to delete, by kind and namespace"`
	Skipped  []report.SkippedData `json:"skipped,omitempty" doc:"objects that are kept although they match"`
	Stalled  *stalledData         `json:"stalled,omitempty" doc:"why the run would delete nothing"`
	Waits    bool                 `json:"waitsForApproval,omitempty" doc:"the policy as it is now is not approved"`
	DryRun   bool                 `json:"dryRun,omitempty" doc:"of the policy or the controller"`
	Suspend  bool                 `json:"suspended,omitempty"`
	Zone     string               `json:"timeZone" doc:"of the schedule"`
	Runs     []time.Time          `json:"nextRuns,omitempty" doc:"the next five, in the time zone of the schedule"`
}

type stalledData struct {
	Reason  string `json:"reason" doc:"as in the condition Stalled"`
	Message string `json:"message"`
}

// previewItem is an object that the policy matches.
type previewItem struct {
	Object  console.ObjectData `json:"object"`
	Result  string             `json:"result" doc:"WouldDelete, Skipped, or Stalled (would be deleted without the limit)"`
	Reason  string             `json:"reason,omitempty" doc:"why it is skipped, in one word"`
	Message string             `json:"message,omitempty"`
}

func (a *previewAnswer) printed() console.Printed {
	var out console.Printed
	var items []previewItem
	for _, each := range a.Objects {
		object := console.ObjectOf(each.GroupVersion().String(), each.Kind, each.Namespace, each.Name, each.UID)
		if a.offline {
			object.UID = "" // It is made up.
		}
		items = append(items, previewItem{object, a.result(each), each.Reason, each.Message})
		if a.result(each) == WouldDelete {
			out.Objects = append(out.Objects, object)
		}
	}
	p := a.Policy
	data := Data{
		List: console.ListOf("PreviewList", a.Now, items, a.Notes), Listed: a.Listed, Deleted: a.Deleted, Account: a.account, OwnRight: a.own,
		DryRun: p.Spec.DryRun || a.controllerDryRun, Waits: a.waits, Suspend: p.Spec.Suspend, Zone: p.Schedule.Location().String(),
		Runs:   a.Upcoming,
		Policy: console.ObjectOf("curfew.dev/v1alpha1", "ClusterCleanupPolicy", p.Namespace, p.Name, string(p.UID)),
	}
	if p.Namespace != "" {
		data.Policy.Kind = "CleanupPolicy"
	}
	data.Counts, data.Skipped = a.counts(), report.SkippedOf(a.Skipped)
	if a.Stalled != nil {
		data.Stalled = &stalledData{a.Stalled.Reason, a.Stalled.Error()}
	}
	out.Document = data
	return out
}

// previewAnswer is the result of a run of a policy.
type previewAnswer struct {
	*Result
	// offline: no cluster was asked. file: the policy is not read from a cluster. own: objects were
	// listed with the user's own rights.
	offline, file, own bool
	// blind is why the account can list nothing, so that the user's rights were used.
	blind []string
	// account is whose rights the policy has; empty if no cluster was asked.
	account string
	// waits: the policy as it is has no approval. controllerDryRun is --dry-run.
	waits, controllerDryRun bool
	Notes                   []string
}

func (a *previewAnswer) note(format string, values ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, values...))
}

// addNotes adds the other conditions that decide whether the policy deletes.
func (a *previewAnswer) addNotes() {
	p := a.Policy
	switch {
	case a.offline:
		a.note("manifests have no permissions: whether the service account may delete the objects is not known")
	case len(a.blind) > 0:
		a.note("%s: the policy deletes nothing until it may. This shows what you may list", strings.Join(a.blind, ", "))
	case a.own:
		a.note("you may not impersonate service account %s: "+
			"this shows what you may list, and the policy deletes what that account may delete", a.account)
	}
	switch {
	case p.Spec.Suspend:
		a.note("the policy is suspended: it does not run")
	case a.controllerDryRun:
		a.note("the controller runs with --dry-run: the policy deletes nothing")
	case p.Spec.DryRun:
		a.note("the policy has dryRun: true: it deletes nothing")
	case a.waits:
		a.note("the policy as it is now is not approved: it deletes nothing until you approve it (kubectl curfew approve)")
	}
	if a.file && p.Remembers() {
		name := "consecutiveRuns"
		if p.MinUnused > 0 {
			name = "minUnused"
		}
		a.note("the policy is read from a file: this is its first run, and %s keeps all that it matches", name)
	}
	if a.Nowhere && len(a.Lacks)+len(a.Unlisted) == 0 {
		a.note("the policy matches no namespace, or no kind that is served: nothing was listed")
	}
	whose := "the service account"
	if a.own {
		whose = "you"
	}
	for _, lack := range a.Lacks {
		a.note("%s may not %s: nothing is shown from there", whose, lack)
	}
	for _, name := range a.Unlisted {
		a.note("%s: nothing is shown from there, and a run keeps what it cannot list", name)
	}
}

// Print writes the preview for people; wide lists each object.
func (a *previewAnswer) Print(out io.Writer, wide, noHeaders bool) error {
	fmt.Fprintln(out, a.title())
	counts := console.NewTable("KIND", "NAMESPACE", "COUNT")
	for _, each := range a.counts() {
		kind := schema.GroupKind{Group: each.Group, Kind: each.Kind}
		console.AddRow(counts, nil, kind.String(), console.OrDash(each.Namespace), strconv.FormatInt(each.Count, 10))
	}
	objects := report.ObjectTable()
	if wide {
		for _, each := range a.Objects {
			report.AddObject(objects, each.GroupKind(), each.Namespace, each.Name, a.result(each), each.Message)
		}
	}
	if err := report.PrintTables(out, noHeaders, counts, a.Skipped, objects); err != nil {
		return err
	}
	return a.printRuns(out)
}

func (a *previewAnswer) printRuns(out io.Writer) error {
	if len(a.Upcoming) == 0 {
		return nil
	}
	fmt.Fprintf(out, "\nNext runs, by schedule %q in %s:\n", a.Policy.Spec.Schedule, a.Policy.Schedule.Location())
	return console.PrintAligned(out, console.Map(a.Upcoming, func(t time.Time) []string {
		return []string{"  " + t.Format("Mon 2006-01-02 15:04 MST"), console.Relative(t, a.Now)}
	}))
}

// title sums up the run.
func (a *previewAnswer) title() string {
	name := policyName(a.Policy)
	if a.Policy.Namespace != "" {
		name += fmt.Sprintf(" in namespace %q", a.Policy.Namespace)
	}
	if a.Stalled != nil {
		why := strings.Replace(a.Stalled.Error(), "was deleted", "is deleted", 1)
		return fmt.Sprintf("%s: would delete nothing\n%s: %s", name, a.Stalled.Reason, why)
	}
	if len(a.blind) > 0 {
		name += ", if its service account had the rights"
	}
	return fmt.Sprintf("%s: would delete %d of %s", name, a.Deleted, console.Count(a.Listed, "object"))
}

// Results of objects.
const (
	WouldDelete = "WouldDelete"
	ResultSkip  = "Skipped"
	resultStall = "Stalled"
)

func (a *previewAnswer) result(object Object) string {
	switch {
	case object.Reason != "":
		return ResultSkip
	case a.Stalled != nil:
		return resultStall
	default:
		return WouldDelete
	}
}
