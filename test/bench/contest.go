package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
)

// cargo is what falls due in a contest.
type cargo interface {
	// prepare creates the objects that all heats share.
	prepare(ctx context.Context) error
	create(ctx context.Context, set jobSet) error
	// finish makes all of the set due at one second.
	finish(ctx context.Context, set jobSet, due time.Time) error
	// clear deletes the remaining objects of a set.
	clear(ctx context.Context, set jobSet) error
	observe(ctx context.Context, set jobSet) (*observer, error)
	// resource names the objects for the bare loop.
	resource() string
}

// contest lets contestants handle the same number of objects by turns.
type contest struct {
	env   *environment
	name  string // of the bench
	cargo cargo
	field []contestant
	// perSecond is how many are due in each second; 0: all at once.
	perSecond int
	// bystander is another client; nil: none.
	bystander kubernetes.Interface

	heats     int
	finishing time.Duration // how long it took to finish the last set
}

// measurement is what one heat came to. It is written to .bench/runs-<bench>.json.
type measurement struct {
	Round      int    `json:"round"`
	Contestant string `json:"contestant"`
	// Done is how many objects were seen deleted or marked, in Seconds from the first to the last.
	Done    int     `json:"done"`
	Seconds float64 `json:"seconds"`
	// PerSecond is the rate.
	PerSecond float64 `json:"perSecond"`
	// FirstAfter is the time from the due second to the first, in seconds.
	FirstAfter float64 `json:"firstAfter"`
	// P50, P99 and Max are how late they were, in milliseconds.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
	// CPU is the processor time by process that an object took, in microseconds, from the due second
	// on: the contestant's, the control plane's, and the client's, which is observer and bystander.
	CPU map[string]float64 `json:"cpu"`
	// Others is the share of the machine, 0 to 1, that processes which do not belong to the contest
	// took meanwhile. Where it is more than a few hundredths, the measurement depends on them.
	Others float64 `json:"others"`
	// BystanderP99 is the bystander's latency meanwhile, in milliseconds.
	BystanderP99 float64 `json:"bystanderP99,omitempty"`
}

const (
	// quiet is the least time between the end of the preparation and the due second.
	quiet = 3 * time.Second
	// startup is what a contestant may take to start.
	startup = 2 * time.Second
	// patience is how long a contestant without a window may take for 10,000 objects.
	patience = 3 * time.Minute
)

// errLate says that the preparation went on beyond the instant that was set for it.
var errLate = errors.New("the objects were not finished in time for the due second")

// runAll lets the field take turns.
func (d *contest) runAll(ctx context.Context) ([]measurement, error) {
	e := d.env
	if e.contestants != "" {
		var err error
		if d.field, err = pick("-contestants", e.contestants, d.field, func(c contestant) string { return c.name }); err != nil {
			return nil, err
		}
	}
	if err := d.cargo.prepare(ctx); err != nil {
		return nil, err
	}
	var all []measurement
	for n := 1; n <= e.rounds; n++ {
		fmt.Fprintf(e.out, "round %d of %d\n", n, e.rounds)
		for i := range d.field {
			// Each round begins with another contestant, so that none always follows the same one.
			c := d.field[(i+n-1)%len(d.field)]
			m, err := d.run(ctx, c, n)
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", n, c.name, err)
			}
			fmt.Fprintf(e.out, "  %-20s%8.1f/s   first after %.3f s   late by p50 %.1f ms, p99 %.1f, most %.1f   bystander p99 %.1f ms   others %.0f%%   µs each: %s\n",
				c.name, m.PerSecond, m.FirstAfter, m.P50, m.P99, m.Max, m.BystanderP99, m.Others*100, showCPU(m.CPU))
			all = append(all, m)
			// Each time, so that a run that is cut short leaves what it has measured.
			if err := e.writeRuns(d.name, all); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// run lets one contestant handle one set of objects, with more time to prepare where that was short.
func (d *contest) run(ctx context.Context, c contestant, n int) (measurement, error) {
	m := measurement{Round: n, Contestant: c.name}
	for margin := 1.5; ; margin *= 2 {
		err := d.heat(ctx, c, &m, margin)
		if !errors.Is(err, errLate) || margin > 5 {
			return m, err
		}
		fmt.Fprintf(d.env.out, "  %v, once more with more time\n", err)
	}
}

// heat starts the process, whose caches are up before the first object finishes; the objects finish
// one by one, as they do, and fall due in the same second, or second by second.
func (d *contest) heat(ctx context.Context, c contestant, m *measurement, margin float64) (err error) {
	d.heats++
	set := jobSet{prefix: fmt.Sprintf("h%d", d.heats), count: d.env.objects}
	defer func() {
		if ctx.Err() == nil {
			err = errors.Join(err, d.cargo.clear(ctx, set))
		}
	}()
	began := time.Now()
	if err := d.cargo.create(ctx, set); err != nil {
		return fmt.Errorf("create the objects: %w", err)
	}
	// To finish them takes about as long as to create them, or as last time. A whole second, as the
	// API knows no finer times.
	preparation := time.Duration(margin * float64(max(time.Since(began), d.finishing)))
	due := time.Now().Add(preparation + quiet + startup).Truncate(time.Second)
	// The bare loop needs no schedule.
	if own, coarse := d.cargo.(interface{ dueFrom(time.Time) time.Time }); coarse && !c.ends {
		due = own.dueFrom(due)
	}
	watching, err := d.cargo.observe(ctx, set)
	if err != nil {
		return err
	}
	defer watching.close()
	p, err := c.start(ctx, d.env, heat{set: set, due: due, resource: d.cargo.resource(), perSecond: d.perSecond, log: d.env.logPath(fmt.Sprintf("%s-%s-%d", d.name, c.name, m.Round))})
	if err != nil {
		return err
	}
	defer p.stop()
	began = time.Now()
	for second, part := range set.parts(d.perSecond) {
		if err := d.cargo.finish(ctx, part, due.Add(time.Duration(second)*time.Second)); err != nil {
			return fmt.Errorf("finish the objects: %w", err)
		}
	}
	d.finishing = time.Since(began)
	if time.Until(due) < quiet {
		return errLate
	}
	if err := d.measure(ctx, c, p, watching, due, m); err != nil {
		return err
	}
	return m.count(watching.sightings(), set, due, d.perSecond, c.window)
}

// measure waits for the due second and until the contestant is through, and notes what else ran
// meanwhile.
func (d *contest) measure(ctx context.Context, c contestant, p *process, o *observer, due time.Time, m *measurement) error {
	if err := pause(ctx, time.Until(due)); err != nil {
		return err
	}
	named := d.env.processes()
	named[theContestant] = p.PID
	since, err := startMeter(named)
	if err != nil {
		return err
	}
	other := stand(ctx, d.bystander)
	if err := errors.Join(d.await(ctx, c, p, o, due), other.leave()); err != nil {
		return err
	}
	if c.ends {
		<-p.Ended()
		since.ended[theContestant] = p.State.UserTime() + p.State.SystemTime()
	}
	m.BystanderP99 = round(percentile(other.latencies, 0.99))
	m.CPU, m.Others, err = since.read(max(1, len(o.sightings())))
	return err
}

// theContestant is the name of the contestant's own processor time.
const theContestant = "contestant"

// await returns when the contestant is through.
func (d *contest) await(ctx context.Context, c contestant, p *process, o *observer, due time.Time) error {
	limit := patience * time.Duration(max(1, d.env.objects/10000))
	if c.window > 0 {
		limit = c.window
	}
	timer := time.NewTimer(time.Until(due.Add(limit)))
	defer timer.Stop()
	ended := p.Ended()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.full:
			return nil
		case <-o.ended:
			return o.failure()
		case <-ended:
			if p.Err() != nil || !c.ends {
				return fmt.Errorf("%s ended: %v; its log is in %s", c.name, p.Err(), d.env.dir)
			}
			ended = nil // the bare loop is through; its last events may be under way
		case <-timer.C:
			if c.window > 0 {
				return nil
			}
			return fmt.Errorf("%s has done %d of %d objects in %s", c.name, len(o.sightings()), o.want, limit)
		}
	}
}

// count makes a rate and lateness of what was seen, in order. The numbers of the objects tell in
// which second they were due.
func (m *measurement) count(seen []sighting, set jobSet, due time.Time, perSecond int, window time.Duration) error {
	if len(seen) < 2 {
		return fmt.Errorf("%d objects were done: no rate can be told", len(seen))
	}
	var late []float64
	for _, s := range seen {
		t := due
		if perSecond > 0 {
			number, err := strconv.Atoi(strings.TrimPrefix(s.name, set.prefix+"-"))
			if err != nil {
				return fmt.Errorf("read the number of %s: %w", s.name, err)
			}
			t = due.Add(time.Duration(number/perSecond) * time.Second)
		}
		if s.at.Before(t) {
			return fmt.Errorf("%s was done %s before it was due", s.name, t.Sub(s.at))
		}
		late = append(late, float64(s.at.Sub(t))/float64(time.Millisecond))
	}
	m.P50, m.P99, m.Max = round(percentile(late, 0.5)), round(percentile(late, 0.99)), round(slices.Max(late))
	first, last := seen[0].at, seen[len(seen)-1].at
	m.Done, m.Seconds, m.FirstAfter = len(seen), round(last.Sub(first).Seconds()), round(first.Sub(due).Seconds())
	m.PerSecond = float64(len(seen)-1) / last.Sub(first).Seconds()
	if window > 0 && len(seen) < set.count {
		// Who is slow is given the whole window, or its last, lucky deletion would end it.
		m.PerSecond = float64(len(seen)) / window.Seconds()
	}
	if math.IsInf(m.PerSecond, 0) {
		return errors.New("all were seen at one instant: no rate can be told, let there be more objects")
	}
	m.PerSecond = round(m.PerSecond)
	return nil
}

// series are the values of each contestant, in the order of the rounds.
func series(all []measurement, value func(measurement) float64) map[string][]float64 {
	out := map[string][]float64{}
	for _, m := range all {
		out[m.Contestant] = append(out[m.Contestant], value(m))
	}
	return out
}

func perSecond(m measurement) float64 { return m.PerSecond }

// against compares one contestant with another, if both took part.
func against(name, unit string, values map[string][]float64, who string, baseline contestant) []result {
	if len(values[who]) == 0 || len(values[who]) != len(values[baseline.name]) {
		return nil
	}
	about := baseline.about
	if baseline.window > 0 {
		about += fmt.Sprintf(", over the first %.0f s", baseline.window.Seconds())
	}
	return []result{compare(name, unit, values[who], about, values[baseline.name])}
}
