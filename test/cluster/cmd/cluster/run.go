package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"curfew.dev/curfew/test/cluster/local"
)

const usage = `usage: cluster <command> [flags]

  build     build etcd, Kubernetes and kwok into --bin; nothing to do when they are up to date
  built     exit with 3 if build would compile something
  start     build, start, and return when ready; harmless when it runs
  stop      end it and remove its data; harmless when nothing runs
  kill      end --component at once, by SIGKILL
  restart   end --component if it runs, start it again with the same ports and data

flags:
`

// arguments is the repeatable flag --arg component=argument.
type arguments map[string][]string

func (a arguments) String() string { return "" }

func (a arguments) Set(value string) error {
	component, argument, _ := strings.Cut(value, "=")
	if !strings.HasPrefix(argument, "-") {
		return fmt.Errorf("%q: write component=--flag=value, for example kube-apiserver=--v=4", value)
	}
	if err := local.Known(component); err != nil {
		return err
	}
	a[component] = append(a[component], argument)
	return nil
}

// flags are the flags of all commands.
type flags struct {
	dir, bin, component, controllers string
	inTreeTTL, auditLog              bool
	arguments                        arguments
	module                           string
	kubernetes                       string
}

// errNotBuilt is the answer of the command built.
var errNotBuilt = errors.New("the control plane is not built yet")

// errUsage is a command line that names no command; the usage has been printed.
var errUsage = errors.New("name a command")

func parse(args []string, out io.Writer) (string, *flags, error) {
	f := &flags{arguments: arguments{}}
	fs := flag.NewFlagSet("cluster", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		fmt.Fprint(out, usage)
		fs.PrintDefaults()
	}
	fs.StringVar(&f.dir, "dir", "", "the cluster's `directory`, one a cluster (default .cluster in the repository)")
	fs.StringVar(&f.bin, "bin", "", "the `directory` that binaries are cached in (default curfew in the user's cache)")
	fs.BoolVar(&f.inTreeTTL, "in-tree-ttl", false, "run the in-tree TTL-after-finished controller")
	fs.StringVar(&f.kubernetes, "kubernetes", os.Getenv("KUBERNETES"), "the `release` of Kubernetes, such as 1.36 (or KUBERNETES=1.36; default that of go.mod)")
	fs.StringVar(&f.controllers, "controllers", "", "the controller manager's --controllers, `verbatim`")
	fs.BoolVar(&f.auditLog, "audit-log", false, "the API server writes logs/audit.log")
	fs.Var(f.arguments, "arg", "a further argument for a component, as `component=--flag=value`; may be repeated")
	fs.StringVar(&f.component, "component", "", "for kill and restart: the component's `name`")
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		fs.Usage()
		return "", nil, errUsage
	}
	if err := fs.Parse(args[1:]); err != nil {
		return "", nil, err
	}
	if fs.NArg() > 0 {
		return "", nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return args[0], f, f.complete()
}

// complete finds the module and makes the folders absolute. The defaults do not depend on the
// working directory, which `go -C` changes.
func (f *flags) complete() error {
	here, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find the working directory: %w", err)
	}
	if f.module, err = local.FindModule(here); err != nil {
		return err
	}
	if f.dir == "" {
		f.dir = filepath.Join(filepath.Dir(filepath.Dir(f.module)), ".cluster")
	}
	if f.bin == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("find the user's cache (--bin names another folder): %w", err)
		}
		f.bin = filepath.Join(cache, "curfew")
	}
	for _, path := range []*string{&f.dir, &f.bin} {
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("make %q absolute: %w", *path, err)
		}
	}
	return os.MkdirAll(f.bin, 0o755)
}

func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	command, f, err := parse(args, errOut)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	cluster := &local.Cluster{Dir: f.dir, Out: out}
	switch command {
	case "build":
		_, err := local.Build(ctx, f.module, f.bin, f.kubernetes, out)
		return err
	case "built":
		built, err := local.Built(ctx, f.module, f.bin, f.kubernetes, out)
		if err == nil && !built {
			err = errNotBuilt
		}
		return err
	case "start":
		return start(ctx, cluster, f, out)
	case "stop":
		return cluster.Stop()
	case "kill":
		return cluster.Kill(f.component)
	case "restart":
		bin, err := local.Build(ctx, f.module, f.bin, f.kubernetes, out)
		if err != nil {
			return err
		}
		return cluster.Restart(ctx, bin, f.component, f.controllers)
	default:
		return fmt.Errorf("unknown command %q: take build, built, start, stop, kill or restart", command)
	}
}

func start(ctx context.Context, cluster *local.Cluster, f *flags, out io.Writer) error {
	bin, err := local.Build(ctx, f.module, f.bin, f.kubernetes, out)
	if err != nil {
		return err
	}
	state, err := cluster.Start(ctx, bin, local.Options{
		InTreeTTL: f.inTreeTTL, Controllers: f.controllers, AuditLog: f.auditLog, Arguments: f.arguments,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "export KUBECONFIG=%s\n", state.Kubeconfig)
	return nil
}
