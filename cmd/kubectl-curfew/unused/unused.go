// Package unused reports objects that nothing uses: kubectl curfew unused. It decides by the code
// of cleanup policies, and needs none in the cluster.
package unused

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/resolution"
)

// unusedOptions are the flags of unused.
type unusedOptions struct {
	*session.Connection
	everywhere bool
	kinds      []string
	at         string
}

// policyFormat is the value of -o that prints cleanup policies.
const policyFormat = "policy"

// Command is kubectl curfew unused.
func Command(env console.Environment) *cobra.Command {
	options := &unusedOptions{Connection: session.NewConnection(env, "table", "wide", policyFormat)}
	command := &cobra.Command{
		Use:   "unused [flags]",
		Short: "Show objects that nothing uses",
		Long: `Show objects that nothing uses. These are ConfigMaps, Secrets, ServiceAccounts,
PersistentVolumeClaims and classes that no other object refers to. Services
count as unused if they select no Pod and no pod template, and Ingresses and
HorizontalPodAutoscalers if they refer to nothing that exists. Empty Namespaces
and Nodes, and CustomResourceDefinitions without objects, are shown if --kind
names them. Kinds whose objects are in no namespace need -A.

Kinds that no cleanup policy deletes by a lookup are reported as well: RBAC,
webhook configurations, VolumeAttachments, NetworkPolicies and
PodDisruptionBudgets.

The command reads only, and needs no cleanup policy and no controller. Of
Secrets it reads the metadata alone.

An object is Unused, or Kept: it is unused, but no policy would delete it, for
example because it is protected. It is Unknown if you may not list a kind whose
objects may use it, or if it is less than an hour old. The table counts Kept and
Unknown objects by reason; -o wide lists them. ConfigMaps and Secrets of a
program such as Helm or Argo CD count as used.

With -o policy, the command asks no cluster: it prints cleanup policies with
dryRun: true that would delete what it reports, where a policy may.

Exit status: 0 there is a report, 2 there is none: flags or permissions.`,
		Example: `  # Which objects of namespace ci does nothing use?
  kubectl curfew unused -n ci

  # ConfigMaps and Secrets of all namespaces, and why others are not known
  kubectl curfew unused -A --kind configmap,secret -o wide

  # The policy that deletes them
  kubectl curfew unused -A --kind configmap,secret -o policy`,
		Args: cobra.NoArgs,
		RunE: options.Runs(options.run),
	}
	flags := command.Flags()
	flags.BoolVarP(&options.everywhere, "all-namespaces", "A", false, "all namespaces")
	flags.StringSliceVar(&options.kinds, "kind", nil,
		"kinds to report: "+strings.Join(kindNames(), ", ")+"; by default all but CustomResourceDefinition, Namespace and Node")
	flags.StringVar(&options.at, "at", "", "time of the report, such as 2026-12-24T02:00:00Z or 'friday 17:00'; now by default")
	options.AddTo(command, map[string][]string{"kind": kindNames()})
	return command
}

// choose returns the finders, the namespace that they look at, and notes on kinds that they leave
// out.
func (o *unusedOptions) choose() (chosen []finder, namespace string, notes []string, err error) {
	if chosen, err = findersOf(o.kinds); err != nil || o.everywhere {
		return chosen, "", nil, err
	}
	in, out := within(chosen)
	if len(out) > 0 && len(o.kinds) > 0 {
		return nil, "", nil, fmt.Errorf("--kind %s: their objects are in no namespace: add -A, or leave these kinds out", strings.Join(out, ","))
	}
	if len(out) > 0 {
		notes = []string{strings.Join(out, ", ") + " are left out, since their objects are in no namespace: add -A"}
	}
	namespace, err = o.Namespace()
	return in, namespace, notes, err
}

func (o *unusedOptions) run(ctx context.Context, call *session.Call) error {
	if o.at != "" {
		var err error
		if call.Now, err = moment.Parse(o.at, call.Now); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	chosen, namespace, notes, err := o.choose()
	if err != nil {
		return err
	}
	if o.Output.Format == policyFormat {
		text, err := manifests(chosen, namespace)
		if err == nil {
			console.PrintNotes(notes, call.Diagnostics)
			_, err = io.WriteString(call.Out, text)
		}
		return err
	}
	call.Progress.Say("reading kinds, profiles and settings")
	w, err := o.Open(ctx, call.Now, session.Overlay{}, nil) // It lists deprecated versions, too: no warnings.
	if err != nil {
		return err
	}
	answer := &answer{now: call.Now, notes: notes}
	if o.at == "" {
		answer.now = w.ServerTime(ctx, call.Now)
	}
	call.Progress.Say("looking for objects that use others")
	// A Lease in a Namespace is an instance, and uses nothing: these two are answered apart.
	counted := slices.DeleteFunc(slices.Clone(chosen), func(of finder) bool { return of.expression != instances })
	named := slices.DeleteFunc(chosen, func(of finder) bool { return of.expression == instances })
	for _, some := range [][]finder{named, counted} {
		if len(some) == 0 {
			continue
		}
		if err := answer.find(ctx, w, some, namespace); err != nil {
			return err
		}
	}
	answer.notes = append(answer.notes, w.Notes()...)
	call.Progress.Done()
	if call.Print != nil {
		return call.Print(answer.printed(), call.Out)
	}
	if err := answer.print(o.Output.Format == "wide", o.Output.NoHeaders, call.Out); err != nil {
		return err
	}
	console.PrintNotes(answer.notes, call.Diagnostics)
	return nil
}

// find adds what finders find with the rights of the user.
func (a *answer) find(ctx context.Context, w *world.World, of []finder, namespace string) error {
	p, err := compile(expression.NewCompiler(1), of)
	if err != nil {
		return err
	}
	result, err := preview.Of(ctx, p, w.Self(), survey.Options{
		Account: "you", Served: w.Resources, Source: w.Source(), Protect: w.Controller.Protect,
		Only: survey.Only{Namespace: namespace}, Now: a.now,
		Namespaces: func() ([]*resolution.NamespacePolicy, error) { return nil, nil }, // The policy selects none.
	})
	if err != nil {
		return err
	}
	a.listed += result.Listed
	for i := range result.Objects {
		a.add(&result.Objects[i])
	}
	for _, lack := range result.Lacks {
		a.notes = append(a.notes, fmt.Sprintf("you may not %s: nothing is shown from there", lack))
	}
	for _, unlisted := range result.Unlisted {
		a.notes = append(a.notes, unlisted+": nothing is shown from there")
	}
	return nil
}
