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

// Peer is a project whose kinds Curfew is tested with.
type Peer struct {
	// Module that its manifests and its controllers come with.
	Module string
	// Version of the module; empty means the one that test/peers pins.
	Version string
	// sum pins a module that test/peers does not require, as a line of go.sum would. Only its CRDs
	// are used, and none of its dependencies is downloaded.
	sum string
	// name stands in the names of its files.
	name string
	// program is the package of its controllers.
	program string
	// crds matches the files of its CustomResourceDefinitions in the module.
	crds string
	// webhooks is the file of its webhook configurations.
	webhooks string
}

// JobSet and Trainer are the peers. Trainer can be had in other versions, see [Peer.At].
var (
	JobSet = Peer{
		Module: "sigs.k8s.io/jobset", name: "jobset", program: "sigs.k8s.io/jobset",
		crds: "config/components/crd/bases/*_*.yaml", webhooks: "config/components/webhook/manifests.yaml",
	}
	Trainer = Peer{
		Module: "github.com/kubeflow/trainer/v2", name: "trainer", program: "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
		crds: "manifests/base/crds/*_*.yaml", webhooks: "manifests/base/webhook/manifests.yaml",
	}
)

// Projects whose controllers never run here: the kinds that Curfew has profiles for, as their CRDs
// define them. A test sets their status.
var (
	TrainingOperator = Peer{
		Module: "github.com/kubeflow/training-operator", Version: "v1.8.1", sum: "h1:mVvoBSCInbMBX0gGSn4+Ihj3ycwoLO1iEAw+0qPhQfc=",
		crds: "manifests/base/crds/kubeflow.org_[pt][fy]*jobs.yaml", // PyTorchJob and TFJob
	}
	Tekton = Peer{
		Module: "github.com/tektoncd/pipeline", Version: "v1.15.0", sum: "h1:ZGboFUaEdpYurZWqeGT5rn9e6qmomGL/gLSKhHp2vvQ=",
		crds: "config/300-crds/300-pipelinerun.yaml",
	}
	SparkOperator = Peer{
		Module: "github.com/kubeflow/spark-operator/v2", Version: "v2.5.2", sum: "h1:6nX2UhwSfnYi1mtwczgFfJTMeLSL/1ajTvkFe8R7Vdc=",
		crds: "config/crd/bases/sparkoperator.k8s.io_sparkapplications.yaml",
	}
	KubeRay = Peer{
		Module: "github.com/ray-project/kuberay/ray-operator", Version: "v1.6.0", sum: "h1:1hs7Di2U/vm09ot7MIU8jUqEo7gHDc4gkbv1eFvqCsQ=",
		crds: "config/crd/bases/ray.io_rayjobs.yaml",
	}
	// What the components of manifests use.
	PrometheusOperator = Peer{
		Module: "github.com/prometheus-operator/prometheus-operator", Version: "v0.85.0", sum: "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
		crds: "example/prometheus-operator-crd/monitoring.coreos.com_[ps]*[des][mr][ou][nl]*.yaml", // PodMonitor, ServiceMonitor and PrometheusRule
	}
	CertManagerKinds = Peer{
		Module: "github.com/cert-manager/cert-manager", Version: "v1.21.2", sum: "h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=",
		crds: "deploy/crds/cert-manager.io_*.yaml",
	}
	// ArgoWorkflows has its minimal CRDs, which its own installation applies: the full ones are too
	// large for etcd.
	ArgoWorkflows = Peer{
		Module: "github.com/argoproj/argo-workflows/v3", Version: "v3.7.2", sum: "h1:Fi6j0q2sCg6cfkntKde5KA+TfJgMrq1MzJCmOESlWNw=",
		crds: "manifests/base/crds/minimal/argoproj.io_workflows.yaml",
	}
)

// source is where a module lies, and in which version.
type source struct{ Dir, Version, Sum string }

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
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", p.Module)
	if p.sum != "" {
		// Outside any module, and checked against the sum below.
		cmd = exec.CommandContext(ctx, "go", "mod", "download", "-json", p.Module+"@"+p.Version)
		cmd.Dir, cmd.Env = os.TempDir(), append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GONOSUMDB="+p.Module)
	} else if folder, err := p.folder(); err != nil {
		return source{}, err
	} else {
		cmd.Dir = folder
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return source{}, fmt.Errorf("download %s: %w\n%s%s", p.Module, err, &stdout, &stderr)
	}
	var module source
	if err := json.Unmarshal(stdout.Bytes(), &module); err != nil {
		return source{}, fmt.Errorf("parse what go says of %s: %w", p.Module, err)
	}
	if p.sum != "" && p.sum != module.Sum {
		return source{}, fmt.Errorf("%s %s has the sum %s, want %s", p.Module, p.Version, module.Sum, p.sum)
	}
	if p.Version != "" && p.Version != module.Version {
		return source{}, fmt.Errorf("%s %s: test/peers pins %s, and has no module %s-%s", p.name, p.Version, module.Version, p.name, p.Version)
	}
	return module, nil
}

// Build makes the program of the peer's controllers in bin/peers, where there is one a version, and
// returns its path. A program that is up to date costs a second; the first build takes a minute or
// two.
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
	cmd := exec.CommandContext(ctx, "go", "build", "-p", "2", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", target, p.program)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	if data, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s %s: %w\n%s", p.name, module.Version, err, data)
	}
	return target, nil
}

// CRDs are the files of the peer's CustomResourceDefinitions.
func (p Peer) CRDs(ctx context.Context) ([]string, error) {
	module, err := p.source(ctx)
	if err != nil {
		return nil, err
	}
	pattern := filepath.Join(module.Dir, filepath.FromSlash(p.crds))
	files, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("list the CRDs of %s: %w", p.Module, err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no CRDs %s", p.Module, pattern)
	}
	return files, nil
}

// InstallCRDs applies the CustomResourceDefinitions of peers, and nothing else of them, and returns
// when the API server serves their kinds. They are applied by the server: what kubectl would note
// on them otherwise is too long for an annotation.
func (c *Cluster) InstallCRDs(ctx context.Context, peers ...Peer) error {
	apply := []string{"apply", "--server-side", "--force-conflicts", "--output=name"}
	for _, peer := range peers {
		files, err := peer.CRDs(ctx)
		if err != nil {
			return err
		}
		for _, file := range files {
			apply = append(apply, "--filename", file)
		}
	}
	applied, err := c.mustKubectl(ctx, "", apply...)
	if err != nil {
		return err
	}
	return c.WaitForEstablished(ctx, strings.Fields(applied)...)
}

// WaitForEstablished returns when the kinds of CustomResourceDefinitions are served, which are named
// as crd/name.
func (c *Cluster) WaitForEstablished(ctx context.Context, definitions ...string) error {
	return Poll(ctx, strings.Join(definitions, ", "), func(ctx context.Context) (bool, error) {
		_, err := c.mustKubectl(ctx, "", append([]string{"wait", "--for=condition=Established", "--timeout=10m"}, definitions...)...)
		if err != nil && strings.Contains(err.Error(), "accessor error") { // kubectl cannot read a status without conditions
			return false, nil
		}
		return err == nil, err
	})
}
