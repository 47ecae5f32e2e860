// Command kubectl-curfew is Curfew's command line, a plugin of kubectl: kubectl curfew lint.
//
// Each subcommand is a file that turns flags into options, asks the packages that decide, and prints what they say. The exit
// status is 0 where all is well, 1 where the answer is bad news (lint found errors), and 2 where there is no answer: flags or
// files that cannot be used.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, root(surroundings{now: time.Now, connect: connect, terminal: terminal}))
	stop()
	os.Exit(code)
}
