package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
)

// completionTimeout is how long a shell waits for suggestions.
const completionTimeout = 3 * time.Second

// completeKinds suggests kinds.
func (c *connection) completeKinds(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	w, err := c.open(ctx, c.now(), overlay{}, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return kindNames(w, args, toComplete), cobra.ShellCompDirectiveNoFileComp
}

func kindNames(w *world.World, without []string, prefix string) []string {
	kinds, err := w.Kinds()
	if err != nil {
		return nil
	}
	var out []string
	for _, kind := range kinds {
		if name := kind.GroupResource().String(); strings.HasPrefix(name, prefix) && !slices.Contains(without, name) {
			out = append(out, name)
		}
	}
	return out
}

// completeObjects suggests kinds and, behind KIND/ or KIND, names.
func (c *connection) completeObjects(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	const directive = cobra.ShellCompDirectiveNoFileComp
	w, err := c.open(ctx, c.now(), overlay{}, nil)
	if err != nil {
		return nil, directive
	}
	kind, name, slashed := strings.Cut(toComplete, "/")
	switch {
	case slashed:
	case len(args) > 0 && !strings.Contains(args[0], "/"):
		kind, name = args[0], toComplete
	default:
		return kindNames(w, nil, toComplete), directive | cobra.ShellCompDirectiveNoSpace
	}
	namespace, err := c.namespace()
	if err != nil {
		return nil, directive
	}
	found, err := w.NamesOf(ctx, kind, namespace)
	if err != nil {
		return nil, directive
	}
	var out []string
	for _, each := range found {
		if !strings.HasPrefix(each, name) || slices.Contains(args, each) {
			continue
		}
		if slashed {
			each = kind + "/" + each
		}
		out = append(out, each)
	}
	return out, directive
}

// completeFlags has flags suggest values: those of the connection what there is, the given ones what they allow.
func (c *connection) completeFlags(command *cobra.Command, allowed map[string][]string) {
	suggest := map[string]cobra.CompletionFunc{
		"namespace":        c.completeNamespaces,
		"curfew-namespace": c.completeNamespaces,
		"context":          c.completeConfig(func(config clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(config.Contexts)) }),
		"cluster":          c.completeConfig(func(config clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(config.Clusters)) }),
		"user":             c.completeConfig(func(config clientcmdapi.Config) []string { return slices.Sorted(maps.Keys(config.AuthInfos)) }),
	}
	for name, values := range allowed {
		suggest[name] = cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	completeFlags(command, suggest)
}

// completeFlags registers what flags suggest. Of a flag that the command does not have nothing is suggested: tests ask each.
func completeFlags(command *cobra.Command, suggest map[string]cobra.CompletionFunc) {
	for name, complete := range suggest {
		_ = command.RegisterFlagCompletionFunc(name, complete)
	}
}

func (c *connection) completeNamespaces(cmd *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	const directive = cobra.ShellCompDirectiveNoFileComp
	w, err := c.open(ctx, c.now(), overlay{}, nil)
	if err != nil {
		return nil, directive
	}
	found, err := w.NamesOf(ctx, "namespaces", "")
	if err != nil {
		return nil, directive
	}
	return slices.DeleteFunc(found, func(name string) bool { return !strings.HasPrefix(name, toComplete) }), directive
}

func (c *connection) completeConfig(names func(clientcmdapi.Config) []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		config, err := c.flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(names(config), func(name string) bool { return !strings.HasPrefix(name, toComplete) }), cobra.ShellCompDirectiveNoFileComp
	}
}
