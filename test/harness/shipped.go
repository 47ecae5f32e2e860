package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// shipped are the Deployments that the manifests ship, by the command that they run.
var shipped = map[string]string{"controller": "deploy/controller.yaml", "webhook": "deploy/webhook.yaml"}

// ShippedArgs are the arguments with which the Deployment in manifests runs `curfew command`, with
// others in place of those that cannot be the same on one machine. A flag that is given replaces the
// shipped one, also where a second value would be added to a list.
func ShippedArgs(root, command string, others ...string) ([]string, error) {
	file := shipped[command]
	data, err := os.ReadFile(filepath.Join(root, "manifests", filepath.FromSlash(file)))
	if err != nil {
		return nil, fmt.Errorf("read the Deployment of curfew %s: %w", command, err)
	}
	var deployment appsv1.Deployment
	if err := yaml.Unmarshal(data, &deployment); err != nil {
		return nil, fmt.Errorf("parse %s: %w", file, err)
	}
	args, err := deployedArgs(&deployment.Spec.Template.Spec, command)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return replaceArgs(args, others), nil
}

// deployedArgs are the arguments of a command in its Pod.
func deployedArgs(pod *corev1.PodSpec, command string) ([]string, error) {
	if len(pod.Containers) != 1 {
		return nil, fmt.Errorf("%d containers, want 1", len(pod.Containers))
	}
	container := pod.Containers[0]
	if len(container.Command) > 0 || len(container.Env) > 0 || len(container.Args) == 0 || container.Args[0] != command {
		return nil, fmt.Errorf("want the arguments of curfew %s, no command and no variables", command)
	}
	return slices.Clone(container.Args), nil
}

// replaceArgs appends others to args, without the flags that they repeat.
func replaceArgs(args, others []string) []string {
	name := func(arg string) string {
		flag, _, _ := strings.Cut(arg, "=")
		return flag
	}
	args = slices.DeleteFunc(args, func(arg string) bool {
		return slices.ContainsFunc(others, func(other string) bool {
			return strings.HasPrefix(arg, "--") && name(arg) == name(other)
		})
	})
	return append(args, others...)
}
