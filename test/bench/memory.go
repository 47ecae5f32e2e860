package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// memoryRun is what one process needs. It is written to .bench/runs-memory.json.
type memoryRun struct {
	Contestant string `json:"contestant"`
	Jobs       int    `json:"jobs"`
	// Heap is in use after forced collections, Resident is in memory before them; both in bytes.
	Heap     int64 `json:"heap"`
	Resident int64 `json:"resident"`
	// Seconds it took to know all Jobs, CPUSeconds of processor time until then.
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
}

// memoryPatience is how long a process may take to know all Jobs.
const memoryPatience = 10 * time.Minute

// runMemory measures Curfew and, beside it, the in-tree controller: without Jobs, and with Jobs of a
// recorded watch that are not due.
func runMemory(ctx context.Context, e *environment) ([]result, error) {
	var all []memoryRun
	for _, jobs := range []int{0, e.objects} {
		replay, err := recordAndReplay(ctx, e, jobs)
		if err != nil {
			return nil, err
		}
		defer replay.proxy.Close()
		for _, measure := range []func(context.Context, *replayOf) (memoryRun, error){curfewMemory, inTreeMemory} {
			run, err := measure(ctx, &replayOf{e, replay})
			if err != nil {
				return nil, fmt.Errorf("%d Jobs: %w", jobs, err)
			}
			run.Jobs = jobs
			fmt.Fprintf(e.out, "  %7d Jobs  %-20s heap %7.1f MB   resident %7.1f MB   known after %.1f s, CPU %.1f s\n",
				jobs, run.Contestant, float64(run.Heap)/1e6, float64(run.Resident)/1e6, run.Seconds, run.CPUSeconds)
			all = append(all, run)
			if err := e.writeRuns("memory", all); err != nil {
				return nil, err
			}
		}
	}
	return memoryResults(all), nil
}

// replayOf is a replay in its environment.
type replayOf struct {
	env *environment
	*replay
}

func curfewMemory(ctx context.Context, r *replayOf) (memoryRun, error) {
	run, began := memoryRun{Contestant: theCurfew}, time.Now()
	c, err := r.launchCurfew(ctx, "memory-curfew-"+sizeName(r.jobs))
	if err != nil {
		return run, err
	}
	defer c.stop()
	return run, run.look(ctx, r.env, c.process, began, http.DefaultClient, "http://"+c.debug)
}

// launchCurfew starts Curfew on the replayed Jobs and returns when it tracks them all.
func (r *replayOf) launchCurfew(ctx context.Context, name string) (*curfewProcess, error) {
	kubeconfig, err := r.env.kubeconfigOf(r.proxy, r.env.curfewConfig)
	if err != nil {
		return nil, err
	}
	c, err := r.env.launchCurfew(ctx, r.env.logPath(name), kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := c.awaitTracked(ctx, r.jobs, memoryPatience); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func inTreeMemory(ctx context.Context, r *replayOf) (memoryRun, error) {
	run, began := memoryRun{Contestant: theUnbound}, time.Now()
	own := ""
	for _, argument := range r.env.state.Components["kube-controller-manager"].Command {
		if path, ok := strings.CutPrefix(argument, "--kubeconfig="); ok {
			own = path
		}
	}
	kubeconfig, err := r.env.kubeconfigOf(r.proxy, own)
	if err != nil {
		return run, err
	}
	// Its metrics and heap are for those who may see them, so that it has to ask the API server.
	p, address, err := r.env.launchInTree(ctx, r.env.logPath("memory-intree-"+sizeName(r.jobs)), 100000, 100000, map[string]string{
		"--kubeconfig": kubeconfig, "--authentication-kubeconfig": own, "--authorization-kubeconfig": own, "--profiling": "true",
	})
	if err != nil {
		return run, err
	}
	defer p.stop()
	client, err := r.env.trusting()
	if err != nil {
		return run, err
	}
	// It has looked at every Job and waits for all of them once it has taken each up.
	err = p.poll(ctx, memoryPatience, 500*time.Millisecond, func(ctx context.Context) error {
		const queue = `{name="ttl_jobs_to_delete"}`
		samples, err := scrape(ctx, client, "https://"+address+"/metrics")
		depth, there := samples["workqueue_depth"+queue]
		if taken := int(samples["workqueue_adds_total"+queue]); err == nil && (!there || taken < r.jobs || depth > 0 || samples["workqueue_unfinished_work_seconds"+queue] > 0) {
			err = fmt.Errorf("the in-tree controller has taken up %d of %d Jobs", taken, r.jobs)
		}
		return err
	})
	if err != nil {
		return run, err
	}
	return run, run.look(ctx, r.env, p, began, client, "https://"+address)
}

// look measures a process that knows all Jobs.
func (run *memoryRun) look(ctx context.Context, e *environment, p *process, began time.Time, client *http.Client, debug string) error {
	used, _ := cpuTime(p.PID)
	run.Seconds, run.CPUSeconds = round(time.Since(began).Seconds()), round(used.Seconds())
	// The process may free temporary memory without a forced collection.
	err := pause(ctx, e.calm)
	if err == nil {
		run.Resident, err = p.resident()
	}
	if err == nil {
		run.Heap, err = heapInUse(ctx, client, debug)
	}
	return err
}

// memoryResults makes results of the runs. A Job costs the memory with Jobs minus the memory
// without, by their number.
func memoryResults(all []memoryRun) (results []result) {
	const baseline = "in-tree TTL controller"
	heap, resident := map[string][]float64{}, map[string][]float64{}
	for _, run := range all {
		heap[run.Contestant] = append(heap[run.Contestant], float64(run.Heap))
		resident[run.Contestant] = append(resident[run.Contestant], float64(run.Resident))
	}
	jobs := all[len(all)-1].Jobs
	each := func(values []float64) []float64 { return []float64{(values[1] - values[0]) / float64(jobs)} }
	none := func(values []float64) []float64 { return []float64{values[0] / 1e6} }
	return []result{
		compare("memory.jobs.bytes_per_object."+sizeName(jobs), "B", each(heap[theCurfew]), baseline, each(heap[theUnbound])),
		compare("memory.jobs.resident_per_object."+sizeName(jobs), "B", each(resident[theCurfew]), baseline, each(resident[theUnbound])),
		compare("memory.empty.heap", "MB", none(heap[theCurfew]), baseline, none(heap[theUnbound])),
		compare("memory.empty.resident", "MB", none(resident[theCurfew]), baseline, none(resident[theUnbound])),
	}
}
