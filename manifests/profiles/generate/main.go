// Command generate writes the kustomization of the built-in profiles, and the ClusterRole with
// which the controller reads, deletes and stops objects of their kinds. go generate runs it in
// manifests/profiles.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"curfew.dev/curfew/manifests/profiles"
	"curfew.dev/curfew/policy"
	"curfew.dev/curfew/policy/v1alpha1"
)

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// run writes the files below the folder manifests.
func run(manifests string) error {
	files, err := generated(manifests)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(manifests, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

const notice = "# Generated from the profiles in manifests/profiles by make generate. Do not edit.\n"

// generated are the files by their names below the folder manifests.
func generated(manifests string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(manifests, "profiles", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the profiles: %w", err)
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return filepath.Base(path) == "kustomization.yaml" })
	all, err := profiles.All()
	if err != nil {
		return nil, err
	}
	kustomization := notice + "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n"
	for i, profile := range all { // in the order of the files
		if kind := profile.Spec.Kind; !policy.HasOwnCode(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}) {
			kustomization += "  - " + filepath.Base(paths[i]) + "\n"
		}
	}
	return map[string]string{"profiles/kustomization.yaml": kustomization, "rbac/builtin-kinds.yaml": role(all)}, nil
}

const roleHead = notice + `#
# What the controller may do with the kinds whose profiles come with Curfew, beside Jobs and Pods (features.yaml). A rule for a kind
# that is not installed grants nothing.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: curfew-controller-builtin-kinds
  labels:
    app.kubernetes.io/name: curfew
    app.kubernetes.io/component: controller
    app.kubernetes.io/part-of: curfew
    curfew.dev/aggregate-to-controller: "true"
rules:
`

// featureHead begins a role that only the controller gets: no cleanup policy needs its verbs.
const featureHead = `---
# %s
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: curfew-controller-%[2]s
  labels:
    app.kubernetes.io/name: curfew
    app.kubernetes.io/component: controller
    app.kubernetes.io/part-of: curfew
    curfew.dev/controller-feature: %[2]s
rules:
`

// grants are rules with the same verbs and reason: the resources by group.
type grants map[string]map[string]bool

func (g grants) add(group, resource string) {
	if group == "" || group == "batch" {
		return // Jobs and Pods are in features.yaml.
	}
	if g[group] == nil {
		g[group] = map[string]bool{}
	}
	g[group][resource] = true
}

func role(all []*v1alpha1.KindProfile) string {
	deleted, read, stamped, marked, suspended := grants{}, grants{}, grants{}, grants{}, grants{}
	for _, profile := range all {
		kind := profile.Spec.Kind
		if profile.Spec.State != nil {
			deleted.add(kind.Group, kind.Resource)
		} else {
			read.add(kind.Group, kind.Resource)
		}
		if runtime := profile.Spec.Runtime; runtime != nil {
			for _, runtimeKind := range runtime.Kinds {
				read.add(runtimeKind.Group, runtimeKind.Resource)
				stamped.add(runtimeKind.Group, runtimeKind.Resource)
			}
		}
		for _, step := range steps(profile) {
			on := kind
			if step.Child != nil {
				on = step.Child.ProfiledKind
			}
			switch step.Action {
			case v1alpha1.StopMarkFailed:
				marked.add(on.Group, on.Resource+"/status")
			case v1alpha1.StopSuspend:
				suspended.add(on.Group, on.Resource)
			case v1alpha1.StopDelete:
				deleted.add(on.Group, on.Resource)
			}
		}
	}
	return roleHead +
		deleted.rules("list and watch find finished objects, get reads one again to judge it again, delete deletes it.",
			"get, list, watch, delete") +
		read.rules("Training runtimes, whose TTL wins over that of the object.", "get, list, watch") +
		fmt.Sprintf(featureHead, "Where Curfew enforces a deadline of these kinds.", "deadlines") +
		marked.rules("The condition Failed with reason DeadlineExceeded, and nothing else, is written to the status.", "patch") +
		suspended.rules("Objects are suspended.", "patch") +
		fmt.Sprintf(featureHead, "Changes of a runtime's TTL that bypassed admission.", "runtimes") +
		stamped.rules("Only annotation curfew.dev/default-since of a runtime is written.", "patch")
}

func steps(profile *v1alpha1.KindProfile) []v1alpha1.StopStep {
	var out []v1alpha1.StopStep
	if profile.Spec.Deadline != nil {
		for _, way := range profile.Spec.Deadline.Enforcement {
			out = append(out, way.Stop...)
		}
	}
	return out
}

func (g grants) rules(reason, verbs string) string {
	var out strings.Builder
	for i, group := range slices.Sorted(maps.Keys(g)) {
		if i == 0 {
			fmt.Fprintf(&out, "  # %s\n", reason)
		}
		resources := strings.Join(slices.Sorted(maps.Keys(g[group])), ", ")
		fmt.Fprintf(&out, "  - apiGroups: [%s]\n    resources: [%s]\n    verbs: [%s]\n", group, resources, verbs)
	}
	return out.String()
}
