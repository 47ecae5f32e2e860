package main

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"
)

func runLabelDrain(ctx context.Context, e *environment) ([]result, error) {
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	if err := e.grantLabels(ctx, client); err != nil {
		return nil, err
	}
	field := []contestant{bareLoop, {name: theCurfew, about: "Curfew", start: startLabels}}
	all, err := (&contest{env: e, name: "label_drain", cargo: labelled{client}, field: field}).runAll(ctx)
	return summarizeRate("label.drain", all, e.objects), err
}

// summarizeRate compares Curfew's rate with the bare loop's.
func summarizeRate(name string, all []measurement, objects int) []result {
	return against(name+"."+sizeName(objects)+".vs_limit", "deletes/s", series(all, perSecond), theCurfew, bareLoop)
}
