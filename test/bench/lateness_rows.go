package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"curfew.dev/curfew/policy/resolution"
	"curfew.dev/curfew/policy/wellknown"
)

// latenessRow is one situation in which the lateness is measured.
type latenessRow struct {
	name  string
	field []contestant
	// goal is the ratio of the p99 to the bare loop's that must not be exceeded.
	goal float64
	// byDefault: the namespace says when the Jobs are due, which Curfew reads live for each.
	byDefault bool
	// launch starts Curfew.
	launch func(ctx context.Context, e *environment, log string) (*curfewProcess, error)
}

func launchPlain(ctx context.Context, e *environment, log string) (*curfewProcess, error) {
	return e.launchCurfew(ctx, log, e.curfewConfig)
}

// managedJobs are Jobs with spec.managedBy and a TTL of their own, as in most benches.
var managedJobs = latenessRow{name: "lateness", field: latenessField, goal: 1.15, launch: launchPlain}

func init() {
	alone := []contestant{{name: theCurfew}, {name: theLimit}} // The in-tree controller knows no defaults.
	for _, b := range []struct {
		about string
		row   latenessRow
	}{
		{"the same, of Jobs whose TTL is a default that is read live",
			latenessRow{name: "lateness_defaults", field: alone, goal: 2, byDefault: true, launch: launchPlain}},
		{"the same, in the two minutes after an outage, in which Curfew reads each Job before it deletes it",
			latenessRow{name: "lateness_outage", field: alone, goal: 4, launch: launchAfterOutage}},
	} {
		register(bench{
			name: b.row.name, about: b.about, position: 31,
			run: func(ctx context.Context, e *environment) ([]result, error) { return runLateness(ctx, e, b.row) },
		})
	}
}

// results names the results after the row, and prints the goal beside that which has one.
func (row latenessRow) results(out io.Writer, all []result) []result {
	for i := range all {
		all[i].Name = row.name + strings.TrimPrefix(all[i].Name, "lateness")
		if strings.HasSuffix(all[i].Name, ".p99_ms.vs_limit") {
			met := "met"
			if all[i].Ratio > row.goal {
				met = "missed"
			}
			fmt.Fprintf(out, "%s: %s times the bare loop's, goal at most %g: %s\n", all[i].Name, show(all[i].Ratio), row.goal, met)
		}
	}
	return all
}

// prepare makes the namespace of a row. undo takes back what other benches must not find.
func (l *lateness) prepare(ctx context.Context) (undo func(), err error) {
	if err := l.load.namespace(ctx); err != nil || !l.row.byDefault {
		return func() {}, err
	}
	annotations := map[string]string{wellknown.AnnotationDefaultTTL: ttl.String()}
	annotations[wellknown.AnnotationDefaultSince] = resolution.FormatSince(time.Now().Add(-time.Hour), resolution.DefaultsHash(annotations))
	annotate := func(ctx context.Context, annotations map[string]any) error {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
		if err != nil {
			return err
		}
		_, err = l.load.client.CoreV1().Namespaces().Patch(ctx, benchNamespace, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	set, remove := map[string]any{}, map[string]any{}
	for key, value := range annotations {
		set[key], remove[key] = value, nil
	}
	if err := annotate(ctx, set); err != nil {
		return nil, fmt.Errorf("annotate namespace %s: %w", benchNamespace, err)
	}
	return func() {
		if err := annotate(context.WithoutCancel(ctx), remove); err != nil {
			fmt.Fprintf(l.env.out, "the annotations of namespace %s are left: %v\n", benchNamespace, err)
		}
	}, nil
}
