package image

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Static returns a [Options.Build] whose output does not depend on the machine or its folders.
func Static(root, version string) func(v1.Platform, string) error {
	return func(platform v1.Platform, file string) error {
		return Compile(root, version, file, []string{"-trimpath", "-buildvcs=false"},
			"GOOS="+platform.OS, "GOARCH="+platform.Architecture, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	}
}

// Compile runs go build, with the linker's flags of the Makefile.
func Compile(root, version, file string, flags []string, env ...string) error {
	args := slices.Concat([]string{"build"}, flags, []string{"-ldflags", "-s -w -X main.version=" + version, "-o", file, "./cmd/curfew"})
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), env...)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, text.Bytes())
	}
	return nil
}
