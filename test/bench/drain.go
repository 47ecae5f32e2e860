package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
)

// manyOptions are the flags of the drain of many.
var manyOptions struct{ jobs, rounds int }

// The drain lets all contestants delete the same number of Jobs that fall due at once.
func init() {
	register(bench{
		name: "drain", about: "finished Jobs that fall due in the same second", position: 10,
		run: func(ctx context.Context, e *environment) ([]result, error) {
			return runDrain(ctx, e, &contest{env: e, name: "drain", jobs: e.jobs, rounds: e.rounds}, contestants)
		},
	})
	register(bench{
		name: "drain_many", about: "many of them", position: 20,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&manyOptions.jobs, "drain_many-jobs", 50000, "how many finished Jobs fall due at once")
			fs.IntVar(&manyOptions.rounds, "drain_many-rounds", 1, "how many rounds")
		},
		run: func(ctx context.Context, e *environment) ([]result, error) {
			return runDrain(ctx, e, &contest{env: e, name: "drain_many", jobs: manyOptions.jobs, rounds: manyOptions.rounds}, contestantsOfMany())
		},
	})
}

// sliceOfMany is how much is measured of who would take many minutes for all.
const sliceOfMany = time.Minute

// contestantsOfMany are those with whom Curfew is compared. Foreground is told by the smaller
// number as well.
func contestantsOfMany() []contestant {
	var field []contestant
	for _, c := range contestants {
		switch c.name {
		case theForeground, theEqual:
			continue
		case theUnbound:
			c.window = sliceOfMany
		}
		field = append(field, c)
	}
	return field
}

// contest is the drain's state.
type contest struct {
	env       *environment
	name      string // of the bench
	jobs      int
	rounds    int
	load      cargo
	bystander kubernetes.Interface
	heats     int
	finishing time.Duration // how long it took to finish the last set
}

// resource is what the bare loop deletes.
func (d *contest) resource() string {
	switch d.load.(type) {
	case labelled, *cleaned, *referenced:
		return resourceConfigMaps
	default:
		return resourceJobs
	}
}

func runDrain(ctx context.Context, e *environment, d *contest, field []contestant) ([]result, error) {
	all, field, err := d.drain(ctx, e, field)
	if err != nil {
		return nil, err
	}
	return summarize(all, field, d.jobs), nil
}

// drain lets the field delete by turns. Without a load it is Jobs.
func (d *contest) drain(ctx context.Context, e *environment, field []contestant) ([]measurement, []contestant, error) {
	if d.jobs < 2 || d.rounds < 1 {
		return nil, nil, fmt.Errorf("%d Jobs in %d rounds: give at least 2 Jobs, as a rate needs two events, and 1 round", d.jobs, d.rounds)
	}
	field, err := chooseContestants(e.contestants, field)
	if err != nil {
		return nil, nil, err
	}
	if field, err = able(ctx, e, field); err != nil {
		return nil, nil, err
	}
	client, err := kubernetes.NewForConfig(connect(e.config))
	if err != nil {
		return nil, nil, fmt.Errorf("make a client: %w", err)
	}
	if d.load == nil {
		d.load = load{client: client}
	}
	if err := d.load.namespace(ctx); err != nil {
		return nil, nil, err
	}
	if d.bystander, err = newBystander(ctx, e, client); err != nil {
		return nil, nil, err
	}
	if e.parallel == 0 {
		e.parallel = e.calls
	}
	if e.parallel == 0 && slices.ContainsFunc(field, func(c contestant) bool { return c.name == theLimit }) {
		if err := d.probe(ctx); err != nil {
			return nil, nil, err
		}
	}
	var all []measurement
	for n := 1; n <= d.rounds; n++ {
		fmt.Fprintf(e.out, "round %d of %d\n", n, d.rounds)
		for i := range field {
			// Each round begins with another contestant, so that none always follows the same one.
			c := field[(i+n-1)%len(field)]
			m, err := d.run(ctx, c, n)
			if err != nil {
				return nil, nil, fmt.Errorf("round %d, %s: %w", n, c.name, err)
			}
			fmt.Fprintf(e.out, "  %-22s%9.1f deletes/s   first after %.3f s   bystander p99 %.1f ms (idle %.1f)   others %.0f%%   µs a deletion: %s\n",
				c.name, m.PerSecond, m.FirstAfter, m.DrainP99, m.IdleP99, m.Others*100, showCPU(m.CPU))
			all = append(all, m)
			// Each time, so that a run that is cut short leaves what it has measured.
			if err := e.writeRuns(d.name, all); err != nil {
				return nil, nil, err
			}
		}
	}
	warnOfOthers(e.out, all)
	return all, field, nil
}

func chooseContestants(only string, all []contestant) ([]contestant, error) {
	if only == "" {
		return all, nil
	}
	var field []contestant
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(c contestant) bool { return c.name == name })
		if i < 0 {
			var names []string
			for _, c := range all {
				names = append(names, c.name)
			}
			return nil, fmt.Errorf("-contestants %q: there is no %q, take some of %s", only, name, strings.Join(names, ","))
		}
		field = append(field, all[i])
	}
	return field, nil
}

// disturbed is the share of the machine above which other processes distort a measurement.
const disturbed = 0.1

// warnOfOthers says so when the machine was busy with something else.
func warnOfOthers(out io.Writer, all []measurement) {
	n, most := 0, 0.0
	for _, m := range all {
		most = max(most, m.Others)
		if m.Others > disturbed {
			n++
		}
	}
	if n > 0 {
		fmt.Fprintf(out, "WARNING: other processes took more than %.0f%% of the machine in %d of %d measurements, up to %.0f%%: do not trust these numbers\n",
			disturbed*100, n, len(all), most*100)
	}
}

// able leaves out, and says so, who needs a flag that the binary under test does not have.
func able(ctx context.Context, e *environment, field []contestant) ([]contestant, error) {
	var out []contestant
	for _, c := range field {
		if c.needs != "" {
			ok, err := e.has(ctx, c.needs)
			if err != nil {
				return nil, err
			}
			if !ok {
				fmt.Fprintf(e.out, "%s does not take part: %s has no flag %s\n", c.name, filepath.Base(e.curfew), c.needs)
				continue
			}
		}
		out = append(out, c)
	}
	return out, nil
}

const (
	probeJobs   = 1500
	probePasses = 2
)

// probe finds the number of parallel calls that serves the bare loop best on this machine.
func (d *contest) probe(ctx context.Context) error {
	rates := map[int][]float64{}
	candidates := []int{8, 16, 32, 64, 128}
	for range probePasses {
		for _, parallel := range candidates {
			d.heats++
			h := heat{set: jobSet{prefix: fmt.Sprintf("h%d", d.heats), count: probeJobs}, parallel: parallel, due: time.Now(), resource: d.resource(), log: d.env.logPath("probe")}
			if err := d.load.create(ctx, h.set); err != nil {
				return fmt.Errorf("create Jobs for the probe: %w", err)
			}
			rate, err := d.bareRate(ctx, h)
			if err != nil {
				return fmt.Errorf("probe the bare loop: %w", err)
			}
			rates[parallel] = append(rates[parallel], rate)
		}
	}
	fmt.Fprint(d.env.out, "bare loop, deletes/s by parallel calls:")
	best := 0.0
	for _, parallel := range candidates {
		rate := median(rates[parallel])
		fmt.Fprintf(d.env.out, "  %d: %.0f", parallel, rate)
		if rate > best {
			best, d.env.parallel = rate, parallel
		}
	}
	fmt.Fprintf(d.env.out, "  -> %d\n", d.env.parallel)
	return nil
}

func (d *contest) bareRate(ctx context.Context, h heat) (float64, error) {
	return bareRate(ctx, d.env, h, startLoopTo)
}

// bystanderJobs is the number of Jobs that needs not be said in the names of the bystander's
// results.
const bystanderJobs = 10000

// summarize makes results of the measurements, as far as those who are compared took part.
func summarize(all []measurement, field []contestant, jobs int) []result {
	rates, p99 := map[string][]float64{}, map[string][]float64{}
	for _, m := range all {
		rates[m.Contestant] = append(rates[m.Contestant], m.PerSecond)
		p99[m.Contestant] = append(p99[m.Contestant], m.DrainP99)
	}
	about := map[string]string{}
	for _, c := range field {
		about[c.name] = c.about
		if slices.ContainsFunc(all, func(m measurement) bool { return m.Contestant == c.name && m.Deleted < jobs }) {
			about[c.name] += fmt.Sprintf(", over the first %.0f s", c.window.Seconds())
		}
	}
	var results []result
	against := func(name, unit string, values map[string][]float64, who, baseline string) {
		if len(values[who]) > 0 && len(values[baseline]) > 0 {
			results = append(results, compare(name, unit, values[who], about[baseline], values[baseline]))
		}
	}
	prefix := "drain.jobs." + sizeName(jobs) + "."
	variants := []struct{ infix, who string }{{"", theCurfew}, {"favour_drain.", theDrainer}, {"foreground.", theForeground}}
	for _, v := range variants {
		against(prefix+v.infix+"vs_limit", "deletes/s", rates, v.who, theLimit)
		against(prefix+v.infix+"vs_limit_as_curfew", "deletes/s", rates, v.who, theEqual)
		against(prefix+v.infix+"vs_intree_unthrottled", "deletes/s", rates, v.who, theUnbound)
		against(prefix+v.infix+"vs_intree_default", "deletes/s", rates, v.who, theDefault)
	}
	// For the record: how fast everybody was, all beside the limit.
	for _, who := range []string{theLimit, theEqual, theUnbound, theDefault} {
		against(prefix+who, "deletes/s", rates, who, theLimit)
	}
	bystander := "drain.bystander_p99."
	if jobs != bystanderJobs {
		bystander += sizeName(jobs) + "."
	}
	for _, v := range variants {
		against(bystander+v.infix+"vs_intree", "ms", p99, v.who, theUnbound)
	}
	against(bystander+"limit.vs_intree", "ms", p99, theLimit, theUnbound)
	return results
}

// sizeName is how a number stands in a result's name: 10k for 10,000.
func sizeName(n int) string {
	switch {
	case n == 0:
		return "0"
	case n%1_000_000 == 0:
		return strconv.Itoa(n/1_000_000) + "m"
	case n%1000 == 0:
		return strconv.Itoa(n/1000) + "k"
	default:
		return strconv.Itoa(n)
	}
}
