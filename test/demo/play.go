package main

import (
	"context"
	"path/filepath"
)

// play tells what can be tried, and waits for Ctrl-C.
func play(ctx context.Context, stage *stage) error {
	stage.heading("Curfew is up. In another terminal:")
	stage.line("")
	kubectl := filepath.Dir(stage.cluster.KubectlPath())
	for _, line := range []string{
		"export KUBECONFIG=" + stage.cluster.Kubeconfig,
		"export PATH=" + kubectl + ":" + filepath.Join(stage.root, "bin") + ":$PATH   # for kubectl, and kubectl curfew",
		"",
		"kubectl create namespace play", // not one of those that the samples make
		"kubectl annotate namespace play curfew.dev/default-ttl=30s",
		"kubectl -n play create job build --image=busybox:1.37     # gets a TTL of 30s, and says so",
		"kubectl -n play get jobs,pods --watch                     # runs, finishes, goes 30s later",
		"kubectl -n play run task --image=busybox:1.37 --restart=Never --annotations=curfew.dev/ttl-after-finished=20s",
		"kubectl -n play annotate pod task curfew.dev/protect=true # stays after all",
		"kubectl curfew status                                     # is everything as it should be?",
		"kubectl curfew expiring -A                                # which objects are deleted, when, which setting decided, and what blocks it",
		"kubectl apply -f manifests/samples                        # more to look at; only what needs Trainer is refused, as that is not here",
		"",
		"curl http://" + stage.controller.Metrics + "/metrics | grep ^curfew_",
		"tail -f " + stage.cluster.Log("curfew-controller"),
	} {
		if line != "" {
			line = "  " + line
		}
		stage.line(line)
	}
	stage.line("")
	stage.note("Pods do not run containers here: a node that is played lets them succeed at once (test/cluster/README.md tells how to steer them)")
	stage.note("Ctrl-C ends it and takes everything down")
	<-ctx.Done()
	stage.line("")
	stage.note("taking everything down")
	return nil
}
