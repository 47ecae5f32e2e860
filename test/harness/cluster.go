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
	"slices"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a running control plane.
type Cluster struct {
	// Dir holds its data and logs, and the logs of Curfew's processes.
	Dir string
	// Kubeconfig is the path of the administrator's.
	Kubeconfig string
	// Etcd is the URL of etcd.
	Etcd string
	// Config and Client are the administrator's, without a limit on requests.
	Config *rest.Config
	Client kubernetes.Interface
	// Patient has Install give webhooks 30 seconds, so that a busy machine skips no review. As shipped,
	// they have 5. FailClosed has Install and StartController refuse what could not be reviewed. As
	// shipped, that is admitted. The webhooks that the controller keeps have 5 seconds at most, and its
	// defaults fail open. A file of ClusterOptions.Install is applied as it is.
	Patient, FailClosed bool

	root, kubectl string
	older         bool      // see Older
	install       string    // see ClusterOptions
	services      *Services // for install; otherwise nil
}

// ClusterOptions say how a control plane is to run.
type ClusterOptions struct {
	// Dir is its folder.
	Dir string
	// InTreeTTL runs the in-tree TTL-after-finished controller beside Curfew.
	InTreeTTL bool
	// AuditLog makes the API server write logs/audit.log, see [Cluster.Forbidden].
	AuditLog bool
	// Controllers is the controller manager's flag, verbatim; empty means all but the in-tree TTL
	// controller.
	Controllers string
	// Arguments are further ones, as component=--flag=value.
	Arguments []string
	// Install is a file of manifests, relative to the repository, such as dist/install.yaml. Curfew is
	// installed by it alone and started with the arguments of its Deployments, and the API server
	// reaches the webhook by its Service. Empty means manifests/overlays/local.
	Install string
	// Out is told how far a first, long build is.
	Out io.Writer
}

// StartCluster starts a control plane and returns when it is ready. One that runs with the same
// options is taken as it is.
func StartCluster(ctx context.Context, options ClusterOptions) (*Cluster, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(options.Dir)
	if err != nil {
		return nil, fmt.Errorf("make %q absolute: %w", options.Dir, err)
	}
	cluster := &Cluster{Dir: dir, root: root}
	if options.Install != "" {
		if err := cluster.installBy(options.Install); err != nil {
			return nil, err
		}
		options.Arguments = append(slices.Clone(options.Arguments), cluster.services.Argument())
	}
	args := []string{"start", fmt.Sprintf("--in-tree-ttl=%t", options.InTreeTTL), fmt.Sprintf("--audit-log=%t", options.AuditLog)}
	if options.Controllers != "" {
		args = append(args, "--controllers="+options.Controllers)
	}
	for _, argument := range options.Arguments {
		args = append(args, "--arg="+argument)
	}
	if err := cluster.command(ctx, options.Out, args...); err != nil {
		return nil, err
	}
	return cluster, cluster.load()
}

// load reads what the cluster command left for others.
func (c *Cluster) load() error {
	path := filepath.Join(c.Dir, "cluster.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the cluster's state: %w", err)
	}
	var state struct{ Kubeconfig, Kubectl, Etcd string }
	if err := json.Unmarshal(data, &state); err != nil {
		return fmt.Errorf("parse %s: %w", path, err)
	}
	c.Kubeconfig, c.kubectl, c.Etcd = state.Kubeconfig, state.Kubectl, state.Etcd
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return fmt.Errorf("read %s: %w", c.Kubeconfig, err)
	}
	c.Config.QPS = -1
	c.Config.WarningHandler = rest.NoWarnings{} // kubectl's output is where warnings are tested
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	return nil
}

// Stop ends the control plane and removes its data; the logs stay.
func (c *Cluster) Stop(ctx context.Context) error { return c.command(ctx, nil, "stop") }

// StopCluster ends whatever control plane runs in a folder, one that a crash left behind included.
func StopCluster(ctx context.Context, dir string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return fmt.Errorf("make %q absolute: %w", dir, err)
	}
	return (&Cluster{Dir: dir, root: root}).Stop(ctx)
}

// Restart ends one component of the control plane and starts it again, with changed options if
// flags are given.
func (c *Cluster) Restart(ctx context.Context, component string, flags ...string) error {
	return c.command(ctx, nil, append([]string{"restart", "--component", component}, flags...)...)
}

// Kill sends SIGKILL to one component.
func (c *Cluster) Kill(ctx context.Context, component string) error {
	return c.command(ctx, nil, "kill", "--component", component)
}

func (c *Cluster) command(ctx context.Context, out io.Writer, args ...string) error {
	program, err := binary(c.root, "cluster")
	if err != nil {
		return err
	}
	args = append(args, "--dir", c.Dir)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = c.root // it finds its module from where it runs
	var kept bytes.Buffer
	cmd.Stdout, cmd.Stderr = &kept, &kept
	if out != nil {
		cmd.Stdout, cmd.Stderr = out, io.MultiWriter(out, &kept)
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cluster %s: %w\n%s", args[0], err, &kept)
	}
	return nil
}
