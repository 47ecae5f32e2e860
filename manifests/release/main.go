// Command release makes the published files of a version: the container image, the Helm chart, the
// manifests in a single file, the source with all modules, an SBOM, provenance, checksums and
// signatures, and pushes the image. `make image`, `make chart`, `make release`, `make sign` and
// `make push` run it.
//
// It is a module of its own, so that what builds images and charts stays out of Curfew's go.mod.
package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"curfew.dev/curfew/manifests/release/image"
)

// platforms is the default of -platforms.
const platforms = "linux/amd64,linux/arm64,linux/ppc64le,linux/s390x"

// stepNames are what can be made, in order: the later ones use what the earlier ones have made.
const stepNames = "image, chart, install, source, provenance, checksums, sign, push"

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run makes the artifacts that the arguments name, and prints their paths.
func run(args []string, out, progress io.Writer) error {
	slog.SetLogLoggerLevel(slog.LevelWarn) // Helm names each link in the chart.
	r := &release{progress: progress}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.SetOutput(progress)
	flags.StringVar(&r.version, "version", "", "version, such as v0.1.0")
	flags.StringVar(&r.root, "root", "../..", "top folder of the repository")
	flags.StringVar(&r.out, "out", "../../dist", "folder for all files")
	flags.StringVar(&r.repository, "repository", "curfew", "image without its tag, such as registry.example.com/curfew")
	list := flags.String("platforms", platforms, "platforms of the image, as OS/ARCH, by commas")
	flags.StringVar(&r.runbooks, "runbooks", "", "what links of alerts to their runbooks begin with, "+
		"such as https://git.example.com/curfew/blob/{version}/; without it there are none")
	flags.StringVar(&r.builder, "builder", "https://curfew.dev/make-release", "URI of who builds, for the provenance")
	flags.StringVar(&r.key, "key", "", "file of the private key to sign with: P-256 in PKCS #8")
	flags.StringVar(&r.pgpKey, "pgp-key", "", "file of a PGP key to sign the chart with for helm verify, as gpg --export-secret-keys writes it")
	flags.BoolVar(&r.dirty, "dirty", false, "sign although files differ from the commit")
	flags.Usage = func() {
		fmt.Fprintln(progress, "release [flags] "+strings.ReplaceAll(stepNames, ",", " |")+" ...")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.platforms = strings.Split(*list, ",")
	steps := map[string]func() ([]string, error){
		"image": r.image, "chart": r.chart, "install": r.install, "source": r.source, "provenance": r.provenance,
		"checksums": r.checksums, "sign": r.sign, "push": r.push,
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return fmt.Errorf("name what to make")
	}
	if err := r.complete(); err != nil {
		return err
	}
	if slices.Contains(flags.Args(), "sign") { // Building takes minutes.
		if _, err := readKey(r.key); err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		if err := r.clean(r.revision); err != nil && flags.NArg() > 1 {
			return fmt.Errorf("sign: %w", err)
		}
	}
	r.build = image.Static(r.root, r.version)
	for _, name := range flags.Args() {
		step, ok := steps[name]
		if !ok {
			return fmt.Errorf("%q: give one of %s", name, stepNames)
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
