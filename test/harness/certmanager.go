package harness

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// CertManager is the peer that issues certificates; its program is of this repository, and starts
// cert-manager's own controllers.
var CertManager = Peer{
	Module: "github.com/cert-manager/cert-manager", name: "cert-manager", Version: "v1.21.2", program: ".", crds: "deploy/crds/cert-manager.io_*.yaml",
}

// StartCertManager builds and starts cert-manager's controllers and its cainjector, as an
// administrator. Its CRDs have to be installed.
func (c *Cluster) StartCertManager(ctx context.Context, out io.Writer) (*Process, error) {
	program, err := CertManager.Build(ctx, out)
	if err != nil {
		return nil, err
	}
	return startProcess("cert-manager", c.Log("cert-manager"), false, []string{"KUBECONFIG=" + c.Kubeconfig}, program)
}

// Mount writes a Secret of Curfew's namespace into a folder, and again whenever it changes, until
// ctx ends: as a kubelet does, with a link that moves from one version to the next.
func (c *Cluster) Mount(ctx context.Context, secret, dir string) error {
	watcher, err := c.Client.CoreV1().Secrets(Namespace).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + secret})
	if err != nil {
		return fmt.Errorf("watch Secret %s: %w", secret, err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		content, ok := event.Object.(*corev1.Secret)
		if !ok || event.Type == watch.Deleted {
			continue
		}
		if err := writeVolume(dir, content); err != nil {
			return fmt.Errorf("mount Secret %s: %w", secret, err)
		}
	}
	if ctx.Err() == nil {
		return fmt.Errorf("the watch of Secret %s ended", secret)
	}
	return nil
}

func writeVolume(dir string, secret *corev1.Secret) error {
	version := "..v" + secret.ResourceVersion
	if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
		return err
	}
	for name, data := range secret.Data {
		if err := os.WriteFile(filepath.Join(dir, version, name), data, 0o600); err != nil {
			return err
		}
	}
	next := filepath.Join(dir, "..next")
	if err := os.Symlink(version, next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
		return err
	}
	for name := range secret.Data {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return nil
}
