package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/world"
	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy/v1alpha1"
)

// connectionFlag marks flags that kubectl curfew options prints, in place of every command.
const connectionFlag = "connection"

// own are flags of the connection that people use all the time.
var own = map[string]bool{"namespace": true}

// OptionsCommand prints the flags that kubectl has as well, like kubectl options.
func OptionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "Print the flags that choose the cluster and the user",
		Long: `Print the flags of all commands that ask a cluster. The flags that choose the
cluster and the user are the same as in kubectl.`,
		Example: `  # All flags that such a command takes beside its own
  kubectl curfew options`,
		Args:                  cobra.NoArgs,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			NewConnection(console.Environment{}).Add(flags)
			_, err := fmt.Fprint(cmd.OutOrStdout(), "These flags can be passed to any command that asks a cluster:\n\n", flags.FlagUsages())
			return err
		},
	}
}

// UsageWithout prints the help of a command without the flags of the connection.
func UsageWithout(usage func(*cobra.Command) error) func(*cobra.Command) error {
	return func(command *cobra.Command) error {
		var hidden []*pflag.Flag
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			if flag.Annotations[connectionFlag] != nil && !own[flag.Name] && !flag.Hidden {
				flag.Hidden = true
				hidden = append(hidden, flag)
			}
		})
		err := usage(command)
		for _, flag := range hidden {
			flag.Hidden = false // Shells complete it.
		}
		if err == nil && len(hidden) > 0 {
			fmt.Fprintln(command.OutOrStderr(), "\nUse \"kubectl curfew options\" for the flags that choose the cluster and the user.")
		}
		return err
	}
}

// Confirm asks the person at the terminal.
func (c *Connection) Confirm(ctx context.Context, question string, r io.Reader, diagnostics io.Writer) error {
	if !c.Terminal(r) {
		return errors.New("stdin is not a terminal; pass --yes")
	}
	fmt.Fprint(diagnostics, console.OneLine(question), " [y/N] ")
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(r).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case line := <-answer:
		if line == "y" || line == "yes" {
			return nil
		}
	case <-ctx.Done(): // Ctrl-C means no.
		fmt.Fprintln(diagnostics)
	}
	return console.ErrDeclined
}

// Connection has the flags of commands that need a cluster.
type Connection struct {
	console.Environment
	// Output is nil for commands that print text alone.
	Output          *console.Output
	kubeconfig      *clientcmd.ClientConfigLoadingRules
	Overrides       *clientcmd.ConfigOverrides
	Config          clientcmd.ClientConfig
	CurfewNamespace string
	Verbosity       int
}

// NewConnection uses clientcmd and not genericclioptions, which would link kustomize and, with it,
// double the size of the program. formats are the command's own formats of -o, the first by
// default.
func NewConnection(env console.Environment, formats ...string) *Connection {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.DefaultClientConfig = &clientcmd.DefaultClientConfig
	overrides := &clientcmd.ConfigOverrides{ClusterDefaults: clientcmd.ClusterDefaults}
	var output *console.Output
	if len(formats) > 0 {
		output = console.NewOutput(formats...)
	}
	return &Connection{
		Environment: env, Output: output, kubeconfig: rules, Overrides: overrides,
		Config:          clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides),
		CurfewNamespace: "curfew-system",
	}
}

// Add adds kubectl's flags: -n, --context, --kubeconfig and others.
func (c *Connection) Add(flags *pflag.FlagSet) {
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	c.Bind(flags, names)
	flags.StringVar(&c.CurfewNamespace, "curfew-namespace", c.CurfewNamespace, "namespace that Curfew runs in")
	_ = flags.SetAnnotation("curfew-namespace", connectionFlag, []string{"true"})
}

// Bind adds kubectl's flags, as far as they have a name.
func (c *Connection) Bind(into *pflag.FlagSet, names clientcmd.ConfigOverrideFlags) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	clientcmd.BindOverrideFlags(c.Overrides, flags, names)
	flags.StringVar(&c.kubeconfig.ExplicitPath, clientcmd.RecommendedConfigPathFlag, "",
		"Path to the kubeconfig file to use for CLI requests.")
	flags.IntVarP(&c.Verbosity, "v", "v", 0, "log requests to the API server: 6 for a line each, up to 9 for everything")
	flags.VisitAll(func(flag *pflag.Flag) { _ = flags.SetAnnotation(flag.Name, connectionFlag, []string{"true"}) })
	into.AddFlagSet(flags)
}

// Namespace returns the namespace of -n, or else the namespace of the context.
func (c *Connection) Namespace() (string, error) {
	namespace, _, err := c.Config.Namespace()
	return namespace, err
}

// Overlay are objects that are treated as if they were applied.
type Overlay struct {
	policies []*v1alpha1.LifecyclePolicy
	profiles []*v1alpha1.KindProfile
}

// UnusableError is about the configuration or the credentials: trying again does not help.
type UnusableError struct{ error }

// Open connects and reads what applies to all objects. Warnings of the API server go to warnings.
func (c *Connection) Open(ctx context.Context, now time.Time, with Overlay, warnings io.Writer) (*world.World, error) {
	SetVerbosity(c.Verbosity)
	clients, err := c.Connect(c.Config, warnings)
	if err != nil {
		return nil, &UnusableError{err}
	}
	builtin, err := profiles.All()
	if err != nil {
		return nil, err
	}
	w, err := world.Open(ctx, clients, world.Options{
		Builtin: builtin, Namespace: c.CurfewNamespace, Now: now, Version: console.Version, Policies: with.policies, Profiles: with.profiles,
	})
	network := (*url.Error)(nil)
	switch {
	case ctx.Err() == nil && errors.As(err, &network):
		return nil, fmt.Errorf("cannot reach the API server: %w: check --context and --kubeconfig", network.Err)
	case apierrors.IsUnauthorized(err):
		return nil, &UnusableError{errors.New("the API server rejected your credentials (401 Unauthorized): " +
			"log in again, or use another --context or --user")}
	}
	return w, err
}

// SetVerbosity lets client-go log as kubectl -v does. Without it nothing is logged: what goes wrong
// is an error or a note of ours already.
func SetVerbosity(level int) {
	if level == 0 {
		klog.SetLogger(logr.Discard())
		return
	}
	klog.ClearLogger()
	_ = new(klog.Level).Set(strconv.Itoa(level)) // a number
}

// Connect makes clients for the cluster that the configuration names.
func Connect(kubeconfig clientcmd.ClientConfig, warnings io.Writer) (world.Clients, error) {
	config, err := kubeconfig.ClientConfig()
	if err != nil {
		return world.Clients{}, err
	}
	config.UserAgent = "kubectl-curfew/" + console.Version
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

// Failure reports whether the API server failed, rather than refused a request.
func Failure(err error) bool {
	status := apierrors.APIStatus(nil)
	return errors.As(err, &status) && (status.Status().Code >= http.StatusInternalServerError || apierrors.IsTooManyRequests(err))
}

// Some names a few kinds, and how many more there are.
func Some(kinds []string) string { return First(6, kinds) }

// First names the first few, and how many more there are.
func First(most int, names []string) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// CollectedWarnings are the warnings of one request.
type CollectedWarnings struct{ Texts []string }

// HandleWarningHeader implements rest.WarningHandler.
func (c *CollectedWarnings) HandleWarningHeader(_ int, _, text string) {
	c.Texts = append(c.Texts, text)
}

// Write implements io.Writer.
func (c *CollectedWarnings) Write(text []byte) (int, error) { return len(text), nil }

// AddSelection adds the flags that select objects beside the arguments.
func AddSelection(flags *pflag.FlagSet, selection *world.Selection) {
	flags.BoolVarP(&selection.Everywhere, "all-namespaces", "A", false, "all namespaces; only with -l or --all")
	flags.StringVarP(&selection.Selector, "selector", "l", "", "label selector, such as app=web")
	flags.BoolVar(&selection.All, "all", false, "all objects of the kind")
}

// Selected connects and reads the selected objects, at least one. Warnings of the API server go to
// warnings.
func (c *Connection) Selected(ctx context.Context, now time.Time, with Overlay, selection world.Selection, progress *console.Progress,
	warnings io.Writer) (*world.World, []world.Selected, error) {
	if err := selection.Validate(); err != nil {
		return nil, nil, err
	}
	progress.Say("reading kinds, profiles and policies")
	w, err := c.Open(ctx, now, with, warnings)
	if err != nil {
		return nil, nil, err
	}
	progress.Say("reading the objects")
	found, err := w.Select(ctx, selection)
	if err == nil && len(found) == 0 {
		err = errors.New("no object matches")
	}
	if err != nil && w.Installed() != nil {
		err = w.Installed()
	}
	return w, found, err
}
