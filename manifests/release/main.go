// Command release makes the published files of a version: the container image, the Helm chart, the
// manifests in a single file, and checksums. `make image`, `make chart` and `make release` run it.
//
// It is a module of its own, so that what builds images and charts stays out of Curfew's go.mod.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

// platforms is the default of -platforms.
const platforms = "linux/amd64,linux/arm64"

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run makes the artifacts that the arguments name, and prints their paths.
func run(args []string, out, progress io.Writer) error {
	r := &release{progress: progress}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&r.version, "version", "", "version, such as v0.1.0")
	flags.StringVar(&r.root, "root", "../..", "top folder of the repository")
	flags.StringVar(&r.repository, "repository", "curfew", "image without its tag, such as registry.example.com/curfew")
	list := flags.String("platforms", platforms, "platforms of the image, as OS/ARCH, by commas")
	flags.StringVar(&r.runbooks, "runbooks", "", "what links of alerts to their runbooks begin with, "+
		"such as https://git.example.com/curfew/blob/{version}/; without it there are none")
	flags.Usage = func() {
		fmt.Fprintln(progress, "release [flags] image | chart | install | checksums ...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.platforms = strings.Split(*list, ",")
	steps := map[string]func() ([]string, error){
		"image": r.image, "chart": r.chart, "install": r.install, "checksums": r.checksums,
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return fmt.Errorf("name what to make")
	}
	if err := r.complete(); err != nil {
		return err
	}
	for _, name := range flags.Args() {
		step, ok := steps[name]
		if !ok {
			return fmt.Errorf("%q: give image, chart, install or checksums", name)
		}
		made, err := step()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, line := range made {
			fmt.Fprintln(out, line)
		}
	}
	return nil
}
