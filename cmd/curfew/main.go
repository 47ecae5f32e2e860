// Command curfew is Curfew's server: the admission webhooks, the controller, or both in one
// process.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // The image has no time zones.

	ctrl "sigs.k8s.io/controller-runtime"
)

// version is set by the linker.
var version = "dev"

func main() {
	if err := root().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "curfew:", err)
		os.Exit(1)
	}
}
