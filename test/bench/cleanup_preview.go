package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
)

// previewOptions are the flags of the preview of a cleanup policy.
var previewOptions struct{ objects, rounds int }

func init() {
	register(bench{
		name: "cleanup_preview", about: "kubectl curfew preview beside a bare list", position: 36, run: runCleanupPreview,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&previewOptions.objects, "cleanup_preview-objects", 100000, "how many ConfigMaps match; as many do not")
			fs.IntVar(&previewOptions.rounds, "cleanup_preview-rounds", 5, "how many rounds; each lists once and previews once")
		},
	})
}

// runCleanupPreview lists all ConfigMaps, page by page, and has kubectl curfew preview a policy
// that matches half of them, by turns.
func runCleanupPreview(ctx context.Context, e *environment) ([]result, error) {
	o := previewOptions
	return e.preview(ctx, o.objects, o.rounds, "cleanup.preview."+sizeName(o.objects)+".vs_list", "")
}

// preview previews a policy that matches the ConfigMaps of a set and meets another condition, if
// there is one.
func (e *environment) preview(ctx context.Context, objects, rounds int, name, condition string, args ...string) (results []result, err error) {
	plugin := filepath.Join(e.root, "bin", "kubectl-curfew")
	if err := e.command(ctx, "go", "build", "-o", plugin, "./cmd/kubectl-curfew"); err != nil {
		return nil, err
	}
	if _, _, err := timed(ctx, plugin, "preview", "--help"); err != nil {
		fmt.Fprintln(e.out, "left out: this kubectl curfew has no preview")
		return nil, nil
	}
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	c := &cleaned{labelled: labelled{client}, others: jobSet{prefix: "other", count: objects}}
	matching := jobSet{prefix: "match", count: objects}
	defer func() { err = errors.Join(err, c.labelled.clear(ctx, c.others), c.labelled.clear(ctx, matching)) }()
	if err := errors.Join(e.grantLabels(ctx, client), c.namespace(ctx), c.create(ctx, matching)); err != nil {
		return nil, err
	}
	of := policyOf(matching.prefix, "0 0 1 1 *")
	if condition != "" {
		conditions, _, _ := unstructured.NestedSlice(of.Object, "spec", "conditions")
		conditions = append(conditions, map[string]any{"name": "unused", "expression": condition})
		if err := unstructured.SetNestedSlice(of.Object, conditions, "spec", "conditions"); err != nil {
			return nil, fmt.Errorf("write the policy: %w", err)
		}
	}
	policy, err := of.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("write the policy: %w", err)
	}
	file := filepath.Join(e.dir, "preview.json")
	if err := os.WriteFile(file, policy, 0o600); err != nil {
		return nil, fmt.Errorf("write the policy: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	var previews, lists []float64
	for n := 1; n <= rounds; n++ {
		list, _, err := timed(ctx, self, listCommand, "--kubeconfig", e.state.Kubeconfig, "--resource", resourceConfigMaps)
		if err != nil {
			return nil, err
		}
		preview, said, err := timed(ctx, plugin, append([]string{"preview", "-f", file, "-o", "json", "--kubeconfig", e.state.Kubeconfig}, args...)...)
		if err != nil {
			return nil, err
		}
		if last := matching.name(matching.count - 1); !strings.Contains(said, last) {
			return nil, fmt.Errorf("the preview does not show %s: it measures something else", last)
		}
		previews, lists = append(previews, preview), append(lists, list)
		fmt.Fprintf(e.out, "round %d of %d: preview %.2f s, list %.2f s\n", n, rounds, preview, list)
	}
	return []result{compare(name, "s", previews, "bare paged list of all of them", lists)}, nil
}

// timed runs a program and returns how many seconds it took, and what it printed.
func timed(ctx context.Context, name string, args ...string) (float64, string, error) {
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, said.String())
	}
	return time.Since(began).Seconds(), out.String(), nil
}
