package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/v1alpha1"
)

// environment is what commands take from the machine. Tests have their own.
type environment struct {
	// now is the time, in the user's time zone. Each command reads it once, and once more for each
	// object right before it changes that.
	now func() time.Time
	// connect makes clients for the cluster that the configuration names.
	connect func(config clientcmd.ClientConfig, warnings io.Writer) (world.Clients, error)
	// terminal reports whether a stream is a terminal.
	terminal func(stream any) bool
}

// connection has the flags of commands that need a cluster.
type connection struct {
	environment
	kubeconfig      *clientcmd.ClientConfigLoadingRules
	overrides       *clientcmd.ConfigOverrides
	config          clientcmd.ClientConfig
	curfewNamespace string
	verbosity       int
}

// newConnection uses clientcmd and not genericclioptions, which would link kustomize and, with it,
// double the size of the program.
func newConnection(env environment) *connection {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.DefaultClientConfig = &clientcmd.DefaultClientConfig
	overrides := &clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults}
	return &connection{
		environment: env, kubeconfig: rules, overrides: overrides,
		config:          clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides),
		curfewNamespace: "curfew-system",
	}
}

// add adds kubectl's flags: -n, --context, --kubeconfig and others.
func (c *connection) add(flags *pflag.FlagSet) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	c.bind(flags, names)
	flags.StringVar(&c.curfewNamespace, "curfew-namespace", c.curfewNamespace, "namespace that Curfew runs in")
	_ = flags.SetAnnotation("curfew-namespace", connectionFlag, []string{"true"})
}

// bind adds kubectl's flags, as far as they have a name.
func (c *connection) bind(into *pflag.FlagSet, names clientcmd.ConfigOverrideFlags) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(c.overrides, flags, names)
	flags.StringVar(&c.kubeconfig.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "", "Path to the kubeconfig file to use for CLI requests.")
	flags.IntVarP(&c.verbosity, "v", "v", 0, "log requests to the API server: 6 for a line each, up to 9 for everything")
	flags.VisitAll(func(flag *pflag.Flag) { _ = flags.SetAnnotation(flag.Name, connectionFlag, []string{"true"}) })
	into.AddFlagSet(flags)
}

// namespace is that of -n, by default the one of the context.
func (c *connection) namespace() (string, error) {
	namespace, _, err := c.config.Namespace()
	return namespace, err
}

// overlay are objects that are treated as if they were applied.
type overlay struct {
	policies []*v1alpha1.LifecyclePolicy
	profiles []*v1alpha1.KindProfile
}

// unusableError is about the configuration or the credentials: trying again does not help.
type unusableError struct{ error }

// open connects and reads what applies to all objects. Warnings of the API server go to warnings.
func (c *connection) open(ctx context.Context, now time.Time, with overlay, warnings io.Writer) (*world.World, error) {
	setVerbosity(c.verbosity)
	clients, err := c.connect(c.config, warnings)
	if err != nil {
		return nil, &unusableError{err}
	}
	builtin, err := profiles.All()
	if err != nil {
		return nil, err
	}
	w, err := world.Open(ctx, clients, world.Options{
		Builtin: builtin, Namespace: c.curfewNamespace, Now: now, Policies: with.policies, Profiles: with.profiles,
	})
	network := (*url.Error)(nil)
	switch {
	case ctx.Err() == nil && errors.As(err, &network):
		return nil, fmt.Errorf("cannot reach the API server: %w: check --context and --kubeconfig", network.Err)
	case apierrors.IsUnauthorized(err):
		return nil, &unusableError{errors.New("the API server rejected your credentials (401 Unauthorized): log in again, or use another --context or --user")}
	}
	return w, err
}

// setVerbosity lets client-go log as kubectl -v does. Without it nothing is logged: what goes wrong
// is an error or a note of ours already.
func setVerbosity(level int) {
	if level == 0 {
		klog.SetLogger(logr.Discard())
		return
	}
	klog.ClearLogger()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	_ = flags.Set("v", strconv.Itoa(level))
}

// connect makes clients for the cluster that the configuration names.
func connect(kubeconfig clientcmd.ClientConfig, warnings io.Writer) (world.Clients, error) {
	config, err := kubeconfig.ClientConfig()
	if err != nil {
		return world.Clients{}, err
	}
	config.UserAgent = "kubectl-curfew/" + version
	// These are kubectl's limits. They are enough for many small lists.
	config.QPS, config.Burst = 50, 300
	config.WarningHandler = rest.NoWarnings{}
	if handler, ok := warnings.(rest.WarningHandler); ok {
		config.WarningHandler = handler
	} else if warnings != nil {
		config.WarningHandler = rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})
	}
	return world.NewClients(config)
}

// printNotes prints what could not be read, and what that means.
func printNotes(notes []string, diagnostics io.Writer) {
	for _, note := range notes {
		fmt.Fprintln(diagnostics, "note:", note)
	}
}
