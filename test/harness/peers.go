package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Peer is a project whose kinds Curfew is tested with, as test/peers pins it.
type Peer struct {
	// Module that its manifests and its controllers come with.
	Module string
	// Version of the module; empty means the one that test/peers pins.
	Version string
	// name stands in the names of its files.
	name string
	// program is the package of its controllers.
	program string
	// crds is the folder of its CustomResourceDefinitions in the module, and webhooks the file of its webhook configurations.
	crds, webhooks string
}

// JobSet and Trainer are the peers. Trainer can be had in other versions, see [Peer.At].
var (
	JobSet = Peer{
		Module: "sigs.k8s.io/jobset", name: "jobset", program: "sigs.k8s.io/jobset",
		crds: "config/components/crd/bases", webhooks: "config/components/webhook/manifests.yaml",
	}
	Trainer = Peer{
		Module: "github.com/kubeflow/trainer/v2", name: "trainer", program: "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
		crds: "manifests/base/crds", webhooks: "manifests/base/webhook/manifests.yaml",
	}
)

// At is the peer in another version, one for which test/peers has a module: test/peers/trainer-v2.1.0, for example. The one that
// test/peers itself pins will do as well.
func (p Peer) At(version string) Peer {
	p.Version = version
	return p
}

// source is where a module lies, and in which version.
type source struct{ Dir, Version string }

// folder is the module that pins the peer.
func (p Peer) folder() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	pinned := filepath.Join(root, "test", "peers")
	if p.Version != "" {
		own := filepath.Join(pinned, p.name+"-"+p.Version)
		if _, err := os.Stat(filepath.Join(own, "go.mod")); err == nil {
			return own, nil
		}
	}
	return pinned, nil
}

// source finds the peer's module, which is downloaded if it has to be.
func (p Peer) source(ctx context.Context) (source, error) {
	folder, err := p.folder()
	if err != nil {
		return source{}, err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", p.Module)
	cmd.Dir = folder
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return source{}, fmt.Errorf("download %s: %w\n%s%s", p.Module, err, &stdout, &stderr)
	}
	var module source
	if err := json.Unmarshal(stdout.Bytes(), &module); err != nil {
		return source{}, fmt.Errorf("parse what go says of %s: %w", p.Module, err)
	}
	if p.Version != "" && p.Version != module.Version {
		return source{}, fmt.Errorf("%s %s: test/peers pins %s, and has no module %s-%s", p.name, p.Version, module.Version, p.name, p.Version)
	}
	return module, nil
}

// Build makes the program of the peer's controllers in bin/peers, where there is one a version, and returns its path. What is up to
// date costs a second; the first time takes a minute or two.
func (p Peer) Build(ctx context.Context, out io.Writer) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	folder, err := p.folder()
	if err != nil {
		return "", err
	}
	module, err := p.source(ctx)
	if err != nil {
		return "", err
	}
	target := filepath.Join(root, "bin", "peers", p.name+"-"+module.Version)
	if _, err := os.Stat(target); err != nil {
		fmt.Fprintf(out, "building %s %s, the first time takes a minute or two on 2 cores\n", p.name, module.Version)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-p", "2", "-buildvcs=false", "-ldflags", "-s -w", "-o", target, p.program)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s %s: %w\n%s", p.name, module.Version, err, said)
	}
	return target, nil
}

// InstallCRDs applies the CustomResourceDefinitions of peers, and nothing else of them, and returns when the API server
// serves their kinds. They are applied by the server: what kubectl would note on them otherwise is too long for an annotation.
func (c *Cluster) InstallCRDs(ctx context.Context, peers ...Peer) error {
	var apply, await []string
	for _, peer := range peers {
		module, err := peer.source(ctx)
		if err != nil {
			return err
		}
		// Beside them lies a kustomization.yaml; each is named group_resource.yaml.
		files, err := filepath.Glob(filepath.Join(module.Dir, filepath.FromSlash(peer.crds), "*_*.yaml"))
		if err != nil {
			return fmt.Errorf("list the CRDs of %s: %w", peer.Module, err)
		}
		if len(files) == 0 {
			return fmt.Errorf("%s has no CRDs in %s", peer.Module, filepath.Join(module.Dir, peer.crds))
		}
		for _, file := range files {
			group, resource, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".yaml"), "_")
			apply = append(apply, "--filename", file)
			await = append(await, "crd/"+resource+"."+group)
		}
	}
	if _, err := c.mustKubectl(ctx, "", append([]string{"apply", "--server-side", "--force-conflicts"}, apply...)...); err != nil {
		return err
	}
	_, err := c.mustKubectl(ctx, "", append([]string{"wait", "--for=condition=Established", "--timeout=60s"}, await...)...)
	return err
}
