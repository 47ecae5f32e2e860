package local

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are all binaries of a control plane.
var programs = []string{etcd, apiServer, controllerManager, scheduler, "kubectl", kwok}

// given finds binaries that are already built: CURFEW_CONTROL_PLANE names their folder, and it is an
// error if one is missing. KUBEBUILDER_ASSETS does the same, but is ignored if one is missing, since
// the folder that envtest downloads has neither controller manager nor scheduler nor kwok.
func given(ctx context.Context, getenv func(string) string, out io.Writer) (Binaries, bool, error) {
	for _, variable := range []string{"CURFEW_CONTROL_PLANE", "KUBEBUILDER_ASSETS"} {
		if getenv(variable) == "" {
			continue
		}
		dir, err := filepath.Abs(getenv(variable))
		if err != nil {
			return Binaries{}, false, fmt.Errorf("make %s absolute: %w", variable, err)
		}
		if names := strings.Join(missing(dir, programs), ", "); names != "" {
			if variable == "KUBEBUILDER_ASSETS" {
				fmt.Fprintf(out, "%s=%s is not used: it has no %s\n", variable, dir, names)
				continue
			}
			return Binaries{}, false, fmt.Errorf("%s=%s has no %s: add what is missing, or unset the variable to compile all", variable, dir, names)
		}
		b := Binaries{ControlPlane: dir, KwokDir: dir}
		answer, err := exec.CommandContext(ctx, b.path(apiServer), "--version").Output()
		if err != nil {
			return Binaries{}, false, fmt.Errorf("ask %s for its version: %w", b.path(apiServer), err)
		}
		b.Kubernetes = strings.TrimPrefix(strings.TrimSpace(string(answer)), "Kubernetes ")
		return b, true, nil
	}
	return Binaries{}, false, nil
}
