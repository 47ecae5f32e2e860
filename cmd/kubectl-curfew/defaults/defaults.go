// Package defaults prints the TTLs that new objects of a namespace get.
package defaults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/judging"
	"curfew.dev/curfew/policy/lifetime"
	"curfew.dev/curfew/policy/platform"
	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// Command is kubectl curfew defaults.
func Command(env console.Environment) *cobra.Command {
	options := session.NewConnection(env, "table")
	options.Output.Nameless = true // Kinds have no names.
	command := &cobra.Command{
		Use:   "defaults [NAMESPACE] [flags]",
		Short: "Show what new objects are given in a namespace, and which setting decides",
		Long: `Show, for each kind, what admission fills into a new object in a namespace: the
TTL after finished by outcome, the deadline and the TTL label. Each has the
setting that decides, and the bounds that apply.

What the object itself sets comes first, and so does its training runtime. A
LifecyclePolicy that looks at the object (objectSelector, matchConditions,
expressions) is named and not evaluated; to see what it does to one object, use
"kubectl curfew explain". Settings that cannot be read are listed.`,
		Example: `  # What does a Job get in namespace ci?
  kubectl curfew defaults ci

  # For programs
  kubectl curfew defaults ci -o json`,
		Args:              cobra.MaximumNArgs(1),
		RunE:              options.Runs(run),
		ValidArgsFunction: options.CompleteNamespaces(),
	}
	options.AddTo(command, nil)
	return command
}

func run(ctx context.Context, call *session.Call) error {
	if flag := call.Overrides.Context.Namespace; len(call.Args) > 0 && flag != "" && flag != call.Args[0] {
		return errors.New("-n names another namespace than the argument: give one of them")
	}
	w, name, err := call.World(ctx, "reading the settings of the namespace")
	if err != nil {
		return err
	}
	if len(call.Args) > 0 {
		name = call.Args[0]
	}
	namespace, err := w.Namespace(ctx, name)
	if err != nil {
		return err
	}
	kinds, err := w.Kinds()
	if err != nil {
		return err
	}
	answer := defaultsAnswer{namespace: namespace, notes: w}
	for _, kind := range kinds {
		if kind.ClusterScoped {
			continue
		}
		each, err := defaultsOf(ctx, w, kind, namespace, call.Now)
		if err != nil {
			return err
		}
		if kind.Profile.Finishable() || each.LabelFrom != nil {
			answer.kinds = append(answer.kinds, each)
		}
	}
	call.Progress.Done()
	if call.Print != nil {
		return call.Print(console.Printed{Document: answer.data(call.Now)}, call.Out)
	}
	err = answer.table(printers.PrintOptions{NoHeaders: call.Output.NoHeaders}, call.Out)
	console.PrintNotes(answer.allNotes(), call.Diagnostics)
	return err
}

// defaultsAnswer is the answer of defaults.
type defaultsAnswer struct {
	namespace *resolution.NamespacePolicy
	kinds     []*kindDefaults
	notes     *world.World
}

func (a *defaultsAnswer) table(options printers.PrintOptions, out io.Writer) error {
	table := console.NewTable("KIND", "TTL AFTER SUCCESS", "TTL AFTER FAILURE", "DEADLINE", "TTL LABEL", "BOUNDS")
	for _, each := range a.kinds {
		label := "-"
		if each.LabelFrom != nil {
			label = cmp.Or(each.Label, "unusable") + " (" + each.LabelFrom.Source.String() + ")"
		}
		bounds := console.Map(each.Bounds, func(bound *lifetime.Setting) string {
			return strings.TrimPrefix(bound.Field(), wellknown.Prefix) + " " + textOf(bound) + " (" + bound.Source.String() + ")"
		})
		console.AddRow(table, nil, each.Kind.GroupResource().String(), valueText(each.Succeeded), valueText(each.Failed),
			valueText(each.Deadline), label, console.OrDash(strings.Join(bounds, ", ")))
	}
	return console.PrintTable(table, options, out)
}

func textOf(setting *lifetime.Setting) string {
	if setting.Err != nil {
		return "unusable"
	}
	return setting.TTL.String()
}

// valueText is a default with its source, "-" for none.
func valueText(value resolution.Value) string {
	switch {
	case !value.Set:
		return "-"
	case value.Err != nil:
		return "unusable (" + value.Source.String() + ")"
	default:
		return value.TTL.String() + " (" + value.Source.String() + ")"
	}
}

// unusable are the settings that cannot be used, each once.
func (a *defaultsAnswer) unusable() []*lifetime.Setting {
	var out []*lifetime.Setting
	for _, each := range a.kinds {
		for _, setting := range each.Unusable {
			if !slices.ContainsFunc(out, func(s *lifetime.Setting) bool { return s.Path == setting.Path && s.Source == setting.Source }) {
				out = append(out, setting)
			}
		}
	}
	return out
}

// allNotes say what the table does not.
func (a *defaultsAnswer) allNotes() []string {
	var out []string
	note := func(format string, values ...any) { out = append(out, fmt.Sprintf(format, values...)) }
	switch a.namespace.Mode {
	case resolution.ModeDryRun:
		note("namespace %q is in dry-run: none of this is filled in, admission only announces it", a.namespace.Name)
	case resolution.ModeWarn:
		note("namespace %q has mode warn: values outside its own bounds are warned about, not rejected", a.namespace.Name)
	}
	for _, setting := range a.unusable() {
		note("%s of %s cannot be used: %s", setting.Path, setting.Source.Phrase(), setting.Err)
	}
	depends := map[string][]string{}
	for _, each := range a.kinds {
		for _, what := range each.Depends {
			depends[what] = append(depends[what], each.Kind.GroupResource().String())
		}
	}
	for _, what := range slices.Sorted(maps.Keys(depends)) {
		note("%s may decide otherwise for single objects of %s", what, strings.Join(depends[what], ", "))
	}
	return append(out, a.notes.Notes()...)
}

// Data is the answer for programs.
type Data struct {
	console.List[Item]
	Namespace string                `json:"namespace"`
	Mode      string                `json:"mode" doc:"of the namespace: enforce, warn or dry-run"`
	Unusable  []session.SettingData `json:"unusable,omitempty" doc:"settings that cannot be used"`
}

// Item is what a new object of one kind is given.
type Item struct {
	APIVersion string                `json:"apiVersion"`
	Kind       string                `json:"kind"`
	Resource   string                `json:"resource"`
	Succeeded  *session.SettingData  `json:"ttlSucceeded,omitempty" doc:"TTL after success, within the bounds"`
	Failed     *session.SettingData  `json:"ttlFailed,omitempty" doc:"TTL after failure, within the bounds"`
	Deadline   *session.SettingData  `json:"deadline,omitempty"`
	Label      *session.SettingData  `json:"ttlLabel,omitempty"`
	Bounds     []session.SettingData `json:"bounds,omitempty" doc:"of all sources"`
	Depends    []string              `json:"depends,omitempty" doc:"what may decide otherwise for single objects: a policy, or the runtime"`
}

func (a *defaultsAnswer) data(now time.Time) Data {
	var items []Item
	for _, each := range a.kinds {
		item := Item{
			APIVersion: each.Kind.GroupVersion().String(), Kind: each.Kind.Kind, Resource: each.Kind.Resource, Depends: each.Depends,
			Succeeded: session.ValueData(each.Succeeded), Failed: session.ValueData(each.Failed),
			Deadline: session.ValueData(each.Deadline), Bounds: console.Map(each.Bounds, session.SettingOf),
		}
		if from := each.LabelFrom; from != nil {
			label := session.SettingOf(from)
			label.Value = cmp.Or(each.Label, label.Value)
			item.Label = &label
		}
		items = append(items, item)
	}
	out := Data{List: console.ListOf("DefaultsList", now, items, a.notes.Notes()), Namespace: a.namespace.Name, Mode: string(a.namespace.Mode)}
	out.Unusable = console.Map(a.unusable(), session.SettingOf)
	return out
}

// kindDefaults are what admission fills into any new object of a kind in a namespace.
type kindDefaults struct {
	Kind                        world.Kind
	Succeeded, Failed, Deadline resolution.Value
	// Label is "" where none is given. LabelFrom is its setting, or the one that cannot be used.
	Label     string
	LabelFrom *lifetime.Setting
	Bounds    []*lifetime.Setting
	// Depends are what looks at the object, and so may give it something else.
	Depends []string
	// Unusable are settings that cannot be used, for other kinds of outcomes too.
	Unusable []*lifetime.Setting
}

// defaultsOf returns the defaults that admission would give a new object of a kind, by kind alone,
// in a namespace. Policies that look at the object decide nothing here, and are named instead.
func defaultsOf(ctx context.Context, w *world.World, kind world.Kind, namespace *resolution.NamespacePolicy, now time.Time) (
	*kindDefaults, error) {
	object := map[string]any{
		"apiVersion": kind.GroupVersion().String(), "kind": kind.Kind, "metadata": map[string]any{"namespace": namespace.Name},
		"spec": map[string]any{"restartPolicy": "Never"}, // or a Pod would have none
	}
	out := &kindDefaults{Kind: kind}
	facts := policy.FactsOfObject(kind.Profile, object)
	found, err := platform.ContextOf(ctx, w.Source(), platform.Whole(facts, object))
	if err != nil {
		return nil, err
	}
	scope := &found.Scope
	if w.Platform().RuntimeOf(kind.GroupKind()) != nil {
		scope.Runtime, out.Depends = nil, append(out.Depends, "its runtime")
	}
	for _, each := range w.Platform().Concerning(kind.GroupKind()) {
		if each.VariesIn(namespace) {
			out.Depends = append(out.Depends, "policy/"+each.Name)
			scope.Policies = slices.DeleteFunc(scope.Policies, func(p *resolution.PlatformPolicy) bool { return p.Name == each.Name })
		}
	}
	scope.Creating, scope.Off, scope.Protected = true, w.Controller.Off, judging.Protects(w.Controller.Protect, namespace.Name)
	effective := resolution.Resolve(facts, scope)
	out.Succeeded, out.Failed, out.Deadline = effective.Succeeded, effective.Failed, effective.Deadline
	out.Label, out.LabelFrom = resolution.DefaultLabel(facts, scope, now)
	out.Bounds = scope.BoundsFor(facts, resolution.AllBounds).Settings()
	settings := slices.Concat(namespace.Settings(), out.Bounds)
	for _, platformPolicy := range scope.Policies {
		settings = slices.Concat(settings, platformPolicy.TTL.Settings(), platformPolicy.Bounds.Settings())
		for _, setting := range []*lifetime.Setting{platformPolicy.Deadline, platformPolicy.LatestUnreadable} {
			if setting != nil {
				settings = append(settings, setting)
			}
		}
	}
	if out.LabelFrom != nil {
		settings = append(settings, out.LabelFrom)
	}
	for _, setting := range settings {
		if setting.Err != nil && !slices.Contains(out.Unusable, setting) {
			out.Unusable = append(out.Unusable, setting)
		}
	}
	return out, nil
}
