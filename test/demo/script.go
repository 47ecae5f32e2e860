package main

import (
	"context"
	"fmt"
	"time"
)

// tour is the script: headings and notes, typed commands, and what kubectl prints.
func tour(ctx context.Context, stage *stage, manifests string) error {
	began := time.Now()
	t := &player{stage: stage, ctx: ctx, dir: manifests}

	t.heading("A namespace says how long what finishes in it may stay")
	t.kubectl("create namespace ci").prints("namespace/ci created")
	t.kubectl("annotate namespace ci curfew.dev/default-ttl=1d").prints("namespace/ci annotated")
	t.kubectl("annotate namespace ci --overwrite curfew.dev/default-ttl=soon").
		fails(`denied the request: metadata.annotations[curfew.dev/default-ttl]: "soon" is not a duration`)
	t.observe("ci")

	t.heading("A cleanup policy deletes on a schedule; a preview shows what, before it is applied")
	t.kubectl("-n ci create job preview-1 --image busybox").prints("job.batch/preview-1 created")
	t.kubectl("-n ci create job nightly --image busybox").prints("job.batch/nightly created")
	t.show("cleanup.yaml")
	t.kubectl("curfew preview -f cleanup.yaml").prints("would delete 1 of", "Next runs").lacks("nightly")
	t.kubectl("create -f cleanup.yaml").prints("clustercleanuppolicy.curfew.dev/preview-jobs created")
	t.note("so that you need not wait for the night, it runs at the next whole minute")
	soon := time.Now().Add(5 * time.Second).Truncate(time.Minute).Add(time.Minute)
	patch := fmt.Sprintf(`{"spec":{"schedule":"%d * * * *"}}`, soon.Minute())
	t.run("patch", "clustercleanuppolicy", "preview-jobs", "--type=merge", "-p", patch).prints("preview-jobs patched")

	t.heading("A Job without a TTL gets one, and its author gets a warning")
	t.kubectl("-n ci create job build --image=busybox:1.37").
		prints(`Warning: curfew: ttlSecondsAfterFinished defaulted to 86400 (1d) from namespace "ci"`, "job.batch/build created")
	t.kubectl("-n ci get job build -o jsonpath={.spec.ttlSecondsAfterFinished}").prints("86400")

	t.heading("A TTL that leaves no time to look is warned about")
	t.show("quick.yaml")
	t.kubectl("-n ci create -f quick.yaml").prints("Warning: curfew: spec.ttlSecondsAfterFinished: 5 (5s) is under 60s", "job.batch/quick created")

	t.heading("A TTL in a pod template is refused: it would take single Pods out from under their Job")
	t.show("misplaced.yaml")
	t.kubectl("-n ci create -f misplaced.yaml").
		fails("spec.template.metadata.annotations[curfew.dev/ttl-after-finished]: a pod template cannot have a TTL: set spec.ttlSecondsAfterFinished")

	t.heading("A Pod that never finishes cannot have a TTL after finished; one that does can")
	t.kubectl("-n ci run server --image=nginx --annotations=curfew.dev/ttl-after-finished=1h").
		fails("spec.restartPolicy: a Pod with a TTL cannot have Always")
	t.kubectl("-n ci run task --image=busybox:1.37 --restart=Never --annotations=curfew.dev/ttl-after-finished=5s").
		prints("pod/task created")

	t.heading("Job and Pod run, finish, and are deleted at their second")
	t.note("Kubernetes' own controller reads a Job's ttlSecondsAfterFinished, too: the first of the two deletes the Job. It knows no Pods")
	t.vanish("Job/quick", "Pod/task")
	t.kubectl("-n ci get jobs,pods").prints("job.batch/build").lacks("quick", "task")

	t.heading("Curfew works beside Kubernetes' own TTL controller, as on every cluster; due objects, and which setting decided")
	t.kubectl("curfew status").
		prints("leads, and renewed its Lease", "the API server calls it", "on, by its ServiceAccount: it deletes Jobs by spec.ttlSecondsAfterFinished, too").
		lacks("failed", "unknown")
	t.kubectl("curfew expiring -n ci --within 2d").prints("job.batch/build", "namespace/ci")

	t.heading("A TTL that is raised in time keeps the Job")
	t.kubectl("-n ci create -f report.yaml").prints("job.batch/report created")
	t.kubectl("-n ci wait --for=condition=complete job/report").prints("job.batch/report condition met")
	t.kubectl(`-n ci patch job report --type=merge -p {"spec":{"ttlSecondsAfterFinished":3600}}`).prints("job.batch/report patched")
	t.note("this Pod finishes later and has the TTL that the Job had: when it is gone, the Job's old second is over")
	t.kubectl("-n ci run later --image=busybox:1.37 --restart=Never --annotations=curfew.dev/ttl-after-finished=5s").
		prints("pod/later created")
	t.vanish("Pod/later")
	t.kubectl("-n ci get job report").prints("report   Complete")

	t.heading("Meanwhile the cleanup policy has run, and reports what it deleted")
	t.kubectl("wait --for=jsonpath={.status.lastRun.phase}=Completed clustercleanuppolicy/preview-jobs --timeout=10m").prints("condition met")
	t.kubectl("curfew report preview-jobs -o wide").prints("preview-1", "Deleted").lacks("nightly")
	t.kubectl("-n ci get jobs").prints("nightly").lacks("preview-1")

	if t.err != nil {
		return t.err
	}
	t.line("")
	t.good("all of it as described, in " + time.Since(began).Round(time.Second).String() + "; taking everything down")
	return nil
}
