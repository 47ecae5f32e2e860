package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// Peer is a project whose kinds Curfew is tested with, as test/peers pins it.
type Peer struct {
	// Module that its manifests come with.
	Module string
	// Version of the module; empty means the one that test/peers pins.
	Version string
	// crds is the folder of its CustomResourceDefinitions in the module.
	crds string
}

// JobSet and Trainer are the peers. Trainer's CRDs can be had in other versions, see [Peer.At].
var (
	JobSet  = Peer{Module: "sigs.k8s.io/jobset", crds: "config/components/crd/bases"}
	Trainer = Peer{Module: "github.com/kubeflow/trainer/v2", crds: "manifests/base/crds"}
)

// At is the peer in another version.
func (p Peer) At(version string) Peer {
	p.Version = version
	return p
}

// Dir is the folder of the peer's module, which is downloaded if it has to be.
func (p Peer) Dir(ctx context.Context) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	name := p.Module
	if p.Version != "" {
		name += "@" + p.Version
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", name)
	cmd.Dir = filepath.Join(root, "test", "peers")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("download %s: %w\n%s%s", name, err, &stdout, &stderr)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(stdout.Bytes(), &module); err != nil {
		return "", fmt.Errorf("parse what go says of %s: %w", name, err)
	}
	return module.Dir, nil
}

// InstallCRDs applies the CustomResourceDefinitions of peers, and nothing else of them, and returns when the API server
// serves their kinds. They are applied by the server: what kubectl would note on them otherwise is too long for an annotation.
func (c *Cluster) InstallCRDs(ctx context.Context, peers ...Peer) error {
	var apply, await []string
	for _, peer := range peers {
		dir, err := peer.Dir(ctx)
		if err != nil {
			return err
		}
		// Beside them lies a kustomization.yaml; each is named group_resource.yaml.
		files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(peer.crds), "*_*.yaml"))
		if err != nil {
			return fmt.Errorf("list the CRDs of %s: %w", peer.Module, err)
		}
		if len(files) == 0 {
			return fmt.Errorf("%s has no CRDs in %s", peer.Module, filepath.Join(dir, peer.crds))
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
