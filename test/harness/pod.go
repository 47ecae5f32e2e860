package harness

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Image is an unpacked container image.
type Image struct {
	Root       string
	Entrypoint []string
}

// Pod is a process that runs as the spec of a Pod says: in the root filesystem of its image, with
// its arguments, environment and volumes. All Pods share a network, so each of its ports is
// another one on loopback, and arguments that end in a port of the container name that instead.
type Pod struct {
	*Process
	*corev1.Pod
	// Name is that of both.
	Name  string
	ports map[int32]int
}

// RunPod starts the only container of a Pod, as a kubelet would, in a folder that becomes its root.
func (c *Cluster) RunPod(ctx context.Context, pod *corev1.Pod, image Image, root string) (*Pod, error) {
	container := &pod.Spec.Containers[0]
	if len(pod.Spec.Containers) != 1 || len(container.Command) > 0 || pod.Spec.SecurityContext == nil || pod.Spec.SecurityContext.RunAsUser != nil {
		return nil, fmt.Errorf("pod %s: want one container, no command and no user", pod.Name)
	}
	started := &Pod{Pod: pod, Name: pod.Name, ports: map[int32]int{}}
	args := slices.Clone(container.Args)
	for _, port := range container.Ports {
		free, err := FreePort()
		if err != nil {
			return nil, err
		}
		started.ports[port.ContainerPort] = free
		for i, arg := range args {
			for _, before := range []string{":", "="} {
				if start, ok := strings.CutSuffix(arg, before+strconv.Itoa(int(port.ContainerPort))); ok {
					args[i] = start + before + strconv.Itoa(free)
				}
			}
		}
	}
	env, err := c.podEnvironment(pod)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(unpackInto(root, image.Root), c.mount(ctx, pod, root)); err != nil {
		return nil, fmt.Errorf("root filesystem of pod %s: %w", pod.Name, err)
	}
	if security := container.SecurityContext; security != nil && security.ReadOnlyRootFilesystem != nil && *security.ReadOnlyRootFilesystem {
		if err := os.Chmod(root, 0o555); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(image.Entrypoint[0], slices.Concat(image.Entrypoint[1:], args)...)
	cmd.Dir, cmd.Env = "/", env
	const user = 1_000_650_000 // Any user must do: OpenShift takes one of a range of the namespace.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot: root, Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}},
	}
	started.Process, err = start(pod.Name, c.Log(pod.Name), false, cmd)
	return started, err
}

// podEnvironment is what a kubelet gives a container: its own variables, and where the API server
// is.
func (c *Cluster) podEnvironment(pod *corev1.Pod) ([]string, error) {
	address, err := url.Parse(c.Config.Host)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address.Host)
	if err != nil {
		return nil, err
	}
	env := []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port}
	for _, variable := range pod.Spec.Containers[0].Env {
		value := variable.Value
		if variable.ValueFrom != nil {
			if variable.ValueFrom.FieldRef == nil {
				return nil, fmt.Errorf("variable %s: only fieldRef is known here", variable.Name)
			}
			if value, err = podField(pod, variable.ValueFrom.FieldRef.FieldPath); err != nil {
				return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
			}
		}
		env = append(env, variable.Name+"="+value)
	}
	return env, nil
}

func podField(pod *corev1.Pod, path string) (string, error) {
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "status.podIP":
		return "127.0.0.1", nil
	}
	return "", fmt.Errorf("field %s is not known here", path)
}

// unpackInto gives a Pod its own copy of an image's files, without copying their content.
func unpackInto(root, image string) error {
	return filepath.WalkDir(image, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(image, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(root, relative), 0o755)
		}
		return os.Link(path, filepath.Join(root, relative))
	})
}

// Port is where a port of the container is on loopback, by its number or name.
func (p *Pod) Port(name string) (string, error) {
	for _, port := range p.Spec.Containers[0].Ports {
		if port.Name == name || strconv.Itoa(int(port.ContainerPort)) == name {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.ports[port.ContainerPort])), nil
		}
	}
	return "", fmt.Errorf("pod %s has no port %s", p.Name, name)
}

// WaitReady returns when both its probes succeed. A process that ended meanwhile is an error at
// once.
func (p *Pod) WaitReady(ctx context.Context) error {
	container := p.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{container.LivenessProbe, container.ReadinessProbe} {
		address, err := p.Port(probe.HTTPGet.Port.String())
		if err != nil {
			return err
		}
		var last error
		err = Poll(ctx, probe.HTTPGet.Path+" of pod "+p.Name, func(ctx context.Context) (bool, error) {
			select {
			case <-p.Ended():
				return false, fmt.Errorf("it ended: %w", p.Err())
			default:
			}
			_, last = Get(ctx, nil, "http://"+address+probe.HTTPGet.Path)
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("wait for %s of pod %s: %w (last: %v)\n%s", probe.HTTPGet.Path, p.Name, err, last, Tail(p.Log, 20))
		}
	}
	return nil
}

// Terminate ends it with SIGTERM, within the time that its spec gives it.
func (p *Pod) Terminate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*p.Spec.TerminationGracePeriodSeconds)*time.Second)
	defer cancel()
	if err := p.Stop(ctx); err != nil {
		return err
	}
	return p.Err()
}
