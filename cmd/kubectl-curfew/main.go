// Command kubectl-curfew is Curfew's command line, a plugin of kubectl: kubectl curfew lint.
//
// Each subcommand has its own file, which turns flags into options, calls the packages that decide,
// and prints what they return. The exit status is 0 for good news, 1 for bad news (lint found
// errors), and 2 for no answer, for example bad flags.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // Windows has no time zones.

	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubeconfig files may name an auth-provider, as with kubectl
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, root(environment{now: time.Now, connect: connect, terminal: terminal}))
	stop()
	os.Exit(code)
}
