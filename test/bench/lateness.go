package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
)

// latenessOptions are the flags of the lateness.
var latenessOptions struct{ perSecond, seconds, rounds int }

func init() {
	register(bench{
		name: "lateness", about: "Jobs that fall due second by second, and how late they go", position: 30,
		run: func(ctx context.Context, e *environment) ([]result, error) { return runLateness(ctx, e, managedJobs) },
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&latenessOptions.perSecond, "lateness-per-second", 100, "how many Jobs fall due in each second")
			fs.IntVar(&latenessOptions.seconds, "lateness-seconds", 30, "for how many seconds")
			fs.IntVar(&latenessOptions.rounds, "lateness-rounds", 3, "how many rounds")
		},
	})
}

// latenessRun is one round of one contestant, in milliseconds. It is written to
// .bench/runs-lateness.json.
type latenessRun struct {
	Round      int     `json:"round"`
	Contestant string  `json:"contestant"`
	P50        float64 `json:"p50"`
	P99        float64 `json:"p99"`
	Max        float64 `json:"max"`
	// OwnP50 and OwnP99 are read off the contestant's own histogram, if it has one.
	OwnP50 float64 `json:"ownP50,omitempty"`
	OwnP99 float64 `json:"ownP99,omitempty"`
	Others float64 `json:"others"`
}

func runLateness(ctx context.Context, e *environment, row latenessRow) ([]result, error) {
	if err := e.backlog(ctx, 0); err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	field, err := chooseContestants(e.contestants, row.field)
	if err != nil {
		return nil, err
	}
	l := &lateness{env: e, row: row, load: load{client: client, byDefault: row.byDefault}}
	undo, err := l.prepare(ctx)
	if err != nil {
		return nil, err
	}
	defer undo()
	var all []latenessRun
	for n := 1; n <= latenessOptions.rounds; n++ {
		fmt.Fprintf(e.out, "round %d of %d\n", n, latenessOptions.rounds)
		for i := range field {
			who := field[(i+n-1)%len(field)].name
			run, err := l.run(ctx, who, n)
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", n, who, err)
			}
			fmt.Fprintf(e.out, "  %-22s lateness p50 %.1f ms   p99 %.1f ms   most %.1f ms   by its own histogram p50 %.1f, p99 %.1f ms   others %.0f%%\n",
				who, run.P50, run.P99, run.Max, run.OwnP50, run.OwnP99, run.Others*100)
			all = append(all, run)
			if err := e.writeRuns(row.name, all); err != nil {
				return nil, err
			}
		}
	}
	return row.results(e.out, latenessResults(all)), nil
}

// latenessField lists the contestants. The bare loop shows the best that is possible: its time for
// as many calls.
var latenessField = []contestant{
	{name: theCurfew}, {name: theLimit}, {name: theUnbound},
}

// latenessParallel is how many calls at a time the bare loop sends: what serves it best where many
// are due.
const latenessParallel = 64

func latenessResults(all []latenessRun) []result {
	of := func(who string, value func(latenessRun) float64) (values []float64) {
		for _, run := range all {
			if run.Contestant == who {
				values = append(values, value(run))
			}
		}
		return values
	}
	p50, p99 := func(r latenessRun) float64 { return r.P50 }, func(r latenessRun) float64 { return r.P99 }
	own := func(r latenessRun) float64 { return r.OwnP99 }
	var results []result
	against := func(name string, values []float64, baseline string, baselineValues []float64) {
		if len(values) > 0 && len(values) == len(baselineValues) {
			results = append(results, compare(name, "ms", values, baseline, baselineValues))
		}
	}
	const inTree, bare = "in-tree TTL controller, unthrottled", "bare loop of parallel DELETE calls"
	against("lateness.p50_ms", of(theCurfew, p50), inTree, of(theUnbound, p50))
	against("lateness.p99_ms", of(theCurfew, p99), inTree, of(theUnbound, p99))
	against("lateness.p99_ms.vs_limit", of(theCurfew, p99), bare, of(theLimit, p99))
	against("lateness.own_p99_ms", of(theCurfew, own), "the observer's p99", of(theCurfew, p99))
	return results
}

// lateness is the bench's state.
type lateness struct {
	env       *environment
	row       latenessRow
	load      load
	sets      int
	finishing time.Duration // how long it took to finish the last set
}

// run lets one contestant delete what falls due second by second.
func (l *lateness) run(ctx context.Context, who string, n int) (run latenessRun, err error) {
	run = latenessRun{Round: n, Contestant: who}
	for margin := 1.5; ; margin *= 2 {
		err := l.try(ctx, who, &run, margin)
		if !errors.Is(err, errLate) || margin > 5 {
			return run, err
		}
		fmt.Fprintf(l.env.out, "  %v, once more with more time\n", err)
	}
}

func (l *lateness) try(ctx context.Context, who string, run *latenessRun, margin float64) (err error) {
	o := latenessOptions
	l.sets++
	set := jobSet{prefix: fmt.Sprintf("l%d", l.sets), count: o.perSecond * o.seconds}
	defer func() {
		if ctx.Err() == nil {
			err = errors.Join(err, l.load.clear(ctx, set))
		}
	}()
	began := time.Now()
	if err := l.load.create(ctx, set); err != nil {
		return fmt.Errorf("create the Jobs: %w", err)
	}
	preparation := time.Duration(margin * float64(max(time.Since(began), l.finishing)))
	start := time.Now().Add(preparation + quiet + startup).Truncate(time.Second)
	watching, err := observe(ctx, l.env.config, set)
	if err != nil {
		return err
	}
	defer watching.close()
	p, metrics, err := l.start(ctx, who, run.Round, set, start)
	if err != nil {
		return err
	}
	defer p.stop()
	began = time.Now()
	for second := range o.seconds {
		part := jobSet{prefix: set.prefix, first: second * o.perSecond, count: o.perSecond}
		if err := l.load.finish(ctx, part, start.Add(time.Duration(second)*time.Second)); err != nil {
			return fmt.Errorf("finish the Jobs: %w", err)
		}
	}
	l.finishing = time.Since(began)
	if time.Until(start) < quiet {
		return errLate
	}
	if run.Others, err = l.wait(ctx, who, p, watching, start); err != nil {
		return err
	}
	if err := run.count(watching.sightings(), set.prefix, start, o.perSecond); err != nil {
		return err
	}
	if metrics == "" {
		return nil
	}
	samples, err := scrape(ctx, http.DefaultClient, metrics)
	if err != nil {
		return err
	}
	const histogram = "curfew_deletion_lateness_seconds"
	run.OwnP50, run.OwnP99 = round(quantile(samples, histogram, 0.5)*1000), round(quantile(samples, histogram, 0.99)*1000)
	return nil
}

func (l *lateness) start(ctx context.Context, who string, n int, set jobSet, due time.Time) (p *process, metrics string, err error) {
	log := l.env.logPath(fmt.Sprintf("%s-%s-%d", l.row.name, who, n))
	switch who {
	case theUnbound:
		p, _, err = l.env.launchInTree(ctx, log, 100000, 100000, nil)
		return p, "", err
	case theLimit:
		p, err = startLoop(ctx, l.env, heat{set: set, due: due, parallel: latenessParallel, resource: resourceJobs, log: log, perSecond: latenessOptions.perSecond})
		return p, "", err
	}
	c, err := l.row.launch(ctx, l.env, log)
	if err != nil {
		return nil, "", err
	}
	return c.process, "http://" + c.metrics + "/metrics", nil
}

// wait returns when all Jobs are gone, and tells what share of the machine others took meanwhile.
func (l *lateness) wait(ctx context.Context, who string, p *process, o *observer, start time.Time) (float64, error) {
	if err := pause(ctx, time.Until(start)); err != nil {
		return 0, err
	}
	pids := []int{os.Getpid(), p.cmd.Process.Pid}
	for _, component := range l.env.state.Components {
		pids = append(pids, component.PID)
	}
	from, err := clock(pids)
	if err != nil {
		return 0, err
	}
	timer := time.NewTimer(time.Duration(latenessOptions.seconds)*time.Second + patience)
	defer timer.Stop()
	ended := p.ended
	for full := false; !full; {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-o.full:
			full = true
		case <-o.done:
			return 0, o.failure()
		case <-ended:
			if who != theLimit || p.err != nil {
				return 0, fmt.Errorf("it ended: %v", p.err)
			}
			ended = nil // the bare loop is through; its last events may be under way
		case <-timer.C:
			return 0, fmt.Errorf("%d of %d Jobs are deleted, %s after the last was due", len(o.times()), o.want, patience)
		}
	}
	to, err := clock(pids)
	if err != nil {
		return 0, err
	}
	return round(others(from, to)), nil
}

// count makes lateness of the instants at which Jobs were seen to go. Their numbers tell in which
// second they were due.
func (run *latenessRun) count(seen []sighting, prefix string, start time.Time, perSecond int) error {
	var late []float64
	for _, s := range seen {
		number, err := strconv.Atoi(strings.TrimPrefix(s.name, prefix+"-"))
		if err != nil {
			return fmt.Errorf("read the number of Job %s: %w", s.name, err)
		}
		due := start.Add(time.Duration(number/perSecond) * time.Second)
		if s.at.Before(due) {
			return fmt.Errorf("Job %s was deleted %s before it was due", s.name, due.Sub(s.at))
		}
		late = append(late, float64(s.at.Sub(due))/float64(time.Millisecond))
	}
	if len(late) == 0 {
		return errors.New("no Job was deleted: no lateness can be told")
	}
	run.P50, run.P99, run.Max = round(percentile(late, 0.5)), round(percentile(late, 0.99)), round(slices.Max(late))
	return nil
}

// quantile reads a quantile off a Prometheus histogram that has one series, as histogram_quantile
// does: linear within the bucket.
func quantile(samples map[string]float64, name string, q float64) float64 {
	type bucket struct{ le, count float64 }
	var buckets []bucket
	for series, count := range samples {
		if _, le, ok := strings.Cut(series, `le="`); ok && strings.HasPrefix(series, name+"_bucket{") {
			if v, err := strconv.ParseFloat(strings.TrimSuffix(le, `"}`), 64); err == nil {
				buckets = append(buckets, bucket{v, count})
			}
		}
	}
	slices.SortFunc(buckets, func(a, b bucket) int { return cmp.Compare(a.le, b.le) })
	if len(buckets) == 0 || buckets[len(buckets)-1].count == 0 {
		return 0
	}
	rank := q * buckets[len(buckets)-1].count
	low, below := 0.0, 0.0
	for _, b := range buckets {
		if b.count >= rank {
			if math.IsInf(b.le, 1) {
				return low
			}
			return low + (b.le-low)*(rank-below)/(b.count-below)
		}
		low, below = b.le, b.count
	}
	return low
}
