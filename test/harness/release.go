package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// installBy has Curfew installed by a file instead of manifests/overlays/local.
func (c *Cluster) installBy(file string) error {
	if !filepath.IsAbs(file) {
		file = filepath.Join(c.root, file)
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("find the manifests to install: %w", err)
	}
	// The path of a socket is short.
	folder, err := os.MkdirTemp("", "curfew")
	if err != nil {
		return err
	}
	c.install = file
	c.services, err = NewServices(folder)
	return err
}

// Close ends what connects the control plane to this process; harmless where nothing does.
func (c *Cluster) Close() error {
	if c.services == nil {
		return nil
	}
	return errors.Join(c.services.Close(), os.RemoveAll(c.services.folder))
}

// args are the arguments of a command. They come from its Deployment: from the cluster's where
// Curfew is installed by a file, else from the manifests'. Others replace them.
func (c *Cluster) args(ctx context.Context, command string, others []string) ([]string, error) {
	if c.install == "" {
		return ShippedArgs(c.root, command, others...)
	}
	pod, err := c.podTemplate(ctx, command)
	if err != nil {
		return nil, err
	}
	args, err := deployedArgs(&pod.Spec, command)
	if err != nil {
		return nil, fmt.Errorf("deployment %s: %w", pod.Name, err)
	}
	return replaceArgs(args, others), nil
}

// serveWebhook has the API server find a webhook behind its Service, on a port of loopback.
func (c *Cluster) serveWebhook(ctx context.Context, port int) error {
	if c.install == "" {
		return nil
	}
	pod, err := c.podTemplate(ctx, "webhook")
	if err != nil {
		return err
	}
	ports := map[int32]int{}
	for _, containerPort := range pod.Spec.Containers[0].Ports {
		if containerPort.Name == "webhook" {
			ports[containerPort.ContainerPort] = port
		}
	}
	c.services.serveOnly(c, &Pod{Pod: pod, Name: pod.Name, ports: ports})
	return nil
}

// podTemplate is a Pod that a Deployment of Curfew's would create.
func (c *Cluster) podTemplate(ctx context.Context, command string) (*corev1.Pod, error) {
	deployment, err := c.Client.AppsV1().Deployments(Namespace).Get(ctx, "curfew-"+command, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the Deployment of curfew %s: %w", command, err)
	}
	template := &deployment.Spec.Template
	return &corev1.Pod{Spec: template.Spec, ObjectMeta: metav1.ObjectMeta{
		Name: deployment.Name, Namespace: deployment.Namespace, Labels: template.Labels}}, nil
}
