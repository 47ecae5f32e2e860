// Package unused reports objects that nothing uses: kubectl curfew unused. It decides by the code
// of cleanup policies, and needs none in the cluster.
package unused

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/moment"
	"curfew.dev/curfew/cmd/kubectl-curfew/preview"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/controller/cleanup/survey"
	"curfew.dev/curfew/policy/expression"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/v1alpha1"
)

// unusedOptions are the flags of unused.
type unusedOptions struct {
	*session.Connection
	everywhere      bool
	selector, older string
	kinds, exclude  []string
	at              string
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

With -o policy, the command asks no cluster. It prints cleanup policies with
dryRun: true that would delete what it reports, where a policy may, and the
namespace, service account and rights that they need: apply all of it.

Exit status: 0 there is a report, 2 there is none: flags or permissions.`,
		Example: `  # Which objects of namespace ci does nothing use?
  kubectl curfew unused -n ci

  # ConfigMaps and Secrets of all namespaces, and why others are not known
  kubectl curfew unused -A --kind configmap,secret -o wide

  # What has lain about for a month in two namespaces
  kubectl curfew unused -n ci,lab --older-than 30d

  # The policy that deletes them, with all that it needs
  kubectl curfew unused -A --kind configmap,secret -o policy | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: options.Runs(options.run),
	}
	flags := command.Flags()
	flags.BoolVarP(&options.everywhere, "all-namespaces", "A", false, "all namespaces")
	flags.StringSliceVar(&options.exclude, "exclude-namespaces", nil, "namespaces to leave out, by name or pattern, such as 'dev-*'")
	flags.StringVarP(&options.selector, "selector", "l", "", "label selector, such as app=web")
	flags.StringVar(&options.older, "older-than", "", "report only objects that are older, such as 30d")
	flags.StringSliceVar(&options.kinds, "kind", nil,
		"kinds to report: "+strings.Join(kindNames(), ", ")+"; by default all but CustomResourceDefinition, Namespace and Node")
	flags.StringVar(&options.at, "at", "", "time of the report, such as 2026-12-24T02:00:00Z or 'friday 17:00'; now by default")
	options.AddTo(command, map[string][]string{"kind": kindNames()})
	return command
}

// choose returns the finders, the scope that they look at, and notes on kinds that they leave out.
func (o *unusedOptions) choose() (chosen []finder, where *scope, notes []string, err error) {
	if where, err = o.scope(); err != nil {
		return nil, nil, nil, err
	}
	chosen, left, err := findersOf(o.kinds, o.everywhere)
	switch {
	case len(left) > 0 && len(o.kinds) > 0:
		err = fmt.Errorf("--kind %s: their objects are in no namespace: add -A, or leave these kinds out", strings.Join(left, ","))
	case len(left) > 0:
		notes = []string{strings.Join(left, ", ") + " are left out, since their objects are in no namespace: add -A"}
	}
	return chosen, where, notes, err
}

// week is the age of objects that policies delete, unless --older-than says otherwise.
const week = 7 * 24 * time.Hour

func olderThan(age time.Duration) v1alpha1.CleanupCondition {
	return v1alpha1.CleanupCondition{Name: "older-than", Expression: v1alpha1.Expression(
		fmt.Sprintf(`now - timestamp(object.metadata.creationTimestamp) > duration("%ds")`, int64(age.Seconds())))}
}

// scope reads the flags that limit what is reported.
func (o *unusedOptions) scope() (out *scope, err error) {
	out = &scope{curfew: o.CurfewNamespace}
	if !o.everywhere {
		namespace, err := o.Namespace()
		if err != nil {
			return nil, err
		}
		out.namespaces = strings.Split(namespace, ",")
	}
	for _, name := range out.namespaces { // An empty one would bind the rights in all.
		if len(validation.IsDNS1123Label(name)) > 0 {
			return nil, fmt.Errorf("--namespace: %q is not a name: give names, separated by commas", name)
		}
	}
	if slices.Contains(o.exclude, "") {
		return nil, errors.New("--exclude-namespaces has an empty name: give names or patterns, separated by commas")
	}
	if o.selector != "" {
		if out.selector, err = metav1.ParseToLabelSelector(o.selector); err != nil {
			return nil, fmt.Errorf("--selector=%s: %w", o.selector, err)
		}
	}
	if o.older != "" {
		age, err := lifetime.ParseDuration(o.older)
		if err != nil {
			return nil, fmt.Errorf("--older-than=%s: %w", o.older, err)
		}
		out.filters, out.aged = append(out.filters, olderThan(age)), true
	}
	if len(o.exclude) > 0 {
		patterns := console.Map(o.exclude, func(name string) string { return strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, ".*") })
		out.filters = append(out.filters, v1alpha1.CleanupCondition{Name: "not-excluded", Expression: v1alpha1.Expression(
			fmt.Sprintf("!has(object.metadata.namespace) || !object.metadata.namespace.matches(%q)", "^("+strings.Join(patterns, "|")+")$"))})
	}
	return out, nil
}

func (o *unusedOptions) run(ctx context.Context, call *session.Call) error {
	if o.at != "" {
		var err error
		if call.Now, err = moment.Parse(o.at, call.Now); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	chosen, where, notes, err := o.choose()
	if err != nil {
		return err
	}
	if o.Output.Format == policyFormat {
		text, err := manifests(chosen, where)
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
	answer, pages := &answer{now: call.Now, notes: notes}, 0
	if o.at == "" {
		answer.now = w.ServerTime(ctx, call.Now)
	}
	answer.paged = func(context.Context) error {
		pages++
		call.Progress.Say("looking for objects that use others, %s read", console.Count(pages, "page"))
		return nil
	}
	call.Progress.Say("looking for objects that use others")
	// A Lease in a Namespace is an instance, and uses nothing: these two are answered apart.
	counted := slices.DeleteFunc(slices.Clone(chosen), func(f finder) bool { return f.expression != instances })
	named := slices.DeleteFunc(chosen, func(f finder) bool { return f.expression == instances })
	for _, some := range [][]finder{named, counted} {
		if len(some) == 0 {
			continue
		}
		if err := answer.find(ctx, w, some, where); err != nil {
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
func (a *answer) find(ctx context.Context, w *world.World, chosen []finder, where *scope) error {
	p, err := compile(expression.NewCompiler(1), chosen, where)
	if err != nil {
		return err
	}
	result, err := preview.Of(ctx, p, w.Self(), survey.Options{
		Account: "you", Served: w.Resources, Source: w.Source(), Protect: w.Controller.Protect,
		Only: survey.Only{Namespace: strings.Join(where.namespaces, ",")}, Now: a.now, Paged: a.paged,
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
