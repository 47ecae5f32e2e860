package harness

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

const module = "module curfew.dev/curfew\n"

// Root is the top folder of the repository, found from the working directory, which `go test` sets
// to the package's.
func Root() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte(module)) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no %q in or above %s: run this within the repository", module[:len(module)-1], here)
		}
	}
}

// binary is the path of a program that the Makefile builds.
func binary(root, name string) (string, error) {
	path := filepath.Join(root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("no bin/%s: run `make build`", name)
	}
	return path, nil
}
