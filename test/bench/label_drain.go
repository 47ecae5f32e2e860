package main

import (
	"context"
	"flag"
	"fmt"

	"k8s.io/client-go/kubernetes"
)

// labelDrainOptions are the flags of the drain of labelled objects.
var labelDrainOptions struct{ objects, rounds int }

func init() {
	register(bench{
		name: "label_drain", about: "labelled ConfigMaps that fall due in the same second", position: 30, run: runLabelDrain,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&labelDrainOptions.objects, "label_drain-objects", 20000, "how many labelled ConfigMaps fall due at once")
			fs.IntVar(&labelDrainOptions.rounds, "label_drain-rounds", 5, "how many rounds")
		},
	})
}

// labelField lists the contestants that delete labelled objects.
var labelField = []contestant{
	{name: theLimit, about: "bare loop of parallel DELETE calls", ends: true, start: startLoop},
	{name: theCurfew, about: "Curfew", start: startLabels()},
	{name: theEqual, about: "the same loop with Curfew's rights", ends: true, start: startEqualLoop},
	{name: theDrainer, about: "Curfew --favour-drain", start: startLabels("--favour-drain")},
}

func runLabelDrain(ctx context.Context, e *environment) ([]result, error) {
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := e.grantLabels(ctx, client); err != nil {
		return nil, err
	}
	// What serves the loop best for Jobs need not do so here.
	before := e.parallel
	e.parallel = e.calls
	defer func() { e.parallel = before }()
	d := &contest{env: e, name: "label_drain", jobs: labelDrainOptions.objects, rounds: labelDrainOptions.rounds, load: labelled{client}}
	all, _, err := d.drain(ctx, e, labelField)
	if err != nil {
		return nil, err
	}
	return summarizeLabelDrain(all, d.jobs), nil
}

func summarizeLabelDrain(all []measurement, objects int) []result {
	rates := map[string][]float64{}
	for _, m := range all {
		rates[m.Contestant] = append(rates[m.Contestant], m.PerSecond)
	}
	var results []result
	for _, of := range []struct{ name, who string }{
		{"vs_limit", theCurfew}, {"favour_drain.vs_limit", theDrainer}, {"limit_as_curfew.vs_limit", theEqual}, {theLimit, theLimit},
	} {
		if len(rates[of.who]) > 0 && len(rates[theLimit]) > 0 {
			results = append(results, compare(labelName("drain", sizeName(objects), of.name), "deletes/s", rates[of.who], labelField[0].about, rates[theLimit]))
		}
	}
	return results
}
