package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"curfew.dev/curfew/test/harness"
)

// restartOptions are the flags of the restart.
var restartOptions struct {
	jobs, rounds int
}

func init() {
	register(bench{
		name: "restart", about: "time from the lease to all timers armed", run: runRestart, position: 60,
		flags: func(fs *flag.FlagSet) {
			fs.IntVar(&restartOptions.jobs, "restart-jobs", 100000, "how many finished Jobs a restarted controller finds")
			fs.IntVar(&restartOptions.rounds, "restart-rounds", 5, "how many rounds; each lists the Jobs bare once and restarts the controller once")
		},
	})
}

// restartRun is one round. It is written to .bench/runs-restart.json.
type restartRun struct {
	Round int `json:"round"`
	// List is the bare paged list, Arm the time from the lease to all timers armed, in seconds.
	List float64 `json:"list"`
	Arm  float64 `json:"arm"`
}

func runRestart(ctx context.Context, e *environment) ([]result, error) {
	o := restartOptions
	if err := e.backlog(ctx, o.jobs); err != nil {
		return nil, err
	}
	// Not counted: it warms what both find warm later.
	if _, err := e.bareList(ctx, o.jobs); err != nil {
		return nil, err
	}
	var all []restartRun
	var list, arm []float64
	for n := 1; n <= o.rounds; n++ {
		run := restartRun{Round: n}
		for i := range 2 {
			var err error
			if (i+n)%2 == 0 {
				run.Arm, err = e.arm(ctx, o.jobs, n)
			} else {
				run.List, err = e.bareList(ctx, o.jobs)
			}
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", n, err)
			}
		}
		fmt.Fprintf(e.out, "round %d of %d: bare list %.2f s, from the lease to all timers armed %.2f s\n", n, o.rounds, run.List, run.Arm)
		all, list, arm = append(all, run), append(list, run.List), append(arm, run.Arm)
		if err := e.writeRuns("restart", all); err != nil {
			return nil, err
		}
	}
	return []result{compare("restart.arm_"+sizeName(o.jobs)+".vs_list", "s", arm, "bare paged list of the same Jobs", list)}, nil
}

// bareList tells how long the bare list takes, as Curfew's ServiceAccount.
func (e *environment) bareList(ctx context.Context, want int) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("find this program: %w", err)
	}
	var out bytes.Buffer
	log := e.logPath("list")
	p, err := launch(ctx, log, &out, self, listCommand, "--kubeconfig", e.curfewConfig)
	if err != nil {
		return 0, err
	}
	var report listReport
	if err := p.report(ctx, &out, log, &report); err != nil {
		return 0, fmt.Errorf("list bare: %w", err)
	}
	if report.Objects != want {
		return 0, fmt.Errorf("the bare list found %d Jobs of %d", report.Objects, want)
	}
	return report.Seconds, nil
}

// restartPatience is how long a controller may take to arm all timers.
const restartPatience = 2 * time.Minute

// arm restarts the controller and reads from its log how long it
// took from the lease until all Jobs were known. That they are all armed is asked of its metrics.
func (e *environment) arm(ctx context.Context, want, round int) (float64, error) {
	log := e.logPath(fmt.Sprintf("restart-%d", round))
	c, err := e.launchCurfew(ctx, log, e.curfewConfig)
	if err != nil {
		return 0, err
	}
	// In a regular end it hands the lease back, so that the next need not wait for it.
	defer c.stop()
	if err := c.awaitTracked(ctx, want, restartPatience); err != nil {
		return 0, fmt.Errorf("%w; its log is %s", err, log)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		return 0, fmt.Errorf("read the controller's log: %w", err)
	}
	took, err := fromLeaseToArmed(data, want)
	if err != nil {
		return 0, fmt.Errorf("%w in %s", err, log)
	}
	return took.Seconds(), nil
}

// fromLeaseToArmed finds the two instants in the controller's log. A kind is listed for labels,
// too, which these Jobs have not.
func fromLeaseToArmed(log []byte, jobs int) (time.Duration, error) {
	var lease, armed time.Time
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			At      time.Time `json:"ts"`
			Msg     string    `json:"msg"`
			Kind    string    `json:"kind"`
			Waiting int       `json:"waiting"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // of the runtime's
		}
		switch {
		case line.Msg == "Successfully acquired lease" && lease.IsZero():
			lease = line.At
		case line.Msg == "all objects are known" && line.Kind == "Job" && line.Waiting == jobs && armed.IsZero():
			armed = line.At
		}
	}
	if err := lines.Err(); err != nil {
		return 0, fmt.Errorf("read the controller's log: %w", err)
	}
	switch {
	case lease.IsZero():
		return 0, errors.New("the controller does not say when it got the lease")
	case armed.IsZero():
		return 0, errors.New("the controller does not say when it knew all Jobs")
	}
	return armed.Sub(lease), nil
}

// curfewProcess is a controller whose metrics and debug pages the bench reads.
type curfewProcess struct {
	*process
	metrics, debug string // addresses
}

// launchCurfew starts the controller as the manifests do, with the kubeconfig and further flags,
// and returns when it leads: no measurement includes the wait for the lease.
func (e *environment) launchCurfew(ctx context.Context, log, kubeconfig string, flags ...string) (*curfewProcess, error) {
	addresses, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	// Not as in the manifests: it runs beside the control plane, and is profiled.
	args, err := harness.ShippedArgs(e.root, "controller", append([]string{"--kubeconfig", kubeconfig,
		"--health-addr", addresses[0], "--metrics-addr", addresses[1], "--pprof-addr", addresses[2]}, flags...)...)
	if err != nil {
		return nil, err
	}
	p, err := launch(ctx, log, nil, e.curfew, args...)
	if err != nil {
		return nil, err
	}
	c := &curfewProcess{process: p, metrics: addresses[1], debug: addresses[2]}
	err = p.awaitHealthy(ctx, http.DefaultClient, "http://"+addresses[0]+"/readyz")
	if err == nil {
		err = c.awaitLease(ctx)
	}
	if err != nil {
		p.stop()
		return nil, fmt.Errorf("start Curfew: %w; its log is %s", err, log)
	}
	return c, nil
}

// leasePatience is longer than the lease of a controller that was killed.
const leasePatience = 30 * time.Second

// awaitLease returns when the controller leads.
func (c *curfewProcess) awaitLease(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	for {
		samples, err := scrape(ctx, http.DefaultClient, "http://"+c.metrics+"/metrics")
		for series, value := range samples {
			if strings.HasPrefix(series, "leader_election_master_status{") && value == 1 {
				return nil
			}
		}
		select {
		case <-c.ended:
			return fmt.Errorf("it ended: %w", c.err)
		default:
		}
		if pause(ctx, 50*time.Millisecond) != nil {
			return fmt.Errorf("it does not lead after %s (%v)", leasePatience, err)
		}
	}
}

// awaitTracked returns when so many Jobs are tracked.
func (c *curfewProcess) awaitTracked(ctx context.Context, want int, patience time.Duration) error {
	return c.awaitTrackedOf(ctx, "Job", want, patience)
}

func (c *curfewProcess) awaitTrackedOf(ctx context.Context, kind string, want int, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		samples, err := scrape(ctx, http.DefaultClient, "http://"+c.metrics+"/metrics")
		got := 0.0
		for series, value := range samples {
			if strings.HasPrefix(series, "curfew_tracked_objects{") && strings.Contains(series, `kind="`+kind+`"`) {
				got += value
			}
		}
		switch {
		case err == nil && int(got) == want:
			return nil
		case err == nil && int(got) > want:
			return fmt.Errorf("Curfew tracks %.0f %ss of %d", got, kind, want)
		}
		select {
		case <-c.ended:
			return fmt.Errorf("Curfew ended: %w", c.err)
		default:
		}
		if pause(ctx, 250*time.Millisecond) != nil {
			return fmt.Errorf("Curfew tracks %.0f %ss of %d after %s (%v)", got, kind, want, patience, err)
		}
	}
}
