package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// memoryOptions are the flags of the memory.
var memoryOptions struct {
	jobs, many, replayed int
	// calm is the time between the last Job and the first look. It lets the process free temporary
	// memory without a forced collection.
	calm time.Duration
}

// The smaller number is measured before the restart and the larger one after it, so that the Jobs
// that are there only grow more.
func init() {
	register(bench{
		name: "memory", about: "memory with no Jobs, and with finished Jobs that are not due", position: 50,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&memoryOptions.jobs, "memory-jobs", 20000, "number of real finished Jobs with which memory is measured")
			fs.DurationVar(&memoryOptions.calm, "memory-calm", 20*time.Second, "the time between the last Job and the look at resident memory")
		},
		run: func(ctx context.Context, e *environment) ([]result, error) {
			return (&memory{env: e, name: "memory"}).run(ctx, memoryOptions.jobs, 0)
		},
	})
	register(bench{
		name: "memory_many", about: "memory with many of them", position: 70,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&memoryOptions.many, "memory_many-jobs", 200000, "number of real finished Jobs with which memory is measured; 0: none")
			fs.IntVar(&memoryOptions.replayed, "memory_many-replayed", 1_000_000, "number of Jobs of a recorded watch with which memory is measured; 0: none")
		},
		run: func(ctx context.Context, e *environment) ([]result, error) {
			return (&memory{env: e, name: "memory_many"}).run(ctx, memoryOptions.many, memoryOptions.replayed)
		},
	})
}

// memoryRun is what one process needs. It is written to .bench/runs-memory.json and
// .bench/runs-memory_many.json.
type memoryRun struct {
	Contestant string `json:"contestant"`
	Jobs       int    `json:"jobs"`
	Replayed   bool   `json:"replayed"`
	// Heap is in use after a forced collection, Resident is in memory before it; both in bytes.
	Heap     int64 `json:"heap"`
	Resident int64 `json:"resident"`
	// ResidentLater is after the collection.
	ResidentLater int64 `json:"residentLater"`
	// Seconds it took to know all Jobs, CPUSeconds of processor time until then.
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
}

// memoryPatience is how long a process may take to know all Jobs.
const memoryPatience = 10 * time.Minute

// memory is the bench's state.
type memory struct {
	env    *environment
	name   string  // of the bench
	replay *replay // nil: the Jobs are real
	all    []memoryRun
}

// run measures with none, with real and with replayed Jobs.
func (m *memory) run(ctx context.Context, real, replayed int) ([]result, error) {
	if err := m.replaying(ctx, 0); err != nil {
		return nil, err
	}
	if real > 0 {
		if err := m.env.backlog(ctx, real); err != nil {
			return nil, err
		}
		if err := m.both(ctx, real); err != nil {
			return nil, err
		}
	}
	if replayed > 0 {
		if err := m.replaying(ctx, replayed); err != nil {
			return nil, err
		}
	}
	return memoryResults(m.all, m.name == "memory"), nil
}

// replaying measures with replayed Jobs. With none of them it tells what a process needs for
// itself, however many real ones are there.
func (m *memory) replaying(ctx context.Context, jobs int) (err error) {
	if m.replay, err = recordAndReplay(ctx, m.env, jobs); err != nil {
		return err
	}
	defer func() {
		m.replay.close()
		m.replay = nil
	}()
	return m.both(ctx, jobs)
}

// both measures Curfew and, beside it, the in-tree controller.
func (m *memory) both(ctx context.Context, jobs int) error {
	for _, measure := range []func(context.Context, int) (memoryRun, error){m.curfew, m.inTree} {
		run, err := measure(ctx, jobs)
		if err != nil {
			return fmt.Errorf("%d Jobs: %w", jobs, err)
		}
		run.Jobs, run.Replayed = jobs, m.replay != nil
		fmt.Fprintf(m.env.out, "  %7d Jobs  %-20s heap %7.1f MB   resident %7.1f MB (%.1f after a collection)   known after %.1f s, CPU %.1f s\n",
			jobs, run.Contestant, float64(run.Heap)/1e6, float64(run.Resident)/1e6, float64(run.ResidentLater)/1e6, run.Seconds, run.CPUSeconds)
		m.all = append(m.all, run)
		if err := m.env.writeRuns(m.name, m.all); err != nil {
			return err
		}
	}
	return nil
}

// called is how a number of Jobs stands in the name of a log.
func (m *memory) called(jobs int) string {
	if m.replay != nil {
		return sizeName(jobs) + "-replayed"
	}
	return sizeName(jobs)
}

// towards is the kubeconfig that leads to the Jobs.
func (m *memory) towards(kubeconfig string) (string, error) {
	if m.replay == nil {
		return kubeconfig, nil
	}
	return m.replay.kubeconfig(m.env, kubeconfig)
}

func (m *memory) curfew(ctx context.Context, jobs int) (memoryRun, error) {
	run := memoryRun{Contestant: theCurfew}
	kubeconfig, err := m.towards(m.env.curfewConfig)
	if err != nil {
		return run, err
	}
	began := time.Now()
	c, err := m.env.launchCurfew(ctx, m.env.logPath(fmt.Sprintf("memory-curfew-%s", m.called(jobs))), kubeconfig)
	if err != nil {
		return run, err
	}
	defer c.stop()
	if err := c.awaitTracked(ctx, jobs, memoryPatience); err != nil {
		return run, err
	}
	return run, run.look(ctx, c.process, began, http.DefaultClient, "http://"+c.debug)
}

func (m *memory) inTree(ctx context.Context, jobs int) (memoryRun, error) {
	run := memoryRun{Contestant: theUnbound}
	own := kubeconfigOf(m.env.state.Components["kube-controller-manager"].Command)
	kubeconfig, err := m.towards(own)
	if err != nil {
		return run, err
	}
	began := time.Now()
	// Its metrics and heap are for those who may see them, so that it has to ask the API server.
	p, address, err := m.env.launchInTree(ctx, m.env.logPath(fmt.Sprintf("memory-intree-%s", m.called(jobs))), 100000, 100000, map[string]string{
		"--kubeconfig": kubeconfig, "--authentication-kubeconfig": own, "--authorization-kubeconfig": own, "--profiling": "true",
	})
	if err != nil {
		return run, err
	}
	defer p.stop()
	client, err := m.env.trusting()
	if err != nil {
		return run, err
	}
	if err := awaitInTree(ctx, p, client, "https://"+address, jobs); err != nil {
		return run, err
	}
	return run, run.look(ctx, p, began, client, "https://"+address)
}

// kubeconfigOf finds the flag in a command line.
func kubeconfigOf(command []string) string {
	for _, argument := range command {
		if path, ok := strings.CutPrefix(argument, "--kubeconfig="); ok {
			return path
		}
	}
	return ""
}

// awaitInTree returns when the in-tree controller has looked at every Job and waits for all of
// them: it takes each up once.
func awaitInTree(ctx context.Context, p *process, client *http.Client, url string, jobs int) error {
	ctx, cancel := context.WithTimeout(ctx, memoryPatience)
	defer cancel()
	const queue = `{name="ttl_jobs_to_delete"}`
	for {
		samples, err := scrape(ctx, client, url+"/metrics")
		if _, there := samples["workqueue_depth"+queue]; err == nil && there &&
			int(samples["workqueue_adds_total"+queue]) >= jobs && samples["workqueue_depth"+queue] == 0 && samples["workqueue_unfinished_work_seconds"+queue] == 0 {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("the in-tree controller ended: %w", p.err)
		default:
		}
		if pause(ctx, 500*time.Millisecond) != nil {
			return fmt.Errorf("the in-tree controller has taken up %.0f of %d Jobs after %s (%v)", samples["workqueue_adds_total"+queue], jobs, memoryPatience, err)
		}
	}
}

// look measures a process that knows all Jobs.
func (run *memoryRun) look(ctx context.Context, p *process, began time.Time, client *http.Client, debug string) error {
	used, err := clock([]int{p.cmd.Process.Pid})
	if err != nil {
		return err
	}
	run.Seconds, run.CPUSeconds = round(time.Since(began).Seconds()), round((time.Duration(used.ours) * tick).Seconds())
	if err := pause(ctx, memoryOptions.calm); err != nil {
		return err
	}
	if run.Resident, err = p.resident(); err != nil {
		return err
	}
	if run.Heap, err = heapInUse(ctx, client, debug); err != nil {
		return err
	}
	run.ResidentLater, err = p.resident()
	return err
}

// memoryResults makes results of the runs. A Job costs the memory with Jobs minus the memory
// without, by their number. The memory without Jobs is a result of its own, if it is wanted.
func memoryResults(all []memoryRun, empty bool) []result {
	type key struct {
		who  string
		jobs int
	}
	runs := map[key]memoryRun{}
	sizes := []int{}
	for _, run := range all {
		runs[key{run.Contestant, run.Jobs}] = run
		if run.Contestant == theCurfew && run.Jobs > 0 {
			sizes = append(sizes, run.Jobs)
		}
	}
	const baseline = "in-tree TTL controller"
	var results []result
	for _, jobs := range sizes {
		each := func(of func(memoryRun) int64, who string) []float64 {
			return []float64{float64(of(runs[key{who, jobs}])-of(runs[key{who, 0}])) / float64(jobs)}
		}
		for _, what := range []struct {
			name string
			of   func(memoryRun) int64
		}{
			{"bytes_per_object", func(r memoryRun) int64 { return r.Heap }},
			{"resident_per_object", func(r memoryRun) int64 { return r.Resident }},
		} {
			results = append(results, compare("memory.jobs."+what.name+"."+sizeName(jobs), "B", each(what.of, theCurfew), baseline, each(what.of, theUnbound)))
		}
	}
	if !empty {
		return results
	}
	none := func(who string, of func(memoryRun) int64) []float64 {
		return []float64{float64(of(runs[key{who, 0}])) / 1e6}
	}
	heap, resident := func(r memoryRun) int64 { return r.Heap }, func(r memoryRun) int64 { return r.Resident }
	return append(results,
		compare("memory.empty.heap", "MB", none(theCurfew, heap), baseline, none(theUnbound, heap)),
		compare("memory.empty.resident", "MB", none(theCurfew, resident), baseline, none(theUnbound, resident)))
}
