package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"k8s.io/client-go/dynamic"
)

// deadlineOptions are the flags of the contest about deadlines.
var deadlineOptions struct{ objects, rounds int }

// The deadline contest lets many deadlines pass in the same second and counts the objects marked as
// failed: one status write each. Nothing runs below the objects, so that there is nothing to stop.
func init() {
	register(bench{
		name: "deadline", about: "deadlines that pass in the same second: the mark alone", position: 40,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&deadlineOptions.objects, "deadline-objects", 10000, "how many deadlines pass at once")
			fs.IntVar(&deadlineOptions.rounds, "deadline-rounds", 5, "how many rounds")
		},
		run: runDeadline,
	})
}

// markers are who writes the mark.
var markers = []contestant{
	{name: theLimit, about: "bare loop of parallel status patches", ends: true, start: startMarkLoop},
	{name: theCurfew, about: "Curfew", start: startCurfew()},
	{name: theEqual, about: "the same loop with Curfew's rights", ends: true, start: startEqualMarkLoop},
	{name: theDrainer, about: "Curfew --favour-drain", start: startCurfew("--favour-drain")},
}

// markRun is what one heat came to. It is written to .bench/runs-deadline.json.
type markRun struct {
	Round      int    `json:"round"`
	Contestant string `json:"contestant"`
	// Marked is how many objects were seen marked, in Seconds from the first to the last.
	Marked  int     `json:"marked"`
	Seconds float64 `json:"seconds"`
	// PerSecond is the rate of accepted status writes.
	PerSecond float64 `json:"perSecond"`
	// FirstAfter is the time from the due second to the first mark, in seconds.
	FirstAfter float64 `json:"firstAfter"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// CPUPerMark is the processor time in milliseconds that each took a mark, from the due second to
	// the last mark: the contestant, and the control plane's parts by name.
	CPUPerMark map[string]float64 `json:"cpuPerMark"`
	// Others is the share of the machine, 0 to 1, that processes which do not belong to the contest
	// took meanwhile.
	Others float64 `json:"others"`
}

// markContest is its state.
type markContest struct {
	env       *environment
	client    dynamic.Interface
	objects   int
	parallel  int
	heats     int
	preparing time.Duration // how long it took to start the objects of the last set
}

func runDeadline(ctx context.Context, e *environment) ([]result, error) {
	o := deadlineOptions
	if o.objects < 2 || o.rounds < 1 {
		return nil, fmt.Errorf("-deadline-objects %d in -deadline-rounds %d: give at least 2 objects, as a rate needs two events, and 1 round", o.objects, o.rounds)
	}
	field, err := chooseContestants(e.contestants, markers)
	if err != nil {
		return nil, err
	}
	d := &markContest{env: e, objects: o.objects, parallel: e.calls}
	if err := d.install(ctx); err != nil {
		return nil, err
	}
	if d.parallel == 0 {
		if err := d.probe(ctx); err != nil {
			return nil, err
		}
	}
	var all []markRun
	for n := 1; n <= o.rounds; n++ {
		fmt.Fprintf(e.out, "round %d of %d\n", n, o.rounds)
		for i := range field {
			// Each round begins with another contestant, so that none always follows the same one.
			c := field[(i+n-1)%len(field)]
			m, err := d.run(ctx, c, n)
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", n, c.name, err)
			}
			fmt.Fprintf(e.out, "  %-22s%9.1f marks/s   first after %.3f s   CPU %.1f s, a mark %.2f ms, of the API server %.2f ms   others %.0f%%\n",
				c.name, m.PerSecond, m.FirstAfter, m.CPUSeconds, m.CPUPerMark[theContestant], m.CPUPerMark["kube-apiserver"], m.Others*100)
			all = append(all, m)
			if err := e.writeRuns("deadline", all); err != nil {
				return nil, err
			}
		}
	}
	var disturbances []measurement
	for _, m := range all {
		disturbances = append(disturbances, measurement{Others: m.Others})
	}
	warnOfOthers(e.out, disturbances)
	return markResults(all, o.objects), nil
}

// install makes the kind known: its definition, the permission and the profile, beside Curfew's own
// kinds.
func (d *markContest) install(ctx context.Context) (err error) {
	if d.client, err = dynamic.NewForConfig(connectJSON(d.env.config)); err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	kubectl := func(args ...string) error {
		return d.env.command(ctx, d.env.state.Kubectl, append([]string{"--kubeconfig", d.env.state.Kubeconfig}, args...)...)
	}
	path := filepath.Join(d.env.dir, "runs.yaml")
	if err := os.WriteFile(path, []byte(runKind), 0o644); err != nil {
		return fmt.Errorf("write the manifests of the kind: %w", err)
	}
	for _, step := range [][]string{
		{"apply", "-f", path},
		{"wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"},
	} {
		if err := kubectl(step...); err != nil {
			return err
		}
	}
	return d.namespace(ctx)
}

// probe finds the number of parallel calls that serves the bare loop best on this machine.
func (d *markContest) probe(ctx context.Context) error {
	rates := map[int][]float64{}
	candidates := []int{8, 16, 32, 64, 128}
	for range probePasses {
		for _, parallel := range candidates {
			set := d.nextSet(min(probeJobs, d.objects))
			if err := d.create(ctx, set); err != nil {
				return fmt.Errorf("create objects for the probe: %w", err)
			}
			rate, err := d.bareRate(ctx, heat{set: set, parallel: parallel, due: time.Now(), log: d.env.logPath("probe-deadline")})
			if err = errors.Join(err, d.clear(ctx, set)); err != nil {
				return fmt.Errorf("probe the bare loop: %w", err)
			}
			rates[parallel] = append(rates[parallel], rate)
		}
	}
	fmt.Fprint(d.env.out, "bare loop, marks/s by parallel calls:")
	best := 0.0
	for _, parallel := range candidates {
		rate := median(rates[parallel])
		fmt.Fprintf(d.env.out, "  %d: %.0f", parallel, rate)
		if rate > best {
			best, d.parallel = rate, parallel
		}
	}
	fmt.Fprintf(d.env.out, "  -> %d\n", d.parallel)
	return nil
}

func (d *markContest) nextSet(count int) jobSet {
	d.heats++
	return jobSet{prefix: fmt.Sprintf("d%d", d.heats), count: count}
}

func (d *markContest) bareRate(ctx context.Context, h heat) (float64, error) {
	return bareRate(ctx, d.env, h, startMarkLoopTo)
}

func startMarkLoop(ctx context.Context, e *environment, h heat) (*process, error) {
	return startMarkLoopTo(ctx, e, h, e.state.Kubeconfig, nil)
}

func startEqualMarkLoop(ctx context.Context, e *environment, h heat) (*process, error) {
	return startMarkLoopTo(ctx, e, h, e.curfewConfig, nil)
}

func startMarkLoopTo(ctx context.Context, e *environment, h heat, kubeconfig string, out io.Writer) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return launch(ctx, h.log, out, self, markLoopCommand, "--kubeconfig", kubeconfig, "--prefix", h.set.prefix,
		"--objects", strconv.Itoa(h.set.count), "--parallel", strconv.Itoa(h.parallel), "--at", strconv.FormatInt(h.due.Unix(), 10))
}

// run lets one contestant mark one set of objects. Its process and its caches are up before the
// first of them starts.
func (d *markContest) run(ctx context.Context, c contestant, n int) (markRun, error) {
	m := markRun{Round: n, Contestant: c.name}
	for margin := 1.5; ; margin *= 2 {
		err := d.heat(ctx, c, &m, margin)
		if !errors.Is(err, errLate) || margin > 5 {
			return m, err
		}
		fmt.Fprintf(d.env.out, "  %v, once more with more time\n", err)
	}
}

func (d *markContest) heat(ctx context.Context, c contestant, m *markRun, margin float64) (err error) {
	set := d.nextSet(d.objects)
	defer func() {
		if ctx.Err() == nil {
			err = errors.Join(err, d.clear(ctx, set))
		}
	}()
	began := time.Now()
	if err := d.create(ctx, set); err != nil {
		return fmt.Errorf("create the objects: %w", err)
	}
	preparation := time.Duration(margin * float64(max(time.Since(began), d.preparing)))
	due := time.Now().Add(preparation + quiet + startup).Truncate(time.Second)
	watching, err := d.observe(ctx, set)
	if err != nil {
		return err
	}
	defer watching.close()
	p, err := c.start(ctx, d.env, heat{set: set, due: due, parallel: d.parallel, log: d.env.logPath(fmt.Sprintf("deadline-%s-%d", c.name, m.Round))})
	if err != nil {
		return err
	}
	defer func() { m.CPUSeconds = round(p.stop().Seconds()) }()
	began = time.Now()
	if err := d.begin(ctx, set, due); err != nil {
		return fmt.Errorf("start the objects: %w", err)
	}
	d.preparing = time.Since(began)
	if time.Until(due) < quiet {
		return errLate
	}
	if err := d.measure(ctx, c, p, watching, due, m); err != nil {
		return err
	}
	times := watching.instants()
	slices.SortFunc(times, time.Time.Compare)
	return m.count(times, due)
}

// count makes a rate of the instants, which are sorted, at which marks were seen.
func (m *markRun) count(times []time.Time, due time.Time) error {
	of := measurement{}
	if err := of.count(times, due, 0, len(times)); err != nil {
		return err
	}
	m.Marked, m.Seconds, m.PerSecond, m.FirstAfter = of.Deleted, of.Seconds, of.PerSecond, of.FirstAfter
	return nil
}

// theContestant is the name of the contestant's own processor time.
const theContestant = "contestant"

// measure waits for the due second and until all is marked, and notes what that took, and what
// share of the machine others took.
func (d *markContest) measure(ctx context.Context, c contestant, p *process, o *markObserver, due time.Time, m *markRun) error {
	if err := pause(ctx, time.Until(due)); err != nil {
		return err
	}
	named := map[string]int{theContestant: p.cmd.Process.Pid}
	for name, component := range d.env.state.Components {
		named[name] = component.PID
	}
	pids := append(slices.Collect(maps.Values(named)), os.Getpid())
	from, err := clock(pids)
	if err != nil {
		return err
	}
	began, err := clocks(named)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := o.await(ctx); err != nil {
		return fmt.Errorf("%s: %w; its log is in %s", c.name, err, d.env.dir)
	}
	to, err := clock(pids)
	if err != nil {
		return err
	}
	ended, err := clocks(named)
	if err != nil {
		return err
	}
	if c.ends {
		// A process that ends by itself: then the kernel's count is gone, and its last word has it.
		<-p.ended
		if to, err = clock(pids); err != nil {
			return err
		}
		used := p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
		to.ours += int64(used / tick)
		ended[theContestant] = used
	}
	m.Others, m.CPUPerMark = round(others(from, to)), map[string]float64{}
	for name := range named {
		m.CPUPerMark[name] = round(float64((ended[name] - began[name]).Microseconds()) / 1000 / float64(d.objects))
	}
	return nil
}

// clocks is the processor time that each of some processes has used.
func clocks(of map[string]int) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	for name, pid := range of {
		used, err := clock([]int{pid})
		if err != nil {
			return nil, err
		}
		out[name] = time.Duration(used.ours) * tick
	}
	return out, nil
}

// markResults makes results of the runs.
func markResults(all []markRun, objects int) []result {
	rates, about := map[string][]float64{}, map[string]string{}
	for _, m := range all {
		rates[m.Contestant] = append(rates[m.Contestant], m.PerSecond)
	}
	for _, c := range markers {
		about[c.name] = c.about
	}
	prefix := "deadline.mark." + sizeName(objects) + "."
	var results []result
	for _, v := range []struct{ infix, who string }{{"", theCurfew}, {"favour_drain.", theDrainer}} {
		for _, limit := range []struct{ name, who string }{{"vs_limit", theLimit}, {"vs_limit_as_curfew", theEqual}} {
			if len(rates[v.who]) > 0 && len(rates[v.who]) == len(rates[limit.who]) {
				results = append(results, compare(prefix+v.infix+limit.name, "marks/s", rates[v.who], about[limit.who], rates[limit.who]))
			}
		}
	}
	return results
}
