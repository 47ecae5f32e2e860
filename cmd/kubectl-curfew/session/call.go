package session

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/policy/v1alpha1"
)

// Call is one call of a command that asks a cluster.
type Call struct {
	*Connection
	Args             []string
	In               io.Reader
	Out, Diagnostics io.Writer
	// Print is nil where the command prints text for people.
	Print    console.PrintFunc
	Progress *console.Progress
	Now      time.Time
}

// Runs prepares a call for a command to run.
func (c *Connection) Runs(run func(context.Context, *Call) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		call := &Call{Connection: c, Args: args, In: cmd.InOrStdin(), Out: cmd.OutOrStdout(), Diagnostics: cmd.ErrOrStderr(), Now: c.Now()}
		if c.Output != nil {
			if call.Print, err = c.Output.Printer(); err != nil {
				return err
			}
		}
		call.Progress = console.NewProgress(c.Environment, call.Diagnostics)
		defer call.Progress.Done()
		return run(cmd.Context(), call)
	}
}

// PrintObjects prints what became of objects: a line for each, or the objects as kubectl does, one
// alone and several as a List.
func (c *Call) PrintObjects(how string, all ...*unstructured.Unstructured) error {
	var printed console.Printed
	items := []any{}
	for _, object := range all {
		object.SetManagedFields(nil)
		kind := world.Kind{GroupVersionKind: object.GroupVersionKind()}
		printed.Objects = append(printed.Objects, ObjectOf(kind, object.GetNamespace(), object.GetName(), object.GetUID()))
		if items = append(items, object.Object); c.Print == nil {
			fmt.Fprintln(c.Out, console.OneLine(kind.Name(object.GetName())+" "+how))
		}
	}
	if c.Print == nil {
		return nil
	}
	if printed.Document = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}; len(all) == 1 {
		printed.Document = all[0].Object
	}
	return c.Print(printed, c.Out)
}

// World connects while the progress shows the text. It also returns the namespace of the call.
func (c *Call) World(ctx context.Context, text string, values ...any) (w *world.World, namespace string, err error) {
	if namespace, err = c.Namespace(); err != nil {
		return nil, "", err
	}
	c.Progress.Say(text, values...)
	w, err = c.Open(ctx, c.Now, Overlay{}, c.Progress)
	return w, namespace, err
}

// CleanupPolicy opens the World and reads the cleanup policy that the argument names.
func (c *Call) CleanupPolicy(ctx context.Context, text string) (*world.World, *world.CleanupPolicy, error) {
	w, namespace, err := c.World(ctx, text, c.Args[0])
	if err != nil {
		return nil, nil, err
	}
	policy, err := w.CleanupPolicy(ctx, c.Args[0], namespace)
	return w, policy, err
}

// completionTimeout is how long a shell waits for suggestions.
const completionTimeout = 3 * time.Second

const NoFiles = cobra.ShellCompDirectiveNoFileComp

// suggest asks the cluster for suggestions; those that do not begin with what was typed are left
// out.
type suggest func(ctx context.Context, w *world.World, args []string, typed string) ([]string, cobra.ShellCompDirective)

// CompleteFrom suggests nothing where the cluster does not answer.
func (c *Connection) CompleteFrom(ask suggest) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		w, err := c.Open(ctx, c.Now(), Overlay{}, nil)
		if err != nil {
			return nil, NoFiles
		}
		found, directive := ask(ctx, w, args, typed)
		return beginning(found, typed), directive
	}
}

func beginning(all []string, prefix string) []string {
	return slices.DeleteFunc(all, func(each string) bool { return !strings.HasPrefix(each, prefix) })
}

// CompleteKinds suggests kinds that were not typed yet.
func (c *Connection) CompleteKinds() cobra.CompletionFunc {
	return c.CompleteFrom(func(_ context.Context, w *world.World, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return kindNames(w, args), NoFiles
	})
}

func kindNames(w *world.World, without []string) []string {
	kinds, _ := w.Kinds() // A shell has no place for an error.
	names := console.Map(kinds, func(kind world.Kind) string { return kind.GroupResource().String() })
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(without, name) })
}

// CompleteObjects suggests kinds and, behind KIND/ or KIND, names that were not typed yet.
func (c *Connection) CompleteObjects() cobra.CompletionFunc {
	return c.CompleteFrom(func(ctx context.Context, w *world.World, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		kind, _, slashed := strings.Cut(typed, "/")
		switch {
		case slashed:
		case len(args) > 0 && !strings.Contains(args[0], "/"):
			kind = args[0]
		default:
			return kindNames(w, nil), NoFiles | cobra.ShellCompDirectiveNoSpace
		}
		namespace, err := c.Namespace()
		if err != nil {
			return nil, NoFiles
		}
		names, _ := w.NamesOf(ctx, kind, namespace)
		if slashed {
			names = console.Map(names, func(name string) string { return kind + "/" + name })
		}
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), NoFiles
	})
}

// CompletePolicies suggests cleanup policies of the namespace and of the cluster.
func (c *Connection) CompletePolicies() cobra.CompletionFunc {
	return c.CompleteFrom(func(ctx context.Context, w *world.World, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		namespace, err := c.Namespace()
		if err != nil || len(args) > 0 {
			return nil, NoFiles
		}
		prefix, resources := "", []string{v1alpha1.CleanupPolicies, v1alpha1.ClusterCleanupPolicies}
		if kind, _, ok := strings.Cut(typed, "/"); ok {
			prefix, resources = kind+"/", []string{kind}
		}
		var out []string
		for _, resource := range resources {
			found, _ := w.NamesOf(ctx, resource, namespace) // A shell has no place for an error.
			out = append(out, console.Map(found, func(name string) string { return prefix + name })...)
		}
		return out, NoFiles
	})
}

// CompleteNames suggests objects of a kind that were not typed yet, at most so many.
func (c *Connection) CompleteNames(resource string, most int) cobra.CompletionFunc {
	return c.CompleteFrom(func(ctx context.Context, w *world.World, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		namespace, err := c.Namespace()
		if err != nil || len(args) >= most {
			return nil, NoFiles
		}
		names, _ := w.NamesOf(ctx, resource, namespace) // A shell has no place for an error.
		return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), NoFiles
	})
}

func (c *Connection) CompleteNamespaces() cobra.CompletionFunc {
	return c.CompleteNames("namespaces", math.MaxInt)
}

// AddTo adds the flags of the connection and the output to a command that has its own flags. Flags
// of the connection suggest what the cluster has, the given ones what they allow.
func (c *Connection) AddTo(command *cobra.Command, allowed map[string][]string) {
	c.Add(command.Flags())
	completions := map[string]cobra.CompletionFunc{
		"namespace":        c.CompleteNamespaces(),
		"curfew-namespace": c.CompleteNamespaces(),
		"context":          c.completeConfig(func(config clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(config.Contexts)) }),
		"cluster":          c.completeConfig(func(config clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(config.Clusters)) }),
		"user":             c.completeConfig(func(config clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(config.AuthInfos)) }),
	}
	if c.Output != nil {
		c.Output.AddFlags(command)
		completions["output"] = cobra.FixedCompletions(c.Output.Formats(), NoFiles)
	}
	for name, values := range allowed {
		completions[name] = cobra.FixedCompletions(values, NoFiles)
	}
	CompleteFlags(command, completions)
}

// CompleteFlags registers what flags suggest. Of a flag that the command does not have nothing is
// suggested: tests ask each.
func CompleteFlags(command *cobra.Command, completions map[string]cobra.CompletionFunc) {
	for name, complete := range completions {
		_ = command.RegisterFlagCompletionFunc(name, complete)
	}
}

func (c *Connection) completeConfig(names func(clientcmdapi.Config) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		config, err := c.Config.RawConfig()
		if err != nil {
			return nil, NoFiles
		}
		return beginning(names(config), typed), NoFiles
	}
}
