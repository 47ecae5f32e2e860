// Command kubectl-curfew is Curfew's command line, a plugin of kubectl: kubectl curfew lint.
//
// This package lists the subcommands. Each is a package of its own, which turns flags into options,
// calls the packages that decide, and prints their answer. All share the packages console (output
// and terminal), folders (manifests in files) and session (the cluster). The exit status is 0 for
// good news, 1 for bad news (lint found errors), and 2 for no answer, for example bad flags.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // Windows has no time zones.

	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfig files may name an auth-provider, as with kubectl

	"curfew.dev/curfew/cmd/kubectl-curfew/console"
	"curfew.dev/curfew/cmd/kubectl-curfew/session"
)

// version and commit are set by the linker.
var version, commit = "dev", "unknown"

func main() {
	console.Version = version
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := console.Run(ctx, root(console.Environment{Now: time.Now, Connect: session.Connect, Terminal: console.Terminal}))
	stop()
	os.Exit(code)
}
