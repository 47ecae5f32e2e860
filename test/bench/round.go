package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// measurement is what one heat came to. It is written to .bench/runs-drain.json and
// .bench/runs-drain_many.json.
type measurement struct {
	Round      int    `json:"round"`
	Contestant string `json:"contestant"`
	// Deleted is how many Jobs were seen deleted, in Seconds from the first to the last.
	Deleted int     `json:"deleted"`
	Seconds float64 `json:"seconds"`
	// PerSecond is the rate of accepted DELETEs.
	PerSecond float64 `json:"perSecond"`
	// FirstAfter is the time from the due second to the first deletion, in seconds.
	FirstAfter float64 `json:"firstAfter"`
	// CPUSeconds is the processor time of the contestant's process, start and preparation included.
	CPUSeconds float64 `json:"cpuSeconds"`
	// CPU is the processor time by process that a deletion took, in microseconds, from the due second
	// on: the contestant's, the control plane's, and the client's, which is observer and bystander.
	CPU map[string]float64 `json:"cpu"`
	// Others is the share of the machine, 0 to 1, that processes which do not belong to the contest
	// took meanwhile. Where it is more than a few hundredths, the measurement tells of them.
	Others float64 `json:"others"`
	// Latencies of the bystander, in milliseconds: before anything was due, and while it was deleted.
	IdleP99  float64 `json:"idleP99"`
	DrainP50 float64 `json:"drainP50"`
	DrainP99 float64 `json:"drainP99"`
}

const (
	// quiet is the least time between the end of the preparation and the due second.
	quiet = 3 * time.Second
	// startup is what a contestant may take to start.
	startup = 4 * time.Second
	// settled is the time at its beginning that the bystander's idle latency leaves out.
	settled = time.Second
	// patience is how long a contestant without a window may take for 10,000 Jobs.
	patience = 3 * time.Minute
)

// errLate says that the preparation went on beyond the instant that was set for it.
var errLate = errors.New("the Jobs were not finished in time for the due second")

// run lets one contestant delete one set of Jobs. The process and its caches are up before the
// first Job finishes; the Jobs finish one by one, as they do, and all fall due in the same second.
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

func (d *contest) heat(ctx context.Context, c contestant, m *measurement, margin float64) (err error) {
	d.heats++
	set := jobSet{prefix: fmt.Sprintf("h%d", d.heats), count: d.jobs}
	defer func() {
		if ctx.Err() == nil {
			err = errors.Join(err, d.load.clear(ctx, set))
		}
	}()
	began := time.Now()
	if err := d.load.create(ctx, set); err != nil {
		return fmt.Errorf("create the Jobs: %w", err)
	}
	// To finish them takes about as long as to create them, or as last time. A whole second, as the
	// API knows no finer times.
	preparation := time.Duration(margin * float64(max(time.Since(began), d.finishing)))
	due := time.Now().Add(preparation + quiet + startup).Truncate(time.Second)
	// The bare loop needs no schedule.
	if at, coarse := d.load.(interface{ dueFrom(time.Time) time.Time }); coarse && !c.ends {
		due = at.dueFrom(due)
	}
	watching, err := d.load.observe(ctx, d.env.config, set)
	if err != nil {
		return err
	}
	defer watching.close()
	p, err := c.start(ctx, d.env, heat{set: set, due: due, parallel: d.env.parallel, resource: d.resource(), log: d.env.logPath(fmt.Sprintf("%s-%d", c.name, m.Round))})
	if err != nil {
		return err
	}
	defer func() { m.CPUSeconds = round(p.stop().Seconds()) }()
	began = time.Now()
	if err := d.load.finish(ctx, set, due); err != nil {
		return fmt.Errorf("finish the Jobs: %w", err)
	}
	finished := time.Now()
	d.finishing = finished.Sub(began)
	if due.Sub(finished) < quiet {
		return errLate
	}
	other := stand(ctx, d.bystander)
	waited := d.measure(ctx, c, p, watching, due, m)
	if err := errors.Join(waited, other.leave()); err != nil {
		return err
	}
	times := watching.times()
	slices.SortFunc(times, time.Time.Compare)
	if err := m.count(times, due, c.window, set.count); err != nil {
		return err
	}
	drain := other.between(due, times[len(times)-1])
	m.IdleP99 = round(percentile(other.between(finished.Add(settled), due), 0.99))
	m.DrainP50, m.DrainP99 = round(percentile(drain, 0.5)), round(percentile(drain, 0.99))
	return nil
}

// count makes a rate of the instants, which are sorted, at which deletions were seen, of so many
// that were to be.
func (m *measurement) count(times []time.Time, due time.Time, window time.Duration, want int) error {
	if len(times) < 2 {
		return fmt.Errorf("%d Jobs were deleted: no rate can be told", len(times))
	}
	first, last := times[0], times[len(times)-1]
	if first.Before(due) {
		return fmt.Errorf("a Job was deleted %s before it was due", due.Sub(first))
	}
	m.Deleted, m.Seconds, m.FirstAfter = len(times), round(last.Sub(first).Seconds()), round(first.Sub(due).Seconds())
	m.PerSecond = float64(len(times)-1) / last.Sub(first).Seconds()
	if window > 0 && len(times) < want {
		// Who is slow is given the whole window, or its last, lucky deletion would end it.
		m.PerSecond = float64(len(times)) / window.Seconds()
	}
	if math.IsInf(m.PerSecond, 0) {
		return errors.New("all deletions were seen at one instant: no rate can be told, let there be more Jobs")
	}
	m.PerSecond = round(m.PerSecond)
	return nil
}

// measure waits for the due second and until the contestant is through, and notes what else ran
// meanwhile.
func (d *contest) measure(ctx context.Context, c contestant, p *process, o *observer, due time.Time, m *measurement) error {
	if err := pause(ctx, time.Until(due)); err != nil {
		return err
	}
	named := d.env.processes()
	named[theContestant] = p.cmd.Process.Pid
	pids := slices.Collect(maps.Values(named))
	from, err := clock(pids)
	if err != nil {
		return err
	}
	before := used(named)
	if err := d.await(ctx, c, p, o, due); err != nil {
		return err
	}
	to, err := clock(pids)
	if err != nil {
		return err
	}
	after := used(named)
	if c.ends {
		// A process that ends by itself: then the kernel's count is gone, and its last word has it.
		<-p.ended
		if to, err = clock(pids); err != nil {
			return err
		}
		after[theContestant] = p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
		to.ours += int64(after[theContestant] / tick)
	}
	m.Others, m.CPU = round(others(from, to)), perObject(before, after, max(1, len(o.times())))
	return nil
}

// await returns when the contestant is through.
func (d *contest) await(ctx context.Context, c contestant, p *process, o *observer, due time.Time) error {
	limit := patience * time.Duration(max(1, d.jobs/10000))
	end, windowed := due.Add(limit), c.window > 0
	if windowed {
		end = due.Add(c.window)
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	ended := p.ended
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.full:
			return nil
		case <-o.done:
			return o.failure()
		case <-ended:
			if p.err != nil {
				return fmt.Errorf("%s ended: %w; its log is in %s", c.name, p.err, d.env.dir)
			}
			ended = nil // the bare loop is through; its last events may be under way
		case <-timer.C:
			if windowed {
				return nil
			}
			return fmt.Errorf("%s has deleted %d of %d Jobs in %s", c.name, len(o.times()), o.want, limit)
		}
	}
}
