// Command krew packs kubectl-curfew for krew, the plugin manager of kubectl: an archive for each
// platform, and the plugin manifest with their checksums. `make krew VERSION=v0.1.0` runs it.
//
// The manifest describes the archives that were just written. -url says where they will be
// published; without it the manifest has only their names, which is enough for
// `kubectl krew install --manifest --archive`.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
)

// platforms is the default of -platforms.
const platforms = "darwin/amd64,darwin/arm64,linux/amd64,linux/arm64,windows/amd64"

func main() {
	release := release{build: build, progress: os.Stderr}
	flag.StringVar(&release.version, "version", "", "version, such as v0.1.0")
	flag.StringVar(&release.out, "out", "dist", "folder for the archives and the manifest")
	flag.StringVar(&release.url, "url", "", "address that the archives will lie below")
	flag.StringVar(&release.homepage, "homepage", "", "address of the project's page")
	list := flag.String("platforms", platforms, "platforms, as OS/ARCH, by commas")
	flag.Parse()
	release.platforms = strings.Split(*list, ",")
	files, err := release.pack()
	if err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
	for _, file := range files {
		fmt.Println(file)
	}
}
